//! I/O of the configuration: the configuration file, the environment of the process, and changes of files.

mod read;
#[expect(
    clippy::disallowed_methods,
    reason = "the daemon reads changed files once they are written"
)]
mod watch;

pub use read::load;
pub(crate) use read::read_bounded;
pub(crate) use watch::yaml_files;
pub use watch::{READ_TIMEOUT, Watch};
