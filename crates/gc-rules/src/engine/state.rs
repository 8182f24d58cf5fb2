//! What a rule says of a process now.

/// What a rule says of a process now; see the [module](super).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// The condition is false.
    Inactive,
    /// The condition holds, not for long enough.
    Pending,
    /// It is told.
    Firing,
    /// Another one of its group is told.
    Inhibited,
    /// It is not known whether the condition holds.
    Unknown,
    /// It is not for this process, or not enabled.
    NotSelected,
    /// The condition holds, and an exception applies.
    Excepted,
}

impl State {
    /// `inactive`, `pending`, `firing`, `inhibited`, `unknown`, `not_selected`, `excepted`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Inactive => "inactive",
            Self::Pending => "pending",
            Self::Firing => "firing",
            Self::Inhibited => "inhibited",
            Self::Unknown => "unknown",
            Self::NotSelected => "not_selected",
            Self::Excepted => "excepted",
        }
    }
}

/// The state of a rule for one process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleState {
    /// What it says.
    pub state: State,
    /// Since when, Unix nanoseconds.
    pub since: u64,
    /// Until when it does not fire again, Unix nanoseconds; `None`: it was never told, or the time is over.
    pub cooling_until: Option<u64>,
    /// Firings that the cooldown left out since the last alert.
    pub suppressed: u64,
    /// How often its condition was evaluated.
    pub evaluations: u64,
    /// How often that failed; samples of its windows are among them.
    pub failures: u64,
    /// Why the newest one failed.
    pub last_failure: Option<String>,
}

impl RuleState {
    /// That of a rule that is not enabled.
    pub(super) fn off(since: u64) -> Self {
        Self {
            state: State::NotSelected,
            since,
            cooling_until: None,
            suppressed: 0,
            evaluations: 0,
            failures: 0,
            last_failure: None,
        }
    }
}
