//! V6 label lists: properties that several events share, such as their activity.

use crate::cursor::Cursor;
use crate::error::Error;
use crate::metadata::Metadata;
use crate::queue::Activities;
use crate::ranges::Ranges;

const READING: &str = "a label list";

/// Kinds of labels, in the low bits of the first byte of a label. Bit 7 marks the last label of a list.
pub(crate) mod kinds {
    pub(crate) const LAST: u8 = 0x80;
    pub(crate) const ACTIVITY: u8 = 1;
    pub(crate) const RELATED_ACTIVITY: u8 = 2;
    pub(crate) const TRACE: u8 = 3;
    pub(crate) const SPAN: u8 = 4;
    pub(crate) const TEXT: u8 = 5;
    pub(crate) const NUMBER: u8 = 6;
    pub(crate) const OPCODE: u8 = 7;
    pub(crate) const KEYWORDS: u8 = 8;
    pub(crate) const LEVEL: u8 = 9;
    pub(crate) const VERSION: u8 = 10;
}

/// Values of an event's definition that labels override.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct Overrides {
    opcode: Option<u8>,
    keywords: Option<u64>,
    level: Option<u8>,
    version: Option<u8>,
}

impl Overrides {
    /// Returns the definition with the overrides applied.
    pub(crate) fn apply(&self, metadata: &Metadata) -> Metadata {
        Metadata {
            opcode: self.opcode.or(metadata.opcode),
            keywords: self.keywords.or(metadata.keywords),
            level: self.level.map(u32::from).or(metadata.level),
            version: self.version.map(u32::from).or(metadata.version),
            ..metadata.clone()
        }
    }
}

/// The parts of a label list that are delivered with events.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct LabelList {
    pub(crate) activities: Activities,
    pub(crate) overrides: Option<Overrides>,
}

/// The label lists since the last sequence point.
#[derive(Debug, Default)]
pub(crate) struct LabelLists {
    lists: Vec<LabelList>,
    ranges: Ranges,
    most: usize,
}

impl LabelLists {
    pub(crate) fn new(most: usize) -> Self {
        Self {
            most,
            ..Self::default()
        }
    }

    /// Returns the heap size, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.lists.capacity() * size_of::<LabelList>() + self.ranges.memory_bytes()
    }

    /// Returns the list with this id, or `None` if the stream has not defined the id.
    #[inline]
    pub(crate) fn get(&self, id: u32) -> Option<&LabelList> {
        self.lists.get(self.ranges.place(id, self.lists.len())?)
    }

    /// Decodes a label list block.
    pub(crate) fn define(&mut self, content: &[u8], base: u64) -> Result<(), Error> {
        let mut cursor = Cursor::new(content, base);
        let first = cursor.u32(READING)?;
        let offset = cursor.offset();
        let count = cursor.u32(READING)? as usize;
        if count == 0 {
            return Ok(());
        }
        let total = count.saturating_add(self.lists.len());
        if total > self.most {
            return Err(Error::limit(offset, READING, total, self.most));
        }
        if self.ranges.begin(first, self.lists.len()) {
            self.lists.clear();
        }
        for _ in 0..count {
            let list = LabelList::read(&mut cursor)?;
            self.lists.push(list);
        }
        Ok(())
    }

    /// Removes all lists, because their ids will be reused.
    pub(crate) fn forget(&mut self) {
        self.lists.clear();
        self.ranges.clear();
    }
}

impl LabelList {
    fn read(cursor: &mut Cursor<'_>) -> Result<Self, Error> {
        let mut list = Self::default();
        let mut overrides = Overrides::default();
        loop {
            let offset = cursor.offset();
            let kind = cursor.u8(READING)?;
            let [activity, related] = &mut list.activities;
            match kind & !kinds::LAST {
                kinds::ACTIVITY => *activity = cursor.array(READING)?,
                kinds::RELATED_ACTIVITY => *related = cursor.array(READING)?,
                kinds::TRACE => cursor.take(16, READING).map(|_| ())?,
                kinds::SPAN => cursor.take(8, READING).map(|_| ())?,
                kinds::TEXT => {
                    cursor.skip_utf8(READING)?;
                    cursor.skip_utf8(READING)?;
                }
                kinds::NUMBER => {
                    cursor.skip_utf8(READING)?;
                    cursor.varu64(READING)?;
                }
                kinds::OPCODE => overrides.opcode = Some(cursor.u8(READING)?),
                kinds::KEYWORDS => overrides.keywords = Some(cursor.u64(READING)?),
                kinds::LEVEL => overrides.level = Some(cursor.u8(READING)?),
                kinds::VERSION => overrides.version = Some(cursor.u8(READING)?),
                // Labels have no length, so the labels after an unknown label cannot be read.
                _ => return Err(Error::corrupt(offset, READING, "a label of an unknown kind")),
            }
            if kind & kinds::LAST != 0 {
                break;
            }
        }
        list.overrides = (overrides != Overrides::default()).then_some(overrides);
        Ok(list)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(first: u32, lists: &[&[u8]]) -> Vec<u8> {
        let mut out = first.to_le_bytes().to_vec();
        out.extend((lists.len() as u32).to_le_bytes());
        out.extend(lists.concat());
        out
    }

    fn activity(byte: u8, last: bool) -> Vec<u8> {
        let mut out = vec![kinds::ACTIVITY | if last { kinds::LAST } else { 0 }];
        out.extend([byte; 16]);
        out
    }

    /// Scenario: lists contain every kind of label, in blocks with consecutive ids and in one block with a gap.
    /// Guarantee: each id resolves to its list; 0, unknown ids and forgotten ids resolve to no list.
    #[test]
    fn list_is_found_by_id() {
        let mut all = activity(1, false);
        all.extend([kinds::TRACE]);
        all.extend([0; 16]);
        all.extend([kinds::SPAN]);
        all.extend([0; 8]);
        all.extend([
            kinds::TEXT,
            1,
            b'k',
            1,
            b'v',
            kinds::NUMBER,
            1,
            b'k',
            0x80,
            1,
            kinds::VERSION,
            3,
        ]);
        all.extend([
            kinds::OPCODE,
            2,
            kinds::LEVEL,
            5,
            kinds::KEYWORDS,
            1,
            0,
            0,
            0,
            0,
            0,
            0,
            0x80,
        ]);
        all.extend([kinds::RELATED_ACTIVITY | kinds::LAST]);
        all.extend([2; 16]);
        let mut lists = LabelLists::new(100);
        lists.define(&block(1, &[&all, &activity(3, true)]), 0).unwrap();
        lists.define(&block(3, &[&activity(4, true)]), 0).unwrap();
        lists.define(&block(100, &[&activity(5, true)]), 0).unwrap();
        let first = lists.get(1).unwrap();
        assert_eq!(first.activities, [[1; 16], [2; 16]]);
        let applied = first.overrides.unwrap().apply(&Metadata {
            name: "n".to_owned(),
            ..Metadata::default()
        });
        assert_eq!(
            (applied.version, applied.level, applied.opcode),
            (Some(3), Some(5), Some(2))
        );
        assert_eq!(
            (applied.keywords, applied.name.as_str()),
            (Some(0x8000_0000_0000_0001), "n")
        );
        let activity = |id| lists.get(id).map(|list| list.activities[0][0]);
        assert_eq!(
            [2, 3, 100, 0, 4, 99, 101].map(activity),
            [Some(3), Some(4), Some(5), None, None, None, None]
        );
        assert_eq!(lists.get(2).unwrap().overrides, None);
        lists.forget();
        assert_eq!(lists.get(1), None);
    }

    /// Scenario: blocks claim more lists than they contain, are truncated, or have unknown labels.
    /// Guarantee: each block is an error, and no memory is allocated for the claim.
    #[test]
    fn damaged_list_is_refused() {
        let mut lists = LabelLists::new(100);
        assert!(matches!(
            lists.define(&[1, 0, 0, 0, 255, 255, 255, 255], 0),
            Err(Error::LimitExceeded { .. })
        ));
        assert!(lists.define(&[1, 0, 0, 0, 1, 0, 0, 0], 0).is_err());
        assert!(lists.define(&block(1, &[&[kinds::LAST | 77]]), 0).is_err());
        assert!(lists.define(&block(1, &[&activity(1, false)]), 0).is_err());
    }
}
