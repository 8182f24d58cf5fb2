//! The engine, told as stories: when, what comes, what is expected.

mod groups;
mod laws;
mod reload;
mod states;
mod story;
mod values;
