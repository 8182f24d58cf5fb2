//! Decoding of single events: every layout, the meaning of values, allocations.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod allocation;
mod cases;
mod layouts;
mod values;
