//! Which pod a process is of: names, owner, image and chosen labels, from the API server or the kubelet.
//!
//! ```text
//! API server: list, watch --+
//!                           +--> object: JSON -> pod: what is kept --> pods: by uid and container --> pipeline
//! kubelet: /pods, polled ---+
//! ```
//!
//! All of it is optional: nothing waits for it, and while it is away what was known last stays. What comes late is in all that the
//! process tells from then on. Of a pod only what is told is kept, within bounds.

mod attributes;
mod object;
mod pod;
mod pods;
pub mod settings;
mod source;
mod stats;
mod watch;

pub use pods::Pods;
pub use source::follow;
pub use stats::{Stats, StatsNow};
