//! Parses any text as the expression of a rule. The text is parsed, or refused with the positions of its mistakes; a
//! parsed expression can be evaluated.
#![no_main]

use std::collections::{BTreeMap, BTreeSet};

use libfuzzer_sys::fuzz_target;
use rule_engine::field::{ProcessFacts, Root, Scope, StreamFacts};
use rule_language::compile::{Names, RequiredType, compile, parse_macro};

fuzz_target!(|text: &str| {
    let mut macros = BTreeMap::new();
    // The text itself is also a macro, which can refer to itself.
    let texts = [("full", "gc.generation == 2 && gc.blocking"), ("self", text)];
    for (name, text) in texts {
        if let Ok(known) = parse_macro(text) {
            macros.insert(name.to_owned(), known);
        }
    }
    let names = Names {
        macros: &macros,
        lists: &BTreeSet::from(["induced".to_owned()]),
        windows: &BTreeMap::from([("share".to_owned(), 0)]),
        units: &[],
        params: &BTreeMap::new(),
        roots: &[Root::Gc, Root::Process, Root::Stream],
    };
    let compiled =
        [RequiredType::Bool, RequiredType::Number, RequiredType::Any].map(|wanted| compile(text, &names, wanted));
    let (process, stream) = (ProcessFacts::default(), StreamFacts::default());
    let scope = Scope {
        gc: None,
        suspension: None,
        process: &process,
        stream: &stream,
        windows: &[Some(0.5)],
        now: base::time::Moment::FIRST,
    };
    for outcome in compiled {
        match outcome {
            Ok(compiled) => {
                if let Ok(Some(value)) = compiled.expression.evaluate(&scope) {
                    assert_eq!(value.kind(), compiled.expression.kind);
                }
            }
            Err(mistakes) => {
                assert!(!mistakes.is_empty());
                for mistake in mistakes {
                    let line = text.split('\n').nth(mistake.line - 1).expect("a line of the text");
                    assert!(mistake.column >= 1 && mistake.column <= line.chars().count() + 1);
                }
            }
        }
    }
});
