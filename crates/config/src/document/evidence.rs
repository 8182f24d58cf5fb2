//! The keys of `evidence`.

use super::{Deserialize, JsonSchema, Serialize};
use base::units::{ByteSize, HumanDuration};
use base::words;
use evidence::automatic::BurstOptions;
use evidence::black_box::BlackBoxOptions;
use evidence::census::CensusOptions;
use evidence::store::StoreOptions;

words! {
    /// Whether something is done that costs something.
    #[derive(Default)]
    pub enum Switch {
        /// No.
        #[default]
        Off = "off",
        /// Yes.
        On = "on",
    }
}

/// What is gathered for incidents.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Evidence {
    /// Bursts for incidents of rules with `evidence: [callers]`, `[allocations]` or `[stacks]`: a session of seconds with
    /// stacks in the process, as of `gcwatch callers`, `gcwatch allocations` and `gcwatch stacks`, that finds the code
    /// that triggers collections, or allocates, and what threads do. Never two on a host at once, none while the heap or
    /// the container is at its limit; the incident says why there was none.
    pub(crate) bursts: Switch,
    /// How long one lasts. One of stacks lasts 0.3 s.
    #[schemars(extend("x-minimum" = "1s", "x-maximum" = "30s"))]
    pub(crate) burst_for: HumanDuration,
    /// How long a process is left alone after one.
    #[schemars(extend("x-minimum" = "1m", "x-maximum" = "7d"))]
    pub(crate) burst_every: HumanDuration,
    /// Whether the allocations of such a burst are exported as a profile over OTLP, too. Profiles are in development in
    /// OTLP: few receivers take them yet, and a version of both may not fit the other.
    pub(crate) profiles: Switch,
    /// Heap dumps for incidents of rules with `evidence: [census]`, whose memory grows by live objects: two of them, which
    /// name the types and roots that grew. Each stops all threads and collects everything, and takes memory beside the
    /// heap: only within the bounds that follow, and the incident says why there was none.
    pub(crate) census: Switch,
    /// From the first heap dump to the second.
    #[schemars(extend("x-minimum" = "1s", "x-maximum" = "1d"))]
    pub(crate) census_apart: HumanDuration,
    /// How long a service is left alone from the beginning of a census: two heap dumps in that time.
    #[schemars(extend("x-minimum" = "1m", "x-maximum" = "7d"))]
    pub(crate) census_every: HumanDuration,
    /// The longest stop, as forecast; before .NET 10 each dump has two.
    #[schemars(extend("x-minimum" = "1ms", "x-maximum" = "1m"))]
    pub(crate) census_max_stop: HumanDuration,
    /// How many times the memory that a dump takes must be free in the container, or the machine.
    #[schemars(range(min = 1, max = 100))]
    pub(crate) census_room: u32,
    /// None while the heap or the container is within so many percent of its limit.
    #[schemars(range(min = 0, max = 90))]
    pub(crate) census_headroom_percent: u32,
    /// Recordings of the events around the beginning of severe incidents.
    pub(crate) black_box: BlackBox,
    /// Copies of evidence outside of the host.
    pub(crate) store: Store,
}

/// Copies of recordings, of the records of incidents with their findings, of flame graphs and of heap dumps of the
/// census, in an object store or on a mounted volume. Incidents and their messages have the address. Needs
/// `state.directory`, below which files wait until the store has accepted them. Credentials come from the environment
/// or the identity of the pod or the machine (docs/evidence.md), never from this file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Store {
    /// The place: `s3://BUCKET/PREFIX`, `gs://BUCKET/PREFIX`, `az://CONTAINER/PREFIX` or `file:///FOLDER`; the name of the
    /// node or host is added. Without it, evidence stays on the host.
    #[schemars(extend("x-restart" = true))]
    pub(crate) url: Option<String>,
    /// URL of a server that is compatible with S3 or Azure Blob Storage, instead of the cloud's.
    #[schemars(extend("x-restart" = true))]
    pub(crate) endpoint: Option<String>,
    /// Maximum number of files that wait on disk; the oldest makes room.
    #[schemars(range(min = 1, max = 100_000), extend("x-restart" = true))]
    pub(crate) max_files: u32,
    /// Maximum size of the files that wait on disk; the oldest makes room.
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

/// Recordings of the events around the beginning of incidents of severity error and worse, and of rules with `evidence:
/// [black-box]`: up to 30 s before and 10 s after, below `state.directory`. Without that, there are none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct BlackBox {
    /// If false, nothing is recorded, nor kept in memory: at most 8 MB for all processes, 128 KiB for each.
    #[schemars(extend("x-restart" = true))]
    pub(crate) enabled: bool,
    /// Maximum number of files; of more, whoever has most loses the oldest.
    #[schemars(range(min = 1, max = 100_000), extend("x-restart" = true))]
    pub(crate) max_files: u32,
    /// Maximum size of all files, likewise. What is being recorded can take as much again.
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
            profiles: Switch::default(),
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
