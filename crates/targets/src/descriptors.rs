//! Number of file descriptors needed for attached processes.

use rustix::process::{Resource, getrlimit, setrlimit};

/// Descriptors per attached process: session, copy for the guard, lease, a command to the process, and one spare.
const PER_TARGET: u64 = 5;
/// Descriptors independent of the number of processes: receivers, connections of the listener, watches, scans, files
/// that are read.
const FIXED: u64 = 256;

/// Needed and allowed file descriptors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Descriptors {
    /// Number needed when the maximum number of processes is attached.
    pub needed: u64,
    /// Maximum to which this process can raise its limit; `None` if there is no limit.
    pub allowed: Option<u64>,
}

impl Descriptors {
    /// Returns the descriptors for this number of processes, with the limit of this process.
    pub fn for_targets(max_targets: usize) -> Self {
        Self {
            needed: needed(max_targets),
            allowed: getrlimit(Resource::Nofile).maximum,
        }
    }

    /// Returns the problem, as a sentence, and its remedy, or `None` if the limit is sufficient.
    pub fn problem(self, max_targets: usize) -> Option<(String, String)> {
        let Self { needed, allowed } = self;
        let allowed = allowed.filter(|allowed| *allowed < needed)?;
        let holds = allowed.saturating_sub(FIXED) / PER_TARGET;
        Some((
            format!(
                "{max_targets} processes (targets.max_targets) can need {needed} file descriptors, but the limit is \
                 {allowed}"
            ),
            format!(
                "allow {needed} file descriptors (systemd: LimitNOFILE={needed}; containers: the runtime's limit, \
                 ulimit -Hn), or set targets.max_targets to {holds}"
            ),
        ))
    }
}

fn needed(max_targets: usize) -> u64 {
    let targets = u64::try_from(max_targets).unwrap_or(u64::MAX);
    targets.saturating_mul(PER_TARGET).saturating_add(FIXED)
}

/// Raises this process's limit to the allowed maximum.
///
/// # Errors
///
/// Returns the error of the system call.
pub fn raise() -> std::io::Result<()> {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        limit.current = limit.maximum;
        setrlimit(Resource::Nofile, limit)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: limits are above, equal to and below the needed number, or absent.
    /// Guarantee: only a limit that is too low is a problem; the sentence contains both numbers, and the remedy
    /// contains the needed limit and the number of processes that fits.
    #[test]
    fn low_limit_is_reported() {
        let problem = |allowed| {
            let descriptors = Descriptors {
                needed: needed(1000),
                allowed,
            };
            descriptors.problem(1000)
        };
        assert_eq!(problem(None), None);
        assert_eq!(problem(Some(5256)), None);
        let (detail, remedy) = problem(Some(1024)).unwrap();
        assert!(detail.contains("5256") && detail.contains("1024"), "{detail}");
        assert!(
            remedy.contains("LimitNOFILE=5256") && remedy.ends_with("to 153"),
            "{remedy}"
        );
        assert_eq!(needed(usize::MAX), u64::MAX);
    }
}
