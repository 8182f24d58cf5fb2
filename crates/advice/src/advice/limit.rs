//! A higher or a lower memory limit.

use super::{Check, Expected, Prediction, PredictionResult, Subject, ends, mebibytes};
use crate::basis::SizingBasis;
use crate::model::{MemoryModel, Range};
use crate::observation::{FullCollection, median};
use crate::setting::Setting;
use crate::sizing::{Container, bytes};
use clr_gc::gc::Asker;

/// Minimum number of blocking full collections that ran because memory was short. Judgement, not measured.
const MIN_AT_LIMIT: usize = 2;
/// Ratio of the full collections with twice the headroom to those with the present headroom. The model predicts one
/// half. The width of the range is judgement.
const AFTER_TWICE: Range = Range { low: 0.33, high: 0.75 };
/// Minimum length of a window for advice to lower the limit, in seconds: 7 days. Judgement: a shorter window can miss
/// the peak of a week.
const MIN_LOWER_S: f64 = 7.0 * 86_400.0;
/// Maximum lower limit, as a share of the present limit. A smaller reduction does not justify a change. Judgement, not
/// measured.
const MAX_KEPT: f64 = 0.9;

/// Creates a check that lasts 10 minutes at the same load, within 5 %.
fn check(text: String) -> Check {
    Check {
        text,
        duration_s: 600,
        load_tolerance: 0.05,
    }
}

/// Returns the expectation for a limit, which consists of the stopped share and the memory.
fn expected(subject: &Subject<'_>, stopped: Range, change: Range) -> Expected {
    let (memory, memory_change) = subject.memory(change);
    Expected {
        stopped_share: Some(ends(stopped)),
        memory,
        memory_change,
        ..Expected::default()
    }
}

/// Predicts the effect of a limit that doubles the headroom. Requires blocking full collections in the window that ran
/// because memory was short.
pub(super) fn raise(subject: &Subject<'_>) -> PredictionResult {
    let (observation, configuration) = (subject.observation, subject.configuration);
    let at_limit = |full: &&FullCollection| !full.concurrent && full.asker == Asker::Limit;
    let forced: Vec<&FullCollection> = observation.full.iter().filter(at_limit).collect();
    if forced.len() < MIN_AT_LIMIT {
        return Err(format!(
            "{} of {} full collections were blocking because memory was short, and a prediction needs {MIN_AT_LIMIT}",
            forced.len(),
            observation.full.len()
        ));
    }
    let memory_limit = configuration.memory_limit;
    let Some(heap_limit) = configuration.heap_limit else {
        return Err("the heap limit is unknown; pass the memory limit of the container with --limit".to_owned());
    };
    let basis = SizingBasis::from_observation(observation);
    let model = MemoryModel::new(&basis)?;
    let share = subject.worthwhile_share()?;
    let pause = median(forced.iter().filter_map(|full| full.pause_ns));
    let pause = pause.ok_or_else(|| "the length of the full collections is unknown".to_owned())?;
    let per_minute = forced.len() as f64 / (observation.seconds() / 60.0);
    // The bytes promoted between two of these collections equal the actual headroom.
    let headroom = (model.promotion + model.large) * 60.0 / per_minute;
    if headroom <= 0.0 {
        return Err("nothing was promoted between full collections, so more memory does not delay them".to_owned());
    }
    let container = Container::new(configuration, &basis);
    let raised = container.around(heap_limit as f64 + headroom);
    let saved = |left: f64| per_minute * (1.0 - left) / 60.0 * pause / 1e9;
    let stopped = AFTER_TWICE.map(|left| (share - saved(left)).max(0.0));
    let change = Range::new(0.0, headroom);
    let now = memory_limit.map_or_else(String::new, |limit| format!(" (now {} MiB)", mebibytes(limit as f64)));
    Ok(Prediction {
        setting: Setting::from_memory_limit(bytes(raised)),
        runtimes: &[8, 9, 10, 11],
        expected: expected(subject, stopped, change),
        because: format!(
            "{} blocking full collections of {:.0} ms ran because memory was short, {per_minute:.1} per minute; {} MiB \
             more of heap halve them{now}",
            forced.len(),
            pause / 1e6,
            mebibytes(headroom)
        ),
        check: check(format!(
            "10 min at the same load (allocated bytes per second ±5 %): {:.1} to {:.1} blocking full collections per \
             minute",
            per_minute * AFTER_TWICE.low,
            per_minute * AFTER_TWICE.high
        )),
    })
}

/// Predicts the effect of the smallest limit that the window supports. `any_window` also accepts windows shorter than
/// [`MIN_LOWER_S`], for blind predictions.
pub(super) fn lower(subject: &Subject<'_>, any_window: bool) -> PredictionResult {
    let (observation, configuration) = (subject.observation, subject.configuration);
    let Some(memory_limit) = configuration.memory_limit else {
        return Err("the memory limit of the container is unknown; pass it with --limit".to_owned());
    };
    if observation
        .full
        .iter()
        .any(|full| !full.concurrent && full.asker == Asker::Limit)
    {
        return Err("a blocking full collection ran because memory was short: the limit is already felt".to_owned());
    }
    if observation.seconds() < MIN_LOWER_S && !any_window {
        return Err(format!(
            "the window has {:.1} minutes, and a lower limit needs 7 days that include a deployment; the sizing record \
             states the lower bound that was seen",
            observation.seconds() / 60.0
        ));
    }
    let basis = SizingBasis::from_observation(observation);
    let model = MemoryModel::new(&basis)?;
    let container = Container::new(configuration, &basis);
    let needed = container.around(model.needed());
    if needed > MAX_KEPT * memory_limit as f64 {
        return Err(format!(
            "the service needs at least {} of its {} MiB",
            mebibytes(needed),
            mebibytes(memory_limit as f64)
        ));
    }
    let price = model.price(model.needed());
    let stopped = price
        .stopped_share
        .ok_or_else(|| "the price of the limit is unknown".to_owned())?;
    let committed = observation.committed.unwrap_or(model.needed());
    let change = Range::new((model.needed() - committed).min(0.0) * 2.0, 0.0);
    Ok(Prediction {
        setting: Setting::from_memory_limit(bytes(needed)),
        runtimes: &[8, 9, 10, 11],
        expected: expected(subject, stopped, change),
        because: format!(
            "at most {} MiB lived after a full collection, and {} MiB were in the young generations: not less than {} \
             MiB of {} MiB",
            mebibytes(model.live),
            mebibytes(model.young_high),
            mebibytes(needed),
            mebibytes(memory_limit as f64)
        ),
        check: check(
            "a day with its peak hour and a deployment: no blocking full collection because memory is short".to_owned(),
        ),
    })
}
