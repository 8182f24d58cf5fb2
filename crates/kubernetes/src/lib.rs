//! Pod metadata of processes: names, owner, image and chosen labels, from the API server or the kubelet.
//!
//! ```text
//! API server: list, watch --+
//!                           +--> object: JSON -> pod: kept fields -> pods: by uid and container --> pipeline
//! kubelet: /pods, polled ---+
//!
//! source -> watch -> client -> transport     lines, token, cluster, error: parts without network
//! incidents -> events -> client              Kubernetes Events on pods, if they are enabled
//! ```
//!
//! Metadata is optional: no task waits for it, and the last known metadata is used while the source is unavailable. All
//! later telemetry of a process contains metadata that arrives late. Only the reported fields of a pod are kept, within
//! limits.
//!
//! The client is small and part of this crate; `docs/decisions/kubernetes-client.md` has the reasons.
//!
//! # Invariants
//!
//! * **No waits**: attributes are looked up in memory ([`processes::surroundings`]), and requests have deadlines.
//! * **Bounded**: the number of pods and labels, and the size of an object.
//! * **Only attributes that a process did not set itself.**

// Time is a value: only the modules with an exception read a clock (clippy.toml).
#![deny(clippy::disallowed_methods)]

mod attributes;
#[expect(clippy::disallowed_methods, reason = "requests have deadlines")]
mod client;
mod cluster;
mod error;
#[expect(clippy::disallowed_methods, reason = "requests are repeated after a pause")]
mod events;
mod lines;
mod object;
mod pod;
mod pods;
#[cfg(test)]
#[expect(
    clippy::disallowed_methods,
    reason = "a scripted server records the times of requests"
)]
mod script;
pub mod settings;
#[expect(clippy::disallowed_methods, reason = "watches retry")]
mod source;
mod stats;
mod token;
mod transport;
mod watch;

pub use events::{EventCounts, EventPod, Events, PodEvent};
pub use pods::Pods;
pub use source::follow;
pub use stats::{Stats, StatsNow};
