//! State that outlives a process: its service, how the processes of the service end, and whether they are replaced.
//!
//! ```text
//! run starts, its alerts, run ends ----> book: living, recent deaths --> facts, once per second --> judged
//! control groups, Kubernetes ----------> (cause of the end, known later)                              |
//! the daemon's own stalls --------------------------------------------------------------------------->+--> notices
//! ```
//!
//! A process that is killed for memory writes nothing, and its alerts end with it. The cause of its end is derived from
//! the evidence that survives: the alerts of its last minute, whether its runtime ended the event stream cleanly, the
//! kill counts of its control groups, and the state of its container in Kubernetes. A SIGTERM is not visible from
//! outside, except through the exit code that Kubernetes has. An end without such evidence is ordinary, and a clean end
//! is not a death in an emergency. One case cannot be recognized: outside Kubernetes, a program that does not handle
//! SIGTERM (.NET 10 has no default handler) and receives it while an alert on its memory fires counts as ended by its
//! memory.
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
