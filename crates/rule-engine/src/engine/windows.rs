//! The series of one process. Each sample is added to the series, and the values of the series are read when a
//! condition needs them.

use std::collections::HashMap;
use std::hint::black_box;
use std::sync::Arc;

use base::time::Moment;

use super::kinds::KindTruths;
use super::run::Failure;
use crate::expression::{Truth, decide};
use crate::field::{Scope, WindowValues};
use crate::plan::{Meaning, MeasuredSeries, SampleTrigger};
use crate::rule::{Rule, Window};
use crate::rule_set::RuleSet;
use crate::window::{Key, Occasions, ReadContext, SampleValue, SeriesSample, SeriesSet, SeriesState, worth};

/// Size of a cache line, in bytes.
const A_LINE: usize = 64;

/// The samples for the windows of selected rules. See [`plan`](crate::plan).
#[derive(Debug)]
pub(super) struct Windows {
    rules: Arc<RuleSet>,
    /// State of each series of the plan; `None` if no selected rule uses it. Half of the series never keep a sample;
    /// for such a series, a collection touches only this state.
    kept: Box<[Option<SeriesState>]>,
    samples: SeriesSet,
    /// The series that have been sampled for less time than the process has been observed, with their start.
    began: Vec<(usize, Moment)>,
    /// For each trigger and length of the plan, the times of samples; `None` if no series in use has this trigger and
    /// length.
    occasions: Box<[Option<Occasions>]>,
    /// Time at which the next sample of any series expires.
    expires: Moment,
    /// Series with failed evaluations: place of the series, number of failed samples, newest failure.
    failed: Vec<(usize, u64, Failure)>,
}

impl Windows {
    /// Creates the series of a rule set, without samples.
    pub(super) fn new(rules: &Arc<RuleSet>) -> Self {
        Self {
            kept: vec![None; rules.plan.series.len()].into_boxed_slice(),
            samples: SeriesSet::default(),
            began: Vec::new(),
            occasions: rules.plan.occasions.iter().map(|_| None).collect(),
            expires: Moment::NEVER,
            failed: Vec::new(),
            rules: Arc::clone(rules),
        }
    }

    /// Converts to another rule set, keeping the samples of series that both sets have and use. [`Self::select`]
    /// selects the series in use.
    #[expect(
        clippy::mutable_key_type,
        reason = "a pattern is hashed by its text, which does not change"
    )]
    pub(super) fn adopt(self, rules: &Arc<RuleSet>) -> Self {
        let mut occasions: HashMap<(SampleTrigger, u64), Occasions> = self
            .rules
            .plan
            .occasions
            .iter()
            .zip(self.occasions)
            .filter_map(|(of, occasions)| Some((*of, occasions?)))
            .collect();
        let mut samples = self.samples;
        let before = self.rules.plan.meanings(&self.rules.windows).zip(self.kept).enumerate();
        let mut before: HashMap<Meaning<'_>, (usize, SeriesState)> = before
            .filter_map(|(series, (meaning, kept))| Some((meaning, (series, kept?))))
            .collect();
        let mut adopted = Self::new(rules);
        for (series, (kept, meaning)) in (adopted.kept.iter_mut().zip(rules.plan.meanings(&rules.windows))).enumerate()
        {
            let Some((before, same)) = before.remove(&meaning) else {
                continue;
            };
            *kept = moved(same, &mut samples, &mut adopted.samples);
            let began = self.began.iter().filter(|(series, _)| *series == before);
            adopted.began.extend(began.map(|(_, began)| (series, *began)));
        }
        for (of, place) in rules.plan.occasions.iter().zip(&mut adopted.occasions) {
            *place = occasions.remove(of);
        }
        adopted.expires = Moment::FIRST;
        adopted
    }

    /// Restricts sampling to the series of these rules. New series start at `now`.
    pub(super) fn select<'r>(&mut self, rules: impl Iterator<Item = &'r Rule>, now: Moment) {
        let mut used = vec![false; self.kept.len()];
        let plan = &self.rules.plan;
        for (_, window) in rules.flat_map(|rule| &rule.windows) {
            if let Some(used) = plan.of_window.get(*window).and_then(|series| used.get_mut(*series)) {
                *used = true;
            }
        }
        if self.kept.iter().zip(&used).all(|(kept, used)| kept.is_some() == *used) {
            return;
        }
        let mut before = std::mem::take(&mut self.samples);
        self.began.retain(|(series, _)| used.get(*series) == Some(&true));
        for (series, (kept, used)) in self.kept.iter_mut().zip(used.iter().copied()).enumerate() {
            match *kept {
                Some(same) if used => *kept = moved(same, &mut before, &mut self.samples),
                None if used => {
                    *kept = Some(SeriesState::Nothing);
                    if now > Moment::FIRST {
                        self.began.push((series, now));
                    }
                }
                _ => *kept = None,
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

    /// Reads the memory that the next sample changes and that conditions read. The samples of a process are not in the
    /// CPU cache at its next collection. Reads that do not depend on one another are performed in parallel; reads
    /// between evaluations would be sequential.
    pub(super) fn touch(&self) {
        let occasions = self.occasions.iter().flatten().map(Occasions::touch);
        let kept = self.kept.iter().step_by(A_LINE / size_of::<Option<SeriesState>>());
        black_box((
            self.samples.touch(),
            occasions.fold(0, |read, one| read ^ one),
            kept.flatten().count(),
        ));
    }

    /// Removes expired samples. Must be called with the current time before samples are added or read.
    pub(super) fn expire(&mut self, now: Moment) {
        if now < self.expires {
            return;
        }
        let samples = self.samples.expire(now);
        let occasions = self
            .occasions
            .iter_mut()
            .flatten()
            .map(|occasions| occasions.expire(now));
        self.expires = occasions.fold(samples, Moment::min);
    }

    /// Returns whether a selected rule uses one of the series.
    fn uses(&self, measured: &MeasuredSeries) -> bool {
        let kept = self.kept.get(measured.series()).unwrap_or_default();
        kept.iter().any(Option::is_some)
    }

    pub(super) fn has_ticks(&self) -> bool {
        let plan = &self.rules.plan;
        let mut feeds = plan.feeds_at(SampleTrigger::Tick);
        feeds.any(|(_, feed)| plan.measured_of(feed).iter().any(|measured| self.uses(measured)))
    }

    /// Adds a sample to each series with this trigger. Series by key ignore samples without a key.
    pub(super) fn sample(
        &mut self,
        when: SampleTrigger,
        key: Option<Key>,
        scope: &Scope<'_>,
        time: Moment,
        truths: &mut KindTruths<'_>,
    ) {
        if when == SampleTrigger::Keyed && key.is_none() {
            return;
        }
        let rules = Arc::clone(&self.rules);
        let sample = SampledEvent { key, scope, time };
        for (place, feed) in rules.plan.feeds_at(when) {
            let filter = || {
                let of_kind = match &feed.of_kind {
                    Some(part) => truths.evaluate_feed(place, part, scope),
                    None => Ok(Some(true)),
                };
                match &feed.of_each {
                    Some(part) if of_kind != Ok(Some(false)) => decide([of_kind, part.holds(scope)].into_iter(), false),
                    _ => of_kind,
                }
            };
            self.feed(rules.plan.measured_of(feed), filter, &sample);
        }
        for ((of, _), occasions) in rules.plan.occasions.iter().zip(&mut self.occasions) {
            if let (true, Some(occasions)) = (*of == when, occasions) {
                self.expires = self.expires.min(occasions.add(time, scope.now));
            }
        }
    }

    /// Adds a sample to the used series of a feed. The filter and values are evaluated only if one of the series is in
    /// use.
    fn feed(&mut self, measured: &[MeasuredSeries], mut filter: impl FnMut() -> Truth, sample: &SampledEvent<'_>) {
        let mut fulfilled = None;
        for measured in measured {
            let mut known = None;
            for series in measured.series() {
                let Some(kept) = self.kept.get(series).copied().flatten() else {
                    continue;
                };
                let worth = *known.get_or_insert_with(|| {
                    let worth = match *fulfilled.get_or_insert_with(&mut filter) {
                        Ok(Some(true)) => worth(measured.of.as_ref(), sample.scope),
                        Ok(Some(false)) => Ok(SampleValue::Not),
                        Ok(None) => Ok(SampleValue::Unknown),
                        Err(error) => Err(error),
                    };
                    worth.unwrap_or_else(|error| {
                        let failure = Failure { error, at: sample.time };
                        failed(&mut self.failed, measured, failure);
                        SampleValue::Unknown
                    })
                });
                let worth = match worth {
                    SampleValue::Counts(_) if measured.counts(series) => SampleValue::Counts(1.0),
                    SampleValue::Not if !measured.counts(series) && !matches!(kept, SeriesState::Uniform(_)) => {
                        continue;
                    }
                    other => other,
                };
                self.add(series, kept, &sample.with_value(worth));
            }
        }
    }

    fn add(&mut self, series: usize, kept: SeriesState, sample: &SeriesSample) {
        let rules = &self.rules;
        let window = || rules.windows.get(*rules.plan.series.get(series)?);
        let expires = match kept {
            SeriesState::Uniform(uniform) if uniform.is(sample.worth) => return,
            SeriesState::Samples(series) => self.samples.add(series, sample, window),
            SeriesState::Nothing | SeriesState::Uniform(_) => {
                let Some(window) = window() else { return };
                let occasions = occasions_of(rules, &self.occasions, series);
                let (with, expires) = self.samples.take(kept, sample, window, occasions);
                if let Some(kept) = self.kept.get_mut(series) {
                    *kept = with;
                }
                expires
            }
        };
        self.expires = self.expires.min(expires);
    }

    /// Returns the number of failed samples of the windows of `rule`, and the newest failure.
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

    /// Returns the values of the windows in the context `at`. Windows by key use `key`.
    pub(super) fn values(&self, key: Option<Key>, at: ReadContext) -> Values<'_> {
        Values { windows: self, key, at }
    }

    pub(super) fn memory(&self) -> usize {
        let occasions = self.occasions.iter().flatten().map(Occasions::memory);
        self.samples.memory() + occasions.sum::<usize>()
    }

    /// Returns, for each series, the index of its window in the set and its maximum memory, in bytes.
    pub(super) fn most_memory(rules: &RuleSet) -> impl Iterator<Item = (usize, usize)> {
        let one = |window: &Window| {
            size_of::<Option<SeriesState>>() + size_of::<(usize, Moment)>() + SeriesSet::most_memory(window)
        };
        let plan = &rules.plan;
        let series = (0..).zip(plan.series.iter().zip(&plan.occasions_of));
        series.filter_map(move |(series, (place, occasions))| {
            // Occasions that several series share are counted for the first series.
            let first = occasions.filter(|_| plan.occasions_of.iter().position(|one| one == occasions) == Some(series));
            let occasions = first.and_then(|place| plan.occasions.get(place));
            let memory = |ns| size_of::<Option<Occasions>>() + Occasions::over(ns).most_memory();
            let occasions = occasions.map_or(0, |(_, ns)| memory(*ns));
            Some((*place, one(rules.windows.get(*place)?) + occasions))
        })
    }
}

/// The event on which series are sampled.
struct SampledEvent<'s> {
    key: Option<Key>,
    scope: &'s Scope<'s>,
    time: Moment,
}

impl SampledEvent<'_> {
    fn with_value(&self, worth: SampleValue) -> SeriesSample {
        SeriesSample {
            key: self.key,
            worth,
            time: self.time,
            now: self.scope.now,
        }
    }
}

/// Records that a sample of several series could not be evaluated.
fn failed(failures: &mut Vec<(usize, u64, Failure)>, measured: &MeasuredSeries, failure: Failure) {
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

/// Returns the times at which samples of a series were taken, or `None` if the series stores its times itself or is not
/// in use.
fn occasions_of<'o>(rules: &RuleSet, occasions: &'o [Option<Occasions>], series: usize) -> Option<&'o Occasions> {
    occasions.get((*rules.plan.occasions_of.get(series)?)?)?.as_ref()
}

/// Moves a series and its samples from one set to another.
fn moved(kept: SeriesState, from: &mut SeriesSet, to: &mut SeriesSet) -> Option<SeriesState> {
    match kept {
        SeriesState::Samples(series) => to.take_from(from, series).map(SeriesState::Samples),
        other => Some(other),
    }
}

/// The windows of one process at one time. Values are computed on demand because most conditions are decided by a few
/// of them.
#[derive(Debug)]
pub(super) struct Values<'a> {
    windows: &'a Windows,
    key: Option<Key>,
    at: ReadContext,
}

impl WindowValues for Values<'_> {
    fn value(&self, place: usize) -> Option<f64> {
        let rules = &self.windows.rules;
        let series = *rules.plan.of_window.get(place)?;
        let kept = self.windows.kept.get(series).copied().flatten()?;
        let began = self.windows.began.iter().find(|(began, _)| *began == series);
        let began = began.map_or(Moment::FIRST, |(_, began)| *began);
        let occasions = occasions_of(rules, &self.windows.occasions, series);
        let window = rules.windows.get(place)?;
        kept.value(&self.windows.samples, window, self.key, began, self.at, occasions)
    }
}
