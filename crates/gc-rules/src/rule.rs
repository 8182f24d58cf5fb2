//! Rules after the check.

use std::collections::HashMap;
use std::sync::Arc;

use super::expression::Expression;
use super::field::Root;
use super::plan::Plan;

mod function;
mod word;

pub use function::{By, Function};
pub use word::{On, Severity, Status};

/// How far a window reaches back. Windows are bounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Extent {
    /// This many nanoseconds.
    Over(u64),
    /// This many samples.
    Last(u32),
}

/// A window over what is sampled of one process. Windows with one meaning are one, whichever rules use them.
#[derive(Debug, Clone)]
pub struct Window {
    /// What it makes of its samples.
    pub function: Function,
    /// Which quantile, for [`Function::Quantile`]; else 0.
    pub q: f64,
    /// What is sampled: a number. `None`: that there is a sample (count, ratio, rate, streak).
    pub of: Option<Expression>,
    /// Which samples count. Unknown: it does not count, and the window has one of unknown worth; see [`Window::unknown_share`].
    pub filter: Option<Expression>,
    /// When it is sampled: at each collection, suspension, or tick.
    pub sampled: Root,
    /// How far it reaches back.
    pub extent: Extent,
    /// Which samples are alike. Not the sample of the present collection itself: it is compared with those before it.
    pub by: By,
    /// With fewer samples its value is unknown.
    pub min_samples: u32,
    /// Unless the process was watched for so long, its value is unknown, nanoseconds.
    pub min_watched_ns: u64,
    /// Where more than this share of samples is of unknown worth, the value is unknown.
    pub unknown_share: f64,
}

/// A text with fields in it: `gen{{ gc.generation }} paused {{ gc.pause_ms | round(1) }} ms`.
#[derive(Debug, Clone, Default)]
pub struct Template {
    /// Its parts, in order.
    pub parts: Vec<Part>,
}

/// A part of a template.
#[derive(Debug, Clone)]
pub enum Part {
    /// Text as it stands.
    Text(Box<str>),
    /// A value and how it is written; `<na>` where it is unknown.
    Value(Expression, Form),
}

/// How a value is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// A whole number as it is, a double with as many digits as say something.
    Plain,
    /// With so many digits after the point.
    Round(u8),
    /// Bytes, as `1.5 GiB`.
    Bytes,
    /// A share, as `12.5 %`.
    Percent,
    /// Milliseconds, as `1.2 s` or `350 ms`.
    Milliseconds,
    /// Seconds, as `2 min 5 s`.
    Seconds,
}

/// A reason to be silent, in data.
#[derive(Debug, Clone)]
pub struct Exception {
    /// Its name.
    pub name: Arc<str>,
    /// When it applies. Unknown: it does not.
    pub when: Expression,
    /// Until when, Unix nanoseconds; `None`: for ever.
    pub until_unix_ns: Option<u64>,
}

/// Rules that are one emergency: of those that fire on one process only the worst is told, and of equals the first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Its name.
    pub name: Arc<str>,
    /// What it is about, one sentence.
    pub title: Arc<str>,
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

/// A rule after the check.
#[derive(Debug, Clone)]
pub struct Rule {
    /// Unique over all files; what its state is kept by.
    pub id: Arc<str>,
    /// What it finds, a few words.
    pub title: Arc<str>,
    /// What it means, how it comes about.
    pub description: Arc<str>,
    /// What to do.
    pub remedy: Arc<str>,
    /// Where its threshold comes from.
    pub source: Arc<str>,
    /// How far it can be relied on.
    pub status: Status,
    /// How bad it is.
    pub severity: Severity,
    /// When it is evaluated.
    pub on: On,
    /// Which processes it is for; `None`: all. Unknown: not this one, for now.
    pub select: Option<Expression>,
    /// When it fires.
    pub when: Expression,
    /// When it clears; `None`: when `when` is false.
    pub clear: Option<Expression>,
    /// The windows it uses: their names in the rule, and their places in the set.
    pub windows: Vec<(Arc<str>, usize)>,
    /// How long the condition must hold before it fires, nanoseconds. 0 for rules `on: gc`.
    pub hold_ns: u64,
    /// How long it stays after the condition ended, or after the last occurrence, nanoseconds.
    pub keep_firing_ns: u64,
    /// How long after its end it does not fire again, nanoseconds; what is left out is counted.
    pub cooldown_ns: u64,
    /// The group that it belongs to, by place in the set.
    pub group: Option<usize>,
    /// Labels of its alerts, besides those that all have.
    pub labels: Vec<(Arc<str>, Template)>,
    /// One sentence that says what happened.
    pub summary: Template,
    /// Further texts.
    pub annotations: Vec<(Arc<str>, Template)>,
    /// When it is silent.
    pub exceptions: Vec<Exception>,
    /// Where its alerts go.
    pub emit: Emit,
    /// False: it is checked and listed, not evaluated.
    pub enabled: bool,
    /// File, line and column of its beginning: `rules/pauses.yaml:12:3`.
    pub location: Arc<str>,
    /// A digest of all that its state depends on; where it is the same after a reload, the state is kept.
    pub meaning: u64,
}

/// All rules after the check.
#[derive(Debug, Clone, Default)]
pub struct RuleSet {
    /// Rules, in the order of the files.
    pub rules: Vec<Arc<Rule>>,
    /// The windows that they use.
    pub windows: Vec<Window>,
    /// How the windows are fed.
    pub(crate) plan: Plan,
    /// Groups.
    pub groups: Vec<Group>,
}

impl RuleSet {
    /// The rule of that id.
    pub fn rule(&self, id: &str) -> Option<&Arc<Rule>> {
        self.rules.iter().find(|rule| &*rule.id == id)
    }

    /// Rules by id.
    pub fn by_id(&self) -> HashMap<&str, &Arc<Rule>> {
        self.rules.iter().map(|rule| (&*rule.id, rule)).collect()
    }
}
