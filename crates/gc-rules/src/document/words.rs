//! The words of a rule.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::rule::{By, Emit, On, Severity, Status};

/// How far a rule can be relied on.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum StatusWord {
    /// It is right; its threshold is proven.
    Stable,
    /// It is believed to be right.
    Test,
    /// Its threshold is a first value.
    Experimental,
    /// It goes away; its description says what comes instead.
    Deprecated,
}

impl From<StatusWord> for Status {
    fn from(word: StatusWord) -> Self {
        match word {
            StatusWord::Stable => Self::Stable,
            StatusWord::Test => Self::Test,
            StatusWord::Experimental => Self::Experimental,
            StatusWord::Deprecated => Self::Deprecated,
        }
    }
}

/// How bad it is.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum SeverityWord {
    /// Worth knowing; nothing has to be done.
    Info,
    /// Somebody should look at it in working hours.
    Warning,
    /// Something does not work as it should.
    Error,
    /// Somebody has to act now.
    Critical,
}

impl From<SeverityWord> for Severity {
    fn from(word: SeverityWord) -> Self {
        match word {
            SeverityWord::Info => Self::Info,
            SeverityWord::Warning => Self::Warning,
            SeverityWord::Error => Self::Error,
            SeverityWord::Critical => Self::Critical,
        }
    }
}

/// When a condition is evaluated.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum OnWord {
    /// At each collection, on it. Each match is an occurrence; the alert ends `keep_firing_for` after the last one.
    Gc,
    /// On the process: at each collection, once a second, and when more is known of it. The alert lasts as long as the condition.
    Process,
}

impl From<OnWord> for On {
    fn from(word: OnWord) -> Self {
        match word {
            OnWord::Gc => Self::Gc,
            OnWord::Process => Self::Process,
        }
    }
}

/// Where alerts go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum EmitWord {
    /// A log record.
    Log,
    /// An event on the collection's span, and its error status from severity `error` on.
    Span,
    /// The counters and the state, as metrics.
    Metric,
    /// What is sent to Alertmanager and webhooks.
    Notify,
}

/// Where alerts with these words go.
pub(crate) fn emit(words: &[EmitWord]) -> Emit {
    Emit {
        log: words.contains(&EmitWord::Log),
        span: words.contains(&EmitWord::Span),
        metric: words.contains(&EmitWord::Metric),
        notify: words.contains(&EmitWord::Notify),
    }
}

/// Which samples of a window are alike.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ByWord {
    /// Those of collections of the same generation, blocking or not, as the present one, which is not among them.
    GenerationAndType,
}

impl From<ByWord> for By {
    fn from(word: ByWord) -> Self {
        match word {
            ByWord::GenerationAndType => Self::GenerationAndType,
        }
    }
}
