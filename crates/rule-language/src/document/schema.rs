//! The JSON schema of rule files, generated from the Rust types.

use std::sync::LazyLock;

use serde_json::Value;
use strict_yaml::check::Schema;
use strict_yaml::schema::{file_text, for_document};

use super::RuleFile;

pub(crate) use super::text::FORMATS;

/// The schema, generated once.
pub(crate) static SCHEMA: LazyLock<Value> = LazyLock::new(for_document::<RuleFile>);

/// Returns the schema together with the checks of its string formats.
pub(crate) fn schema() -> Schema<'static> {
    Schema::new(&SCHEMA, &FORMATS)
}

/// Returns the text of `rules/gcwatch-rules.schema.json`, for editors.
pub fn text() -> String {
    file_text(&SCHEMA)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rule_engine::rule::Function;
    use strict_yaml::check::{unknown_keywords, words};
    use strict_yaml::path::KeyPath;

    /// Scenario: `schemars` generates the schema.
    /// Guarantee: the checker supports every keyword and every format that the schema uses.
    #[test]
    fn check_supports_all_schema_keywords() {
        assert_eq!(unknown_keywords(&SCHEMA, &FORMATS), Vec::<String>::new());
    }

    /// Scenario: the functions in the schema are compared with [`Function::ALL`].
    /// Guarantee: the names and their order are equal, and the schema describes each function.
    #[test]
    fn schema_describes_every_function() {
        let path = KeyPath::from_dotted("rules").index(0).key("let").key("x").key("fn");
        let (rule, _) = schema().at(&path).unwrap();
        let described: Vec<&str> = words(rule)
            .into_iter()
            .map(|(word, description)| description.map(|_| word).unwrap())
            .collect();
        let names: Vec<&str> = Function::ALL.iter().map(|function| function.name()).collect();
        assert_eq!(described, names);
    }
}
