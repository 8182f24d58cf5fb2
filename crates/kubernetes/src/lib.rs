//! Pod metadata of processes: names, owner, image and chosen labels, from the API server or the kubelet.
//!
//! ```text
//! API server: list, watch --+
//!                           +--> object: JSON -> pod: what is kept --> pods: by uid and container --> pipeline
//! kubelet: /pods, polled ---+
//!
//! source -> watch -> client -> transport     lines, token, cluster, error: parts without network
//! incidents -> events -> client              Kubernetes Events on pods, where they are switched on
//! ```
//!
//! All of it is optional: nothing waits for it, and while the source does not answer, what was known last is used.
//! Metadata that arrives late is on everything that is reported of the process from then on. Of a pod only what is
//! reported is kept, within limits.
//!
//! The client is small and written here; `docs/decisions/kubernetes-client.md` says why.
//!
//! # Invariants
//!
//! * **Nothing waits**: attributes are looked up in memory ([`processes::surroundings`]); requests have deadlines.
//! * **Bounded**: pods, labels, the bytes of one object.
//! * **Only for attributes that a process did not give itself.**

// Time is a value: only the modules that allow it ask a clock (clippy.toml).
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
#[expect(clippy::disallowed_methods, reason = "a faked server says when it was asked")]
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
