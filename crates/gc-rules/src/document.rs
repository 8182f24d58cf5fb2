//! The types of a rule file: from them come the reading, the JSON schema and the reference page.
//!
//! The doc comments are what users read. What the schema cannot say (which keys go together, what an expression may use) is checked when
//! a file is loaded, see [`super::load`].

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Deserialize;

use crate::rule::{On, Severity, Status};
use strict_yaml::units::HumanDuration;

mod emit;
pub mod schema;
mod text;
mod window;

pub(crate) use emit::Destination;
pub(crate) use text::{Id, Moment, Name, Version, is_name};
pub(crate) use window::WindowKeys;

/// A file of rules.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
#[schemars(title = "gcwatch rules", extend("required" = ["apiVersion"]))]
pub(crate) struct RuleFile {
    /// The version of the format: `gcwatch/v1`.
    pub(crate) api_version: Version,
    /// What gcwatch has to know for this file.
    pub(crate) requires: Requires,
    /// What the rules of the file have in common, for the reader.
    pub(crate) family: Family,
    /// For each rule of this file that does not say otherwise.
    pub(crate) defaults: Defaults,
    /// Lists of texts by name, for `in` in the expressions of this file: `gc.reason in induced`.
    pub(crate) lists: BTreeMap<String, TextList>,
    /// Expressions by name, for the expressions of this file. A macro is put in as a whole, as if in parentheses.
    pub(crate) macros: BTreeMap<String, String>,
    /// Groups: a name and a sentence that says what the group is about. Of the rules of one group that fire on one process only the worst
    /// is told. A group may be used in every file.
    pub(crate) groups: BTreeMap<String, String>,
    /// The rules.
    #[schemars(length(max = 1000))]
    pub(crate) rules: Vec<Rule>,
    /// Changes to rules of files before this one, and of this one.
    #[schemars(length(max = 1000))]
    pub(crate) overrides: Vec<Override>,
}

/// What gcwatch has to know for this file.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Requires {
    /// Fields. A gcwatch that does not know one of them refuses the file with that reason.
    #[schemars(length(max = 1000))]
    pub(crate) fields: Vec<String>,
}

/// What the rules of a file have in common.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Family {
    /// One word: `pauses`.
    pub(crate) name: Option<Name>,
    /// A few words.
    #[schemars(length(min = 1, max = 200))]
    pub(crate) title: Option<String>,
    /// What they are about.
    #[schemars(length(max = 10_000))]
    pub(crate) description: Option<String>,
}

/// For each rule of the file that does not say otherwise.
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
    /// Labels of each rule, besides its own; its own go before them.
    pub(crate) labels: BTreeMap<String, String>,
    /// Annotations of each rule, besides its own; its own go before them.
    pub(crate) annotations: BTreeMap<String, String>,
    /// As in a rule.
    #[schemars(length(max = 4))]
    pub(crate) emit: Option<Vec<Destination>>,
}

/// One rule.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("required" = ["id", "title", "on", "severity", "when", "summary"]))]
pub(crate) struct Rule {
    /// Unique over all files, words with dots: `gc.pause.long`. The state of the rule is kept by it; it is never used for something else.
    pub(crate) id: Option<Id>,
    /// What it finds, a few words.
    #[schemars(length(min = 1, max = 200))]
    pub(crate) title: Option<String>,
    /// How far it can be relied on.
    #[schemars(extend("x-default" = "`experimental`"))]
    pub(crate) status: Option<Status>,
    /// When the condition is evaluated.
    pub(crate) on: Option<On>,
    /// Which processes it is for, an expression over what is known of the process; not set: all. Where it is unknown, the rule waits.
    #[schemars(extend("x-expression" = "bool"), length(min = 1))]
    pub(crate) select: Option<String>,
    /// Windows by name, for the expressions of this rule; at most 16.
    #[serde(rename = "let")]
    #[schemars(extend("maxProperties" = 16))]
    pub(crate) windows: BTreeMap<String, WindowKeys>,
    /// The condition. It fires when it is true; unknown is not true.
    #[schemars(extend("x-expression" = "bool"), length(min = 1))]
    pub(crate) when: Option<String>,
    /// When the alert ends, for rules `on: process`; not set: when `when` is not true any more. With a lower threshold than in `when` the
    /// alert does not come and go.
    #[schemars(extend("x-expression" = "bool"), length(min = 1))]
    pub(crate) clear: Option<String>,
    /// How long the condition has to hold before the rule fires, for rules `on: process`.
    #[serde(rename = "for")]
    #[schemars(extend("x-maximum" = "24h", "x-default" = "`0s`"))]
    pub(crate) hold: Option<HumanDuration>,
    /// How long the alert stays after the condition ended; with `on: gc`, after the last collection that it held on.
    #[schemars(extend("x-maximum" = "24h", "x-default" = "`1m` with `on: gc`, else `0s`"))]
    pub(crate) keep_firing_for: Option<HumanDuration>,
    /// How long after its end the rule does not fire again on the same process; what is left out is counted and told with the next alert.
    #[schemars(extend("x-maximum" = "7d", "x-default" = "`0s`"))]
    pub(crate) cooldown: Option<HumanDuration>,
    /// The group that it belongs to: one of `groups`, of this file or another.
    pub(crate) group: Option<Name>,
    /// How bad it is.
    pub(crate) severity: Option<Severity>,
    /// Labels of its alerts: names and templates. They are part of what tells alerts apart: few different values.
    pub(crate) labels: BTreeMap<String, String>,
    /// One sentence that says what happened, a template.
    #[schemars(extend("x-template" = true), length(min = 1, max = 2000))]
    pub(crate) summary: Option<String>,
    /// What it means, and how it comes about.
    #[schemars(length(max = 10_000))]
    pub(crate) description: Option<String>,
    /// What to do.
    #[schemars(length(max = 10_000))]
    pub(crate) remedy: Option<String>,
    /// Where its threshold comes from.
    #[schemars(length(max = 10_000))]
    pub(crate) source: Option<String>,
    /// Further texts of its alerts: names and templates.
    pub(crate) annotations: BTreeMap<String, String>,
    /// Where its alerts go; `[]`: nowhere, but they are seen in the API.
    #[schemars(extend("x-default" = "all"), length(max = 4))]
    pub(crate) emit: Option<Vec<Destination>>,
    /// When it is silent.
    #[schemars(length(max = 50))]
    pub(crate) exceptions: Vec<ExceptionKeys>,
    /// False: it is checked and listed, but not evaluated.
    #[schemars(extend("x-default" = "`true`"))]
    pub(crate) enabled: Option<bool>,
}

/// A reason to be silent.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("required" = ["name", "when"]))]
pub(crate) struct ExceptionKeys {
    /// Why, in a word or a few.
    #[schemars(length(min = 1, max = 200))]
    pub(crate) name: Option<String>,
    /// The rule does not fire while this holds. It may use what `when` may use.
    #[schemars(extend("x-expression" = "bool"), length(min = 1))]
    pub(crate) when: Option<String>,
    /// Until when it counts: a day, up to its end in UTC, or a time; not set: for ever.
    pub(crate) until: Option<Moment>,
}

/// A change to rules. Changes are made in the order of the files.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("required" = ["id"]))]
pub(crate) struct Override {
    /// Which rules: an id, or a pattern with `*` and `?`.
    #[schemars(length(min = 1, max = 200))]
    pub(crate) id: Option<String>,
    /// Keys of the rule, each put in the place of the rule's own.
    pub(crate) replace: Replace,
    /// Labels, annotations and exceptions besides the rule's own; a label or annotation goes over one of the same name.
    pub(crate) add: Add,
}

/// Keys of a rule, but its id, each put in the place of the rule's own.
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
            "Keys of a rule, but its id, each put in the place of the rule's own.".into(),
        );
        schema
    }
}

/// What is put to a rule's own.
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
}

/// A list of texts.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline)]
pub(crate) struct TextList(#[schemars(length(max = 1000))] pub(crate) Vec<String>);
