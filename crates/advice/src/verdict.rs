//! The outcome of advice that was followed.

use crate::advice::{AdviceRecord, Expected};
use crate::change::{ChangeRecord, Measure, MeasureRecord, Normalization, Outcome};
use crate::proof::{Kind, Verdict};
use crate::sizing::Ends;

/// Relative difference between the allocation rates above which the load counts as changed. Judgement, not measured.
const MAX_LOAD_DIFFERENCE: f64 = 0.3;

/// Returns the mean of a measure after the change. A normalized stopped share is converted to a share of the time at
/// the load before the change. `per_second` is that load: requests or allocated bytes per second. Returns `None` if the
/// mean or a required load is unknown.
fn after(record: &MeasureRecord, per_second: Option<f64>) -> Option<f64> {
    let after = record.after?;
    match record.normalization {
        Normalization::None => Some(after),
        Normalization::PerRequest => Some(after * per_second? / 1e9),
        Normalization::PerAllocatedGigabyte => Some(after * per_second? / 1e9 / 1e9),
    }
}

/// Returns whether a value is in its range, or `None` if the range or the value is unknown.
fn is_within(range: Option<Ends>, value: Option<f64>) -> Option<bool> {
    let ([low, high], value) = range.zip(value)?;
    Some(low <= value && value <= high)
}

/// Returns whether the configuration after the change has the value that the advice proposes.
fn is_followed(advice: &AdviceRecord, change: &ChangeRecord) -> bool {
    let Some(setting) = &advice.setting else { return false };
    let decimal = |name: &str| {
        let variable = setting.variables.iter().find(|variable| variable.name.ends_with(name));
        variable.map(|variable| variable.decimal)
    };
    let after = &change.after;
    match advice.advice {
        Kind::LimitRaise | Kind::LimitLower => after.memory_limit == setting.memory_limit,
        Kind::Collector => after.server.map(u64::from) == decimal("gcServer"),
        Kind::Gen0Size => after.gen0_size == decimal("GCgen0size"),
        Kind::ConserveMemory => after.conserve_memory == decimal("GCConserveMemory"),
        Kind::LargeObjects => false,
    }
}

/// Returns the outcome of advice, given a change of the configuration. Returns `None` for a refusal, if the change did
/// not apply the setting, if the version or the runtime changed as well, if the comparison needs more minutes, or if no
/// expected measure has a value after the change.
pub fn judge(advice: &AdviceRecord, change: &ChangeRecord) -> Option<Verdict> {
    let expected: Expected = advice.expected?;
    let same_program = change.before.version == change.after.version && change.before.runtime == change.after.runtime;
    if !same_program || !is_followed(advice, change) {
        return None;
    }
    let stopped = change.measure(Measure::StoppedShare)?;
    let allocation = change
        .before_side
        .allocated_per_second
        .zip(change.after_side.allocated_per_second);
    let Some((before, now)) = allocation else {
        return Some(Verdict::LoadChanged).filter(|_| change.minutes_left.is_none());
    };
    if stopped.verdict == Some(Outcome::Unknown) {
        let is_over = change.minutes_left.is_none() && stopped.after.is_some();
        return is_over.then_some(Verdict::LoadChanged);
    }
    if before <= 0.0 || (now / before - 1.0).abs() > MAX_LOAD_DIFFERENCE {
        return Some(Verdict::LoadChanged);
    }
    let per_second = match stopped.normalization {
        Normalization::PerRequest => change.before_side.requests_per_second,
        _ => Some(before),
    };
    let value = |measure: Measure| change.measure(measure).and_then(|record| after(record, per_second));
    let pairs = [
        (expected.stopped_share, value(Measure::StoppedShare)),
        (expected.median_pause_ns, value(Measure::MedianPause)),
        (expected.memory, value(Measure::Resident)),
        (expected.cpu, value(Measure::Cpu)),
    ];
    let known: Vec<bool> = pairs
        .into_iter()
        .filter_map(|(range, value)| is_within(range, value))
        .collect();
    if known.is_empty() {
        return None;
    }
    Some(if known.iter().all(|within| *within) {
        Verdict::Kept
    } else {
        Verdict::Failed
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::{AppliesTo, Because, Measures};
    use crate::basis::Window;
    use crate::change::compare_profiles;
    use crate::configuration::Configuration;
    use crate::profile::{Minute, Profile};
    use crate::setting::{Setting, Variable};

    const BUDGET: u64 = 64 << 20;

    fn advice() -> AdviceRecord {
        AdviceRecord {
            id: "1".to_owned(),
            hash: String::new(),
            made_at: String::new(),
            advice: Kind::Gen0Size,
            setting: Some(Setting::from_variables(vec![Variable::new("GCgen0size", BUDGET)])),
            applies_to: AppliesTo {
                process: None,
                pid: None,
                configuration: Configuration::default(),
                runtimes: vec![10],
            },
            now: Measures::default(),
            expected: Some(Expected {
                stopped_share: Some([0.01, 0.03]),
                median_pause_ns: Some([1e6, 3e6]),
                ..Expected::default()
            }),
            because: Because {
                text: String::new(),
                window: Window::default(),
            },
            check: None,
            unproven: false,
            verdict: None,
        }
    }

    /// Returns a profile with constant minutes.
    fn profile(configuration: Configuration, minutes: u64, share: f64, allocated: u64) -> Profile {
        let mut profile = Profile::new("shop", configuration);
        for at in 0..minutes {
            let minute = Minute {
                at,
                observed_ns: 60_000_000_000,
                collections: 100,
                allocated: Some(allocated),
                stopped_ns: Some((share * 60e9) as u64),
                median_pause_ns: Some(2_000_000),
                ..Minute::default()
            };
            profile.push(minute).unwrap();
        }
        profile
    }

    /// Returns the outcome of [`advice`] for a service with these figures after the change.
    fn judged(after: &Configuration, minutes: u64, share: f64, allocated: u64) -> Option<Verdict> {
        let before = profile(Configuration::default(), 25, 0.06, 6_000_000_000);
        judge(
            &advice(),
            &compare_profiles(&before, &profile(after.clone(), minutes, share, allocated)),
        )
    }

    /// Scenario: a service restarts with the advised budget, and its stopped share is inside or outside the range. In
    /// other cases, its load is higher by 25 % or by 40 %, the service ran for only 10 minutes, or the service
    /// restarted with a different budget or version.
    /// Guarantee: the verdict is `kept` inside the range and `failed` outside the range. A share at 1.25 times the load
    /// is converted to the earlier load. If the load is higher by 40 %, the verdict is `load_changed`. The other cases
    /// have no verdict.
    #[test]
    fn advice_is_judged_by_the_change() {
        let set = Configuration {
            gen0_size: Some(BUDGET),
            ..Configuration::default()
        };
        let same = 6_000_000_000;
        assert_eq!(judged(&set, 25, 0.02, same), Some(Verdict::Kept));
        assert_eq!(judged(&set, 25, 0.035, same), Some(Verdict::Failed));
        // A share of 3.5 % at 1.25 times the allocation corresponds to 2.8 % at the load before the change.
        assert_eq!(judged(&set, 25, 0.035, same / 4 * 5), Some(Verdict::Kept));
        assert_eq!(judged(&set, 25, 0.02, same / 5 * 7), Some(Verdict::LoadChanged));
        assert_eq!(judged(&set, 10, 0.02, same), None);
        let other = Configuration {
            gen0_size: Some(BUDGET / 2),
            ..Configuration::default()
        };
        assert_eq!(judged(&other, 25, 0.02, same), None);
        let newer = Configuration {
            version: Some("2".to_owned()),
            ..set
        };
        assert_eq!(judged(&newer, 25, 0.02, same), None);
    }
}
