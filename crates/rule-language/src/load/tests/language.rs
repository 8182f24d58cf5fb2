//! Tests of parameters, expiring exceptions, versions of services, roles, removed words, and macros as lists.

use std::sync::Arc;

use crate::load::{SourceFile, load};
use crate::test_file::{TestFile, run};

/// Returns the problems of an invalid file.
fn problems(text: &str) -> Vec<String> {
    let problems = load(&[SourceFile::new("a.yaml", text)]).unwrap_err();
    problems.iter().map(ToString::to_string).collect()
}

/// Checks that a rule file has no warnings and that its tests pass.
fn passes(rules: &str, tests: &str) {
    let source = |name: &str, text: &str| SourceFile::new(name, format!("apiVersion: gcwatch/v1\n{text}"));
    let loaded = load(&[source("a.yaml", rules)]).unwrap_or_else(|problems| panic!("{problems:#?}"));
    assert_eq!(loaded.warnings, []);
    let set = Arc::new(loaded.rules);
    let tests = source("a.test.yaml", &format!("rule_files: [a.yaml]\ntests:\n{tests}"));
    let file = TestFile::read(&tests.name, &tests.text).unwrap_or_else(|problems| panic!("{problems:#?}"));
    for test in &file.document.tests {
        let differences = run(test, &set, None);
        assert!(differences.is_empty(), "{}: {differences:?}", test.name);
    }
}

/// A rule with a parameter, and values for processes of several namespaces and services.
const PARAMS: &str = "\
rules:
  - id: shop.pause
    title: A long pause
    on: gc
    params: {limit_ms: 200, kind: gc}
    params_for:
      - select: process.attributes['k8s.namespace.name'] == 'batch'
        params: {limit_ms: 2000.5}
      - select: process.service.startsWith('report')
        params: {limit_ms: 1000}
    when: gc.pause_ms > limit_ms && kind == 'gc'
    severity: warning
    summary: 'longer than {{ limit_ms | ms }}'
    description: It is long.
    remedy: Look.
overrides:
  - id: shop.*
    add:
      params: {limit_ms: 300}
      params_for:
        - {select: process.service == 'report-large', params: {limit_ms: 1500}}
";

/// Scenario: a parameter has another value in a namespace and for some services, and a later override adds values. For
/// some processes neither the namespace nor the service is known.
/// Guarantee: each process has the first value that applies to it, values of the override before values of the rule; if
/// `select` is unknown, the value for all other processes applies.
#[test]
fn parameter_has_other_value_for_some_processes() {
    let test = |name: &str, attributes: &str, limit: &str, below: u32, above: u32| {
        format!(
            "  - name: {name}\n    process: {{attributes: {{{attributes}}}}}\n    events:\n      \
             - {{at: 1s, gc: {{generation: 2, type: blocking, pause_ms: {below}}}}}\n      \
             - {{at: 100s, gc: {{generation: 2, type: blocking, pause_ms: {above}}}}}\n    expect:\n      \
             - {{at: 2s, rule: shop.pause, state: inactive}}\n      \
             - {{at: 101s, rule: shop.pause, state: firing, summary: longer than {limit}}}\n"
        )
    };
    let tests = [
        test("no attribute is set", "", "300 ms", 290, 310),
        test("another service", "service.name: web", "300 ms", 290, 310),
        test("the namespace", "k8s.namespace.name: batch", "2 s", 1990, 2010),
        test("the service", "service.name: report-small", "1 s", 990, 1010),
        test("the override", "service.name: report-large", "1.5 s", 1490, 1510),
        test(
            "the first",
            "service.name: report-a, k8s.namespace.name: batch",
            "2 s",
            1990,
            2010,
        ),
    ];
    passes(PARAMS, &tests.concat());
}

/// Scenario: parameters contain mistakes.
/// Guarantee: each mistake is reported at its position with its remedy.
#[test]
fn mistakes_in_parameters_are_reported() {
    let text = "\
apiVersion: gcwatch/v1
macros: {induced: gc.reason == 'Induced'}
rules:
  - id: a
    title: T
    on: gc
    params: {limit: 200.0, full: true, induced: 1, unused: 2}
    params_for:
      - select: gc.pause_ms > 1.0
        params: {limit: 1.0}
      - select: process.name == 'a'
        params: {limt: 1.0, full: 5}
    let:
      limit: {fn: count, over: 1m}
    when: gc.pause_ms > limit && full && induced
    severity: info
    summary: S
    description: D
    remedy: R
";
    assert_eq!(
        problems(text),
        [
            "a.yaml:7:40: a: params: the file has a macro `induced`",
            "a.yaml:9:17: a: params_for.select: `gc.pause_ms` belongs to one collection, and none is available here (here: process.*, \
             settings.*, container.*); use a window over it, or a rule `on: gc`",
            "a.yaml:12:18: a: params_for: the rule has no parameter `limt`; did you mean `limit`?",
            "a.yaml:12:29: a: params_for: `full` is of type bool, but of type int here",
            "a.yaml:14:7: a: let: the rule has a parameter `limit`",
        ]
    );
}

/// Scenario: a rule that fires from the first collection has an exception by the number of collections, which expires.
/// Guarantee: the rule is excepted while the exception's condition is true, and fires when it is false and after the
/// exception has expired.
#[test]
fn exception_applies_until_it_expires() {
    let rules = "\
rules:
  - {id: shop.collects, title: Something was collected, on: process, severity: warning, let: {n: {fn: count, over: 1h}},
     when: n >= 1.0, summary: collected, description: It collects., remedy: Look.,
     exceptions: [{name: only one, when: n < 2.0, until: 2026-11-20}]}
";
    let test = |name: &str, start: &str, after_one: &str| {
        format!(
            "  - name: {name}\n    start: {start}\n    events:\n      - {{at: 1s, gc: {{generation: 0, type: blocking}}}}\n      \
             - {{at: 60s, gc: {{generation: 0, type: blocking}}}}\n    \
             until: 2m\n    expect:\n      - {{at: 50s, rule: shop.collects, state: {after_one}}}\n      \
             - {{at: 70s, rule: shop.collects, state: firing}}\n"
        )
    };
    let tests = [
        test("before it expires", "2026-11-20T23:50:00Z", "excepted"),
        test("after it expired", "2026-11-21T00:00:00Z", "firing"),
    ];
    passes(rules, &tests.concat());
}

/// Scenario: a test of a rule by version states the number of the service's processes, and the number of these
/// processes on which a rule fires. Another test omits the version.
/// Guarantee: the rule sees both numbers, and its window contains earlier numbers. Without a version, the rule is not
/// selected.
#[test]
fn test_states_facts_of_version() {
    let rules = "\
rules:
  - {id: a.long, title: A long pause, on: gc, severity: warning, when: gc.pause_ms > 200.0, summary: long,
     description: It is long., remedy: Look.}
  - id: a.version
    title: Several of a version
    on: service
    by: service.version
    let: {most: {fn: max, of: service.processes, over: 5m}}
    when: service.firing['a.long'] >= 2 && double(service.processes) < most
    severity: error
    summary: \"{{ service.firing['a.long'] }} of {{ process.attributes['service.version'] }}, {{ service.last_death }}\"
    description: They are long.
    remedy: Look.
";
    let tests = "  - name: two of three
    events:
      - {at: 1s, service: {version: '2.1', processes: 4, firing.a.long: 1}}
      - {at: 10s, service: {processes: 3}}
      - {at: 20s, service: {firing.a.long: 2, last_death: pid 7}}
    expect:
      - {at: 19s, rule: a.version, state: inactive}
      - {at: 21s, rule: a.version, state: firing, summary: '2 of 2.1, pid 7'}
    fires: [a.version]
  - name: the whole service is not its business
    events:
      - {at: 1s, service: {processes: 4, firing.a.long: 3}}
      - {at: 10s, service: {processes: 3}}
    expect:
      - {at: 12s, rule: a.version, state: not_selected}
    until: 1m
    fires: []
";
    passes(rules, tests);
}

/// Scenario: keys lack their role, a cause has another unit than its symptom, a cause explains a rule that is not a
/// symptom, a cause has a severity, a cause lacks `of` and `explains`, and a rule without a role lacks a severity.
/// Guarantee: each mistake is reported with its remedy.
#[test]
fn mistakes_in_roles_are_reported() {
    let text = "\
apiVersion: gcwatch/v1
rules:
  - {id: s, role: symptom, title: T, on: process, severity: info, when: stopped > 1.0, harm: stopped,
     let: {stopped: {fn: sum, of: gc.pause_ns, over: 1m}}, summary: S, description: D, remedy: R}
  - {id: c, role: cause, of: [s], title: T, on: process, when: kept > 1.0, explains: kept,
     let: {kept: {fn: newest, of: double(gc.heap_after), last: 1}}, summary: S, description: D, remedy: R}
  - {id: d, role: cause, of: [c, t], title: T, on: gc, when: gc.pause_ns > 1, explains: gc.pause_ns,
     summary: S, description: D, remedy: R}
  - {id: e, role: cause, of: [s], title: T, on: gc, severity: info, when: gc.pause_ns > 1, explains: gc.pause_ms,
     summary: S, description: D, remedy: R}
  - {id: f, title: T, on: gc, when: gc.pause_ns > 1, harm: gc.pause_ns, summary: S, description: D, remedy: R}
  - {id: g, role: cause, title: T, on: gc, when: gc.pause_ns > 1, summary: S, description: D, remedy: R}
";
    let found = problems(text).join("\n");
    for expected in [
        "e: explains: it is in ms; a harm is measured in ns, bytes, or bytes per hour (a slope)",
        "e: severity: a cause or a note is information; remove it",
        "f: harm: only rules `role: symptom` can have it",
        "f: severity is missing; only causes and notes can omit it",
        "g: of is missing: a cause explains symptoms",
        "g: explains is missing: a cause explains symptoms",
    ] {
        assert!(found.contains(expected), "{expected}\n{found}");
    }
    let rest: Vec<&str> = text.lines().collect();
    let found = problems(&rest[..8].join("\n")).join("\n");
    for expected in [
        "c: explains: it is in bytes, but the harm of `s` is in ns",
        "d: of: there is no symptom `c`; did you mean `s`?",
        "d: of: there is no symptom `t`; did you mean `s`?",
    ] {
        assert!(found.contains(expected), "{expected}\n{found}");
    }
}

/// Returns a rule with these lines of keys, and values for the other required keys. The text has five lines more than
/// `keys`.
fn rule(id: &str, keys: &str) -> String {
    let keys = keys.replace('\n', "\n    ");
    format!("  - id: {id}\n    {keys}\n    title: T\n    summary: S\n    description: D\n    remedy: R\n")
}

/// Loads files that are valid apart from removed words. Checks that there are no warnings and that no rule has an
/// exception. Returns the ids of the rules in force, and the errors of the parts that are left out.
fn without_removed(files: &[SourceFile]) -> (Vec<String>, Vec<String>) {
    let loaded = load(files).unwrap_or_else(|problems| panic!("{problems:#?}"));
    assert_eq!(loaded.warnings, []);
    assert!(loaded.rules.rules.iter().all(|rule| rule.exceptions.is_empty()));
    let ids = loaded.rules.rules.iter().map(|rule| rule.id.to_string());
    (ids.collect(), loaded.left_out.iter().map(ToString::to_string).collect())
}

/// Checks that there are as many errors as texts, and that each error starts with its text.
fn start_with(errors: &[String], starts: &[&str]) {
    assert_eq!(errors.len(), starts.len(), "{errors:#?}");
    for (error, start) in errors.iter().zip(starts) {
        assert!(error.starts_with(start), "{error}, not {start}");
    }
}

/// Scenario: a symptom uses a removed word and has another mistake. A cause explains this symptom, a rule counts the
/// processes on which the symptom fires, an override adds an exception with a removed key, and one rule is unrelated.
/// Guarantee: the symptom, the rule that counts its firings, and the override are left out. Each error is reported at
/// its position. The cause and the unrelated rule are in force.
#[test]
fn rule_with_removed_word_is_left_out() {
    let text = [
        "apiVersion: gcwatch/v1\nrules:\n",
        &rule(
            "a.old",
            "role: symptom\non: process\nseverity: info\nharm: y\n\
             let: {x: {fn: quantile, of: gc.pause_ns, over: 5m}, y: {fn: sum, of: gc.pause_ns, over: 5m}}\n\
             when: x > typo",
        ),
        &rule(
            "a.cause",
            "role: cause\nof: [a.old]\non: gc\nwhen: gc.lossy\nexplains: gc.pause_ns",
        ),
        &rule(
            "a.count",
            "on: service\nseverity: info\nwhen: service.firing['a.old'] >= 2",
        ),
        &rule("a.fine", "on: gc\nseverity: info\nwhen: gc.lossy"),
        "overrides:\n  - id: '*.fine'\n    add:\n      exceptions:\n        - name: n\n          \
         between: '22:00-04:00'\n          when: gc.lossy\n",
    ];
    let (ids, left_out) = without_removed(&[SourceFile::new("a.yaml", text.concat())]);
    assert_eq!(ids, ["a.cause", "a.fine"]);
    let starts = [
        "a.yaml:8:19: a.old: let.x.fn: `quantile` was removed: use `fn: ratio`",
        "a.yaml:9:15: a.old: when: unknown name `typo`",
        "a.yaml:27:11: a.count: service.firing: the rule `a.old` is left out",
        "a.yaml:45:11: overrides[0].add.exceptions[0]: `between` was removed: mute notifications",
    ];
    start_with(&left_out, &starts);
}

/// Scenario: a file has a rule with a removed word and a rule with another mistake.
/// Guarantee: the file is invalid, and both errors are reported.
#[test]
fn other_mistakes_make_file_invalid() {
    let text = [
        "apiVersion: gcwatch/v1\nrules:\n",
        &rule(
            "a",
            "on: gc\nseverity: info\nlet: {x: {fn: count, over: 1m, offset: 1h}}\nwhen: x > 1.0",
        ),
        &rule("b", "on: gc\nseverity: info\nwhen: gc.pausems > 1.0"),
    ];
    let starts = [
        "a.yaml:6:36: a: let.x: `offset` was removed",
        "a.yaml:15:11: b: when: unknown name `gc.pausems`",
    ];
    start_with(&problems(&text.concat()), &starts);
}

/// Scenario: a file has the removed section `lists`. One rule uses a list directly, one through a macro, and one in a
/// label. An override uses a list in an exception of a rule of another file.
/// Guarantee: exactly these rules and the override are left out, and each use is reported at its position. The rule of
/// the other file is in force without the exception.
#[test]
fn rules_with_removed_lists_are_left_out() {
    let text = [
        "apiVersion: gcwatch/v1\nlists: {usual: [Induced]}\nmacros: {expected: gc.reason in usual}\nrules:\n",
        &rule("b.direct", "on: gc\nseverity: info\nwhen: gc.reason in usual"),
        &rule("b.macro", "on: gc\nseverity: info\nwhen: gc.lossy && !expected"),
        &rule(
            "b.label",
            "on: gc\nseverity: info\nwhen: gc.lossy\nlabels: {is: '{{ gc.reason in usual }}'}",
        ),
        &rule("b.fine", "on: gc\nseverity: info\nwhen: gc.lossy"),
        "overrides:\n  - id: a.fine\n    add:\n      exceptions:\n        - {name: n, when: gc.reason in usual}\n",
    ];
    let other = [
        "apiVersion: gcwatch/v1\nrules:\n",
        &rule("a.fine", "on: gc\nseverity: info\nwhen: gc.lossy"),
    ];
    let files = [
        SourceFile::new("a.yaml", other.concat()),
        SourceFile::new("b.yaml", text.concat()),
    ];
    let (ids, left_out) = without_removed(&files);
    assert_eq!(ids, ["a.fine", "b.fine"]);
    let starts = [
        "b.yaml:2:1: `lists` was removed: a macro can be a list",
        "b.yaml:8:24: b.direct: when: `usual` is one of `lists`, which was removed: a macro can be a list",
        "b.yaml:16:24: b.macro: when: in macro `expected` (1:14): `usual` is one of `lists`",
        "b.yaml:25:35: b.label: labels.is: `usual` is one of `lists`",
        "b.yaml:42:40: a.fine: exceptions.n: `usual` is one of `lists`",
    ];
    start_with(&left_out, &starts);
}

/// Scenario: a macro is a list of strings.
/// Guarantee: a condition with `in` tests for these strings.
#[test]
fn macro_can_be_a_list() {
    let rules = "\
macros: {usual: \"['Induced', 'LowMemory']\"}
rules:
  - {id: a, title: T, on: gc, severity: info, when: gc.reason in usual, summary: S, description: D, remedy: R}
";
    let test = |reason: &str, fires: &str| {
        format!(
            "  - name: {reason}\n    events:\n      - {{at: 1s, gc: {{generation: 2, type: blocking, reason: {reason}}}}}\n    \
             fires: {fires}\n"
        )
    };
    passes(rules, &[test("LowMemory", "[a]"), test("AllocSmall", "[]")].concat());
}
