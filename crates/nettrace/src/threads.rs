//! V6 thread indexes, which map an index to an OS thread and its process.

use std::collections::HashMap;

use crate::cursor::Cursor;
use crate::definitions::table_bytes;
use crate::error::Error;

const READING: &str = "a row of a Thread block";

/// Kinds of optional parts of a row.
const NAME: u8 = 1;
const PROCESS_ID: u8 = 2;
const THREAD_ID: u8 = 3;
const KEY_VALUE: u8 = 4;

/// The thread to which an index refers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) process: Option<u64>,
    pub(crate) thread: Option<u64>,
}

/// The thread indexes of a stream.
#[derive(Debug, Default)]
pub(crate) struct ThreadIndexes {
    known: HashMap<u64, Identity>,
    /// The most recent lookup. Events of a thread occur in runs.
    last: Option<(u64, Identity)>,
    unresolved: u64,
    most: usize,
}

impl ThreadIndexes {
    pub(crate) fn new(most: usize) -> Self {
        Self {
            most,
            ..Self::default()
        }
    }

    /// Returns the heap size, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        table_bytes::<(u64, Identity)>(self.known.capacity())
    }

    /// Returns the thread of an index. The ids of the thread are `None` if the stream does not contain them.
    #[inline]
    pub(crate) fn resolve(&mut self, index: u64) -> Identity {
        if let Some((last, identity)) = self.last
            && last == index
        {
            return identity;
        }
        let identity = self.known.get(&index).copied().unwrap_or_default();
        self.last = Some((index, identity));
        identity
    }

    /// Returns the OS id of an index, or the index itself if the id is unknown.
    pub(crate) fn thread(&self, index: u64) -> u64 {
        self.known
            .get(&index)
            .and_then(|identity| identity.thread)
            .unwrap_or(index)
    }

    /// Decodes a thread block.
    pub(crate) fn define(&mut self, content: &[u8], base: u64) -> Result<(), Error> {
        self.last = None;
        let mut cursor = Cursor::new(content, base);
        while !cursor.is_empty() {
            let length = usize::from(cursor.u16(READING)?);
            let mut row = cursor.part(length, READING)?;
            let index = row.varu64(READING)?;
            let identity = Identity::read(&mut row)?;
            if self.known.len() >= self.most && !self.known.contains_key(&index) {
                self.unresolved += 1;
            } else {
                self.known.insert(index, identity);
            }
        }
        Ok(())
    }

    /// Removes an index, which can be reused for another thread.
    pub(crate) fn remove(&mut self, index: u64) {
        self.last = None;
        self.known.remove(&index);
    }

    /// Removes all indexes, which can be reused for other threads.
    pub(crate) fn forget(&mut self) {
        self.last = None;
        self.known.clear();
    }

    /// Returns the number of indexes that were dropped because the limit was reached.
    pub(crate) fn unresolved(&self) -> u64 {
        self.unresolved
    }
}

impl Identity {
    fn read(row: &mut Cursor<'_>) -> Result<Self, Error> {
        let mut identity = Self::default();
        while !row.is_empty() {
            match row.u8(READING)? {
                NAME => row.skip_utf8(READING)?,
                PROCESS_ID => identity.process = Some(row.varu64(READING)?),
                THREAD_ID => identity.thread = Some(row.varu64(READING)?),
                KEY_VALUE => {
                    row.skip_utf8(READING)?;
                    row.skip_utf8(READING)?;
                }
                // Parts have no length, so the parts after an unknown one cannot be read.
                _ => break,
            }
        }
        Ok(identity)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: one thread has all known parts and unknown parts, another has no parts, and then an index is removed
    /// and redefined.
    /// Guarantee: an index resolves to the ids in the stream, or to itself if there are no ids; a removed index is
    /// unknown again.
    #[test]
    fn index_resolves_to_thread() {
        let mut indexes = ThreadIndexes::new(100);
        let block = [12, 0, 7, 1, 1, b'n', 2, 0xac, 2, 3, 9, 99, 1, 1, 1, 0, 8];
        indexes.define(&block, 0).unwrap();
        assert_eq!(
            indexes.resolve(7),
            Identity {
                process: Some(300),
                thread: Some(9)
            }
        );
        assert_eq!((indexes.thread(7), indexes.thread(8)), (9, 8));
        assert_eq!(indexes.resolve(8), Identity::default());
        indexes.define(&[3, 0, 8, 3, 5], 0).unwrap();
        assert_eq!(indexes.resolve(8).thread, Some(5));
        indexes.remove(8);
        assert_eq!(indexes.resolve(8).thread, None);
        indexes.forget();
        assert_eq!(indexes.resolve(7), Identity::default());
    }

    /// Scenario: rows are truncated.
    /// Guarantee: each row is an error with its offset.
    #[test]
    fn truncated_row_is_refused() {
        let mut indexes = ThreadIndexes::new(100);
        assert_eq!(indexes.define(&[4, 0, 7, 3, 5], 100).unwrap_err().offset(), Some(102));
        assert_eq!(indexes.define(&[2, 0, 7, 3], 100).unwrap_err().offset(), Some(104));
    }
}
