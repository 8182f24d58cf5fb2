//! Answers three questions about a .NET service: did a change of its configuration change its garbage collections, how
//! much memory does it need, and which setting would help at which price?
//!
//! ```text
//! collections -> Observation ----------+-> sizing: not less than, price curve --+-> SizingRecord
//!                (facts of a window)   +-> advice: prediction or refusal -------+-> AdviceRecord
//! collections -> Minute -> Profile --> change: before and after, per measure ---+-> ChangeRecord
//!                                      AdviceRecord + ChangeRecord -------------+-> Verdict -> HitRates
//! ```
//!
//! # Layers
//!
//! 1. [`configuration`], [`statistics`], [`observation`], [`setting`], [`proof`]: values and facts
//! 2. [`profile`]: minute samples of one configuration
//! 3. [`change`]: the comparison of two profiles
//! 4. [`model`]: predictions from the facts of a window
//! 5. [`sizing`], [`advice`]: records made of predictions
//! 6. [`verdict`]: the outcome of an advice, and the hit rate of each kind
//!
//! # Invariants
//!
//! * **Pure.** No clock, no lock, no I/O. The same facts give the same record, including the random numbers of the
//!   bootstrap, whose seed follows from the record.
//! * **Unknown is `None`**, never 0.
//! * **A refusal is a record.** Every kind of advice yields a record for each observation: a setting with its price, or
//!   the reason why there is none.
//! * **Numbers come from the model.** Texts contain only figures that were measured or computed here.
//! * **gcwatch never sets anything.**

// Time is a value, and state has one owner: no clock, no lock (see clippy.toml).
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod advice;
pub mod change;
pub mod configuration;
pub mod model;
pub mod observation;
pub mod profile;
pub mod proof;
pub mod setting;
pub mod sizing;
pub mod statistics;
pub mod verdict;
