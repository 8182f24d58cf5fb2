//! The engine in stories: time, event, expected transitions.

mod groups;
mod laws;
mod reload;
mod states;
pub(crate) mod story;
mod values;
