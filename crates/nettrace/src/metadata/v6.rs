//! V6 definitions: rows with UTF-8 strings and optional parts. Rows and fields have a length, so that unknown parts at
//! their end can be skipped.

use super::fields::{ARRAY, DATA_LOCATION, FIXED_ARRAY, OBJECT, RELATIVE_LOCATION};
use super::{Field, FieldType, Metadata, provider};
use crate::cursor::{Cursor, put_varu32};
use crate::error::Error;
use crate::limits::{MAX_FIELD_DEPTH, MAX_FIELDS};

const READING: &str = "a metadata row";
const READING_FIELDS: &str = "the fields of a metadata row";
const READING_OPTIONALS: &str = "the optionals of a metadata row";

/// Kinds of optional parts.
const OPCODE: u8 = 1;
const KEYWORDS: u8 = 3;
const MESSAGE_TEMPLATE: u8 = 4;
const DESCRIPTION: u8 = 5;
const KEY_VALUE: u8 = 6;
const PROVIDER_GUID: u8 = 7;
const LEVEL: u8 = 8;
const VERSION: u8 = 9;

pub(super) fn read(row: &[u8], base: u64) -> Result<Metadata, Error> {
    let mut cursor = Cursor::new(row, base);
    let mut metadata = Metadata {
        id: cursor.varu32(READING)?,
        provider: provider(cursor.utf8(READING)?),
        event_id: cursor.varu32(READING)?,
        name: cursor.utf8(READING)?,
        ..Metadata::default()
    };
    let mut budget = MAX_FIELDS;
    metadata.fields = fields(&mut cursor, &mut budget, 0)?;
    let length = usize::from(cursor.u16(READING_OPTIONALS)?);
    let mut optionals = cursor.part(length, READING_OPTIONALS)?;
    while !optionals.is_empty() {
        match optionals.u8(READING_OPTIONALS)? {
            OPCODE => metadata.opcode = Some(optionals.u8(READING_OPTIONALS)?),
            KEYWORDS => metadata.keywords = Some(optionals.u64(READING_OPTIONALS)?),
            MESSAGE_TEMPLATE | DESCRIPTION => optionals.skip_utf8(READING_OPTIONALS)?,
            KEY_VALUE => {
                optionals.skip_utf8(READING_OPTIONALS)?;
                optionals.skip_utf8(READING_OPTIONALS)?;
            }
            PROVIDER_GUID => optionals.take(16, READING_OPTIONALS).map(|_| ())?,
            LEVEL => metadata.level = Some(u32::from(optionals.u8(READING_OPTIONALS)?)),
            VERSION => metadata.version = Some(u32::from(optionals.u8(READING_OPTIONALS)?)),
            // Optional parts have no length, so the parts after an unknown one cannot be read.
            _ => break,
        }
    }
    Ok(metadata)
}

fn fields(cursor: &mut Cursor<'_>, budget: &mut usize, depth: usize) -> Result<Vec<Field>, Error> {
    let offset = cursor.offset();
    let count = usize::from(cursor.u16(READING_FIELDS)?);
    if count > *budget {
        return Err(Error::limit(offset, READING_FIELDS, count, MAX_FIELDS));
    }
    *budget -= count;
    let mut list = Vec::new();
    for _ in 0..count {
        let length = usize::from(cursor.u16(READING_FIELDS)?);
        let mut row = cursor.part(length, READING_FIELDS)?;
        let name = row.utf8(READING_FIELDS)?;
        list.push(Field {
            name,
            kind: kind(&mut row, budget, depth)?,
        });
    }
    Ok(list)
}

fn kind(cursor: &mut Cursor<'_>, budget: &mut usize, depth: usize) -> Result<FieldType, Error> {
    if depth >= MAX_FIELD_DEPTH {
        return Err(Error::limit(cursor.offset(), READING_FIELDS, depth, MAX_FIELD_DEPTH));
    }
    let code = u32::from(cursor.u8(READING_FIELDS)?);
    if code == OBJECT {
        return fields(cursor, budget, depth + 1).map(FieldType::Object);
    }
    if ![ARRAY, FIXED_ARRAY, RELATIVE_LOCATION, DATA_LOCATION].contains(&code) {
        return Ok(FieldType::plain(code));
    }
    let element = Box::new(kind(cursor, budget, depth + 1)?);
    Ok(match code {
        ARRAY => FieldType::Array(element),
        FIXED_ARRAY => FieldType::FixedArray(element, cursor.u16(READING_FIELDS)?),
        RELATIVE_LOCATION => FieldType::RelativeLocation(element),
        _ => FieldType::DataLocation(element),
    })
}

pub(crate) fn put_utf8(out: &mut Vec<u8>, text: &str) {
    put_varu32(out, text.len() as u32);
    out.extend(text.as_bytes());
}

pub(super) fn write(metadata: &Metadata) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    put_varu32(&mut out, metadata.id);
    put_utf8(&mut out, &metadata.provider);
    put_varu32(&mut out, metadata.event_id);
    put_utf8(&mut out, &metadata.name);
    put_fields(&mut out, &metadata.fields)?;
    let mut optionals = Vec::new();
    if let Some(opcode) = metadata.opcode {
        optionals.extend([OPCODE, opcode]);
    }
    if let Some(keywords) = metadata.keywords {
        optionals.push(KEYWORDS);
        optionals.extend(keywords.to_le_bytes());
    }
    if let Some(level) = metadata.level {
        optionals.extend([LEVEL, u8::try_from(level).ok()?]);
    }
    if let Some(version) = metadata.version {
        optionals.extend([VERSION, u8::try_from(version).ok()?]);
    }
    out.extend((optionals.len() as u16).to_le_bytes());
    out.extend(optionals);
    (out.len() <= usize::from(u16::MAX)).then_some(out)
}

fn put_fields(out: &mut Vec<u8>, fields: &[Field]) -> Option<()> {
    out.extend(u16::try_from(fields.len()).ok()?.to_le_bytes());
    for field in fields {
        let mut row = Vec::new();
        put_utf8(&mut row, &field.name);
        put_kind(&mut row, &field.kind)?;
        out.extend(u16::try_from(row.len()).ok()?.to_le_bytes());
        out.extend(row);
    }
    Some(())
}

fn put_kind(out: &mut Vec<u8>, kind: &FieldType) -> Option<()> {
    out.push(u8::try_from(kind.code()).ok()?);
    if let FieldType::Object(fields) = kind {
        return put_fields(out, fields);
    }
    if let Some(element) = kind.element() {
        put_kind(out, element)?;
    }
    if let FieldType::FixedArray(_, count) = kind {
        out.extend(count.to_le_bytes());
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(name: &str, kind: FieldType) -> Field {
        Field {
            name: name.to_owned(),
            kind,
        }
    }

    fn metadata() -> Metadata {
        let bytes = || Box::new(FieldType::U8);
        Metadata {
            id: 300,
            provider: "Universal.Events".into(),
            event_id: 9,
            name: "cpu".to_owned(),
            version: Some(3),
            level: Some(5),
            keywords: Some(1 << 40),
            opcode: Some(1),
            fields: vec![
                field("a", FieldType::VarUint),
                field("b", FieldType::FixedArray(bytes(), 16)),
                field(
                    "c",
                    FieldType::Object(vec![field("d", FieldType::DataLocation(bytes()))]),
                ),
                field("e", FieldType::RelativeLocation(Box::new(FieldType::Array(bytes())))),
                field("f", FieldType::Bool8),
                field("g", FieldType::Other(99)),
            ],
        }
    }

    /// Scenario: a definition has every kind of type and all optional parts.
    /// Guarantee: the definition round-trips; reading a definition that is cut at any position returns an error.
    #[test]
    fn definition_round_trips() {
        let bytes = write(&metadata()).unwrap();
        assert_eq!(read(&bytes, 0).unwrap(), metadata());
        for cut in 0..bytes.len() {
            assert!(read(&bytes[..cut], 0).is_err(), "{cut}");
        }
    }

    /// Scenario: a definition has no optional parts, as written by one-collect; another has bytes of a later minor
    /// version at its end.
    /// Guarantee: version, level and keywords are unknown (not 0); surplus bytes are ignored.
    #[test]
    fn absent_optionals_are_unknown_and_surplus_is_ignored() {
        let bare = Metadata {
            version: None,
            level: None,
            keywords: None,
            opcode: None,
            ..metadata()
        };
        let mut bytes = write(&bare).unwrap();
        assert_eq!(read(&bytes, 0).unwrap(), bare);
        bytes.extend([1, 2, 3]);
        assert_eq!(read(&bytes, 0).unwrap(), bare);
    }

    /// Scenario: a definition has optional parts that only interactive tools need, and then an unknown part.
    /// Guarantee: the parts are skipped, the parts after them are read, and the unknown part ends the list.
    #[test]
    fn unused_optionals_are_skipped() {
        let mut bytes = vec![1, 1, b'P', 2, 1, b'N', 0, 0];
        let optionals = [
            &[
                MESSAGE_TEMPLATE,
                1,
                b'm',
                DESCRIPTION,
                1,
                b'd',
                KEY_VALUE,
                1,
                b'k',
                1,
                b'v',
                PROVIDER_GUID,
            ][..],
            &[7; 16],
            &[VERSION, 4, 200, LEVEL, 2],
        ]
        .concat();
        bytes.extend((optionals.len() as u16).to_le_bytes());
        bytes.extend(optionals);
        let read = read(&bytes, 0).unwrap();
        assert_eq!((read.version, read.level), (Some(4), None));
    }

    /// Scenario: arrays are nested without end.
    /// Guarantee: reading returns an error at the nesting limit, before the call stack overflows.
    #[test]
    fn hostile_nesting_reaches_limit() {
        let mut bytes = vec![1, 1, b'P', 2, 1, b'N', 1, 0, 0xff, 0xff, 0];
        bytes.extend([19; 70_000]);
        assert!(matches!(read(&bytes, 0), Err(Error::LimitExceeded { .. })));
    }
}
