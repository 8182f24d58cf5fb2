//! Options of a decoder: which events, in which order.

use std::fmt;

use crate::limits::Limits;
use crate::metadata::Metadata;

/// In which order events are delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// By timestamp over all threads; events of the same instant as they are in the stream.
    #[default]
    Time,
    /// As they are in the stream: by time within a capture thread only.
    File,
}

/// Which events are delivered. Called once per definition (V6: also once per way in which labels change one). `None`:
/// events of it are counted, and losses among them found, but they are not delivered. `Some(tag)`: delivered, each
/// with the tag, so that a consumer classifies definitions, not events.
pub type Interest = Box<dyn FnMut(&Metadata) -> Option<u32> + Send>;

/// Options of a [`Decoder`](crate::Decoder). By default: all events by time, without stacks.
pub struct Options {
    /// The order in which events are delivered.
    pub order: Order,
    /// Whether stacks are kept: without it [`Event::stack`](crate::Event::stack) is `None` and their blocks are
    /// skipped.
    pub stacks: bool,
    /// The most of what grows with the stream: by default, that of files.
    pub limits: Limits,
    /// Chooses the events to deliver, by their definitions.
    pub interest: Interest,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            order: Order::Time,
            stacks: false,
            limits: Limits::for_files(),
            interest: Box::new(|_| Some(0)),
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            order,
            stacks,
            limits,
            interest: _,
        } = self;
        out.debug_struct("Options")
            .field("order", order)
            .field("stacks", stacks)
            .field("limits", limits)
            .finish_non_exhaustive()
    }
}
