//! What people look at in a terminal, and what programs read.
//!
//! Tables ([`collections`], [`summary`], [`detail`], [`difference`]) are for people and may change; records ([`record`],
//! [`event`]) are a contract.

pub mod collections;
pub mod detail;
pub mod difference;
pub mod event;
pub mod processes;
pub mod record;
pub mod summary;
pub mod table;
pub mod timeline;
pub mod units;
