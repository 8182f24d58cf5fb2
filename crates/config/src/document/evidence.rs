//! The keys of `evidence`.

use super::otlp::PROFILES_REMOVED;
use super::{Deserialize, JsonSchema, Serialize};
use base::units::{ByteSize, HumanDuration};
use base::words;
use evidence::automatic::BurstOptions;
use evidence::black_box::BlackBoxOptions;
use evidence::census::CensusOptions;
use evidence::store::StoreOptions;

words! {
    /// Whether an action with a cost is performed.
    #[derive(Default)]
    pub enum Switch {
        /// The action is not performed.
        #[default]
        Off = "off",
        /// The action is performed.
        On = "on",
    }
}

/// The evidence that is gathered for incidents.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("x-removed" = {"profiles": PROFILES_REMOVED}))]
pub(crate) struct Evidence {
    /// Bursts for incidents of rules with `evidence: [callers]`, `[allocations]` or `[stacks]`. A burst is a session of
    /// some seconds with stacks, like `gcwatch callers`, `gcwatch allocations` and `gcwatch stacks`. A burst finds the
    /// code that triggers collections or allocates, and the activity of threads. Only one burst runs on a host at a
    /// time, and no burst runs while the heap or the container is at its limit. The incident contains the reason if
    /// there was no burst.
    pub(crate) bursts: Switch,
    /// Duration of a burst. A burst of stacks always lasts 0.3 s.
    #[schemars(extend("x-minimum" = "1s", "x-maximum" = "30s"))]
    pub(crate) burst_for: HumanDuration,
    /// Minimum interval between two bursts of a process.
    #[schemars(extend("x-minimum" = "1m", "x-maximum" = "7d"))]
    pub(crate) burst_every: HumanDuration,
    /// Heap dumps for incidents of rules with `evidence: [census]`, whose memory grows by live objects. Two dumps show
    /// the types and roots that grew. Each dump suspends all threads, performs a full collection, and needs memory in
    /// addition to the heap. A dump is taken only within the limits of the following keys. The incident contains the
    /// reason if no dump was taken.
    pub(crate) census: Switch,
    /// Interval between the first and the second heap dump.
    #[schemars(extend("x-minimum" = "1s", "x-maximum" = "1d"))]
    pub(crate) census_apart: HumanDuration,
    /// Minimum interval between the starts of two censuses of a service, each with two heap dumps.
    #[schemars(extend("x-minimum" = "1m", "x-maximum" = "7d"))]
    pub(crate) census_every: HumanDuration,
    /// Maximum forecast duration of the suspension for a heap dump. Before .NET 10, each dump has two suspensions.
    #[schemars(extend("x-minimum" = "1ms", "x-maximum" = "1m"))]
    pub(crate) census_max_stop: HumanDuration,
    /// Factor for the free memory: the container, or the machine, must have this many times the memory that a dump
    /// needs.
    #[schemars(range(min = 1, max = 100))]
    pub(crate) census_room: u32,
    /// Distance from the limit of the heap or the container, in percent of the limit, below which no dump is taken.
    #[schemars(range(min = 0, max = 90))]
    pub(crate) census_headroom_percent: u32,
    /// Recordings of the events around the start of severe incidents.
    pub(crate) black_box: BlackBox,
    /// Copies of evidence outside the host.
    pub(crate) store: Store,
}

/// Copies of evidence in an object store or on a mounted volume: recordings, records of incidents with their findings,
/// flame graphs, and heap dumps of the census. Incidents and their messages contain the addresses of the copies.
/// Requires `state.directory`, in which files wait until the store has accepted them. Credentials come from the
/// environment or the identity of the pod or the machine (docs/evidence.md), never from this file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Store {
    /// Location of the store: `s3://BUCKET/PREFIX`, `gs://BUCKET/PREFIX`, `az://CONTAINER/PREFIX` or `file:///FOLDER`.
    /// The name of the node or host is appended. Without this key, evidence stays on the host.
    #[schemars(extend("x-restart" = true))]
    pub(crate) url: Option<String>,
    /// URL of a server that is compatible with S3 or Azure Blob Storage, instead of the server of the cloud provider.
    #[schemars(extend("x-restart" = true))]
    pub(crate) endpoint: Option<String>,
    /// Maximum number of files that wait on disk. Above this number, the oldest file is dropped.
    #[schemars(range(min = 1, max = 100_000), extend("x-restart" = true))]
    pub(crate) max_files: u32,
    /// Maximum size of the files that wait on disk. Above this size, the oldest files are dropped.
    #[schemars(extend("x-minimum" = "1MiB", "x-maximum" = "1TiB", "x-restart" = true))]
    pub(crate) max_bytes: ByteSize,
}

impl Default for Store {
    fn default() -> Self {
        Self {
            url: None,
            endpoint: None,
            max_files: u32::try_from(StoreOptions::MAX_FILES).unwrap_or(u32::MAX),
            max_bytes: ByteSize(StoreOptions::MAX_BYTES),
        }
    }
}

/// Recordings of the events around the start of incidents of severity error or critical, and of rules with `evidence:
/// [black-box]`: up to 30 s before and 10 s after the start. Recordings are stored in `state.directory`. Without this
/// directory, nothing is recorded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct BlackBox {
    /// Whether events are recorded. For this purpose, gcwatch keeps the latest events in memory: at most 8 MB for all
    /// processes, and 128 KiB per process.
    #[schemars(extend("x-restart" = true))]
    pub(crate) enabled: bool,
    /// Maximum number of files. Above this number, the oldest file of the owner with the most files is deleted.
    #[schemars(range(min = 1, max = 100_000), extend("x-restart" = true))]
    pub(crate) max_files: u32,
    /// Maximum size of all files. Above this size, the oldest file of the owner with the most bytes is deleted.
    /// Recordings in progress can take the same amount in addition.
    #[schemars(extend("x-minimum" = "1MiB", "x-maximum" = "1TiB", "x-restart" = true))]
    pub(crate) max_bytes: ByteSize,
}

impl Default for Evidence {
    fn default() -> Self {
        let options = BurstOptions::default();
        let census = CensusOptions::default();
        Self {
            bursts: Switch::default(),
            burst_for: HumanDuration(options.time),
            burst_every: HumanDuration(options.every),
            census: Switch::default(),
            census_apart: HumanDuration(census.apart),
            census_every: HumanDuration(census.every),
            census_max_stop: HumanDuration(census.most_stop),
            census_room: census.room,
            census_headroom_percent: census.headroom_percent,
            black_box: BlackBox::default(),
            store: Store::default(),
        }
    }
}

impl From<&Evidence> for BurstOptions {
    fn from(keys: &Evidence) -> Self {
        Self {
            enabled: keys.bursts == Switch::On,
            time: keys.burst_for.0,
            every: keys.burst_every.0,
        }
    }
}

impl From<&Evidence> for CensusOptions {
    fn from(keys: &Evidence) -> Self {
        Self {
            enabled: keys.census == Switch::On,
            apart: keys.census_apart.0,
            every: keys.census_every.0,
            most_stop: keys.census_max_stop.0,
            room: keys.census_room,
            headroom_percent: keys.census_headroom_percent,
        }
    }
}

impl Default for BlackBox {
    fn default() -> Self {
        let options = BlackBoxOptions::default();
        Self {
            enabled: options.enabled,
            max_files: u32::try_from(options.max_files).unwrap_or(u32::MAX),
            max_bytes: ByteSize(options.max_bytes),
        }
    }
}

impl From<&BlackBox> for BlackBoxOptions {
    fn from(keys: &BlackBox) -> Self {
        Self {
            enabled: keys.enabled,
            max_files: keys.max_files as usize,
            max_bytes: keys.max_bytes.0,
        }
    }
}
