//! Comparison of two configurations of a service.
//!
//! Five measures have verdicts: stopped share, median pause, bytes allocated per request, live size after full
//! collections, and full collections per minute. A measure is better or worse if its difference exceeds a margin. The
//! joint certainty of all five verdicts is 95 %. A difference within the margin does not matter, even if it is certain.
//!
//! The stopped share and the full collections grow with the load. If the loads of the two sides differ by more than
//! [`MAX_LOAD_DIFFERENCE`], both measures are divided by the number of requests, or by the allocated gigabytes if
//! requests are unknown. A smaller difference of the load increases the margin of both measures instead. Any difference
//! of the load increases the margins of the median pause and of the normalized measures, in the direction that the load
//! explains.

use base::time::rfc3339;
use base::words;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::configuration::{Configuration, Difference};
use crate::profile::sampler::MINUTE_NS;
use crate::profile::{BLOCK_MINUTES, LeftOut, Minute, Profile};
use crate::statistics::{Compared, compare, holm};

/// Minimum number of blocks per side for a verdict.
pub const MIN_BLOCKS: usize = 5;
/// Minimum number of blocks per side with a full collection for a verdict on the live size. The live size is a level
/// that is known only after full collections, of which many services run few, so it needs fewer values.
pub const MIN_LIVE_BLOCKS: usize = 3;
/// Maximum number of compared blocks per side: the last blocks before the change, and the first blocks after the
/// change.
pub const MAX_BLOCKS: usize = 72;
/// Minimum number of collections per side for a verdict.
pub const MIN_COLLECTIONS: u64 = 50;
/// Relative difference between the loads above which measures are normalized.
pub const MAX_LOAD_DIFFERENCE: f64 = 0.2;

/// Maximum share of the allocation, the stopped time and the full collections of a service that does not depend
/// on its load, such as timers and health checks. A judgement: a measured service had 13 %.
const CONSTANT_SHARE: f64 = 0.2;

const GIGABYTE: f64 = 1e9;

words! {
    /// A measure that is compared before and after a change.
    pub enum Measure {
        /// Share of the time during which the program was suspended.
        StoppedShare = "stopped_share",
        /// Median pause of all collections.
        MedianPause = "median_pause",
        /// Allocated bytes per request, or per second if requests are unknown.
        Allocated = "allocated",
        /// Live bytes of old and large objects after full collections.
        Live = "live",
        /// Full collections per minute.
        FullCollections = "full_collections",
        /// 95th percentile of pauses.
        P95Pause = "p95_pause",
        /// Pauses of full collections, as a share of the time.
        FullStoppedShare = "full_stopped_share",
        /// Bytes in generation 0 before young collections.
        YoungBudget = "young_budget",
        /// Free bytes between objects.
        Free = "free",
        /// Committed and unused bytes.
        CommittedUnused = "committed_unused",
        /// Memory outside the heap.
        Native = "native",
        /// Resident memory.
        Resident = "resident",
        /// Maximum memory of the container.
        ContainerPeak = "container_peak",
        /// Average CPU of the process, in cores.
        Cpu = "cpu",
        /// Requests per second.
        Requests = "requests",
    }
}

words! {
    /// The verdict on a measure.
    pub enum Outcome {
        /// The measure improved.
        Better = "better",
        /// The measure got worse.
        Worse = "worse",
        /// No difference beyond the margin was found.
        Same = "same",
        /// No verdict is possible, for the reason in the record.
        Unknown = "unknown",
    }
}

words! {
    /// The divisor of a measure.
    pub enum Normalization {
        /// The value is not divided.
        None = "none",
        /// The value is divided by the number of requests.
        PerRequest = "per_request",
        /// The value is divided by the allocated gigabytes.
        PerAllocatedGigabyte = "per_allocated_gigabyte",
    }
}

/// The measures with a verdict, in the order of the record.
pub const DECIDING: [Measure; 5] = [
    Measure::StoppedShare,
    Measure::MedianPause,
    Measure::Allocated,
    Measure::Live,
    Measure::FullCollections,
];

/// Amount of data and load of one side of a change.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ComparedPeriod {
    /// Number of compared minutes.
    pub minutes: u64,
    /// Number of compared blocks.
    pub blocks: u64,
    /// Number of collections in the compared blocks.
    pub collections: u64,
    /// Number of minutes left out as warm-up.
    pub warm_up_minutes: u64,
    /// Number of minutes left out because events were lost, or because too little of the minute was observed.
    pub damaged_minutes: u64,
    /// Requests per second; null if unknown.
    pub requests_per_second: Option<f64>,
    /// Allocated bytes per second; null if unknown.
    pub allocated_per_second: Option<f64>,
}

/// The comparison of one measure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MeasureRecord {
    /// Compared measure.
    pub measure: Measure,
    /// Unit of the values.
    pub unit: String,
    /// Mean of the blocks before the change; null if unknown.
    pub before: Option<f64>,
    /// Mean of the blocks after the change; null if unknown.
    pub after: Option<f64>,
    /// Lower end of the 95 % confidence interval of the difference; null if unknown.
    pub low: Option<f64>,
    /// Upper end of the 95 % confidence interval of the difference; null if unknown.
    pub high: Option<f64>,
    /// Maximum difference that does not matter, in the unit of the values; null if unknown or if the measure has no
    /// verdict.
    pub margin: Option<f64>,
    /// Divisor of the values.
    pub normalization: Normalization,
    /// Verdict; null if the measure is not one of [`DECIDING`].
    pub verdict: Option<Outcome>,
    /// Reason for the verdict `unknown`, or why a measure without a verdict could not be compared; otherwise null.
    pub reason: Option<String>,
}

/// `kind: "change"`: the comparison of two configurations of a service.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename = "change")]
pub struct ChangeRecord {
    /// Id, which stays the same while the record is updated; null if the record belongs to no service of this host.
    pub id: Option<String>,
    /// Name of the service.
    pub service: String,
    /// Start of the first minute after the change, RFC 3339; null if unknown.
    pub at: Option<String>,
    /// Configuration before the change.
    pub before: Configuration,
    /// Configuration after the change.
    pub after: Configuration,
    /// Settings that differ.
    pub differences: Vec<Difference>,
    /// Amount of data and load before the change.
    pub before_side: ComparedPeriod,
    /// Amount of data and load after the change.
    pub after_side: ComparedPeriod,
    /// Minutes of observation until the side after the change has enough blocks for a verdict. Null if the side has
    /// enough blocks, or if the side before the change lacks blocks, so that waiting does not help.
    pub minutes_left: Option<u64>,
    /// Comparisons of all measures, starting with the five that have a verdict.
    pub measures: Vec<MeasureRecord>,
}

impl ChangeRecord {
    /// Returns whether the record has a verdict other than `unknown`.
    pub fn has_verdict(&self) -> bool {
        self.outcomes().any(|(_, outcome)| outcome != Outcome::Unknown)
    }

    /// Returns the measures with a verdict, with their verdicts.
    pub fn outcomes(&self) -> impl Iterator<Item = (Measure, Outcome)> + '_ {
        let measures = self.measures.iter();
        measures.filter_map(|record| Some((record.measure, record.verdict?)))
    }

    /// Returns the settings that differ, as text.
    pub fn what_changed(&self) -> String {
        let texts: Vec<String> = self.differences.iter().map(Difference::text).collect();
        if texts.is_empty() {
            "configuration".to_owned()
        } else {
            texts.join(", ")
        }
    }

    /// Returns the verdicts as one sentence, such as `version 1 -> 2: stopped share worse; live, ... same`.
    pub fn summary(&self) -> String {
        let of = |wanted: Outcome| {
            let measures = self.outcomes().filter(|(_, outcome)| *outcome == wanted);
            let names: Vec<String> = measures.map(|(measure, _)| measure.name().replace('_', " ")).collect();
            (!names.is_empty()).then(|| format!("{} {wanted}", names.join(", ")))
        };
        let order = [Outcome::Worse, Outcome::Better, Outcome::Unknown, Outcome::Same];
        let parts: Vec<String> = order.into_iter().filter_map(of).collect();
        format!("{}: {}", self.what_changed(), parts.join("; "))
    }

    /// Returns the comparison of a measure, or `None` if the record lacks the measure.
    pub fn measure(&self, measure: Measure) -> Option<&MeasureRecord> {
        self.measures.iter().find(|record| record.measure == measure)
    }
}

/// The minutes of a block.
type Block<'p> = Vec<&'p Minute>;

/// Returns the sum of a figure over a block, or `None` if the figure is unknown for a minute.
fn sum(block: &[&Minute], figure: impl Fn(&Minute) -> Option<u64>) -> Option<f64> {
    block
        .iter()
        .map(|minute| figure(minute).map(|value| value as f64))
        .sum()
}

/// Returns the allocated bytes of a minute. A collection reports the bytes since the previous collection, so a minute
/// without collections adds nothing.
fn allocated(minute: &Minute) -> Option<u64> {
    if minute.collections == 0 {
        Some(0)
    } else {
        minute.allocated
    }
}

/// Returns the mean of the known values of a figure over the minutes of a block, or `None` if no value is known.
fn mean(block: &[&Minute], figure: impl Fn(&Minute) -> Option<u64>) -> Option<f64> {
    let known: Vec<f64> = block
        .iter()
        .filter_map(|minute| figure(minute))
        .map(|value| value as f64)
        .collect();
    (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
}

/// Returns the observed time of a block, in seconds.
fn seconds(block: &[&Minute]) -> f64 {
    block.iter().map(|minute| minute.observed_ns as f64 / 1e9).sum()
}

/// Divides the usable minutes of a profile into complete blocks of consecutive minutes.
fn blocks(profile: &Profile) -> Vec<Block<'_>> {
    if profile.left_out().is_some() {
        return profile.minutes().map(|block| vec![block]).collect();
    }
    let (mut blocks, mut open): (Vec<Block<'_>>, Block<'_>) = (Vec::new(), Vec::new());
    for minute in profile.minutes() {
        let follows = open.last().is_none_or(|last| last.at + 1 == minute.at);
        if !minute.is_usable() || !follows {
            open.clear();
        }
        if minute.is_usable() {
            open.push(minute);
        }
        if open.len() == BLOCK_MINUTES {
            blocks.push(std::mem::take(&mut open));
        }
    }
    blocks
}

/// The compared blocks of one side.
struct Compiled<'p> {
    blocks: Vec<Block<'p>>,
    side: ComparedPeriod,
}

impl<'p> Compiled<'p> {
    fn new(profile: &'p Profile, is_before: bool) -> Self {
        let mut blocks = blocks(profile);
        if is_before {
            blocks.drain(..blocks.len().saturating_sub(MAX_BLOCKS));
        }
        blocks.truncate(MAX_BLOCKS);
        let all: Block<'_> = blocks.iter().flatten().copied().collect();
        let time = seconds(&all);
        let per_second = |figure: fn(&Minute) -> Option<u64>| {
            (time > 0.0).then(|| sum(&all, figure)).flatten().map(|sum| sum / time)
        };
        let left_out = profile.left_out().unwrap_or_else(|| LeftOut {
            warm_up: profile.minutes().filter(|minute| minute.is_warm_up()).count() as u64,
            damaged: profile
                .minutes()
                .filter(|minute| !minute.is_usable() && !minute.is_warm_up())
                .count() as u64,
        });
        let side = ComparedPeriod {
            minutes: (blocks.len() * BLOCK_MINUTES) as u64,
            blocks: blocks.len() as u64,
            collections: all.iter().map(|minute| minute.collections).sum(),
            warm_up_minutes: left_out.warm_up,
            damaged_minutes: left_out.damaged,
            requests_per_second: per_second(|minute| minute.requests),
            allocated_per_second: per_second(allocated),
        };
        Self { blocks, side }
    }
}

/// The loads of the two sides, and their consequences for the comparison.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Load {
    /// Load after the change divided by the load before, by requests, or by allocated bytes if requests are unknown;
    /// `None` if the load of a side is unknown.
    ratio: Option<f64>,
    /// Higher load of the two sides, in units of the normalization per second.
    highest: f64,
    normalization: Normalization,
    has_requests: bool,
}

impl Load {
    /// Compares the loads of two sides.
    fn between(before: &ComparedPeriod, after: &ComparedPeriod) -> Self {
        let ratio = |before: Option<f64>, after: Option<f64>| {
            let (before, after) = before.zip(after)?;
            (before.min(after) > 0.0).then(|| after / before)
        };
        let by_requests = ratio(before.requests_per_second, after.requests_per_second);
        let by_allocation = ratio(before.allocated_per_second, after.allocated_per_second);
        let has_requests = by_requests.is_some();
        let differs = |ratio: Option<f64>| ratio.is_some_and(|one| one.max(1.0 / one) - 1.0 > MAX_LOAD_DIFFERENCE);
        let normalization = match (by_requests, by_allocation) {
            (by_requests, _) if differs(by_requests) => Normalization::PerRequest,
            (None, by_allocation) if differs(by_allocation) => Normalization::PerAllocatedGigabyte,
            _ => Normalization::None,
        };
        let highest =
            |load: fn(&ComparedPeriod) -> Option<f64>| load(before).unwrap_or(0.0).max(load(after).unwrap_or(0.0));
        Self {
            ratio: by_requests.or(by_allocation),
            highest: match normalization {
                Normalization::PerAllocatedGigabyte => highest(|side| side.allocated_per_second) / GIGABYTE,
                _ => highest(|side| side.requests_per_second),
            },
            normalization,
            has_requests,
        }
    }

    /// Returns the divisor of the values of a block, or `None` if the divisor is unknown or 0.
    fn divisor(self, normalization: Normalization, block: &[&Minute]) -> Option<f64> {
        let divisor = match normalization {
            Normalization::None => Some(1.0),
            Normalization::PerRequest => sum(block, |minute| minute.requests),
            Normalization::PerAllocatedGigabyte => sum(block, allocated).map(|all| all / GIGABYTE),
        };
        divisor.filter(|divisor| *divisor > 0.0)
    }

    /// Returns the normalization of a measure.
    fn normalization_of(self, measure: Measure) -> Normalization {
        match measure {
            Measure::Allocated if self.has_requests => Normalization::PerRequest,
            Measure::StoppedShare | Measure::FullCollections => self.normalization,
            _ => Normalization::None,
        }
    }
}

/// Returns the value of a measure in a block, or `None` if the value or its divisor is unknown.
fn value(measure: Measure, load: Load, block: &[&Minute]) -> Option<f64> {
    let time = seconds(block);
    let normalization = load.normalization_of(measure);
    let divisor = load.divisor(normalization, block)?;
    let is_normalized = normalization != Normalization::None;
    match measure {
        Measure::StoppedShare => {
            let stopped = sum(block, |minute| minute.stopped_ns)?;
            Some(if is_normalized {
                stopped / divisor
            } else {
                stopped / 1e9 / time
            })
        }
        Measure::Allocated => {
            let allocated = sum(block, allocated)?;
            Some(if is_normalized {
                allocated / divisor
            } else {
                allocated / time
            })
        }
        Measure::FullCollections => {
            let full = block.iter().map(|minute| minute.full as f64).sum::<f64>();
            Some(match normalization {
                Normalization::None => full / (time / 60.0),
                Normalization::PerRequest => full / divisor * 1e6,
                Normalization::PerAllocatedGigabyte => full / divisor,
            })
        }
        Measure::MedianPause => mean(block, |minute| minute.median_pause_ns),
        Measure::P95Pause => mean(block, |minute| minute.p95_pause_ns),
        Measure::Live => mean(block, |minute| minute.live),
        Measure::FullStoppedShare => {
            let stopped = |minute: &Minute| {
                if minute.full == 0 {
                    Some(0)
                } else {
                    minute.full_stopped_ns
                }
            };
            sum(block, stopped).map(|ns| ns / 1e9 / time)
        }
        Measure::YoungBudget => mean(block, |minute| minute.young_budget),
        Measure::Free => mean(block, |minute| minute.free),
        Measure::CommittedUnused => mean(block, |minute| minute.committed_unused),
        Measure::Native => mean(block, |minute| minute.native),
        Measure::Resident => mean(block, |minute| minute.resident),
        Measure::ContainerPeak => mean(block, |minute| minute.container_peak),
        Measure::Cpu => sum(block, |minute| minute.cpu_ns).map(|ns| ns / 1e9 / time),
        Measure::Requests => sum(block, |minute| minute.requests).map(|requests| requests / time),
    }
}

fn unit(measure: Measure, normalization: Normalization) -> &'static str {
    match (measure, normalization) {
        (Measure::StoppedShare, Normalization::None) | (Measure::FullStoppedShare, _) => "share",
        (Measure::StoppedShare, Normalization::PerRequest) => "ns per request",
        (Measure::StoppedShare, Normalization::PerAllocatedGigabyte) => "ns per allocated gigabyte",
        (Measure::Allocated, Normalization::PerRequest) => "bytes per request",
        (Measure::Allocated, _) => "bytes per second",
        (Measure::FullCollections, Normalization::None) => "per minute",
        (Measure::FullCollections, Normalization::PerRequest) => "per million requests",
        (Measure::FullCollections, Normalization::PerAllocatedGigabyte) => "per allocated gigabyte",
        (Measure::MedianPause | Measure::P95Pause, _) => "ns",
        (Measure::Cpu, _) => "cores",
        (Measure::Requests, _) => "per second",
        _ => "bytes",
    }
}

/// Returns the largest difference of a measure that does not matter: a share of its value, and a fixed minimum. The
/// values are judgement, not measured.
fn margin_of(measure: Measure) -> (f64, f64) {
    match measure {
        Measure::StoppedShare => (0.1, 0.001),
        Measure::MedianPause => (0.1, 100_000.0),
        Measure::Allocated => (0.05, 0.0),
        Measure::Live => (0.03, (4 << 20) as f64),
        Measure::FullCollections => (0.1, 0.2),
        _ => (0.0, 0.0),
    }
}

/// Returns the margin of a measure, given the means of its values before and after the change.
///
/// A load that differs can explain a difference in one direction, which increases the margin in this direction:
///
/// * Stopped share and full collections that are not normalized grow with the load.
/// * Pauses of young collections grow with the requests in flight, and cannot be normalized.
/// * Normalized values fall if the load grows, because a part of the work does not depend on the load
///   ([`CONSTANT_SHARE`]).
fn margin(measure: Measure, load: Load, before: f64, after: f64) -> f64 {
    let (share, fixed) = margin_of(measure);
    let normalization = load.normalization_of(measure);
    let ratio = load.ratio.unwrap_or(1.0);
    let follows_load = (after > before) == (ratio > 1.0);
    let by_load = match (measure, normalization) {
        (Measure::StoppedShare | Measure::FullCollections, Normalization::None) | (Measure::MedianPause, _)
            if follows_load =>
        {
            (ratio - 1.0).abs()
        }
        (_, Normalization::None) => 0.0,
        _ if follows_load => 0.0,
        // The share applies to the side with the lower load.
        _ if ratio > 1.0 => CONSTANT_SHARE * (1.0 - 1.0 / ratio),
        _ => 1.0 / (1.0 - CONSTANT_SHARE * (1.0 - ratio)) - 1.0,
    };
    let fixed = match (measure, normalization) {
        (_, Normalization::None) => fixed,
        // At the higher load, the margin is the same share of the time, or the same number per minute.
        (Measure::StoppedShare, _) => fixed * 1e9 / load.highest,
        (Measure::FullCollections, Normalization::PerRequest) => fixed / 60.0 / load.highest * 1e6,
        (Measure::FullCollections, _) => fixed / 60.0 / load.highest,
        _ => 0.0,
    };
    (before.abs() * (share + by_load)).max(fixed)
}

/// Returns the smallest standard error that the precision of the values allows. The error of full collections is at
/// least the error of a count.
fn resolution(measure: Measure, values: &[f64], blocks: &[Block<'_>]) -> f64 {
    let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
    let relative = mean.abs() * 0.002;
    match measure {
        Measure::FullCollections => {
            let count: f64 = blocks.iter().flatten().map(|minute| minute.full as f64).sum();
            let scale = if count > 0.0 {
                mean / count
            } else {
                1.0 / (5.0 * blocks.len().max(1) as f64)
            };
            relative.max((count + 1.0).sqrt() * scale)
        }
        _ => relative,
    }
}

/// Returns the 64-bit FNV-1a hash of a text: the seed of the bootstrap, and a part of the ids of records.
pub fn seed(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// The comparison of a measure before the correction for multiple tests. `compared` is `None` if the measure could not
/// be compared.
struct Tested {
    record: MeasureRecord,
    compared: Option<Compared>,
}

/// Compares one measure without a verdict. Before there is enough data (`is_early`), only the means are known.
fn test(
    measure: Measure,
    load: Load,
    (before, after): (&Compiled<'_>, &Compiled<'_>),
    seed: u64,
    is_early: bool,
) -> Tested {
    let normalization = load.normalization_of(measure);
    let values = |side: &Compiled<'_>| -> Vec<f64> {
        side.blocks
            .iter()
            .filter_map(|block| value(measure, load, block))
            .collect()
    };
    let (one, other) = (values(before), values(after));
    let decides = DECIDING.contains(&measure);
    let mut tested = Tested {
        record: MeasureRecord {
            measure,
            unit: unit(measure, normalization).to_owned(),
            before: None,
            after: None,
            low: None,
            high: None,
            margin: None,
            normalization,
            verdict: decides.then_some(Outcome::Unknown),
            reason: None,
        },
        compared: None,
    };
    let record = &mut tested.record;
    let mean = |values: &[f64]| (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64);
    if is_early {
        (record.before, record.after) = (mean(&one), mean(&other));
        return tested;
    }
    let known = |values: &[f64], side: &Compiled<'_>| format!("{} of {} blocks", values.len(), side.blocks.len());
    let needed = if measure == Measure::Live {
        MIN_LIVE_BLOCKS
    } else {
        MIN_BLOCKS
    };
    if one.len() < needed || other.len() < needed {
        record.reason = Some(format!(
            "the value is known in {} before and {} after the change, and a verdict needs {needed} on each side",
            known(&one, before),
            known(&other, after)
        ));
        return tested;
    }
    let margin = margin(measure, load, mean(&one).unwrap_or(0.0), mean(&other).unwrap_or(0.0));
    let resolution = resolution(measure, &one, &before.blocks).hypot(resolution(measure, &other, &after.blocks));
    let Some(compared) = compare(&one, &other, margin, resolution, seed ^ measure as u64) else {
        record.reason = Some("a value is not finite".to_owned());
        return tested;
    };
    record.before = Some(compared.before);
    record.after = Some(compared.after);
    record.low = Some(compared.low);
    record.high = Some(compared.high);
    record.margin = decides.then_some(margin);
    tested.compared = Some(compared);
    tested
}

/// Returns the reason why no measure can have a verdict, or `None` if verdicts are possible. Also returns the minutes
/// until the side after the change has enough blocks, if waiting helps.
fn too_early(before: &ComparedPeriod, after: &ComparedPeriod) -> Option<(String, Option<u64>)> {
    let missing = |side: &ComparedPeriod| (MIN_BLOCKS as u64).saturating_sub(side.blocks) * BLOCK_MINUTES as u64;
    let (early, late) = (missing(before), missing(after));
    if early > 0 {
        let text = format!(
            "the side before the change has {} blocks of {BLOCK_MINUTES} minutes, and a verdict needs {MIN_BLOCKS}",
            before.blocks
        );
        return Some((text, None));
    }
    if late > 0 {
        let text = format!(
            "the side after the change has {} blocks of {BLOCK_MINUTES} minutes, and a verdict needs {MIN_BLOCKS}",
            after.blocks
        );
        return Some((text, Some(late)));
    }
    for (side, name) in [(before, "before"), (after, "after")] {
        if side.collections < MIN_COLLECTIONS {
            let text = format!(
                "the side {name} the change has {} collections, and a verdict needs {MIN_COLLECTIONS}",
                side.collections
            );
            return Some((text, None));
        }
    }
    None
}

/// Compares two profiles of a service, from before and after a change of its configuration.
pub fn compare_profiles(before: &Profile, after: &Profile) -> ChangeRecord {
    let (one, other) = (Compiled::new(before, true), Compiled::new(after, false));
    let load = Load::between(&one.side, &other.side);
    let at = after.minutes().next().map(|minute| minute.at);
    let differences = before.configuration.differences(&after.configuration);
    let named: Vec<&str> = differences.iter().map(|one| one.after.as_str()).collect();
    let seed = seed(&format!(
        "{} {at:?} {named:?} {} {}",
        after.service, one.side.minutes, other.side.minutes
    ));
    let early = too_early(&one.side, &other.side);
    let mut tested: Vec<Tested> = Measure::ALL
        .iter()
        .map(|measure| test(*measure, load, (&one, &other), seed, early.is_some()))
        .collect();
    let probabilities: Vec<f64> = tested
        .iter()
        .take(DECIDING.len())
        .map(|tested| tested.compared.map_or(1.0, |compared| compared.p))
        .collect();
    let significant = holm(&probabilities);
    for (tested, significant) in tested.iter_mut().zip(significant) {
        let reason = match &early {
            Some((reason, _)) => Some(reason.clone()),
            None => tested
                .record
                .reason
                .clone()
                .or_else(|| unusable_load(tested, load, significant)),
        };
        tested.record.verdict = Some(match (&reason, tested.compared) {
            (None, Some(_)) if !significant => Outcome::Same,
            (None, Some(compared)) if compared.after < compared.before => Outcome::Better,
            (None, Some(_)) => Outcome::Worse,
            _ => Outcome::Unknown,
        });
        tested.record.reason = reason;
    }
    let start_ns = at.map(|minute| minute.saturating_mul(MINUTE_NS));
    ChangeRecord {
        id: None,
        service: after.service.clone(),
        at: start_ns.and_then(rfc3339),
        before: before.configuration.clone(),
        after: after.configuration.clone(),
        differences,
        before_side: one.side,
        after_side: other.side,
        minutes_left: early.and_then(|(_, left)| left),
        measures: tested.into_iter().map(|tested| tested.record).collect(),
    }
}

/// Returns the reason why the load makes a verdict on a measure impossible, or `None` if a verdict is possible.
fn unusable_load(tested: &Tested, load: Load, significant: bool) -> Option<String> {
    match tested.record.measure {
        Measure::StoppedShare | Measure::FullCollections if load.ratio.is_none() => {
            Some("neither requests nor allocated bytes are known on both sides, so the load is unknown".to_owned())
        }
        Measure::Allocated if !load.has_requests && significant => Some(
            "without requests, more load and more allocation per request look the same; observe requests on both sides"
                .to_owned(),
        ),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
