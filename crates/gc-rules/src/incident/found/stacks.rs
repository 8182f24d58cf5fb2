//! What the threads of a process did, for an incident.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{plural, seconds};

/// What every managed thread did while the process was watched. Unknown values are null.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FoundStacks {
    /// Why there was no burst; null: there was one.
    pub none_because: Option<String>,
    /// From when on it was watched, on the stream's clock.
    pub start_ns: Option<i64>,
    /// Until when.
    pub end_ns: Option<i64>,
    /// The same as a time, RFC 3339; null: there was no burst.
    pub at: Option<String>,
    /// Managed threads with a sample.
    pub threads: Option<u64>,
    /// Whether the finalizer thread is known, by the stream or by its name.
    pub knows_finalizer: bool,
    /// Equal stacks together: the finalizer thread's first, then those that ran managed code most, then those of most
    /// threads. At most
    /// [`MOST_FOUND`](super::MOST_FOUND) beside the finalizer thread's.
    pub stacks: Vec<FoundStack>,
}

/// Threads with one stack.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FoundStack {
    /// How many threads.
    pub threads: u64,
    /// The finalizer thread is among them; null: it is not known which that is.
    pub finalizer: Option<bool>,
    /// The nearest frame that is not of the framework.
    pub site: Option<String>,
    /// Readable names, innermost first; the innermost ones.
    pub frames: Vec<String>,
    /// Samples with this stack.
    pub samples: u64,
    /// Samples of these threads.
    pub all_samples: u64,
    /// Those of them in which a thread ran managed code: until it comes to a safe point, all others wait for it.
    pub managed_samples: u64,
}

impl FoundStacks {
    /// There was no burst.
    pub fn none(because: String) -> Self {
        Self {
            none_because: Some(because),
            ..Self::default()
        }
    }

    /// `finalizer thread: Shop.Connection.Finalize (in System.Threading.Thread.Sleep); 4 threads: ...; in 0.3 s`.
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
    /// Where the threads are: `Shop.Cache.Trim (in System.Threading.Monitor.Enter)`.
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

    /// Scenario: the finalizer thread sleeps in a finalizer of the program, two threads wait in the framework; a burst
    /// without samples; none.
    /// Guarantee: a clause says who is where, the finalizer thread by name, or why nothing is known.
    #[test]
    fn a_clause_says_where_threads_are() {
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
