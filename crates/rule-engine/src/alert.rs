//! Alerts and their transitions.

use std::sync::Arc;

use base::time::Moment;
use base::words;

use super::field::Scope;
use super::rule::{Rule, Severity};
use super::template::UNKNOWN;

/// An alert: a rule that fires for a process.
#[derive(Debug, Clone)]
pub struct Alert {
    pub rule: Arc<Rule>,
    /// Number of the alert, unique within the run of the process.
    pub number: u64,
    /// Start of the harm, in the time of observed events: the time at which the condition became true, or an earlier
    /// time according to the rule's [`lasting`](Rule::lasting).
    pub active: Moment,
    /// Time at which the alert started to fire.
    pub started: Moment,
    /// Time of the newest occurrence, or time at which the condition was last true.
    pub last: Moment,
    /// Time at which the alert ended; `None` while it fires.
    pub ended: Option<Moment>,
    /// Labels of the rule, rendered when the alert started.
    pub labels: Arc<[(Arc<str>, Box<str>)]>,
    /// One sentence that states what happened, with the figures of the newest rendering. The section "Texts" of
    /// [`engine`](crate::engine) states the times of renderings.
    pub summary: Arc<str>,
    /// Annotations of the rule.
    pub annotations: Arc<[(Arc<str>, Box<str>)]>,
    /// Names and values of the rule's windows at the newest rendering; `None` if a value is unknown.
    pub values: Arc<[(Arc<str>, Option<f64>)]>,
    /// Number of the collection on which the alert started to fire; `None` if the alert did not start at a collection.
    pub collection: Option<u32>,
    /// Number of occurrences of a rule `on: gc`; 1 for other rules.
    pub count: u64,
    /// Number of alerts that the cooldown suppressed before this alert.
    pub suppressed: u64,
    /// Maximum value of the summary's main figure; `None` if the summary has no such figure, or if it is unknown.
    pub peak: Option<f64>,
    /// Size of the harm or of the explained part, in the rule's unit, from the newest rendering with a known value;
    /// `None` if the value was never known.
    pub amount: Option<f64>,
    /// Highest severity so far.
    pub severity: Severity,
}

impl Alert {
    /// Creates the alert of a rule whose condition is true since `active`. `collection` is the number of the collection
    /// on which the condition is true.
    pub(crate) fn new(rule: &Arc<Rule>, scope: &Scope<'_>, active: Moment, collection: Option<u32>) -> Self {
        let labels = rule.labels.iter();
        let labels = labels.map(|(name, text)| (Arc::clone(name), text.render_label(scope).into()));
        let lasted = rule.lasting.as_ref().and_then(|lasting| lasting.number(scope));
        let lasted_ns = lasted.map_or(0, |seconds| (seconds.max(0.0) * 1e9) as u64);
        let active = active.min(scope.now.before(lasted_ns));
        let mut alert = Self {
            rule: Arc::clone(rule),
            number: 0,
            active,
            started: active,
            last: active,
            ended: None,
            labels: labels.collect(),
            summary: Arc::default(),
            annotations: Arc::default(),
            values: Arc::default(),
            collection,
            count: 1,
            suppressed: 0,
            peak: rule.summary.figure(scope),
            amount: None,
            severity: rule.severity_now(scope),
        };
        alert.render(rule, scope);
        alert
    }

    /// Updates texts and values from the current scope. Labels identify the alert and do not change.
    pub(crate) fn render(&mut self, rule: &Rule, scope: &Scope<'_>) {
        let annotations = rule.annotations.iter();
        let annotations = annotations.map(|(name, text)| (Arc::clone(name), text.render(scope).into()));
        let values = rule.windows.iter();
        let values = values.map(|(name, place)| (Arc::clone(name), scope.window(*place)));
        let summary = rule.summary.render(scope);
        // If a figure is unknown now, the last known text is more useful.
        if self.summary.is_empty() || !summary.contains(UNKNOWN) || self.summary.contains(UNKNOWN) {
            self.summary = summary.into();
        }
        self.amount = rule.amount_now(scope).or(self.amount);
        self.annotations = annotations.collect();
        self.values = values.collect();
    }
}

words! {
    /// The reason why an alert ended.
    pub enum Ending {
        /// The condition became false, the `clear` condition became true, or no occurrence followed within
        /// `keep_firing_for`.
        Cleared = "cleared",
        /// A more severe alert of the same group fires instead.
        Superseded = "superseded",
        /// The condition was unknown for too long.
        Unknown = "unknown",
        /// The process has exited.
        ProcessEnded = "process-ended",
        /// The rule was removed or changed, or an exception now applies.
        RuleChanged = "rule-changed",
    }
}

/// A change of an alert.
#[derive(Debug, Clone)]
pub enum Transition {
    /// An alert started to fire.
    Fired(Arc<Alert>),
    Ended(Arc<Alert>, Ending),
}

impl Transition {
    pub fn alert(&self) -> &Arc<Alert> {
        match self {
            Self::Fired(alert) | Self::Ended(alert, _) => alert,
        }
    }
}

/// A rule whose condition is true.
#[derive(Debug, Clone)]
pub struct HoldingRule {
    /// Current state of the alert.
    pub alert: Arc<Alert>,
    /// Whether the alert fires. If `false`, another rule of its group fires instead.
    pub firing: bool,
}

/// The result of the rules for one collection.
#[derive(Debug, Clone, Default)]
pub struct CollectionVerdict {
    /// Rules `on: gc` whose condition is true for this collection and to which no exception applies, including rules
    /// that already fire or are inhibited. The collection is an anomaly if at least one rule matched.
    pub matched: Vec<Arc<Rule>>,
    /// Changes of alerts.
    pub transitions: Vec<Transition>,
}
