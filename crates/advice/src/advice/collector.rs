//! Another collector: server GC for a workstation process whose collections walk dead objects.
//!
//! No measured run of server GC walked dead objects. Advice for workstation GC or DATAS is never given: events do not
//! show the budget under DATAS, and the memory of server GC can be predicted only as an upper bound.

use super::{Expected, Prediction, PredictionResult, Subject, check, ends, mebibytes};
use crate::model::{Range, YoungModel};
use crate::setting::{Setting, Variable};

/// Minimum share of young collections that walk dead objects. Judgement, not measured.
const MIN_WALKED: f64 = 0.1;
/// Maximum number of CPUs with which server GC was measured.
const MEASURED_CPUS: f64 = 2.0;
/// Maximum increase of memory per byte that server GC allocates between two collections. Measured in 19 runs.
const MEMORY_PER_BYTE: f64 = 2.8;

/// Predicts the effect of server GC without DATAS.
pub(super) fn predict(subject: &Subject<'_>) -> PredictionResult {
    let configuration = subject.configuration;
    match configuration.server {
        Some(false) => {}
        None => return Err("it is unknown whether the process uses workstation GC".to_owned()),
        Some(true) => {
            return Err(
                "the process uses server GC: its memory with another collector, and its budget with DATAS, \
                        cannot be predicted from outside"
                    .to_owned(),
            );
        }
    }
    let observation = subject.observation;
    let share = subject.worthwhile_share()?;
    let Some((walked, known)) = observation.walked() else {
        return Err("the time of the plan phase is unknown (.NET Core 3.1 and .NET 5 do not send it)".to_owned());
    };
    if walked < MIN_WALKED {
        return Err(format!(
            "{:.0} % of {known} young collections walk dead objects, and server GC is predictable only where at least \
             {:.0} % do",
            walked * 100.0,
            MIN_WALKED * 100.0
        ));
    }
    let Some(cpus) = subject.cpus() else {
        return Err("the number of CPUs is unknown; pass it with --cpus".to_owned());
    };
    if cpus < 2.0 {
        return Err("the process may use one CPU, and the runtime then uses workstation GC in any case".to_owned());
    }
    if cpus > MEASURED_CPUS {
        return Err(format!(
            "the process may use {cpus:.0} CPUs, and server GC was measured with {MEASURED_CPUS:.0} only: its memory \
             grows with the number of heaps"
        ));
    }
    let Some(major) = configuration.major().filter(|major| *major >= 8) else {
        return Err("the runtime is unknown, or older than .NET 8, with which server GC was measured".to_owned());
    };
    let model = YoungModel::from_observation(observation)
        .ok_or_else(|| "a part of the young collections is unknown".to_owned())?;
    let (total, [best, worst]) = model.with_server(cpus, configuration.concurrent != Some(false));
    let stopped = Range::new(best.share, worst.share).map(|young| share - model.share + young);
    if stopped.high >= share {
        return Err(format!(
            "with server GC, the stopped share would be {:.2} to {:.2} %, and it is {:.2} % now",
            stopped.low * 100.0,
            stopped.high * 100.0,
            share * 100.0
        ));
    }
    let change = Range::new(0.0, MEMORY_PER_BYTE * total.high);
    if subject.room()? < change.high {
        return Err(format!(
            "server GC can take {} MiB more, and the heap limit has no room for that",
            mebibytes(change.high)
        ));
    }
    let (memory, memory_change) = subject.memory(change);
    let mut variables = vec![Variable::new("gcServer", 1)];
    if major >= 9 {
        variables.push(Variable::new("GCDynamicAdaptationMode", 0));
    }
    let walks = observation.young.iter().filter(|young| young.walked() == Some(true));
    let walks: Vec<f64> = walks.filter_map(|young| young.plan_ns).collect();
    Ok(Prediction {
        setting: Setting::from_variables(variables),
        runtimes: if major >= 9 { &[9, 10, 11] } else { &[8] },
        expected: Expected {
            stopped_share: Some(ends(stopped)),
            median_pause_ns: Some(ends(Range::new(best.pause, worst.pause))),
            memory,
            memory_change,
            cpu: None,
            young_per_second: Some(ends(Range::new(best.rate, worst.rate))),
        },
        because: format!(
            "{:.0} % of {known} young collections walk all of generation 0 (plan phase {:.1} ms), which server GC does \
             not",
            walked * 100.0,
            walks.iter().sum::<f64>() / walks.len().max(1) as f64 / 1e6
        ),
        check: check(
            "60 s at the same load (allocated bytes per second ±5 %): plan phase below 1 ms in `gcwatch analyze --gc N`"
                .to_owned(),
        ),
    })
}
