//! What people look at in a terminal, and what programs read.
//!
//! Tables ([`collections`], [`anomalies`], [`summary`], [`detail`], [`difference`]) are for people and may change; records ([`record`],
//! [`event`]) are a contract.

pub mod anomalies;
pub mod collections;
pub mod detail;
pub mod difference;
pub mod doctor;
pub mod processes;
pub mod rules;
pub mod summary;
pub mod table;
pub mod timeline;
pub mod units;
