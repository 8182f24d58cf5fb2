//! `gcwatch top`: a daemon's overview and one process in a terminal. Pure: records and keys in, a frame out.
//!
//! ```text
//! answers of the API -> record --+
//!                                +-> state (what is shown, sorted, chosen) -> draw -> a frame
//! keys --------------------------+
//! ```
//!
//! The records are those of the page (`/api/v1/overview`, `/api/v1/processes/PID`), read leniently: the daemon may be
//! of another version. Texts come from processes: control characters are replaced before they are drawn.

mod draw;
mod record;
mod state;

pub use draw::draw;
pub use record::{Overview, Process};
pub use state::{Action, Connection, Screen, View};
