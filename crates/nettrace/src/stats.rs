//! What a decoder counts.

/// Blocks of each kind (in V4 the objects of that type).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(missing_docs, reason = "the names are the format's")]
pub struct BlockCounts {
    pub metadata: u64,
    pub event: u64,
    pub stack: u64,
    pub sequence_point: u64,
    /// V6 only.
    pub thread: u64,
    /// V6 only.
    pub remove_thread: u64,
    /// V6 only.
    pub label_list: u64,
    /// Of a kind that is not known here; skipped.
    pub unknown: u64,
}

/// What a decoder counted so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Stats {
    /// Bytes received, up to the end tag.
    pub bytes: u64,
    /// Bytes after the end tag: ignored.
    pub trailing_bytes: u64,
    /// Events read, whether delivered or not.
    pub events: u64,
    /// Events delivered.
    pub delivered: u64,
    /// Events that [`Options::interest`](crate::Options::interest) excluded.
    pub uninteresting: u64,
    /// Events whose definition the stream does not have (a lost beginning).
    pub unknown_metadata: u64,
    /// Events that the writer dropped. `None` when it does not number events (one-collect): then the loss is unknown.
    pub lost: Option<u64>,
    /// Events delivered before their order was certain, because too many waited.
    pub released_early: u64,
    /// Events delivered after a newer one: after an early release or a flush, or because the writer marked an event as
    /// sorted that was not.
    pub late: u64,
    /// Definitions read.
    pub definitions: u64,
    /// Ticks of the oldest event read.
    pub first_event: Option<i64>,
    /// Ticks of the newest event read.
    pub last_event: Option<i64>,
    /// Blocks read.
    pub blocks: BlockCounts,
    /// Capture threads whose numbering was forgotten because there were too many.
    pub threads_forgotten: u64,
    /// V6: thread indexes that stay unresolved because there were too many.
    pub threads_unresolved: u64,
    /// Stacks dropped because there were too many between two sequence points.
    pub stacks_dropped: u64,
}
