//! Reads the GC settings of a process once per run, in a short separate session.
//!
//! CoreCLR 9 and later send the settings at the end of a session whose rundown has the keyword 0x1 (`CollectTracing4`):
//! two small events, within 0.1 s, and no method events. Observed on 9.0.22, 10.0.0 and 10.0.14. Older runtimes support
//! only the whole rundown, which suspends a large program for a long time, and NativeAOT sends nothing (8, 9). In these
//! cases the settings stay unknown. No runtime on Linux sent the private provider's GCSettings or rundown events
//! without a rundown.
//!
//! The session starts after the session for collections, and not while memory is scarce, because a session costs the
//! process some memory.

use std::sync::Arc;
use std::time::Duration;

use clr_gc::event::{ClrEvent, RUNDOWN_PROVIDER};
use clr_gc::gc::ReportTiming;
use clr_gc::stream::{AdvanceOutcome, GcStream, Observed, Scope, StreamLimits};
use dotnet_diagnostics::message::{CollectVersion, Provider, Rundown, SessionConfig};
use dotnet_diagnostics::{Client, Error};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use tokio::time::timeout;

use gc_telemetry::definition::settings as row;
use gc_telemetry::value::key_value;

/// Maximum duration of the session.
const READ_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum number of bytes that are kept. A runtime sends about 1500.
const MAX_BYTES: usize = 64 << 10;
/// Keyword for GC events, the same in the rundown provider and in the runtime's provider.
const KEYWORD_GC: u64 = 0x1;
const INFORMATIONAL: u32 = 4;

/// Bits of `StartupFlags` and of `BitSettings`.
const STARTUP_CONCURRENT: u32 = 0x1;
const STARTUP_SERVER: u32 = 0x1000;
const BIT_CONCURRENT: u32 = 0x1;
const BIT_LARGE_PAGES: u32 = 0x2;
const BIT_NOT_AFFINITIZED: u32 = 0x10;

/// GC settings of a process. A field is `None` if the runtime does not send the setting, or if the setting is not
/// configured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GcSettings {
    /// Whether server GC is used: several heaps, collected in parallel.
    pub server: Option<bool>,
    /// Whether generation 2 can be collected in the background.
    pub concurrent: Option<bool>,
    /// Hard limit of the heap, in bytes.
    pub hard_limit: Option<u64>,
    /// Memory load above which memory counts as scarce, in percent.
    pub high_memory_percent: Option<u32>,
    /// Minimum size of a large object, in bytes.
    pub loh_threshold: Option<u64>,
    /// Physical memory that the collector is configured to assume, in bytes.
    pub physical_memory: Option<u64>,
    /// Minimum budget of generation 0, in bytes.
    pub gen0_min_budget: Option<u64>,
    /// Maximum budget of generation 0, in bytes.
    pub gen0_max_budget: Option<u64>,
    /// Whether the heap uses large pages.
    pub large_pages: Option<bool>,
    /// Whether heaps are bound to processors.
    pub affinitized: Option<bool>,
}

impl GcSettings {
    /// Updates the settings from an event that contains some of them.
    pub fn take_in(&mut self, event: &ClrEvent<'_>) {
        let configured = |value: u64| Some(value).filter(|value| *value != 0);
        match event {
            ClrEvent::RundownSettings(event) => {
                let bit = |bit| Some(event.bit_settings & bit != 0);
                self.concurrent = bit(BIT_CONCURRENT);
                self.large_pages = bit(BIT_LARGE_PAGES);
                self.affinitized = bit(BIT_NOT_AFFINITIZED).map(|not| !not);
                self.hard_limit = configured(event.hard_limit);
                self.loh_threshold = configured(event.loh_threshold);
                self.physical_memory = configured(event.physical_memory_config);
                self.gen0_min_budget = configured(event.gen0_min_budget_config);
                self.gen0_max_budget = configured(event.gen0_max_budget_config);
                self.high_memory_percent = Some(event.high_mem_percent_config).filter(|percent| *percent != 0);
            }
            // .NET Core 3.1 and 5 always send 0.
            ClrEvent::RuntimeDcStart(event) if event.startup_flags != 0 || event.vm_major_version >= 6 => {
                self.server = Some(event.startup_flags & STARTUP_SERVER != 0);
                let concurrent = event.startup_flags & STARTUP_CONCURRENT != 0;
                self.concurrent = self.concurrent.or(Some(concurrent));
            }
            _ => {}
        }
    }

    /// Returns the settings as attributes. Unknown settings are omitted.
    pub fn attributes(&self) -> Vec<KeyValue> {
        let bytes = |value: Option<u64>| value.and_then(|value| i64::try_from(value).ok()).map(Value::IntValue);
        let flag = |value: Option<bool>| value.map(Value::BoolValue);
        let values = [
            (&row::SERVER, flag(self.server)),
            (&row::CONCURRENT, flag(self.concurrent)),
            (&row::HARD_LIMIT, bytes(self.hard_limit)),
            (
                &row::HIGH_MEMORY_PERCENT,
                bytes(self.high_memory_percent.map(u64::from)),
            ),
            (&row::LOH_THRESHOLD, bytes(self.loh_threshold)),
            (&row::PHYSICAL_MEMORY, bytes(self.physical_memory)),
            (&row::GEN0_MIN_BUDGET, bytes(self.gen0_min_budget)),
            (&row::GEN0_MAX_BUDGET, bytes(self.gen0_max_budget)),
            (&row::LARGE_PAGES, flag(self.large_pages)),
            (&row::AFFINITIZED, flag(self.affinitized)),
        ];
        let known = values
            .into_iter()
            .filter_map(|(row, value)| Some(key_value(row.name, value?)));
        known.collect()
    }
}

/// Returns whether an event of the session for collections shows that the number of heaps adapts.
pub fn adapts(observed: &Observed<'_>) -> bool {
    let Ok(ClrEvent::DynamicEvent(event)) = &observed.decoded else {
        return false;
    };
    event.name.eq_str("SizeAdaptationSample") || event.name.eq_str("HeapCountSample")
}

/// Returns the attribute for an adapting number of heaps.
pub(crate) fn adaptive() -> KeyValue {
    key_value(row::DYNAMIC_ADAPTATION.name, Value::BoolValue(true))
}

/// Reads the settings. Returns `None` if the runtime does not send its settings. The session is always stopped, even if
/// the reading takes too long.
///
/// # Errors
///
/// Returns an error if the session fails. Nothing else depends on this session.
pub(crate) async fn read(client: Arc<Client>) -> Result<Option<GcSettings>, Error> {
    let config = SessionConfig {
        buffer_mb: 1,
        rundown: Rundown::Keyword(KEYWORD_GC),
        providers: vec![Provider::new(RUNDOWN_PROVIDER, KEYWORD_GC, INFORMATIONAL)],
        ..SessionConfig::default()
    };
    // Request only the version that can limit the rundown. Older versions send all methods.
    let mut session = match client.collect_tracing_with(&config, &[CollectVersion::V4]).await {
        Ok(session) => session,
        Err(error) if error.is_unknown_command() => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut bytes = Vec::new();
    let drained = session.drain(|more| {
        let room = MAX_BYTES.saturating_sub(bytes.len());
        bytes.extend_from_slice(more.get(..room.min(more.len())).unwrap_or_default());
    });
    // On a timeout, the bytes received so far can suffice.
    if let Ok(Err(error)) = timeout(READ_TIMEOUT, drained).await {
        return Err(error);
    }
    Ok(settings_in(&bytes))
}

/// Returns the settings in a stream, or `None` if the stream contains no settings.
fn settings_in(bytes: &[u8]) -> Option<GcSettings> {
    let mut stream = GcStream::with_limits(
        Scope::Everything,
        ReportTiming::After(0),
        StreamLimits::one_live_process(),
    );
    let space = stream.space(bytes.len());
    space.get_mut(..bytes.len())?.copy_from_slice(bytes);
    stream.filled(bytes.len());
    stream.finish();
    let mut settings = GcSettings::default();
    let mut take = |observed: &Observed<'_>| {
        if let Ok(event) = &observed.decoded {
            settings.take_in(event);
        }
    };
    // Damage ends the stream, but the events before it are valid. Collections are ignored here.
    while matches!(stream.advance(&mut take), Ok(AdvanceOutcome::Paused)) {
        while stream.next_outcome().is_some() {}
    }
    Some(settings).filter(|settings| *settings != GcSettings::default())
}

#[cfg(test)]
mod tests {
    use clr_gc::event::{Layout, decode};
    use nettrace::PointerSize;

    use super::*;

    fn take(settings: &mut GcSettings, id: u32, payload: &[u8]) {
        let layout = Layout::find(RUNDOWN_PROVIDER, id, Some(0)).unwrap();
        settings.take_in(&decode(layout, payload, PointerSize::Eight).unwrap());
    }

    /// Returns the payload of GCSettingsRundown as 10.0.14 sent it with `GCHeapHardLimit=0xC000000
    /// GCHighMemPercent=0x50`.
    fn limited() -> Vec<u8> {
        let words = [0xC00_0000_u64, 85_000, 0, 0, 0];
        let mut payload: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        payload.extend([0x50, 0, 0, 0, 0x1D, 0, 0, 0, 0, 0]);
        payload
    }

    /// Scenario: the settings come from the events of a workstation process with a hard limit, then from the startup
    /// flags of a process with non-concurrent server GC.
    /// Guarantee: configured settings have a value, other settings are absent, and every attribute is defined in the
    /// table.
    #[test]
    fn settings_are_read_from_events() {
        let mut settings = GcSettings::default();
        take(&mut settings, 10, &limited());
        assert_eq!(
            settings,
            GcSettings {
                server: None,
                concurrent: Some(true),
                hard_limit: Some(0xC00_0000),
                high_memory_percent: Some(80),
                loh_threshold: Some(85_000),
                large_pages: Some(false),
                affinitized: Some(false),
                ..GcSettings::default()
            }
        );
        let mut server = vec![0; 24 - 4];
        server.extend([0, 0x10, 0, 0, 0]);
        server.extend([0; 2 + 16 + 2]);
        let mut settings = GcSettings::default();
        take(&mut settings, 187, &server);
        assert_eq!((settings.server, settings.concurrent), (Some(true), Some(false)));
        for attribute in settings.attributes() {
            assert!(
                row::ALL.iter().any(|row| row.attribute.name == attribute.key),
                "{}",
                attribute.key
            );
        }
        assert_eq!(settings.attributes().len(), 2);
    }

    /// Scenario: the input is empty, then not a stream.
    /// Guarantee: no settings are returned.
    #[test]
    fn invalid_stream_has_no_settings() {
        assert_eq!(settings_in(b""), None);
        assert_eq!(settings_in(b"HTTP/1.1 200 OK"), None);
    }
}
