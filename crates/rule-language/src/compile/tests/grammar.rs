//! Tests that compare the parser with the crate `cel`, on texts of the CEL grammar.

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use proptest::{collection, sample};

use super::oracle::{Reading, read};
use crate::compile::parser::parse;

/// Starts of the messages about texts that are refused although `cel` accepts them, in addition to unsupported
/// constructs, with the reason.
const OWN_REFUSALS: [&str; 6] = [
    // Bounds.
    "the expression is too long",
    "nested too deeply",
    // `!-5`, which has no meaning.
    "`!` and `-` do not follow each other",
    // A name in CEL, but in rules probably meant as `!`.
    "unexpected `not`; write `!`",
    // `.a`: a name relative to the root, which rules do not support.
    "unexpected `.` here; an operand is expected",
    // `[,]`, which is an empty list in CEL.
    "unexpected `,` here; an operand is expected",
];

/// Checks that the parser and `cel` have the same result for a text.
fn check(text: &str) -> Result<(), TestCaseError> {
    match (parse(text), read(text)) {
        (Ok(ours), Reading::Tree(theirs)) => prop_assert_eq!(ours, theirs, "{:?}", text),
        (Ok(ours), theirs) => prop_assert!(false, "{:?} is {:?}, and for cel {:?}", text, ours, theirs),
        (Err(_), Reading::No) => {}
        (Err(mistakes), theirs) => {
            let is_ours = mistakes.iter().any(|mistake| {
                let mut beginnings = OWN_REFUSALS.iter();
                beginnings.any(|beginning| mistake.message.starts_with(beginning))
            });
            match theirs {
                _ if is_ours => {}
                Reading::Refused(theirs) => {
                    let all = theirs.iter().all(|mistake| mistakes.contains(mistake));
                    prop_assert!(all, "{:?} is {:?}, and for cel {:?}", text, mistakes, theirs);
                }
                theirs => prop_assert!(false, "{:?} is {:?}, and for cel {:?}", text, mistakes, theirs),
            }
        }
    }
    Ok(())
}

type WordList = Vec<String>;

/// Returns one of several words, which are separated by spaces.
fn words(words: &str) -> BoxedStrategy<WordList> {
    sample::select(words.split(' ').map(one).collect::<Vec<_>>()).boxed()
}

/// Concatenates tokens and parts: `f(a, b)` is `["f", "(", a, ",", b, ")"]`.
macro_rules! row {
    ($($part:expr),* $(,)?) => {{
        let mut row: WordList = Vec::new();
        $(row.extend($part);)*
        row
    }};
}

fn one(word: &str) -> WordList {
    vec![word.to_owned()]
}

const NAMES: &str = "a gc x1 _ has b r inside truth";

/// Literals that rules support.
const LITERALS: &str = "\
    true false 0 7 007 0x1F 0xdeadBEEF 9223372036854775807 0x7fffffffffffffff 1.5 0.0 .5 1e3 1E+2 1.5e-3 .5e10 \
    5e-324 1e-999 123456789012345678901234567890.0 '' 'a' \"a'b\" '\\n\\t\\\\\\'\\?\\`\\a\\b\\f\\r\\v' \
    '\\x41\\X42\\u00e9\\U0001F600\\101' '\\377' '\u{e9}\u{1F600}' r'\\n' R\"\\\" r'''a'\n'b''' '''a\r\nb\rc''' \
    \"\"\"a\"b\\\"\"\"\" '''''' r''";

/// Literals that rules do not support, and texts that look like literals.
const UNSUPPORTED_LITERALS: &str = "\
    null 9223372036854775808 9223372036854775809 0x8000000000000000 0x8000000000000001 1u 0xFFU \
    18446744073709551615u 18446744073709551616u 1e999 '\\ud800' '\\U00110000' '\\400' '\\q' '''a 'a\nb' b'abc' \
    br'\\x' rb'a' rr'a' B\"\\xff\" b'''\u{e9}'''";

const OPERATORS: &str = "|| && == != < <= > >= in + - * / %";

/// Returns any expression as tokens.
fn expression() -> BoxedStrategy<WordList> {
    let odd = prop_oneof![3 => words(UNSUPPORTED_LITERALS), 1 => words("if not in")];
    let leaf = prop_oneof![60 => words(NAMES), 60 => words(LITERALS), 1 => odd];
    let tree = leaf.prop_recursive(6, 60, 3, |inner| {
        let name = || words(NAMES);
        let operator = words(OPERATORS);
        let many = || collection::vec(inner.clone(), 0..4).prop_map(|parts| parts.join(&",".to_owned()));
        let signs = || (words("! -"), 1..4_usize).prop_map(|(sign, count)| vec![sign; count].concat());
        prop_oneof![
            24 => (inner.clone(), operator, inner.clone()).prop_map(|(a, sign, b)| row![a, sign, b]),
            6 => (signs(), inner.clone()).prop_map(|(signs, a)| row![signs, a]),
            12 => inner.clone().prop_map(|a| row![one("("), a, one(")")]),
            3 => (inner.clone(), name()).prop_map(|(a, name)| row![a, one("."), name]),
            6 => (name(), many()).prop_map(|(name, a)| row![name, one("("), a, one(")")]),
            3 => (inner.clone(), name(), many()).prop_map(|(a, name, b)| row![a, one("."), name, one("("), b, one(")")]),
            3 => (inner.clone(), inner.clone()).prop_map(|(a, b)| row![a, one("["), b, one("]")]),
            3 => (many(), any::<bool>()).prop_map(|(a, comma)| row![one("["), a, comma.then(|| ",".to_owned()), one("]")]),
            4 => (inner.clone(), inner.clone(), inner.clone())
                .prop_map(|(a, b, c)| row![a, one("?"), b, one(":"), c]),
            1 => (inner.clone(), inner.clone()).prop_map(|(a, b)| row![one("{"), a, one(":"), b, one("}")]),
            1 => (inner.clone(), inner.clone()).prop_map(|(a, b)| row![a, one("{"), one("x"), one(":"), b, one("}")]),
        ]
    });
    tree.boxed()
}

const SPACE: [&str; 8] = ["", "", " ", " ", "  ", "\n", "\t\r\n\u{c}", " // a (b\n"];

const OTHER_TOKENS: &str = "( ) [ ] { } , . ? : ! - & = ` ' \" not in true 5ms \u{2264}";

/// A change to the tokens of an expression that usually makes it invalid.
#[derive(Debug, Clone)]
enum Change {
    Remove(sample::Index),
    Double(sample::Index),
    Insert(sample::Index, String),
    Swap(sample::Index, sample::Index),
}

fn change() -> impl Strategy<Value = Change> {
    let index = any::<sample::Index>;
    let further = prop_oneof![words(OTHER_TOKENS), words(OPERATORS), words(UNSUPPORTED_LITERALS)]
        .prop_map(|mut words| words.remove(0));
    prop_oneof![
        index().prop_map(Change::Remove),
        index().prop_map(Change::Double),
        (index(), further).prop_map(|(at, word)| Change::Insert(at, word)),
        (index(), index()).prop_map(|(a, b)| Change::Swap(a, b)),
    ]
}

fn changed(mut words: WordList, changes: Vec<Change>) -> WordList {
    for change in changes {
        if words.is_empty() {
            break;
        }
        let count = words.len();
        match change {
            Change::Remove(at) => {
                words.remove(at.index(count));
            }
            Change::Double(at) => {
                let at = at.index(count);
                words.insert(at, words[at].clone());
            }
            Change::Insert(at, word) => words.insert(at.index(count), word),
            Change::Swap(a, b) => words.swap(a.index(count), b.index(count)),
        }
    }
    words
}

fn spaced(words: &[String], space: &[&str]) -> String {
    let space = space.iter().cycle();
    words
        .iter()
        .zip(space)
        .map(|(word, space)| format!("{word}{space}"))
        .collect()
}

fn space() -> impl Strategy<Value = Vec<&'static str>> {
    prop_oneof![
        Just(vec![" "]),
        Just(vec![""]),
        collection::vec(sample::select(SPACE.to_vec()), 1..12),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    /// Scenario: expressions use all literals and operators of the CEL grammar, with and without spaces, brackets and
    /// comments.
    /// Guarantee: each expression has the same tree and positions as in the crate `cel`, or is refused because of a
    /// construct that rules do not support.
    #[test]
    fn expressions_match_cel(words in expression(), space in space()) {
        check(&spaced(&words, &space))?;
    }

    /// Scenario: tokens of the same expressions are removed, doubled, inserted and swapped.
    /// Guarantee: the parser and `cel` reject the same texts, except for texts that only rules refuse
    /// ([`OWN_REFUSALS`]).
    #[test]
    fn invalid_expressions_match_cel(
        words in expression(),
        changes in collection::vec(change(), 1..4),
        space in space(),
    ) {
        check(&spaced(&changed(words, changes), &space))?;
    }

    /// Scenario: the parser reads any text, and any sequence of tokens.
    /// Guarantee: the parser and `cel` have the same result, except for texts that only rules refuse
    /// ([`OWN_REFUSALS`]).
    #[test]
    fn any_text_matches_cel(
        text in prop_oneof![
            "\\PC{0,40}",
            "[ -~\n\u{e9}]{0,40}",
            "[a-c0-9.uxeE'\"\\\\()!-]{0,12}",
            collection::vec(prop_oneof![words(OTHER_TOKENS), words(OPERATORS), words(NAMES), words(LITERALS), words(UNSUPPORTED_LITERALS)], 0..12)
                .prop_map(|words| words.concat().join(" ")),
        ]
    ) {
        check(&text)?;
    }
}

/// Scenario: some of the expressions of the properties above are parsed.
/// Guarantee: at least 100 of 300 expressions are valid, because the properties would prove little otherwise.
#[test]
fn most_generated_expressions_are_valid() {
    let mut runner = TestRunner::deterministic();
    let read = (0..300)
        .filter(|_| {
            let words = expression().new_tree(&mut runner).unwrap().current();
            parse(&words.join(" ")).is_ok()
        })
        .count();
    assert!((100..290).contains(&read), "{read} of 300");
}

/// Scenario: every literal and every operator is used by itself, and literals with one and with two minus signs.
/// Guarantee: each has the same meaning as in the crate `cel`.
#[test]
fn tokens_match_cel() {
    for literal in LITERALS.split(' ').chain(UNSUPPORTED_LITERALS.split(' ')) {
        for sign in ["", "-", "--", "---", "- ", "!", "!!", "a - ", "a -", "1--"] {
            check(&format!("{sign}{literal}")).unwrap();
            check(&format!("{sign}{literal}.x(a)[0]")).unwrap();
        }
    }
    for first in OPERATORS.split(' ') {
        for second in OPERATORS.split(' ') {
            check(&format!("a {first} b {second} c")).unwrap();
            check(&format!("!a {first} -b {second} c ? d : e")).unwrap();
        }
    }
    for word in super::super::parser::RESERVED {
        for text in [
            format!("{word} > 1"),
            format!("{word}(1)"),
            format!("a.{word}"),
            format!("a.{word}()"),
        ] {
            check(&text).unwrap();
        }
    }
}
