//! Flame graphs of the last bursts for incidents, compressed in memory. They are for the page and are lost when gcwatch
//! exits; their data is in the incident's record.

use std::collections::VecDeque;
use std::io::{Read as _, Write as _};
use std::sync::{Mutex, PoisonError};

use base::run_key::RunKey;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;

use crate::black_box::files::URL;

/// Maximum number of compressed bytes of a graph. A larger graph is not kept. A graph of a thousand frames takes 20
/// KiB.
const MAX_ONE: usize = 128 << 10;
/// Maximum number of compressed bytes of all graphs. The oldest are dropped.
const MAX_ALL: usize = 512 << 10;
/// Start and end of a graph's name.
const START: &str = "flame-";
const ENDING: &str = ".svg";

/// The graphs by name.
#[derive(Debug, Default)]
pub struct Flames {
    kept: Mutex<VecDeque<(String, Vec<u8>)>>,
}

impl Flames {
    /// Keeps the graph of a run's incident. Returns its URL, or `None` if the graph is too large.
    pub fn put(&self, run: RunKey, incident: u64, svg: &str) -> Option<String> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(svg.as_bytes()).ok()?;
        let packed = encoder.finish().ok().filter(|packed| packed.len() <= MAX_ONE)?;
        let name = format!("{START}{}-{}-{incident}{ENDING}", run.pid, run.start_time);
        let url = format!("{URL}{name}");
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|(known, _)| *known != name);
        let mut bytes = packed.len() + kept.iter().map(|(_, packed)| packed.len()).sum::<usize>();
        while bytes > MAX_ALL {
            let Some((_, oldest)) = kept.pop_front() else { break };
            bytes -= oldest.len();
        }
        kept.push_back((name, packed));
        Some(url)
    }

    /// Returns the graph with this name (SVG), or `None` if no such graph is kept.
    pub fn get(&self, name: &str) -> Option<String> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let (_, packed) = kept.iter().find(|(known, _)| known == name)?;
        let mut svg = String::new();
        GzDecoder::new(packed.as_slice()).read_to_string(&mut svg).ok()?;
        Some(svg)
    }
}

/// Returns whether a name has the form of a graph's name.
pub fn is_name(name: &str) -> bool {
    name.starts_with(START) && name.ends_with(ENDING)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: there are more graphs than fit, two graphs of one incident, and a graph that is too large.
    /// Guarantee: the newest graphs are returned unchanged, the oldest are dropped, and the limit is respected.
    #[test]
    fn newest_graphs_are_kept() {
        let flames = Flames::default();
        let run = |pid| RunKey { pid, start_time: 9 };
        let mut random = fastrand::Rng::with_seed(7);
        // Incompressible text takes its full size.
        let mut svg = |bytes: usize| -> String { (0..bytes).map(|_| random.alphanumeric()).collect() };
        let first = svg(100_000);
        assert_eq!(
            flames.put(run(1), 1, &first).unwrap(),
            "/api/v1/evidence/flame-1-9-1.svg"
        );
        assert_eq!(flames.get("flame-1-9-1.svg").unwrap(), first);
        assert!(flames.put(run(1), 1, "again").is_some());
        assert_eq!(flames.get("flame-1-9-1.svg").unwrap(), "again");
        assert!(flames.put(run(2), 1, &svg(400_000)).is_none());
        for pid in 3..20 {
            assert!(flames.put(run(pid), 1, &svg(100_000)).is_some());
        }
        assert!(flames.get("flame-1-9-1.svg").is_none() && flames.get("flame-3-9-1.svg").is_none());
        assert!(flames.get("flame-19-9-1.svg").is_some() && is_name("flame-19-9-1.svg"));
        let kept = flames.kept.lock().unwrap();
        assert!(kept.iter().map(|(_, packed)| packed.len()).sum::<usize>() <= MAX_ALL);
    }
}
