//! State that outlives a process: its service, how the processes of the service end, and whether they are replaced.
//!
//! ```text
//! run starts, its alerts, run ends ----> book: living, recent deaths --> facts, once per second --> judged
//! control groups, Kubernetes ----------> (cause of the end, known later)                              |
//! the daemon's own stalls --------------------------------------------------------------------------->+--> notices
//! ```
//!
//! A process that is killed for memory writes nothing, and its alerts end with it. gcwatch derives the cause of the end
//! from the evidence that survives: the alerts of the last minute, the end of the event stream (clean or not), the kill
//! counts of the control groups, and the state of the container in Kubernetes. A SIGTERM is not visible from outside,
//! except through the exit code that Kubernetes has. An end without such evidence is ordinary, and a clean end is not a
//! death in an emergency. One case cannot be recognized: outside Kubernetes, a program receives SIGTERM while an alert
//! on its memory fires, and does not handle the signal (.NET 10 has no default handler). Such a program counts as ended
//! by its memory.
//!
//! Bounded: [`MAX_SERVICES`](book::MAX_SERVICES) services, and [`MAX_DEATHS`](book::MAX_DEATHS) deaths per service,
//! kept for [`DEATH_RETENTION_NS`](book::DEATH_RETENTION_NS). Processes of services beyond the limit are counted and
//! belong to no service.

mod book;
mod death;
mod fleet_rules;
#[cfg(test)]
mod tests;

pub(crate) use book::ServiceBook;
pub(crate) use death::Death;
pub(crate) use fleet_rules::{FleetRules, WatcherLog};
