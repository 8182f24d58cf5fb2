//! Spans, metrics and `/metrics` of every recording: as committed, as defined, and true to the collections.

mod aggregate;
mod defined;
mod golden;
mod prometheus;
mod recordings;
mod render;
mod series;
mod spans;
mod synthetic;
