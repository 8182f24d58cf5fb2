//! The order of words: what is said of a text that is no expression.
//!
//! The parser's own messages name tokens of its grammar. So it is looked at here first whether an operand or an operator may come, and
//! which bracket is open. What gets past is parsed; the few texts that the grammar still refuses get a short message.

use super::token::{Kind, Token};
use super::{MAX_NESTING, Mistake};

/// What a bracket encloses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Inside {
    /// The whole text.
    Nothing,
    /// `(a)`
    Group,
    /// `f(a, b)`
    Call,
    /// `[a, b]`
    List,
    /// `a[b]`
    Index,
    /// `{a: b}`
    Map,
}

/// A bracket that is open.
#[derive(Debug, Clone, Copy)]
struct Open<'a> {
    inside: Inside,
    bracket: Token<'a>,
    /// `?` whose `:` has not come.
    choices: usize,
    /// `?` so far: each makes the tree deeper.
    depth: usize,
}

impl Open<'_> {
    fn closing(&self) -> &'static str {
        match self.inside {
            Inside::Nothing => "",
            Inside::Group | Inside::Call => ")",
            Inside::List | Inside::Index => "]",
            Inside::Map => "}",
        }
    }

    fn has_commas(&self) -> bool {
        matches!(self.inside, Inside::Call | Inside::List | Inside::Map)
    }
}

/// Looks at the order of words.
///
/// # Errors
///
/// The first word that cannot stand where it does, a bracket that is not closed, or brackets too deep.
pub(super) fn check_order(text: &str, tokens: &[Token<'_>]) -> Result<(), Mistake> {
    Order {
        text,
        operand: true,
        open: Vec::new(),
        before: None,
        sign: None,
    }
    .run(tokens)
}

struct Order<'a> {
    text: &'a str,
    /// An operand has to come; else an operator or the end.
    operand: bool,
    open: Vec<Open<'a>>,
    before: Option<Token<'a>>,
    /// The sign that stands before, `!` or `-`.
    sign: Option<&'a str>,
}

impl<'a> Order<'a> {
    fn run(mut self, tokens: &[Token<'a>]) -> Result<(), Mistake> {
        self.open.push(Open {
            inside: Inside::Nothing,
            bracket: Token {
                kind: Kind::Symbol,
                text: "",
                at: 0,
            },
            choices: 0,
            depth: 0,
        });
        for &token in tokens {
            let was_operand = self.operand;
            let step = if was_operand {
                self.operand(token)
            } else {
                self.operator(token)
            };
            step.map_err(|message| Mistake::at(self.text, token.at, message))?;
            let depth: usize = self.open.iter().map(|open| open.depth + 1).sum();
            if depth > MAX_NESTING + 1 {
                let message = format!("nested too deep: at most {MAX_NESTING} brackets and `?` in each other");
                return Err(Mistake::at(self.text, token.at, message));
            }
            // A sign before an operand; between two it is an operator.
            self.sign = (was_operand && matches!(token.text, "!" | "-")).then_some(token.text);
            self.before = Some(token);
        }
        self.end()
    }

    fn end(&self) -> Result<(), Mistake> {
        let end = self.text.trim_end().len();
        let dot = self.before.is_some_and(|before| before.text == ".");
        if self.operand || dot {
            let message = match self.before {
                None => "the expression is empty".to_owned(),
                Some(before) => {
                    let missing = if dot { "a name" } else { "an operand" };
                    format!("the expression ends after `{}`; {missing} is missing", before.text)
                }
            };
            return Err(Mistake::at(self.text, end, message));
        }
        let Some(open) = self.open.last() else { return Ok(()) };
        if open.choices > 0 {
            return Err(Mistake::at(self.text, end, CHOICE.to_owned()));
        }
        if open.inside != Inside::Nothing {
            let message = format!("`{}` is not closed: `{}` is missing", open.bracket.text, open.closing());
            return Err(Mistake::at(self.text, open.bracket.at, message));
        }
        Ok(())
    }

    /// A word where an operand has to come.
    fn operand(&mut self, token: Token<'a>) -> Result<(), String> {
        match (token.kind, token.text) {
            (Kind::Name, "in") => Err(unexpected(token, "an operand has to stand before it")),
            (Kind::Name, "not") => Err("unexpected `not`; write `!`".to_owned()),
            (Kind::Name | Kind::Number | Kind::Text, _) => {
                self.operand = false;
                Ok(())
            }
            (_, "!" | "-") if self.sign.is_some_and(|sign| sign != token.text) => {
                Err("`!` and `-` do not follow each other; use round brackets".to_owned())
            }
            (_, "!" | "-") => Ok(()),
            (_, "(") => self.push(Inside::Group, token),
            (_, "[") => self.push(Inside::List, token),
            (_, "{") => self.push(Inside::Map, token),
            (_, ")" | "]" | "}") if self.may_be_empty() => self.close(token),
            _ => Err(unexpected(token, "an operand is expected")),
        }
    }

    /// Whether a bracket may close where an operand could come: nothing in it, or a comma at the end of a list.
    fn may_be_empty(&self) -> bool {
        let (Some(open), Some(before)) = (self.open.last(), self.before) else {
            return false;
        };
        match open.inside {
            Inside::Call => before.at == open.bracket.at,
            Inside::List | Inside::Map => before.at == open.bracket.at || before.text == ",",
            Inside::Nothing | Inside::Group | Inside::Index => false,
        }
    }

    /// A word where an operator has to come.
    fn operator(&mut self, token: Token<'a>) -> Result<(), String> {
        let before = self.before.unwrap_or(token);
        if before.text == "." {
            return match token.kind {
                Kind::Name => Ok(()),
                _ => Err(unexpected(token, "a name has to follow the dot")),
            };
        }
        match (token.kind, token.text) {
            (Kind::Name, "in")
            | (Kind::Symbol, "&&" | "||" | "==" | "!=" | "<" | "<=" | ">" | ">=" | "+" | "-" | "*" | "/" | "%") => {
                self.operand = true;
                Ok(())
            }
            (Kind::Symbol, ".") => Ok(()),
            (Kind::Symbol, "?") => self.question(token),
            (Kind::Symbol, ":") => self.colon(token),
            (Kind::Symbol, ",") => self.comma(token),
            (Kind::Symbol, "(") if before.kind == Kind::Name => self.push(Inside::Call, token),
            (Kind::Symbol, "[") => self.push(Inside::Index, token),
            (Kind::Symbol, "{") if before.kind == Kind::Name => self.push(Inside::Map, token),
            (Kind::Symbol, ")" | "]" | "}") => self.close(token),
            (Kind::Name, "and" | "AND") => Err(format!("unexpected `{}`; write `&&`", token.text)),
            (Kind::Name, "or" | "OR") => Err(format!("unexpected `{}`; write `||`", token.text)),
            (Kind::Name, "not" | "is") => Err(format!("unexpected `{}`; write `==` or `!=`", token.text)),
            (Kind::Name, _) if before.kind == Kind::Number && before.at + before.text.len() == token.at => {
                Err(format!(
                    "unexpected `{}` after a number: numbers have no units; a field's name says its own (`_ms`, `_ns`)",
                    token.text
                ))
            }
            _ => Err(unexpected(token, "an operator such as `&&` is expected")),
        }
    }

    fn push(&mut self, inside: Inside, bracket: Token<'a>) -> Result<(), String> {
        self.operand = true;
        self.open.push(Open {
            inside,
            bracket,
            choices: 0,
            depth: 0,
        });
        Ok(())
    }

    fn question(&mut self, token: Token<'a>) -> Result<(), String> {
        self.operand = true;
        match self.open.last_mut() {
            Some(open) if open.choices == 0 => {
                open.choices = 1;
                open.depth += 1;
                Ok(())
            }
            _ => Err(unexpected(
                token,
                "a choice between `?` and `:` has to stand in round brackets",
            )),
        }
    }

    fn colon(&mut self, token: Token<'a>) -> Result<(), String> {
        self.operand = true;
        match self.open.last_mut() {
            Some(open) if open.choices > 0 => {
                open.choices -= 1;
                Ok(())
            }
            Some(open) if open.inside == Inside::Map => Ok(()),
            _ => Err(unexpected(token, "no `?` stands before it")),
        }
    }

    fn comma(&mut self, token: Token<'a>) -> Result<(), String> {
        self.operand = true;
        match self.open.last() {
            Some(open) if open.choices > 0 => Err(CHOICE.to_owned()),
            Some(open) if open.has_commas() => Ok(()),
            _ => Err(unexpected(token, "an operator such as `&&` is expected")),
        }
    }

    fn close(&mut self, token: Token<'a>) -> Result<(), String> {
        self.operand = false;
        let Some(open) = self.open.last().copied().filter(|open| open.inside != Inside::Nothing) else {
            return Err(format!("`{}` closes nothing", token.text));
        };
        if open.choices > 0 {
            return Err(CHOICE.to_owned());
        }
        if open.closing() != token.text {
            return Err(format!(
                "unexpected `{}`; `{}` is missing: `{}` is open",
                token.text,
                open.closing(),
                open.bracket.text
            ));
        }
        self.open.pop();
        Ok(())
    }
}

const CHOICE: &str = "`:` is missing: a choice is `condition ? this : that`";

fn unexpected(token: Token<'_>, what: &str) -> String {
    format!("unexpected `{}` here; {what}", token.text)
}
