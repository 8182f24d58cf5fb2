//! The decoder and the encoder on whole streams: real recordings and made ones.
#![expect(clippy::unwrap_used, reason = "a test may panic, in its parts too")]

mod damage;
mod decoded;
mod facts;
mod keep;
mod order;
mod pieces;
mod recordings;
mod round_trip;
mod steady;
mod v6;
