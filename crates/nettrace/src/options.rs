//! Options of a decoder.

use std::fmt;

use crate::limits::Limits;
use crate::metadata::Metadata;

/// The order in which events are delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// Order of time across all threads. Events with the same timestamp keep their order in the stream.
    #[default]
    Time,
    /// Order of the stream, which is sorted by time only within a capture thread.
    File,
}

/// A function that selects the events to deliver. The decoder calls it once per definition (V6: also once per
/// combination of labels that changes a definition). If the function returns `None`, events of the definition are
/// counted and checked for losses, but not delivered. If it returns `Some(tag)`, they are delivered with the tag, so
/// that a consumer classifies definitions, not events.
pub type Interest = Box<dyn FnMut(&Metadata) -> Option<u32> + Send>;

/// Options of a [`Decoder`](crate::Decoder). By default, all events are delivered in order of time, without stacks.
pub struct Options {
    /// The order in which events are delivered.
    pub order: Order,
    /// Whether stacks are retained. Otherwise, stack blocks are skipped and [`Event::stack`](crate::Event::stack) is
    /// `None`.
    pub stacks: bool,
    /// Limits for everything that grows with the stream. The default is [`Limits::for_files`].
    pub limits: Limits,
    /// Selects the events to deliver by their definitions.
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
