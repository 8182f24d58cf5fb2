//! `GCConserveMemory`: less free space in generation 2 at the price of more CPU. The setting never shortens pauses.

use super::{Expected, Prediction, PredictionResult, Subject, check, ends, mebibytes};
use crate::model::Range;
use crate::setting::{Setting, Variable};

/// Minimum free space between old objects, in bytes. Judgement, not measured.
const MIN_FREE: f64 = 50e6;
/// Minimum free space between old objects, as a share of the committed heap. Judgement, not measured.
const MIN_FREE_SHARE: f64 = 0.2;
/// Level of the setting. Other levels were not measured.
const LEVEL: u64 = 7;
/// Factor by which the stopped share changes. One load was measured, with a factor of 1.22. The range is judgement.
const STOPPED: Range = Range { low: 0.9, high: 1.6 };
/// Factor by which the CPU of the process changes. One load was measured, with a factor of 1.43. The range is
/// judgement.
const CPU: Range = Range { low: 0.9, high: 1.6 };

/// Predicts the effect of the setting on a workstation process with enough free space between old objects.
pub(super) fn predict(subject: &Subject<'_>) -> PredictionResult {
    let (observation, configuration) = (subject.observation, subject.configuration);
    if let Some(level) = configuration.conserve_memory {
        return Err(format!("GCConserveMemory is already set, to {level}"));
    }
    match configuration.server {
        Some(false) => {}
        Some(true) => return Err("GCConserveMemory was measured with workstation GC only".to_owned()),
        None => return Err("it is unknown whether the process uses workstation GC".to_owned()),
    }
    let free = observation.full.last().and_then(|full| full.free);
    let free = free.ok_or_else(|| "the free space between old objects is unknown".to_owned())?;
    let committed = observation
        .committed
        .ok_or_else(|| "the committed memory of the heap is unknown".to_owned())?;
    if free < MIN_FREE || free < MIN_FREE_SHARE * committed {
        return Err(format!(
            "the free space between old objects is {:.1} MB of {:.1} MB, which is too little to return",
            free / 1e6,
            committed / 1e6
        ));
    }
    let share = observation
        .stopped_share()
        .ok_or_else(|| "the length of a suspension is unknown".to_owned())?;
    let (memory, memory_change) = subject.memory(Range::new(-free, 0.0));
    Ok(Prediction {
        setting: Setting::from_variables(vec![Variable::new("GCConserveMemory", LEVEL)]),
        runtimes: &[8, 9, 10, 11],
        expected: Expected {
            stopped_share: Some(ends(STOPPED.map(|factor| share * factor))),
            median_pause_ns: None,
            memory,
            memory_change,
            cpu: observation
                .surroundings
                .cpu
                .map(|cpu| ends(CPU.map(|factor| cpu * factor))),
            young_per_second: None,
        },
        because: format!(
            "{} MiB of {} MiB are free space between old objects, which is working room: less of it costs CPU",
            mebibytes(free),
            mebibytes(committed)
        ),
        check: check(
            "60 s at the same load (allocated bytes per second ±5 %): less memory, and CPU as expected".to_owned(),
        ),
    })
}
