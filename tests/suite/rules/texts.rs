//! Texts that contain values.

use base::time::Moment;
use proptest::prelude::*;
use rule_engine::field::{ProcessFacts, Scope, StreamFacts};
use rule_engine::rule::Template;

use super::{file, fine};

/// Returns the summary of a rule on a process with a window `share`.
fn template(summary: &str) -> Template {
    let summary = summary.replace('\'', "''");
    let text = format!(
        "apiVersion: gcwatch/v1\nrules:\n  - id: a\n    title: t\n    on: process\n    severity: info\n    description: d\n    remedy: r\n    \
         let:\n      share: {{fn: share, of: gc.pause_ns, over: 1m}}\n    when: share > 0.1\n    summary: '{summary}'\n"
    );
    fine(&[file("a.yaml", text)]).rules.rule("a").unwrap().summary.clone()
}

fn with<R>(name: Option<&str>, share: Option<f64>, read: impl FnOnce(&Scope<'_>) -> R) -> R {
    let mut process = ProcessFacts::default();
    process.name = name.map(Into::into);
    process.pid = Some(7);
    read(&Scope {
        windows: &[share],
        ..Scope::new(&process, &StreamFacts::default(), Moment::FIRST)
    })
}

/// Scenario: a text contains a name, a number, a share and literals; the values are known or unknown.
/// Guarantee: known values are formatted, unknown values are written as `<na>`.
#[test]
fn values_are_formatted() {
    let text = template(
        "{{process.name}} ({{ process.pid }}): {{ share | percent }}, {{ share | round(3) }} {{ '{{' }} }} {{ 1 / (process.pid - 7) }}",
    );
    with(Some("web"), Some(0.1234), |scope| {
        assert_eq!(text.render(scope), "web (7): 12.3 %, 0.123 {{ }} <error>");
    });
    with(None, None, |scope| {
        assert_eq!(text.render(scope), "<na> (7): <na>, <na> {{ }} <error>");
    });
}

/// Scenario: clauses contain known values, unknown values, or an empty string; a `]]` does not close a clause.
/// Guarantee: a clause is written if all its values are known and not empty; otherwise it is omitted.
#[test]
fn clauses_without_values_are_omitted() {
    let text = template(
        "a[[, name {{ process.name }}]][[, {{ share | percent }} of {{ process.pid }}]][[ {{ share > 0.5 ? 'half' : '' }}]] ]]",
    );
    with(Some("web"), Some(0.75), |scope| {
        assert_eq!(text.render(scope), "a, name web, 75 % of 7 half ]]");
    });
    with(None, Some(0.1), |scope| {
        assert_eq!(text.render(scope), "a, 10 % of 7 ]]");
    });
    with(None, None, |scope| assert_eq!(text.render(scope), "a ]]"));
}

/// Scenario: the name of a process contains line breaks, terminal escapes and marks that change the text direction;
/// another name is long.
/// Guarantee: the name is escaped, and a text never exceeds its maximum length.
#[test]
fn foreign_values_have_no_effect() {
    let text = template("{{ process.name }} x");
    with(Some("a\n\u{1b}[31m\u{202e}ä"), None, |scope| {
        assert_eq!(text.render(scope), "a\\u{a}\\u{1b}[31m\\u{202e}ä x");
    });
    let long = "ä".repeat(10_000);
    with(Some(&long), None, |scope| {
        let (text, label) = (text.render(scope), text.render_label(scope));
        assert!(
            text.len() <= 1024 && text.len() > 1000 && text.ends_with('…'),
            "{}",
            text.len()
        );
        assert!(label.len() <= 256 && label.len() > 240, "{}", label.len());
    });
}

proptest! {
    /// Scenario: a process has an arbitrary name, and a text has an arbitrary maximum length.
    /// Guarantee: the text does not exceed the length and contains no control character.
    #[test]
    fn texts_respect_their_maximum_length(name: String, most in 3..2000_usize) {
        thread_local! {
            static TEXT: Template = template("a {{ process.name }}, {{ process.name }}.");
        }
        let text = TEXT.with(|text| with(Some(&name), None, |scope| text.render_within(scope, most)));
        prop_assert!(text.len() <= most, "{}", text.len());
        prop_assert!(!text.chars().any(char::is_control), "{text:?}");
    }
}
