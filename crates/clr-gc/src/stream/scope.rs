//! Which events of a stream are decoded: decided once for each definition, so that the others cost nothing but their
//! count.

use nettrace::Metadata;

use crate::event::{Kind, Layout};

/// The tag of events without a known layout: no layout's own.
const UNKNOWN_TAG: u32 = u32::MAX;

/// Which events are decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Those that collections are rebuilt from; all others are only counted. Fast.
    Collections,
    /// The same, and the events of this provider, undecoded.
    CollectionsAnd(&'static str),
    /// Every event of the stream is offered to the observer.
    Everything,
}

impl Scope {
    /// The tag of events with this definition; `None`: they are not decoded.
    pub(super) fn tag(self, metadata: &Metadata) -> Option<u32> {
        let layout = Layout::of(&metadata.provider, metadata.event_id, metadata.version);
        match (self, layout) {
            (Self::Everything, layout) => Some(layout.map_or(UNKNOWN_TAG, Layout::to_tag)),
            (_, Some(layout)) if rebuilds(layout.kind) || names_runtime(layout.kind) => Some(layout.to_tag()),
            (Self::CollectionsAnd(provider), None) if metadata.provider == provider => Some(UNKNOWN_TAG),
            (Self::Collections | Self::CollectionsAnd(_), _) => None,
        }
    }
}

/// The events that values of a collection are made of.
pub(super) fn rebuilds(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::GcStart
            | Kind::GcEnd
            | Kind::HeapStats
            | Kind::SuspendEeBegin
            | Kind::SuspendEeEnd
            | Kind::RestartEeBegin
            | Kind::RestartEeEnd
            | Kind::GcTriggered
            | Kind::MarkWithType
            | Kind::GlobalHeapHistory
            | Kind::PerHeapHistory
            | Kind::DynamicEvent
            | Kind::CreateConcurrentThread
            | Kind::FinalizersBegin
            | Kind::FinalizersEnd
            | Kind::BulkRootEdge
    )
}

/// The events that identify the runtime and its program, and say how the collector is set up: a few in a stream.
fn names_runtime(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::RuntimeStart | Kind::RuntimeDcStart | Kind::RundownSettings | Kind::ProcessInfo
    )
}
