//! Tests of texts and the messages about them. [`laws`] contains properties of all texts.

mod facts;
mod grammar;
mod laws;
mod oracle;
mod texts;

use std::fmt::Write as _;
use std::{fs, thread};

use base::time::Moment;
use rule_engine::field::{ProcessFacts, Scope, StreamFacts};

use super::*;

const GC: [Root; 3] = [Root::Gc, Root::Process, Root::Stream];
const PROCESS: [Root; 2] = [Root::Process, Root::Stream];
const SUSPENSION: [Root; 1] = [Root::Suspension];

static NO_PARAMS: BTreeMap<String, Expression> = BTreeMap::new();

/// Units of the windows in the tests.
const UNITS: [Unit; 2] = [Unit::Share, Unit::Count];

/// Names that the texts of the tests can use in addition to fields.
struct TestNames {
    macros: BTreeMap<String, Macro>,
    lists: BTreeSet<String>,
    windows: BTreeMap<String, usize>,
}

impl TestNames {
    fn new() -> Self {
        let macros = [
            ("full_blocking", "gc.generation == 2 && gc.blocking"),
            ("low_or_high", "gc.pause_ms < 1.0 ||\n gc.pause_ms > 9.0"),
            ("wrong", "gc.blocking ||\n gc.pause_ms > 'x'"),
            ("around", "about && gc.blocking"),
            ("about", "around || gc.blocking"),
            ("never", "false"),
            ("either", "gc.blocking || gc.lossy"),
            ("limit_ms", "2.0 + 3.0"),
            ("induced", "['Induced', 'InducedNotForced']"),
            ("slip", "['Induced', 'Inducd']"),
            ("outdated", "gc.reason in old"),
        ];
        let windows = [("pause_share", 0), ("collections", 1)];
        let named = |(name, text): (&str, &str)| (name.to_owned(), parse_macro(text).unwrap());
        Self {
            macros: macros.into_iter().map(named).collect(),
            lists: BTreeSet::from(["old".to_owned()]),
            windows: windows
                .into_iter()
                .map(|(name, place)| (name.to_owned(), place))
                .collect(),
        }
    }

    fn names<'a>(&'a self, roots: &'a [Root]) -> Names<'a> {
        Names {
            macros: &self.macros,
            lists: &self.lists,
            windows: &self.windows,
            units: &UNITS,
            params: &NO_PARAMS,
            roots,
        }
    }
}

/// Compiles a text and returns the result as lines: `ok` with the type and the used names, followed by the warnings; or
/// the mistakes.
fn said(known: &TestNames, text: &str, roots: &[Root], wanted: RequiredType) -> String {
    let mut out = String::new();
    match compile(text, &known.names(roots), wanted) {
        Ok(compiled) => {
            write!(out, "ok: {}", compiled.expression.kind.name()).unwrap();
            for field in &compiled.fields {
                write!(out, ", {}", field.name).unwrap();
            }
            for name in known
                .windows
                .iter()
                .filter(|(_, place)| compiled.windows.contains(place))
            {
                write!(out, ", window {}", name.0).unwrap();
            }
            for name in &compiled.used {
                write!(out, ", with {name}").unwrap();
            }
            out.push('\n');
            for warning in &compiled.warnings {
                writeln!(out, "warning {warning}").unwrap();
            }
        }
        Err(mistakes) => {
            for mistake in &mistakes {
                writeln!(out, "{mistake}").unwrap();
            }
        }
    }
    out
}

/// Scenario: a page contains correct and incorrect texts. The word before `>` is the context: none for a condition on a
/// collection, `process` for a condition on a process, `stop` for a window over stops, `number` for a number, `any` for
/// any expression.
/// Guarantee: each text has the result below it. After an intended change, run with `GCWATCH_UPDATE_GOLDEN=1` and
/// review the difference.
#[test]
fn messages_match_golden_page() {
    let path = "crates/rule-language/tests/expressions.txt";
    let page = fs::read_to_string(test_support::repository(path)).unwrap();
    let known = TestNames::new();
    let mut now = String::new();
    for (index, block) in page.split("\n\n").enumerate() {
        let texts: Vec<(&str, &str)> = block
            .lines()
            .filter_map(|line| line.split_once('>'))
            .take_while(|(place, _)| place.len() < 8)
            .collect();
        let Some((place, _)) = texts.first().filter(|(place, _)| !place.starts_with('#')) else {
            now.push_str(block.trim_end());
            now.push_str("\n\n");
            continue;
        };
        let lines: Vec<&str> = texts
            .iter()
            .take_while(|(other, _)| other == place)
            .map(|(_, line)| line.strip_prefix(' ').unwrap_or(line))
            .collect();
        let text = lines.join("\n");
        let (roots, wanted): (&[Root], RequiredType) = match *place {
            "" => (&GC, RequiredType::Bool),
            "process" => (&PROCESS, RequiredType::Bool),
            "stop" => (&SUSPENSION, RequiredType::Bool),
            "number" => (&GC, RequiredType::Number),
            "any" => (&GC, RequiredType::Any),
            other => panic!("block {index}: unknown place {other:?}"),
        };
        for line in &lines {
            writeln!(now, "{}", format!("{place}> {line}").trim_end()).unwrap();
        }
        now.push_str(&said(&known, &text, roots, wanted));
        now.push('\n');
    }
    let now = format!("{}\n", now.trim_end());
    test_support::golden::compare(path, &now);
}

/// Scenario: 30 macros each use the previous macro twice; other macros are each nested deeper than the previous one.
/// Guarantee: both expressions are refused because they are too large. For the first expression, this is the only
/// mistake.
#[test]
fn macros_do_not_grow_without_bound() {
    let grown = |step: fn(&str) -> String| {
        let mut macros = BTreeMap::from([("m0".to_owned(), parse_macro("gc.blocking").unwrap())]);
        for number in 1..=30 {
            let text = step(&format!("m{}", number - 1));
            macros.insert(format!("m{number}"), parse_macro(&text).unwrap());
        }
        let known = TestNames::new();
        let names = Names {
            macros: &macros,
            ..known.names(&GC)
        };
        compile("m30", &names, RequiredType::Bool).unwrap_err()
    };
    let messages = |mistakes: &[Mistake]| mistakes.iter().map(ToString::to_string).collect::<Vec<_>>();
    let doubled = grown(|name| format!("({name} || gc.lossy) && ({name} || gc.compacting)"));
    assert!(
        messages(&doubled)[0].contains("too large after macro expansion"),
        "{doubled:?}"
    );
    assert_eq!(doubled.len(), 1);
    let deep = grown(|name| {
        format!(
            "((({name} ? gc.lossy : gc.compacting) ? gc.lossy : gc.blocking) ? gc.lossy : gc.elevation) ? gc.lossy : gc.complete"
        )
    });
    assert!(
        messages(&deep)[0].contains("too large after macro expansion"),
        "{deep:?}"
    );
}

/// Scenario: the deepest tree that nested macros can build is evaluated on a thread with an eighth of the usual stack.
/// Guarantee: the tree is evaluated, so compiled expressions need no large stack.
#[test]
fn deepest_tree_is_evaluated_on_small_stack() {
    let mut macros = BTreeMap::from([("m0".to_owned(), parse_macro("settings.server").unwrap())]);
    let (known, mut deepest) = (TestNames::new(), None);
    for number in 1..=MAX_DEPTH {
        let below = number - 1;
        let text = format!("!(settings.concurrent || m{below})");
        macros.insert(format!("m{number}"), parse_macro(&text).unwrap());
        let names = Names {
            macros: &macros,
            ..known.names(&PROCESS)
        };
        let text = format!("m{number}");
        match compile(&text, &names, RequiredType::Bool) {
            Ok(compiled) => deepest = Some((number, compiled.expression)),
            Err(_) => break,
        }
    }
    let (number, expression) = deepest.unwrap();
    assert!((30..MAX_DEPTH).contains(&number), "{number}");
    let thread = thread::Builder::new().stack_size(256 << 10).spawn(move || {
        let (process, stream) = (ProcessFacts::default(), StreamFacts::default());
        expression.holds(&Scope::new(&process, &stream, Moment::FIRST))
    });
    assert_eq!(thread.unwrap().join().unwrap(), Ok(None));
}

/// Scenario: texts have the maximum number of tokens and the deepest allowed nesting, in every form that makes the
/// parser recurse.
/// Guarantee: each text is compiled or refused on a stack of 512 KiB, a quarter of the usual stack, without an
/// overflow. No text is refused as too long.
#[test]
fn texts_at_the_bounds_are_read() {
    let chain = |operand: &str, operator: &str, words: usize| vec![operand; words].join(operator);
    let around = |open: &str, inner: &str, close: &str, count: usize| {
        format!("{}{inner}{}", open.repeat(count), close.repeat(count))
    };
    let texts = [
        format!("{} > 1", chain("1", " + ", 99)),
        format!("{} > 1", chain("1", " * ", 99)),
        chain("1", " < ", 100),
        chain("gc.lossy", " && ", 50),
        chain("a", " || ", 100),
        chain("a", ".", 100),
        format!("a{}", ".b()".repeat(49)),
        format!("a{}", "[1]".repeat(66)),
        around("(", "gc.lossy", ")", 32),
        around("[", "1", "]", 32),
        around("size(", "1", ")", 32),
        around("a[", "1", "]", 32),
        around("{1: ", "1", "}", 32),
        format!("{}c", "a ? b : ".repeat(32)),
        format!("{}gc.lossy", "!".repeat(197)),
        format!("{}1", "- ".repeat(199)),
        around("(!", "gc.lossy", ")", 32),
        format!(
            "{}{}{}",
            "((((((((".repeat(4),
            chain("1", " + ", 60),
            "))))))))".repeat(4)
        ),
        around("((a || b) && (", "c", "))", 14),
        format!("gc.reason in [{}]", chain("'a'", ", ", 97)),
        format!("a{}", "(".repeat(199)),
        "[".repeat(200),
        "{".repeat(200),
        // Each bracket contains operators of several levels.
        format!("{}a{}", "(a||a&&a<a+a*".repeat(15), ")".repeat(15)),
        format!("{}a{}", "a||a&&a<a+!(".repeat(17), ")".repeat(17)),
        format!("{}a{}", "f(a.b[".repeat(16), "])".repeat(16)),
    ];
    let known = TestNames::new();
    let outcomes = thread::scope(|scope| {
        let work = || {
            let names = known.names(&GC);
            texts.each_ref().map(|text| {
                assert!(text.len() <= MAX_TEXT, "{text}");
                match compile(text, &names, RequiredType::Any) {
                    Ok(_) => String::new(),
                    Err(mistakes) => mistakes[0].message.clone(),
                }
            })
        };
        let thread = thread::Builder::new().stack_size(512 << 10).spawn_scoped(scope, work);
        thread.unwrap().join().unwrap()
    });
    for (text, said) in texts.iter().zip(outcomes) {
        assert!(!said.contains("too long"), "{text}: {said}");
    }
}

/// Scenario: each text exceeds one bound: tokens, nesting or length.
/// Guarantee: each text is refused with one message that states the exceeded bound.
#[test]
fn texts_beyond_the_bounds_are_refused() {
    let first = |text: &str| parse_macro(text).unwrap_err().swap_remove(0).to_string();
    let words = vec!["1"; 101].join(" + ");
    assert_eq!(
        first(&words),
        "1:401: the expression is too long: more than 200 tokens; move parts of it to macros"
    );
    let deep = format!("{}a{}", "(".repeat(33), ")".repeat(33));
    assert_eq!(
        first(&deep),
        "1:33: nested too deeply: at most 32 nested brackets and `?`"
    );
    let choices = format!("{}c", "a ? b : ".repeat(33));
    assert_eq!(
        first(&choices),
        "1:259: nested too deeply: at most 32 nested brackets and `?`"
    );
    let long = format!("'{}'", "a".repeat(MAX_TEXT));
    assert_eq!(
        first(&long),
        "1:1: the expression is too long: 2050 bytes, at most 2048; move parts of it to macros"
    );
}

/// Scenario: a macro with `||` is used next to `&&` and under `!`, a macro with `+` is an operand of `*`, and a
/// constant macro is an operand of `||`.
/// Guarantee: the macro keeps its meaning regardless of the context.
#[test]
fn macro_keeps_its_meaning() {
    let known = TestNames::new();
    let names = known.names(&GC);
    let tree = |text| compile(text, &names, RequiredType::Any).unwrap().expression;
    assert_eq!(
        tree("gc.complete && either"),
        tree("gc.complete && (gc.blocking || gc.lossy)")
    );
    assert_eq!(tree("!either"), tree("!(gc.blocking || gc.lossy)"));
    assert_eq!(tree("gc.pause_ms > limit_ms * 2.0"), tree("gc.pause_ms > 10.0"));
    assert_eq!(tree("never || gc.lossy"), tree("gc.lossy"));
}
