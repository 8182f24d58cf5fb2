//! Loads any text as a rule file, and as a file that overrides rules. Loading neither panics nor aborts, and a refusal
//! has positions in the file.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rule_language::load::{SourceFile, load};

const RULES: &str = "apiVersion: gcwatch/v1
rules:
  - {id: a, title: t, on: gc, severity: info, summary: s, when: gc.blocking}
";

fuzz_target!(|text: &str| {
    let file = |name: &str, text: &str| SourceFile {
        name: name.to_owned(),
        text: text.to_owned(),
    };
    let problems = match load(&[file("rules", RULES), file("fuzzed", text)]) {
        Ok(loaded) => loaded.warnings,
        Err(problems) => problems,
    };
    for problem in problems {
        assert!(problem.line >= 1 && problem.column >= 1 && !problem.message.is_empty());
    }
});
