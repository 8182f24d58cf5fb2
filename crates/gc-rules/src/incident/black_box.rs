//! Which incidents are recorded, and what their recordings are called.

use std::sync::Arc;

use super::record::id_of;
use super::{Incident, RECORDED_NS};
use crate::alert::RunKey;

/// The longest part of a process's name in an id.
const MOST_NAME: usize = 40;

/// A process whose events are kept.
#[derive(Debug)]
pub(super) struct Recorder {
    run: RunKey,
    process: Arc<str>,
    /// When the newest recording began, and its id.
    newest: Option<(u64, Arc<str>)>,
}

impl Recorder {
    pub(super) fn new(run: RunKey, process: Arc<str>) -> Self {
        Self {
            run,
            process,
            newest: None,
        }
    }

    /// Has an incident recorded that is severe enough and is not yet. Returns whether a recording is its from now on.
    pub(super) fn record(&mut self, incident: &mut Incident, now: u64) -> bool {
        if incident.black_box.is_some() || incident.process_ended_unix_ns.is_some() || !incident.is_recorded() {
            return false;
        }
        let newest = self.newest.take();
        let recording = newest.filter(|(began, _)| now.abs_diff(*began) < RECORDED_NS);
        let recording = recording.unwrap_or_else(|| {
            let what = id_of(incident, Some(self.run));
            (now, recording_id(now, &self.process, self.run.pid, &what))
        });
        incident.black_box = Some(Arc::clone(&recording.1));
        self.newest = Some(recording);
        true
    }
}

/// The id of a recording: `20261123T114742Z-shop-4711-1f2e3d4c5b6a7988`, by when and of what. It is a part of a file's
/// name and of a path.
pub fn recording_id(unix_ns: u64, process: &str, pid: u32, what: &str) -> Arc<str> {
    let time = jiff::Timestamp::from_nanosecond(unix_ns.into()).unwrap_or_default();
    let time = time.strftime("%Y%m%dT%H%M%SZ");
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let name: String = process
        .chars()
        .map(|c| if is_plain(c) { c } else { '-' })
        .take(MOST_NAME)
        .collect();
    let name = name.trim_matches('-');
    let name = if name.is_empty() { "process" } else { name };
    format!("{time}-{name}-{pid}-{what}").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: processes with usual, foreign, long and no names.
    /// Guarantee: letters, digits, `-` and `_`, never a separator of paths, and never long.
    #[test]
    fn an_id_is_a_name_of_a_file() {
        let at = 1_795_434_462_000_000_000;
        let id = |name: &str| recording_id(at, name, 4711, "died").to_string();
        assert_eq!(id("Shop.Api"), "20261123T114742Z-Shop-Api-4711-died");
        assert_eq!(id("../../etc/é"), "20261123T114742Z-etc-4711-died");
        assert_eq!(id(""), "20261123T114742Z-process-4711-died");
        assert!(id(&"x".repeat(5000)).len() < 100);
    }
}
