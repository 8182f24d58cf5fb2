//! Advice: settings with their price, or the reason for a refusal.
//!
//! Each kind yields one record per window. A refusal states the first reason that applies: the window is unsuitable for
//! predictions, a fact of the process rules the kind out, the kind is switched off on this node, or the kind has no
//! sufficient proof.

mod collector;
mod conserve;
mod gen0;
mod large;
mod limit;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::basis::Window;
use crate::configuration::Configuration;
use crate::model::Range;
use crate::observation::Observation;
use crate::proof::{HitRates, Kind, Proof, Verdict, not_admitted};
use crate::setting::Setting;
use crate::sizing::{Ends, bytes};

/// Minimum stopped share for advice that reduces it. Below this share, the gain does not justify a change. Judgement,
/// not measured.
const MIN_STOPPED_SHARE: f64 = 0.01;
/// Uncertainty of a predicted stopped share and of a predicted median pause. Measured: the worst of six predictions of
/// the stopped share was 48 % off.
const SPREAD: f64 = 0.5;

/// Measured values of a window: stopped share, median pause, memory and CPU, with the load at which they were measured.
/// Null if unknown.
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
    /// Allocated bytes per second. This is the load at which the other values were measured.
    pub allocated_per_second: Option<f64>,
    /// Young collections per second.
    pub young_per_second: Option<f64>,
}

/// Expected ranges after the change. A range is null if the measure cannot be predicted. The ranges of memory and CPU
/// are also null if the present value is unknown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Expected {
    /// Share of the time during which the program is suspended.
    pub stopped_share: Option<Ends>,
    /// Median pause of all collections, in nanoseconds.
    pub median_pause_ns: Option<Ends>,
    /// Resident memory, in bytes, or the committed memory of the heap if [`Measures::memory`] contains it.
    pub memory: Option<Ends>,
    /// Change of the memory, in bytes.
    pub memory_change: Option<Ends>,
    /// CPU of the process, in cores.
    pub cpu: Option<Ends>,
    /// Young collections per second.
    pub young_per_second: Option<Ends>,
}

/// The fact behind advice or a refusal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Because {
    /// The fact, as a sentence without a period.
    pub text: String,
    /// Window in which the fact was observed, with counts.
    pub window: Window,
}

/// Instructions for checking whether followed advice had the expected effect.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Check {
    /// Expected observation, as a sentence without a period.
    pub text: String,
    /// Duration of the check, in seconds.
    pub duration_s: u64,
    /// Maximum difference between the allocation rates before the change and during the check, as a share.
    pub load_tolerance: f64,
}

/// The process and runtimes that advice applies to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AppliesTo {
    /// Name of the process or service; null if unknown.
    pub process: Option<String>,
    /// Process ID; null if unknown.
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
    /// Identifier: the first 16 hexadecimal digits of a SHA-256 that does not cover the time, so that the same facts
    /// have the same id.
    pub id: String,
    /// SHA-256 of the record without `hash` and `verdict`. Any other change to the record makes the hash invalid.
    pub hash: String,
    /// Time at which the record was created, in the format of RFC 3339.
    pub made_at: String,
    /// Kind of advice.
    pub advice: Kind,
    /// The setting; null for a refusal.
    pub setting: Option<Setting>,
    /// Process, configuration and runtimes that the record applies to.
    pub applies_to: AppliesTo,
    /// Measured values of the window.
    pub now: Measures,
    /// Expected ranges; null for a refusal.
    pub expected: Option<Expected>,
    /// The fact behind the advice or the refusal.
    pub because: Because,
    /// Instructions for checking the advice; null for a refusal.
    pub check: Option<Check>,
    /// Whether the record is a prediction of a kind without sufficient proof; false for a refusal. Such a prediction is
    /// shown only on request, so that it can be recorded before its trial.
    pub unproven: bool,
    /// Outcome after a restart with the setting; null if no outcome has been determined.
    pub verdict: Option<Verdict>,
}

impl AdviceRecord {
    /// Returns whether the record is a refusal.
    pub fn is_refusal(&self) -> bool {
        self.setting.is_none()
    }

    /// Returns the SHA-256 of the record without `hash` and `verdict`, as hexadecimal digits.
    fn digest(&self) -> String {
        let plain = Self {
            hash: String::new(),
            verdict: None,
            ..self.clone()
        };
        // Serialization to memory fails only for maps whose keys are not text. A record has no maps.
        let text = serde_json::to_vec(&plain).unwrap_or_default();
        Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Sets the id, which does not cover the time, and then the hash, which covers both.
    fn seal(&mut self) {
        let made_at = std::mem::take(&mut self.made_at);
        self.id = self.digest().chars().take(16).collect();
        self.made_at = made_at;
        self.hash = self.digest();
    }

    /// Returns whether `hash` matches the record, which means that only the verdict can have changed since the record
    /// was created.
    pub fn is_unchanged(&self) -> bool {
        self.hash == self.digest()
    }
}

/// A process with its configuration and the facts of its window: the input of every kind.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// Name of the process or service; `None` if unknown.
    pub process: Option<&'a str>,
    /// Process ID; `None` if unknown.
    pub pid: Option<u64>,
    /// Configuration in the window.
    pub configuration: &'a Configuration,
    /// Facts of the window.
    pub observation: &'a Observation,
}

/// Conditions under which predictions are shown.
#[derive(Debug, Clone, Copy)]
pub struct Terms<'a> {
    /// Creation time of the records, in the format of RFC 3339.
    pub made_at: &'a str,
    /// Proofs that admit kinds: [`crate::proof::ADMITTED`], except in tests.
    pub proofs: &'a [Proof],
    /// Verdicts on earlier advice, which can switch a kind off.
    pub rates: &'a HitRates,
    /// Whether predictions of kinds without sufficient proof are shown.
    pub unproven: bool,
}

/// The prediction of one kind of advice.
struct Prediction {
    setting: Setting,
    runtimes: &'static [u32],
    expected: Expected,
    because: String,
    check: Check,
}

/// The result of a kind: a prediction, or the fact that rules the kind out, as a sentence without a period.
type PredictionResult = Result<Prediction, String>;

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

    /// Returns the number of CPUs, rounded up to an integer, or `None` if unknown.
    fn cpus(&self) -> Option<f64> {
        self.configuration.cpus.map(f64::ceil)
    }

    /// Returns the stopped share if it is at least [`MIN_STOPPED_SHARE`], or the reason for a refusal.
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

    /// Returns the bytes between the committed memory and the heap limit, or infinity if the heap has no limit. Returns
    /// the reason for a refusal if one of the values is unknown.
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

    /// Returns the range of the memory after a change, and the range of the change itself. The first range is `None` if
    /// the present memory is unknown.
    fn memory(&self, change: Range) -> (Option<Ends>, Option<Ends>) {
        let after = self
            .now()
            .memory
            .map(|now| ends(change.map(|change| (now + change).max(0.0))));
        (after, Some(ends(change)))
    }
}

/// Rounds a figure to six significant digits. JSON preserves such a number exactly, so that the hash of a stored record
/// can be verified.
fn rounded(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    format!("{value:.5e}").parse().unwrap_or(value)
}

/// Returns the ends of a range, rounded.
fn ends(range: Range) -> Ends {
    [rounded(range.low), rounded(range.high)]
}

/// Creates a check that lasts 60 s at the same load, within 5 %.
fn check(text: String) -> Check {
    Check {
        text,
        duration_s: 60,
        load_tolerance: 0.05,
    }
}

/// Returns one record per kind. Advice precedes refusals. Advice is sorted by the middle of the expected stopped share,
/// then by the middle of the expected median pause, both ascending.
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

/// Returns the sealed record of one kind.
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
    let window = Window::from_observation(subject.observation);
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

/// Converts bytes to mebibytes for texts, rounded down.
fn mebibytes(value: f64) -> u64 {
    bytes(value) >> 20
}

#[cfg(test)]
mod tests;
