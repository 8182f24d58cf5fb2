//! Determines the requests of a .NET service that collections paused, and the duration of these pauses.
//!
//! ASP.NET Core reports every request that ends, with its trace and span ids, if a session enables the events of its
//! `DiagnosticListener` ([`session`]). The same session reports the start and end of each stop of the collector, with
//! timestamps of the same clock. This crate combines the requests with the stops. The crate performs no I/O and has no
//! clock.
//!
//! ```text
//! clr_gc::stream (events) -> payload   parses the strings of an event into fields of a request
//!                         -> stops     the collector's stops, retained while a request can need them
//!                                |
//!                            requests  compares each request with the stops
//!                                |----> Request   for display, spans and metrics
//!                                '----> Impacts   the effect of each collection on requests
//! ```
//!
//! # Accuracy
//!
//! | Fact | Source | Accuracy |
//! |---|---|---|
//! | end of a request | `EndTimestamp`, `Stopwatch.GetTimestamp()` | the clock of the stream, 1 ns |
//! | start of a request | `Activity.StartTimeUtc`, wall clock, resolution 100 ns | offset of the two clocks |
//! | a stop | `SuspendEEBegin` to `RestartEEBegin` of one thread | the clock of the stream |
//!
//! The timestamp of the event is not used as the end of the request: a pause between the end and the event makes the
//! timestamp up to 14 ms late.
//!
//! # Invariants
//!
//! * The lost time of a request is at most its duration, and at most the sum of the durations of its stops.
//! * Unknown values are `None`. A request without an activity has no start, and a request that overlaps lost events has
//!   no lost time.
//! * The memory per live process is bounded by [`stops::MAX_STOPS`], [`requests::MAX_WAITING`] and
//!   [`impact::MAX_IMPACTS`].

// Time is passed in as a value, and all state has a single owner: no clock, no lock (clippy.toml).
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod impact;
pub mod payload;
pub mod request;
pub mod requests;
pub mod route;
pub mod session;
pub mod stops;
