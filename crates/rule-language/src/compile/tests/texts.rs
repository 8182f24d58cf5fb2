//! Generates texts of expressions with correct types.

use proptest::prelude::*;
use proptest::sample;

/// Returns one of several texts, which are separated by spaces.
pub(super) fn one_of(texts: &str) -> BoxedStrategy<String> {
    sample::select(texts.split(' ').map(str::to_owned).collect::<Vec<_>>()).boxed()
}

pub(super) const ORDERS: [&str; 6] = ["==", "!=", "<", "<=", ">", ">="];

/// Generators of expressions as texts, one for each type, with a given depth.
pub(super) struct Texts {
    pub(super) truth: BoxedStrategy<String>,
    pub(super) int: BoxedStrategy<String>,
    pub(super) double: BoxedStrategy<String>,
    pub(super) text: BoxedStrategy<String>,
}

pub(super) fn texts(depth: u32) -> Texts {
    let truths = one_of("settings.server settings.concurrent true has(process.user) has(container.cpu_limit)");
    let ints = one_of(
        "0 2 -3 9223372036854775807 process.pid process.runtime_major settings.hard_limit container.memory_limit",
    );
    let doubles = one_of("0.0 2.5 -1e3 container.cpu_limit stream.lag_s pause_share collections");
    let words = one_of("'' 'a' \"ab\" r'b\u{e9}' process.user process.service process.attributes['x']");
    if depth == 0 {
        return Texts {
            truth: truths,
            int: ints,
            double: doubles,
            text: words,
        };
    }
    let below = texts(depth - 1);
    let (truth, int, double, text) = (&below.truth, &below.int, &below.double, &below.text);
    let order = || sample::select(ORDERS.to_vec());
    let equality = || sample::select(vec!["==", "!="]);
    let test = sample::select(vec!["contains", "startsWith", "endsWith"]);
    let choice = |this: &BoxedStrategy<String>| {
        (truth.clone(), this.clone(), this.clone()).prop_map(|(when, this, that)| format!("({when} ? {this} : {that})"))
    };
    let row = sample::select(vec!["&&", "||"]);
    let arithmetic = sample::select(vec!["+", "-", "*", "/", "%"]);
    let measures = sample::select(vec!["+", "-", "*"]);
    Texts {
        truth: prop_oneof![
            1 => truths,
            2 => (int.clone(), order(), int.clone()).prop_map(|(a, order, b)| format!("{a} {order} {b}")),
            2 => (double.clone(), order(), int.clone()).prop_map(|(a, order, b)| format!("{a} {order} {b}")),
            2 => (double.clone(), order(), double.clone()).prop_map(|(a, order, b)| format!("{a} {order} {b}")),
            2 => (text.clone(), order(), text.clone()).prop_map(|(a, order, b)| format!("{a} {order} {b}")),
            1 => (truth.clone(), equality(), truth.clone()).prop_map(|(a, order, b)| format!("({a}) {order} ({b})")),
            1 => (text.clone(), test, text.clone()).prop_map(|(a, test, b)| format!("{a}.{test}({b})")),
            1 => text.clone().prop_map(|a| format!("{a} in ['a', 'ab']")),
            4 => (truth.clone(), row, truth.clone()).prop_map(|(a, row, b)| format!("({a} {row} {b})")),
            2 => truth.clone().prop_map(|a| format!("!({a})")),
            1 => choice(truth),
        ]
        .boxed(),
        int: prop_oneof![
            2 => ints,
            2 => (int.clone(), arithmetic, int.clone()).prop_map(|(a, sign, b)| format!("({a} {sign} {b})")),
            1 => int.clone().prop_map(|a| format!("-({a})")),
            1 => text.clone().prop_map(|a| format!("size({a})")),
            1 => double.clone().prop_map(|a| format!("int({a})")),
            1 => choice(int),
        ]
        .boxed(),
        double: prop_oneof![
            2 => doubles,
            2 => (double.clone(), measures, double.clone()).prop_map(|(a, sign, b)| format!("({a} {sign} {b})")),
            1 => double.clone().prop_map(|a| format!("{a} / 2.0")),
            1 => double.clone().prop_map(|a| format!("-({a})")),
            1 => int.clone().prop_map(|a| format!("double({a})")),
            1 => choice(double),
        ]
        .boxed(),
        text: prop_oneof![3 => words, 1 => choice(text)].boxed(),
    }
}
