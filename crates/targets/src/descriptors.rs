//! How many file descriptors attached processes need.

use rustix::process::{Resource, getrlimit, setrlimit};

/// Of each attached process: its session, the copy for the guard, its lease, a command to it, and one to spare.
const PER_TARGET: u64 = 5;
/// Whatever the number of processes: receivers, the listener's connections, watches, looks, files that are read.
const FIXED: u64 = 256;

/// Descriptors that are needed and allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Descriptors {
    /// Needed when as many processes are attached as may be.
    pub needed: u64,
    /// What this process may raise its limit to; `None`: there is no limit.
    pub allowed: Option<u64>,
}

impl Descriptors {
    /// For so many processes, by this process's own limit.
    pub fn of(max_targets: usize) -> Self {
        Self {
            needed: needed(max_targets),
            allowed: getrlimit(Resource::Nofile).maximum,
        }
    }

    /// What is wrong, in a sentence, and what to do about it.
    pub fn problem(self, max_targets: usize) -> Option<(String, String)> {
        let Self { needed, allowed } = self;
        let allowed = allowed.filter(|allowed| *allowed < needed)?;
        let holds = allowed.saturating_sub(FIXED) / PER_TARGET;
        Some((
            format!(
                "{max_targets} processes (targets.max_targets) may need {needed} file descriptors, and the limit is \
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

/// Raises this process's limit to what it is allowed.
///
/// # Errors
///
/// The system's.
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

    /// Scenario: limits above, at and below what is needed, and none.
    /// Guarantee: only one that is too low is a problem; the sentence has both numbers, the remedy what fits.
    #[test]
    fn a_limit_that_is_too_low_is_said() {
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
