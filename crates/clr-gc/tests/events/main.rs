//! Decoding of single events: every layout, the meaning of values, allocations.

mod allocation;
mod cases;
mod layouts;
mod payload;
mod values;
