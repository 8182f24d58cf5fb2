//! The read-only tools. Each file except `history` defines the arguments of a tool, the paths of the API that the tool
//! queries, and the fields that it omits.

pub(super) mod advice;
mod changes;
mod collections;
mod history;
mod incidents;
mod process;
mod processes;
mod recording;
mod requests;
mod rules;

use schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::page::{UNITS, trimmed};
use super::source::{Answer, Asker, CommandOutput, Refusal, Source};

/// A tool in the list of tools.
#[derive(Debug, Clone, Copy)]
pub(super) struct ListedTool {
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    /// Description of the tool's result and of its use.
    pub(super) description: &'static str,
    pub(super) arguments: fn() -> Map<String, Value>,
}

/// All read-only tools.
pub(super) const TOOLS: [ListedTool; 9] = [
    incidents::TOOL,
    processes::TOOL,
    process::TOOL,
    collections::TOOL,
    requests::TOOL,
    rules::TOOL,
    changes::TOOL,
    recording::TOOL,
    advice::TOOL,
];

/// Name of the tool that works without a daemon.
pub(super) const RECORDING: &str = recording::TOOL.name;
/// Name of the tool that runs a command: it works without a daemon, but not at the listener of a daemon.
pub(super) const ADVICE: &str = advice::TOOL.name;

/// Maximum number of values per list in a record of a command.
const MAX_VALUES: usize = 8;

/// Returns the answer of a tool, or `None` if no tool has this name.
pub(super) async fn answer<S: Source>(
    name: &str,
    arguments: Map<String, Value>,
    asker: &Asker<'_, S>,
) -> Option<Answer> {
    let answer = match name {
        "incidents" => incidents::answer(asker, arguments).await,
        "processes" => processes::answer(asker, arguments).await,
        "process" => process::answer(asker, arguments).await,
        "collections" => collections::answer(asker, arguments).await,
        "requests" => requests::answer(asker, arguments).await,
        "rules" => rules::answer(asker, arguments).await,
        "changes" => changes::answer(asker, arguments).await,
        "recording" => recording::answer(asker, arguments).await,
        "advice" => advice::answer(asker, arguments).await,
        _ => return None,
    };
    Some(answer)
}

/// Parses the arguments of a tool. Unknown names and wrong types are refused.
pub(super) fn read<T: DeserializeOwned>(arguments: Map<String, Value>) -> Result<T, Refusal> {
    serde_json::from_value(Value::Object(arguments))
        .map_err(|error| Refusal::new(format!("the arguments: {error}"), "see the input schema of the tool"))
}

/// Returns the answer of a tool that ran a command.
pub(super) fn found(printed: CommandOutput) -> Value {
    let records = printed.records.into_iter();
    json!({
        "found": records.map(|record| trimmed(advice::row(record), MAX_VALUES)).collect::<Vec<_>>(),
        "left_out": printed.left_out,
        "said": printed.said,
        "units": UNITS,
    })
}

/// Returns the default number of rows of a tool.
fn rows<const N: usize>() -> usize {
    N
}

/// Returns the schema of a tool's arguments, without references.
pub(super) fn schema<T: JsonSchema>() -> Map<String, Value> {
    let mut settings = SchemaSettings::draft2020_12();
    settings.inline_subschemas = true;
    settings.meta_schema = None;
    let mut schema = SchemaGenerator::new(settings).into_root_schema_for::<T>();
    schema.remove("title");
    schema.remove("description");
    schema.as_object().cloned().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: all read-only tools are listed.
    /// Guarantee: each tool describes its arguments and refuses unknown arguments; the descriptions and schemas of all
    /// tools together are short.
    #[test]
    fn tool_schemas_are_described_and_short() {
        let mut bytes = 0;
        for tool in TOOLS {
            let schema = (tool.arguments)();
            assert_eq!(schema["additionalProperties"], false, "{}", tool.name);
            for (name, argument) in schema["properties"].as_object().unwrap() {
                assert!(argument["description"].is_string(), "{}.{name}", tool.name);
            }
            bytes += tool.description.len() + Value::Object(schema).to_string().len();
        }
        // A token has about four bytes, and an agent pays for the tokens of all tools in each conversation.
        assert!(bytes < 10_000, "{bytes}");
    }
}
