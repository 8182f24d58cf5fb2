//! Answers three questions about a .NET service: whether a change of its configuration changed its garbage collections,
//! how much memory the service needs, and which setting would help at which price.
//!
//! ```text
//! collections -> Observation ----------+-> advice: prediction or refusal -------+-> AdviceRecord
//!                (facts of a window)   |
//!                                      +-> basis -> sizing: not less than, -----+-> SizingRecord
//!                                      |            price curve
//! collections -> Minute -> Profile ----+-> change: before and after, per measure +-> ChangeRecord
//!                (services: profiles of a host, and when to compare them)
//!                                      AdviceRecord + ChangeRecord -------------+-> Verdict -> HitRates
//! ```
//!
//! # Layers
//!
//! 1. [`configuration`], [`statistics`], [`observation`], [`setting`], [`proof`]: values and facts
//! 2. [`profile`]: minute samples of one configuration
//! 3. [`change`]: the comparison of two profiles; [`services`]: the profiles of a host, and its changes; [`basis`]: the
//!    facts about memory of an observation or of a profile
//! 4. [`model`]: predictions from the facts of a window
//! 5. [`sizing`], [`advice`]: records that contain predictions
//! 6. [`verdict`]: the outcome of advice that was followed, from which [`proof::HitRates`] counts the hits of each kind
//!
//! # Invariants
//!
//! * **Pure.** No clock, no lock, no I/O. The same facts yield the same record: the random numbers of the bootstrap
//!   have a seed that follows from the compared profiles.
//! * **Unknown is `None`**, never 0.
//! * **A refusal is a record.** Every kind of advice yields a record for each observation: a setting with its price, or
//!   the reason why the kind proposes no setting.
//! * **Numbers come from the model.** Texts contain only measured figures, figures computed by this crate, and its
//!   constants.
//! * **gcwatch never changes a setting.** The crate only describes settings.

// Time is passed as a value, and each state has one owner, so the crate uses neither clocks nor locks (clippy.toml).
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod advice;
pub mod basis;
pub mod change;
pub mod configuration;
pub mod model;
pub mod observation;
pub mod profile;
pub mod proof;
pub mod services;
pub mod setting;
pub mod sizing;
pub mod statistics;
pub mod verdict;
