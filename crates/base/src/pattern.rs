//! Patterns for names.

/// A pattern for names: `*` matches any characters, `?` matches one character, every other character matches itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern(pub String);

impl Pattern {
    /// Returns whether the pattern matches the whole text. Does not allocate. The time is at most proportional to the
    /// product of both lengths.
    pub fn fits(&self, text: &str) -> bool {
        let (pattern, bytes) = (self.0.as_bytes(), text.as_bytes());
        let next = |at: usize| {
            at + text
                .get(at..)
                .and_then(|rest| rest.chars().next())
                .map_or(1, char::len_utf8)
        };
        let (mut p, mut t) = (0, 0);
        // Position of the last star, and the end of its current match, which is extended if the rest does not match.
        let mut star: Option<(usize, usize)> = None;
        while t < bytes.len() {
            match pattern.get(p) {
                Some(b'*') => {
                    star = Some((p, t));
                    p += 1;
                }
                Some(b'?') => {
                    p += 1;
                    t = next(t);
                }
                byte if byte.is_some() && byte == bytes.get(t) => {
                    p += 1;
                    t += 1;
                }
                _ => {
                    let Some((at, from)) = star else { return false };
                    let from = next(from);
                    star = Some((at, from));
                    p = at + 1;
                    t = from;
                }
            }
        }
        pattern.get(p..).unwrap_or_default().iter().all(|&byte| byte == b'*')
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pattern(text: &str) -> Pattern {
        Pattern(text.to_owned())
    }

    /// Scenario: patterns with and without wildcards are matched.
    /// Guarantee: `*` matches any characters, `?` matches one character, every other character matches itself; the
    /// whole text must match.
    #[test]
    fn wildcard_matches_characters() {
        for (wanted, text) in [
            ("a*c", "abbc"),
            ("a*c", "ac"),
            ("?b", "éb"),
            ("*", ""),
            ("*.dll", "x.dll"),
            ("a*b*c", "a1b2b3c"),
        ] {
            assert!(pattern(wanted).fits(text), "{wanted} {text}");
        }
        for (wanted, text) in [("a*c", "abcd"), ("?", ""), ("", "a"), ("a.c", "abc"), ("a*b*c", "acb")] {
            assert!(!pattern(wanted).fits(text), "{wanted} {text}");
        }
    }

    /// Matches by definition. Suitable for short texts.
    fn slow(pattern: &[char], text: &[char]) -> bool {
        match (pattern.split_first(), text.split_first()) {
            (None, rest) => rest.is_none(),
            (Some(('*', rest)), None) => slow(rest, text),
            (Some(('*', rest)), Some((_, tail))) => slow(rest, text) || slow(pattern, tail),
            (Some((c, rest)), Some((d, tail))) => (*c == '?' || c == d) && slow(rest, tail),
            (Some(_), None) => false,
        }
    }

    proptest! {
        /// Scenario: arbitrary patterns and texts consist of few letters.
        /// Guarantee: the result equals the result of the definition.
        #[test]
        fn pattern_matches_like_its_definition(wanted in "[ab*?]{0,8}", text in "[ab]{0,10}") {
            let by_definition = slow(&wanted.chars().collect::<Vec<_>>(), &text.chars().collect::<Vec<_>>());
            prop_assert_eq!(pattern(&wanted).fits(&text), by_definition);
        }
    }
}
