//! Counters of a decoder.

/// Number of blocks of each kind (in V4, number of objects of each type).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(missing_docs, reason = "the names are those of the format")]
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
    /// Blocks of unknown kinds, which are skipped.
    pub unknown: u64,
}

/// Counters of a decoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Stats {
    /// Bytes received, up to the end tag.
    pub bytes: u64,
    /// Ignored bytes after the end tag.
    pub trailing_bytes: u64,
    /// Events read, including events that were not delivered.
    pub events: u64,
    /// Events delivered so far.
    pub delivered: u64,
    /// Events that [`Options::interest`](crate::Options::interest) excluded.
    pub uninteresting: u64,
    /// Events whose definition is not in the stream, for example because the start of the stream was lost.
    pub unknown_metadata: u64,
    /// Events that the writer dropped; `None` if the writer does not number events (one-collect).
    pub lost: Option<u64>,
    /// Events delivered before their order was certain, because too many events waited.
    pub released_early: u64,
    /// Events delivered after a newer event: after an early release or a flush, or because the writer marked an
    /// unsorted event as sorted.
    pub late: u64,
    /// Definitions read.
    pub definitions: u64,
    /// Timestamp of the oldest event, in ticks (see [`TraceHeader::offset_ns`](crate::TraceHeader::offset_ns)); `None`
    /// if no event was read.
    pub first_event: Option<i64>,
    /// Timestamp of the newest event, in ticks; `None` if no event was read.
    pub last_event: Option<i64>,
    /// Blocks read.
    pub blocks: BlockCounts,
    /// Capture threads that were forgotten because of
    /// [`Limits::max_capture_threads`](crate::limits::Limits::max_capture_threads).
    pub threads_forgotten: u64,
    /// V6: thread indexes that remain unresolved because of
    /// [`Limits::max_thread_indexes`](crate::limits::Limits::max_thread_indexes).
    pub threads_unresolved: u64,
    /// Stacks that were dropped because of [`Limits::max_stack_bytes`](crate::limits::Limits::max_stack_bytes).
    pub stacks_dropped: u64,
}
