//! The types of a rule file. Parsing, the JSON schema and the reference page are derived from these types.
//!
//! The doc comments of the keys are the descriptions that users see. [`super::load`] checks everything that a schema
//! cannot express: which keys can be combined, and what an expression can use.

use std::borrow::Cow;
use std::collections::BTreeMap;

use base::units::HumanDuration;
use rule_engine::rule::{Division, EvaluationTrigger, Role, Severity, Status};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Deserialize;

pub mod schema;
mod text;
mod window;

pub(crate) use text::{EvidenceName, Id, Moment, Name, Version, is_name};
pub(crate) use window::WindowKeys;

/// Replacement for the removed section `lists`, as stated in the error message.
pub(crate) const LISTS_REMOVED: &str =
    "a macro can be a list: `macros: {induced: \"['Induced', 'LowMemory']\"}` for `gc.reason in induced`";

/// A rule file.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
#[schemars(
    title = "gcwatch rules",
    extend("required" = ["apiVersion"], "x-removed" = {"lists": LISTS_REMOVED})
)]
pub(crate) struct RuleFile {
    /// The version of the format: `gcwatch/v1`.
    pub(crate) api_version: Version,
    /// Fields that this file requires of gcwatch.
    pub(crate) requires: Requires,
    /// Name, title and description of the file, for readers.
    pub(crate) family: Family,
    /// Defaults for the rules of this file.
    pub(crate) defaults: Defaults,
    /// Named expressions that the expressions of this file can use. A macro is inserted as if it were in parentheses. A
    /// macro can be a list of strings, for the operator `in`.
    pub(crate) macros: BTreeMap<String, String>,
    /// Groups: name and description. All alerts of a group on one process form one incident, which is named after the
    /// rule that starts it. If the conditions of several rules of a group are true, only the most severe rule fires an
    /// alert. Among equally severe rules, a rule that already fires has priority, then the first rule in the order of
    /// the files, so list causes before consequences. All files can use a group.
    pub(crate) groups: BTreeMap<String, String>,
    /// Groups whose alerts are consequences of the alerts of other groups, each with the list of these other groups.
    /// While an incident of one of the other groups is open, the alerts join this incident instead of starting a
    /// separate one.
    pub(crate) follows: BTreeMap<String, TextList>,
    /// The rules.
    #[schemars(length(max = 1000))]
    pub(crate) rules: Vec<Rule>,
    /// Changes to rules of this file and of earlier files.
    #[schemars(length(max = 1000))]
    pub(crate) overrides: Vec<Override>,
}

/// Fields that a file requires of gcwatch.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Requires {
    /// Names of the required fields. A gcwatch version that lacks one of these fields refuses the file.
    #[schemars(length(max = 1000))]
    pub(crate) fields: Vec<String>,
}

/// Name, title and description of a file.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Family {
    /// Name in one word, such as `pauses`.
    pub(crate) name: Option<Name>,
    /// Title in a few words.
    #[schemars(length(min = 1, max = 200))]
    pub(crate) title: Option<String>,
    /// Subject of the rules in the file.
    #[schemars(length(max = 10_000))]
    pub(crate) description: Option<String>,
}

/// Replacement for the removed key `emit`, as stated in the error message.
const EMIT_REMOVED: &str = "delete it; alerts of `role: note`, and of a `severity` below `min_severity` of a receiver, \
                            are not sent to that receiver, and `alerts.log` of the configuration selects log records";

/// Defaults for the rules of the file.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("x-removed" = {"emit": EMIT_REMOVED}))]
pub(crate) struct Defaults {
    /// See the key of a rule.
    pub(crate) status: Option<Status>,
    /// See the key of a rule.
    #[schemars(extend("x-maximum" = "24h"))]
    pub(crate) keep_firing_for: Option<HumanDuration>,
    /// See the key of a rule.
    #[schemars(extend("x-maximum" = "7d"))]
    pub(crate) cooldown: Option<HumanDuration>,
    /// See the key of a rule.
    pub(crate) group: Option<Name>,
    /// Labels of all rules. Labels of a rule take precedence.
    pub(crate) labels: BTreeMap<String, String>,
    /// Annotations of all rules. Annotations of a rule take precedence.
    pub(crate) annotations: BTreeMap<String, String>,
    /// See the key of a rule.
    #[schemars(length(min = 1, max = 1000))]
    pub(crate) runbook_url: Option<String>,
    /// See the key of a rule.
    #[schemars(length(max = 6))]
    pub(crate) evidence: Option<Vec<EvidenceName>>,
}

/// A rule.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("required" = ["id", "title", "on", "when", "summary"], "x-removed" = {"emit": EMIT_REMOVED}))]
pub(crate) struct Rule {
    /// Id, unique among all files: words with dots, such as `gc.pause.long`. gcwatch identifies the state of a rule by
    /// the id, so do not reuse the id for another rule.
    pub(crate) id: Option<Id>,
    /// Title: the finding of the rule, in a few words.
    #[schemars(length(min = 1, max = 200))]
    pub(crate) title: Option<String>,
    /// Role of the rule. If not set, the alert of the rule starts an incident, like the alert of a symptom.
    pub(crate) role: Option<Role>,
    /// Ids of the symptoms that this rule explains, for rules `role: cause`.
    #[schemars(length(max = 20))]
    pub(crate) of: Vec<Id>,
    /// Size of the harm, for rules `role: symptom`: nanoseconds of stopped time, bytes, or bytes per hour (a slope).
    /// The parts that causes explain are compared with this size.
    #[schemars(extend("x-expression" = "double"), length(min = 1))]
    pub(crate) harm: Option<String>,
    /// Part of the harm that this rule explains, for rules `role: cause`, in the unit and over the period of `harm` of
    /// the explained symptoms.
    #[schemars(extend("x-expression" = "double"), length(min = 1))]
    pub(crate) explains: Option<String>,
    /// Time in seconds for which the harm has already lasted when the symptom fires. If not set, the harm starts when
    /// `when` becomes true.
    #[schemars(extend("x-expression" = "double"), length(min = 1))]
    pub(crate) lasting: Option<String>,
    /// Ids of other symptoms, for rules `role: cause`: the explained symptoms are consequences of these other symptoms.
    /// If one of the other symptoms has an incident, the incident of the explained symptoms becomes part of it.
    #[schemars(length(max = 20))]
    pub(crate) consequence_of: Vec<Id>,
    /// Reliability of the rule.
    #[schemars(extend("x-default" = "`experimental`"))]
    pub(crate) status: Option<Status>,
    /// Time at which the condition is evaluated.
    pub(crate) on: Option<EvaluationTrigger>,
    /// Processes that the rule applies to: an expression on the process. If not set, the rule applies to all processes.
    /// While the expression is unknown, the rule is not evaluated.
    #[schemars(extend("x-expression" = "bool"), length(min = 1))]
    pub(crate) select: Option<String>,
    /// Names of services that must run on this host, for rules `on: service`, instead of `select`. Each service is
    /// evaluated even while it has no process. The name of a service is `service.name`, or the name of the process if
    /// `service.name` is not set.
    #[schemars(length(max = 50))]
    pub(crate) expect: Vec<String>,
    /// Division of a service, for rules `on: service`: each version of the service on this host is evaluated
    /// separately, with the processes of this version and their exits. If not set, all versions of the service are
    /// evaluated together.
    pub(crate) by: Option<Division>,
    /// Windows by name, for the expressions of this rule; at most 16.
    #[serde(rename = "let")]
    #[schemars(extend("maxProperties" = 16))]
    pub(crate) windows: BTreeMap<String, WindowKeys>,
    /// Parameters by name: numbers, strings or booleans that the expressions of this rule can use; at most 16.
    #[schemars(extend("maxProperties" = 16))]
    pub(crate) params: BTreeMap<String, ParamText>,
    /// Other values of parameters for some processes. If several entries match a process, the first entry that contains
    /// the parameter is used. Entries of an override precede the entries of the rule.
    #[schemars(length(max = 50))]
    pub(crate) params_for: Vec<ParamsFor>,
    /// Condition under which the rule fires. An unknown condition does not count as true.
    #[schemars(extend("x-expression" = "bool"), length(min = 1))]
    pub(crate) when: Option<String>,
    /// Condition that ends the alert, for rules `on: process`. If not set, the alert ends when `when` is false. A lower
    /// threshold than in `when` prevents flapping.
    #[schemars(extend("x-expression" = "bool"), length(min = 1))]
    pub(crate) clear: Option<String>,
    /// Time for which the condition must be true before the rule fires, for rules `on: process`.
    #[serde(rename = "for")]
    #[schemars(extend("x-maximum" = "24h", "x-default" = "`0s`"))]
    pub(crate) hold: Option<HumanDuration>,
    /// Time for which the alert continues after the condition became false or, with `on: gc`, after the last matching
    /// collection.
    #[schemars(extend("x-maximum" = "24h", "x-default" = "`1m`"))]
    pub(crate) keep_firing_for: Option<HumanDuration>,
    /// Time after the end of an alert during which the rule does not fire again for the same process. The next alert
    /// contains the number of suppressed alerts.
    #[schemars(extend("x-maximum" = "7d", "x-default" = "`0s`"))]
    pub(crate) cooldown: Option<HumanDuration>,
    /// Group of the rule: a name in `groups` of this file or of another file.
    pub(crate) group: Option<Name>,
    /// Severity of the alert. Required, except for causes and notes, whose severity is information.
    #[schemars(extend("x-default" = "`info` for causes and notes"))]
    pub(crate) severity: Option<Severity>,
    /// Conditions under which the alert is more severe: higher severities with one condition each. The severity can
    /// rise while the alert fires, and does not fall until the alert ends.
    pub(crate) worse: EscalationKeys,
    /// Labels of the alert: names and templates. Labels identify an alert, so use few different values.
    pub(crate) labels: BTreeMap<String, String>,
    /// One sentence that states what happened; a template.
    #[schemars(extend("x-template" = true), length(min = 1, max = 2000))]
    pub(crate) summary: Option<String>,
    /// Meaning and causes of the alert.
    #[schemars(length(max = 10_000))]
    pub(crate) description: Option<String>,
    /// Advice.
    #[schemars(length(max = 10_000))]
    pub(crate) remedy: Option<String>,
    /// Source of the threshold.
    #[schemars(length(max = 10_000))]
    pub(crate) source: Option<String>,
    /// Annotations of the alert: names and templates.
    pub(crate) annotations: BTreeMap<String, String>,
    /// Page that explains the alert, for the annotation `runbook_url`. `{id}` is replaced with the id of the rule.
    #[schemars(length(min = 1, max = 1000))]
    pub(crate) runbook_url: Option<String>,
    /// Evidence that gcwatch gathers for an incident of the rule, such as `ledger` (the memory of the process by use)
    /// or `black-box` (a recording of the last seconds of its events). Incidents of severity error or critical have a
    /// `black-box` in any case. If not set, gcwatch gathers no further evidence.
    #[schemars(length(max = 6))]
    pub(crate) evidence: Option<Vec<EvidenceName>>,
    /// Exceptions: conditions under which the rule does not fire.
    #[schemars(length(max = 50))]
    pub(crate) exceptions: Vec<ExceptionKeys>,
    /// Whether the rule is evaluated. A disabled rule is only checked and listed.
    #[schemars(extend("x-default" = "`true`"))]
    pub(crate) enabled: Option<bool>,
}

/// Conditions under which an alert is more severe.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Worse")]
pub(crate) struct EscalationKeys {
    /// Condition for a warning, for a rule of severity `info`.
    #[schemars(extend("x-expression" = "bool"), length(min = 1))]
    pub(crate) warning: Option<String>,
    /// Condition for an error.
    #[schemars(extend("x-expression" = "bool"), length(min = 1))]
    pub(crate) error: Option<String>,
    /// Condition for critical severity.
    #[schemars(extend("x-expression" = "bool"), length(min = 1))]
    pub(crate) critical: Option<String>,
}

/// Replacement for the removed times of day of exceptions, as stated in the error message.
const CLOCK_REMOVED: &str = "mute notifications by the time of day where they are routed, for example with \
                             `time_intervals` of Alertmanager, which follow zones and summer time; an exception has a \
                             condition (`when`)";

/// An exception of a rule: a condition under which the rule does not fire.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend(
    "required" = ["name", "when"],
    "x-removed" = {"between": CLOCK_REMOVED, "days": CLOCK_REMOVED, "zone": CLOCK_REMOVED}
))]
pub(crate) struct ExceptionKeys {
    /// Reason for the exception, in a few words.
    #[schemars(length(min = 1, max = 200))]
    pub(crate) name: Option<String>,
    /// Condition under which the rule does not fire. The condition can use the same fields as `when` of the rule.
    #[schemars(extend("x-expression" = "bool"), length(min = 1))]
    pub(crate) when: Option<String>,
    /// Expiry: a day (its end in UTC) or a time. If not set, the exception does not expire.
    pub(crate) until: Option<Moment>,
}

/// A change to rules. Changes apply in the order of the files.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("required" = ["id"]))]
pub(crate) struct Override {
    /// Id of a rule, or a pattern with `*` and `?`.
    #[schemars(length(min = 1, max = 200))]
    pub(crate) id: Option<String>,
    /// Keys that replace keys of the rule.
    pub(crate) replace: Replace,
    /// Additional labels, annotations, exceptions and values of parameters. A label, an annotation or a parameter
    /// replaces the previous value of the same name.
    pub(crate) add: RuleAdditions,
}

/// Keys of a rule, except its id, that replace keys of the rule.
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
            "Keys of a rule, except its id, that replace keys of the rule.".into(),
        );
        schema
    }
}

/// Additions to a rule.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Add")]
pub(crate) struct RuleAdditions {
    /// Additional labels.
    pub(crate) labels: BTreeMap<String, String>,
    /// Additional annotations.
    pub(crate) annotations: BTreeMap<String, String>,
    /// Additional exceptions.
    #[schemars(length(max = 50))]
    pub(crate) exceptions: Vec<ExceptionKeys>,
    /// Additional parameters, or other values of parameters.
    pub(crate) params: BTreeMap<String, ParamText>,
    /// Additional values of parameters for some processes.
    #[schemars(length(max = 50))]
    pub(crate) params_for: Vec<ParamsFor>,
}

/// Other values of parameters for some processes.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("required" = ["select", "params"]))]
pub(crate) struct ParamsFor {
    /// Processes that the values apply to: an expression on the process. While the expression is unknown, the values do
    /// not apply.
    #[schemars(extend("x-expression" = "bool"), length(min = 1))]
    pub(crate) select: Option<String>,
    /// Values of parameters of the rule. The types must not change.
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
pub(crate) struct TextList(
    #[schemars(length(max = 1000))]
    #[allow(dead_code, reason = "it is read from the tree; the type is for the schema")]
    Vec<String>,
);
