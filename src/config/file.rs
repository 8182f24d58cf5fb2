//! The edge: the file, the environment of the process, and the awaiting of changes.

mod read;
mod watch;

pub use read::load;
pub(crate) use read::read_bounded;
pub use watch::Watch;
pub(crate) use watch::yaml_files;
