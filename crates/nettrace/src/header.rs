//! The header of a stream: clock, process and machine.

use crate::cursor::Cursor;
use crate::error::Error;
use crate::limits::MAX_HEADER_PROPERTIES;

/// Version of the container format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// The format of every runtime since .NET Core 3.0 ("V5" is V4 with tags in its metadata).
    V4,
    /// The format of one-collect (`dotnet-trace collect-linux`).
    V6 {
        /// Minor version. Readers of 6.0 can read every minor version.
        minor: u32,
    },
}

/// Size of a pointer in the traced process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PointerSize {
    /// 32 bits.
    Four,
    /// 64 bits.
    Eight,
}

impl PointerSize {
    /// Returns the size in bytes: 4 or 8.
    pub fn bytes(self) -> usize {
        match self {
            Self::Four => 4,
            Self::Eight => 8,
        }
    }
}

/// A UTC time in the layout of Windows' SYSTEMTIME. Fractions of a millisecond are truncated, so the time is up to 1 ms
/// early.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[expect(missing_docs, reason = "the names are self-explanatory")]
pub struct SystemTime {
    pub year: u16,
    /// 1 to 12.
    pub month: u16,
    /// 0 is Sunday. This value is neither checked nor used to determine the time.
    pub day_of_week: u16,
    /// 1 to 31.
    pub day: u16,
    /// 0 to 23.
    pub hour: u16,
    /// 0 to 59.
    pub minute: u16,
    /// 0 to 59, or 60 in a leap second.
    pub second: u16,
    /// 0 to 999.
    pub millisecond: u16,
}

impl SystemTime {
    /// Returns nanoseconds since 1970 (UTC), or `None` if a field is out of range (for example month 13).
    pub fn unix_ns(&self) -> Option<i128> {
        let month_length = match self.month {
            4 | 6 | 9 | 11 => 30,
            2 if self.year.is_multiple_of(4) && (!self.year.is_multiple_of(100) || self.year.is_multiple_of(400)) => 29,
            2 => 28,
            1..=12 => 31,
            _ => return None,
        };
        let is_time = (1..=month_length).contains(&self.day)
            && self.hour < 24
            && self.minute < 60
            && self.second < 61
            && self.millisecond < 1000;
        if !is_time {
            return None;
        }
        // Days of the civil calendar. Years start in March, so that the leap day is the last day.
        let (year, month) = (i64::from(self.year), i64::from(self.month));
        let (year, month) = if month > 2 {
            (year, month - 3)
        } else {
            (year - 1, month + 9)
        };
        let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
        let days = 365 * year + leap_days + (153 * month + 2) / 5 + i64::from(self.day) - 1 - 719_468;
        let seconds =
            days * 86_400 + i64::from(self.hour) * 3600 + i64::from(self.minute) * 60 + i64::from(self.second);
        Some(i128::from(seconds) * 1_000_000_000 + i128::from(self.millisecond) * 1_000_000)
    }

    fn read(cursor: &mut Cursor<'_>) -> Result<Self, Error> {
        const READING: &str = "the time of the Trace object";
        Ok(Self {
            year: cursor.u16(READING)?,
            month: cursor.u16(READING)?,
            day_of_week: cursor.u16(READING)?,
            day: cursor.u16(READING)?,
            hour: cursor.u16(READING)?,
            minute: cursor.u16(READING)?,
            second: cursor.u16(READING)?,
            millisecond: cursor.u16(READING)?,
        })
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let Self {
            year,
            month,
            day_of_week,
            day,
            hour,
            minute,
            second,
            millisecond,
        } = *self;
        for part in [year, month, day_of_week, day, hour, minute, second, millisecond] {
            out.extend(part.to_le_bytes());
        }
    }
}

/// The `Trace` object (V4) or block (V6), which precedes all events and occurs once per stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceHeader {
    /// Version of the container, which determines the layout of the rest of the stream.
    pub format: Format,
    /// The wall clock at `sync_ticks`.
    pub system_time: SystemTime,
    /// Value of the traced machine's tick counter at `system_time`: the start of the session.
    pub sync_ticks: i64,
    /// Ticks per second, greater than 0. The frequency is 1,000,000,000 on Linux (CLOCK_MONOTONIC), and different on
    /// other systems.
    pub frequency: i64,
    /// Size of a pointer in the traced process, and therefore in payloads.
    pub pointer_size: PointerSize,
    /// Process id in the pid namespace of the process; `None` in V6 streams of one-collect, which records whole
    /// machines.
    pub process_id: Option<u32>,
    /// Number of processors; `None` if a V6 header does not contain the number. NativeAOT writes 65,535.
    pub processors: Option<u32>,
    /// Interval between two samples of the CPU profiler, in nanoseconds; `None` if a V6 header does not contain the
    /// interval. Runtimes write the interval even if the profiler is off.
    pub sampling_rate_ns: Option<u32>,
    /// V6: key-value pairs, in their original order, that have no field in this type or whose value is not a number.
    pub properties: Vec<(String, String)>,
}

/// A V4 header of a 64-bit process with the clock of Linux. The other values are unknown.
impl Default for TraceHeader {
    fn default() -> Self {
        Self {
            format: Format::V4,
            system_time: SystemTime::default(),
            sync_ticks: 0,
            frequency: 1_000_000_000,
            pointer_size: PointerSize::Eight,
            process_id: None,
            processors: None,
            sampling_rate_ns: None,
            properties: Vec::new(),
        }
    }
}

impl TraceHeader {
    /// Length of the V4 `Trace` payload, in bytes. The payload has no length field.
    pub(crate) const V4_BYTES: usize = 48;

    /// Returns the nanoseconds from the sync point to a time in ticks, rounded down and clamped to the range of `i64`.
    pub fn offset_ns(&self, ticks: i64) -> i64 {
        let since = i128::from(ticks) - i128::from(self.sync_ticks);
        // The clock of Linux counts nanoseconds, so the slow 128-bit division can be skipped.
        let ns = if self.frequency == 1_000_000_000 {
            since
        } else {
            (since * 1_000_000_000).div_euclid(i128::from(self.frequency.max(1)))
        };
        ns.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
    }

    /// Returns a time in ticks as nanoseconds since 1970, or `None` if the wall clock of the stream is invalid. The
    /// absolute error is up to 1 ms; times of the same stream are exact to one tick relative to each other.
    pub fn unix_ns(&self, ticks: i64) -> Option<i128> {
        self.unix_ns_of_offset(self.offset_ns(ticks))
    }

    /// Like [`TraceHeader::unix_ns`], but for an offset from [`TraceHeader::offset_ns`].
    pub fn unix_ns_of_offset(&self, offset_ns: i64) -> Option<i128> {
        Some(self.system_time.unix_ns()? + i128::from(offset_ns))
    }

    /// Reads the payload of a V4 `Trace` object.
    pub(crate) fn read_v4(bytes: &[u8], base: u64) -> Result<Self, Error> {
        const READING: &str = "the Trace object";
        let mut cursor = Cursor::new(bytes, base);
        let mut header = Self::read_clock(&mut cursor, Format::V4)?;
        header.process_id = Some(cursor.u32(READING)?);
        header.processors = Some(cursor.u32(READING)?);
        header.sampling_rate_ns = Some(cursor.u32(READING)?);
        Ok(header)
    }

    /// Reads the content of a V6 `Trace` block.
    pub(crate) fn read_v6(bytes: &[u8], base: u64, minor: u32) -> Result<Self, Error> {
        const READING: &str = "the properties of the Trace block";
        let mut cursor = Cursor::new(bytes, base);
        let mut header = Self::read_clock(&mut cursor, Format::V6 { minor })?;
        let offset = cursor.offset();
        let count = cursor.u32(READING)? as usize;
        if count > MAX_HEADER_PROPERTIES {
            return Err(Error::limit(offset, READING, count, MAX_HEADER_PROPERTIES));
        }
        for _ in 0..count {
            let (key, value) = (cursor.utf8(READING)?, cursor.utf8(READING)?);
            let place = match key.as_str() {
                "ProcessId" => &mut header.process_id,
                "HardwareThreadCount" => &mut header.processors,
                "ExpectedCPUSamplingRate" => &mut header.sampling_rate_ns,
                _ => {
                    header.properties.push((key, value));
                    continue;
                }
            };
            match value.parse() {
                Ok(number) => *place = Some(number),
                Err(_) => header.properties.push((key, value)),
            }
        }
        Ok(header)
    }

    fn read_clock(cursor: &mut Cursor<'_>, format: Format) -> Result<Self, Error> {
        const READING: &str = "the Trace object";
        let system_time = SystemTime::read(cursor)?;
        let sync_ticks = cursor.i64(READING)?;
        let at_frequency = cursor.offset();
        let frequency = cursor.i64(READING)?;
        if frequency <= 0 {
            return Err(Error::corrupt(
                at_frequency,
                READING,
                "the clock frequency is not positive",
            ));
        }
        let at_pointer = cursor.offset();
        let pointer_size = match cursor.u32(READING)? {
            4 => PointerSize::Four,
            8 => PointerSize::Eight,
            _ => return Err(Error::corrupt(at_pointer, READING, "the pointer size is not 4 or 8")),
        };
        Ok(Self {
            format,
            system_time,
            sync_ticks,
            frequency,
            pointer_size,
            process_id: None,
            processors: None,
            sampling_rate_ns: None,
            properties: Vec::new(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(frequency: i64) -> TraceHeader {
        TraceHeader {
            system_time: SystemTime {
                year: 2025,
                month: 3,
                day_of_week: 6,
                day: 1,
                ..SystemTime::default()
            },
            sync_ticks: 1000,
            frequency,
            ..TraceHeader::default()
        }
    }

    /// Scenario: times of a Windows clock are before and after the sync point, and at both ends of the range.
    /// Guarantee: nanoseconds are rounded down and do not wrap.
    #[test]
    fn ticks_become_nanoseconds() {
        let windows = header(3_124_099);
        assert_eq!(windows.offset_ns(1000), 0);
        assert_eq!(windows.offset_ns(1001), 320);
        assert_eq!(windows.offset_ns(999), -321);
        assert_eq!(windows.offset_ns(1000 + 3_124_099), 1_000_000_000);
        assert_eq!(windows.offset_ns(i64::MAX), i64::MAX);
        assert_eq!(header(1_000_000_000).offset_ns(i64::MIN), i64::MIN);
    }

    /// Scenario: days are close to leap days (expected values from `date -u -d ... +%s`), or invalid.
    /// Guarantee: valid days become seconds since 1970, and invalid days become `None`.
    #[test]
    fn civil_time_becomes_unix_time() {
        let at = |year, month, day, hour| {
            SystemTime {
                year,
                month,
                day,
                hour,
                ..SystemTime::default()
            }
            .unix_ns()
        };
        let seconds = |seconds: i128| Some(seconds * 1_000_000_000);
        assert_eq!(at(1970, 1, 1, 0), seconds(0));
        assert_eq!(at(2000, 2, 29, 12), seconds(951_825_600));
        assert_eq!(at(2025, 3, 1, 0), seconds(1_740_787_200));
        assert_eq!(at(2100, 2, 29, 0), None);
        assert_eq!(at(2025, 13, 1, 0), None);
        assert_eq!(at(2025, 0, 1, 0), None);
        assert_eq!(at(2025, 4, 31, 0), None);
        assert_eq!(at(2025, 4, 30, 24), None);
        assert_eq!(header(1_000_000_000).unix_ns(1001), Some(1_740_787_200_000_000_001));
    }
}
