//! Advice: settings with their price, or the reason why there is none.
//!
//! Each kind yields one record per window, in this order of reasons: the window cannot carry a prediction, a fact of
//! the process disqualifies the kind, the kind is switched off on this node, or the kind has no proof.

mod collector;
mod conserve;
mod gen0;
mod large;
mod limit;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::configuration::Configuration;
use crate::model::Range;
use crate::observation::Observation;
use crate::proof::{HitRates, Kind, Proof, Verdict, not_admitted};
use crate::setting::Setting;
use crate::sizing::{Ends, Window, bytes};

/// Stopped share below which a shorter one is not worth a change.
const MIN_STOPPED_SHARE: f64 = 0.01;
/// Uncertainty of a predicted stopped share and of a median pause. The worst of six predictions was 48 % off.
const SPREAD: f64 = 0.5;

/// The four measures of an advice. Null if unknown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Measures {
    /// Share of the time during which the program is suspended.
    pub stopped_share: Option<f64>,
    /// Median pause of all collections, in nanoseconds.
    pub median_pause_ns: Option<f64>,
    /// Resident memory, in bytes, or the committed memory of the heap if resident memory is unknown.
    pub memory: Option<f64>,
    /// CPU of the process, in cores.
    pub cpu: Option<f64>,
    /// Allocated bytes per second: the load to which the measures belong.
    pub allocated_per_second: Option<f64>,
    /// Young collections per second.
    pub young_per_second: Option<f64>,
}

/// Expected ranges of the four measures. Null if the measure cannot be predicted, or if its present value is unknown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Expected {
    /// Share of the time during which the program is suspended.
    pub stopped_share: Option<Ends>,
    /// Median pause of all collections, in nanoseconds.
    pub median_pause_ns: Option<Ends>,
    /// Memory, in bytes.
    pub memory: Option<Ends>,
    /// Change of the memory, in bytes.
    pub memory_change: Option<Ends>,
    /// CPU of the process, in cores.
    pub cpu: Option<Ends>,
    /// Young collections per second.
    pub young_per_second: Option<Ends>,
}

/// The fact that an advice or a refusal rests on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Because {
    /// The fact, as a sentence without a period.
    pub text: String,
    /// Window of the fact, with counts.
    pub window: Window,
}

/// How to check an advice.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Check {
    /// The check, as a sentence without a period.
    pub text: String,
    /// Duration of the check, in seconds.
    pub duration_s: u64,
    /// Largest difference of the allocated bytes per second, as a share.
    pub load_tolerance: f64,
}

/// The subject of an advice.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AppliesTo {
    /// Name of the process or service; null if unknown.
    pub process: Option<String>,
    /// Pid; null if unknown.
    pub pid: Option<u64>,
    /// Configuration in the window.
    pub configuration: Configuration,
    /// Major versions of the runtime that honour the setting; empty for a refusal.
    pub runtimes: Vec<u32>,
}

/// `kind: "advice"`: a setting with its price, or a refusal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename = "advice")]
pub struct AdviceRecord {
    /// Identity: the same facts have the same id.
    pub id: String,
    /// SHA-256 of the record without `hash` and `verdict`, so that a later change is visible.
    pub hash: String,
    /// Time at which the record was made, RFC 3339.
    pub made_at: String,
    /// Kind of advice.
    pub advice: Kind,
    /// The setting; null for a refusal.
    pub setting: Option<Setting>,
    /// Process, configuration and runtimes.
    pub applies_to: AppliesTo,
    /// Measured values.
    pub now: Measures,
    /// Expected ranges; null for a refusal.
    pub expected: Option<Expected>,
    /// The fact behind the advice or the refusal.
    pub because: Because,
    /// How to check the advice; null for a refusal.
    pub check: Option<Check>,
    /// Whether the kind has no proof. Such a prediction is shown only on request, to record it blindly.
    pub unproven: bool,
    /// Outcome after a restart with the setting; null if there was none.
    pub verdict: Option<Verdict>,
}

impl AdviceRecord {
    /// Returns whether the record is a refusal.
    pub fn is_refusal(&self) -> bool {
        self.setting.is_none()
    }

    fn digest(&self) -> String {
        let plain = Self {
            hash: String::new(),
            verdict: None,
            ..self.clone()
        };
        // Serialization to memory fails only for maps with keys that are not text, which a record does not have.
        let text = serde_json::to_vec(&plain).unwrap_or_default();
        Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Sets the id and the hash.
    fn seal(&mut self) {
        let made_at = std::mem::take(&mut self.made_at);
        self.id = self.digest().chars().take(16).collect();
        self.made_at = made_at;
        self.hash = self.digest();
    }

    /// Returns whether the record is as it was made.
    pub fn is_unchanged(&self) -> bool {
        self.hash == self.digest()
    }
}

/// The input of all kinds.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// Name of the process or service.
    pub process: Option<&'a str>,
    /// Pid.
    pub pid: Option<u64>,
    /// Configuration in the window.
    pub configuration: &'a Configuration,
    /// Facts of the window.
    pub observation: &'a Observation,
}

/// Rules for the output.
#[derive(Debug, Clone, Copy)]
pub struct Terms<'a> {
    /// Time of the records, RFC 3339.
    pub made_at: &'a str,
    /// Proofs of kinds: [`crate::proof::ADMITTED`], except in tests.
    pub proofs: &'a [Proof],
    /// Verdicts so far.
    pub rates: &'a HitRates,
    /// Whether predictions of kinds without proof are shown.
    pub unproven: bool,
}

/// A prediction of a kind.
struct Prediction {
    setting: Setting,
    runtimes: &'static [u32],
    expected: Expected,
    because: String,
    check: Check,
}

/// The result of a kind: a prediction, or the disqualifying fact as a sentence.
type Found = Result<Prediction, String>;

impl Subject<'_> {
    fn now(&self) -> Measures {
        let observation = self.observation;
        let seconds = observation.seconds();
        let known = |value: Option<f64>| value.map(rounded);
        Measures {
            stopped_share: known(observation.stopped_share()),
            median_pause_ns: known(observation.median_pause_ns),
            memory: known(observation.surroundings.resident.or(observation.committed)),
            cpu: known(observation.surroundings.cpu),
            allocated_per_second: known(observation.allocation),
            young_per_second: known((seconds > 0.0).then(|| observation.young.len() as f64 / seconds)),
        }
    }

    /// Returns the number of CPUs, rounded up to whole ones.
    fn cpus(&self) -> Option<f64> {
        self.configuration.cpus.map(f64::ceil)
    }

    /// Returns the stopped share, if it is large enough for a change.
    fn worthwhile_share(&self) -> Result<f64, String> {
        let share = self.observation.stopped_share();
        let share = share.ok_or_else(|| "the length of a suspension is unknown".to_owned())?;
        if share < MIN_STOPPED_SHARE {
            return Err(format!(
                "collections suspend the program for {:.2} % of the time, and below {:.0} % there is nothing to gain",
                share * 100.0,
                MIN_STOPPED_SHARE * 100.0
            ));
        }
        Ok(share)
    }

    /// Returns the free part of the heap limit; infinite without a limit.
    fn room(&self) -> Result<f64, String> {
        let configuration = self.configuration;
        match (configuration.heap_limit, self.observation.committed) {
            (Some(limit), Some(committed)) => Ok((limit as f64 - committed).max(0.0)),
            (Some(_), None) => Err("the committed memory of the heap is unknown".to_owned()),
            (None, _) if configuration.heap_limit_known => Ok(f64::INFINITY),
            (None, _) => {
                Err("the heap limit is unknown; pass the memory limit of the container with --limit".to_owned())
            }
        }
    }

    /// Returns ranges of the memory after a change by this range.
    fn memory(&self, change: Range) -> (Option<Ends>, Option<Ends>) {
        let after = self
            .now()
            .memory
            .map(|now| ends(change.map(|change| (now + change).max(0.0))));
        (after, Some(ends(change)))
    }
}

/// Rounds a figure to six significant digits. JSON keeps such a number exactly, so that the hash of a stored record can
/// be checked.
fn rounded(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    format!("{value:.5e}").parse().unwrap_or(value)
}

/// Returns the ends of a range.
fn ends(range: Range) -> Ends {
    [rounded(range.low), rounded(range.high)]
}

/// Returns the check of a setting that changes collections.
fn check(text: String) -> Check {
    Check {
        text,
        duration_s: 60,
        load_tolerance: 0.05,
    }
}

/// Makes one record per kind: advice first, by the middle of the expected stopped share and then of the median pause;
/// then refusals.
pub fn advise(subject: &Subject<'_>, terms: &Terms<'_>) -> Vec<AdviceRecord> {
    let mut records: Vec<AdviceRecord> = Kind::ALL.iter().map(|kind| record(*kind, subject, terms)).collect();
    let middle = |range: Option<Ends>| range.map_or(f64::INFINITY, |[low, high]| f64::midpoint(low, high));
    let rank = |record: &AdviceRecord| {
        let expected = record.expected.unwrap_or_default();
        (middle(expected.stopped_share), middle(expected.median_pause_ns))
    };
    records.sort_by(|one, other| {
        let (one_rank, other_rank) = (rank(one), rank(other));
        one.is_refusal()
            .cmp(&other.is_refusal())
            .then(one_rank.0.total_cmp(&other_rank.0))
            .then(one_rank.1.total_cmp(&other_rank.1))
    });
    records
}

fn record(kind: Kind, subject: &Subject<'_>, terms: &Terms<'_>) -> AdviceRecord {
    let found = match subject.observation.disqualified() {
        Some(reason) => Err(reason),
        None => match kind {
            Kind::LimitRaise => limit::raise(subject),
            Kind::LimitLower => limit::lower(subject, terms.unproven),
            Kind::Collector => collector::predict(subject),
            Kind::Gen0Size => gen0::predict(subject),
            Kind::LargeObjects => large::predict(subject),
            Kind::ConserveMemory => conserve::predict(subject),
        },
    };
    let lacks_proof = not_admitted(terms.proofs, kind);
    let is_unproven = lacks_proof.is_some();
    let found = found.and_then(|prediction| match (terms.rates.switched_off(kind), lacks_proof) {
        (Some(reason), _) => Err(reason),
        (None, Some(reason)) if !terms.unproven => Err(reason),
        (None, _) => Ok(prediction),
    });
    let window = Window::of(subject.observation);
    let mut record = AdviceRecord {
        id: String::new(),
        hash: String::new(),
        made_at: terms.made_at.to_owned(),
        advice: kind,
        setting: None,
        applies_to: AppliesTo {
            process: subject.process.map(str::to_owned),
            pid: subject.pid,
            configuration: subject.configuration.clone(),
            runtimes: Vec::new(),
        },
        now: subject.now(),
        expected: None,
        because: Because {
            text: String::new(),
            window,
        },
        check: None,
        unproven: false,
        verdict: None,
    };
    match found {
        Ok(prediction) => {
            record.setting = Some(prediction.setting);
            record.applies_to.runtimes = prediction.runtimes.to_vec();
            record.expected = Some(prediction.expected);
            record.because.text = prediction.because;
            record.check = Some(prediction.check);
            record.unproven = is_unproven;
        }
        Err(reason) => record.because.text = reason,
    }
    record.seal();
    record
}

/// Returns whole mebibytes for texts.
fn mebibytes(value: f64) -> u64 {
    bytes(value) >> 20
}

#[cfg(test)]
mod tests;
