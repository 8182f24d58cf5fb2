//! The processes of a stream. Each process has one machine per runtime, and the number of machines is bounded.

use nettrace::TraceHeader;

use crate::event::ClrEvent;
use crate::gc::{LossIntervals, Machine, ReportTiming};
use crate::stream::scope::rebuilds;

/// Maximum number of processes of a stream that are tracked separately (V6 records whole machines). Events of further
/// processes are counted but not decoded.
pub const MAX_PROCESSES: usize = 4096;

/// Identity of a process in a stream and of one of its runtimes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProcessKey {
    /// Process id from the stream, in the pid namespace of the target; `None` if the stream does not contain it.
    pub pid: Option<u64>,
    /// Number of the runtime within its process (ClrInstanceID); `None` if the events do not contain it.
    pub clr_instance: Option<u16>,
}

/// A process in a stream.
#[derive(Debug)]
pub struct Process {
    /// Pid and runtime of the process.
    pub key: ProcessKey,
    pub(super) machine: Machine,
}

impl Process {
    /// Returns the machine of the process.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }
}

/// Returns whether the runtime is CoreCLR. All versions of CoreCLR send the events of the finalizer thread, but only
/// the newest version of NativeAOT sends them. NativeAOT is recognized because it reports 65,535 processors.
pub(super) fn is_core_clr(header: &TraceHeader) -> bool {
    header.processors.is_some_and(|processors| processors != 0xFFFF)
}

/// Returns the ClrInstanceID of an event. The fields of frequent events are accessed directly, which is faster.
fn instance(event: &ClrEvent<'_>) -> Option<u16> {
    match event {
        ClrEvent::GcStart(event) => event.clr_instance,
        ClrEvent::GcEnd(event) => event.clr_instance,
        ClrEvent::HeapStats(event) => event.clr_instance,
        ClrEvent::SuspendEeBegin(event) => event.clr_instance,
        ClrEvent::SuspendEeEnd(event) | ClrEvent::RestartEeBegin(event) | ClrEvent::RestartEeEnd(event) => {
            event.clr_instance
        }
        ClrEvent::GcTriggered(event) => Some(event.clr_instance),
        ClrEvent::GlobalHeapHistory(event) => Some(event.clr_instance),
        ClrEvent::PerHeapHistory(event) => Some(event.clr_instance),
        ClrEvent::DynamicEvent(event) => Some(event.clr_instance),
        other => other.clr_instance(),
    }
}

/// Returns the process of an event. Adds an unknown process if the event is used to rebuild collections and the limit
/// allows another process; otherwise, returns `None` for an unknown process.
pub(super) fn process_of<'p>(
    (processes, max_processes): (&'p mut Vec<Process>, usize),
    pid: Option<u64>,
    event: &ClrEvent<'_>,
    (settling, losses, is_core_clr): (ReportTiming, &LossIntervals, bool),
) -> Option<&'p mut Process> {
    let key = ProcessKey {
        pid,
        clr_instance: instance(event),
    };
    // In nearly all cases the process exists.
    let place = processes.iter().position(|process| process.key == key);
    let place = match place {
        Some(place) => place,
        None if rebuilds(event.kind()) && processes.len() < max_processes => {
            let mut machine = Machine::after(key.clr_instance, settling, losses.clone());
            if is_core_clr {
                machine.expects_finalizers();
            }
            // Most streams have only one process, so reserve space for exactly one more.
            processes.reserve_exact(1);
            processes.push(Process { key, machine });
            let machines = processes.len();
            for process in processes.iter_mut() {
                process.machine.share(machines);
            }
            processes.len() - 1
        }
        None => return None,
    };
    processes.get_mut(place)
}
