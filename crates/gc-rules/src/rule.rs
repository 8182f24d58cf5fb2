//! Checked rules.

use std::sync::Arc;

use super::expression::{Double, Expression};
use super::field::{Root, Scope};

mod function;
mod word;

pub use function::{By, Function};
pub use word::{Division, Evidence, HarmUnit, On, Role, Severity, Status};

/// The length of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Extent {
    /// This many nanoseconds.
    Over(u64),
    /// This many samples.
    Last(u32),
}

/// A window over what is sampled of one process. Windows that are equal are one, whichever rules use them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Window {
    pub function: Function,
    /// What is sampled: a number. `None`: only that there is a sample (count, ratio, rate).
    pub of: Option<Expression>,
    /// Which samples count. Unknown: the sample is unknown, see [`Window::unknown_share`].
    pub filter: Option<Expression>,
    /// When it is sampled: at each collection, suspension, or tick.
    pub sampled: Root,
    /// Its length.
    pub extent: Extent,
    /// Which samples are comparable with the current collection, which is not among them.
    pub by: By,
    /// With fewer samples, its value is unknown.
    pub min_samples: u32,
    /// Until the process was watched for this time, its value is unknown, nanoseconds.
    pub min_watched_ns: u64,
    /// With a higher ratio of unknown samples, its value is unknown.
    pub unknown_share: Double,
}

/// A string with values in it: `gen{{ gc.generation }} paused {{ gc.pause_ms | round(1) }} ms`.
#[derive(Debug, Clone, Default)]
pub struct Template {
    /// Its parts, in order.
    pub parts: Vec<TemplatePart>,
}

/// A part of a template.
#[derive(Debug, Clone)]
pub enum TemplatePart {
    /// Literal text.
    Text(Box<str>),
    /// A value and its format; `<na>` if it is unknown.
    Value(Expression, Form),
    /// A clause in `[[` and `]]`: left out when a value in it is unknown or an empty string. It has no clause in it.
    Clause(Vec<TemplatePart>),
}

/// The format of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// An integer as it is, a double with three significant digits.
    Plain,
    /// With this number of decimal places.
    Round(u8),
    /// Bytes, as `1.5 GiB`.
    Bytes,
    /// A ratio, as `12.5 %`.
    Percent,
    /// Milliseconds, as `1.2 s` or `350 ms`.
    Milliseconds,
    /// Seconds, as `2 min 5 s`.
    Seconds,
}

/// An exception of a rule.
#[derive(Debug, Clone)]
pub struct Exception {
    pub name: Arc<str>,
    /// When it applies. Unknown: it does not.
    pub when: Expression,
    /// When it expires, Unix nanoseconds; `None`: never.
    pub until_unix_ns: Option<u64>,
}

impl Exception {
    /// Whether it can apply at that time, Unix nanoseconds: it has not expired.
    pub fn is_in_force(&self, unix_ns: u64) -> bool {
        self.until_unix_ns.is_none_or(|until| unix_ns < until)
    }
}

/// Rules for one kind of incident: of those that hold for a process, only the most severe fires, and of equals the
/// first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    pub name: Arc<str>,
    /// Its description, one sentence.
    pub title: Arc<str>,
    /// Groups whose consequences its alerts are, by place in the set.
    pub follows: Vec<usize>,
}

/// Where alerts of a rule go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Emit {
    /// A log record.
    pub log: bool,
    /// An event on the collection's span, and its error status from `error` on.
    pub span: bool,
    /// The counters and the state, as metrics.
    pub metric: bool,
    /// Alertmanager, webhooks.
    pub notify: bool,
}

impl Default for Emit {
    fn default() -> Self {
        Self {
            log: true,
            span: true,
            metric: true,
            notify: true,
        }
    }
}

/// A parameter of a rule, as it is written. Its values are in the expressions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Param {
    pub name: Arc<str>,
    pub value: Arc<str>,
    /// Other values, each with the processes that it is for; the first that applies is used.
    pub others: Vec<(Arc<str>, Arc<str>)>,
}

/// The expressions of a rule as they are written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Texts {
    /// `select`; empty: all processes.
    pub select: Arc<str>,
    /// `when`.
    pub when: Arc<str>,
    /// `clear`; empty: when `when` is false.
    pub clear: Arc<str>,
    /// `harm`, of a symptom.
    pub harm: Arc<str>,
    /// `explains`, of a cause.
    pub explains: Arc<str>,
    /// `lasting`, of a symptom.
    pub lasting: Arc<str>,
    /// `worse`: severity and condition.
    pub worse: Vec<(Arc<str>, Arc<str>)>,
    /// Windows: name, and keys with values.
    pub windows: Vec<(Arc<str>, Arc<str>)>,
}

/// A checked rule. By default it is not enabled, and never fires.
#[derive(Debug, Clone, Default)]
pub struct Rule {
    /// Id, unique in all files; identifies its state.
    pub id: Arc<str>,
    /// What it finds, in a few words.
    pub title: Arc<str>,
    /// What it means, and its causes.
    pub description: Arc<str>,
    /// What to do.
    pub remedy: Arc<str>,
    /// The source of its threshold.
    pub source: Arc<str>,
    /// How reliable it is.
    pub status: Status,
    /// What it is for; `None`: it has no role.
    pub role: Option<Role>,
    /// The symptoms that a cause explains, by id.
    pub of: Vec<Arc<str>>,
    /// How large the harm of a symptom is, or how much of it a cause explains, in [`Self::unit`]; `None`: it says nothing.
    pub amount: Option<Expression>,
    /// The unit of [`Self::amount`].
    pub unit: Option<HarmUnit>,
    /// How long the harm has lasted when the rule fires, seconds; `None`: since the condition holds.
    pub lasting: Option<Expression>,
    /// The symptoms, by id, of which those that this cause explains are a consequence.
    pub consequence_of: Box<[Arc<str>]>,
    /// Severity of its alerts, at least.
    pub severity: Severity,
    /// When it is evaluated.
    pub on: On,
    /// The processes that it is for; `None`: all. Unknown: not this one, for now.
    pub select: Option<Expression>,
    /// The services that must run on the host, for rules `on: service`; `select` is theirs then.
    pub expect: Vec<Arc<str>>,
    /// What the services that it is for are divided by; `None`: it is for services as a whole.
    pub by: Option<Division>,
    /// When it fires.
    pub when: Expression,
    /// Conditions under which its alert is more severe, in ascending order of the severity.
    pub worse: Vec<(Severity, Expression)>,
    /// When it clears; `None`: when `when` is false.
    pub clear: Option<Expression>,
    /// Its parameters, in the order of their names.
    pub params: Vec<Param>,
    /// Its expressions as they are written.
    pub texts: Texts,
    /// The page with its explanation.
    pub runbook_url: Option<Arc<str>>,
    /// The windows it uses: their names in the rule, and their places in the set.
    pub windows: Vec<(Arc<str>, usize)>,
    /// How long the condition must hold before it fires, nanoseconds. 0 for rules `on: gc`.
    pub hold_ns: u64,
    /// How long the alert continues after the condition ended, or after the last occurrence, nanoseconds.
    pub keep_firing_ns: u64,
    /// How long after its end it does not fire again, nanoseconds; suppressed alerts are counted.
    pub cooldown_ns: u64,
    /// Its group, by place in the set.
    pub group: Option<usize>,
    /// Labels of its alerts, in addition to those of all alerts.
    pub labels: Vec<(Arc<str>, Template)>,
    /// What happened, one sentence.
    pub summary: Template,
    /// Annotations of its alerts.
    pub annotations: Vec<(Arc<str>, Template)>,
    /// When it does not fire.
    pub exceptions: Vec<Exception>,
    /// Where its alerts go.
    pub emit: Emit,
    /// What is gathered for its incidents.
    pub evidence: Vec<Evidence>,
    /// If false, it is checked and listed, not evaluated.
    pub enabled: bool,
    /// File, line and column of its beginning: `rules/pauses.yaml:12:3`.
    pub location: Arc<str>,
    /// A digest of all that its state depends on; where it is the same after a reload, the state is kept. 0 where it is
    /// not enabled.
    pub meaning: u64,
}

impl Rule {
    /// Whether its alerts begin incidents.
    pub fn is_harm(&self) -> bool {
        matches!(self.role, None | Some(Role::Symptom))
    }

    /// The value of [`Self::amount`] now, in its unit; `None`: unknown.
    pub fn amount_now(&self, scope: &Scope<'_>) -> Option<f64> {
        let amount = self.amount.as_ref()?.number(scope)?.max(0.0);
        // Slopes are per hour.
        Some(if self.unit == Some(HarmUnit::BytesPerMinute) {
            amount / 60.0
        } else {
            amount
        })
    }

    /// The severity of its alert with these values: the highest whose condition holds. An evaluation that fails does not
    /// hold.
    pub fn severity_now(&self, scope: &Scope<'_>) -> Severity {
        let mut worse = self.worse.iter().rev();
        let holds = worse.find(|(_, condition)| condition.holds(scope) == Ok(Some(true)));
        holds.map_or(self.severity, |(severity, _)| *severity)
    }
}
