//! Words that cannot stand where they do: what is said of a text that is no expression.

use super::Parser;
use crate::compile::Mistake;
use crate::compile::token::{Kind, Token};

/// What is open where an operator could come.
#[derive(Debug, Clone, Copy)]
pub(super) enum Open<'a> {
    /// Nothing but the text.
    Text,
    /// `?` without its `:`.
    Choice,
    /// This bracket.
    Bracket(Token<'a>),
}

impl<'a> Parser<'a, '_> {
    /// What is said where the text ends too early.
    pub(super) fn ends_after(&self, word: &str, missing: &str) -> Mistake {
        let message = format!("the expression ends after `{word}`; {missing} is missing");
        self.mistake(self.end(), message)
    }

    /// What is said of a word that cannot stand here.
    pub(super) fn unexpected(&self, token: Token<'_>, what: &str) -> Mistake {
        self.mistake(token.at, format!("unexpected `{}` here; {what}", token.text))
    }

    /// What is said of the next word, where an operator had to come, or the end of what is open.
    pub(super) fn misplaced(&self, open: Open<'a>) -> Mistake {
        let Some(token) = self.peek() else {
            return match open {
                Open::Text | Open::Choice => self.mistake(self.end(), CHOICE),
                Open::Bracket(bracket) => {
                    let (opening, closing) = (bracket.text, closing(bracket));
                    let message = format!("`{opening}` is not closed: `{closing}` is missing");
                    self.mistake(bracket.at, message)
                }
            };
        };
        let word = token.text;
        let after_number = self
            .before()
            .is_some_and(|before| before.kind == Kind::Number && before.at + before.text.len() == token.at);
        let message = match (token.kind, word, open) {
            (_, ")" | "]" | "}" | ",", Open::Choice) => CHOICE.to_owned(),
            (_, ")" | "]" | "}", Open::Text) => format!("`{word}` closes nothing"),
            (_, ")" | "]" | "}", Open::Bracket(bracket)) => {
                let (opening, closing) = (bracket.text, closing(bracket));
                format!("unexpected `{word}`; `{closing}` is missing: `{opening}` is open")
            }
            (_, "?", _) => {
                return self.unexpected(token, "a choice between `?` and `:` has to stand in round brackets");
            }
            (_, ":", _) => return self.unexpected(token, "no `?` stands before it"),
            (_, "and" | "AND", _) => format!("unexpected `{word}`; write `&&`"),
            (_, "or" | "OR", _) => format!("unexpected `{word}`; write `||`"),
            (_, "not" | "is", _) => format!("unexpected `{word}`; write `==` or `!=`"),
            (Kind::Name, _, _) if after_number => format!(
                "unexpected `{word}` after a number: numbers have no units; a field's name says its own (`_ms`, `_ns`)"
            ),
            _ => return self.unexpected(token, "an operator such as `&&` is expected"),
        };
        self.mistake(token.at, message)
    }
}

const CHOICE: &str = "`:` is missing: a choice is `condition ? this : that`";

/// The bracket that closes another one.
pub(super) fn closing(bracket: Token<'_>) -> &'static str {
    match bracket.text {
        "(" => ")",
        "[" => "]",
        _ => "}",
    }
}
