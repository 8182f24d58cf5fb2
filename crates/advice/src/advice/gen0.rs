//! The budget of generation 0 (`GCgen0size`).
//!
//! .NET 8 to 11 honour the environment variable, but not `System.GC.Gen0Size` in `runtimeconfig.json`. On server GC
//! with DATAS, the setting pins a small budget and one heap, which makes pauses and CPU worse. On server GC without
//! DATAS, the setting is only a minimum.

use super::{Expected, Prediction, PredictionResult, SPREAD, Subject, check, ends, mebibytes};
use crate::model::{Range, YoungModel};
use crate::setting::{Setting, Variable};

/// Maximum budget that the runtime accepts. Measured: a setting of 256 MiB resulted in 128 MiB.
const MAX_BUDGET: f64 = (128 << 20) as f64;
/// Maximum ratio of the new budget to the observed budget. Judgement, not measured.
const MAX_FACTOR: f64 = 4.0;
/// Maximum predicted survivors of a collection, including generation 1, for which no walk of dead objects is expected.
/// Judgement: the smallest measured threshold is [`crate::model::WALK_THRESHOLD`].
const MAX_SURVIVORS: f64 = 1.5e6;
/// Minimum share of collections that already walk dead objects for which a larger budget does not add walks. Judgement,
/// not measured.
const WALKS_ALWAYS: f64 = 0.9;
/// Maximum increase of memory per additional byte of budget. Measured: 19 runs stayed below it.
const MEMORY_PER_BYTE: f64 = 1.1;

/// Predicts the effect of the largest suitable budget: four times the observed budget, or twice if four times is
/// refused.
pub(super) fn predict(subject: &Subject<'_>) -> PredictionResult {
    let configuration = subject.configuration;
    match (configuration.server, configuration.adaptive) {
        (Some(false), _) => {}
        (None, _) => return Err("it is unknown whether the process uses workstation GC".to_owned()),
        (Some(true), Some(true)) => {
            return Err("with DATAS, GCgen0size pins a small budget and one heap: pauses and CPU get worse".to_owned());
        }
        (Some(true), _) => {
            return Err("with server GC, the budget follows the survivors, and GCgen0size is only a floor".to_owned());
        }
    }
    if let Some(size) = configuration.gen0_size {
        return Err(format!("GCgen0size is already set, to {} MiB", mebibytes(size as f64)));
    }
    let share = subject.worthwhile_share()?;
    let observation = subject.observation;
    let model = YoungModel::from_observation(observation)
        .ok_or_else(|| "a part of the young collections is unknown".to_owned())?;
    let budget = [4.0, 2.0]
        .map(|factor: f64| {
            mebibytes((model.budget * factor.min(MAX_FACTOR)).min(MAX_BUDGET)) as f64 * f64::from(1 << 20)
        })
        .into_iter()
        .filter(|budget| *budget >= model.budget * 1.5);
    let mut reason = format!(
        "the budget is {} MiB, and the runtime takes at most {} MiB",
        mebibytes(model.budget),
        mebibytes(MAX_BUDGET)
    );
    for budget in budget {
        match at(subject, &model, share, budget) {
            Ok(prediction) => return Ok(prediction),
            Err(other) => reason = other,
        }
    }
    Err(reason)
}

/// Predicts the effect of one budget, in bytes. `share` is the present stopped share.
fn at(subject: &Subject<'_>, model: &YoungModel, share: f64, budget: f64) -> PredictionResult {
    let observation = subject.observation;
    let predicted = model.with_budget(budget);
    let walks_always = model.walked >= WALKS_ALWAYS;
    if predicted.survivors >= MAX_SURVIVORS && !walks_always {
        return Err(format!(
            "with {} MiB, {:.1} MB would survive a collection, and above {:.1} MB the plan phase can walk all of \
             generation 0: longer pauses, and no smaller share",
            mebibytes(budget),
            predicted.survivors / 1e6,
            MAX_SURVIVORS / 1e6
        ));
    }
    let stopped = Range::around(share - model.share + predicted.share, SPREAD);
    if stopped.high >= share {
        return Err(format!(
            "with {} MiB, the stopped share would be {:.2} to {:.2} %, and it is {:.2} % now: the gain is within the \
             uncertainty",
            mebibytes(budget),
            stopped.low * 100.0,
            stopped.high * 100.0,
            share * 100.0
        ));
    }
    let change = Range::new(0.0, MEMORY_PER_BYTE * (budget - model.budget));
    if subject.room()? < change.high {
        return Err(format!(
            "the heap limit has no room for {} MiB more",
            mebibytes(change.high)
        ));
    }
    let (memory, memory_change) = subject.memory(change);
    let others = observation.full.len() as f64 / observation.seconds();
    Ok(Prediction {
        setting: Setting::from_variables(vec![Variable::new("GCgen0size", budget as u64)]),
        runtimes: &[8, 9, 10, 11],
        expected: Expected {
            stopped_share: Some(ends(stopped)),
            median_pause_ns: Some(ends(Range::around(predicted.pause, SPREAD))),
            memory,
            memory_change,
            cpu: None,
            young_per_second: Some(ends(Range::around(predicted.rate, 0.05))),
        },
        because: format!(
            "generation 0 is collected {:.1} times per second after {} MiB each, {:.0} % of these collections walk \
             dead objects, and at most {:.2} MB would survive after {} MiB",
            (observation.young.len() as f64 / observation.seconds()).max(others),
            mebibytes(model.budget),
            model.walked * 100.0,
            predicted.survivors / 1e6,
            mebibytes(budget)
        ),
        check: check(format!(
            "60 s at the same load (allocated bytes per second ±5 %): {:.1} young collections per second (±5 %)",
            predicted.rate
        )),
    })
}
