//! V6's thread indexes: which OS thread of which process an index stands for.

use std::collections::HashMap;

use crate::cursor::Cursor;
use crate::definitions::table_bytes;
use crate::error::Error;

const READING: &str = "a row of a Thread block";

/// Kinds of the optional parts of a row.
const NAME: u8 = 1;
const PROCESS_ID: u8 = 2;
const THREAD_ID: u8 = 3;
const KEY_VALUE: u8 = 4;

/// The thread that an index stands for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) process: Option<u64>,
    pub(crate) thread: Option<u64>,
}

/// The thread indexes of a stream.
#[derive(Debug, Default)]
pub(crate) struct ThreadIndexes {
    known: HashMap<u64, Identity>,
    /// The last one asked for: events of a thread come in runs.
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

    /// Bytes on the heap.
    pub(crate) fn memory_bytes(&self) -> usize {
        table_bytes::<(u64, Identity)>(self.known.capacity())
    }

    /// The thread of an index; unknown when the stream did not say.
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

    /// OS id of an index, the index itself when it is not known.
    pub(crate) fn thread(&self, index: u64) -> u64 {
        self.known
            .get(&index)
            .and_then(|identity| identity.thread)
            .unwrap_or(index)
    }

    /// Reads a Thread block.
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

    /// The index may be given to another thread.
    pub(crate) fn remove(&mut self, index: u64) {
        self.last = None;
        self.known.remove(&index);
    }

    /// All indexes may be given to other threads.
    pub(crate) fn forget(&mut self) {
        self.last = None;
        self.known.clear();
    }

    /// Indexes that were not kept because there were too many.
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
                // A part has no length: what follows an unknown one cannot be read.
                _ => break,
            }
        }
        Ok(identity)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: a thread with all parts and parts unknown here, one without any, then removal and redefinition.
    /// Guarantee: ids where the stream says them, else the index; a removed index is unknown again.
    #[test]
    fn indexes_are_resolved() {
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

    /// Scenario: rows cut off.
    /// Guarantee: an error that names the byte.
    #[test]
    fn cut_rows_are_errors() {
        let mut indexes = ThreadIndexes::new(100);
        assert_eq!(indexes.define(&[4, 0, 7, 3, 5], 100).unwrap_err().offset(), Some(102));
        assert_eq!(indexes.define(&[2, 0, 7, 3], 100).unwrap_err().offset(), Some(104));
    }
}
