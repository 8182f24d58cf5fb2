//! The commands: each reads its input and writes with [`report`] and [`api`].

pub mod alerts;
pub mod allocations;
pub mod analyze;
pub mod burst;
pub mod callers;
pub mod cli;
pub mod completions;
pub mod demo;
pub mod diff;
pub mod doctor;
pub mod events;
pub mod heap;
mod listener;
mod look;
pub mod man;
pub mod mcp;
pub mod output;
pub mod ps;
pub mod record;
pub mod replay;
pub mod rules;
pub mod run;
pub mod stacks;
pub mod top;
