//! What is told of a process's collections in the terms of OpenTelemetry: pure, without I/O and without a clock.
//!
//! ```text
//! clr_gc::gc::Collection --+--> spans    one tree of spans per collection       -> export::otlp
//!                          +--> series   the metrics of one run of a process    -> export::otlp, web (/metrics)
//! definition               every name, unit, kind and source, once; the page docs/telemetry.md is made from it
//! ```
//!
//! The messages of `opentelemetry-proto` are the model: what is shown at `/metrics` is a translation of the very metrics
//! that leave over OTLP, so that both tell the same.

pub mod anomaly;
pub mod definition;
pub mod histogram;
pub mod options;
pub mod origin;
pub mod prometheus;
pub mod series;
pub mod sheet;
pub mod spans;

mod names;
pub mod value;
mod wire;
