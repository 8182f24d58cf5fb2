//! What a session of another tool lengthens.
//!
//! A session that asks for GC events at the level Verbose gets one for each pinned object that a collection finds,
//! while the threads are stopped: with 100,000 pinned handles pauses of 3 ms become 40 to 50 ms. Ours does not get
//! these events, but it sees what they take: GC handles are looked through for so much longer. What a handle takes else
//! is learned of the same process, while no other tool is connected. What it takes beyond that while one is connected,
//! or its session is not over for the runtime, is the session's.
//!
//! So a session that lengthens nothing, as one of counters, has a part of 0, and where the usual time is not known (the
//! tool was there first) nothing is said. What stacks of events cost, and a sampling profiler, is not recognized.

use clr_gc::gc::{Collection, Pause, PauseKind};

/// Fewer handles say nothing of one.
const LEAST_HANDLES: u32 = 100;
/// Collections that are remembered of each generation, and how many are needed.
const KEPT: usize = 9;
const LEAST_KEPT: usize = 3;
/// From so many times the usual on, and so much, it is the session's.
const TIMES: f64 = 2.0;
const LEAST_NS: f64 = 200_000.0;
/// What an event for a pinned object takes at most (measured: 400): more is a thread that had no CPU.
const MOST_NS: f64 = 1_000.0;

/// What looking through a handle takes in one process, by generation.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ToolCost {
    usual: [Usual; 3],
}

/// What is learned of the collections without another tool. A tool is seen some seconds after it came, so that a
/// collection is without one only when a look that began after it found nobody: then a second look was over.
#[derive(Debug, Clone, Copy, Default)]
struct Usual {
    /// Looks that had found nobody when `newer` began.
    looks: u64,
    /// Since the newest look, and between the two before: what a tool that comes to light makes void.
    newer: Newest,
    older: Newest,
    known: Newest,
}

/// Nanoseconds for each handle in the newest collections.
#[derive(Debug, Clone, Copy, Default)]
struct Newest {
    ns: [f32; KEPT],
    /// How many were put in.
    count: usize,
}

impl Newest {
    fn put(&mut self, ns: f32) {
        if let Some(place) = self.ns.get_mut(self.count % KEPT) {
            *place = ns;
        }
        self.count = self.count.wrapping_add(1);
    }

    fn all(&self) -> &[f32] {
        self.ns.get(..self.count.min(KEPT)).unwrap_or_default()
    }
}

impl Usual {
    /// Without another tool a handle took so long, when so many looks had found nobody.
    fn learn(&mut self, ns: f32, looks: u64) {
        for _ in 0..looks.saturating_sub(self.looks).min(2) {
            let sure = std::mem::replace(&mut self.older, std::mem::take(&mut self.newer));
            sure.all().iter().for_each(|ns| self.known.put(*ns));
        }
        self.looks = looks;
        self.newer.put(ns);
    }

    /// Another tool is there, and may have been before it was seen.
    fn doubt(&mut self) {
        (self.newer, self.older) = (Newest::default(), Newest::default());
    }

    /// The lower quartile: a thread that had no CPU took longer, and none takes less.
    fn ns(&self) -> Option<f32> {
        let mut known = self.known.ns;
        let known = known.get_mut(..self.known.all().len())?;
        known.sort_by(f32::total_cmp);
        known
            .get(known.len() / 4)
            .copied()
            .filter(|_| known.len() >= LEAST_KEPT)
    }
}

impl ToolCost {
    /// Puts into the accounts of a collection's stops what a session of another tool lengthened, where that is known.
    /// `looks`: so many found no other tool so far.
    pub(crate) fn judge(&mut self, collection: &mut Collection, looks: u64) {
        if collection.observed_by_others != Some(false) {
            self.usual.iter_mut().for_each(Usual::doubt);
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

/// How long so many handles were looked through in a stop.
fn scan(pause: &Pause, handles: Option<u32>) -> Option<(i64, u32)> {
    let handles = handles.filter(|handles| *handles >= LEAST_HANDLES)?;
    let ns = pause.handles_ns.filter(|_| pause.kind == PauseKind::Blocking)?;
    Some((ns, handles))
}

/// What looking through so many handles took beyond the usual, if that is much.
fn beyond(ns: i64, handles: u32, usual: f64) -> i64 {
    let expected = usual * f64::from(handles);
    let took = ns as f64;
    if took > TIMES * expected + LEAST_NS {
        (took - expected).min(MOST_NS * f64::from(handles)) as i64
    } else {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: a process whose 100,000 handles take 20 ns each, now and then 60 as the thread had no CPU; a Verbose
    /// session comes, with which they take 400, and is seen only after nine collections; later they take 35.
    /// Guarantee: what is beyond the usual is the session's, what is not is nobody's; before two more looks at three
    /// collections nothing is said, and what the session took before it was seen is not the usual.
    #[test]
    fn what_is_beyond_the_usual_is_the_sessions() {
        let mut usual = Usual::default();
        let learn = |usual: &mut Usual, looks, all: &[f32]| all.iter().for_each(|ns| usual.learn(*ns, looks));
        learn(&mut usual, 1, &[20.0, 60.0]);
        learn(&mut usual, 2, &[20.0]);
        learn(&mut usual, 3, &[60.0]);
        assert_eq!(usual.ns(), None, "two are sure");
        learn(&mut usual, 4, &[400.0; KEPT]);
        assert_eq!(usual.ns(), Some(20.0));
        usual.doubt();
        learn(&mut usual, 9, &[60.0, 20.0, 20.0, 20.0, 20.0]);
        learn(&mut usual, 12, &[35.0; KEPT]);
        assert_eq!(usual.ns(), Some(20.0), "of the tool that came nothing was learned");
        learn(&mut usual, 14, &[35.0]);
        assert_eq!(usual.ns(), Some(35.0));
        assert_eq!(beyond(2_100_000, 100_000, 20.0), 0);
        assert_eq!(beyond(40_000_000, 100_000, 20.0), 38_000_000);
        // A few handles: less than anybody notices; and a thread that had no CPU for 50 ms.
        assert_eq!(beyond(100_000, 200, 20.0), 0);
        assert_eq!(beyond(50_000_000, 200, 20.0), 200_000);
    }
}
