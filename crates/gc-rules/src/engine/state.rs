//! The state of a rule for a process.

use base::words;

use base::time::Moment;

words! {
    /// State of a rule for one process.
    #[derive(Default)]
    pub enum State {
        /// The condition is false.
        Inactive = "inactive",
        /// The condition holds, not yet for long enough.
        Pending = "pending",
        /// The alert fires.
        Firing = "firing",
        /// The alert would fire; another one of its group does.
        Inhibited = "inhibited",
        /// It is not known whether the condition holds.
        Unknown = "unknown",
        /// The rule is not for this process, or not enabled.
        #[default]
        NotSelected = "not_selected",
        /// The condition holds, and an exception applies.
        Excepted = "excepted",
    }
}

/// The state of a rule for one process; by default that of a rule that is not enabled.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RuleState {
    pub state: State,
    /// Since when.
    pub since: Moment,
    /// Until when it does not fire again; `None`: there is no cooldown.
    pub cooling_until: Option<Moment>,
    /// Alerts that the cooldown suppressed since the last alert.
    pub suppressed: u64,
    /// How often its condition was evaluated.
    pub evaluations: u64,
    /// How often that failed, including samples of its windows.
    pub failures: u64,
    /// Why the newest one failed.
    pub last_failure: Option<String>,
}
