//! The processes of a stream, kept apart: each has a machine for each of its runtimes, and their number is bounded.

use nettrace::TraceHeader;

use crate::event::ClrEvent;
use crate::gc::{LossIntervals, Machine, Settling};
use crate::stream::scope::rebuilds;

/// Processes of one stream that are kept apart (V6 records whole machines). Events of more are counted, not decoded.
pub const MAX_PROCESSES: usize = 4096;

/// A process of the stream, and which of its runtimes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProcessKey {
    /// The pid that the stream names: the target's own.
    pub pid: Option<u64>,
    /// ClrInstanceID.
    pub clr_instance: Option<u16>,
}

/// A process in the stream.
#[derive(Debug)]
pub struct Process {
    /// Its pid and runtime.
    pub key: ProcessKey,
    pub(super) machine: Machine,
}

impl Process {
    /// Its machine.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }
}

/// The runtime is CoreCLR, all versions of which send the events of the finalizer thread: NativeAOT, of which only the
/// newest does, says that it has 65,535 processors.
pub(super) fn is_core_clr(header: &TraceHeader) -> bool {
    header.processors.is_some_and(|processors| processors != 0xFFFF)
}

/// ClrInstanceID of the events that collections are made of, without walking their fields.
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

/// The process of an event; a new one for an event that collections are made of.
pub(super) fn process_of<'p>(
    (processes, max_processes): (&'p mut Vec<Process>, usize),
    pid: Option<u64>,
    event: &ClrEvent<'_>,
    (settling, losses, is_core_clr): (Settling, &LossIntervals, bool),
) -> Option<&'p mut Process> {
    let key = ProcessKey {
        pid,
        clr_instance: instance(event),
    };
    // Nearly always there is one.
    let place = processes.iter().position(|process| process.key == key);
    let place = match place {
        Some(place) => place,
        None if rebuilds(event.kind()) && processes.len() < max_processes => {
            let mut machine = Machine::after(key.clr_instance, settling, losses.clone());
            if is_core_clr {
                machine.expects_finalizers();
            }
            // Mostly it is the only one.
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
