//! A server of the Model Context Protocol (MCP) that answers agents from the records of the API.
//!
//! ```text
//! an agent -- stdin, stdout --> commands/mcp --\                 /-- the listener of a daemon, over HTTP
//!          -- POST /mcp ------> web/mcp --------> server --> source -- the daemon's router, as the caller
//!                                                  |   |          \-- a recording, a command of gcwatch (stdio only)
//!                                                  |   '-> bursts: price, confirmation, command
//!                                                  v
//!        arguments -> tools -> paths of the API -> records -> few fields, a page of rows -> plain strings -> answer
//! ```
//!
//! | Layer | Responsibility |
//! |---|---|
//! | `plain` | makes strings safe and short; every answer passes through this layer |
//! | `page` | parts of a list, and the selected fields of a record |
//! | [`source`] | a trait for the source of records, because tools know neither HTTP nor the pipeline |
//! | `tools` | the read-only tools, each in its file: from arguments to records to an answer |
//! | `bursts` | the tools with a cost for a process, among them `advice` with a pid: prices and confirmations |
//! | [`server`] | the protocol; the only file that uses the SDK |
//!
//! A layer uses only the layers above it. The tools add no second view of the data: a tool queries paths of the API,
//! under the access rules of the API, and omits fields. On the listener, a tool call queries the same router, with the
//! headers and the connection of the caller, so the access rules cannot differ.
//!
//! The HTTP service of the SDK is mounted unchanged and stateless: every answer to a POST is JSON, and the service
//! keeps no sessions that would need a limit. Only the SDK features `server` and `transport-streamable-http-server` are
//! used: no macros, no client, no OAuth.
//!
//! Names and texts that a process chose are JSON strings of limited length, in which control characters and deceptive
//! characters are replaced. The server's instructions state that every string is data and never an instruction.

// Time is passed as a value: this crate reads no clock (clippy.toml).
#![deny(clippy::disallowed_methods)]

mod bursts;
mod page;
mod plain;
pub mod server;
pub mod source;
mod tools;
