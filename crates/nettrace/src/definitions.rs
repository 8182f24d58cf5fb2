//! The definitions of a stream, and the consumer's interest in each definition.

use std::collections::HashMap;
use std::fmt;

use crate::error::Error;
use crate::labels::Overrides;
use crate::limits::{DENSE_METADATA_IDS, Limits};
use crate::metadata::Metadata;
use crate::options::Interest;

/// Length up to which the list of definitions grows in small steps. The decoder of a live stream keeps few definitions
/// for a long time, so large steps would waste memory.
const SMALL_LIST: usize = 64;
const GROWTH_STEP: usize = 4;

/// The action for events of a metadata id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    /// The id has no definition.
    Unknown,
    /// Count the events. The number is the index of the definition.
    Uninteresting(u32),
    /// Deliver the events. The number is the index of the definition.
    Wanted(u32),
}

#[derive(Debug)]
struct Definition {
    metadata: Metadata,
    tag: Option<u32>,
}

/// The definitions of a stream. An index is not reused while events can wait for delivery, so redefining a metadata id
/// does not affect earlier events.
pub(crate) struct Definitions {
    list: Vec<Definition>,
    /// Targets by metadata id.
    dense: Vec<Target>,
    sparse: HashMap<u32, Target>,
    /// Targets of events whose labels override a definition, by the index of the definition and by the overrides.
    changed: HashMap<(u32, Overrides), Target>,
    /// Whether a definition with overrides exceeded a limit. In this case, no more definitions with overrides are
    /// created.
    changes_exhausted: bool,
    memory: usize,
    max_definitions: usize,
    max_bytes: usize,
    interest: Interest,
}

impl Definitions {
    pub(crate) fn new(interest: Interest, limits: &Limits) -> Self {
        Self {
            list: Vec::new(),
            dense: Vec::new(),
            sparse: HashMap::new(),
            changed: HashMap::new(),
            changes_exhausted: false,
            memory: 0,
            max_definitions: limits.max_definitions,
            max_bytes: limits.max_metadata_bytes,
            interest,
        }
    }

    /// Returns the action for events of an id.
    #[inline(always)]
    pub(crate) fn target(&self, id: u32) -> Target {
        match self.dense.get(id as usize) {
            Some(target) => *target,
            None => self.sparse.get(&id).copied().unwrap_or(Target::Unknown),
        }
    }

    /// Returns the definition at an index and the tag of its events, or `None` if no definition has this index.
    #[inline]
    pub(crate) fn get(&self, place: u32) -> Option<(&Metadata, u32)> {
        let definition = self.list.get(place as usize)?;
        Some((&definition.metadata, definition.tag.unwrap_or_default()))
    }

    /// Records a definition of the stream. `offset` is the position of the definition in the stream, in bytes. Returns
    /// an error if the definition exceeds a limit.
    pub(crate) fn define(&mut self, metadata: Metadata, offset: u64) -> Result<(), Error> {
        let id = metadata.id;
        // Ignore a definition that is repeated unchanged.
        if let Target::Uninteresting(place) | Target::Wanted(place) = self.target(id)
            && self
                .list
                .get(place as usize)
                .is_some_and(|known| known.metadata == metadata)
        {
            return Ok(());
        }
        let target = self.keep(metadata, offset)?;
        if id < DENSE_METADATA_IDS {
            let place = id as usize;
            if self.dense.len() <= place {
                self.dense.resize(place + 1, Target::Unknown);
            }
            if let Some(slot) = self.dense.get_mut(place) {
                *slot = target;
            }
        } else {
            self.sparse.insert(id, target);
        }
        Ok(())
    }

    /// Returns the action for events whose definition is overridden by labels. If the overridden definitions exceed a
    /// limit, new combinations of labels are ignored.
    pub(crate) fn overridden(&mut self, target: Target, overrides: Overrides) -> Target {
        let (Target::Uninteresting(place) | Target::Wanted(place)) = target else {
            return target;
        };
        if let Some(known) = self.changed.get(&(place, overrides)) {
            return *known;
        }
        if self.changes_exhausted {
            return target;
        }
        let Some(definition) = self.list.get(place as usize) else {
            return target;
        };
        let metadata = overrides.apply(&definition.metadata);
        let Ok(changed) = self.keep(metadata, 0) else {
            self.changes_exhausted = true;
            return target;
        };
        self.changed.insert((place, overrides), changed);
        changed
    }

    /// Removes all definitions, because the stream will reuse their ids. Must not be called while events wait for
    /// delivery.
    pub(crate) fn forget(&mut self) {
        self.list.clear();
        self.dense.clear();
        self.sparse.clear();
        self.changed.clear();
        self.changes_exhausted = false;
        self.memory = 0;
    }

    /// Returns the heap memory of the definitions, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        // `memory` counts only definitions in the list, so add the spare capacity of the list.
        let spare = self.list.capacity() - self.list.len();
        self.memory
            + spare * size_of::<Definition>()
            + self.dense.capacity() * size_of::<Target>()
            + table_bytes::<(u32, Target)>(self.sparse.capacity())
            + table_bytes::<((u32, Overrides), Target)>(self.changed.capacity())
    }

    fn keep(&mut self, metadata: Metadata, offset: u64) -> Result<Target, Error> {
        const READING: &str = "a metadata definition";
        const READING_ALL: &str = "the metadata definitions, in bytes";
        let count = self.list.len() + 1;
        if count > self.max_definitions {
            return Err(Error::limit(offset, READING, count, self.max_definitions));
        }
        let memory = self.memory + metadata.memory();
        if memory > self.max_bytes {
            return Err(Error::limit(offset, READING_ALL, memory, self.max_bytes));
        }
        self.memory = memory;
        let place = self.list.len() as u32;
        let tag = (self.interest)(&metadata);
        if count <= SMALL_LIST && self.list.len() == self.list.capacity() {
            self.list.reserve_exact(GROWTH_STEP);
        }
        self.list.push(Definition { metadata, tag });
        Ok(if tag.is_some() {
            Target::Wanted(place)
        } else {
            Target::Uninteresting(place)
        })
    }
}

/// Returns the size of a hash table with the given capacity, in bytes. Each bucket takes the size of an entry plus one
/// byte, and one eighth of the buckets stays free.
pub(crate) fn table_bytes<T>(capacity: usize) -> usize {
    (capacity + capacity / 7) * (size_of::<T>() + 1)
}

impl fmt::Debug for Definitions {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Definitions")
            .field("list", &self.list)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata(id: u32, event_id: u32) -> Metadata {
        Metadata {
            id,
            event_id,
            ..Metadata::default()
        }
    }

    /// Scenario: ids are small and huge. Two ids are redefined unchanged, and one of them is then redefined as a
    /// different event. Then all definitions are removed.
    /// Guarantee: `interest` is not called for an unchanged redefinition. The old index of a redefined id keeps the old
    /// definition. A removed id is unknown.
    #[test]
    fn redefinition_keeps_old_index() {
        let asked = std::sync::Arc::new(std::sync::atomic::AtomicU32::new(0));
        let counter = std::sync::Arc::clone(&asked);
        let mut definitions = Definitions::new(
            Box::new(move |metadata| {
                counter.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                (metadata.event_id != 9).then_some(metadata.event_id * 10)
            }),
            &Limits::for_files(),
        );
        for (id, event) in [(1, 5), (u32::MAX, 6), (2, 9), (1, 5), (u32::MAX, 6)] {
            definitions.define(metadata(id, event), 0).unwrap();
        }
        assert_eq!(asked.load(std::sync::atomic::Ordering::Relaxed), 3);
        let Target::Wanted(old) = definitions.target(1) else {
            panic!()
        };
        assert_eq!(definitions.target(2), Target::Uninteresting(2));
        assert_eq!(definitions.target(3), Target::Unknown);
        assert!(matches!(definitions.target(u32::MAX), Target::Wanted(_)));
        definitions.define(metadata(1, 7), 0).unwrap();
        let Target::Wanted(new) = definitions.target(1) else {
            panic!()
        };
        assert_eq!(
            definitions.get(old).map(|(metadata, tag)| (metadata.event_id, tag)),
            Some((5, 50))
        );
        assert_eq!(
            definitions.get(new).map(|(metadata, tag)| (metadata.event_id, tag)),
            Some((7, 70))
        );
        definitions.forget();
        assert_eq!(definitions.target(1), Target::Unknown);
    }

    /// Scenario: a stream redefines a metadata id more often than the limit on definitions allows.
    /// Guarantee: the definition that exceeds the limit is refused with an error.
    #[test]
    fn endless_definitions_reach_a_limit() {
        let mut definitions = Definitions::new(Box::new(|_| None), &Limits::for_files());
        let error = (0..=Limits::for_files().max_definitions as u32)
            .find_map(|event| definitions.define(metadata(1, event), 3).err());
        assert!(matches!(error, Some(Error::LimitExceeded { offset: 3, .. })));
    }
}
