//! CPU time, memory, threads and descriptors of the daemon itself, from `/proc/self`.

use std::fs;

use dotnet_diagnostics::discovery::parse_stat;
use rustix::param::{clock_ticks_per_second, page_size};

use api::view::UsageRecord;
use gc_telemetry::definition::own as row;
use gc_telemetry::snapshot::{MetricSnapshot, Number, text, whole};

/// The units of `/proc`, which differ between machines: aarch64 has pages of 4, 16 or 64 KiB.
#[derive(Debug, Clone, Copy)]
struct Units {
    page_bytes: u64,
    ticks_per_second: u64,
}

impl Units {
    /// As the kernel says them.
    fn here() -> Self {
        Self {
            page_bytes: page_size() as u64,
            ticks_per_second: clock_ticks_per_second(),
        }
    }
}

/// The kernel's figures for this process. A value that cannot be read is absent.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Usage {
    user_seconds: Option<f64>,
    system_seconds: Option<f64>,
    resident_bytes: Option<u64>,
    threads: Option<u64>,
    descriptors: Option<u64>,
}

impl Usage {
    fn read() -> Self {
        let stat = fs::read("/proc/self/stat").unwrap_or_default();
        let mut usage = Self::of_stat(&stat, Units::here());
        usage.descriptors = fs::read_dir("/proc/self/fd")
            .ok()
            // The directory that is being read is one of them.
            .map(|descriptors| (descriptors.count() as u64).saturating_sub(1));
        usage
    }

    fn of_stat(stat: &[u8], units: Units) -> Self {
        let Some(stat) = parse_stat(stat) else {
            return Self::default();
        };
        let seconds = |ticks: u64| ticks as f64 / units.ticks_per_second as f64;
        Self {
            user_seconds: Some(seconds(stat.user_ticks)),
            system_seconds: Some(seconds(stat.system_ticks)),
            threads: Some(stat.threads),
            resident_bytes: stat.resident_pages.map(|pages| pages.saturating_mul(units.page_bytes)),
            descriptors: None,
        }
    }
}

/// The figures of this process as a record.
pub(crate) fn record() -> UsageRecord {
    let usage = Usage::read();
    UsageRecord {
        cpu_user_s: usage.user_seconds,
        cpu_system_s: usage.system_seconds,
        resident: usage.resident_bytes,
        threads: usage.threads,
        descriptors: usage.descriptors,
    }
}

/// Adds the figures of this process.
pub(crate) fn report(sheet: &mut MetricSnapshot) {
    let usage = Usage::read();
    let modes = [("user", usage.user_seconds), ("system", usage.system_seconds)];
    let points = modes
        .into_iter()
        .filter_map(|(mode, seconds)| Some((vec![text(&row::CPU_MODE, mode)], Number::AsDouble(seconds?))));
    sheet.put(&row::CPU_TIME, points);
    sheet.put_one(&row::MEMORY, usage.resident_bytes.map(whole));
    sheet.put_one(&row::THREADS, usage.threads.map(whole));
    sheet.put_one(&row::DESCRIPTORS, usage.descriptors.map(whole));
}

#[cfg(test)]
mod tests {
    use super::{Units, Usage};

    /// Scenario: `/proc/self/stat` on machines with pages of 4 and of 64 KiB, and text that is none.
    /// Guarantee: ticks become seconds and pages bytes in the machine's own units; what cannot be read is unknown.
    #[test]
    fn ticks_and_pages_become_seconds_and_bytes() {
        let stat = b"7 (a) S 1 7 7 0 -1 4194560 10 0 0 0 250 50 0 0 20 0 5 0 100 1000000 42 1844";
        for (page_bytes, ticks_per_second) in [(4 << 10, 100), (16 << 10, 250), (64 << 10, 1000)] {
            let units = Units {
                page_bytes,
                ticks_per_second,
            };
            let usage = Usage::of_stat(stat, units);
            assert_eq!(usage.user_seconds, Some(250.0 / ticks_per_second as f64));
            assert_eq!(usage.system_seconds, Some(50.0 / ticks_per_second as f64));
            assert_eq!(usage.threads, Some(5));
            assert_eq!(usage.resident_bytes, Some(42 * page_bytes));
            assert_eq!(Usage::of_stat(b"nonsense", units), Usage::default());
        }
    }
}
