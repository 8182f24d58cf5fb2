//! Formats of durations and sizes, for schemas.

use base::units::{ByteSize, HumanDuration};

use crate::check::Format;

/// The format of durations.
pub const DURATION: Format = Format {
    name: "duration-with-unit",
    kind: "duration",
    what: "a duration such as 500ms, 30s, 5m or 1h",
    check: |text| Ok(Some(text.parse::<HumanDuration>()?.0.as_nanos())),
};

/// The format of sizes.
pub const SIZE: Format = Format {
    name: "size-with-unit",
    kind: "size",
    what: "a size such as 512KiB, 8MiB or 1GiB",
    check: |text| Ok(Some(u128::from(text.parse::<ByteSize>()?.0))),
};
