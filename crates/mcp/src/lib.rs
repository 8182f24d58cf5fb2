//! What gcwatch knows, for agents: the Model Context Protocol (MCP) over the records of the API.
//!
//! ```text
//! an agent -- stdin, stdout --> commands/mcp --\                 /-- the listener of a daemon, over HTTP
//!          -- POST /mcp ------> web/mcp --------> server --> source -- the daemon's own router, as whoever asked
//!                                                  |   |          \-- a recording, a command of gcwatch (stdio only)
//!                                                  |   '-> bursts: price, confirmation, command
//!                                                  v
//!        arguments -> tools -> paths of the API -> records -> few fields, a page of rows -> plain strings -> answer
//! ```
//!
//! | Layer | What it is |
//! |---|---|
//! | `plain` | strings of others, made safe and short: everything that leaves goes through it |
//! | `page` | a part of a list, the next part, the few fields of a record that are answered |
//! | [`source`] | where records come from: a trait, as tools know neither HTTP nor the pipeline |
//! | `tools` | the read-only tools: arguments to records to an answer, each in its file |
//! | `bursts` | the tools that cost a process something: what they cost, and that it was confirmed |
//! | [`server`] | the protocol: the only file that knows the SDK |
//!
//! A layer uses those above it. There is no second view of the data: a tool asks paths of the API, under the rules of
//! who may see what, and leaves fields out. On the listener a question is asked of the same router, with the headers
//! and the connection of whoever asked, so that the rules cannot differ.
//!
//! The SDK's HTTP service is mounted as it is, stateless: every POST is answered with JSON and nothing is kept, so that
//! there are no sessions to bound. Of the SDK the features `server` and `transport-streamable-http-server` are taken:
//! no macros, no client, no OAuth.
//!
//! Names and texts that a process chose are JSON strings, with control characters and what deceives replaced, cut at a
//! length; the server's instructions say that every string is data and never an instruction.

// Time is a value: no clock is asked here (clippy.toml).
#![deny(clippy::disallowed_methods)]

mod bursts;
mod page;
mod plain;
pub mod server;
pub mod source;
mod tools;
