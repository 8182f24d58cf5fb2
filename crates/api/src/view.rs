//! Records for display, which the API serves to the page, to `gcwatch top` and to other clients.
//!
//! Sizes are in bytes, durations in nanoseconds, and times in RFC 3339 or, in columns, in Unix milliseconds. Unknown
//! values are null, never 0 and never omitted. Names are a contract: existing names never change, and new names may be
//! added.

mod alert;
mod process;
mod report;
mod requests;
mod row;
mod target;
mod watcher;

pub use alert::{AlertView, FiringView, NearView, ParamView, RuleView};
pub use gc_advice::change::ChangeRecord;
pub use gc_advice::sizing::SizingRecord;
pub use process::{
    CauseRecord, CollectionLine, CollectionLookupError, CollectionRecord, HeapColumns, HistoryColumns, KindColumns,
    MemoryRecord, Neighbour, NoteRecord, PauseColumns, ProcessRecord, RequestsOfMinute, SettingRecord, StreamFigures,
    TrendRecord, TrendsRecord, UnobservedFact,
};
pub use report::{HeapPoints, ReportRecord, ReportedProcess, ReportedRecording, RuleFindings};
pub use requests::{ReportedRequest, ReportedRequests, RequestTally};
pub use row::{MinuteRecord, OverviewRecord, ProcessRow, RowMemory, SparkRecord};
pub use target::TargetView;
pub use watcher::{
    ExportsRuntimeRecord, ListenerRecord, PartRecord, ReceiverRecord, StreamsRecord, UsageRecord, WatcherRecord,
};
