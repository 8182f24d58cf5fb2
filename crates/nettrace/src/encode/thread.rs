//! Threads, and the points of a stream before which nothing is missing.

use super::block::length;
use super::{BLOCK_BYTES, EncodeError, Encoder, Forget, ThreadRecord};
use crate::cursor::{put_varu32, put_varu64};
use crate::frame::BlockKind;
use crate::header::Format;
use crate::intake::{FORGET_METADATA, FORGET_THREADS};
use crate::limits::MAX_SEQUENCE_POINT_THREADS;

impl Encoder {
    /// V6: assigns thread indexes to threads.
    ///
    /// # Errors
    ///
    /// In V4, which has OS ids in its events; when a name is too long.
    pub fn threads(&mut self, threads: &[ThreadRecord<'_>]) -> Result<(), EncodeError> {
        self.only_v6("a thread block")?;
        // Events so far mean the old threads.
        self.flush()?;
        for thread in threads {
            let mut row = Vec::new();
            thread.write(&mut row);
            let size = u16::try_from(row.len()).map_err(|_| EncodeError::TooLong {
                what: "a thread's name",
            })?;
            if self.thread_rows.len() + row.len() > BLOCK_BYTES {
                self.flush()?;
            }
            self.thread_rows.extend(size.to_le_bytes());
            self.thread_rows.extend(row);
        }
        Ok(())
    }

    /// V6: thread indexes with their last numbers, that will not come again as these threads.
    ///
    /// # Errors
    ///
    /// In V4; when there are too many.
    pub fn remove_threads(&mut self, threads: &[(u64, u32)]) -> Result<(), EncodeError> {
        self.only_v6("a remove-thread block")?;
        self.flush()?;
        let mut content = Vec::new();
        for (index, sequence) in threads {
            put_varu64(&mut content, *index);
            put_varu32(&mut content, *sequence);
            self.sequences.remove(index);
        }
        self.block(BlockKind::RemoveThread, &content)
    }

    /// Every event older than `ticks` was written, and each of these capture threads had given this number.
    ///
    /// # Errors
    ///
    /// When there are too many threads.
    pub fn sequence_point(&mut self, ticks: i64, threads: &[(u64, u32)]) -> Result<(), EncodeError> {
        self.sequence_point_and_forget(ticks, threads, Forget::default())
    }

    /// As [`Encoder::sequence_point`]; in V6 ids may begin anew after it.
    ///
    /// # Errors
    ///
    /// When there are too many threads; in V4, when something has to be forgotten.
    pub fn sequence_point_and_forget(
        &mut self,
        ticks: i64,
        threads: &[(u64, u32)],
        forget: Forget,
    ) -> Result<(), EncodeError> {
        const WHAT: &str = "a sequence point";
        if forget != Forget::default() {
            self.only_v6("forgetting")?;
        }
        if threads.len() > MAX_SEQUENCE_POINT_THREADS {
            return Err(EncodeError::TooLong { what: WHAT });
        }
        self.flush()?;
        let mut content = ticks.to_le_bytes().to_vec();
        if self.format != Format::V4 {
            let flag = |forget: bool, flag| if forget { flag } else { 0 };
            let flags = flag(forget.threads, FORGET_THREADS) | flag(forget.metadata, FORGET_METADATA);
            content.extend(flags.to_le_bytes());
        }
        content.extend(length(threads.len(), WHAT)?.to_le_bytes());
        for (thread, sequence) in threads {
            if self.format == Format::V4 {
                content.extend(thread.to_le_bytes());
                content.extend(sequence.to_le_bytes());
            } else {
                put_varu64(&mut content, *thread);
                put_varu32(&mut content, *sequence);
            }
        }
        self.block(BlockKind::SequencePoint, &content)?;
        self.list_ids.clear();
        self.newest = self.newest.max(ticks);
        self.unconfirmed = false;
        if forget.threads {
            self.sequences.clear();
        }
        if forget.metadata {
            self.defined.clear();
        }
        Ok(())
    }

    fn only_v6(&self, what: &'static str) -> Result<(), EncodeError> {
        if self.format == Format::V4 {
            Err(EncodeError::NotInV4 { what })
        } else {
            Ok(())
        }
    }
}
