//! Changes to the text of one condition.

use std::ops::Range;

/// Returns one changed condition for each number and each direction, as description and text. A number is changed by 30
/// %, an integer by at least one. Zero is not changed.
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

/// Returns, for each part of an `&&` or `||`, the condition without this part, as description and text.
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

/// Returns one change per part if there are several parts. The part is removed with its operator.
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

/// Returns the parts of a range that an operator separates at the nesting level of the range.
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

/// Returns the characters outside quotes.
fn code(expression: &str) -> impl Iterator<Item = (usize, char)> + '_ {
    let mut quoted = false;
    expression.char_indices().filter(move |(_, letter)| {
        if *letter == '\'' {
            quoted = !quoted;
        }
        !quoted && *letter != '\''
    })
}

/// Returns the positions of numbers. Digits in names do not count.
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

/// Returns the comparison that contains the number.
fn around<'e>(expression: &'e str, range: &Range<usize>) -> &'e str {
    let from = expression[..range.start]
        .rfind(['&', '|', '(', '\n'])
        .map_or(0, |at| at + 1);
    let to = expression[range.end..]
        .find(['&', '|', ')', '\n'])
        .map_or(expression.len(), |at| range.end + at);
    expression[from..to].trim()
}

/// Scenario: a condition contains numbers, names with digits, strings, brackets and operators.
/// Guarantee: only numbers are changed, and only whole parts are removed.
#[test]
fn only_numbers_and_whole_parts_are_changed() {
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
