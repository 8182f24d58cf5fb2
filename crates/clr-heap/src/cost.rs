//! Forecasts the cost of a heap dump for the process and for the reader, as ranges based on measurements of CoreCLR
//! (docs/heap.md in the repository).

use serde::Serialize;

/// Usual range of the average object size, in bytes. Large objects are not included.
const USUAL_OBJECT: (u64, u64) = (60, 150);
/// Duration of a full collection, in nanoseconds per live byte.
const COLLECT_NS: (f64, f64) = (0.2, 0.6);
/// Duration of writing an object and its references, in nanoseconds, by kind of collector.
const WRITE_NS_WORKSTATION: (f64, f64) = (100.0, 200.0);
const WRITE_NS_SERVER: (f64, f64) = (150.0, 350.0);
/// Maximum size of the stream per live byte: an object of 24 bytes with one reference.
const MAX_STREAM: f64 = 1.84;

/// Returns the buffer size of a session for a stream of `stream_bytes` bytes, in MiB. The size includes the space that
/// the runtime wastes in its blocks.
pub fn buffer_mb(stream_bytes: u64) -> u64 {
    (stream_bytes.saturating_mul(115) / 100)
        .div_ceil(1 << 20)
        .saturating_add(2)
}

/// Returns the peak memory for a graph with the given number of objects and references, including all derived results,
/// in bytes.
///
/// The result is the larger of two peaks, plus 24 MiB:
///
/// * Building the graph takes 28 bytes per object and 12 bytes per reference. These sums include 20 and 8 bytes for the
///   received data.
/// * Computing the dominators takes 52 bytes per object and 8 bytes per reference: 12 and 4 bytes for the graph, 4 and
///   4 bytes for the reversed graph, and 36 bytes per object for the computation.
pub fn graph_bytes(objects: u64, edges: u64) -> u64 {
    let reading = objects.saturating_mul(28).saturating_add(edges.saturating_mul(12));
    let solving = objects.saturating_mul(52).saturating_add(edges.saturating_mul(8));
    reading.max(solving).saturating_add(24 << 20)
}

/// A range of values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Range {
    /// Usual lower bound, in the unit of the field that contains the range.
    pub low: u64,
    /// Usual upper bound, in the unit of the field that contains the range.
    pub high: u64,
}

/// Facts about a process that are known without a dump.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessEstimate {
    /// Upper bound of the live memory, in bytes: anonymous memory, or the live bytes after the last collection plus
    /// later allocations.
    pub live_bytes: u64,
    /// Whether the process uses the server collector; `None` if unknown.
    pub server: Option<bool>,
    /// Whether the end of the session triggers a second collection, as in runtimes before .NET 10.
    pub collects_twice: bool,
}

/// Figures of a previous dump. The next dump of the process is similar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PreviousDump {
    /// Live memory, in bytes.
    pub live_bytes: u64,
    /// Number of objects.
    pub objects: u64,
    /// Duration of the longest suspension, in nanoseconds; `None` if no suspension was fully observed.
    pub stop_ns: Option<u64>,
    /// Size of the stream, in bytes.
    pub stream_bytes: u64,
}

/// Forecast cost of a dump.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Forecast {
    /// Duration of one suspension of all threads, in nanoseconds.
    pub stop_ns: Range,
    /// Number of suspensions: 1, or 2 if the end of the session triggers a second collection.
    pub stops: u32,
    /// Number of objects.
    pub objects: Range,
    /// Maximum memory that the process needs in addition to its heap until the dump is read, in bytes.
    pub buffer_bytes: u64,
}

impl ProcessEstimate {
    /// Returns the forecast for a first dump.
    pub fn forecast(self) -> Forecast {
        let live = self.live_bytes;
        let (write_low, write_high) = match self.server {
            Some(false) => WRITE_NS_WORKSTATION,
            Some(true) => WRITE_NS_SERVER,
            None => (WRITE_NS_WORKSTATION.0, WRITE_NS_SERVER.1),
        };
        // The low estimate assumes that half of the memory is outside the heap, or is free space in the heap.
        let objects = Range {
            low: live / 2 / USUAL_OBJECT.1,
            high: live / USUAL_OBJECT.0,
        };
        let stop = |live: u64, objects: u64, collect: f64, write: f64| {
            (live as f64 * collect + objects as f64 * write).round() as u64
        };
        Forecast {
            stop_ns: Range {
                low: stop(live / 2, objects.low, COLLECT_NS.0, write_low),
                high: stop(live, objects.high, COLLECT_NS.1, write_high),
            },
            stops: if self.collects_twice { 2 } else { 1 },
            objects,
            buffer_bytes: (live as f64 * MAX_STREAM * 1.15).round() as u64 + (2 << 20),
        }
    }

    /// Returns the forecast for the next dump, from the figures of a previous dump. The forecast allows for the
    /// measured difference of 30 % between suspensions of one process, and for the growth of live bytes. A decrease of
    /// live bytes does not reduce the forecast. If the previous dump has no observed suspension, the suspension is
    /// forecast as for a first dump.
    pub fn after(self, seen: PreviousDump) -> Forecast {
        let grown = (self.live_bytes as f64 / seen.live_bytes.max(1) as f64).max(1.0);
        let times = |value: u64, factor: f64| (value as f64 * grown * factor).round() as u64;
        Forecast {
            stop_ns: seen.stop_ns.map_or_else(
                || self.forecast().stop_ns,
                |stop| Range {
                    low: times(stop, 0.7),
                    high: times(stop, 1.3),
                },
            ),
            stops: if self.collects_twice { 2 } else { 1 },
            objects: Range {
                low: seen.objects,
                high: times(seen.objects, 1.0),
            },
            buffer_bytes: times(seen.stream_bytes, 1.15) + (2 << 20),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: dumps of the measured heaps (docs/heap.md) are forecast from the live bytes and the kind of collector.
    /// Guarantee: the measured suspension is in the range, and the stream fits into the buffer.
    #[test]
    fn measured_suspension_is_in_the_range() {
        // Live megabytes, server, suspension in ms, stream in MB.
        for (live, server, stop, stream) in [(67, false, 157, 68), (334, false, 607, 341), (1334, false, 2273, 1362)] {
            let known = ProcessEstimate {
                live_bytes: live * 1_000_000,
                server: Some(server),
                collects_twice: false,
            };
            let forecast = known.forecast();
            let range = forecast.stop_ns;
            assert!(
                (range.low..=range.high).contains(&(stop * 1_000_000)),
                "{live}: {range:?}"
            );
            assert!(forecast.buffer_bytes > stream * 1_000_000, "{live}: {forecast:?}");
        }
    }

    /// Scenario: a dump of 100 MB suspended the process for 0.3 s, and the live bytes double or halve afterwards. In a
    /// third case, the previous dump has no observed suspension.
    /// Guarantee: the next suspension is forecast to be twice as long after growth and equally long after shrinkage,
    /// within 30 %. The buffer has space for twice the stream after growth. Without an observed suspension, the
    /// forecast suspension is the suspension of a first dump, not 0.
    #[test]
    fn next_dump_is_forecast_from_the_previous() {
        let known = |live_bytes| ProcessEstimate {
            live_bytes,
            server: None,
            collects_twice: true,
        };
        let seen = PreviousDump {
            live_bytes: 100_000_000,
            objects: 1_000_000,
            stop_ns: Some(300_000_000),
            stream_bytes: 90_000_000,
        };
        let forecast = known(200_000_000).after(seen);
        assert_eq!(
            (forecast.stop_ns.low, forecast.stop_ns.high),
            (420_000_000, 780_000_000)
        );
        assert_eq!((forecast.objects.high, forecast.stops), (2_000_000, 2));
        assert!(forecast.buffer_bytes > 2 * 90_000_000);
        let shrunk = known(50_000_000).after(seen);
        assert_eq!(shrunk.stop_ns.high, 390_000_000);
        let unseen = known(50_000_000).after(PreviousDump { stop_ns: None, ..seen });
        assert_eq!(unseen.stop_ns, known(50_000_000).forecast().stop_ns);
        assert_eq!(unseen.objects, shrunk.objects);
    }

    /// Scenario: a graph has 5,000,000 objects with three references each.
    /// Guarantee: the graph takes less than 86 bytes per object.
    #[test]
    fn graph_takes_less_than_86_bytes_per_object() {
        assert!(graph_bytes(5_000_000, 15_000_000) < 86 * 5_000_000);
    }
}
