//! The .NET runtime's diagnostics IPC protocol: messages, discovery, client, reverse connect.

pub mod discovery;
pub mod error;
pub mod message;

pub use error::Error;
