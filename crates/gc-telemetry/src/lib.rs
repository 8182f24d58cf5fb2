//! Spans, metrics and log records of a .NET process's collections, in the OpenTelemetry model.
//!
//! ```text
//! clr_gc::gc::Collection --+--> spans    one trace per collection, as encoded OTLP
//!                          '--> series   metrics of one run of a process --> prometheus   text of /metrics
//! rule_engine::alert       ------> anomaly  events on spans, log records
//! counters of the caller -----> snapshot metrics of values that other code counts
//! definition                    names, units, kinds and sources; source of docs/telemetry.md
//! ```
//!
//! # Layers
//!
//! A module uses only the modules before it in this order:
//!
//! 1. `definition`, `options`: exported telemetry, and selection of its parts
//! 2. `wire`, `names`, `value`, `ids`, `histogram`: encoding, words, ids, distributions
//! 3. `anomaly`, `spans`: spans of a collection and records of its anomalies; `incident`: log records of incidents;
//!    `notice`: changes of alerts and of incidents, with the spans of the collections on which the alerts and incidents
//!    started
//! 4. `series`, `snapshot`: metrics
//! 5. `prometheus`, `origin`: metrics as text, and resource of all telemetry
//! 6. `aggregate`: the metrics of processes as metrics of their services
//!
//! # Invariants
//!
//! * **Pure**: no I/O, no threads and no clock. The times of points, spans and records are arguments, so the same input
//!   produces the same bytes.
//! * **Unknown is absent**, never 0: an attribute, a point or a span exists only if its value was observed.
//! * **One source of names**: spans and series refer to [`definition`] and contain no other names.
//! * **One model**: `/metrics` is a translation of the messages that are sent over OTLP, so `/metrics` and OTLP export
//!   the same values.
//! * **Bounded**: spans by a rate ([`options::SpanOptions::max_per_second`]), series by a limit
//!   ([`options::MetricOptions::max_series`]), histograms by their buckets. Items over a limit are counted.

// Time is a value, and state has one owner: no clock and no lock (clippy.toml).
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod aggregate;
pub mod anomaly;
pub mod change;
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

/// Test that the example of the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
