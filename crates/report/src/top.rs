//! `gcwatch top`: a daemon's overview and one process in a terminal. Pure: it receives records and keys, and returns a
//! frame.
//!
//! ```text
//! answers of the API -> record --+
//!                                +-> state (what is shown, sorted, chosen) -> draw -> a frame
//! keys --------------------------+
//! ```
//!
//! The records are those of the page (`/api/v1/overview`, `/api/v1/processes/PID`). The records are parsed leniently,
//! because the daemon can have another version. Control characters in texts of processes are replaced before drawing.

mod draw;
mod record;
mod state;

pub use draw::draw;
pub use record::{Overview, Process};
pub use state::{Action, Connection, Screen, View};
