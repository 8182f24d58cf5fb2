//! Types of checked rules: windows, templates, exceptions, groups, and the rules themselves.

use std::sync::Arc;

use super::expression::{Double, Expression};
use super::field::{Root, Scope};

mod function;
mod word;

pub use function::{ComparisonKey, Function};
pub use word::{Division, EvaluationTrigger, Evidence, HarmUnit, Role, Severity, Status};

/// The length of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Extent {
    /// A duration in nanoseconds.
    Over(u64),
    /// A number of samples.
    Last(u32),
}

/// A window over samples of one process. Equal windows of different rules are shared.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Window {
    pub function: Function,
    /// Sampled value, a number. `None` if only the number of samples matters (count, ratio, rate).
    pub of: Option<Expression>,
    /// Condition that selects samples. If the condition is unknown, the sample is unknown, see
    /// [`Window::unknown_share`].
    pub filter: Option<Expression>,
    /// Time of sampling: at each collection, suspension, or tick.
    pub sampled: Root,
    /// Length of the window.
    pub extent: Extent,
    /// Key that selects the samples that are comparable with the current collection. If a key is set, the current
    /// collection is not one of the samples.
    pub by: ComparisonKey,
    /// Minimum number of samples. With fewer samples, the value is unknown.
    pub min_samples: u32,
    /// Minimum time for which the process must have been observed, in nanoseconds. Until then, the value is unknown.
    pub min_watched_ns: u64,
    /// Maximum share of unknown samples. Above this share, the value is unknown.
    pub unknown_share: Double,
}

/// A text with values: `gen{{ gc.generation }} paused {{ gc.pause_ms | round(1) }} ms`.
#[derive(Debug, Clone, Default)]
pub struct Template {
    /// Parts of the template, in order.
    pub parts: Vec<TemplatePart>,
}

/// A part of a template.
#[derive(Debug, Clone)]
pub enum TemplatePart {
    /// Literal text.
    Text(Box<str>),
    /// A value and its format. An unknown value is rendered as `<na>`.
    Value(Expression, Form),
    /// A clause in `[[` and `]]`, which is omitted if one of its values is unknown or an empty string. Clauses cannot
    /// be nested.
    Clause(Vec<TemplatePart>),
}

/// The format of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// An integer as is, a double with three significant digits.
    Plain,
    /// Number with a fixed number of decimal places.
    Round(u8),
    /// Bytes, such as `1.5 GiB`.
    Bytes,
    /// A ratio, such as `12.5 %`.
    Percent,
    /// Milliseconds, such as `1.2 s` or `350 ms`.
    Milliseconds,
    /// Seconds, such as `2 min 5 s`.
    Seconds,
}

/// An exception of a rule.
#[derive(Debug, Clone)]
pub struct Exception {
    pub name: Arc<str>,
    /// Condition of the exception. While the condition is unknown, the exception does not apply.
    pub when: Expression,
    /// Time at which the exception expires, in Unix nanoseconds; `None` if it does not expire.
    pub until_unix_ns: Option<u64>,
}

impl Exception {
    /// Returns whether the exception has not expired at this time, in Unix nanoseconds.
    pub fn is_in_force(&self, unix_ns: u64) -> bool {
        self.until_unix_ns.is_none_or(|until| unix_ns < until)
    }
}

/// Rules for one kind of incident. If several of their conditions are true for a process, only the most severe rule
/// fires. Among equally severe rules, the rule that already fires has priority or, if no rule fires, the first rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    pub name: Arc<str>,
    /// Description in one sentence.
    pub title: Arc<str>,
    /// Groups whose alerts cause the alerts of this group, as indexes in the rule set.
    pub follows: Vec<usize>,
}

/// A parameter of a rule as written. The values are part of the expressions of the rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Param {
    pub name: Arc<str>,
    pub value: Arc<str>,
    /// Other values, each with the processes that it applies to. The first applicable value is used.
    pub others: Vec<(Arc<str>, Arc<str>)>,
}

/// The expressions of a rule as written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Texts {
    /// `select`; empty for all processes.
    pub select: Arc<str>,
    /// `when`.
    pub when: Arc<str>,
    /// `clear`; empty if the rule clears when `when` is false.
    pub clear: Arc<str>,
    /// `harm` of a symptom.
    pub harm: Arc<str>,
    /// `explains` of a cause.
    pub explains: Arc<str>,
    /// `lasting` of a symptom.
    pub lasting: Arc<str>,
    /// `worse`: severities and conditions.
    pub worse: Vec<(Arc<str>, Arc<str>)>,
    /// Windows: names, and keys with values.
    pub windows: Vec<(Arc<str>, Arc<str>)>,
}

/// A checked rule. The default rule is disabled and never fires.
#[derive(Debug, Clone, Default)]
pub struct Rule {
    /// Id, unique among all files, which identifies the state of the rule.
    pub id: Arc<str>,
    /// Title in a few words.
    pub title: Arc<str>,
    /// Meaning and causes of the finding.
    pub description: Arc<str>,
    /// Advice.
    pub remedy: Arc<str>,
    /// Source of the threshold.
    pub source: Arc<str>,
    /// Reliability of the rule.
    pub status: Status,
    /// Role of the rule; `None` if it has no role.
    pub role: Option<Role>,
    /// Ids of the symptoms that a cause explains.
    pub of: Vec<Arc<str>>,
    /// Size of the harm of a symptom, or of the part that a cause explains, in [`Self::unit`]; `None` if the rule does
    /// not state it.
    pub amount: Option<Expression>,
    /// Unit of [`Self::amount`]; `None` if the rule has no amount.
    pub unit: Option<HarmUnit>,
    /// Duration of the harm at the time when the rule fires, in seconds; `None` if the harm starts when the condition
    /// becomes true.
    pub lasting: Option<Expression>,
    /// Ids of the symptoms of which the symptoms explained by this cause are a consequence.
    pub consequence_of: Box<[Arc<str>]>,
    /// Minimum severity of the rule's alerts.
    pub severity: Severity,
    /// Time of evaluation.
    pub on: EvaluationTrigger,
    /// Condition that selects the processes that the rule applies to; `None` for all processes. While the condition is
    /// unknown, the rule does not apply.
    pub select: Option<Expression>,
    /// Services that must run on the host, for rules `on: service`. If the list is not empty, [`Self::select`] selects
    /// these services.
    pub expect: Vec<Arc<str>>,
    /// Division of the services that the rule applies to; `None` if services are not divided.
    pub by: Option<Division>,
    /// Condition of the rule.
    pub when: Expression,
    /// Conditions under which the alert is more severe, in ascending order of severity.
    pub worse: Vec<(Severity, Expression)>,
    /// Condition under which the alert clears; `None` if it clears when `when` is false.
    pub clear: Option<Expression>,
    /// Parameters, sorted by name.
    pub params: Vec<Param>,
    /// Expressions as written.
    pub texts: Texts,
    /// URL of a page that explains the rule; `None` if the rule has no page.
    pub runbook_url: Option<Arc<str>>,
    /// Windows of the rule: their names in the rule, and their indexes in the set.
    pub windows: Vec<(Arc<str>, usize)>,
    /// Time for which the condition must be true before the rule fires, in nanoseconds. 0 for rules `on: gc`.
    pub hold_ns: u64,
    /// Time for which the alert continues after the condition became false, or after the last occurrence, in
    /// nanoseconds.
    pub keep_firing_ns: u64,
    /// Time after the end of an alert in which the rule does not fire again, in nanoseconds. Suppressed alerts are
    /// counted.
    pub cooldown_ns: u64,
    /// Group of the rule, as an index in the rule set; `None` if the rule has no group.
    pub group: Option<usize>,
    /// Labels of the rule's alerts, in addition to the labels of all alerts.
    pub labels: Vec<(Arc<str>, Template)>,
    /// One sentence that states what happened.
    pub summary: Template,
    /// Annotations of the rule's alerts.
    pub annotations: Vec<(Arc<str>, Template)>,
    /// Exceptions of the rule.
    pub exceptions: Vec<Exception>,
    /// Evidence that is gathered for incidents of the rule.
    pub evidence: Vec<Evidence>,
    /// Whether the rule is evaluated. A disabled rule is only checked and listed.
    pub enabled: bool,
    /// File, line and column of the start of the rule: `rules/pauses.yaml:12:3`.
    pub location: Arc<str>,
    /// Hash of everything that the state depends on. If the hash is unchanged after a reload, the state is kept. 0 for
    /// a disabled rule.
    pub meaning: u64,
}

impl Rule {
    /// Returns whether alerts of the rule start incidents.
    pub fn is_harm(&self) -> bool {
        matches!(self.role, None | Some(Role::Symptom))
    }

    /// Returns the current value of [`Self::amount`] in [`Self::unit`], at least 0, or `None` if the rule has no amount
    /// or the amount is unknown.
    pub fn amount_now(&self, scope: &Scope<'_>) -> Option<f64> {
        let amount = self.amount.as_ref()?.number(scope)?.max(0.0);
        // The expression is a slope per hour.
        Some(if self.unit == Some(HarmUnit::BytesPerMinute) {
            amount / 60.0
        } else {
            amount
        })
    }

    /// Returns the severity of the alert with these values: the highest severity whose condition is true, or
    /// [`Self::severity`] if no condition is true. A condition that cannot be evaluated counts as false.
    pub fn severity_now(&self, scope: &Scope<'_>) -> Severity {
        let mut worse = self.worse.iter().rev();
        let holds = worse.find(|(_, condition)| condition.holds(scope) == Ok(Some(true)));
        holds.map_or(self.severity, |(severity, _)| *severity)
    }
}
