//! The changes to one condition, on its text.

use std::ops::Range;

/// The condition with each of its numbers 30 % larger and smaller, integers by one at least: what, and the text. Zero
/// stays.
pub(crate) fn moved(expression: &str) -> Vec<(String, String)> {
    let mut changes = Vec::new();
    for range in numbers(expression) {
        let text = &expression[range.clone()];
        let moved: Vec<String> = match text.parse::<i64>() {
            Ok(0) => Vec::new(),
            Ok(integer) => {
                let by = (integer * 3 / 10).max(1);
                vec![(integer + by).to_string(), (integer - by).to_string()]
            }
            Err(_) => match text.parse::<f64>() {
                Ok(number) if number > 0.0 => [1.3, 0.7]
                    .map(|by| format!("{:?}", (number * by * 1e9).round() / 1e9))
                    .to_vec(),
                _ => Vec::new(),
            },
        };
        for number in moved {
            let mut other = expression.to_owned();
            other.replace_range(range.clone(), &number);
            changes.push((format!("{text} -> {number} in `{}`", around(expression, &range)), other));
        }
    }
    changes
}

/// The condition without each part of an `&&` or `||`: what, and the text.
pub(crate) fn shorter(expression: &str) -> Vec<(String, String)> {
    let mut groups = Vec::from([Range {
        start: 0,
        end: expression.len(),
    }]);
    let mut open = Vec::new();
    for (at, letter) in code(expression) {
        match letter {
            '(' => open.push(at + 1),
            ')' => groups.extend(open.pop().map(|from| from..at)),
            _ => {}
        }
    }
    let mut changes = Vec::new();
    for group in groups {
        let alternatives = parts(expression, group, "||");
        changes.extend(without(expression, &alternatives));
        for alternative in alternatives {
            changes.extend(without(expression, &parts(expression, alternative, "&&")));
        }
    }
    changes
}

/// One change for each part, if there are several: it is left out with the operator beside it.
fn without(expression: &str, parts: &[Range<usize>]) -> Vec<(String, String)> {
    if parts.len() < 2 {
        return Vec::new();
    }
    let leave = |(place, part): (usize, &Range<usize>)| {
        let gone = match place {
            0 => part.start..parts[1].start,
            _ => parts[place - 1].end..part.end,
        };
        let mut other = expression.to_owned();
        other.replace_range(gone, "");
        (format!("without `{}`", expression[part.clone()].trim()), other)
    };
    parts.iter().enumerate().map(leave).collect()
}

/// The parts between an operator, at the depth of the range itself.
fn parts(expression: &str, range: Range<usize>, operator: &str) -> Vec<Range<usize>> {
    let mut parts = Vec::new();
    let (mut depth, mut from) = (0, range.start);
    for (at, letter) in code(expression).filter(|(at, _)| range.contains(at)) {
        match letter {
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            _ if depth == 0 && at >= from && expression[at..].starts_with(operator) => {
                parts.push(from..at);
                from = at + operator.len();
            }
            _ => {}
        }
    }
    parts.push(from..range.end);
    parts
}

/// The letters outside of quotes.
fn code(expression: &str) -> impl Iterator<Item = (usize, char)> + '_ {
    let mut quoted = false;
    expression.char_indices().filter(move |(_, letter)| {
        if *letter == '\'' {
            quoted = !quoted;
        }
        !quoted && *letter != '\''
    })
}

/// Where the numbers are; digits of a name are none.
fn numbers(expression: &str) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    let mut before = ' ';
    let mut last = 0;
    for (at, letter) in code(expression) {
        let word = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == '.';
        let follows = at == last + 1;
        match found.last_mut() {
            Some(number) if follows && number.end == at && (letter.is_ascii_digit() || letter == '.') => {
                number.end = at + 1;
            }
            _ if letter.is_ascii_digit() && !(follows && word(before)) => found.push(at..at + 1),
            _ => {}
        }
        (before, last) = (letter, at);
    }
    found
}

/// The comparison that the number is in.
fn around<'e>(expression: &'e str, range: &Range<usize>) -> &'e str {
    let from = expression[..range.start]
        .rfind(['&', '|', '(', '\n'])
        .map_or(0, |at| at + 1);
    let to = expression[range.end..]
        .find(['&', '|', ')', '\n'])
        .map_or(expression.len(), |at| range.end + at);
    expression[from..to].trim()
}

/// Scenario: a condition with numbers, names with digits, strings, brackets and operators.
/// Guarantee: numbers alone are moved, and parts are left out whole.
#[test]
fn conditions_are_changed_where_it_matters() {
    let texts = |changes: Vec<(String, String)>| changes.into_iter().map(|(_, text)| text).collect::<Vec<_>>();
    assert_eq!(
        texts(moved("gc.heap.gen0.after > 10 && a > 0.5 && b == '7'")),
        [
            "gc.heap.gen0.after > 13 && a > 0.5 && b == '7'",
            "gc.heap.gen0.after > 7 && a > 0.5 && b == '7'",
            "gc.heap.gen0.after > 10 && a > 0.65 && b == '7'",
            "gc.heap.gen0.after > 10 && a > 0.35 && b == '7'",
        ]
    );
    assert_eq!(
        texts(shorter("a && (b || 'x || y' in c)")),
        [" (b || 'x || y' in c)", "a ", "a && ( 'x || y' in c)", "a && (b )"]
    );
}
