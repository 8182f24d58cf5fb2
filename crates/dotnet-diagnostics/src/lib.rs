//! The .NET runtime's diagnostics IPC protocol: messages, discovery, client, reverse connect.

pub mod message;
