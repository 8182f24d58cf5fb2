//! State of a rule for a process.

use base::words;

use base::time::Moment;

words! {
    /// State of a rule for one process.
    #[derive(Default)]
    pub enum State {
        /// The condition is false.
        Inactive = "inactive",
        /// The condition is true, but not yet for long enough.
        Pending = "pending",
        /// The alert fires.
        Firing = "firing",
        /// The alert would fire, but another rule of the group fires.
        Inhibited = "inhibited",
        /// The condition is unknown.
        Unknown = "unknown",
        /// The rule does not apply to this process, or is disabled.
        #[default]
        NotSelected = "not_selected",
        /// The condition is true, but an exception applies.
        Excepted = "excepted",
    }
}

/// [`State`] of a rule for one process, with its cooldown and its counters. The default is the state of a disabled
/// rule.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RuleState {
    pub state: State,
    /// Time since which the rule is in this state.
    pub since: Moment,
    /// End of the cooldown, during which the rule does not fire again; `None` if there is no cooldown.
    pub cooling_until: Option<Moment>,
    /// Number of alerts that the cooldown suppressed since the last alert.
    pub suppressed: u64,
    /// Number of evaluations of the condition.
    pub evaluations: u64,
    /// Number of failed evaluations of the condition and of samples of the rule's windows.
    pub failures: u64,
    /// Reason for the newest failure; `None` if no evaluation failed.
    pub last_failure: Option<String>,
}
