//! CPU time, memory, threads and file descriptors of the daemon itself, from `/proc/self`.

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
    /// Returns the units of this kernel.
    fn here() -> Self {
        Self {
            page_bytes: page_size() as u64,
            ticks_per_second: clock_ticks_per_second(),
        }
    }
}

/// Returns the kernel's figures for this process. A value that cannot be read is absent.
pub(crate) fn record() -> UsageRecord {
    let stat = fs::read("/proc/self/stat").unwrap_or_default();
    let descriptors = fs::read_dir("/proc/self/fd").ok();
    UsageRecord {
        // The count includes the descriptor of the directory itself.
        descriptors: descriptors.map(|descriptors| (descriptors.count() as u64).saturating_sub(1)),
        ..read_usage(&stat, Units::here())
    }
}

fn read_usage(stat: &[u8], units: Units) -> UsageRecord {
    let Some(stat) = parse_stat(stat) else {
        return UsageRecord::default();
    };
    let seconds = |ticks: u64| ticks as f64 / units.ticks_per_second as f64;
    UsageRecord {
        cpu_user_s: Some(seconds(stat.user_ticks)),
        cpu_system_s: Some(seconds(stat.system_ticks)),
        threads: Some(stat.threads),
        resident: stat.resident_pages.map(|pages| pages.saturating_mul(units.page_bytes)),
        descriptors: None,
    }
}

/// Adds the figures of this process.
pub(crate) fn report(sheet: &mut MetricSnapshot) {
    let usage = record();
    let modes = [("user", usage.cpu_user_s), ("system", usage.cpu_system_s)];
    let points = modes
        .into_iter()
        .filter_map(|(mode, seconds)| Some((vec![text(&row::CPU_MODE, mode)], Number::AsDouble(seconds?))));
    sheet.put(&row::CPU_TIME, points);
    sheet.put_one(&row::MEMORY, usage.resident.map(whole));
    sheet.put_one(&row::THREADS, usage.threads.map(whole));
    sheet.put_one(&row::DESCRIPTORS, usage.descriptors.map(whole));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: `/proc/self/stat` has values of machines with different page sizes and tick rates, and a text without
    /// values.
    /// Guarantee: ticks become seconds and pages become bytes in the units of each machine; unreadable values are
    /// unknown.
    #[test]
    fn ticks_and_pages_are_converted_with_machine_units() {
        let stat = b"7 (a) S 1 7 7 0 -1 4194560 10 0 0 0 250 50 0 0 20 0 5 0 100 1000000 42 1844";
        for (page_bytes, ticks_per_second) in [(4 << 10, 100), (16 << 10, 250), (64 << 10, 1000)] {
            let units = Units {
                page_bytes,
                ticks_per_second,
            };
            let usage = read_usage(stat, units);
            assert_eq!(usage.cpu_user_s, Some(250.0 / ticks_per_second as f64));
            assert_eq!(usage.cpu_system_s, Some(50.0 / ticks_per_second as f64));
            assert_eq!(usage.threads, Some(5));
            assert_eq!(usage.resident, Some(42 * page_bytes));
            assert_eq!(read_usage(b"nonsense", units), UsageRecord::default());
        }
    }
}
