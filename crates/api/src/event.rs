//! One decoded event, as a record and as a line of text.

use std::fmt::Write as _;

use base::text::shown;
use clr_gc::event::{Fields, Table, Value};
use clr_gc::stream::{Observed, UndecodedReason};
use serde::Serialize;
use serde::ser::{SerializeMap, SerializeSeq, Serializer};

/// `kind: "event"`: an event as a record.
#[derive(Debug)]
pub struct EventView<'o, 'a>(pub &'o Observed<'a>);

impl Serialize for EventView<'_, '_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Observed { event, decoded, at, .. } = self.0;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("kind", "event")?;
        map.serialize_entry("provider", &event.metadata.provider)?;
        map.serialize_entry("id", &event.metadata.event_id)?;
        map.serialize_entry("name", &name(self.0))?;
        map.serialize_entry("version", &event.metadata.version)?;
        map.serialize_entry("thread", &event.thread)?;
        map.serialize_entry("offset_ns", at)?;
        match decoded {
            Ok(decoded) => {
                map.serialize_entry("fields", &FieldMap(decoded))?;
                map.serialize_entry("undecoded", &None::<&str>)?;
            }
            Err(error) => {
                map.serialize_entry("fields", &None::<()>)?;
                map.serialize_entry("undecoded", &hex(event.payload))?;
                if let UndecodedReason::Payload(error) = error {
                    map.serialize_entry("error", &error.to_string())?;
                }
            }
        }
        map.end()
    }
}

/// Returns the name of an event: the name in the manifest if the layout is known, otherwise the name in the stream.
/// Returns `None` if neither has a name. A stream has no names for the runtime's own events.
pub fn name<'a>(observed: &Observed<'a>) -> Option<&'a str> {
    let in_stream = Some(observed.event.metadata.name.as_str()).filter(|name| !name.is_empty());
    observed.layout.map(|layout| layout.name()).or(in_stream)
}

/// Formats bytes as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
            let _infallible = write!(text, "{byte:02x}");
            text
        })
}

struct FieldMap<'f>(&'f dyn Fields);

impl Serialize for FieldMap<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        let mut result = Ok(());
        self.0.fields(&mut |name, value| {
            if result.is_ok() {
                result = map.serialize_entry(name, &ValueView(value));
            }
        });
        result?;
        map.end()
    }
}

struct ValueView<'v>(Value<'v>);

impl Serialize for ValueView<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::U64(number) => serializer.serialize_u64(number),
            Value::I64(number) => serializer.serialize_i64(number),
            Value::F32(number) => serializer.serialize_f32(number),
            Value::Text(text) => serializer.serialize_str(&text.to_text()),
            Value::Bytes(bytes) => serializer.serialize_str(&hex(bytes)),
            Value::Numbers(numbers) => serializer.collect_seq(numbers.iter()),
            Value::Rows(rows) => RowsView(rows).serialize(serializer),
        }
    }
}

struct RowsView<'r>(&'r dyn Table);

impl Serialize for RowsView<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut sequence = serializer.serialize_seq(Some(self.0.rows()))?;
        let mut result = Ok(());
        self.0.each(&mut |row| {
            if result.is_ok() {
                result = sequence.serialize_element(&FieldMap(row));
            }
        });
        result?;
        sequence.end()
    }
}

/// Formats the event as one line: time in seconds, thread, name, and `Field=value` pairs. If the layout is unknown or
/// the payload cannot be decoded, the line contains the payload in hexadecimal digits instead of the pairs.
pub fn line(observed: &Observed<'_>) -> String {
    let mut text = format!(
        "{:>13} {:>8}  {:<26}",
        format!("{:.6}", observed.at as f64 / 1e9),
        observed.event.thread,
        name(observed).map_or_else(|| unnamed(observed), str::to_owned)
    );
    match &observed.decoded {
        Ok(decoded) => decoded.fields(&mut |name, value| {
            let _infallible = write!(text, " {name}={value}");
        }),
        Err(UndecodedReason::Unknown) => {
            let _infallible = write!(text, " {}", hex(observed.event.payload));
        }
        Err(UndecodedReason::Payload(error)) => {
            let _infallible = write!(text, " not decoded ({error}): {}", hex(observed.event.payload));
        }
        Err(_) => {}
    }
    // Names of events and fields come from the recording and must not end the line.
    shown(&text)
}

fn unnamed(observed: &Observed<'_>) -> String {
    let metadata = observed.event.metadata;
    let provider = metadata
        .provider
        .strip_prefix("Microsoft-Windows-")
        .unwrap_or(&metadata.provider);
    format!("{provider}/{}", metadata.event_id)
}
