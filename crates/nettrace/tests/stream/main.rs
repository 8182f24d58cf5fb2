//! Tests of the decoder and the encoder with whole streams: real recordings and generated streams.
#![expect(clippy::unwrap_used, reason = "tests can panic, also in helper modules")]

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
