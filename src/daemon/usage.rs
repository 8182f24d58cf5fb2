//! CPU time, memory, threads and descriptors of the daemon itself, from `/proc/self`.

use std::fs;

use rustix::param::{clock_ticks_per_second, page_size};

use gc_telemetry::definition::own as row;
use gc_telemetry::sheet::{Number, Sheet, text, whole};

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
        let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let mut usage = Self::of_stat(&stat);
        usage.descriptors = fs::read_dir("/proc/self/fd")
            .ok()
            // The directory that is being read is one of them.
            .map(|descriptors| (descriptors.count() as u64).saturating_sub(1));
        usage
    }

    /// `/proc/PID/stat` (proc(5)): fields 14 utime, 15 stime, 20 num_threads, 24 rss, counted after the name in
    /// parentheses, which can contain anything.
    fn of_stat(stat: &str) -> Self {
        let fields: Vec<&str> = match stat.rsplit_once(')') {
            Some((_, rest)) => rest.split_ascii_whitespace().collect(),
            None => return Self::default(),
        };
        let field = |number: usize| fields.get(number - 3).and_then(|field| field.parse::<u64>().ok());
        let seconds = |ticks: u64| ticks as f64 / clock_ticks_per_second() as f64;
        Self {
            user_seconds: field(14).map(seconds),
            system_seconds: field(15).map(seconds),
            threads: field(20),
            resident_bytes: field(24).map(|pages| pages.saturating_mul(page_size() as u64)),
            descriptors: None,
        }
    }
}

/// Adds the figures of this process.
pub(crate) fn report(sheet: &mut Sheet) {
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
    use super::Usage;

    /// Scenario: a process whose name holds parentheses and spaces.
    /// Guarantee: the fields are counted after the name's last parenthesis.
    #[test]
    fn the_fields_come_after_the_name() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194560 10 0 0 0 250 50 0 0 20 0 5 0 100 1000000 42 1844";
        let usage = Usage::of_stat(stat);
        let ticks = rustix::param::clock_ticks_per_second() as f64;
        assert_eq!(usage.user_seconds, Some(250.0 / ticks));
        assert_eq!(usage.system_seconds, Some(50.0 / ticks));
        assert_eq!(usage.threads, Some(5));
        assert_eq!(usage.resident_bytes, Some(42 * rustix::param::page_size() as u64));
        assert_eq!(Usage::of_stat("nonsense"), Usage::default());
    }
}
