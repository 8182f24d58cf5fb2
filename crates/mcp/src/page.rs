//! Parts of a list, and selected fields of a record.

use base::units::HumanDuration;
use serde_json::{Map, Value};

use super::source::Refusal;

/// Maximum number of rows per page.
const MAX_ROWS: usize = 50;

/// The units of all numbers in all answers.
pub(super) const UNITS: &str = "sizes bytes, _ns nanoseconds, _ms Unix milliseconds, shares 0 to 1, null unknown";

/// Returns a part of a list, and the key after which the next part starts; `None` at the end of the list.
///
/// A cursor is the key of the last row, so new rows at the start do not shift it. A cursor is refused if its row is no
/// longer in the list.
pub(super) fn page<'l, T>(
    all: &'l [T],
    key: impl Fn(&T) -> String,
    after: Option<&str>,
    limit: usize,
) -> Result<(&'l [T], Option<String>), Refusal> {
    let start = match after {
        None => 0,
        Some(after) => {
            let place = all.iter().position(|row| key(row) == after);
            place.map(|place| place + 1).ok_or_else(|| {
                Refusal::new(
                    format!("{after:?} is no longer in this list"),
                    "call again without `after`, with the same filters and order",
                )
            })?
        }
    };
    let rest = all.get(start..).unwrap_or_default();
    let rows = rest.get(..limit.clamp(1, MAX_ROWS)).unwrap_or(rest);
    let next = rows.last().filter(|_| rows.len() < rest.len()).map(key);
    Ok((rows, next))
}

/// Returns some fields of a record. `a.b` selects the field `b` of `a`, under the name `b`. A name with `?` is omitted
/// if its value is null. Missing fields are null.
pub(super) fn pick(record: &Value, names: &[&str]) -> Map<String, Value> {
    let mut picked = Map::new();
    for name in names {
        let (path, is_optional) = match name.strip_suffix('?') {
            Some(path) => (path, true),
            None => (*name, false),
        };
        let value = path.split('.').try_fold(record, |value, part| value.get(part));
        let value = value.cloned().unwrap_or_default();
        if !(is_optional && value.is_null()) {
            let short = path.rsplit('.').next().unwrap_or(path);
            picked.insert(short.to_owned(), value);
        }
    }
    picked
}

/// Limits each list to `most` values. If a list in the field `NAME` was longer, the field `NAME_left_out` contains the
/// number of omitted values. Lists in lists have no such number.
pub(super) fn trimmed(value: Value, most: usize) -> Value {
    match value {
        Value::Array(mut values) => {
            values.truncate(most);
            values.into_iter().map(|value| trimmed(value, most)).collect()
        }
        Value::Object(fields) => {
            let mut kept = Map::new();
            for (name, value) in fields {
                let more = value.as_array().map_or(0, |values| values.len().saturating_sub(most));
                if more > 0 {
                    kept.insert(format!("{name}_left_out"), more.into());
                }
                kept.insert(name, trimmed(value, most));
            }
            Value::Object(kept)
        }
        other => other,
    }
}

/// Returns a field that is a list, or an empty list if the field is missing or is not a list.
pub(super) fn list<'v>(record: &'v Value, name: &str) -> &'v [Value] {
    record.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Returns a field that is text, or `None` if the field is missing or is not text.
pub(super) fn text<'v>(record: &'v Value, name: &str) -> Option<&'v str> {
    record.get(name)?.as_str()
}

/// Parses a time in RFC 3339 (`2027-01-15T08:00:00Z`), or a duration before `now_ms` (`10m`). Times before 1970 become
/// 0.
pub(super) fn instant_ms(text: &str, now_ms: u64) -> Result<u64, Refusal> {
    if let Ok(time) = text.parse::<jiff::Timestamp>() {
        return Ok(u64::try_from(time.as_millisecond()).unwrap_or(0));
    }
    match text.parse::<HumanDuration>() {
        Ok(HumanDuration(ago)) => Ok(now_ms.saturating_sub(u64::try_from(ago.as_millis()).unwrap_or(u64::MAX))),
        Err(_) => Err(Refusal::new(
            format!("{text:?} is not a time"),
            "write it as 2027-01-15T08:00:00Z, or as a time before now: 10m",
        )),
    }
}

/// Formats Unix milliseconds in RFC 3339. Returns `None` if the time cannot be represented.
pub(super) fn rfc3339(ms: u64) -> Option<String> {
    base::time::rfc3339(ms.saturating_mul(1_000_000))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rows(all: &[u32], after: Option<&str>, limit: usize) -> Result<(Vec<u32>, Option<String>), Refusal> {
        page(all, u32::to_string, after, limit).map(|(rows, next)| (rows.to_vec(), next))
    }

    /// Scenario: a list of five rows is read in parts of two; two rows are added at its start; the row of a cursor is
    /// removed; limits are 0 and larger than the list.
    /// Guarantee: every row is returned once, and `next` exists only if there are more rows; new rows shift nothing; a
    /// cursor whose row was removed is refused; a part has 1 to [`MAX_ROWS`] rows if rows are left.
    #[test]
    fn list_is_read_in_parts() {
        let (first, next) = rows(&[5, 4, 3, 2, 1], None, 2).unwrap();
        assert_eq!((first, next.as_deref()), (vec![5, 4], Some("4")));
        let grown = [7, 6, 5, 4, 3, 2, 1];
        let (second, next) = rows(&grown, next.as_deref(), 2).unwrap();
        assert_eq!((second, next.as_deref()), (vec![3, 2], Some("2")));
        assert_eq!(rows(&grown, next.as_deref(), 2).unwrap(), (vec![1], None));
        assert!(rows(&[5, 3], Some("4"), 2).unwrap_err().error.contains("\"4\""));
        assert_eq!(rows(&[5, 3], None, 0).unwrap(), (vec![5], Some("5".to_owned())));
        assert_eq!(rows(&[5, 3], None, 2).unwrap().1, None);
        assert_eq!(rows(&[], None, 2).unwrap(), (vec![], None));
        let many: Vec<u32> = (0..100).collect();
        assert_eq!(rows(&many, None, usize::MAX).unwrap().0.len(), MAX_ROWS);
    }

    /// Scenario: fields exist, are null, are missing, and are nested; a list is too long.
    /// Guarantee: unknown values are null and not omitted, unless the name allows it; omitted values are counted.
    #[test]
    fn selected_fields_are_returned() {
        let record = json!({ "a": 1, "b": { "c": 2, "d": null }, "e": null, "f": [[1, 2, 3], 2, 3] });
        let picked = Value::Object(pick(&record, &["a", "b.c", "b.d", "x", "e?", "x.y?"]));
        assert_eq!(picked, json!({ "a": 1, "c": 2, "d": null, "x": null }));
        assert_eq!(
            trimmed(record, 2)["f"],
            json!([[1, 2], 2]),
            "nested lists are shortened, too, without a count"
        );
        assert_eq!(
            trimmed(json!({ "f": [1, 2, 3] }), 2),
            json!({ "f_left_out": 1, "f": [1, 2] })
        );
    }

    /// Scenario: the arguments are times in the usual notations, and words.
    /// Guarantee: times are accepted; words are refused with an example.
    #[test]
    fn times_are_parsed() {
        assert_eq!(instant_ms("1970-01-01T00:00:01.5Z", 0).unwrap(), 1500);
        assert_eq!(instant_ms("2m", 1_000_000).unwrap(), 880_000);
        assert_eq!(instant_ms("9999h", 5).unwrap(), 0);
        assert!(instant_ms("yesterday", 5).unwrap_err().remedy.unwrap().contains("10m"));
    }
}
