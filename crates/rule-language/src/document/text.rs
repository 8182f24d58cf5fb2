//! String formats of rule files: version, ids, names, kinds of evidence, and times.

use std::str::FromStr;

use base::quote::quoted;
use base::read_from_text;
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use rule_engine::rule::Evidence;
use strict_yaml::check::Format;
use strict_yaml::formats::DURATION;

/// The formats of the schema of rule files.
pub(crate) const FORMATS: [Format; 6] = [
    DURATION,
    Format {
        name: "rules-version",
        kind: "`gcwatch/v1`",
        what: "the version of the format, gcwatch/v1",
        check: |text| Version::from_str(text).map(|_| None),
    },
    Format {
        name: "rule-id",
        kind: "id",
        what: "an id such as gc.pause.long",
        check: |text| Id::from_str(text).map(|_| None),
    },
    Format {
        name: "rule-name",
        kind: "name",
        what: "a name such as memory_emergency",
        check: |text| Name::from_str(text).map(|_| None),
    },
    Format {
        name: "evidence-name",
        kind: "name",
        what: "the name of a kind of evidence: ledger, black-box, callers, allocations, stacks or census",
        check: |text| EvidenceName::from_str(text).map(|_| None),
    },
    Format {
        name: "date-or-time",
        kind: "day or time",
        what: "a day such as 2027-03-01, or a time such as 2027-03-01T12:00:00Z",
        check: |text| Moment::from_str(text).map(|_| None),
    },
];

/// Maximum length of an id, in bytes.
const LONGEST_ID: usize = 100;
/// Maximum length of a name, in bytes.
const LONGEST_NAME: usize = 60;

/// The version of the format.
#[derive(Debug, Default)]
pub(crate) struct Version;

impl FromStr for Version {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix("gcwatch/v") {
            Some("1") => Ok(Self),
            Some(other) if !other.is_empty() && other.bytes().all(|byte| byte.is_ascii_digit()) => Err(format!(
                "gcwatch supports the version gcwatch/v1, not {}; use a newer version, or convert the file",
                quoted(text)
            )),
            _ => Err(format!("{} is not a valid version; write gcwatch/v1", quoted(text))),
        }
    }
}

/// The id of a rule: lower-case words with `_` or `-`, separated by dots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Id(pub(crate) String);

impl FromStr for Id {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.len() > LONGEST_ID {
            return Err(format!("an id of {} characters; at most {LONGEST_ID}", text.len()));
        }
        if text.split('.').all(is_word) {
            Ok(Self(text.to_owned()))
        } else {
            Err(format!(
                "{} is not an id; write lower-case words with dots between them: gc.pause.long",
                quoted(text)
            ))
        }
    }
}

/// The name of a group or a family, in the form of one word of an [`Id`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Name(pub(crate) String);

impl FromStr for Name {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.len() <= LONGEST_NAME && is_word(text) {
            Ok(Self(text.to_owned()))
        } else {
            Err(format!(
                "{} is not a name; write lower-case letters, digits, `_` and `-`: memory_emergency",
                quoted(text)
            ))
        }
    }
}

/// A kind of evidence that is gathered for an incident.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EvidenceName(pub(crate) Evidence);

impl FromStr for EvidenceName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.parse().map(Self)
    }
}

fn is_word(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
        && word
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-".contains(&byte))
}

/// Checks that the name of a window, a parameter or a macro consists of letters, digits and `_`, does not start with a
/// digit, has at most [`LONGEST_NAME`] bytes, and is not reserved.
pub(crate) fn is_name(text: &str) -> Result<(), String> {
    // Reserved words of CEL, some of its types and functions, and the roots of all fields except `service` and
    // `watcher`, which were accepted before these fields existed and cause a warning (`load::lint`).
    const TAKEN: [&str; 34] = [
        "as",
        "bool",
        "break",
        "bytes",
        "const",
        "container",
        "continue",
        "double",
        "duration",
        "else",
        "false",
        "for",
        "function",
        "gc",
        "has",
        "if",
        "import",
        "in",
        "int",
        "let",
        "loop",
        "namespace",
        "null",
        "open",
        "package",
        "process",
        "return",
        "settings",
        "size",
        "stream",
        "suspension",
        "true",
        "uint",
        "void",
    ];
    let first = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let rest = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if !first || !rest || text.len() > LONGEST_NAME {
        return Err(format!(
            "{} is not a name; write letters, digits and `_`: full_blocking",
            quoted(text)
        ));
    }
    if TAKEN.contains(&text) {
        return Err(format!("{} is reserved in expressions; use another name", quoted(text)));
    }
    Ok(())
}

/// A time in Unix nanoseconds. A day without a time stands for the end of this day in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moment(pub(crate) u64);

impl FromStr for Moment {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let day = text.len() == "2027-03-01".len();
        let time = if day {
            let end = Date::from_str(text).and_then(|day| day.tomorrow());
            end.and_then(|end| end.to_zoned(TimeZone::UTC))
                .map(|end| end.timestamp())
        } else {
            Timestamp::from_str(text)
        };
        time.ok()
            .and_then(|time| u64::try_from(time.as_nanosecond()).ok())
            .map(Self)
            .ok_or_else(|| {
                format!(
                    "{} is neither a day nor a time; write 2027-03-01, or 2027-03-01T12:00:00Z",
                    quoted(text)
                )
            })
    }
}

read_from_text!(Version, "rules-version", "^gcwatch/v1$", ["gcwatch/v1"]);
read_from_text!(
    Id,
    "rule-id",
    r"^[a-z0-9][a-z0-9_-]*(\.[a-z0-9][a-z0-9_-]*)*$",
    ["gc.pause.long"]
);
read_from_text!(Name, "rule-name", "^[a-z0-9][a-z0-9_-]*$", ["memory_emergency"]);
read_from_text!(
    EvidenceName,
    "evidence-name",
    "^(ledger|black-box|callers|allocations|stacks|census)$",
    ["ledger", "black-box", "callers", "allocations", "stacks", "census"]
);
read_from_text!(
    Moment,
    "date-or-time",
    r"^[0-9]{4}-[0-9]{2}-[0-9]{2}([Tt ].+)?$",
    ["2027-03-01", "2027-03-01T12:00:00Z"]
);

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: days, times, and other strings are parsed.
    /// Guarantee: a day stands for its end in UTC. Strings that are neither a day nor a time are refused, as are days
    /// before 1970 and days whose end cannot be represented.
    #[test]
    fn day_means_its_end_in_utc() {
        let read = |text: &str| text.parse::<Moment>().ok().map(|moment| moment.0 / 1_000_000_000);
        assert_eq!(read("1970-01-01"), Some(86_400));
        assert_eq!(read("2027-03-01"), read("2027-03-02T00:00:00Z"));
        assert_eq!(read("1970-01-01T01:00:00+01:00"), Some(0));
        for invalid in ["", "soon", "2027-13-01", "1.3.2027", "1969-01-01", "9999-12-31"] {
            assert_eq!(read(invalid), None, "{invalid}");
        }
    }

    /// Scenario: valid and invalid ids, names of groups and names in expressions are parsed.
    /// Guarantee: only valid names are accepted.
    #[test]
    fn only_valid_names_are_accepted() {
        for valid in ["gc.pause.long", "a", "2.x-y_z"] {
            assert!(valid.parse::<Id>().is_ok(), "{valid}");
        }
        for invalid in ["", ".", "a.", ".a", "Gc", "a b", "-a", "ä"] {
            assert!(invalid.parse::<Id>().is_err(), "{invalid}");
            assert!(invalid.parse::<Name>().is_err(), "{invalid}");
        }
        assert!(is_name("full_blocking2").is_ok() && is_name("P99").is_ok());
        for invalid in ["", "2x", "a-b", "a.b", "gc", "in", "true"] {
            assert!(is_name(invalid).is_err(), "{invalid}");
        }
    }
}
