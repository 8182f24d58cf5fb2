//! What outlives a process: the service that it is one of, how its processes end, and whether they come back.
//!
//! ```text
//! a run begins, its alerts, it ends ---> book: the living, the last deaths --> facts, once a second --> judged
//! control groups, Kubernetes ----------> (how it ended, known later)                                      |
//! the daemon's own stalls ------------------------------------------------------------------------------>+--> notices
//! ```
//!
//! A process that is killed for memory writes nothing, and its alerts end with it. What its end was is put together
//! from what survives it: the alerts of its last minute, whether its runtime ended the event stream in order, the kill
//! counts of the groups that it was in, and what Kubernetes says of its container. A SIGTERM cannot be seen from
//! outside, except by the exit code that Kubernetes has; an end without such evidence is ordinary, and one in order is
//! no death in an emergency. What remains: outside of Kubernetes, a program that does not handle SIGTERM (.NET 10 has
//! no handler of its own) and gets one while an alert of its memory fires ends as one that its memory ended.
//!
//! Bounded: [`MAX_SERVICES`](book::MAX_SERVICES) services, [`MAX_DEATHS`](book::MAX_DEATHS) deaths of each, kept for
//! [`KEPT_NS`](book::KEPT_NS). Processes of services beyond that are counted and belong to none.

mod book;
mod death;
mod fleet_rules;
#[cfg(test)]
mod tests;

pub(crate) use book::ServiceBook;
pub(crate) use death::Death;
pub(crate) use fleet_rules::{FleetRules, WatcherLog};
