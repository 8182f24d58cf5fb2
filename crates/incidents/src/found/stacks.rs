//! Activity of the threads of a process, for an incident.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{plural, seconds};

/// Activity of all managed threads during a burst. Unknown values are null.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FoundStacks {
    /// Reason why there was no burst; null if there was one.
    pub none_because: Option<String>,
    /// Start of the burst on the stream's clock, in nanoseconds.
    pub start_ns: Option<i64>,
    /// End of the burst on the stream's clock, in nanoseconds.
    pub end_ns: Option<i64>,
    /// End of the burst as RFC 3339; null if there was no burst.
    pub at: Option<String>,
    /// Number of managed threads with a sample.
    pub threads: Option<u64>,
    /// Whether the finalizer thread is known, from the stream or by its name.
    pub knows_finalizer: bool,
    /// Groups of equal stacks: first the stack of the finalizer thread, then the stacks that ran managed code most,
    /// then the stacks of the most threads. At most [`MAX_FOUND`](super::MAX_FOUND) in addition to the stack of the
    /// finalizer thread.
    pub stacks: Vec<FoundStack>,
}

/// Threads with the same stack.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FoundStack {
    /// Number of threads.
    pub threads: u64,
    /// Whether the finalizer thread is one of these threads; null if the finalizer thread is unknown.
    pub finalizer: Option<bool>,
    /// Nearest frame outside the framework; null if there is no such frame.
    pub site: Option<String>,
    /// Readable names of the innermost frames, innermost first.
    pub frames: Vec<String>,
    /// Number of samples with this stack.
    pub samples: u64,
    /// Number of samples of these threads.
    pub all_samples: u64,
    /// Number of samples in which a thread ran managed code. In a stop, all other threads wait until such a thread
    /// reaches a safe point.
    pub managed_samples: u64,
}

impl FoundStacks {
    /// Creates the result if there was no burst, from the reason.
    pub fn none(because: String) -> Self {
        Self {
            none_because: Some(because),
            ..Self::default()
        }
    }

    /// Returns `finalizer thread: Shop.Connection.Finalize (in System.Threading.Thread.Sleep); 4 threads: ...; in 0.3
    /// s`.
    pub fn clause(&self) -> String {
        if let Some(because) = &self.none_because {
            return format!("not asked: {because}");
        }
        let time = seconds(self.start_ns, self.end_ns);
        if self.stacks.is_empty() {
            return format!("no thread had a sample{time}");
        }
        let stacks = self.stacks.iter().map(|stack| {
            let who = match stack.finalizer {
                Some(true) if stack.threads == 1 => "finalizer thread".to_owned(),
                Some(true) => format!("finalizer thread and {}", plural(stack.threads - 1, "other")),
                _ => plural(stack.threads, "thread"),
            };
            format!("{who}: {}", stack.place())
        });
        format!("{}{time}", stacks.collect::<Vec<_>>().join("; "))
    }
}

impl FoundStack {
    /// Returns the location of the threads: `Shop.Cache.Trim (in System.Threading.Monitor.Enter)`.
    pub fn place(&self) -> String {
        match (&self.site, self.frames.first()) {
            (Some(site), Some(frame)) if site != frame => format!("{site} (in {frame})"),
            (Some(site), _) => site.clone(),
            (None, Some(frame)) => frame.clone(),
            (None, None) => "[no frame]".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: the finalizer thread sleeps in a finalizer of the program, and two threads wait in the framework;
    /// another burst has no samples; another does not run.
    /// Guarantee: the clause states the location of each thread and names the finalizer thread, or states the reason
    /// why there are no findings.
    #[test]
    fn clause_names_location_of_threads() {
        let stack = |threads, finalizer, site: Option<&str>, frames: &[&str]| FoundStack {
            threads,
            finalizer: Some(finalizer),
            site: site.map(str::to_owned),
            frames: frames.iter().map(|&frame| frame.to_owned()).collect(),
            ..FoundStack::default()
        };
        let mut found = FoundStacks {
            start_ns: Some(0),
            end_ns: Some(300_000_000),
            stacks: vec![
                stack(
                    1,
                    true,
                    Some("Shop.Handle.Finalize"),
                    &["Thread.Sleep", "Shop.Handle.Finalize"],
                ),
                stack(2, false, None, &["Monitor.Wait"]),
            ],
            ..FoundStacks::default()
        };
        assert_eq!(
            found.clause(),
            "finalizer thread: Shop.Handle.Finalize (in Thread.Sleep); 2 threads: Monitor.Wait in 0.3 s"
        );
        found.stacks.clear();
        assert_eq!(found.clause(), "no thread had a sample in 0.3 s");
        assert_eq!(FoundStacks::none("busy".to_owned()).clause(), "not asked: busy");
    }
}
