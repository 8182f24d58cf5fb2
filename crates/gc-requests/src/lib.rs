//! Which requests of a .NET service collections stopped, and for how long.
//!
//! ASP.NET Core reports every request that ends, with its trace and span ids, when a session asks for the events of its
//! `DiagnosticListener` ([`session`]). The same session has the edges of the collector's stops, on the same clock. This
//! crate lays one over the other. It does no I/O and has no clock.
//!
//! ```text
//! clr_gc::stream (events) -> payload   the strings of an event, as fields of a request
//!                         -> stops     the collector's stops, kept for as long as a request may need them
//!                                |
//!                            requests  each request clipped against the stops
//!                                |----> Request   for people, spans and metrics
//!                                '----> Impacts   what each collection did to requests
//! ```
//!
//! # What is exact, and what is not
//!
//! | Fact | Where it comes from | How exact |
//! |---|---|---|
//! | end of a request | `EndTimestamp`, `Stopwatch.GetTimestamp()` | the stream's own clock, a nanosecond |
//! | its start | `Activity.StartTimeUtc`, 100 ns of the wall clock | as the distance of the two clocks is known |
//! | a stop | `SuspendEEBegin` to `RestartEEBegin` of one thread | the stream's own clock |
//!
//! The event's own time is not the end: a pause between the two makes it up to 14 ms late.
//!
//! # Invariants
//!
//! * The time that a request lost is at most its length, and the sum of what single stops took of it.
//! * Unknown is `None`: a request without an activity has no start, one that overlaps lost events has no time lost.
//! * The memory of a live process is bounded: [`stops::MAX_STOPS`], [`requests::MAX_WAITING`], [`impact::MAX_IMPACTS`].

// Time is a value, and state has one owner: no clock, no lock (clippy.toml).
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod impact;
pub mod payload;
pub mod request;
pub mod requests;
pub mod route;
pub mod session;
pub mod stops;
