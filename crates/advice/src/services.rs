//! The profiles of all services of a host, and the changes of their configurations.
//!
//! ```text
//! Sampler of each process -> Input::Minute --> period of (service, configuration): blocks of five minutes
//!                                                |
//!                        Output::Compare <-------+--- change: the period before and the period after
//!                              |                           ^
//!                        Comparison::run (slow) -> Input::Compared -> Output::Verdict
//! ```
//!
//! A *period* is the time in which processes of a service run with the same configuration. Minutes of several processes
//! are combined, and their levels are means per process. A change is noticed when a process runs with a configuration
//! that differs from all recent periods of its service. The period before the change is the period that was active
//! last. A configuration that returns after [`GAP_MINUTES`] starts another period, so going back is a change, too.
//! Periods whose processes run at the same time, as in a rolling update, stay separate, and cause no further changes.
//!
//! A change is compared when the period after it has 5, 12 and 24 blocks ([`COMPARED_AT`]). Each comparison has an
//! error probability of 5 %, so there are only three. If the period before the change still runs and has fewer than 5
//! blocks, the first comparison waits for it.
//!
//! The minutes of the warm-up belong to no block. The warm-up minutes of the newest starts of processes are kept as one
//! more block, because the memory at the start counts for the sizing ([`crate::basis`]). A start is seen from its
//! beginning if its first minute is known. Otherwise, or if a minute is damaged, this block is `lossy`.
//!
//! # Bounds
//!
//! | State | Bound | Beyond the bound |
//! |---|---|---|
//! | services | [`MAX_SERVICES`] | the oldest inactive service is evicted; without one, the minute is dropped |
//! | periods per service | [`MAX_PERIODS`] | the period that was active least recently is evicted |
//! | blocks per period | [`MAX_BLOCKS`], two hours: 1536 bytes | the oldest block is evicted |
//! | changes per service, and in total | [`MAX_CHANGES`], [`MAX_ALL_CHANGES`] | the oldest change is evicted |
//! | inactive services | [`KEPT_MINUTES`] | the service is evicted |
//!
//! [`Counts`] counts evicted and dropped items.

mod block;
mod stored;

use std::collections::BTreeMap;

use base::time::{Moment, Wall, rfc3339};

use crate::change::{ChangeRecord, MIN_BLOCKS, compare_profiles, seed};
use crate::configuration::Configuration;
use crate::profile::sampler::MINUTE_NS;
use crate::profile::{BLOCK_MINUTES, LeftOut, Minute, Profile, WARM_UP_S, combine};
use crate::services::block::Block;
use crate::services::stored::StoredService;

pub use crate::services::stored::DamagedError;

/// Maximum number of services.
pub const MAX_SERVICES: usize = 1_024;
/// Maximum number of periods per service.
pub const MAX_PERIODS: usize = 3;
/// Maximum number of blocks per period.
pub const MAX_BLOCKS: usize = 24;
/// Maximum number of changes per service.
pub const MAX_CHANGES: usize = 4;
/// Maximum number of changes of all services. A change takes up to 5 KB.
pub const MAX_ALL_CHANGES: usize = 256;
/// Time without a minute after which a period is no longer active.
pub const GAP_MINUTES: u64 = 10;
/// Time without a minute after which a service is forgotten: one week.
pub const KEPT_MINUTES: u64 = 7 * 24 * 60;
/// Numbers of blocks after a change at which the change is compared.
pub const COMPARED_AT: [usize; 3] = [MIN_BLOCKS, 12, MAX_BLOCKS];

/// An input of the profiles.
#[derive(Debug)]
pub enum Input {
    /// A process has completed a minute.
    Minute(Box<ProcessMinute>),
    /// A comparison has been made.
    Compared(Box<Compared>),
}

/// A minute of a process.
#[derive(Debug, Clone, PartialEq)]
pub struct ProcessMinute {
    /// Identity of the service.
    pub service: String,
    /// Name of the service, for display.
    pub name: String,
    /// Configuration of the process at the end of the minute.
    pub configuration: Configuration,
    /// The minute.
    pub minute: Minute,
}

/// An output of the profiles.
#[derive(Debug)]
pub enum Output {
    /// A change must be compared. The comparison takes up to 20 ms.
    Compare(Box<Comparison>),
    /// A change has its first verdict, or other verdicts than before.
    Verdict(Box<ChangeRecord>),
}

/// The two sides of a change.
#[derive(Debug)]
pub struct Comparison {
    service: String,
    id: String,
    blocks: usize,
    before: Profile,
    after: Profile,
}

/// The result of a comparison.
#[derive(Debug)]
pub struct Compared {
    service: String,
    id: String,
    blocks: usize,
    record: ChangeRecord,
}

impl Comparison {
    /// Compares the two sides.
    pub fn run(self) -> Compared {
        let mut record = compare_profiles(&self.before, &self.after);
        record.id = Some(self.id.clone());
        Compared {
            service: self.service,
            id: self.id,
            blocks: self.blocks,
            record,
        }
    }
}

/// Counts since the start of the daemon.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Number of minutes that were added.
    pub minutes: u64,
    /// Number of changes that were noticed.
    pub changes: u64,
    /// Number of minutes that were dropped because of the limit of services.
    pub refused_minutes: u64,
    /// Number of minutes that were dropped because a later minute exists.
    pub late_minutes: u64,
    /// Number of evicted services.
    pub evicted_services: u64,
    /// Number of evicted periods.
    pub evicted_periods: u64,
    /// Number of evicted blocks.
    pub evicted_blocks: u64,
    /// Number of evicted changes.
    pub evicted_changes: u64,
}

/// The profiles of all services.
#[derive(Debug, Default)]
pub struct Services {
    services: BTreeMap<String, Service>,
    counts: Counts,
    /// Newest minute of any service.
    newest: u64,
}

/// The periods and changes of a service.
#[derive(Debug, Default, PartialEq)]
struct Service {
    name: String,
    periods: Vec<Period>,
    /// Changes, oldest first.
    changes: Vec<Change>,
}

/// The time in which processes of a service run with the same configuration.
#[derive(Debug, Clone, PartialEq)]
struct Period {
    /// First minute, which identifies the period within its service.
    first: u64,
    /// Last minute.
    last: u64,
    configuration: Configuration,
    /// Blocks, oldest first.
    blocks: Vec<Block>,
    /// Number of blocks since the start of the period, with evicted blocks.
    all_blocks: usize,
    /// Consecutive usable minutes that are not a block yet.
    open: Vec<Block>,
    left_out: LeftOut,
    /// Minutes until the end of the warm-up of the newest process.
    warm_up_left: u64,
    /// Warm-up minutes of the newest starts of processes, combined; `None` if no start was observed.
    start: Option<Block>,
}

/// A change of the configuration of a service.
#[derive(Debug, Clone, PartialEq)]
struct Change {
    id: String,
    /// First minute of the period before the change.
    before: u64,
    /// First minute of the period after the change.
    after: u64,
    /// The newest comparison; `None` before the first comparison.
    record: Option<Box<ChangeRecord>>,
}

/// Returns a record with the start of the first minute after the change as its time.
fn dated(mut record: ChangeRecord, first: u64, wall: Wall) -> ChangeRecord {
    let unix_ns = wall.unix_ns(Moment::from_ns(first.saturating_mul(MINUTE_NS)));
    record.at = rfc3339(unix_ns / 1_000_000_000 * 1_000_000_000);
    record
}

impl Services {
    /// Applies an input and returns the output, if any. `wall` dates the records.
    pub fn step(&mut self, wall: Wall, input: Input) -> Option<Output> {
        match input {
            Input::Minute(minute) => self.minute(*minute),
            Input::Compared(compared) => self.compared(wall, *compared),
        }
    }

    /// Returns the counts since the start of the daemon.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Returns the changes of one service or of all services, newest first. A change that has not been compared yet
    /// has the verdict `unknown` with the time left.
    pub fn records(&self, wall: Wall, service: Option<&str>) -> Vec<ChangeRecord> {
        let services = self.services.iter();
        let meant = services.filter(|(key, _)| service.is_none_or(|service| service == *key));
        let mut records: Vec<(u64, ChangeRecord)> = meant
            .flat_map(|(key, one)| one.changes.iter().filter_map(|change| one.record(key, change)))
            .collect();
        records.sort_by(|(one, _), (other, _)| other.cmp(one));
        let dated = |(after, record)| dated(record, after, wall);
        records.into_iter().map(dated).collect()
    }

    /// Returns the profile of the newest configuration of a service: of the configuration that was started last, among
    /// those whose processes run, or ran last. Also returns the minute after its last minute. Returns `None` if there is
    /// no such service.
    pub fn profile(&self, key: &str) -> Option<(Profile, u64)> {
        let service = self.services.get(key)?;
        let last = service.last();
        let runs = |period: &&Period| period.last + GAP_MINUTES >= last;
        let newest = service.periods.iter().filter(runs).max_by_key(|period| period.first)?;
        Some((newest.profile(&service.name), newest.last.saturating_add(1)))
    }

    /// Returns the identities of all services.
    pub fn keys(&self) -> Vec<String> {
        self.services.keys().cloned().collect()
    }

    /// Returns a service as a line without a line break, or `None` if there is no such service. `shift` is added to the
    /// number of each minute: stored minutes count from 1970 on the wall clock.
    pub fn line(&self, key: &str, shift: i64) -> Option<String> {
        let service = self.services.get(key)?;
        Some(StoredService::write(key, service, shift))
    }

    /// Adds a stored service. A service that exists already, and services beyond the limit, are ignored.
    ///
    /// # Errors
    ///
    /// Returns an error if the line is damaged, or exceeds a bound.
    pub fn restore(&mut self, line: &str) -> Result<(), DamagedError> {
        let (key, service) = StoredService::read(line)?;
        self.newest = self.newest.max(service.last());
        if self.services.len() < MAX_SERVICES {
            self.services.entry(key).or_insert(service);
        }
        self.limit_changes();
        Ok(())
    }

    /// Removes all services with a minute later than `now`, which the clock has not reached: the clock was set back
    /// while gcwatch did not run. Returns the number of removed services.
    pub fn forget_future(&mut self, now: u64) -> usize {
        let before = self.services.len();
        self.services.retain(|_, service| service.last() <= now);
        self.newest = self.services.values().map(Service::last).max().unwrap_or(0);
        before - self.services.len()
    }

    fn minute(&mut self, of: ProcessMinute) -> Option<Output> {
        self.newest = self.newest.max(of.minute.at);
        if !self.services.contains_key(&of.service) && !self.make_room() {
            self.counts.refused_minutes += 1;
            return None;
        }
        let counts = &mut self.counts;
        let service = self.services.entry(of.service.clone()).or_default();
        service.name = of.name;
        let noticed = counts.changes;
        let place = service.period_for(&of.service, &of.configuration, of.minute.at, counts);
        let is_changed = counts.changes > noticed;
        let period = service.periods.get_mut(place)?;
        period.configuration.fill_unknown(&of.configuration);
        counts.minutes += 1;
        let is_block = period.add(of.minute, counts);
        let (first, blocks) = (period.first, period.all_blocks);
        let due = is_block.then(|| service.due(&of.service, first, blocks)).flatten();
        if is_changed {
            self.limit_changes();
        }
        due.map(|comparison| Output::Compare(Box::new(comparison)))
    }

    /// Evicts the services that were inactive for long and, if there are still too many, the service that was active
    /// least recently. Returns `false` if all services are active, so that no service can be added.
    fn make_room(&mut self) -> bool {
        let newest = self.newest;
        let is_kept = |service: &Service| newest.saturating_sub(service.last()) <= KEPT_MINUTES;
        let before = self.services.len();
        self.services.retain(|_, service| is_kept(service));
        self.counts.evicted_services += (before - self.services.len()) as u64;
        if self.services.len() < MAX_SERVICES {
            return true;
        }
        let oldest = self.services.iter().min_by_key(|(_, service)| service.last());
        let oldest = oldest.filter(|(_, service)| service.last() + GAP_MINUTES < newest);
        let Some(key) = oldest.map(|(key, _)| key.clone()) else {
            return false;
        };
        self.services.remove(&key);
        self.counts.evicted_services += 1;
        true
    }

    /// Evicts the oldest changes beyond [`MAX_ALL_CHANGES`].
    fn limit_changes(&mut self) {
        let count: usize = self.services.values().map(|service| service.changes.len()).sum();
        for _ in MAX_ALL_CHANGES..count {
            let changed = self.services.values_mut().filter(|service| !service.changes.is_empty());
            let oldest = changed.min_by_key(|service| service.changes.first().map(|change| change.after));
            if let Some(service) = oldest {
                service.changes.remove(0);
                self.counts.evicted_changes += 1;
            }
        }
    }

    fn compared(&mut self, wall: Wall, compared: Compared) -> Option<Output> {
        let service = self.services.get_mut(&compared.service)?;
        let change = service.changes.iter_mut().find(|change| change.id == compared.id)?;
        let before = change.record.as_deref();
        // Comparisons of the same change can finish in any order.
        let done = before.map_or(0, |record| record.after_side.blocks);
        if compared.blocks.min(MAX_BLOCKS) < usize::try_from(done).unwrap_or(usize::MAX) {
            return None;
        }
        let is_same = before.is_some_and(|before| before.outcomes().eq(compared.record.outcomes()));
        let is_news = compared.record.has_verdict() && !is_same;
        change.record = Some(Box::new(compared.record.clone()));
        is_news.then(|| Output::Verdict(Box::new(dated(compared.record, change.after, wall))))
    }
}

impl Service {
    /// Returns the last minute.
    fn last(&self) -> u64 {
        self.periods.iter().map(|period| period.last).max().unwrap_or(0)
    }

    /// Returns the place of the period for a minute with this configuration. Starts a period, and notices a change, if
    /// there is no such period or if it is no longer active.
    fn period_for(&mut self, key: &str, configuration: &Configuration, at: u64, counts: &mut Counts) -> usize {
        let fits = |period: &&Period| period.configuration.differences(configuration).is_empty();
        let known = self.periods.iter().filter(fits).max_by_key(|period| period.last);
        let known = known.map(|period| (period.first, period.last));
        let others = self
            .periods
            .iter()
            .filter(|period| Some(period.first) != known.map(|(first, _)| first));
        let last_of_others = others.map(|period| period.last).max();
        if let Some((first, last)) = known
            && last_of_others.is_none_or(|others| last + GAP_MINUTES >= others)
        {
            return self.place_of(first).unwrap_or(0);
        }
        let before = self
            .periods
            .iter()
            .max_by_key(|period| period.last)
            .map(|period| period.first);
        let first = match self.place_of(at) {
            // The first minute identifies a period.
            Some(_) => self.last().max(at) + 1,
            None => at,
        };
        if self.periods.len() >= MAX_PERIODS {
            let others = self
                .periods
                .iter()
                .enumerate()
                .filter(|(_, period)| Some(period.first) != before);
            if let Some((oldest, _)) = others.min_by_key(|(_, period)| period.last) {
                self.settle(key, oldest);
                self.periods.remove(oldest);
                counts.evicted_periods += 1;
            }
        }
        if let Some(before) = before {
            if self.changes.len() >= MAX_CHANGES {
                self.changes.remove(0);
                counts.evicted_changes += 1;
            }
            counts.changes += 1;
            self.changes.push(Change {
                id: format!("{:016x}-{first}", seed(key)),
                before,
                after: first,
                record: None,
            });
        }
        self.periods.push(Period::new(first, configuration.clone()));
        self.periods.len() - 1
    }

    /// Keeps the present records of the changes that have not been compared and need a period that is about to be
    /// evicted. Waiting does not help these changes.
    fn settle(&mut self, key: &str, place: usize) {
        let first = self.periods.get(place).map(|period| period.first);
        let needs =
            |change: &Change| change.record.is_none() && [change.before, change.after].map(Some).contains(&first);
        let records: Vec<_> = self
            .changes
            .iter()
            .map(|change| self.record(key, change).filter(|_| needs(change)))
            .collect();
        for (change, record) in self.changes.iter_mut().zip(records) {
            if let Some((_, record)) = record {
                let minutes_left = None;
                change.record = Some(Box::new(ChangeRecord { minutes_left, ..record }));
            }
        }
    }

    /// Returns the minutes until both sides of a change have enough blocks, 0 if they have, or `None` if a side lacks
    /// blocks and its processes no longer run.
    fn minutes_left(&self, sides: [&Period; 2]) -> Option<u64> {
        let last = self.last();
        sides.into_iter().try_fold(0, |longest: u64, side| {
            let missing = (MIN_BLOCKS.saturating_sub(side.all_blocks) * BLOCK_MINUTES) as u64;
            let is_over = last > side.last + GAP_MINUTES;
            let left = match missing {
                0 => 0,
                _ if is_over => return None,
                _ => missing.saturating_sub(side.open.len() as u64).max(1) + side.warm_up_left,
            };
            Some(longest.max(left))
        })
    }

    fn place_of(&self, first: u64) -> Option<usize> {
        self.periods.iter().position(|period| period.first == first)
    }

    fn period(&self, first: u64) -> Option<&Period> {
        self.periods.iter().find(|period| period.first == first)
    }

    /// Returns the comparison of the change that started a period, or `None` if a side no longer exists.
    fn comparison(&self, key: &str, after: u64, blocks: usize) -> Option<Comparison> {
        let change = self.changes.iter().find(|change| change.after == after)?;
        Some(Comparison {
            service: key.to_owned(),
            id: change.id.clone(),
            blocks,
            before: self.period(change.before)?.profile(&self.name),
            after: self.period(change.after)?.profile(&self.name),
        })
    }

    /// Returns the comparison that is due because a period has completed this number of blocks, if any. If the period
    /// before a change still runs and lacks blocks, the first comparison waits for it.
    fn due(&self, key: &str, first: u64, blocks: usize) -> Option<Comparison> {
        let ends_wait = |change: &Change| blocks == MIN_BLOCKS && change.before == first && change.record.is_none();
        let is_next = |change: &Change| change.after == first && COMPARED_AT.contains(&blocks);
        let mut changes = self
            .changes
            .iter()
            .filter(|change| is_next(change) || ends_wait(change));
        changes.find_map(|change| {
            let (before, after) = (self.period(change.before)?, self.period(change.after)?);
            let waits = self.minutes_left([before, after]).is_some_and(|left| left > 0);
            let is_ready = !waits && after.all_blocks >= MIN_BLOCKS;
            is_ready
                .then(|| self.comparison(key, change.after, after.all_blocks))
                .flatten()
        })
    }

    /// Returns the record of a change, with the first minute after it. Returns `None` if the change has not been
    /// compared, and a side no longer exists.
    fn record(&self, key: &str, change: &Change) -> Option<(u64, ChangeRecord)> {
        if let Some(record) = &change.record {
            return Some((change.after, (**record).clone()));
        }
        let after = self.period(change.after)?;
        let mut record = self.comparison(key, change.after, after.all_blocks)?.run().record;
        let sides = [self.period(change.before)?, after];
        record.minutes_left = self.minutes_left(sides).filter(|left| *left > 0);
        Some((change.after, record))
    }
}

impl Period {
    fn new(first: u64, configuration: Configuration) -> Self {
        Self {
            first,
            last: first,
            configuration,
            blocks: Vec::new(),
            all_blocks: 0,
            open: Vec::new(),
            left_out: LeftOut::default(),
            warm_up_left: 0,
            start: None,
        }
    }

    /// Adds a minute of a warm-up. A process that starts after the warm-up of the kept start begins another start.
    fn add_start(&mut self, mut minute: Minute) {
        let is_first = minute.age_s.is_some_and(|age| age < 60);
        let is_next = |start: &Block| minute.at >= u64::from(start.at) + WARM_UP_S / 60;
        let kept = self.start.filter(|start| !(is_first && is_next(start)));
        minute.lossy |= kept.is_none() && !is_first;
        let minutes = kept.map(|kept| kept.minute()).into_iter().chain([minute]);
        self.start = combine(&minutes.collect::<Vec<_>>()).map(|start| Block::new(&start));
    }

    /// Adds a minute. Returns whether the minute completes a block.
    fn add(&mut self, minute: Minute, counts: &mut Counts) -> bool {
        let newest = self.open.last().map(|last| u64::from(last.at));
        self.last = self.last.max(minute.at);
        if minute.is_warm_up() {
            self.left_out.warm_up += 1;
            self.add_start(minute);
            let age = minute.age_s.unwrap_or(0).saturating_add(60);
            self.warm_up_left = WARM_UP_S.saturating_sub(age).div_ceil(60);
            return false;
        }
        if !minute.is_usable() {
            self.left_out.damaged += 1;
            return false;
        }
        self.warm_up_left = 0;
        if newest == Some(minute.at) {
            // Another process of the service has the same minute.
            if let Some(last) = self.open.pop() {
                let both = [last.minute(), minute];
                self.open.extend(combine(&both).map(|minute| Block::new(&minute)));
            }
            return false;
        }
        let last = self
            .blocks
            .last()
            .map(|block| u64::from(block.at) + BLOCK_MINUTES as u64 - 1);
        if newest.or(last).is_some_and(|newest| minute.at <= newest) {
            counts.late_minutes += 1;
            return false;
        }
        let is_block = self.close_block(minute.at, counts);
        if newest.is_some_and(|newest| newest + 1 < minute.at) {
            self.left_out.damaged += self.open.len() as u64;
            self.open.clear();
        }
        self.open.push(Block::new(&minute));
        is_block
    }

    /// Completes the open block if it has all of its minutes. `at` is a later minute, so that no other process adds to
    /// the last minute of the block.
    fn close_block(&mut self, at: u64, counts: &mut Counts) -> bool {
        let is_complete = self.open.len() == BLOCK_MINUTES;
        if !is_complete || self.open.last().is_none_or(|last| u64::from(last.at) >= at) {
            return false;
        }
        let minutes: Vec<Minute> = self.open.drain(..).map(|block| block.minute()).collect();
        let Some(block) = combine(&minutes) else { return false };
        if self.blocks.len() >= MAX_BLOCKS {
            self.blocks.remove(0);
            counts.evicted_blocks += 1;
        }
        self.blocks.push(Block::new(&block));
        self.all_blocks += 1;
        true
    }

    /// Returns the profile with the blocks of the period.
    fn profile(&self, service: &str) -> Profile {
        let blocks = self.blocks.iter().map(|block| block.minute());
        let start = self.start.map(|start| start.minute());
        Profile::from_blocks(service, self.configuration.clone(), blocks, (self.left_out, start))
    }
}

#[cfg(test)]
mod tests;
