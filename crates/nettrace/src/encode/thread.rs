//! Encodes threads and sequence points.

use super::block::length;
use super::{BLOCK_BYTES, EncodeError, Encoder, Forget, ThreadRecord};
use crate::cursor::{put_varu32, put_varu64};
use crate::frame::BlockKind;
use crate::header::Format;
use crate::intake::{FORGET_METADATA, FORGET_THREADS};
use crate::limits::MAX_SEQUENCE_POINT_THREADS;

impl Encoder {
    /// Assigns thread indexes to threads (V6).
    ///
    /// # Errors
    ///
    /// Returns an error if the format is V4, which has OS ids in its events, or if a name is too long.
    pub fn threads(&mut self, threads: &[ThreadRecord<'_>]) -> Result<(), EncodeError> {
        self.only_v6("a thread block")?;
        // Earlier events refer to the old threads.
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

    /// Removes thread indexes (V6). `threads` contains pairs of a thread index and the last sequence number of this
    /// thread. Later events do not refer to these threads by these indexes.
    ///
    /// # Errors
    ///
    /// Returns an error if the format is V4, or if there are too many threads.
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

    /// Declares that every event older than `ticks` was written. `threads` contains pairs of a capture thread and its
    /// last sequence number.
    ///
    /// # Errors
    ///
    /// Returns an error if there are more than [`MAX_SEQUENCE_POINT_THREADS`] threads.
    pub fn sequence_point(&mut self, ticks: i64, threads: &[(u64, u32)]) -> Result<(), EncodeError> {
        self.sequence_point_and_forget(ticks, threads, Forget::default())
    }

    /// Like [`Encoder::sequence_point`], but V6 ids can be reused afterwards.
    ///
    /// # Errors
    ///
    /// Returns an error if there are more than [`MAX_SEQUENCE_POINT_THREADS`] threads, or if `forget` is not empty in
    /// V4.
    pub fn sequence_point_and_forget(
        &mut self,
        ticks: i64,
        threads: &[(u64, u32)],
        forget: Forget,
    ) -> Result<(), EncodeError> {
        const SUBJECT: &str = "a sequence point";
        if forget != Forget::default() {
            self.only_v6("a reset of ids")?;
        }
        if threads.len() > MAX_SEQUENCE_POINT_THREADS {
            return Err(EncodeError::TooLong { what: SUBJECT });
        }
        self.flush()?;
        let mut content = ticks.to_le_bytes().to_vec();
        if self.format != Format::V4 {
            let flag = |forget: bool, flag| if forget { flag } else { 0 };
            let flags = flag(forget.threads, FORGET_THREADS) | flag(forget.metadata, FORGET_METADATA);
            content.extend(flags.to_le_bytes());
        }
        content.extend(length(threads.len(), SUBJECT)?.to_le_bytes());
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
