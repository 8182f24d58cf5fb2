//! Builds the tree from the events of the YAML parser.

use std::collections::HashMap;
use std::collections::hash_map::Entry as Slot;

use base::quote::quoted;
use saphyr_parser::{Event, Marker, Parser, ScalarStyle};

use super::{Entry, Fault, Kind, Node, Position};

impl From<Marker> for Position {
    fn from(marker: Marker) -> Self {
        Self {
            line: marker.line(),
            column: marker.col() + 1,
        }
    }
}

/// Limits of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Maximum size, in bytes.
    pub bytes: usize,
    /// Maximum nesting depth of values.
    pub depth: usize,
    /// Maximum number of values and keys.
    pub nodes: usize,
    /// Maximum number of reported faults. Parsing stops at this number.
    pub faults: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            bytes: 1 << 20,
            depth: 32,
            nodes: 50_000,
            faults: 100,
        }
    }
}

/// Parses a document. Returns `Ok(None)` if the document is empty or contains only comments.
///
/// # Errors
///
/// Returns all faults in document order. The list is never empty.
pub fn parse(text: &str, bounds: Bounds) -> Result<Option<Node>, Vec<Fault>> {
    if text.len() > bounds.bytes {
        let message = format!("the file has {} bytes; at most {} are read", text.len(), bounds.bytes);
        return Err(vec![Fault {
            at: Position::START,
            message,
        }]);
    }
    let mut reader = Reader {
        open: Vec::new(),
        root: None,
        documents: 0,
        nodes: 0,
        faults: Vec::new(),
        bounds,
    };
    let mut parser = Parser::new_from_str(text.strip_prefix('\u{feff}').unwrap_or(text));
    while let Some(event) = parser.next_event() {
        let goes_on = match event {
            Ok((event, span)) => reader.event(event, span.start.into()),
            Err(error) => {
                reader.fault((*error.marker()).into(), syntax(error.info()));
                false
            }
        };
        if !goes_on {
            break;
        }
    }
    if reader.faults.is_empty() {
        Ok(reader.root.filter(|root| !root.is_null()))
    } else {
        Err(reader.faults)
    }
}

/// Replaces the parser's most frequent error messages with messages that state the fix.
fn syntax(info: &str) -> String {
    const NO_KEY: &str =
        "the line before is neither a key with `:` nor a list element with `-`; check the indentation and the brackets";
    let known = [
        ("tab", "a tab is used as indentation; YAML allows spaces only"),
        (
            "mapping values are not allowed",
            "a `:` here would start a value within a value; put the string in quotes, or check the indentation",
        ),
        ("simple key expect", NO_KEY),
        ("could not find expected ':'", NO_KEY),
        (
            "did not find expected key",
            "this text does not belong to a key above it; check the indentation",
        ),
        (
            "did not find expected <document start>",
            "this text does not belong to a key; check the indentation",
        ),
        (
            "unknown anchor",
            "aliases (`*name`) are not allowed; put the string in quotes if it starts with `*`",
        ),
        (
            "indentation in quoted scalar",
            "the quote that starts here is not closed, or the lines after it are not indented",
        ),
        (
            "placement of ':'",
            "a `:` does not belong here; a bracket, a brace or a quote before it may not be closed",
        ),
        (
            "trailing content after",
            "the quoted string ends here, but text follows; put the whole string in the other quotes, or below `|`",
        ),
        (
            "unexpected end of stream",
            "the file ends in the middle of a value; a quote or a bracket is not closed",
        ),
    ];
    let lower = info.to_ascii_lowercase();
    known
        .iter()
        .find(|(sign, _)| lower.contains(sign))
        .map_or_else(|| format!("this is not YAML: {info}"), |(_, say)| (*say).to_owned())
}

/// A list or a mapping whose end has not been read yet.
enum Open {
    Sequence(Position, Vec<Node>),
    Mapping {
        at: Position,
        entries: Vec<Entry>,
        seen: HashMap<String, Position>,
        key: Pending,
    },
}

/// The role of the next value in a mapping.
enum Pending {
    /// The next value is a key.
    None,
    /// The next value belongs to this key.
    Key(String, Position),
    /// The next value belongs to a rejected key and is dropped.
    Refused,
}

struct Reader {
    open: Vec<Open>,
    root: Option<Node>,
    documents: usize,
    nodes: usize,
    faults: Vec<Fault>,
    bounds: Bounds,
}

impl Reader {
    /// Processes an event. Returns `false` if parsing must stop.
    fn event(&mut self, event: Event<'_>, at: Position) -> bool {
        match event {
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => true,
            Event::DocumentStart(_) => {
                self.documents += 1;
                if self.documents > 1 {
                    return self.stop(at, "a second document starts here; a file can only have one");
                }
                true
            }
            Event::Alias(_) => {
                self.fault(at, "aliases (`*name`) are not allowed; write the value out");
                self.finish(Node::plain(at, ""))
            }
            Event::Scalar(text, style, anchor, tag) => {
                self.marks(at, anchor, tag.is_some());
                let plain = style == ScalarStyle::Plain;
                self.finish(Node::scalar(at, text.into_owned(), plain))
            }
            Event::SequenceStart(anchor, tag) => {
                self.marks(at, anchor, tag.is_some());
                self.begin(at, Open::Sequence(at, Vec::new()))
            }
            Event::MappingStart(anchor, tag) => {
                self.marks(at, anchor, tag.is_some());
                let (entries, seen) = (Vec::new(), HashMap::new());
                let key = Pending::None;
                self.begin(at, Open::Mapping { at, entries, seen, key })
            }
            Event::SequenceEnd | Event::MappingEnd => match self.open.pop() {
                Some(Open::Sequence(at, items)) => self.finish(Node {
                    at,
                    kind: Kind::Sequence(items),
                }),
                Some(Open::Mapping { at, entries, .. }) => self.finish(Node {
                    at,
                    kind: Kind::Mapping(entries),
                }),
                None => self.stop(at, "this is not YAML: an end without a start"),
            },
        }
    }

    /// Reports an anchor and a tag as faults.
    fn marks(&mut self, at: Position, anchor: usize, tagged: bool) {
        if anchor > 0 {
            self.fault(
                at,
                "anchors (`&name`) are not allowed; put the string in quotes if it starts with `&`",
            );
        }
        // The messages do not quote the text, because it can be a secret, such as the value of a header.
        if tagged {
            self.fault(
                at,
                "tags (`!name`) are not allowed; put the string in quotes if it starts with `!`",
            );
        }
    }

    fn begin(&mut self, at: Position, open: Open) -> bool {
        if self.open.len() >= self.bounds.depth {
            let message = format!("values are nested deeper than {}", self.bounds.depth);
            return self.stop(at, message);
        }
        // A list or mapping is counted when it ends. Until then, the depth limit bounds the number of open values.
        self.open.push(open);
        self.faults.len() < self.bounds.faults
    }

    /// Adds a complete value to its parent.
    fn finish(&mut self, node: Node) -> bool {
        let at = node.at;
        let mut refused = None;
        match self.open.last_mut() {
            None => self.root = Some(node),
            Some(Open::Sequence(_, items)) => items.push(node),
            Some(Open::Mapping { entries, seen, key, .. }) => {
                match std::mem::replace(key, Pending::None) {
                    Pending::Key(key, at) => entries.push(Entry { key, at, value: node }),
                    Pending::Refused => {}
                    Pending::None => match new_key(node, seen) {
                        Ok((name, at)) => *key = Pending::Key(name, at),
                        Err(message) => {
                            *key = Pending::Refused;
                            refused = Some(message);
                        }
                    },
                };
            }
        }
        if let Some(message) = refused {
            self.fault(at, message);
        }
        self.count(at)
    }

    fn count(&mut self, at: Position) -> bool {
        self.nodes += 1;
        if self.nodes > self.bounds.nodes {
            let message = format!("the file has more than {} values", self.bounds.nodes);
            return self.stop(at, message);
        }
        self.faults.len() < self.bounds.faults
    }

    fn fault(&mut self, at: Position, message: impl Into<String>) {
        let message = message.into();
        self.faults.push(Fault { at, message });
    }

    fn stop(&mut self, at: Position, message: impl Into<String>) -> bool {
        self.fault(at, message);
        false
    }
}

/// Converts `node` to a key, or returns a message if it is not a valid key.
fn new_key(node: Node, seen: &mut HashMap<String, Position>) -> Result<(String, Position), String> {
    let Kind::Scalar(scalar) = node.kind else {
        return Err("a key must be a string; put a string that starts with `{` in quotes".to_owned());
    };
    if scalar.plain && scalar.text == "<<" {
        return Err("merge keys (`<<`) are not allowed; write the keys out".to_owned());
    }
    match seen.entry(scalar.text) {
        Slot::Occupied(first) => Err(format!(
            "duplicate key {}; first in line {}",
            quoted(first.key()),
            first.get().line
        )),
        Slot::Vacant(slot) => {
            let name = slot.key().clone();
            slot.insert(node.at);
            Ok((name, node.at))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: a document starts with a byte order mark and contains plain, quoted, block and flow values.
    /// Guarantee: each value has its position. Lines and columns start at 1, and columns count characters.
    #[test]
    fn values_have_their_position() {
        let text = "\u{feff}a: 1\n\u{e4}: \"b\"\nc:\n  - |\n    text\n  - {d: e}\n";
        let root = parse(text, Bounds::default()).unwrap().unwrap();
        let Kind::Mapping(entries) = root.kind else {
            panic!("the root is a mapping");
        };
        let at = |node: &Node| node.at.to_string();
        assert_eq!(entries[0].at, Position::START);
        assert_eq!(at(&entries[0].value), "1:4");
        assert_eq!(
            (entries[1].at.to_string(), at(&entries[1].value)),
            ("2:1".to_owned(), "2:4".to_owned())
        );
        let Kind::Sequence(items) = &entries[2].value.kind else {
            panic!("the value of `c` is a list");
        };
        assert_eq!(items.iter().map(at).collect::<Vec<_>>(), ["5:5", "6:5"]);
    }

    /// Scenario: documents are at a limit (depth, number of values, size), above a limit, or have too many faults.
    /// Guarantee: a document at the limit is parsed, a document above the limit is rejected, and the list of faults has
    /// the maximum length.
    #[test]
    fn bounds_are_enforced() {
        let bounds = Bounds {
            bytes: 40,
            depth: 3,
            nodes: 6,
            faults: 2,
        };
        let read = |text: &str| parse(text, bounds).map_err(|faults| faults.len());
        assert!(read("[[[1]]]").is_ok());
        assert_eq!(read("[[[[1]]]]"), Err(1));
        assert!(read("[1, 2, 3, 4]").is_ok());
        assert_eq!(read("[1, 2, 3, 4, 5, 6]"), Err(1));
        assert_eq!(read(&"#".repeat(40)), Ok(None));
        assert_eq!(read(&"#".repeat(41)), Err(1));
        assert_eq!(read("[!a 1, !a 2, !a 3]"), Err(2));
    }
}
