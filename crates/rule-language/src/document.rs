//! The types of a rule file: reading, JSON schema and reference page are derived from them.
//!
//! The doc comments are the users' documentation. What a schema cannot express (which keys can be combined, what an
//! expression can use) is checked by [`super::load`].

use std::borrow::Cow;
use std::collections::BTreeMap;

use base::units::HumanDuration;
use base::words;
use gc_rules::rule::{Division, On, Role, Severity, Status};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Deserialize;

pub mod schema;
mod text;
mod window;

pub(crate) use text::{EvidenceName, Id, Moment, Name, Version, is_name};
pub(crate) use window::WindowKeys;

/// A rule file.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
#[schemars(title = "gcwatch rules", extend("required" = ["apiVersion"]))]
pub(crate) struct RuleFile {
    /// The version of the format: `gcwatch/v1`.
    pub(crate) api_version: Version,
    /// What this file requires of gcwatch.
    pub(crate) requires: Requires,
    /// A description of the file, for readers.
    pub(crate) family: Family,
    /// Defaults for the rules of this file.
    pub(crate) defaults: Defaults,
    /// Lists of strings by name, for `in` in the expressions of this file: `gc.reason in induced`.
    pub(crate) lists: BTreeMap<String, TextList>,
    /// Expressions by name, for the expressions of this file. A macro is inserted as if in parentheses.
    pub(crate) macros: BTreeMap<String, String>,
    /// Groups: name and description. All alerts of a group on one process are one incident, which the first of its
    /// rules names, in the order of the files: a cause is before its consequences. Of the rules that hold, only the
    /// most severe fires an alert. A group can be used in all files.
    pub(crate) groups: BTreeMap<String, String>,
    /// Groups whose alerts are consequences of those of other groups, with these: while an incident of one of the other
    /// groups is open, they are members of it and raise none of their own.
    pub(crate) follows: BTreeMap<String, TextList>,
    /// The rules.
    #[schemars(length(max = 1000))]
    pub(crate) rules: Vec<Rule>,
    /// Changes to rules of this file and of earlier ones.
    #[schemars(length(max = 1000))]
    pub(crate) overrides: Vec<Override>,
}

/// What this file requires of gcwatch.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Requires {
    /// Fields. A gcwatch without one of them refuses the file.
    #[schemars(length(max = 1000))]
    pub(crate) fields: Vec<String>,
}

/// A description of the file.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Family {
    /// One word: `pauses`.
    pub(crate) name: Option<Name>,
    /// A few words.
    #[schemars(length(min = 1, max = 200))]
    pub(crate) title: Option<String>,
    /// What the rules are about.
    #[schemars(length(max = 10_000))]
    pub(crate) description: Option<String>,
}

/// Defaults for the rules of the file.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Defaults {
    /// As in a rule.
    pub(crate) status: Option<Status>,
    /// As in a rule.
    #[schemars(extend("x-maximum" = "24h"))]
    pub(crate) keep_firing_for: Option<HumanDuration>,
    /// As in a rule.
    #[schemars(extend("x-maximum" = "7d"))]
    pub(crate) cooldown: Option<HumanDuration>,
    /// As in a rule.
    pub(crate) group: Option<Name>,
    /// Labels of all rules; a rule's own ones take precedence.
    pub(crate) labels: BTreeMap<String, String>,
    /// Annotations of all rules; a rule's own ones take precedence.
    pub(crate) annotations: BTreeMap<String, String>,
    /// As in a rule.
    #[schemars(length(min = 1, max = 1000))]
    pub(crate) runbook_url: Option<String>,
    /// As in a rule.
    #[schemars(length(max = 4))]
    pub(crate) emit: Option<Vec<Destination>>,
    /// As in a rule.
    #[schemars(length(max = 6))]
    pub(crate) evidence: Option<Vec<EvidenceName>>,
}

/// One rule.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("required" = ["id", "title", "on", "when", "summary"]))]
pub(crate) struct Rule {
    /// Unique in all files, words with dots: `gc.pause.long`. It identifies the rule's state; do not use it again for
    /// another rule.
    pub(crate) id: Option<Id>,
    /// What the rule finds, in a few words.
    #[schemars(length(min = 1, max = 200))]
    pub(crate) title: Option<String>,
    /// What the rule is for; not set: its alert is an incident, as that of a symptom.
    pub(crate) role: Option<Role>,
    /// The symptoms that a cause explains, by id.
    #[schemars(length(max = 20))]
    pub(crate) of: Vec<Id>,
    /// How large the harm of a symptom is over its time: nanoseconds stopped, bytes, or bytes per hour (a slope). It is
    /// what causes are measured by.
    #[schemars(extend("x-expression" = "double"), length(min = 1))]
    pub(crate) harm: Option<String>,
    /// How much of the harm a cause explains, in the unit of `harm` of its symptoms and over the same time.
    #[schemars(extend("x-expression" = "double"), length(min = 1))]
    pub(crate) explains: Option<String>,
    /// How long the harm has lasted when the symptom fires, in seconds; not set: since `when` holds.
    #[schemars(extend("x-expression" = "double"), length(min = 1))]
    pub(crate) lasting: Option<String>,
    /// The symptoms, by id, of which those that a cause explains are a consequence: with an incident of one of them,
    /// where there is one, they are one incident.
    #[schemars(length(max = 20))]
    pub(crate) consequence_of: Vec<Id>,
    /// How reliable the rule is.
    #[schemars(extend("x-default" = "`experimental`"))]
    pub(crate) status: Option<Status>,
    /// When the condition is evaluated.
    pub(crate) on: Option<On>,
    /// The processes that the rule is for, an expression on the process; not set: all. While it is unknown, the rule is
    /// not evaluated.
    #[schemars(extend("x-expression" = "bool"), length(min = 1))]
    pub(crate) select: Option<String>,
    /// Names of services that must run on this host, for rules `on: service` instead of `select`: each is judged also
    /// while it has no process. The name is `service.name`, or that of the process.
    #[schemars(length(max = 50))]
    pub(crate) expect: Vec<String>,
    /// What a service is divided by, for rules `on: service`: each of its versions on this host is judged by itself,
    /// with its own processes and their ends. Not set: the service as a whole.
    pub(crate) by: Option<Division>,
    /// Windows by name, for the expressions of this rule; at most 16.
    #[serde(rename = "let")]
    #[schemars(extend("maxProperties" = 16))]
    pub(crate) windows: BTreeMap<String, WindowKeys>,
    /// Parameters by name: numbers, strings or booleans that the expressions of this rule can use; at most 16.
    #[schemars(extend("maxProperties" = 16))]
    pub(crate) params: BTreeMap<String, ParamText>,
    /// Other values of parameters for some processes. Of several entries for a process, the first with a value counts;
    /// those that an override adds go before the rule's own.
    #[schemars(length(max = 50))]
    pub(crate) params_for: Vec<ParamsFor>,
    /// The condition. The rule fires when it is true; unknown is not true.
    #[schemars(extend("x-expression" = "bool"), length(min = 1))]
    pub(crate) when: Option<String>,
    /// When the alert ends, for rules `on: process`; not set: when `when` is false. A lower threshold than in `when`
    /// prevents flapping.
    #[schemars(extend("x-expression" = "bool"), length(min = 1))]
    pub(crate) clear: Option<String>,
    /// How long the condition must hold before the rule fires, for rules `on: process`.
    #[serde(rename = "for")]
    #[schemars(extend("x-maximum" = "24h", "x-default" = "`0s`"))]
    pub(crate) hold: Option<HumanDuration>,
    /// How long the alert continues after the condition ended; with `on: gc`, after the last matching collection.
    #[schemars(extend("x-maximum" = "24h", "x-default" = "`1m`"))]
    pub(crate) keep_firing_for: Option<HumanDuration>,
    /// How long after its end the rule does not fire again for the same process; the next alert has the number of
    /// suppressed ones.
    #[schemars(extend("x-maximum" = "7d", "x-default" = "`0s`"))]
    pub(crate) cooldown: Option<HumanDuration>,
    /// The group: one of `groups`, of this file or another.
    pub(crate) group: Option<Name>,
    /// Severity of the alert. Required, except for causes and notes, which are information.
    #[schemars(extend("x-default" = "`info` for causes and notes"))]
    pub(crate) severity: Option<Severity>,
    /// Conditions under which the alert is more severe: a higher severity and a condition each. It rises while the alert
    /// fires, and does not fall until its end.
    pub(crate) worse: Worse,
    /// Labels of the alert: names and templates. They are a part of its identity: use few different values.
    pub(crate) labels: BTreeMap<String, String>,
    /// What happened, one sentence; a template.
    #[schemars(extend("x-template" = true), length(min = 1, max = 2000))]
    pub(crate) summary: Option<String>,
    /// What it means, and its causes.
    #[schemars(length(max = 10_000))]
    pub(crate) description: Option<String>,
    /// What to do.
    #[schemars(length(max = 10_000))]
    pub(crate) remedy: Option<String>,
    /// The source of its threshold.
    #[schemars(length(max = 10_000))]
    pub(crate) source: Option<String>,
    /// Annotations of the alert: names and templates.
    pub(crate) annotations: BTreeMap<String, String>,
    /// The page that explains the alert, for the annotation `runbook_url`; `{id}` in it is the id of the rule.
    #[schemars(length(min = 1, max = 1000))]
    pub(crate) runbook_url: Option<String>,
    /// Where alerts go; `[]`: only to the API.
    #[schemars(extend("x-default" = "all"), length(max = 4))]
    pub(crate) emit: Option<Vec<Destination>>,
    /// What is gathered for an incident of the rule: `ledger`, where the memory of the process is; `black-box`, a
    /// recording of the last seconds of its events, which incidents of severity error and worse have in any case. Not
    /// set: nothing else.
    #[schemars(length(max = 6))]
    pub(crate) evidence: Option<Vec<EvidenceName>>,
    /// When the rule does not fire.
    #[schemars(length(max = 50))]
    pub(crate) exceptions: Vec<ExceptionKeys>,
    /// If false, the rule is checked and listed, but not evaluated.
    #[schemars(extend("x-default" = "`true`"))]
    pub(crate) enabled: Option<bool>,
}

words! {
    /// Where alerts go.
    pub(crate) enum Destination {
        /// A log record.
        Log = "log",
        /// An event on the collection's span, and its error status from severity `error` on.
        Span = "span",
        /// The counters and the state, as metrics.
        Metric = "metric",
        /// Notifications: Alertmanager and webhooks.
        Notify = "notify",
    }
}

/// Conditions under which an alert is more severe.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Worse {
    /// When it is a warning, for a rule of severity `info`.
    #[schemars(extend("x-expression" = "bool"), length(min = 1))]
    pub(crate) warning: Option<String>,
    /// When it is an error.
    #[schemars(extend("x-expression" = "bool"), length(min = 1))]
    pub(crate) error: Option<String>,
    /// When it is critical.
    #[schemars(extend("x-expression" = "bool"), length(min = 1))]
    pub(crate) critical: Option<String>,
}

/// What replaces the times of day of exceptions.
const CLOCK_REMOVED: &str = "notifications are muted by the time of day where they are routed, for example by \
                             `time_intervals` of Alertmanager, which follow zones and summer time; an exception has a \
                             condition (`when`)";

/// An exception of a rule: a condition under which it does not fire.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend(
    "required" = ["name", "when"],
    "x-removed" = {"between": CLOCK_REMOVED, "days": CLOCK_REMOVED, "zone": CLOCK_REMOVED}
))]
pub(crate) struct ExceptionKeys {
    /// The reason, in a few words.
    #[schemars(length(min = 1, max = 200))]
    pub(crate) name: Option<String>,
    /// The rule does not fire while this holds. It can use the same fields as `when`.
    #[schemars(extend("x-expression" = "bool"), length(min = 1))]
    pub(crate) when: Option<String>,
    /// When it expires: a day (its end in UTC) or a time; not set: never.
    pub(crate) until: Option<Moment>,
}

/// A change to rules. Changes apply in the order of the files.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("required" = ["id"]))]
pub(crate) struct Override {
    /// The rules: an id, or a pattern with `*` and `?`.
    #[schemars(length(min = 1, max = 200))]
    pub(crate) id: Option<String>,
    /// Keys that replace those of the rule.
    pub(crate) replace: Replace,
    /// Additional labels, annotations, exceptions and values of parameters; a label, an annotation or a parameter replaces
    /// one of the same name.
    pub(crate) add: Add,
}

/// Keys of a rule, except its id, that replace those of the rule.
#[derive(Debug, Default, Deserialize)]
#[serde(transparent)]
pub(crate) struct Replace(#[allow(dead_code, reason = "it is read key by key; the type is for the schema")] Rule);

impl JsonSchema for Replace {
    fn schema_name() -> Cow<'static, str> {
        "Replace".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = Rule::json_schema(generator);
        schema.remove("required");
        if let Some(properties) = schema.get_mut("properties").and_then(serde_json::Value::as_object_mut) {
            properties.shift_remove("id");
        }
        schema.insert(
            "description".to_owned(),
            "Keys of a rule, except its id, that replace those of the rule.".into(),
        );
        schema
    }
}

/// Additions to a rule.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Add {
    /// Labels.
    pub(crate) labels: BTreeMap<String, String>,
    /// Annotations.
    pub(crate) annotations: BTreeMap<String, String>,
    /// Exceptions.
    #[schemars(length(max = 50))]
    pub(crate) exceptions: Vec<ExceptionKeys>,
    /// Values of parameters.
    pub(crate) params: BTreeMap<String, ParamText>,
    /// Values of parameters for some processes.
    #[schemars(length(max = 50))]
    pub(crate) params_for: Vec<ParamsFor>,
}

/// Other values of parameters for some processes.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("required" = ["select", "params"]))]
pub(crate) struct ParamsFor {
    /// The processes, an expression on the process. Where it is unknown, the values do not apply.
    #[schemars(extend("x-expression" = "bool"), length(min = 1))]
    pub(crate) select: Option<String>,
    /// Their values, of the types of the rule's own.
    pub(crate) params: BTreeMap<String, ParamText>,
}

/// The value of a parameter: a number, a boolean or a string.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline)]
pub(crate) struct ParamText(
    #[schemars(extend("type" = ["string", "number", "boolean"]), length(max = 200))]
    #[allow(
        dead_code,
        reason = "its type depends on its quotes, so it is read from the tree; the type is for the schema"
    )]
    pub(crate) String,
);

/// A list of strings.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline)]
pub(crate) struct TextList(#[schemars(length(max = 1000))] pub(crate) Vec<String>);
