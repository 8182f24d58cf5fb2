//! Types, reasons, pause modes and generations of collections, as spans and metrics report them.

use std::borrow::Cow;

use clr_gc::event::{GcReason, GcType, PauseMode};
use clr_gc::gc::{Collection, HeapGeneration};

/// Returns the type with which a collection ran, or `None` if the type is unknown. A collection that was announced as
/// background and became blocking is blocking.
pub(crate) fn effective_type(collection: &Collection) -> Option<GcType> {
    if collection.became_blocking {
        Some(GcType::BLOCKING)
    } else {
        collection.gc_type
    }
}

/// Returns `blocking`, `background` or `foreground`, or the number as text if the type has no name.
pub(crate) fn type_name(gc_type: GcType) -> Cow<'static, str> {
    match gc_type {
        GcType::BLOCKING => Cow::Borrowed("blocking"),
        GcType::BACKGROUND => Cow::Borrowed("background"),
        GcType::FOREGROUND => Cow::Borrowed("foreground"),
        other => Cow::Owned(other.to_string()),
    }
}

/// Returns the name of a reason (`AllocSmall`, `Induced`, and others), or the number as text if the reason has no name.
pub(crate) fn reason_name(reason: GcReason) -> Cow<'static, str> {
    reason
        .name()
        .map_or_else(|| Cow::Owned(reason.to_string()), Cow::Borrowed)
}

/// Returns the name of a mode (`Batch`, `Interactive`, and others), or the number as text if the mode has no name.
pub(crate) fn pause_mode_name(mode: PauseMode) -> Cow<'static, str> {
    mode.name().map_or_else(|| Cow::Owned(mode.to_string()), Cow::Borrowed)
}

/// Returns the collected generation, or `None` if the generation is unknown or invalid.
pub(crate) fn condemned(collection: &Collection) -> Option<HeapGeneration> {
    match collection.generation? {
        0 => Some(HeapGeneration::Gen0),
        1 => Some(HeapGeneration::Gen1),
        2 => Some(HeapGeneration::Gen2),
        _ => None,
    }
}
