//! Encodes the protobuf fields that requests need: a tag, a length, and encoded content.

use prost::bytes::BufMut;

/// Tags of length-delimited fields 1, 2 and 3 (`number << 3 | 2`).
pub(super) const FIELD_1: u8 = 0x0a;
pub(super) const FIELD_2: u8 = 0x12;
pub(super) const FIELD_3: u8 = 0x1a;

/// Returns the length of a length-delimited field with a one-byte tag.
pub(super) fn field_len(len: usize) -> usize {
    1 + prost::length_delimiter_len(len) + len
}

pub(super) fn put_header(out: &mut impl BufMut, tag: u8, len: usize) {
    out.put_u8(tag);
    // This fails only if the buffer cannot grow.
    let _grown = prost::encode_length_delimiter(len, out);
}

pub(super) fn put_field(out: &mut impl BufMut, tag: u8, content: &[u8]) {
    put_header(out, tag, content.len());
    out.put_slice(content);
}
