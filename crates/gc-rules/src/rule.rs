//! Rules after the check.

use std::collections::HashMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::mem::discriminant;
use std::sync::Arc;

use super::expression::Expression;
use super::field::{Field, Root};
use super::plan::Plan;

/// How bad it is. The order is that of badness.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Worth knowing; nothing has to be done.
    Info,
    /// Somebody should look at it in working hours.
    Warning,
    /// Something does not work as it should.
    Error,
    /// Somebody has to act now.
    Critical,
}

impl Severity {
    /// All, the least first.
    pub const ALL: [Self; 4] = [Self::Info, Self::Warning, Self::Error, Self::Critical];

    /// `info`, `warning`, `error`, `critical`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Error => "error",
            Self::Critical => "critical",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How far a rule can be relied on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// It is right; its threshold is proven.
    Stable,
    /// It is believed to be right.
    Test,
    /// Its threshold is a first value.
    Experimental,
    /// It goes away; its text says what instead.
    Deprecated,
}

impl Status {
    /// `stable`, `test`, `experimental`, `deprecated`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stable => "stable",
            Self::Test => "test",
            Self::Experimental => "experimental",
            Self::Deprecated => "deprecated",
        }
    }
}

/// When a rule's condition is evaluated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum On {
    /// At each collection, on it. Every match is an occurrence; the alert ends `keep_firing_for` after the last one.
    Gc,
    /// On the process: at each collection, at each tick, and when more is known of it. The alert is there while the condition holds.
    Process,
}

impl On {
    /// `gc`, `process`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gc => "gc",
            Self::Process => "process",
        }
    }
}

/// What a window makes of its samples. The result is a double.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Function {
    /// How many samples (for which `where` holds).
    Count,
    /// Samples for which `where` holds, of all samples.
    Ratio,
    /// Samples per second of the window.
    Rate,
    /// Their sum.
    Sum,
    /// Their sum in nanoseconds, of the window's length: the share of time. `of` is a field in `ns`.
    Share,
    /// The smallest.
    Min,
    /// The largest.
    Max,
    /// The mean.
    Mean,
    /// The quantile `q`, by linear interpolation.
    Quantile(f64),
    /// The median.
    Median,
    /// The median of the distances from the median.
    Mad,
    /// The slope of the line that fits best, per hour.
    Slope,
    /// The same as a share of the mean, per hour.
    RelativeSlope,
    /// How well that line fits: 0 to 1.
    R2,
    /// The newest less the oldest.
    Change,
    /// The newest less the oldest, as a share of the oldest.
    RelativeChange,
    /// The newest sample.
    Newest,
    /// How many samples, up to the newest, in a row (for which `where` holds).
    Streak,
    /// How many samples, up to the newest, each larger than the one before.
    Rises,
    /// How often the samples turned from rising to falling or back.
    Turns,
}

/// How far a window reaches back. Windows are bounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Extent {
    /// This many nanoseconds.
    Over(u64),
    /// This many samples.
    Last(u32),
}

/// What tells the samples of a window apart: only those that are like the present collection count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum By {
    /// All are alike.
    Nothing,
    /// The collection's generation, and whether it was blocking.
    GenerationAndType,
}

/// A window over what is sampled of one process. Windows that are equal are one, whichever rules use them.
#[derive(Debug, Clone)]
pub struct Window {
    /// What it makes of its samples.
    pub function: Function,
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

impl Window {
    /// All that makes it what it is.
    fn identity(&self) -> impl Hash + Eq + '_ {
        let Self {
            function,
            of,
            filter,
            sampled,
            extent,
            by,
            min_samples,
            min_watched_ns,
            unknown_share,
        } = self;
        let q = match function {
            Function::Quantile(q) => q.to_bits(),
            _ => 0,
        };
        let samples = (of, filter, sampled, extent, by);
        let bounds = (min_samples, min_watched_ns, unknown_share.to_bits());
        (discriminant(function), q, samples, bounds)
    }
}

impl PartialEq for Window {
    fn eq(&self, other: &Self) -> bool {
        self.identity() == other.identity()
    }
}

impl Eq for Window {}

impl Hash for Window {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.identity().hash(state);
    }
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
    /// A digest of all that its state depends on; where it is the same after a reload, the state is kept. 0 where it is not enabled.
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

/// The fields by which [`By::GenerationAndType`] tells collections apart.
pub const ALIKE: [&str; 2] = ["gc.generation", "gc.blocking"];

impl By {
    /// The fields.
    pub fn fields(self) -> impl Iterator<Item = &'static Field> {
        let names: &[&str] = match self {
            Self::Nothing => &[],
            Self::GenerationAndType => &ALIKE,
        };
        names.iter().filter_map(|name| Field::of(name))
    }
}
