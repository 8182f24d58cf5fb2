//! Fields of protobuf messages, as far as requests need them: a tag, a length, and content that is encoded already.

use prost::bytes::BufMut;

/// Tags of length-delimited fields 1, 2 and 3 (`number << 3 | 2`).
pub(super) const FIELD_1: u8 = 0x0a;
pub(super) const FIELD_2: u8 = 0x12;
pub(super) const FIELD_3: u8 = 0x1a;

/// Length of a length-delimited field with a tag of one byte.
pub(super) fn field_len(len: usize) -> usize {
    1 + prost::length_delimiter_len(len) + len
}

pub(super) fn put_header(out: &mut impl BufMut, tag: u8, len: usize) {
    out.put_u8(tag);
    // It fails only where the buffer cannot grow.
    let _grown = prost::encode_length_delimiter(len, out);
}

pub(super) fn put_field(out: &mut impl BufMut, tag: u8, content: &[u8]) {
    put_header(out, tag, content.len());
    out.put_slice(content);
}
