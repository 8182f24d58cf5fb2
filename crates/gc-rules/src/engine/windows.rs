//! The series of one process: fed with each sample, read when a condition needs them.

use std::collections::HashMap;
use std::sync::Arc;

use super::run::Failure;
use crate::field::{Scope, WindowValues};
use crate::plan::{Feed, Meaning, Measured, When};
use crate::rule::{Rule, RuleSet, Window};
use crate::time::moved;
use crate::window::{Key, Live, Moment, Worth, most_memory, worth};

/// The samples that the windows of selected rules look at. See [`plan`](crate::plan).
#[derive(Debug)]
pub(super) struct Windows {
    rules: Arc<RuleSet>,
    live: Vec<Live>,
    /// Whether a selected rule uses it; same length as `live`.
    used: Vec<bool>,
    /// When the next sample of any of them expires.
    expires: u64,
    /// Series with failed evaluations: number of samples, and the newest failure.
    failed: Vec<(usize, u64, Failure)>,
    /// By how much the wall clock was set in all. Samples have the time as if it never was: to move each of them would
    /// take them out of their buckets.
    set_by_ns: i64,
}

impl Windows {
    /// Those of a rule set, without samples.
    pub(super) fn new(rules: &Arc<RuleSet>) -> Self {
        let count = rules.plan.series.len();
        Self {
            live: std::iter::repeat_with(Live::default).take(count).collect(),
            used: vec![false; count],
            expires: u64::MAX,
            failed: Vec::new(),
            rules: Arc::clone(rules),
            set_by_ns: 0,
        }
    }

    /// Those of another rule set, with the samples of series that both have and use. [`Self::select`] selects the used
    /// ones.
    #[expect(
        clippy::mutable_key_type,
        reason = "a pattern is hashed by its text, which does not change"
    )]
    pub(super) fn adopt(self, rules: &Arc<RuleSet>) -> Self {
        let before = self.rules.plan.meanings(&self.rules.windows);
        let series = before.zip(self.live).zip(self.used);
        let mut kept: HashMap<Meaning<'_>, Live> = series
            .filter(|(_, used)| *used)
            .map(|((meaning, live), _)| (meaning, live))
            .collect();
        let mut adopted = Self::new(rules);
        let places = adopted.live.iter_mut().zip(&mut adopted.used);
        for ((live, used), meaning) in places.zip(rules.plan.meanings(&rules.windows)) {
            if let Some(kept) = kept.remove(&meaning) {
                *live = kept;
                *used = true;
            }
        }
        adopted.expires = 0;
        adopted.set_by_ns = self.set_by_ns;
        adopted
    }

    /// Feeds only the series of these rules from now on. New ones began at `now`.
    pub(super) fn select<'r>(&mut self, rules: impl Iterator<Item = &'r Rule>, now: u64) {
        let now = self.unset(now);
        let mut used = vec![false; self.live.len()];
        let plan = &self.rules.plan;
        for (_, window) in rules.flat_map(|rule| &rule.windows) {
            if let Some(used) = plan.of_window.get(*window).and_then(|series| used.get_mut(*series)) {
                *used = true;
            }
        }
        for ((live, was), is) in self.live.iter_mut().zip(&self.used).zip(&used) {
            if was != is {
                *live = Live::new(now);
            }
        }
        self.used = used;
    }

    /// The wall clock was set by so much.
    pub(super) fn clock_was_set(&mut self, by_ns: i64) {
        self.set_by_ns = self.set_by_ns.saturating_add(by_ns);
    }

    /// That time of the wall clock, if it had never been set.
    fn unset(&self, unix_ns: u64) -> u64 {
        moved(unix_ns, self.set_by_ns.saturating_neg())
    }

    /// Removes expired samples; before anything is sampled or read at that time.
    pub(super) fn expire(&mut self, now: u64) {
        let now = self.unset(now);
        if now < self.expires {
            return;
        }
        let next = self.live.iter_mut().map(|live| live.expire(now));
        self.expires = next.min().unwrap_or(u64::MAX);
    }

    pub(super) fn has_ticks(&self) -> bool {
        let mut feeds = self.rules.plan.feeds.iter();
        feeds.any(|feed| feed.when == When::Tick && feed.measured.iter().any(|measured| uses(&self.used, measured)))
    }

    /// Adds a sample to each series that is sampled then. Series by key ignore samples without a key.
    pub(super) fn sample(&mut self, when: When, key: Option<Key>, scope: &Scope<'_>, time: u64) {
        let rules = Arc::clone(&self.rules);
        for feed in rules.plan.feeds.iter().filter(|feed| feed.when == when) {
            self.feed(feed, key, scope, time);
        }
    }

    fn feed(&mut self, feed: &Feed, key: Option<Key>, scope: &Scope<'_>, time: u64) {
        // Evaluated only if one of them is used.
        let mut fulfilled = None;
        for measured in &feed.measured {
            if !uses(&self.used, measured) {
                continue;
            }
            let filter = || match self
                .rules
                .windows
                .get(feed.filtered)
                .and_then(|window| window.filter.as_ref())
            {
                Some(filter) => filter.holds(scope),
                None => Ok(Some(true)),
            };
            let worth = match *fulfilled.get_or_insert_with(filter) {
                Ok(Some(true)) => {
                    let window = self.rules.windows.get(measured.by);
                    worth(window.and_then(|window| window.of.as_ref()), scope)
                }
                Ok(Some(false)) => Ok(Worth::Not),
                Ok(None) => Ok(Worth::Unknown),
                Err(error) => Err(error),
            };
            let worth = worth.unwrap_or_else(|error| {
                self.failed(
                    measured,
                    Failure {
                        error,
                        at_unix_ns: time,
                    },
                );
                Worth::Unknown
            });
            let counted = match worth {
                Worth::Counts(_) => Worth::Counts(1.0),
                other => other,
            };
            for &series in &measured.counting {
                self.add(series, key, counted, time, scope.now_unix_ns);
            }
            if worth != Worth::Not {
                for &series in &measured.measuring {
                    self.add(series, key, worth, time, scope.now_unix_ns);
                }
            }
        }
    }

    fn add(&mut self, series: usize, key: Option<Key>, worth: Worth, time: u64, now: u64) {
        let (time, now) = (self.unset(time), self.unset(now));
        let window = self
            .rules
            .plan
            .series
            .get(series)
            .and_then(|window| self.rules.windows.get(*window));
        let used = self.used.get(series).copied().unwrap_or_default();
        if let (Some(window), Some(live), true) = (window, self.live.get_mut(series), used) {
            self.expires = self.expires.min(live.add(window, key, worth, time, now));
        }
    }

    fn failed(&mut self, measured: &Measured, failure: Failure) {
        for &series in measured.counting.iter().chain(&measured.measuring) {
            match self.failed.iter_mut().find(|(known, ..)| *known == series) {
                Some((_, count, newest)) => {
                    *count = count.saturating_add(1);
                    *newest = failure;
                }
                None => self.failed.push((series, 1, failure)),
            }
        }
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
            newest.max_by_key(|failure| failure.at_unix_ns),
        )
    }

    /// The window values at that time; for windows by key, those of `key`.
    pub(super) fn values(&self, key: Option<Key>, at: Moment) -> Values<'_> {
        let at = Moment {
            now: self.unset(at.now),
            ..at
        };
        Values { windows: self, key, at }
    }

    pub(super) fn memory(&self) -> usize {
        self.live.iter().map(Live::memory).sum()
    }

    /// Of each series, the place of its window in the set, and the bytes that it takes at most.
    pub(super) fn most_memory(rules: &RuleSet) -> impl Iterator<Item = (usize, usize)> {
        let one = |window: &Window| size_of::<Live>() + size_of::<bool>() + most_memory(window);
        let series = rules.plan.series.iter();
        series.filter_map(move |place| Some((*place, one(rules.windows.get(*place)?))))
    }
}

fn uses(used: &[bool], measured: &Measured) -> bool {
    let mut series = measured.counting.iter().chain(&measured.measuring);
    series.any(|series| used.get(*series).copied().unwrap_or_default())
}

/// The windows of one process at one time. Values are computed on demand: most conditions are decided without most of
/// theirs.
#[derive(Debug)]
pub(super) struct Values<'a> {
    windows: &'a Windows,
    key: Option<Key>,
    at: Moment,
}

impl WindowValues for Values<'_> {
    fn value(&self, place: usize) -> Option<f64> {
        let rules = &self.windows.rules;
        let live = self.windows.live.get(*rules.plan.of_window.get(place)?)?;
        live.value(rules.windows.get(place)?, self.key, self.at)
    }
}
