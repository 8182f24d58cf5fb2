//! V4 definitions: a payload with UTF-16 strings, followed by V5 tags.

use super::fields::{ARRAY, OBJECT};
use super::{Field, FieldType, Metadata, provider};
use crate::cursor::Cursor;
use crate::error::Error;
use crate::limits::{MAX_FIELD_DEPTH, MAX_FIELDS};

/// Kinds of V5 tags.
const TAG_OPCODE: u8 = 1;
const TAG_FIELDS: u8 = 2;

const READING: &str = "a metadata definition";
const READING_FIELDS: &str = "the fields of a metadata definition";

pub(super) fn read(payload: &[u8], base: u64) -> Result<Metadata, Error> {
    let mut cursor = Cursor::new(payload, base);
    let mut metadata = Metadata {
        id: cursor.u32(READING)?,
        provider: provider(cursor.utf16z(READING)?),
        event_id: cursor.u32(READING)?,
        name: cursor.utf16z(READING)?,
        keywords: Some(cursor.u64(READING)?),
        version: Some(cursor.u32(READING)?),
        level: Some(cursor.u32(READING)?),
        opcode: None,
        fields: Vec::new(),
    };
    let mut budget = MAX_FIELDS;
    match fields(&mut cursor, Style::V1, &mut budget, 0)? {
        Some(fields) => metadata.fields = fields,
        // The list has no lengths, so the fields after an unknown type cannot be read.
        None => return Ok(metadata),
    }
    while !cursor.is_empty() {
        let length = cursor.u32("a tag of a metadata definition")? as usize;
        let kind = cursor.u8("a tag of a metadata definition")?;
        let mut tag = cursor.part(length, "a tag of a metadata definition")?;
        match kind {
            TAG_OPCODE => metadata.opcode = Some(tag.u8("the opcode of a metadata definition")?),
            TAG_FIELDS => metadata.fields = fields(&mut tag, Style::V2, &mut budget, 0)?.unwrap_or_default(),
            _ => {}
        }
    }
    Ok(metadata)
}

/// The layout of a field list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Style {
    /// The original layout: type, name.
    V1,
    /// The layout of the V5 tag: length, name, type.
    V2,
}

/// Reads a field list. Returns `None` if the list has a type that cannot be skipped.
fn fields(
    cursor: &mut Cursor<'_>,
    style: Style,
    budget: &mut usize,
    depth: usize,
) -> Result<Option<Vec<Field>>, Error> {
    let offset = cursor.offset();
    let count = cursor.u32(READING_FIELDS)? as usize;
    if count > *budget {
        return Err(Error::limit(offset, READING_FIELDS, count, MAX_FIELDS));
    }
    if depth > MAX_FIELD_DEPTH {
        return Err(Error::limit(offset, READING_FIELDS, depth, MAX_FIELD_DEPTH));
    }
    *budget -= count;
    let mut list = Vec::new();
    for _ in 0..count {
        match style {
            Style::V1 => {
                let Some(kind) = kind(cursor, style, budget, depth)? else {
                    return Ok(None);
                };
                list.push(Field {
                    name: cursor.utf16z(READING_FIELDS)?,
                    kind,
                });
            }
            Style::V2 => {
                // The length includes its own four bytes.
                let offset = cursor.offset();
                let length = (cursor.u32(READING_FIELDS)? as usize).checked_sub(4);
                let length = length.ok_or_else(|| Error::corrupt(offset, READING_FIELDS, "a length is below 4"))?;
                let mut row = cursor.part(length, READING_FIELDS)?;
                let name = row.utf16z(READING_FIELDS)?;
                let Some(kind) = kind(&mut row, style, budget, depth)? else {
                    return Ok(None);
                };
                list.push(Field { name, kind });
            }
        }
    }
    Ok(Some(list))
}

fn kind(cursor: &mut Cursor<'_>, style: Style, budget: &mut usize, depth: usize) -> Result<Option<FieldType>, Error> {
    let offset = cursor.offset();
    if depth > MAX_FIELD_DEPTH {
        return Err(Error::limit(offset, READING_FIELDS, depth, MAX_FIELD_DEPTH));
    }
    Ok(match cursor.u32(READING_FIELDS)? {
        OBJECT => fields(cursor, style, budget, depth + 1)?.map(FieldType::Object),
        ARRAY => kind(cursor, style, budget, depth + 1)?.map(|element| FieldType::Array(Box::new(element))),
        code => match FieldType::plain(code) {
            // The first list has no lengths, so an unknown type cannot be skipped.
            FieldType::Other(_) if style == Style::V1 => None,
            known => Some(known),
        },
    })
}

fn put_utf16z(out: &mut Vec<u8>, text: &str) {
    // A zero unit would terminate the string.
    for unit in text.encode_utf16().filter(|unit| *unit != 0) {
        out.extend(unit.to_le_bytes());
    }
    out.extend([0, 0]);
}

pub(super) fn write(metadata: &Metadata, out: &mut Vec<u8>) {
    out.extend(metadata.id.to_le_bytes());
    put_utf16z(out, &metadata.provider);
    out.extend(metadata.event_id.to_le_bytes());
    put_utf16z(out, &metadata.name);
    out.extend(metadata.keywords.unwrap_or_default().to_le_bytes());
    out.extend(metadata.version.unwrap_or_default().to_le_bytes());
    out.extend(metadata.level.unwrap_or_default().to_le_bytes());
    // Like the runtime, write a list with a type that the first list cannot express (an array) into the tag, and leave
    // the first list empty.
    let tagged = metadata.fields.iter().any(|field| !fits_v1(&field.kind));
    put_fields(out, if tagged { &[] } else { &metadata.fields }, Style::V1);
    if let Some(opcode) = metadata.opcode.filter(|opcode| *opcode != 0) {
        out.extend(1_u32.to_le_bytes());
        out.extend([TAG_OPCODE, opcode]);
    }
    if tagged {
        let mut list = Vec::new();
        put_fields(&mut list, &metadata.fields, Style::V2);
        out.extend((list.len() as u32).to_le_bytes());
        out.push(TAG_FIELDS);
        out.extend(list);
    }
}

fn fits_v1(kind: &FieldType) -> bool {
    match kind {
        FieldType::Object(fields) => fields.iter().all(|field| fits_v1(&field.kind)),
        FieldType::Other(_) => false,
        other => other.element().is_none(),
    }
}

fn put_fields(out: &mut Vec<u8>, fields: &[Field], style: Style) {
    out.extend((fields.len() as u32).to_le_bytes());
    for field in fields {
        match style {
            Style::V1 => {
                put_kind(out, &field.kind, style);
                put_utf16z(out, &field.name);
            }
            Style::V2 => {
                let mut row = Vec::new();
                put_utf16z(&mut row, &field.name);
                put_kind(&mut row, &field.kind, style);
                out.extend((row.len() as u32 + 4).to_le_bytes());
                out.extend(row);
            }
        }
    }
}

fn put_kind(out: &mut Vec<u8>, kind: &FieldType, style: Style) {
    out.extend(kind.code().to_le_bytes());
    if let FieldType::Object(fields) = kind {
        put_fields(out, fields, style);
    } else if let Some(element) = kind.element() {
        put_kind(out, element, style);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(fields: Vec<Field>, opcode: Option<u8>) -> Metadata {
        Metadata {
            id: 7,
            provider: "My-Provider".into(),
            event_id: 12,
            name: "Työ".to_owned(),
            version: Some(2),
            level: Some(4),
            keywords: Some(0x8000_0000_0000_0001),
            opcode,
            fields,
        }
    }

    fn field(name: &str, kind: FieldType) -> Field {
        Field {
            name: name.to_owned(),
            kind,
        }
    }

    fn bytes(metadata: &Metadata) -> Vec<u8> {
        let mut out = Vec::new();
        write(metadata, &mut out);
        out
    }

    /// Scenario: definitions are native and have no fields, or have plain and nested fields (first list) or an array
    /// (V5 tag), each with and without an opcode.
    /// Guarantee: each definition round-trips. A definition that is cut at any position is an error, or lacks only
    /// values of the tags.
    #[test]
    fn definition_round_trips() {
        let nested = FieldType::Object(vec![field("x", FieldType::U8), field("y", FieldType::Utf16String)]);
        let plain = vec![
            field("a", FieldType::I32),
            field("inner", nested.clone()),
            field("g", FieldType::Guid),
        ];
        let array = FieldType::Array(Box::new(FieldType::Object(vec![field(
            "k",
            FieldType::Array(Box::new(nested)),
        )])));
        for fields in [vec![], plain, vec![field("all", array), field("n", FieldType::F64)]] {
            for opcode in [None, Some(2)] {
                let metadata = definition(fields.clone(), opcode);
                let bytes = bytes(&metadata);
                assert_eq!(read(&bytes, 0).unwrap(), metadata);
                for cut in 0..bytes.len() {
                    if let Ok(mut less) = read(&bytes[..cut], 0) {
                        (less.fields, less.opcode) = (metadata.fields.clone(), opcode);
                        assert_eq!(less, metadata);
                    }
                }
            }
        }
    }

    /// Scenario: a native definition of the runtime provider is written.
    /// Guarantee: the definition has 94 bytes, as written by runtimes.
    #[test]
    fn native_definition_has_length_of_runtime() {
        let native = Metadata {
            provider: "Microsoft-Windows-DotNETRuntime".into(),
            name: String::new(),
            ..definition(vec![], None)
        };
        assert_eq!(bytes(&native).len(), 94);
    }

    /// Scenario: a definition has a field of an unknown type.
    /// Guarantee: with the first list, the definition has no fields; with a V5 tag, the other fields are present.
    #[test]
    fn definition_survives_unknown_field_type() {
        let fields = vec![field("a", FieldType::Other(77)), field("b", FieldType::U16)];
        assert_eq!(
            read(&bytes(&definition(fields.clone(), None)), 0).unwrap().fields,
            fields
        );
        let mut first_list = bytes(&definition(vec![], None));
        let place = first_list.len() - 4;
        first_list.truncate(place);
        first_list.extend([1, 0, 0, 0, 77, 0, 0, 0, b'a', 0, 0, 0]);
        assert_eq!(read(&first_list, 0).unwrap(), definition(vec![], None));
    }

    /// Scenario: lists and arrays are nested without end, and another list claims four billion fields.
    /// Guarantee: each definition is an error at a limit.
    #[test]
    fn hostile_list_reaches_limit() {
        let mut nested = bytes(&definition(vec![], None));
        let place = nested.len() - 4;
        nested.truncate(place);
        let head = nested.clone();
        for _ in 0..100_000 {
            nested.extend([1, 0, 0, 0, 1, 0, 0, 0]);
        }
        assert!(matches!(read(&nested, 0), Err(Error::LimitExceeded { .. })));
        let mut arrays = head.clone();
        arrays.extend([1, 0, 0, 0]);
        for _ in 0..100_000 {
            arrays.extend([19, 0, 0, 0]);
        }
        assert!(matches!(read(&arrays, 0), Err(Error::LimitExceeded { .. })));
        let mut many = head;
        many.extend([0xff, 0xff, 0xff, 0xff]);
        assert!(matches!(
            read(&many, 0),
            Err(Error::LimitExceeded { value: 0xffff_ffff, .. })
        ));
    }
}
