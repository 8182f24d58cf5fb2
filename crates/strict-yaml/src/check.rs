//! Validates a YAML tree against a JSON schema. Reports all faults at once, each with its position, and returns the
//! values in the types of the schema.
//!
//! The schema determines the type of a plain scalar: `1000` is the string "1000" if the schema expects a string. A key
//! with an empty value is not set. The check supports the keywords of JSON schema that `schemars` generates for
//! structs, enums of words, maps and lists ([`unknown_keywords`] returns all other keywords of a schema). Additional
//! keywords are `format` with a check ([`Format`]), `x-minimum` and `x-maximum` in the syntax of such a format,
//! `x-secret` for values that are never quoted, and `x-removed` for removed keys or words with their replacements.

use base::quote::quoted;
use serde_json::{Map, Value};

use crate::path::{KeyPath, PathStep};
use crate::yaml::{Entry, Fault, Kind, Node, Position, Scalar};

mod rule;
mod scalar;

pub use rule::{did_you_mean, nearest, type_of, unknown_keywords, words};
use scalar::{integer, list, number, one_of, shown, truth};

/// A check for strings, selected by the name in `format`.
#[derive(Clone, Copy)]
pub struct Format {
    /// Name in the schema.
    pub name: &'static str,
    /// One word for tables: "duration".
    pub kind: &'static str,
    /// Expected value for messages: "a duration such as 500ms".
    pub what: &'static str,
    /// Checks a string. Returns the fault, or a number to compare with `x-minimum` and `x-maximum` if the format has
    /// one.
    pub check: fn(&str) -> Result<Option<u128>, String>,
}

impl std::fmt::Debug for Format {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Format")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// A fault and the path of the key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub path: KeyPath,
    pub fault: Fault,
    /// Whether the key or the word was valid in an earlier version (`x-removed`).
    pub is_removed: bool,
}

/// A schema for validation.
#[derive(Debug, Clone, Copy)]
pub struct Schema<'a> {
    root: &'a Value,
    formats: &'a [Format],
}

/// Maximum number of reported findings. The check stops at this number.
pub const MAX_FINDINGS: usize = 100;

/// State of one validation.
struct Validation<'a> {
    schema: Schema<'a>,
    findings: Vec<Finding>,
}

impl<'a> Schema<'a> {
    /// Creates a schema from `root` (its `$ref`s point into its `$defs`) and the formats that it uses.
    pub fn new(root: &'a Value, formats: &'a [Format]) -> Self {
        Self { root, formats }
    }

    /// Returns the format with this name, or `None` if the schema has no such format.
    pub fn format(self, name: &str) -> Option<&'a Format> {
        self.formats.iter().find(|format| format.name == name)
    }

    /// Checks the node against the schema of `path`. Returns the value and the findings; the check stops at
    /// [`MAX_FINDINGS`]. The value is `None` if it is empty or invalid. A section or a list with findings lacks the
    /// invalid values.
    pub fn check(self, node: &Node, path: &KeyPath) -> (Option<Value>, Vec<Finding>) {
        let mut walk = Validation {
            schema: self,
            findings: Vec::new(),
        };
        let value = match self.at(path) {
            Some((rule, secret)) => walk.value(node, rule, path, secret),
            None => {
                walk.finding(node.at, path, "there is no such key".to_owned());
                None
            }
        };
        (value, walk.findings)
    }

    /// Returns the schema of the values at `path`, and whether these values are secret. Returns `None` if there is no
    /// such key.
    pub fn at(self, path: &KeyPath) -> Option<(&'a Value, bool)> {
        let mut rule = self.resolved(self.root);
        let mut secret = is_secret(rule);
        for step in path.steps() {
            let next = match step {
                PathStep::Key(key) => rule
                    .get("properties")
                    .and_then(|properties| properties.get(key))
                    .or_else(|| rule.get("additionalProperties").filter(|rule| rule.is_object()))?,
                PathStep::Index(_) => rule.get("items")?,
            };
            secret |= is_secret(next);
            rule = self.resolved(next);
            secret |= is_secret(rule);
        }
        Some((rule, secret))
    }

    /// Returns the schema of the key at `path` without following references, or `None` if the path is not a key.
    pub fn property(self, path: &KeyPath) -> Option<&'a Value> {
        let (last, above) = path.steps().split_last()?;
        let (rule, _) = self.at(&KeyPath::from(above))?;
        match last {
            PathStep::Key(key) => rule.get("properties")?.get(key),
            PathStep::Index(_) => None,
        }
    }

    /// Follows references, and ignores the alternative `null`.
    pub fn resolved(self, mut rule: &'a Value) -> &'a Value {
        // `schemars` never generates a reference to a reference. The bound terminates a cycle.
        for _ in 0..8 {
            if let Some(name) = rule.get("$ref").and_then(Value::as_str) {
                let pointer = name.strip_prefix('#').unwrap_or(name);
                match self.root.pointer(pointer) {
                    Some(target) => rule = target,
                    None => return rule,
                }
            } else if let Some(some) = rule.get("anyOf").and_then(Value::as_array) {
                match some
                    .iter()
                    .find(|one| one.get("type").and_then(Value::as_str) != Some("null"))
                {
                    Some(one) => rule = one,
                    None => return rule,
                }
            } else {
                return rule;
            }
        }
        rule
    }
}

/// Returns the message for a removed key or word, or `None` if the schema does not list it as removed.
fn removed(rule: &Value, name: &str) -> Option<String> {
    let instead = rule.get("x-removed")?.get(name)?.as_str()?;
    Some(format!("{} was removed: {instead}", quoted(name)))
}

fn is_secret(rule: &Value) -> bool {
    rule.get("x-secret") == Some(&Value::Bool(true))
}

impl<'a> Validation<'a> {
    fn finding(&mut self, at: Position, path: &KeyPath, message: String) {
        self.push(at, path, message, false);
    }

    fn push(&mut self, at: Position, path: &KeyPath, message: String, is_removed: bool) {
        self.findings.push(Finding {
            path: path.clone(),
            fault: Fault { at, message },
            is_removed,
        });
    }

    fn value(&mut self, node: &Node, rule: &'a Value, path: &KeyPath, secret: bool) -> Option<Value> {
        if node.is_null() || self.findings.len() >= MAX_FINDINGS {
            return None;
        }
        let secret = secret || is_secret(rule);
        let key = rule;
        let rule = self.schema.resolved(rule);
        let secret = secret || is_secret(rule);
        let words = words(rule);
        if let Kind::Scalar(scalar) = &node.kind
            && !words.is_empty()
            && let Some(message) = removed(key, &scalar.text)
        {
            self.push(node.at, path, message, true);
            return None;
        }
        let read = match (type_of(rule), &node.kind) {
            (Some("object"), Kind::Mapping(entries)) => return self.mapping(node.at, entries, rule, path, secret),
            (Some("array"), Kind::Sequence(items)) => return self.sequence(node.at, items, rule, path, secret),
            (_, Kind::Scalar(scalar)) if !words.is_empty() => one_of(scalar, &words, secret),
            (Some("string"), Kind::Scalar(scalar)) => self.text(scalar, rule, secret),
            (Some("boolean"), Kind::Scalar(scalar)) => truth(scalar, secret),
            (Some("integer"), Kind::Scalar(scalar)) => integer(scalar, rule, secret),
            (Some("number"), Kind::Scalar(scalar)) => number(scalar, rule, secret),
            (_, kind) => Err(format!(
                "expected {}, not {}",
                self.wanted(rule, &words),
                described(kind, secret)
            )),
        };
        match read {
            Ok(value) => Some(value),
            Err(message) => {
                self.finding(node.at, path, message);
                None
            }
        }
    }

    fn mapping(
        &mut self,
        at: Position,
        entries: &[Entry],
        rule: &'a Value,
        path: &KeyPath,
        secret: bool,
    ) -> Option<Value> {
        let properties = rule.get("properties").and_then(Value::as_object);
        let others = rule.get("additionalProperties").filter(|rule| rule.is_object());
        let before = self.findings.len();
        let mut values = Map::new();
        for entry in entries {
            let known = properties.and_then(|properties| properties.get(&entry.key));
            if self.findings.len() >= MAX_FINDINGS {
                break;
            }
            let Some(rule) = known.or(others) else {
                let removed = removed(rule, &entry.key);
                let is_removed = removed.is_some();
                let message = removed.unwrap_or_else(|| self.unknown_key(&entry.key, properties));
                self.push(entry.at, path, message, is_removed);
                continue;
            };
            if let Some(value) = self.value(&entry.value, rule, &path.key(&entry.key), secret) {
                values.insert(entry.key.clone(), value);
            }
        }
        let required = rule.get("required").and_then(Value::as_array).into_iter().flatten();
        for key in required.filter_map(Value::as_str) {
            match entries.iter().find(|entry| entry.key == key) {
                None => self.finding(at, path, format!("the key `{key}` is missing")),
                Some(entry) if entry.value.is_null() => {
                    self.finding(entry.at, &path.key(key), "a value is missing here".to_owned());
                }
                Some(_) => {}
            }
        }
        let bound = |keyword: &str| rule.get(keyword).and_then(Value::as_u64);
        let known = || {
            let known: Vec<&str> = properties.into_iter().flat_map(Map::keys).map(String::as_str).collect();
            known.join(", ")
        };
        let count = u64::try_from(values.len()).unwrap_or(u64::MAX);
        // An invalid key has already been reported.
        if bound("minProperties").is_some_and(|least| count < least) && self.findings.len() == before {
            self.finding(at, path, format!("one of these keys is required: {}", known()));
        }
        if let Some(most) = bound("maxProperties").filter(|most| count > *most) {
            let message = match most {
                1 => format!("only one of these keys can be set: {}", known()),
                most => format!("{count} keys are set here; at most {most}"),
            };
            self.finding(at, path, message);
        }
        Some(Value::Object(values))
    }

    fn sequence(
        &mut self,
        at: Position,
        items: &[Node],
        rule: &'a Value,
        path: &KeyPath,
        secret: bool,
    ) -> Option<Value> {
        let mut values = Vec::new();
        for (index, item) in items.iter().enumerate() {
            if self.findings.len() >= MAX_FINDINGS {
                break;
            }
            let path = path.index(index);
            if item.is_null() {
                self.finding(item.at, &path, "this list element is empty".to_owned());
            } else if let Some(rule) = rule.get("items") {
                values.extend(self.value(item, rule, &path, secret));
            }
        }
        let bound = |keyword: &str| rule.get(keyword).and_then(Value::as_u64);
        let count = u64::try_from(items.len()).unwrap_or(u64::MAX);
        if let Some(least) = bound("minItems").filter(|least| count < *least) {
            self.finding(at, path, format!("the list has {count} elements; at least {least}"));
        }
        if let Some(most) = bound("maxItems").filter(|most| count > *most) {
            self.finding(at, path, format!("the list has {count} elements; at most {most}"));
        }
        Some(Value::Array(values))
    }

    /// Returns the message for an unknown key, with the nearest known key, the path at which it is known, or the known
    /// keys.
    fn unknown_key(&self, key: &str, properties: Option<&Map<String, Value>>) -> String {
        let shown = quoted(key);
        let known: Vec<&str> = properties
            .into_iter()
            .flat_map(|properties| properties.keys().map(String::as_str))
            .collect();
        if let Some(hint) = did_you_mean(key, known.iter().copied()) {
            return format!("unknown key {shown}; {hint}");
        }
        let elsewhere = self.places_of(key);
        if let [place] = elsewhere.as_slice() {
            return format!("unknown key {shown} here; did you mean `{place}`?");
        }
        if let Some(place) = elsewhere.first() {
            return format!("unknown key {shown} here; did you mean `{place}` or a key in another place?");
        }
        format!("unknown key {shown}; known keys: {}", known.join(", "))
    }

    /// Returns the paths of the keys with this name in the upper levels of the schema, the shortest path first.
    fn places_of(&self, key: &str) -> Vec<KeyPath> {
        let mut found = Vec::new();
        let mut level = vec![(KeyPath::default(), self.schema.root)];
        // The depth is bounded because a schema can refer to itself.
        for _ in 0..4 {
            let mut below = Vec::new();
            for (path, rule) in level {
                let properties = self.schema.resolved(rule).get("properties").and_then(Value::as_object);
                for (name, rule) in properties.into_iter().flatten() {
                    if name == key {
                        found.push(path.key(name));
                    }
                    below.push((path.key(name), rule));
                }
            }
            level = below;
        }
        found
    }

    fn text(&self, scalar: &Scalar, rule: &Value, secret: bool) -> Result<Value, String> {
        let text = &scalar.text;
        let format = rule.get("format").and_then(Value::as_str);
        if let Some(format) = format.and_then(|name| self.schema.format(name)) {
            let measure = (format.check)(text).map_err(|message| {
                // The check quotes the string, which can be secret.
                if secret {
                    format!("the value (not shown) is not {}", format.what)
                } else {
                    message
                }
            })?;
            let bound = |keyword: &str| {
                let text = rule.get(keyword).and_then(Value::as_str)?;
                Some((text, (format.check)(text).ok()??))
            };
            let shown = shown(text, secret);
            if let (Some((least, bound)), Some(is)) = (bound("x-minimum"), measure)
                && is < bound
            {
                return Err(format!("{shown} is too small; at least {least}"));
            }
            if let (Some((most, bound)), Some(is)) = (bound("x-maximum"), measure)
                && is > bound
            {
                return Err(format!("{shown} is too large; at most {most}"));
            }
        }
        let length = u64::try_from(text.chars().count()).unwrap_or(u64::MAX);
        let bound = |keyword: &str| rule.get(keyword).and_then(Value::as_u64);
        if bound("minLength").is_some_and(|least| length < least) {
            return Err("the string is empty".to_owned());
        }
        if let Some(most) = bound("maxLength").filter(|most| length > *most) {
            return Err(format!("the string has {length} characters; at most {most}"));
        }
        Ok(Value::from(text.as_str()))
    }

    /// Returns a description of the expected value.
    fn wanted(&self, rule: &Value, words: &[(&str, Option<&str>)]) -> String {
        if !words.is_empty() {
            return format!("one of {}", list(words));
        }
        let format = rule.get("format").and_then(Value::as_str);
        if let Some(format) = format.and_then(|name| self.schema.format(name)) {
            return format.what.to_owned();
        }
        match type_of(rule) {
            Some("object") => "a section with keys",
            Some("array") => "a list",
            Some("boolean") => "true or false",
            Some("integer") => "an integer",
            Some("number") => "a number",
            _ => "a string",
        }
        .to_owned()
    }
}

fn described(kind: &Kind, secret: bool) -> String {
    match kind {
        Kind::Scalar(scalar) => shown(&scalar.text, secret),
        Kind::Sequence(_) => "a list".to_owned(),
        Kind::Mapping(_) => "a section with keys".to_owned(),
    }
}
