//! The JSON schema of the configuration, generated from its types.

use std::sync::LazyLock;

use serde_json::Value;

use strict_yaml::check::Schema;
use strict_yaml::schema::{file_text, for_document};

use super::document::Document;
use super::values::FORMATS;

/// The schema, generated once.
pub(crate) static SCHEMA: LazyLock<Value> = LazyLock::new(for_document::<Document>);

/// Returns the schema together with the checks of its string formats.
pub(crate) fn schema() -> Schema<'static> {
    Schema::new(&SCHEMA, &FORMATS)
}

/// Returns the schema as the text of `docs/gcwatch.schema.json`, for editors.
pub fn text() -> String {
    file_text(&SCHEMA)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{environment, flags};
    use strict_yaml::check::unknown_keywords;
    use strict_yaml::path::KeyPath;

    /// Scenario: `schemars` generates the schema.
    /// Guarantee: the check of a file supports all keywords of the schema.
    #[test]
    fn check_supports_all_schema_keywords() {
        assert_eq!(unknown_keywords(&SCHEMA, &FORMATS), Vec::<String>::new());
    }

    /// Scenario: the tables list variables and flags.
    /// Guarantee: each variable and each flag sets an existing key.
    #[test]
    fn variables_and_flags_set_existing_keys() {
        let variables = environment::variables().into_iter().map(|variable| variable.path);
        for path in variables.chain(flags::FLAGS.map(|(_, path)| path.to_owned())) {
            assert!(schema().property(&KeyPath::from_dotted(&path)).is_some(), "{path}");
        }
    }
}
