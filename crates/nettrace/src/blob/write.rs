//! Writes headers: only the fields that differ from the previous header, as a runtime does, or every field.

use super::{BlobHeader, UNSORTED, flags};
use crate::cursor::{put_varu32, put_varu64};

impl BlobHeader {
    /// Appends this header in compressed form. `before` is the previous header in the block.
    pub(crate) fn write_compressed<const V6: bool>(&self, before: &Self, out: &mut Vec<u8>) {
        let expected = before.sequence.wrapping_add(u32::from(self.metadata_id != 0));
        let capture = self.capture_thread != before.capture_thread
            || self.processor != before.processor
            || self.sequence != expected;
        let mut which = 0;
        let mut set = |flag: u8, differs: bool| which |= if differs { flag } else { 0 };
        set(flags::METADATA_ID, self.metadata_id != before.metadata_id);
        set(flags::CAPTURE, capture);
        set(flags::THREAD, self.thread != before.thread);
        set(flags::STACK_ID, self.stack_id != before.stack_id);
        if V6 {
            set(flags::ACTIVITY_OR_LABELS, self.label_list != before.label_list);
        } else {
            set(flags::ACTIVITY_OR_LABELS, self.activity_id != before.activity_id);
            set(
                flags::RELATED_ACTIVITY,
                self.related_activity_id != before.related_activity_id,
            );
        }
        set(flags::SORTED, self.is_sorted);
        set(flags::PAYLOAD_SIZE, self.payload_size != before.payload_size);
        out.push(which);
        if which & flags::METADATA_ID != 0 {
            put_varu32(out, self.metadata_id);
        }
        if capture {
            put_varu32(out, self.sequence.wrapping_sub(before.sequence).wrapping_sub(1));
            put_varu64(out, self.capture_thread);
            put_varu32(out, self.processor);
        }
        if which & flags::THREAD != 0 {
            put_varu64(out, self.thread);
        }
        if which & flags::STACK_ID != 0 {
            put_varu32(out, self.stack_id);
        }
        put_varu64(out, self.timestamp.wrapping_sub(before.timestamp) as u64);
        if which & flags::ACTIVITY_OR_LABELS != 0 {
            if V6 {
                put_varu32(out, self.label_list);
            } else {
                out.extend(self.activity_id);
            }
        }
        if which & flags::RELATED_ACTIVITY != 0 {
            out.extend(self.related_activity_id);
        }
        if which & flags::PAYLOAD_SIZE != 0 {
            put_varu32(out, self.payload_size);
        }
    }

    /// Appends this header with every field. The caller appends the payload and, in V4, zeros up to a multiple of 4.
    pub(crate) fn write_whole<const V6: bool>(&self, out: &mut Vec<u8>) {
        let header: u32 = if V6 { 52 } else { 80 };
        out.extend((header - 4).saturating_add(self.payload_size).to_le_bytes());
        let marker = if self.is_sorted { 0 } else { UNSORTED };
        out.extend((self.metadata_id & !UNSORTED | marker).to_le_bytes());
        out.extend(self.sequence.to_le_bytes());
        out.extend(self.thread.to_le_bytes());
        out.extend(self.capture_thread.to_le_bytes());
        out.extend(self.processor.to_le_bytes());
        out.extend(self.stack_id.to_le_bytes());
        out.extend(self.timestamp.to_le_bytes());
        if V6 {
            out.extend(self.label_list.to_le_bytes());
        } else {
            out.extend(self.activity_id);
            out.extend(self.related_activity_id);
        }
        out.extend(self.payload_size.to_le_bytes());
    }
}
