//! Parser for the subset of the CEL grammar that rules use.
//!
//! Operators are parsed by precedence, from the loosest to the tightest: `?:`, `||`, `&&`, comparisons and `in`, `+ -`,
//! `* / %`, the signs `!` and `-`, then `.`, `[]` and calls. Only brackets and `?` cause recursion, so [`MAX_NESTING`]
//! limits the stack.
//!
//! The first misplaced token is the only reported mistake because the tokens after it cannot be interpreted. Constructs
//! of CEL that rules do not support are skipped and reported together.

use super::syntax::{Call, LOOSEST, Operator, Shape, Tree};
use super::token::{Kind, Token, tokens};
use super::{MAX_NESTING, MAX_TEXT, Mistake, literal};

/// `Err` if the text is not an expression, which stops the parser. `None` if the part was refused, with an entry in
/// `mistakes`.
type Parsed<T = Tree> = Result<Option<T>, Mistake>;

/// Parses a text.
///
/// # Errors
///
/// Returns an error if the text is not an expression, or uses constructs of CEL that rules do not support.
pub(super) fn parse(text: &str) -> Result<Tree, Vec<Mistake>> {
    if text.len() > MAX_TEXT {
        let message = format!(
            "the expression is too long: {} bytes, at most {MAX_TEXT}; move parts of it to macros",
            text.len()
        );
        return Err(vec![Mistake::at(text, 0, message)]);
    }
    let tokens = tokens(text).map_err(|mistake| vec![mistake])?;
    let parser = Parser {
        text,
        tokens: &tokens,
        next: 0,
        depth: 0,
        mistakes: Vec::new(),
    };
    parser.parse()
}

/// The innermost open construct at a position where an operator is possible.
#[derive(Debug, Clone, Copy)]
enum Open<'a> {
    /// No open construct.
    Text,
    /// `?` without its `:`.
    Choice,
    Bracket(Token<'a>),
}

/// State of the parser of one text.
#[derive(Debug)]
struct Parser<'a, 't> {
    text: &'a str,
    tokens: &'t [Token<'a>],
    next: usize,
    /// Number of open brackets and `?`.
    depth: usize,
    mistakes: Vec<Mistake>,
}

impl<'a, 't> Parser<'a, 't> {
    /// Parses the whole text.
    ///
    /// # Errors
    ///
    /// Returns the reason why the text is not an expression, or all constructs that rules do not support.
    fn parse(mut self) -> Result<Tree, Vec<Mistake>> {
        let tree = self.choice().and_then(|tree| match self.peek() {
            None => Ok(tree),
            Some(_) => Err(self.misplaced(Open::Text)),
        });
        match tree {
            Ok(Some(tree)) if self.mistakes.is_empty() => Ok(tree),
            Ok(_) => {
                self.mistakes.sort_by_key(|mistake| (mistake.line, mistake.column));
                Err(self.mistakes)
            }
            Err(mistake) => Err(vec![mistake]),
        }
    }

    /// Parses `a ? b : c`. A choice between `?` and `:` requires brackets.
    fn choice(&mut self) -> Parsed {
        let condition = self.operators(LOOSEST)?;
        let Some(question) = self.take("?") else {
            return Ok(condition);
        };
        self.deeper(question)?;
        let this = self.operators(LOOSEST)?;
        if self.take(":").is_none() {
            return Err(self.misplaced(Open::Choice));
        }
        let that = self.choice()?;
        self.depth -= 1;
        let parts = condition.zip(this).zip(that);
        Ok(parts.map(|((condition, this), that)| Tree {
            at: condition.at,
            shape: Shape::If(Box::new((condition, this, that))),
        }))
    }

    /// Parses operands and the operators between them whose precedence is at least `least`.
    fn operators(&mut self, least: u8) -> Parsed {
        let mut tree = self.signs()?;
        while let Some((operator, level)) = self.peek().and_then(|token| Operator::from_token(token.text))
            && level >= least
        {
            self.next += 1;
            let right = self.operators(level + 1)?;
            tree = tree.zip(right).map(|(left, right)| operator.join(left, right));
        }
        Ok(tree)
    }

    /// Parses `!a`, `-a`, `--a`. An even number of signs has no effect.
    fn signs(&mut self) -> Parsed {
        let is_sign = |token: &Token<'_>| matches!(token.text, "!" | "-");
        let Some(sign) = self.peek().filter(is_sign) else {
            return self.member(false);
        };
        let mut odd = false;
        while let Some(token) = self.peek().filter(is_sign) {
            if token.text != sign.text {
                let message = "`!` and `-` do not follow each other; use round brackets";
                return Err(self.mistake(token.at, message));
            }
            self.next += 1;
            odd = !odd;
        }
        let alone = self.before() == Some(sign);
        if alone && sign.text == "-" && self.peek().is_some_and(|token| token.kind == Kind::Number) {
            return self.member(true);
        }
        let operand = self.member(false)?;
        if !odd {
            return Ok(operand);
        }
        let shape: fn(Box<Tree>) -> Shape = if sign.text == "!" { Shape::Not } else { Shape::Negate };
        Ok(operand.map(|operand| Tree {
            at: sign.at,
            shape: shape(Box::new(operand)),
        }))
    }

    /// Parses an operand and its suffixes: `a.b`, `a.b(c)`, `a[b]`. If `negative`, the operand is a number, and the
    /// preceding minus is part of it.
    fn member(&mut self, negative: bool) -> Parsed {
        let begin = self.next;
        let mut tree = self.operand(negative)?;
        while let Some(token) = self.peek() {
            tree = match token.text {
                "." => self.select(tree)?,
                "[" => {
                    let index = self.bracketed(token)?;
                    tree.zip(index).map(|(operand, index)| Tree {
                        at: operand.at,
                        shape: Shape::Index(Box::new((operand, index))),
                    })
                }
                "{" if self.is_path(begin) => self.braces(token, "rules have no messages")?,
                _ => break,
            };
        }
        Ok(tree)
    }

    /// Parses `.b` or `.b(c)`.
    fn select(&mut self, operand: Option<Tree>) -> Parsed {
        let dot = self.peek().map_or(0, |dot| dot.at);
        self.next += 1;
        let name = match self.peek() {
            None => return Err(self.ends_after(".", "a name")),
            Some(token) if token.kind != Kind::Name => {
                return Err(self.unexpected(token, "a name must follow the dot"));
            }
            Some(token) => token.text,
        };
        self.next += 1;
        if let Some(bracket) = self.peek().filter(|token| token.text == "(") {
            let arguments = self.elements(bracket, false)?;
            return Ok(operand.zip(arguments).map(|(receiver, arguments)| Tree {
                at: receiver.at,
                shape: call(name, Some(receiver), arguments),
            }));
        }
        Ok(operand.and_then(|operand| match operand.shape {
            Shape::Name(path) => Some(Tree {
                at: operand.at,
                shape: Shape::Name(format!("{path}.{name}").into()),
            }),
            _ => self.refuse(dot, format!("nothing has a field `{name}` here: only names have dots")),
        }))
    }

    /// Returns whether the tokens from `begin` to the next token are a name with dots, such as the name of a message.
    fn is_path(&self, begin: usize) -> bool {
        let mut words = self.tokens.iter().take(self.next).skip(begin);
        words.all(|token| token.kind == Kind::Name || token.text == ".")
    }

    /// Parses a primary: a literal, a name, a call, or a part in brackets.
    fn operand(&mut self, negative: bool) -> Parsed {
        let Some(token) = self.peek() else {
            return Err(match self.before() {
                None => self.mistake(self.end(), "the expression is empty"),
                Some(before) => self.ends_after(before.text, "an operand"),
            });
        };
        let tree = |shape| Tree { at: token.at, shape };
        match (token.kind, token.text) {
            (Kind::Symbol, "(") => return self.bracketed(token),
            (Kind::Symbol, "[") => return Ok(self.elements(token, true)?.map(|list| tree(Shape::List(list)))),
            (Kind::Symbol, "{") => return self.braces(token, "rules have no maps"),
            (Kind::Symbol, _) => return Err(self.unexpected(token, "an operand is expected")),
            (Kind::Keyword, "in") => return Err(self.unexpected(token, "an operand must precede it")),
            (Kind::Name, "not") => return Err(self.mistake(token.at, "unexpected `not`; write `!`")),
            _ => self.next += 1,
        }
        let shape = match (token.kind, token.text) {
            (Kind::Name, name) => return self.name(token.at, name),
            (Kind::Number, word) => literal::number(word, negative),
            (Kind::Text, word) => Ok(Shape::Text(literal::text(word))),
            (Kind::Bytes, _) => Err("rules have no bytes; write a string: 'a'".to_owned()),
            (_, "true") => Ok(Shape::Bool(true)),
            (_, "false") => Ok(Shape::Bool(false)),
            _ => Err("there is no null; `has(gc.trigger)` tests whether a value is known".to_owned()),
        };
        Ok(match shape {
            Ok(shape) => Some(tree(shape)),
            Err(message) => self.refuse(token.at, message),
        })
    }

    /// Parses the rest of a name or call whose name was just read.
    fn name(&mut self, at: usize, name: &'a str) -> Parsed {
        let mut shape = Some(Shape::Name(name.into()));
        if let Some(bracket) = self.peek().filter(|token| token.text == "(") {
            let arguments = self.elements(bracket, false)?;
            shape = arguments.map(|arguments| call(name, None, arguments));
        }
        if RESERVED.contains(&name) {
            shape = self.refuse(at, format!("`{name}` is a reserved word of CEL, not a name"));
        }
        Ok(shape.map(|shape| Tree { at, shape }))
    }

    /// Parses `(a)`, and the brackets of `a[b]`.
    fn bracketed(&mut self, bracket: Token<'a>) -> Parsed {
        self.next += 1;
        self.deeper(bracket)?;
        let tree = self.choice()?;
        self.close(bracket)?;
        Ok(tree)
    }

    /// Parses parts between commas. If `trailing`, a comma can follow the last part. After a refused part, the
    /// remaining parts are still parsed.
    fn elements(&mut self, bracket: Token<'a>, trailing: bool) -> Parsed<Vec<Tree>> {
        self.next += 1;
        self.deeper(bracket)?;
        let mut elements = Some(Vec::new());
        let mut may_end = true;
        while !(may_end && self.peek().is_some_and(|token| token.text == closing(bracket))) {
            let element = self.choice()?;
            elements = elements.zip(element).map(|(mut elements, element)| {
                elements.push(element);
                elements
            });
            may_end = trailing;
            if self.take(",").is_none() {
                break;
            }
        }
        self.close(bracket)?;
        Ok(elements)
    }

    /// Skips the content of braces, which is always refused.
    fn braces(&mut self, brace: Token<'a>, message: &str) -> Parsed {
        let mut open: Vec<Token<'a>> = Vec::new();
        while let Some(token) = self.peek() {
            match token.text {
                "(" | "[" | "{" => open.push(token),
                ")" | "]" | "}" => {
                    let last = open.pop().unwrap_or(brace);
                    if closing(last) != token.text {
                        return Err(self.misplaced(Open::Bracket(last)));
                    }
                }
                _ => {}
            }
            self.next += 1;
            if open.is_empty() {
                return Ok(self.refuse(brace.at, message));
            }
        }
        Err(self.misplaced(Open::Bracket(open.pop().unwrap_or(brace))))
    }

    fn peek(&self) -> Option<Token<'a>> {
        self.tokens.get(self.next).copied()
    }

    fn before(&self) -> Option<Token<'a>> {
        self.tokens.get(self.next.checked_sub(1)?).copied()
    }

    /// Consumes the next token if it is `sign`.
    fn take(&mut self, sign: &str) -> Option<Token<'a>> {
        let token = self.peek().filter(|token| token.text == sign)?;
        self.next += 1;
        Some(token)
    }

    fn close(&mut self, bracket: Token<'a>) -> Result<(), Mistake> {
        if self.take(closing(bracket)).is_none() {
            return Err(self.misplaced(Open::Bracket(bracket)));
        }
        self.depth -= 1;
        Ok(())
    }

    fn deeper(&mut self, opening: Token<'_>) -> Result<(), Mistake> {
        self.depth += 1;
        if self.depth > MAX_NESTING {
            let message = format!("nested too deeply: at most {MAX_NESTING} nested brackets and `?`");
            return Err(self.mistake(opening.at, message));
        }
        Ok(())
    }

    fn refuse<T>(&mut self, at: usize, message: impl Into<String>) -> Option<T> {
        let mistake = self.mistake(at, message);
        self.mistakes.push(mistake);
        None
    }

    /// Creates a mistake at a byte.
    fn mistake(&self, at: usize, message: impl Into<String>) -> Mistake {
        Mistake::at(self.text, at, message.into())
    }

    /// Returns the end of the text without trailing whitespace.
    fn end(&self) -> usize {
        self.text.trim_end().len()
    }

    /// Returns the mistake for a text that ends too early.
    fn ends_after(&self, word: &str, missing: &str) -> Mistake {
        let message = format!("the expression ends after `{word}`; {missing} is missing");
        self.mistake(self.end(), message)
    }

    /// Returns the mistake for a token that is not possible here.
    fn unexpected(&self, token: Token<'_>, what: &str) -> Mistake {
        self.mistake(token.at, format!("unexpected `{}` here; {what}", token.text))
    }

    /// Returns the mistake for a next token that is neither an operator nor the end of the open construct.
    fn misplaced(&self, open: Open<'a>) -> Mistake {
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
            (_, ")" | "]" | "}", Open::Text) => format!("`{word}` closes no bracket"),
            (_, ")" | "]" | "}", Open::Bracket(bracket)) => {
                let (opening, closing) = (bracket.text, closing(bracket));
                format!("unexpected `{word}`; `{closing}` is missing: `{opening}` is open")
            }
            (_, "?", _) => {
                return self.unexpected(token, "a choice between `?` and `:` must be in round brackets");
            }
            (_, ":", _) => return self.unexpected(token, "no `?` precedes it"),
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

/// Words that CEL reserves for host languages. After a dot they are names.
pub(super) const RESERVED: [&str; 17] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "namespace",
    "package",
    "return",
    "var",
    "void",
    "while",
];

fn call(name: &str, receiver: Option<Tree>, arguments: Vec<Tree>) -> Shape {
    Shape::Call(Call {
        name: name.into(),
        receiver: receiver.map(Box::new),
        arguments,
    })
}

const CHOICE: &str = "`:` is missing: a choice is `condition ? this : that`";

/// Returns the closing bracket for an opening bracket.
fn closing(bracket: Token<'_>) -> &'static str {
    match bracket.text {
        "(" => ")",
        "[" => "]",
        _ => "}",
    }
}
