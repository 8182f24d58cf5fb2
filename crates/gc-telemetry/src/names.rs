//! Names of types, reasons and generations, shared by spans and metrics.

use std::borrow::Cow;

use clr_gc::event::{GcReason, GcType, PauseMode};
use clr_gc::gc::{Collection, HeapGeneration};

/// Returns the actual type, or `None` if it is unknown. A collection that was announced as background and ran as
/// blocking is blocking.
pub(crate) fn effective_type(collection: &Collection) -> Option<GcType> {
    if collection.became_blocking {
        Some(GcType::BLOCKING)
    } else {
        collection.gc_type
    }
}

/// Returns `blocking`, `background` or `foreground`; an unknown number as text.
pub(crate) fn type_name(gc_type: GcType) -> Cow<'static, str> {
    match gc_type {
        GcType::BLOCKING => Cow::Borrowed("blocking"),
        GcType::BACKGROUND => Cow::Borrowed("background"),
        GcType::FOREGROUND => Cow::Borrowed("foreground"),
        other => Cow::Owned(other.to_string()),
    }
}

/// Returns the reason (`AllocSmall`, `Induced`, and others); an unknown number as text.
pub(crate) fn reason_name(reason: GcReason) -> Cow<'static, str> {
    reason
        .name()
        .map_or_else(|| Cow::Owned(reason.to_string()), Cow::Borrowed)
}

/// Returns the mode (`Batch`, `Interactive`, and others); an unknown number as text.
pub(crate) fn pause_mode_name(mode: PauseMode) -> Cow<'static, str> {
    mode.name().map_or_else(|| Cow::Owned(mode.to_string()), Cow::Borrowed)
}

/// Returns the collected generation; `None` if unknown or invalid.
pub(crate) fn condemned(collection: &Collection) -> Option<HeapGeneration> {
    match collection.generation? {
        0 => Some(HeapGeneration::Gen0),
        1 => Some(HeapGeneration::Gen1),
        2 => Some(HeapGeneration::Gen2),
        _ => None,
    }
}
