//! Reads the static fields of an assembly from the metadata in its file (ECMA-335, partition II).
//!
//! ```text
//! file: MZ -> PE header -> sections, directory 14 -> CLI header -> metadata root -> #~ (tables), #Strings, #Blob
//! tables: a TypeDef row refers to its first field; its fields end before the first field of the next row
//! ```
//!
//! Only fields that can hold an object count: static, not literal, without data in the file, and not of a number type.
//! The input is not trusted: every position is checked against the bytes, and counts are bounded by their length.

use std::collections::HashSet;
use std::fmt;

/// Maximum size of an assembly's metadata, in bytes: the runtime's own library has 5 MB.
const MAX_METADATA: u32 = 16 << 20;
/// Length of the start of the file that contains all headers, in bytes.
const HEADERS: u32 = 4096;
const MAX_SECTIONS: usize = 96;
/// Maximum length of a name, in characters.
const MAX_NAME: usize = 512;

const TYPE_DEF: usize = 2;
const FIELD: usize = 4;
const METHOD_DEF: usize = 6;

const STATIC: u32 = 0x10;
const LITERAL: u32 = 0x40;
const HAS_RVA: u32 = 0x100;

/// A static field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StaticField {
    /// Row of the class. Fields of one class have the same row.
    pub class: u32,
    /// Name of the class without its namespace. A nested class has no outer class in its name, as in the runtime's
    /// events.
    pub class_name: String,
    /// Name of the field.
    pub name: String,
}

/// Error returned if a file has no readable metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MetadataError(&'static str);

impl fmt::Display for MetadataError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no metadata: {}", self.0)
    }
}

/// Returns the static fields of an assembly with one of the given names, in the order of its tables. `read` returns the
/// given number of bytes from an offset of the file, or fewer at its end.
///
/// # Errors
/// Returns an error if the file is not an assembly, or is damaged.
pub fn statics(
    read: &mut impl FnMut(u64, u32) -> Option<Vec<u8>>,
    wanted: &HashSet<&str>,
) -> Result<Vec<StaticField>, MetadataError> {
    let metadata = find(read)?;
    Tables::read(&metadata).map(|tables| tables.statics(wanted))
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u32> {
    let chunk = bytes.get(at..)?.first_chunk::<2>()?;
    Some(u16::from_le_bytes(*chunk).into())
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk::<4>()?))
}

/// Returns the bytes of the metadata, starting at its root.
fn find(read: &mut impl FnMut(u64, u32) -> Option<Vec<u8>>) -> Result<Vec<u8>, MetadataError> {
    let head = read(0, HEADERS).ok_or(MetadataError("the file cannot be read"))?;
    let place = || {
        let pe = u32_at(&head, 0x3c)? as usize;
        if head.get(..2)? != b"MZ" || head.get(pe..pe.checked_add(4)?)? != b"PE\0\0" {
            return None;
        }
        let sections = u16_at(&head, pe + 6)? as usize;
        let optional = pe + 24;
        let directories = match u16_at(&head, optional)? {
            0x10b => optional + 96,
            0x20b => optional + 112,
            _ => return None,
        };
        let cli = u32_at(&head, directories + 14 * 8)?;
        let table = optional + u16_at(&head, pe + 20)? as usize;
        Some((cli, table, sections.min(MAX_SECTIONS)))
    };
    let (cli, table, sections) = place().ok_or(MetadataError("no PE file"))?;
    let offset = |rva: u32| {
        (0..sections).find_map(|section| {
            let at = table + section * 40;
            let (size, start) = (u32_at(&head, at + 8)?, u32_at(&head, at + 12)?);
            let within = rva.checked_sub(start).filter(|within| *within < size)?;
            u64::from(u32_at(&head, at + 20)?).checked_add(within.into())
        })
    };
    let header = offset(cli).filter(|_| cli != 0).and_then(|at| read(at, 16));
    let header = header.ok_or(MetadataError("no assembly"))?;
    let (rva, size) = u32_at(&header, 8)
        .zip(u32_at(&header, 12))
        .ok_or(MetadataError("no assembly"))?;
    if size > MAX_METADATA {
        return Err(MetadataError("too large"));
    }
    offset(rva)
        .and_then(|at| read(at, size))
        .ok_or(MetadataError("the metadata is not in the file"))
}

/// The required tables and heaps of an assembly's metadata.
struct Tables<'a> {
    strings: &'a [u8],
    blobs: &'a [u8],
    types: Rows<'a>,
    fields: Rows<'a>,
    /// Widths of references to names, blobs, base types (`TypeDefOrRef`) and fields, in bytes.
    name: usize,
    blob: usize,
    extends: usize,
    field: usize,
}

#[derive(Clone, Copy)]
struct Rows<'a> {
    bytes: &'a [u8],
    width: usize,
    count: usize,
}

impl<'a> Rows<'a> {
    fn get(&self, row: usize) -> Option<&'a [u8]> {
        let start = row.checked_mul(self.width)?;
        self.bytes.get(start..start.checked_add(self.width)?)
    }
}

fn index(row: &[u8], at: usize, width: usize) -> Option<u32> {
    match width {
        2 => u16_at(row, at),
        _ => u32_at(row, at),
    }
}

impl<'a> Tables<'a> {
    fn read(metadata: &'a [u8]) -> Result<Self, MetadataError> {
        Self::parse(metadata).ok_or(MetadataError("the metadata is damaged"))
    }

    fn parse(metadata: &'a [u8]) -> Option<Self> {
        if u32_at(metadata, 0)? != 0x424a_5342 {
            return None;
        }
        let version = u32_at(metadata, 12)? as usize;
        let mut at = 16_usize.checked_add(version)?.checked_add(2)?;
        let streams = u16_at(metadata, at)?;
        at += 2;
        let (mut tables, mut strings, mut blobs) = (None, None, None);
        for _ in 0..streams {
            let (offset, size) = (u32_at(metadata, at)? as usize, u32_at(metadata, at + 4)? as usize);
            let name = metadata.get(at + 8..)?;
            let length = name.iter().take(32).position(|byte| *byte == 0)?;
            let stream = metadata.get(offset..offset.checked_add(size)?);
            match name.get(..length)? {
                b"#~" | b"#-" => tables = stream,
                b"#Strings" => strings = stream,
                b"#Blob" => blobs = stream,
                _ => {}
            }
            at += 8 + (length / 4 + 1) * 4;
        }
        let tables: &[u8] = tables?;
        let sizes = *tables.get(6)?;
        let valid = u64::from_le_bytes(*tables.get(8..)?.first_chunk::<8>()?);
        let mut at = 24;
        let mut counts = [0_usize; 64];
        for (table, count) in counts.iter_mut().enumerate() {
            if valid >> table & 1 == 1 {
                *count = u32_at(tables, at)? as usize;
                at += 4;
            }
        }
        // Widths of an index into a heap, into a table, and into one of several tables, whose tag takes some bits.
        let heap = |bit: u8| if sizes & bit != 0 { 4 } else { 2 };
        let count = |table: usize| counts.get(table).copied().unwrap_or(0);
        let of = |table: usize| if count(table) < 1 << 16 { 2 } else { 4 };
        let one_of = |all: &[usize], bits: u32| {
            let most = all.iter().map(|table| count(*table)).max().unwrap_or(0);
            if most < 1 << (16 - bits) { 2 } else { 4 }
        };
        let (name, guid, blob) = (heap(1), heap(2), heap(4));
        let extends = one_of(&[TYPE_DEF, 1, 0x1b], 2);
        // Files that an editor saved contain FieldPtr and MethodPtr (3, 5), to which lists then refer. Such files are
        // refused.
        let has_pointers = count(3) > 0 || count(5) > 0;
        let widths = [
            2 + name + 3 * guid,
            one_of(&[0, 0x1a, 0x23, 1], 2) + 2 * name,
            4 + 2 * name + extends + of(FIELD) + of(METHOD_DEF),
            0,
            2 + name + blob,
        ];
        let mut all = [Rows {
            bytes: &[],
            width: 0,
            count: 0,
        }; 5];
        for (table, (rows, width)) in all.iter_mut().zip(widths).enumerate() {
            let length = count(table).checked_mul(width)?;
            *rows = Rows {
                bytes: tables.get(at..at.checked_add(length)?)?,
                width,
                count: count(table),
            };
            at += length;
        }
        let [_, _, types, _, fields] = all;
        Some(Self {
            strings: strings?,
            blobs: blobs?,
            types,
            fields,
            name,
            blob,
            extends,
            field: of(FIELD),
        })
        .filter(|_| !has_pointers)
    }

    fn text(&self, at: u32) -> Option<&'a str> {
        let rest = self.strings.get(at as usize..)?;
        let end = rest.iter().take(MAX_NAME).position(|byte| *byte == 0)?;
        std::str::from_utf8(rest.get(..end)?).ok()
    }

    fn statics(&self, wanted: &HashSet<&str>) -> Vec<StaticField> {
        let mut found = Vec::new();
        // Lists are consecutive: a field belongs to one class.
        let mut listed = 0;
        for class in 0..self.types.count {
            let first = |class: usize| {
                let row = self.types.get(class)?;
                index(row, 4 + 2 * self.name + self.extends, self.field)
            };
            let Some(start) = first(class) else { break };
            let end = first(class + 1).map_or(self.fields.count, |next| next as usize - usize::from(next > 0));
            let start = (start as usize).saturating_sub(1).max(listed);
            let end = end.min(self.fields.count);
            listed = listed.max(end);
            for field in start..end {
                let Some(name) = self.field(field).filter(|name| wanted.contains(name)) else {
                    continue;
                };
                let class_name = self
                    .types
                    .get(class)
                    .and_then(|row| self.text(index(row, 4, self.name)?));
                found.push(StaticField {
                    class: class as u32,
                    class_name: class_name.unwrap_or_default().to_owned(),
                    name: name.to_owned(),
                });
            }
        }
        found
    }

    /// Returns the name of a field that can hold an object, or `None` if the field cannot hold an object or is damaged.
    fn field(&self, field: usize) -> Option<&'a str> {
        let row = self.fields.get(field)?;
        let flags = u16_at(row, 0)?;
        if flags & STATIC == 0 || flags & (LITERAL | HAS_RVA) != 0 {
            return None;
        }
        let signature = index(row, 2 + self.name, self.blob)?;
        if self.is_number(signature) == Some(true) {
            return None;
        }
        self.text(index(row, 2, self.name)?)
    }

    /// Returns whether the type of a field is a boolean, a character or a number, or `None` if the signature is
    /// truncated. The signature of such a field has two bytes: 6 and the type.
    fn is_number(&self, signature: u32) -> Option<bool> {
        let at = signature as usize;
        let [length, kind, of] = *self.blobs.get(at..)?.first_chunk::<3>()?;
        Some(length == 2 && kind == 6 && (2..=0xd).contains(&of))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A byte buffer. Numbers are written in little-endian order.
    #[derive(Default)]
    struct Bytes(Vec<u8>);

    impl Bytes {
        fn u16(&mut self, value: usize) -> &mut Self {
            self.0.extend(u16::try_from(value).unwrap().to_le_bytes());
            self
        }

        fn u32(&mut self, value: usize) -> &mut Self {
            self.0.extend(u32::try_from(value).unwrap().to_le_bytes());
            self
        }

        fn put(&mut self, bytes: &[u8]) -> &mut Self {
            self.0.extend(bytes);
            self
        }

        fn pad(&mut self, to: usize) -> &mut Self {
            self.0.resize(to.max(self.0.len()), 0);
            self
        }
    }

    /// A field: name, flags, and type of its signature.
    type Field<'a> = (&'a str, usize, u8);

    /// Builds an assembly with the given classes.
    pub(crate) fn assembly(classes: &[(&str, &[Field<'_>])]) -> Vec<u8> {
        let mut strings = vec![0_u8];
        let mut blobs = vec![0_u8];
        let mut intern = |text: &str| {
            let at = strings.len();
            strings.extend(text.bytes().chain([0]));
            at
        };
        let (mut types, mut fields, mut count) = (Bytes::default(), Bytes::default(), 0);
        for (class, of_class) in classes {
            types.u32(0).u16(intern(class)).u16(0).u16(0).u16(count + 1).u16(1);
            for (name, flags, of) in *of_class {
                fields.u16(*flags).u16(intern(name)).u16(blobs.len());
                blobs.extend([2, 6, *of]);
                count += 1;
            }
        }
        let mut tables = Bytes::default();
        tables.u32(0).put(&[2, 0, 0, 1]);
        let valid: u64 = 1 << 2 | 1 << 4;
        tables.put(&valid.to_le_bytes()).put(&[0; 8]);
        tables.u32(classes.len()).u32(count).put(&types.0).put(&fields.0);
        let mut root = Bytes::default();
        root.u32(0x424a_5342).u32(0).u32(0).u32(4).put(b"v4\0\0").u16(0).u16(3);
        let heads = 24 + (8 + 4) + (8 + 12) + (8 + 8);
        let places = [heads, heads + tables.0.len(), heads + tables.0.len() + strings.len()];
        let sizes = [tables.0.len(), strings.len(), blobs.len()];
        for (name, (place, size)) in ["#~\0\0", "#Strings\0\0\0\0", "#Blob\0\0\0"]
            .iter()
            .zip(places.iter().zip(sizes))
        {
            root.u32(*place).u32(size).put(name.as_bytes());
        }
        root.put(&tables.0).put(&strings).put(&blobs);
        let mut file = Bytes::default();
        file.put(b"MZ").pad(0x3c).u32(0x80).pad(0x80);
        file.put(b"PE\0\0").u16(0).u16(1).pad(0x80 + 20).u16(240).u16(0);
        file.u16(0x20b).pad(0x80 + 24 + 112 + 14 * 8).u32(0x2000).u32(72);
        file.pad(0x80 + 24 + 240).pad(0x80 + 24 + 240 + 8);
        file.u32(0x10000).u32(0x2000).u32(0x10000).u32(0x400).pad(0x400);
        file.u32(72).u32(0).u32(0x2000 + 72).u32(root.0.len()).pad(0x400 + 72);
        file.put(&root.0);
        file.0
    }

    pub(crate) fn read_of(file: &[u8], wanted: &[&str]) -> Result<Vec<StaticField>, MetadataError> {
        let mut read = |at: u64, count: u32| {
            let rest = file.get(usize::try_from(at).ok()?..)?;
            Some(rest.get(..count as usize).unwrap_or(rest).to_vec())
        };
        statics(&mut read, &wanted.iter().copied().collect())
    }

    const CLASS: u8 = 0x12;

    /// Scenario: an assembly with three classes has static fields of objects and numbers, a literal, an instance field
    /// and a field with data in the file. Two classes have a field of the same name, and some names are not requested.
    /// Guarantee: exactly the fields that can hold an object are found, with their class, in order.
    #[test]
    fn static_fields_are_found_with_their_class() {
        let file = assembly(&[
            ("Empty", &[]),
            (
                "Cache",
                &[
                    ("entries", 0x11, CLASS),
                    ("count", 0x11, 8),
                    ("Most", 0x51, CLASS),
                    ("own", 1, CLASS),
                ],
            ),
            (
                "Other",
                &[("entries", 0x36, 0x1d), ("table", 0x111, CLASS), ("Log", 0x10, CLASS)],
            ),
        ]);
        let found = read_of(&file, &["entries", "count", "Most", "own", "table"]).unwrap();
        let found: Vec<(u32, &str, &str)> = found
            .iter()
            .map(|field| (field.class, &*field.class_name, &*field.name))
            .collect();
        assert_eq!(found, [(1, "Cache", "entries"), (2, "Other", "entries")]);
    }

    /// Scenario: the file of an assembly is cut at any byte, or any byte is changed.
    /// Guarantee: the file is refused or read, without a panic.
    #[test]
    fn damage_is_refused() {
        let file = assembly(&[("Cache", &[("entries", 0x11, CLASS)])]);
        assert_eq!(read_of(&file, &["entries"]).unwrap().len(), 1);
        assert_eq!(read_of(b"", &["entries"]), Err(MetadataError("no PE file")));
        for cut in 0..file.len() {
            let _any = read_of(&file[..cut], &["entries"]);
            let mut changed = file.clone();
            for value in [0, 1, 0x7f, 0xff] {
                changed[cut] = value;
                let _any = read_of(&changed, &["entries"]);
            }
        }
    }
}
