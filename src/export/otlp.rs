//! One OTLP client for the data of all targets: queue, batch, encode, send, retry.

pub mod settings;
