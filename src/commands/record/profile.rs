//! The providers, keywords and levels of recording profiles, and the size of the event buffers in the process for each
//! profile.

use clr_gc::event::{PRIVATE_PROVIDER, RUNTIME_PROVIDER};
use dotnet_diagnostics::message::Provider;
use gc_requests::session;
use targets::event_buffers::needed_mb;

use crate::commands::cli::Profile;

pub(super) const KEYWORD_GC: u64 = 0x1;
const KEYWORD_GC_HANDLE: u64 = 0x2;
/// Ids of types, for events that contain only ids.
const KEYWORD_TYPE: u64 = 0x8_0000;
/// Names of the types whose ids [`KEYWORD_TYPE`] adds. This keyword belongs to heap dumps; the dump itself has another
/// keyword, which is not requested.
const KEYWORD_TYPE_NAMES: u64 = 0x100_0000;
pub(super) const INFORMATIONAL: u32 = 4;
const VERBOSE: u32 = 5;

impl Profile {
    /// Returns the providers of the session.
    pub(super) fn providers(self) -> Vec<Provider> {
        let runtime = |keywords, level| Provider::new(RUNTIME_PROVIDER, keywords, level);
        match self {
            Self::Gc => vec![runtime(KEYWORD_GC, INFORMATIONAL)],
            Self::GcVerbose => vec![runtime(KEYWORD_GC | KEYWORD_TYPE | KEYWORD_TYPE_NAMES, VERBOSE)],
            Self::GcHandles => vec![runtime(KEYWORD_GC | KEYWORD_GC_HANDLE, INFORMATIONAL)],
            Self::Private => vec![
                runtime(KEYWORD_GC, INFORMATIONAL),
                Provider::new(PRIVATE_PROVIDER, KEYWORD_GC, INFORMATIONAL),
            ],
            Self::Requests => vec![runtime(KEYWORD_GC, INFORMATIONAL), requests()],
        }
    }

    /// Returns the default maximum size of the event buffers in a process, in megabytes.
    pub(in crate::commands) fn buffer_mb(self, pid: u32) -> u32 {
        let usual = match self {
            Self::Gc | Self::GcHandles | Self::Private => 16,
            Self::GcVerbose | Self::Requests => 64,
        };
        usual.max(needed_mb(pid))
    }
}

fn requests() -> Provider {
    Provider {
        arguments: Some(session::arguments(session::Fields::default(), [])),
        ..Provider::new(session::PROVIDER, session::KEYWORDS, session::LEVEL)
    }
}
