//! The OTLP client against a scripted receiver, over real sockets.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "tests fail loudly"
)]

mod receiver;

#[path = "otlp/given.rs"]
mod given;

#[path = "otlp/answers.rs"]
mod answers;
#[path = "otlp/bounds.rs"]
mod bounds;
#[path = "otlp/forms.rs"]
mod forms;
#[path = "otlp/json.rs"]
mod json;
#[path = "otlp/own.rs"]
mod own;
#[path = "otlp/reload.rs"]
mod reload;
#[path = "otlp/tls.rs"]
mod tls;
