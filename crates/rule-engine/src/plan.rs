//! Assignment of samples to the windows of a rule set, computed once and used for every process.
//!
//! ```text
//! sample -> filter (once) -> measured value (once) -> series -> values of the windows on it
//! ```
//!
//! Many windows of a rule set use the same samples: the same condition, value and extent. These samples form a series.
//! Windows share a series if their functions can be computed from the same retained data, such as count, ratio and
//! rate. Equal conditions and values are evaluated once per sample, even if they feed several series. A value is
//! evaluated only if its condition is true. The parts of a condition that are the same for all collections of one kind
//! are evaluated separately; if they are false, the other parts are not evaluated.

use std::collections::HashMap;
use std::ops::Range;

use super::conditions::divide;
use super::expression::{Expression, Node};
use super::field::{Kind, Root};
use super::rule::{ComparisonKey, Extent, Window};
use super::value::Type;
use super::window::Class;

/// The time at which series are sampled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SampleTrigger {
    /// Each collection, before the conditions are evaluated.
    Gc,
    /// Each collection, after the conditions are evaluated, so that the collection is compared only with earlier
    /// collections.
    Keyed,
    /// Each suspension without a collection.
    Suspension,
    /// Each tick.
    Tick,
}

impl SampleTrigger {
    const COUNT: usize = 4;

    fn for_window(window: &Window) -> Self {
        match (window.sampled, window.by) {
            (Root::Gc, ComparisonKey::Nothing) => Self::Gc,
            (Root::Gc, ComparisonKey::GenerationAndType) => Self::Keyed,
            (Root::Suspension, _) => Self::Suspension,
            _ => Self::Tick,
        }
    }
}

/// The identity of a series. Windows with the same identity share a series, and its samples survive a reload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Meaning<'w> {
    when: SampleTrigger,
    filter: Option<&'w Expression>,
    of: Option<&'w Expression>,
    extent: Extent,
    class: Class,
}

impl<'w> Meaning<'w> {
    fn from_window(window: &'w Window) -> Self {
        Self {
            when: SampleTrigger::for_window(window),
            filter: window.filter.as_ref(),
            of: window.of.as_ref(),
            extent: window.extent,
            class: Class::for_window(window),
        }
    }
}

/// Series with the same condition, which has up to two parts. A sample matches if both parts are true.
#[derive(Debug, Clone)]
pub struct SeriesFeed {
    /// Time at which the series are sampled.
    pub when: SampleTrigger,
    /// Part of the condition that is the same for all collections of one kind (`field::Kind`); `None` if there is no
    /// such part.
    pub of_kind: Option<Expression>,
    /// Part of the condition that must be evaluated for each sample; `None` if there is no such part.
    pub of_each: Option<Expression>,
    /// Measured values of the series, as indexes in [`Plan::measured`].
    pub measured: Range<usize>,
}

/// The consecutive series of a feed that have the same measured value.
#[derive(Debug, Clone)]
pub struct MeasuredSeries {
    /// The value; `None` if no value is measured.
    pub of: Option<Expression>,
    /// Index of the first series. The series before `measuring` also receive samples for which the condition is false.
    counting: u32,
    measuring: u32,
    end: u32,
}

impl MeasuredSeries {
    /// Returns the indexes of the series.
    pub fn series(&self) -> Range<usize> {
        self.counting as usize..self.end as usize
    }

    /// Returns whether a series also receives samples for which the condition is false.
    pub fn counts(&self, series: usize) -> bool {
        series < self.measuring as usize
    }
}

/// The feeds and series of a rule set. Data that every collection needs is stored contiguously.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    /// All feeds, grouped by time.
    feeds: Vec<SeriesFeed>,
    /// For each time, the indexes of its feeds.
    feeds_at: [Range<usize>; SampleTrigger::COUNT],
    /// The measured values of all feeds.
    pub measured: Vec<MeasuredSeries>,
    /// For each series, the index of its first window.
    pub series: Vec<usize>,
    /// For each window, the index of its series.
    pub of_window: Vec<usize>,
    /// The distinct times and lengths, in nanoseconds, of series over time.
    pub occasions: Vec<(SampleTrigger, u64)>,
    /// For each series, the index of its time and length in `occasions`; `None` for series over a number of samples, or
    /// by key.
    pub occasions_of: Vec<Option<usize>>,
}

impl Plan {
    /// Creates the plan of these windows. Series are numbered in the order in which they are fed, so that the series of
    /// a process are contiguous and are accessed in order.
    #[expect(
        clippy::mutable_key_type,
        reason = "a pattern is hashed by its text, which does not change"
    )]
    pub fn new(windows: &[Window]) -> Self {
        let mut known: HashMap<Meaning<'_>, usize> = HashMap::new();
        let mut filters: HashMap<(SampleTrigger, Option<&Expression>), usize> = HashMap::new();
        let mut values: HashMap<(usize, Option<&Expression>), usize> = HashMap::new();
        let mut order: Vec<FeedEntry> = Vec::new();
        let numbered = windows.iter().enumerate().map(|(window, meant)| {
            let meaning = Meaning::from_window(meant);
            let (next_filter, next_value) = (filters.len(), values.len());
            *known.entry(meaning).or_insert_with(|| {
                let filter = *filters.entry((meaning.when, meaning.filter)).or_insert(next_filter);
                order.push(FeedEntry {
                    when: meaning.when,
                    filter,
                    value: *values.entry((filter, meaning.of)).or_insert(next_value),
                    measures: !meaning.class.counts(),
                    window,
                });
                window
            })
        });
        let firsts: Vec<usize> = numbered.collect();
        order.sort_unstable();
        let number: HashMap<usize, usize> = order.iter().map(|fed| fed.window).zip(0..).collect();
        let (feeds, measured) = feeds(&order, windows);
        let feeds_at = [
            SampleTrigger::Gc,
            SampleTrigger::Keyed,
            SampleTrigger::Suspension,
            SampleTrigger::Tick,
        ]
        .map(|when| {
            let before = feeds.partition_point(|feed| feed.when < when);
            before..feeds.partition_point(|feed| feed.when <= when)
        });
        let plan = Self {
            feeds,
            feeds_at,
            measured,
            series: order.iter().map(|fed| fed.window).collect(),
            of_window: firsts.iter().filter_map(|first| number.get(first).copied()).collect(),
            ..Self::default()
        };
        plan.with_occasions(windows)
    }

    fn with_occasions(mut self, windows: &[Window]) -> Self {
        let occasions_of = self.series.iter().map(|window| {
            let window = windows.get(*window)?;
            let (Extent::Over(ns), ComparisonKey::Nothing) = (window.extent, window.by) else {
                return None;
            };
            let of = (SampleTrigger::for_window(window), ns);
            let known = self.occasions.iter().position(|known| *known == of);
            Some(known.unwrap_or_else(|| {
                self.occasions.push(of);
                self.occasions.len() - 1
            }))
        });
        self.occasions_of = occasions_of.collect();
        self
    }

    /// Returns the feeds that are sampled at this time, each with its index among all feeds.
    pub fn feeds_at(&self, when: SampleTrigger) -> impl Iterator<Item = (usize, &SeriesFeed)> {
        let places = self.feeds_at.get(when as usize).cloned().unwrap_or_default();
        let feeds = self.feeds.get(places.clone()).unwrap_or_default();
        places.zip(feeds)
    }

    /// Returns the number of feeds.
    pub fn feeds(&self) -> usize {
        self.feeds.len()
    }

    /// Returns the measured values of a feed.
    pub fn measured_of(&self, feed: &SeriesFeed) -> &[MeasuredSeries] {
        self.measured.get(feed.measured.clone()).unwrap_or_default()
    }

    /// Returns the identity of each series. `windows` must be the windows of this plan.
    pub fn meanings<'w>(&self, windows: &'w [Window]) -> impl Iterator<Item = Meaning<'w>> {
        self.series
            .iter()
            .filter_map(|window| windows.get(*window))
            .map(Meaning::from_window)
    }
}

/// An entry for one series. Entries are sorted in the order of feeding: by time of sampling, filter and value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct FeedEntry {
    when: SampleTrigger,
    filter: usize,
    value: usize,
    measures: bool,
    /// First window of the series.
    window: usize,
}

/// Returns whether a condition is the same for all collections of one [`Kind`].
fn is_of_kind(part: &Node) -> bool {
    !part.any(&|node| match node {
        Node::Field(field) => !Kind::decides(field),
        Node::Attribute(_) | Node::Firing(_) | Node::Window(_) => true,
        _ => false,
    })
}

/// Splits a condition into the part that is the same for all collections of one [`Kind`], and the remaining part. A
/// part is `None` if it contains no conditions.
pub(crate) fn divided(condition: &Expression) -> (Option<Expression>, Option<Expression>) {
    let mut parts = Vec::new();
    divide(&condition.node, &mut |part| parts.push(part));
    let (of_kind, of_each): (Vec<&Node>, Vec<&Node>) = parts.into_iter().partition(|part| is_of_kind(part));
    (all_of(of_kind), all_of(of_each))
}

fn all_of(parts: Vec<&Node>) -> Option<Expression> {
    let node = match *parts {
        [] => return None,
        [part] => part.clone(),
        _ => Node::And(parts.into_iter().cloned().collect()),
    };
    Some(Expression { kind: Type::Bool, node })
}

fn feeds(order: &[FeedEntry], windows: &[Window]) -> (Vec<SeriesFeed>, Vec<MeasuredSeries>) {
    let (mut feeds, mut measured) = (Vec::new(), Vec::new());
    let mut number = 0;
    for fed in order.chunk_by(|a, b| a.filter == b.filter) {
        let first_measured = measured.len();
        for fed in fed.chunk_by(|a, b| a.value == b.value) {
            let window = fed.first().and_then(|series| windows.get(series.window));
            let place = |series: usize| u32::try_from(number + series).unwrap_or(u32::MAX);
            measured.push(MeasuredSeries {
                of: window.and_then(|window| window.of.clone()),
                counting: place(0),
                measuring: place(fed.partition_point(|series| !series.measures)),
                end: place(fed.len()),
            });
            number += fed.len();
        }
        feeds.extend(fed.first().map(|first| {
            let filter = windows.get(first.window).and_then(|window| window.filter.as_ref());
            let (of_kind, of_each) = filter.map_or((None, None), divided);
            SeriesFeed {
                when: first.when,
                of_kind,
                of_each,
                measured: first_measured..measured.len(),
            }
        }));
    }
    (feeds, measured)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expression::{Comparison, Double};
    use crate::field::Field;

    fn compare(field: &str, comparison: Comparison, with: Node) -> Node {
        let field = Field::find(field).unwrap();
        Node::Compare(comparison, Box::new((Node::Field(field), with)))
    }

    /// Scenario: a condition has parts on the kind of a collection, on its figures, and on both; some parts are in a
    /// nested condition.
    /// Guarantee: parts that depend only on the kind are separate, and no part is lost.
    #[test]
    fn filter_is_split_by_dependence_on_kind() {
        let full = compare("gc.generation", Comparison::Equal, Node::Int(2));
        let blocking = Node::Not(Box::new(compare(
            "gc.type",
            Comparison::Equal,
            Node::Text("background".into()),
        )));
        let long = compare("gc.pause_ms", Comparison::Greater, Node::Double(Double(5.0)));
        let either = Node::Or([full.clone(), long.clone()].into());
        let all = |parts: &[&Node]| all_of(parts.to_vec());
        let filter = all(&[&full, &Node::And([long.clone(), blocking.clone()].into()), &either]).unwrap();
        assert_eq!(divided(&filter), (all(&[&full, &blocking]), all(&[&long, &either])));
        assert_eq!(divided(&all(&[&full]).unwrap()), (all(&[&full]), None));
        assert_eq!(divided(&all(&[&long]).unwrap()), (None, all(&[&long])));
    }
}
