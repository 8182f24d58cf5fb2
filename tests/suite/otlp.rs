//! The OTLP client against a scripted receiver, over real sockets.

pub(crate) mod given;

mod answers;
mod bounds;
mod forms;
mod json;
mod outage;
mod own;
mod reload;
mod tls;
