//! How the windows of a rule set are fed: computed once, used for every process.
//!
//! ```text
//! sample -> filter (once) -> measured value (once) -> series -> values of the windows on it
//! ```
//!
//! Many windows of a rule set use the same samples: the same condition, value and extent. Their samples are a series,
//! and windows whose functions can use one series (count, ratio and rate; slope and r2; median and mad) share it. Equal
//! conditions and values are evaluated once for each sample, however many series they feed; a value is only evaluated
//! if its condition is true.

use std::collections::HashMap;

use super::expression::Expression;
use super::field::Root;
use super::rule::{By, Extent, Window};
use super::window::Class;

/// When series are sampled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum When {
    /// At each collection, before the conditions.
    Gc,
    /// At each collection, after the conditions: it is compared with those before it.
    Keyed,
    /// At each stop without a collection.
    Suspension,
    /// At each tick.
    Tick,
}

impl When {
    fn of(window: &Window) -> Self {
        match (window.sampled, window.by) {
            (Root::Gc, By::Nothing) => Self::Gc,
            (Root::Gc, By::GenerationAndType) => Self::Keyed,
            (Root::Suspension, _) => Self::Suspension,
            _ => Self::Tick,
        }
    }
}

/// What a series is of: windows of which all of it is the same share one, and its samples are kept over a reload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Meaning<'w> {
    when: When,
    filter: Option<&'w Expression>,
    of: Option<&'w Expression>,
    extent: Extent,
    class: Class,
}

impl<'w> Meaning<'w> {
    fn of(window: &'w Window) -> Self {
        Self {
            when: When::of(window),
            filter: window.filter.as_ref(),
            of: window.of.as_ref(),
            extent: window.extent,
            class: Class::of(window),
        }
    }
}

/// Series with one condition. Expressions are named by a window that has them.
#[derive(Debug, Clone)]
pub struct SeriesFeed {
    /// When they are sampled.
    pub when: When,
    /// The window whose filter it is.
    pub filtered: usize,
    /// Their measured values.
    pub measured: Vec<Measured>,
}

/// Series of a feed with one measured value.
#[derive(Debug, Clone)]
pub struct Measured {
    /// The window whose value it is.
    pub by: usize,
    /// Series that also know samples for which the condition is false.
    pub counting: Vec<usize>,
    /// The others.
    pub measuring: Vec<usize>,
}

/// The feeds and series of a rule set.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    /// Its feeds: those of one time together.
    pub feeds: Vec<SeriesFeed>,
    /// Of each series, a window on it.
    pub series: Vec<usize>,
    /// Of each window, its series.
    pub of_window: Vec<usize>,
}

impl Plan {
    /// That of these windows.
    #[expect(
        clippy::mutable_key_type,
        reason = "a pattern is hashed by its text, which does not change"
    )]
    pub fn new(windows: &[Window]) -> Self {
        let mut plan = Self::default();
        let mut series: HashMap<Meaning<'_>, usize> = HashMap::new();
        let mut feeds: HashMap<(When, Option<&Expression>), usize> = HashMap::new();
        for (place, window) in windows.iter().enumerate() {
            let meaning = Meaning::of(window);
            let known = plan.series.len();
            let own = *series.entry(meaning).or_insert(known);
            plan.of_window.push(own);
            if own != known {
                continue;
            }
            plan.series.push(place);
            let next = plan.feeds.len();
            let feed = *feeds.entry((meaning.when, meaning.filter)).or_insert(next);
            if feed == next {
                plan.feeds.push(SeriesFeed {
                    when: meaning.when,
                    filtered: place,
                    measured: Vec::new(),
                });
            }
            if let Some(feed) = plan.feeds.get_mut(feed) {
                feed.add(windows, place, meaning, own);
            }
        }
        plan.in_order_of_feeding()
    }

    /// What each series means, of the windows that this plan was made of.
    pub fn meanings<'w>(&self, windows: &'w [Window]) -> impl Iterator<Item = Meaning<'w>> {
        self.series
            .iter()
            .filter_map(|window| windows.get(*window))
            .map(Meaning::of)
    }

    /// The same with series numbered as they are fed: those of a process lie one behind the other, and it is gone
    /// through them forwards.
    fn in_order_of_feeding(mut self) -> Self {
        let measured = || self.feeds.iter().flat_map(|feed| &feed.measured);
        let order: Vec<usize> = measured()
            .flat_map(|measured| measured.counting.iter().chain(&measured.measuring))
            .copied()
            .collect();
        let mut number = vec![0; order.len()];
        for (new, old) in order.iter().enumerate() {
            if let Some(number) = number.get_mut(*old) {
                *number = new;
            }
        }
        let renumber = |series: &mut usize| *series = number.get(*series).copied().unwrap_or(*series);
        self.series = order.iter().filter_map(|old| self.series.get(*old).copied()).collect();
        self.of_window.iter_mut().for_each(renumber);
        for measured in self.feeds.iter_mut().flat_map(|feed| &mut feed.measured) {
            let fed = measured.counting.iter_mut().chain(&mut measured.measuring);
            fed.for_each(renumber);
        }
        self
    }
}

impl SeriesFeed {
    fn add(&mut self, windows: &[Window], place: usize, meaning: Meaning<'_>, series: usize) {
        let same = |measured: &Measured| {
            let window = windows.get(measured.by);
            window.is_some_and(|window| window.of.as_ref() == meaning.of)
        };
        let known = self.measured.iter().position(same).unwrap_or_else(|| {
            self.measured.push(Measured {
                by: place,
                counting: Vec::new(),
                measuring: Vec::new(),
            });
            self.measured.len() - 1
        });
        if let Some(measured) = self.measured.get_mut(known) {
            let fed = if meaning.class.counts() {
                &mut measured.counting
            } else {
                &mut measured.measuring
            };
            fed.push(series);
        }
    }
}
