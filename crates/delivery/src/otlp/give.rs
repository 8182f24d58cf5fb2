//! Converts messages to queue entries. Messages are encoded at once, unless they would be dropped.

use std::sync::Arc;

use gc_telemetry::origin::Origin;
use prost::Message;
use tokio::time::Instant;

use crate::otlp::batch::Entry;
use crate::otlp::outgoing::Outgoing;

/// Whether several messages are joined into one entry.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum JoinMode {
    Never,
    ToSize,
}

/// Encodes `messages` and queues them, as one entry each or joined. `items` returns the number of items in a message.
pub(crate) fn give<M: Message>(
    outgoing: &Outgoing,
    resource: &Arc<Origin>,
    messages: &[M],
    items: fn(&M) -> u64,
    joined: JoinMode,
) {
    if messages.is_empty() {
        return;
    }
    let now = Instant::now();
    let most = {
        let mut queue = outgoing.queue();
        if !queue.takes() {
            return queue.count_dropped(messages.iter().map(items).sum());
        }
        if joined == JoinMode::ToSize {
            queue.entry_bytes()
        } else {
            0
        }
    };
    let mut entries = Vec::with_capacity(if joined == JoinMode::Never { messages.len() } else { 1 });
    let mut rest = messages;
    while !rest.is_empty() {
        let mut bytes = 0;
        let fits = |message: &&M| {
            bytes += message.encoded_len();
            bytes <= most
        };
        let count = rest.iter().take_while(fits).count().clamp(1, rest.len());
        let (entry, others) = rest.split_at(count);
        entries.push(Entry::new(resource, entry, entry.iter().map(items).sum()));
        rest = others;
    }
    outgoing.push(now, entries);
}
