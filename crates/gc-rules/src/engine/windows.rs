//! The series of one process: fed with each sample, read when a condition needs them.

use std::collections::HashMap;
use std::sync::Arc;

use super::filters::Filters;
use super::run::Failure;
use crate::expression::Truth;
use crate::field::{Scope, WindowValues};
use crate::plan::{Meaning, Measured, SeriesFeed, When};
use crate::rule::{Rule, Window};
use crate::rule_set::RuleSet;
use crate::time::Moment;
use crate::window::{Asked, Key, Live, Occasions, Worth, most_memory, worth};

/// The place of a series that no selected rule uses.
const UNUSED: u32 = u32::MAX;

/// The samples that the windows of selected rules look at. See [`plan`](crate::plan).
#[derive(Debug)]
pub(super) struct Windows {
    rules: Arc<RuleSet>,
    /// Of each series of the plan its place in `live`, [`UNUSED`] if no selected rule uses it.
    places: Box<[u32]>,
    /// The used series alone: an eighth of the shipped ones are for containers, limits and services.
    live: Vec<Live>,
    /// Of each time and length of the plan, when samples were taken; `None`: no used series has it.
    occasions: Box<[Option<Occasions>]>,
    /// Which filters hold for collections of the newest kinds.
    filters: Filters,
    /// When the next sample of any of them expires.
    expires: Moment,
    /// Series with failed evaluations: number of samples, and the newest failure.
    failed: Vec<(usize, u64, Failure)>,
}

impl Windows {
    /// Those of a rule set, without samples.
    pub(super) fn new(rules: &Arc<RuleSet>) -> Self {
        Self {
            places: vec![UNUSED; rules.plan.series.len()].into_boxed_slice(),
            live: Vec::new(),
            occasions: rules.plan.occasions.iter().map(|_| None).collect(),
            filters: Filters::default(),
            expires: Moment::NEVER,
            failed: Vec::new(),
            rules: Arc::clone(rules),
        }
    }

    /// Those of another rule set, with the samples of series that both have and use. [`Self::select`] selects the used
    /// ones.
    #[expect(
        clippy::mutable_key_type,
        reason = "a pattern is hashed by its text, which does not change"
    )]
    pub(super) fn adopt(self, rules: &Arc<RuleSet>) -> Self {
        let before = self.rules.plan.meanings(&self.rules.windows).zip(&self.places);
        let mut occasions: HashMap<(When, u64), Occasions> = self
            .rules
            .plan
            .occasions
            .iter()
            .zip(self.occasions)
            .filter_map(|(of, occasions)| Some((*of, occasions?)))
            .collect();
        let mut live: Vec<Option<Live>> = self.live.into_iter().map(Some).collect();
        let mut kept: HashMap<Meaning<'_>, Live> = before
            .filter_map(|(meaning, place)| Some((meaning, live.get_mut(*place as usize)?.take()?)))
            .collect();
        let mut adopted = Self::new(rules);
        adopted.live.reserve_exact(kept.len());
        for (place, meaning) in adopted.places.iter_mut().zip(rules.plan.meanings(&rules.windows)) {
            if let Some(kept) = kept.remove(&meaning) {
                *place = next_place(&adopted.live);
                adopted.live.push(kept);
            }
        }
        for (of, place) in rules.plan.occasions.iter().zip(&mut adopted.occasions) {
            *place = occasions.remove(of);
        }
        adopted.expires = Moment::FIRST;
        adopted
    }

    /// Feeds only the series of these rules from now on. New ones began at `now`.
    pub(super) fn select<'r>(&mut self, rules: impl Iterator<Item = &'r Rule>, now: Moment) {
        let mut used = vec![false; self.places.len()];
        let plan = &self.rules.plan;
        for (_, window) in rules.flat_map(|rule| &rule.windows) {
            if let Some(used) = plan.of_window.get(*window).and_then(|series| used.get_mut(*series)) {
                *used = true;
            }
        }
        if self
            .places
            .iter()
            .zip(&used)
            .all(|(place, used)| (*place != UNUSED) == *used)
        {
            return;
        }
        let mut before: Vec<Option<Live>> = std::mem::take(&mut self.live).into_iter().map(Some).collect();
        self.live.reserve_exact(used.iter().filter(|used| **used).count());
        for (place, used) in self.places.iter_mut().zip(used.iter().copied()) {
            let kept = before.get_mut(*place as usize).and_then(Option::take);
            *place = UNUSED;
            if used {
                *place = next_place(&self.live);
                self.live.push(kept.unwrap_or_else(|| Live::new(now)));
            }
        }
        let mut counted = vec![false; self.occasions.len()];
        for occasions in plan.occasions_of.iter().zip(used).filter(|(_, used)| *used) {
            if let Some(counted) = occasions.0.and_then(|place| counted.get_mut(place)) {
                *counted = true;
            }
        }
        for ((place, (_, ns)), counted) in self.occasions.iter_mut().zip(&plan.occasions).zip(counted) {
            *place = place.take().or_else(|| Some(Occasions::over(*ns))).filter(|_| counted);
        }
    }

    /// Removes expired samples; before anything is sampled or read at that time.
    pub(super) fn expire(&mut self, now: Moment) {
        if now < self.expires {
            return;
        }
        let live = self.live.iter_mut().map(|live| live.expire(now));
        let occasions = self
            .occasions
            .iter_mut()
            .flatten()
            .map(|occasions| occasions.expire(now));
        self.expires = live.chain(occasions).min().unwrap_or(Moment::NEVER);
    }

    /// Whether a selected rule uses one of its series.
    fn uses(&self, measured: &Measured) -> bool {
        let places = self.places.get(measured.series()).unwrap_or_default();
        places.iter().any(|place| *place != UNUSED)
    }

    pub(super) fn has_ticks(&self) -> bool {
        let mut feeds = self.rules.plan.feeds.iter();
        feeds.any(|feed| feed.when == When::Tick && feed.measured.iter().any(|measured| self.uses(measured)))
    }

    /// Adds a sample to each series that is sampled then. Series by key ignore samples without a key.
    pub(super) fn sample(&mut self, when: When, key: Option<Key>, scope: &Scope<'_>, time: Moment) {
        let rules = Arc::clone(&self.rules);
        let mut filters = std::mem::take(&mut self.filters);
        let mut truths = filters.of_current(scope, rules.plan.feeds.len());
        let sample = Sampled { key, scope, time };
        let feeds = rules.plan.feeds.iter().enumerate();
        for (place, feed) in feeds.filter(|(_, feed)| feed.when == when) {
            let filter = || match &feed.filter {
                Some(filter) if feed.of_kind => truths.of(place, filter, scope),
                Some(filter) => filter.holds(scope),
                None => Ok(Some(true)),
            };
            self.feed(feed, filter, &sample);
        }
        self.filters = filters;
        for ((of, _), occasions) in rules.plan.occasions.iter().zip(&mut self.occasions) {
            if let (true, Some(occasions)) = (*of == when, occasions) {
                self.expires = self.expires.min(occasions.add(time, scope.now));
            }
        }
    }

    /// Adds a sample to the used series of a feed. Its filter and values are evaluated where one of them is.
    fn feed(&mut self, feed: &SeriesFeed, mut filter: impl FnMut() -> Truth, sample: &Sampled<'_>) {
        let mut fulfilled = None;
        for measured in &feed.measured {
            let mut known = None;
            for series in measured.series() {
                let Some(place) = self.places.get(series).filter(|place| **place != UNUSED) else {
                    continue;
                };
                let place = *place as usize;
                let worth = *known.get_or_insert_with(|| {
                    let worth = match *fulfilled.get_or_insert_with(&mut filter) {
                        Ok(Some(true)) => worth(measured.of.as_ref(), sample.scope),
                        Ok(Some(false)) => Ok(Worth::Not),
                        Ok(None) => Ok(Worth::Unknown),
                        Err(error) => Err(error),
                    };
                    worth.unwrap_or_else(|error| {
                        let failure = Failure { error, at: sample.time };
                        failed(&mut self.failed, measured, failure);
                        Worth::Unknown
                    })
                });
                self.add(series, place, measured.counting.contains(&series), worth, sample);
            }
        }
    }

    fn add(&mut self, series: usize, place: usize, counts: bool, worth: Worth, sample: &Sampled<'_>) {
        let Some(live) = self.live.get_mut(place) else { return };
        let worth = match worth {
            Worth::Counts(_) if counts => Worth::Counts(1.0),
            other => other,
        };
        let (key, time, now) = (sample.key, sample.time, sample.scope.now);
        let expires = live.add(counts, worth, time, now).unwrap_or_else(|| {
            let window = self.rules.plan.series.get(series);
            let window = window.and_then(|window| self.rules.windows.get(*window));
            let occasions = occasions_of(&self.rules, &self.occasions, series);
            window.map_or(Moment::NEVER, |window| {
                live.begin(window, key, worth, (time, now), occasions)
            })
        });
        self.expires = self.expires.min(expires);
    }

    /// Samples of the windows of `rule` that could not be evaluated.
    pub(super) fn failures(&self, rule: &Rule) -> (u64, Option<Failure>) {
        let plan = &self.rules.plan;
        let looks_at = |series: usize| {
            let mut windows = rule.windows.iter();
            windows.any(|(_, window)| plan.of_window.get(*window) == Some(&series))
        };
        let failed = self.failed.iter().filter(|(series, ..)| looks_at(*series));
        let newest = failed.clone().map(|(.., failure)| *failure);
        (
            failed.map(|(_, count, _)| count).sum(),
            newest.max_by_key(|failure| failure.at),
        )
    }

    /// The window values at that time; for windows by key, those of `key`.
    pub(super) fn values(&self, key: Option<Key>, at: Asked) -> Values<'_> {
        Values { windows: self, key, at }
    }

    pub(super) fn memory(&self) -> usize {
        let occasions = self.occasions.iter().flatten().map(Occasions::memory);
        self.live.iter().map(Live::memory).chain(occasions).sum()
    }

    /// Of each series, the place of its window in the set, and the bytes that it takes at most.
    pub(super) fn most_memory(rules: &RuleSet) -> impl Iterator<Item = (usize, usize)> {
        let one = |window: &Window| size_of::<Live>() + size_of::<u32>() + most_memory(window);
        let plan = &rules.plan;
        let series = (0..).zip(plan.series.iter().zip(&plan.occasions_of));
        series.filter_map(move |(series, (place, occasions))| {
            // Those of several are of the first.
            let first = occasions.filter(|_| plan.occasions_of.iter().position(|one| one == occasions) == Some(series));
            let occasions = first.and_then(|place| plan.occasions.get(place));
            let memory = |ns| size_of::<Option<Occasions>>() + Occasions::over(ns).most_memory();
            let occasions = occasions.map_or(0, |(_, ns)| memory(*ns));
            Some((*place, one(rules.windows.get(*place)?) + occasions))
        })
    }
}

/// What series are sampled on.
struct Sampled<'s> {
    key: Option<Key>,
    scope: &'s Scope<'s>,
    time: Moment,
}

/// A sample of series could not be evaluated.
fn failed(failures: &mut Vec<(usize, u64, Failure)>, measured: &Measured, failure: Failure) {
    for series in measured.series() {
        match failures.iter_mut().find(|(known, ..)| *known == series) {
            Some((_, count, newest)) => {
                *count = count.saturating_add(1);
                *newest = failure;
            }
            None => failures.push((series, 1, failure)),
        }
    }
}

/// When samples of a series were taken.
fn occasions_of<'o>(rules: &RuleSet, occasions: &'o [Option<Occasions>], series: usize) -> Option<&'o Occasions> {
    occasions.get((*rules.plan.occasions_of.get(series)?)?)?.as_ref()
}

/// The place of the next series. Their memory is limited long before there are so many.
fn next_place(live: &[Live]) -> u32 {
    u32::try_from(live.len()).unwrap_or(UNUSED)
}

/// The windows of one process at one time. Values are computed on demand: most conditions are decided without most of
/// theirs.
#[derive(Debug)]
pub(super) struct Values<'a> {
    windows: &'a Windows,
    key: Option<Key>,
    at: Asked,
}

impl WindowValues for Values<'_> {
    fn value(&self, place: usize) -> Option<f64> {
        let rules = &self.windows.rules;
        let series = *rules.plan.of_window.get(place)?;
        let live = self.windows.live.get(*self.windows.places.get(series)? as usize)?;
        let occasions = occasions_of(rules, &self.windows.occasions, series);
        live.value(rules.windows.get(place)?, self.key, self.at, occasions)
    }
}
