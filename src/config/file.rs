//! The edge: the file, the environment of the process, and the awaiting of changes.

mod read;
#[allow(
    clippy::disallowed_methods,
    reason = "the daemon reads changed files once they are written"
)]
mod watch;

pub use read::load;
pub(crate) use read::read_bounded;
pub use watch::Watch;
pub(crate) use watch::yaml_files;
