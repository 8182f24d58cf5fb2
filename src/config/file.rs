//! The edge: the file, the environment of the process, and the awaiting of changes.

mod read;
mod watch;

pub use read::load;
pub use watch::Watch;
