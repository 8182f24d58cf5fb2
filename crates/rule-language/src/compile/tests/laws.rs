//! Properties that hold for every text.

use cel::Program;
use proptest::prelude::*;
use proptest::{collection, sample};
use rule_engine::value::Value;

use super::facts::{Facts, facts};
use super::oracle::on_large_stack;
use super::texts::{one_of, texts};
use super::{GC, TestNames};
use crate::compile::check::check;
use crate::compile::{CompiledExpression, MAX_TEXT, Mistake, RequiredType, compile, parser};

/// Compiles a text without the checks of units and of names of attributes.
fn plainly(text: &str) -> Result<CompiledExpression, Vec<Mistake>> {
    let known = TestNames::new();
    let tree = parser::parse(text)?;
    check(text, &tree, &known.names(&GC), RequiredType::Any, false)
}

/// Returns whether generated texts can have this mistake: constants that cannot be computed, and limits.
fn is_of_constants(mistake: &Mistake) -> bool {
    ["divides by zero", "division by zero", "64 bits", "too long"]
        .iter()
        .any(|part| mistake.message.contains(part))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    /// Scenario: expressions of every form and depth are evaluated on processes with many or few known facts.
    /// Guarantee: the result equals the result of the crate `cel`. If `cel` has no value (a missing name, a sum beyond
    /// 64 bits), the result is unknown or an error. Integers of more than 53 bits are excepted, because `cel` rounds
    /// them in comparisons with doubles.
    #[test]
    fn values_are_those_of_cel(
        text in texts(4).truth.prop_union(texts(3).int).or(texts(3).double),
        facts in collection::vec(facts(), 4),
    ) {
        let compiled = match plainly(&text) {
            Ok(compiled) => compiled,
            Err(mistakes) => {
                prop_assert!(mistakes.iter().all(is_of_constants), "{text}: {mistakes:?}");
                return Ok(());
            }
        };
        let program = on_large_stack(|| Program::compile(&text)).unwrap();
        for facts in facts {
            let theirs = program.execute(&facts.context()).ok();
            facts.evaluate(|scope| {
                let ours = compiled.expression.evaluate(scope).unwrap_or(None);
                let ours = ours.map(|value| match value {
                    Value::Bool(truth) => cel::Value::Bool(truth),
                    Value::Int(number) => cel::Value::Int(number),
                    Value::Double(number) => cel::Value::Float(number),
                    Value::Text(text) => cel::Value::from(text),
                    Value::Texts(_) => cel::Value::Null,
                });
                // `cel` rounds an integer of more than 53 bits when it compares it with a double. Rules compare
                // exactly, as the language specifies.
                let rounded = text.contains("9223372036854775807") || facts.is_huge();
                prop_assert!(ours == theirs || rounded, "{text} on {facts:?}: {ours:?}, not {theirs:?}");
                Ok(())
            })?;
        }
    }

    /// Scenario: conditions of every form and depth are formatted from their trees, as in messages, and parsed again.
    /// Guarantee: the parsed condition equals the original condition.
    #[test]
    fn formatted_expression_is_unchanged(text in texts(4).truth) {
        if let Ok(compiled) = plainly(&text) {
            let again = parser::parse(&text).unwrap().to_string();
            let expression = plainly(&again).map(|compiled| compiled.expression);
            prop_assert_eq!(expression, Ok(compiled.expression), "{}", again);
        }
    }

    /// Scenario: conditions consist of parts that are true, false or unknown.
    /// Guarantee: `!`, `&&`, `||` and choices follow the three-valued logic of Kleene.
    #[test]
    fn unknown_is_a_third_value(formula in formula(), facts in facts()) {
        let compiled = plainly(&formula.text()).unwrap();
        let truth = facts.evaluate(|scope| compiled.expression.holds(scope));
        prop_assert_eq!(truth, Ok(formula.truth(&facts)), "{}", formula.text());
    }

    /// Scenario: the compiler reads any text, and any sequence of tokens of the language.
    /// Guarantee: the text is accepted or refused, and the position of every mistake is inside the text.
    #[test]
    fn any_text_is_read_or_refused(
        text in prop_oneof![
            "\\PC{0,60}",
            "[ -~\n\u{e9}]{0,60}",
            collection::vec(one_of(WORDS), 0..40).prop_map(|words| words.join(" ")),
            collection::vec(one_of(WORDS), 0..20).prop_map(|words| words.concat()),
        ]
    ) {
        let known = TestNames::new();
        let names = known.names(&GC);
        for wanted in [RequiredType::Bool, RequiredType::Number, RequiredType::Any] {
            if let Err(mistakes) = compile(&text, &names, wanted) {
                prop_assert!(!mistakes.is_empty());
                for mistake in mistakes {
                    let line = text.split('\n').nth(mistake.line - 1).unwrap_or("");
                    prop_assert!(mistake.column >= 1 && mistake.column <= line.chars().count() + 1, "{text:?}: {mistake}");
                    prop_assert!(text.len() <= MAX_TEXT && !mistake.message.is_empty());
                }
            }
        }
    }
}

/// Tokens of the language, separated by spaces.
const WORDS: &str = "\
    gc . pause_ms gc.pause_ms gc.reason gc.blocking gc.generation gc.condemned_reasons process.attributes \
    pause_share induced full_blocking around wrong 1 2.5 0 'Induced' 'a \" r'\\' true null in ( ) [ ] { } && \
    || ! - + * / % == != < >= ? : , has( size( .matches('a(')";

/// A condition on the four boolean settings.
#[derive(Debug, Clone)]
enum Formula {
    Leaf(&'static str),
    Not(Box<Self>),
    All(Vec<Self>),
    Any(Vec<Self>),
    Choice(Box<[Self; 3]>),
}

fn formula() -> impl Strategy<Value = Formula> {
    let names = vec!["server", "concurrent", "large_pages", "dynamic_adaptation"];
    sample::select(names)
        .prop_map(Formula::Leaf)
        .prop_recursive(4, 30, 4, |inner| {
            prop_oneof![
                inner.clone().prop_map(|formula| Formula::Not(Box::new(formula))),
                collection::vec(inner.clone(), 2..5).prop_map(Formula::All),
                collection::vec(inner.clone(), 2..5).prop_map(Formula::Any),
                [inner.clone(), inner.clone(), inner].prop_map(|parts| Formula::Choice(Box::new(parts))),
            ]
        })
}

impl Formula {
    fn text(&self) -> String {
        let joined = |parts: &[Self], sign| {
            let parts: Vec<String> = parts.iter().map(Self::text).collect();
            format!("({})", parts.join(sign))
        };
        match self {
            Self::Leaf(name) => format!("settings.{name}"),
            Self::Not(inner) => format!("!({})", inner.text()),
            Self::All(parts) => joined(parts, " && "),
            Self::Any(parts) => joined(parts, " || "),
            Self::Choice(parts) => format!("({} ? {} : {})", parts[0].text(), parts[1].text(), parts[2].text()),
        }
    }

    /// Returns the value by definition. False is the smallest value, true is the largest, and unknown is between them:
    /// `&&` is the minimum of its parts, and `||` is the maximum.
    fn truth(&self, facts: &Facts) -> Option<bool> {
        let rank = |truth: Option<bool>| match truth {
            Some(false) => 0,
            None => 1,
            Some(true) => 2,
        };
        let values = |parts: &[Self]| parts.iter().map(|part| part.truth(facts)).collect::<Vec<_>>();
        match self {
            Self::Leaf(name) => facts.setting(name),
            Self::Not(inner) => inner.truth(facts).map(|truth| !truth),
            Self::All(parts) => values(parts).into_iter().min_by_key(|truth| rank(*truth))?,
            Self::Any(parts) => values(parts).into_iter().max_by_key(|truth| rank(*truth))?,
            Self::Choice(parts) => match parts[0].truth(facts)? {
                true => parts[1].truth(facts),
                false => parts[2].truth(facts),
            },
        }
    }
}
