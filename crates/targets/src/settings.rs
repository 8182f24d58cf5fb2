//! How a process's collector is set up, read once per run by a short session of its own.
//!
//! CoreCLR 9 and later send it at the end of a session whose rundown has the keyword 0x1 (`CollectTracing4`): two small
//! events, within a tenth of a second, and nothing about methods. Seen on 9.0.22, 10.0.0 and 10.0.14. Older runtimes
//! can only be asked for the whole rundown, which stops a large program for long, and NativeAOT answers with nothing
//! (8, 9): there the settings stay unknown. The private provider's GCSettings, and the rundown provider without a
//! rundown, were sent by no runtime on Linux.
//!
//! The session is begun after the one for collections, and not while memory is scarce: a session costs the process some
//! memory.

use std::sync::Arc;
use std::time::Duration;

use clr_gc::event::{ClrEvent, RUNDOWN_PROVIDER};
use clr_gc::gc::Settling;
use clr_gc::stream::{Advanced, GcStream, Observed, Scope, StreamLimits};
use dotnet_diagnostics::message::{CollectVersion, Provider, Rundown, SessionConfig};
use dotnet_diagnostics::{Client, Error};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use tokio::time::timeout;

use gc_telemetry::definition::settings as row;
use gc_telemetry::value::key_value;

/// How long the session may last once it has begun.
const READ_WITHIN: Duration = Duration::from_secs(2);
/// Most bytes that are taken; a runtime sends fifteen hundred.
const MAX_BYTES: usize = 64 << 10;
/// The keyword of collections, in the rundown provider as in the runtime's.
const KEYWORD_GC: u64 = 0x1;
const INFORMATIONAL: u32 = 4;

/// Bits of `StartupFlags` and of `BitSettings`.
const STARTUP_CONCURRENT: u32 = 0x1;
const STARTUP_SERVER: u32 = 0x1000;
const BIT_CONCURRENT: u32 = 0x1;
const BIT_LARGE_PAGES: u32 = 0x2;
const BIT_NOT_AFFINITIZED: u32 = 0x10;

/// How a process's collector is set up. `None`: the runtime does not send it, or it is not configured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GcSettings {
    /// Several heaps, collected in parallel.
    pub(crate) server: Option<bool>,
    /// Generation 2 may be collected in the background.
    pub(crate) concurrent: Option<bool>,
    /// Limit of the heap in bytes.
    pub(crate) hard_limit: Option<u64>,
    /// Memory load in percent from which memory counts as scarce.
    pub(crate) high_memory_percent: Option<u32>,
    /// Size in bytes from which an object is large.
    pub(crate) loh_threshold: Option<u64>,
    /// Memory in bytes that the collector is configured to assume.
    pub(crate) physical_memory: Option<u64>,
    /// Least budget of generation 0 in bytes.
    pub(crate) gen0_min_budget: Option<u64>,
    /// Largest budget of generation 0 in bytes.
    pub(crate) gen0_max_budget: Option<u64>,
    /// The heap is in large pages.
    pub(crate) large_pages: Option<bool>,
    /// Heaps are bound to processors.
    pub(crate) affinitized: Option<bool>,
}

impl GcSettings {
    /// Takes an event that says something of it.
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
            // .NET Core 3.1 and 5 send 0 whatever is set.
            ClrEvent::RuntimeDcStart(event) if event.startup_flags != 0 || event.vm_major_version >= 6 => {
                self.server = Some(event.startup_flags & STARTUP_SERVER != 0);
                let concurrent = event.startup_flags & STARTUP_CONCURRENT != 0;
                self.concurrent = self.concurrent.or(Some(concurrent));
            }
            _ => {}
        }
    }

    /// As attributes; what is unknown has none.
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

/// What is learned from an event of the session for collections: that the number of heaps adapts.
pub(crate) fn adapts(observed: &Observed<'_>) -> bool {
    let Ok(ClrEvent::DynamicEvent(event)) = &observed.decoded else {
        return false;
    };
    event.name.eq_str("SizeAdaptationSample") || event.name.eq_str("HeapCountSample")
}

/// The attribute for that.
pub(crate) fn adaptive() -> KeyValue {
    key_value(row::DYNAMIC_ADAPTATION.name, Value::BoolValue(true))
}

/// Reads the settings. `None`: the runtime does not send them. The session is ended in any case, also one that takes
/// too long.
///
/// # Errors
///
/// When the session fails, which concerns nothing else.
pub(crate) async fn read(client: Arc<Client>) -> Result<Option<GcSettings>, Error> {
    let config = SessionConfig {
        buffer_mb: 1,
        rundown: Rundown::Keyword(KEYWORD_GC),
        providers: vec![Provider::new(RUNDOWN_PROVIDER, KEYWORD_GC, INFORMATIONAL)],
        ..SessionConfig::default()
    };
    // The form that can choose its rundown, and no older one: those send all methods.
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
    // What came within the time may do.
    if let Ok(Err(error)) = timeout(READ_WITHIN, drained).await {
        return Err(error);
    }
    Ok(settings_in(&bytes))
}

/// The settings in a stream.
fn settings_in(bytes: &[u8]) -> Option<GcSettings> {
    let mut stream = GcStream::with_limits(Scope::Everything, Settling::After(0), StreamLimits::one_live_process());
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
    // Damage ends it; what came before is right. Collections are not looked for here.
    while matches!(stream.advance(&mut take), Ok(Advanced::Paused)) {
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
        let layout = Layout::of(RUNDOWN_PROVIDER, id, Some(0)).unwrap();
        settings.take_in(&decode(layout, payload, PointerSize::Eight).unwrap());
    }

    /// The payload of GCSettingsRundown as 10.0.14 sent it with `GCHeapHardLimit=0xC000000 GCHighMemPercent=0x50`.
    fn limited() -> Vec<u8> {
        let words = [0xC00_0000_u64, 85_000, 0, 0, 0];
        let mut payload: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        payload.extend([0x50, 0, 0, 0, 0x1D, 0, 0, 0, 0, 0]);
        payload
    }

    /// Scenario: the events of a workstation process with a hard limit, and the flags of one with server GC and no
    /// concurrent one.
    /// Guarantee: what is configured has a value, what is not is absent; every attribute is of the table.
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

    /// Scenario: bytes that are no stream, and none.
    /// Guarantee: no settings, and no harm.
    #[test]
    fn no_stream_has_no_settings() {
        assert_eq!(settings_in(b""), None);
        assert_eq!(settings_in(b"HTTP/1.1 200 OK"), None);
    }
}
