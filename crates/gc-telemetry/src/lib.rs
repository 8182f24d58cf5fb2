//! Spans, metrics and log records of a .NET process's collections, in OpenTelemetry's model.
//!
//! ```text
//! clr_gc::gc::Collection --+--> spans    one trace per collection, as encoded OTLP
//!                          '--> series   the metrics of one run of a process --> prometheus   text of /metrics
//! gc_rules::alert       ------> anomaly  events on spans, log records
//! counters of the caller -----> snapshot metrics of values that are counted elsewhere
//! definition                    every name, unit, kind and source, once; docs/telemetry.md is generated from it
//! ```
//!
//! # Layers
//!
//! A module uses only those before it, in this order:
//!
//! 1. `definition`, `options`: what is exported, and which part of it
//! 2. `wire`, `names`, `value`, `ids`, `histogram`: encoding, words, ids, distributions
//! 3. `anomaly`, `spans`: the spans of a collection and the records of its anomalies; `notice`: changes of alerts and
//!    incidents, with the spans that they began on
//! 4. `series`, `snapshot`: the metrics
//! 5. `prometheus`, `origin`: metrics as text, and the resource that everything is exported with
//! 6. `aggregate`: the metrics of processes as those of their services
//!
//! # Invariants
//!
//! * **Pure**: no I/O, no threads and no clock. The times of points, spans and records are arguments, so the same input
//!   gives the same bytes.
//! * **Unknown is absent**, never 0: an attribute, a point or a span exists only when its value was observed.
//! * **One source of names**: spans and series refer to [`definition`] and contain no name of their own.
//! * **One model**: `/metrics` is a translation of the very messages that are sent over OTLP, so both export the same
//!   values.
//! * **Bounded**: spans by a rate ([`options::SpanOptions::max_per_second`]), series by a limit
//!   ([`options::MetricOptions::max_series`]), histograms by their buckets. What is over a limit is counted.

// Time is a value, and state has one owner: no clock, no lock (clippy.toml).
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod aggregate;
pub mod anomaly;
pub mod definition;
pub mod incident;
pub mod notice;
pub mod options;
pub mod origin;
pub mod prometheus;
pub mod series;
pub mod snapshot;
pub mod spans;
pub mod value;

mod histogram;
mod ids;
mod names;
mod wire;

/// The example of the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
