//! The keys of `evidence`.

use super::{Deserialize, JsonSchema, Serialize};
use crate::evidence::black_box::BlackBoxOptions;
use strict_yaml::units::ByteSize;

/// What is gathered for incidents.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Evidence {
    /// Recordings of the events around the beginning of severe incidents.
    pub(crate) black_box: BlackBox,
}

/// Recordings of the events around the beginning of incidents of severity error and worse, and of rules with `evidence:
/// [black-box]`: up to 30 s before and 10 s after, below `state.directory`. Without that, there are none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct BlackBox {
    /// If false, nothing is recorded, nor kept in memory: at most 8 MB for all processes, 128 KiB for each.
    #[schemars(extend("x-restart" = true))]
    pub(crate) enabled: bool,
    /// Maximum number of files; the oldest are deleted.
    #[schemars(range(min = 1, max = 100_000), extend("x-restart" = true))]
    pub(crate) max_files: u32,
    /// Maximum size of all files; the oldest are deleted. What is being recorded can take as much again.
    #[schemars(extend("x-minimum" = "1MiB", "x-maximum" = "1TiB", "x-restart" = true))]
    pub(crate) max_bytes: ByteSize,
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
