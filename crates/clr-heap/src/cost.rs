//! What a heap dump costs the process and its reader, before it is asked for: ranges, from what was measured
//! (docs/heap.md).

use serde::Serialize;

/// Objects are of 60 to 150 bytes on average, large ones left out.
const USUAL_OBJECT: (u64, u64) = (60, 150);
/// A collection of everything: nanoseconds a byte that lives.
const COLLECT_NS: (f64, f64) = (0.2, 0.6);
/// Writing an object and its references: nanoseconds, by kind of collector.
const WRITE_NS_WORKSTATION: (f64, f64) = (100.0, 200.0);
const WRITE_NS_SERVER: (f64, f64) = (150.0, 350.0);
/// Most bytes of the stream for a byte that lives: an object of 24 bytes with one reference.
const MOST_STREAM: f64 = 1.84;

/// The buffer for a stream of so many bytes, megabytes: what the runtime wastes in its blocks is added.
pub fn buffer_mb(stream_bytes: u64) -> u64 {
    (stream_bytes.saturating_mul(115) / 100)
        .div_ceil(1 << 20)
        .saturating_add(2)
}

/// Bytes that the graph of so many objects and references takes at its peak, with all that is computed from it.
///
/// While it is read: 20 an object and 8 a reference. While its dominators are computed: 12 an object and 4 a reference
/// of the graph, 4 each backwards, and 32 an object of the computation.
pub fn graph_bytes(objects: u64, edges: u64) -> u64 {
    let reading = objects.saturating_mul(28).saturating_add(edges.saturating_mul(12));
    let solving = objects.saturating_mul(52).saturating_add(edges.saturating_mul(8));
    reading.max(solving).saturating_add(24 << 20)
}

/// A range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Range {
    /// At least, usually.
    pub low: u64,
    /// At most, usually.
    pub high: u64,
}

/// What is known of a process before its first dump.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    /// Bytes that live, at most: its anonymous memory, or what its last collection left and it allocated since.
    pub live_bytes: u64,
    /// It has the server collector; `None`: unknown.
    pub server: Option<bool>,
    /// Before .NET 10 the end of the session collects again.
    pub collects_twice: bool,
}

/// What a dump of a process was like: the next one is much the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// Bytes that lived.
    pub live_bytes: u64,
    /// Objects.
    pub objects: u64,
    /// Its longest stop, nanoseconds; `None`: of no stop both edges were seen.
    pub stop_ns: Option<u64>,
    /// Bytes of its stream.
    pub stream_bytes: u64,
}

/// What a dump will cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Forecast {
    /// One stop of all threads, nanoseconds.
    pub stop_ns: Range,
    /// Stops.
    pub stops: u32,
    /// Objects.
    pub objects: Range,
    /// Bytes that the process takes beside its heap until the dump is read, at most.
    pub buffer_bytes: u64,
}

impl Known {
    /// The range.
    pub fn forecast(self) -> Forecast {
        let live = self.live_bytes;
        let (write_low, write_high) = match self.server {
            Some(false) => WRITE_NS_WORKSTATION,
            Some(true) => WRITE_NS_SERVER,
            None => (WRITE_NS_WORKSTATION.0, WRITE_NS_SERVER.1),
        };
        // Memory that is not the heap's, and free space in it, are half of it as a rule.
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
            buffer_bytes: (live as f64 * MOST_STREAM * 1.15).round() as u64 + (2 << 20),
        }
    }

    /// The range after a dump: stops of one process differed by 30 %, and what lives may have grown. A stop that was not
    /// seen is forecast as if there had been no dump.
    pub fn after(self, seen: Seen) -> Forecast {
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

    /// Scenario: the heaps that were measured (docs/heap.md), with what was known of them.
    /// Guarantee: the stop that was measured lies in the range, and the stream fits into the buffer.
    #[test]
    fn what_was_measured_lies_in_the_range() {
        // Live megabytes, server, stop in ms, stream in MB.
        for (live, server, stop, stream) in [(67, false, 157, 68), (334, false, 607, 341), (1334, false, 2273, 1362)] {
            let known = Known {
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

    /// Scenario: a dump of 100 MB that stopped the process for 0.3 s; since then twice as much lives, or half. The same
    /// of which no stop was seen.
    /// Guarantee: the next one is forecast to be twice as long, or as long, within 30 %; its stream fits. Without a stop
    /// its length is what it is without a dump, never 0.
    #[test]
    fn the_next_one_is_much_the_same() {
        let known = |live_bytes| Known {
            live_bytes,
            server: None,
            collects_twice: true,
        };
        let seen = Seen {
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
        let unseen = known(50_000_000).after(Seen { stop_ns: None, ..seen });
        assert_eq!(unseen.stop_ns, known(50_000_000).forecast().stop_ns);
        assert_eq!(unseen.objects, shrunk.objects);
    }

    /// Scenario: the graph of 5,000,000 objects with three references each.
    /// Guarantee: it takes less than 86 bytes an object.
    #[test]
    fn a_graph_takes_less_than_86_bytes_an_object() {
        assert!(graph_bytes(5_000_000, 15_000_000) < 86 * 5_000_000);
    }
}
