//! Determines which requests of a .NET service were paused by collections, and the duration of these pauses.
//!
//! ASP.NET Core reports every request that ends, with its trace and span ids, if a session enables the events of its
//! `DiagnosticListener` ([`session`]). The same session contains the start and end of the collector's stops, on the
//! same clock. This crate combines both. The crate performs no I/O and has no clock.
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
//! The timestamp of the event is not used as the end of the request: a pause between the two makes the timestamp up to
//! 14 ms late.
//!
//! # Invariants
//!
//! * The time that a request lost is at most its duration, and at most the sum of the times of its stops.
//! * Unknown values are `None`. A request without an activity has no start, and a request that overlaps lost events has
//!   no lost time.
//! * The memory per live process is bounded: [`stops::MAX_STOPS`], [`requests::MAX_WAITING`], [`impact::MAX_IMPACTS`].

// Time is passed in as a value, and all state has a single owner: no clock, no lock (clippy.toml).
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod impact;
pub mod payload;
pub mod request;
pub mod requests;
pub mod route;
pub mod session;
pub mod stops;
