//! Estimates the time that a session of another tool adds to pauses.
//!
//! If a session requests GC events at the level Verbose, the runtime sends an event for each pinned object that a
//! collection finds, while the threads are suspended. With 100,000 pinned handles, pauses of 3 ms become 40 to 50 ms.
//! The session of gcwatch does not receive these events, but their time is visible: scanning the GC handles takes
//! longer by that amount. The usual time per handle is learned from the same process while no other tool is connected.
//! While a tool is connected, or its session has not ended for the runtime, the time beyond the usual is attributed to
//! the session.
//!
//! A session without such events, for example one for counters, has a part of 0. If the usual time is unknown (the tool
//! was connected first), there is no estimate. The cost of event stacks and of a sampling profiler is not recognized.

use clr_gc::gc::{Collection, Pause, PauseKind};

/// Minimum number of handles for an estimate.
const MIN_HANDLES: u32 = 100;
/// Number of collections that are remembered for each generation, and the minimum for an estimate.
const COLLECTIONS_PER_GENERATION: usize = 9;
const MIN_KEPT: usize = 3;
/// Scan time is attributed to the session only if it exceeds the usual time multiplied by [`TIMES`], plus [`MIN_NS`]
/// ns.
const TIMES: f64 = 2.0;
const MIN_NS: f64 = 200_000.0;
/// Maximum time for an event of a pinned object, in nanoseconds (measured: 400). More means that the thread had no CPU.
const MAX_NS: f64 = 1_000.0;

/// Time to scan a handle in one process, by generation.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ToolCost {
    usual: [UsualTimes; 3],
}

/// Times learned from collections without another tool. A tool is detected a few seconds after it has connected. A
/// collection therefore counts only if a look that started after it found no other tool, which is certain after a
/// second look.
#[derive(Debug, Clone, Copy, Default)]
struct UsualTimes {
    /// Number of looks without another tool when `newer` started.
    looks: u64,
    /// Times since the last look (`newer`), and between the two looks before it (`older`). These times are discarded
    /// when a tool is detected.
    newer: Newest,
    older: Newest,
    known: Newest,
}

/// Nanoseconds per handle in the last collections.
#[derive(Debug, Clone, Copy, Default)]
struct Newest {
    ns: [f32; COLLECTIONS_PER_GENERATION],
    /// Number of values that were added.
    count: usize,
}

impl Newest {
    fn put(&mut self, ns: f32) {
        if let Some(place) = self.ns.get_mut(self.count % COLLECTIONS_PER_GENERATION) {
            *place = ns;
        }
        self.count = self.count.wrapping_add(1);
    }

    fn all(&self) -> &[f32] {
        self.ns
            .get(..self.count.min(COLLECTIONS_PER_GENERATION))
            .unwrap_or_default()
    }
}

impl UsualTimes {
    /// Adds the time per handle of a collection without another tool, after `looks` looks without another tool.
    fn learn(&mut self, ns: f32, looks: u64) {
        for _ in 0..looks.saturating_sub(self.looks).min(2) {
            let sure = std::mem::replace(&mut self.older, std::mem::take(&mut self.newer));
            sure.all().iter().for_each(|ns| self.known.put(*ns));
        }
        self.looks = looks;
        self.newer.put(ns);
    }

    /// Discards recent times, because another tool was detected and can have been connected earlier.
    fn doubt(&mut self) {
        (self.newer, self.older) = (Newest::default(), Newest::default());
    }

    /// Returns the lower quartile of the known times, or `None` if fewer than [`MIN_KEPT`] are known. The lower
    /// quartile is used because a thread without a CPU takes longer, and no thread takes less time.
    fn ns(&self) -> Option<f32> {
        let mut known = self.known.ns;
        let known = known.get_mut(..self.known.all().len())?;
        known.sort_by(f32::total_cmp);
        known.get(known.len() / 4).copied().filter(|_| known.len() >= MIN_KEPT)
    }
}

impl ToolCost {
    /// Adds the time caused by another tool's session to the accounts of a collection's suspensions, if known. `looks`
    /// is the number of looks that found no other tool.
    pub(crate) fn judge(&mut self, collection: &mut Collection, looks: u64) {
        if collection.observed_by_others != Some(false) {
            self.usual.iter_mut().for_each(UsualTimes::doubt);
        }
        let Some(observed) = collection.observed_by_others else {
            return;
        };
        let handles = collection.handles();
        let place = collection
            .generation
            .and_then(|generation| usize::try_from(generation).ok());
        let mut usual = place.and_then(|place| self.usual.get_mut(place));
        for pause in &mut collection.pauses {
            if observed {
                let took = scan(pause, handles).zip(usual.as_ref().and_then(|usual| usual.ns()));
                let longer = took.map(|((ns, handles), usual)| beyond(ns, handles, usual.into()));
                if let (Some(longer), Some(account)) = (longer, pause.account.as_mut()) {
                    account.was_lengthened_by_tool(longer);
                }
                continue;
            }
            if let Some(account) = pause.account.as_mut() {
                account.was_lengthened_by_tool(0);
            }
            if let (Some((ns, handles)), Some(usual)) = (scan(pause, handles), &mut usual) {
                usual.learn((ns as f64 / f64::from(handles)) as f32, looks);
            }
        }
    }
}

/// Returns the time to scan the handles in a suspension, and the number of handles. Returns `None` if one is unknown,
/// if there are few handles, or if the suspension does not block for the whole collection.
fn scan(pause: &Pause, handles: Option<u32>) -> Option<(i64, u32)> {
    let handles = handles.filter(|handles| *handles >= MIN_HANDLES)?;
    let ns = pause.handles_ns.filter(|_| pause.kind == PauseKind::Blocking)?;
    Some((ns, handles))
}

/// Returns the time beyond the usual for this number of handles, or 0 if it is small.
fn beyond(ns: i64, handles: u32, usual: f64) -> i64 {
    let expected = usual * f64::from(handles);
    let took = ns as f64;
    if took > TIMES * expected + MIN_NS {
        (took - expected).min(MAX_NS * f64::from(handles)) as i64
    } else {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: the 100,000 handles of a process take 20 ns each, sometimes 60 ns because the thread had no CPU. A
    /// Verbose session starts, with which they take 400 ns, and is detected only after nine collections. Later, the
    /// handles take 35 ns.
    /// Guarantee: time beyond the usual is attributed to the session, and shorter time is not; there is no estimate
    /// until three collections have been confirmed by two later looks; times with the undetected session are not
    /// learned as usual times.
    #[test]
    fn time_beyond_usual_is_attributed_to_session() {
        let mut usual = UsualTimes::default();
        let learn = |usual: &mut UsualTimes, looks, all: &[f32]| all.iter().for_each(|ns| usual.learn(*ns, looks));
        learn(&mut usual, 1, &[20.0, 60.0]);
        learn(&mut usual, 2, &[20.0]);
        learn(&mut usual, 3, &[60.0]);
        assert_eq!(usual.ns(), None, "only two values are confirmed");
        learn(&mut usual, 4, &[400.0; COLLECTIONS_PER_GENERATION]);
        assert_eq!(usual.ns(), Some(20.0));
        usual.doubt();
        learn(&mut usual, 9, &[60.0, 20.0, 20.0, 20.0, 20.0]);
        learn(&mut usual, 12, &[35.0; COLLECTIONS_PER_GENERATION]);
        assert_eq!(usual.ns(), Some(20.0), "times with the tool are not learned");
        learn(&mut usual, 14, &[35.0]);
        assert_eq!(usual.ns(), Some(35.0));
        assert_eq!(beyond(2_100_000, 100_000, 20.0), 0);
        assert_eq!(beyond(40_000_000, 100_000, 20.0), 38_000_000);
        // The time is negligible with few handles, and bounded if the thread had no CPU for 50 ms.
        assert_eq!(beyond(100_000, 200, 20.0), 0);
        assert_eq!(beyond(50_000_000, 200, 20.0), 200_000);
    }
}
