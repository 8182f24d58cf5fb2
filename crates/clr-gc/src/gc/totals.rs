//! Sums over all collections of a process.

mod stopped_time;

pub use stopped_time::StoppedTime;

use crate::event::GcType;
use crate::gc::collection::{Collection, Suspension};

/// Quantiles of pauses by nearest rank, in nanoseconds. Each quantile is an observed pause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PauseQuantiles {
    /// Median.
    pub p50: i64,
    /// 95th percentile.
    pub p95: i64,
    /// 99th percentile.
    pub p99: i64,
    /// Duration of the longest pause.
    pub max: i64,
}

impl PauseQuantiles {
    /// Computes the quantiles, or returns `None` if there are no pauses. Sorts the pauses.
    pub fn from_pauses(pauses: &mut [i64]) -> Option<Self> {
        pauses.sort_unstable();
        let rank = |percent: usize| {
            pauses
                .get((pauses.len() * percent).div_ceil(100).saturating_sub(1))
                .copied()
        };
        Some(Self {
            p50: rank(50)?,
            p95: rank(95)?,
            p99: rank(99)?,
            max: rank(100)?,
        })
    }
}

/// The collections of one generation and type.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// Generation; `None` if it was not observed.
    pub generation: Option<u32>,
    /// Type; a collection that became blocking counts as blocking. `None` if the type was not observed.
    pub gc_type: Option<GcType>,
    /// Number of collections.
    pub count: u64,
    /// Number of collections with unknown pause.
    pub unknown_pauses: u64,
    /// Sum of the known pauses, in nanoseconds.
    pub pause_ns: i64,
    pauses: Vec<i64>,
}

impl Group {
    /// Returns the quantiles of the known pauses, or `None` if no pause is known.
    pub fn quantiles(&self) -> Option<PauseQuantiles> {
        PauseQuantiles::from_pauses(&mut self.pauses.clone())
    }
}

/// Sums over one process.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Totals {
    /// Groups, ordered by generation, then type.
    pub groups: Vec<Group>,
    /// Number of collections.
    pub count: u64,
    /// Number of collections with a part that was never observed.
    pub incomplete: u64,
    /// Number of collections that overlap lost events.
    pub lossy: u64,
    /// Known time during which the managed threads were suspended, for collections and for stops without a collection,
    /// in nanoseconds.
    pub stopped_ns: i64,
    /// Division of [`stopped_ns`](Self::stopped_ns) by cause and by origin. Each division adds up to this time.
    pub stopped: StoppedTime,
    /// Number of stops without a collection.
    pub suspensions: u64,
    /// Number of stops without a collection whose length is unknown.
    pub unknown_suspensions: u64,
    /// Known time of stops without a collection, in nanoseconds.
    pub suspensions_ns: i64,
    /// Bytes allocated between the first measurement and the last; `None` if there is no measurement.
    pub allocated: Option<u64>,
    /// Whether `allocated` is a lower bound, because the allocation before at least one collection after the first is
    /// unknown or only a minimum.
    pub allocated_lower_bound: bool,
    /// Bytes promoted; `None` if unknown for all collections.
    pub promoted: Option<u64>,
}

impl Totals {
    /// Adds a collection.
    pub fn add(&mut self, collection: &Collection) {
        self.count += 1;
        self.incomplete += u64::from(!collection.is_complete());
        self.lossy += u64::from(collection.lossy);
        let parts = collection.pauses.iter().filter_map(|pause| pause.pause_ns);
        self.stopped_ns = parts.fold(self.stopped_ns, i64::saturating_add);
        self.stopped.add(collection);
        add_known(&mut self.allocated, collection.allocated_since_last());
        self.allocated_lower_bound |= collection.hides_allocation();
        add_known(&mut self.promoted, collection.promoted());
        let gc_type = if collection.became_blocking {
            Some(GcType::BLOCKING)
        } else {
            collection.gc_type
        };
        let key = (collection.generation, gc_type);
        let place = match self
            .groups
            .binary_search_by_key(&key, |group| (group.generation, group.gc_type))
        {
            Ok(place) => place,
            Err(place) => {
                let (generation, gc_type) = key;
                let group = Group {
                    generation,
                    gc_type,
                    count: 0,
                    unknown_pauses: 0,
                    pause_ns: 0,
                    pauses: Vec::new(),
                };
                self.groups.insert(place, group);
                place
            }
        };
        if let Some(group) = self.groups.get_mut(place) {
            group.count += 1;
            match collection.pause_ns {
                Some(ns) => {
                    group.pause_ns = group.pause_ns.saturating_add(ns);
                    group.pauses.push(ns);
                }
                None => group.unknown_pauses += 1,
            }
        }
    }

    /// Adds a stop without a collection.
    pub fn add_suspension(&mut self, suspension: &Suspension) {
        self.suspensions += 1;
        self.stopped.add_suspension(suspension);
        match suspension.stopped_ns {
            Some(ns) => {
                self.suspensions_ns = self.suspensions_ns.saturating_add(ns);
                self.stopped_ns = self.stopped_ns.saturating_add(ns);
            }
            None => self.unknown_suspensions += 1,
        }
    }

    /// Returns whether the length of at least one stop is unknown, so that the sums are lower bounds.
    pub fn has_unknown_pauses(&self) -> bool {
        self.unknown_suspensions > 0 || self.groups.iter().any(|group| group.unknown_pauses > 0)
    }

    /// Returns the sum of the known pauses of all collections, in nanoseconds.
    pub fn pause_ns(&self) -> i64 {
        self.groups
            .iter()
            .map(|group| group.pause_ns)
            .fold(0, i64::saturating_add)
    }

    /// Returns the quantiles over all collections with a known pause, or `None` if no pause is known.
    pub fn quantiles(&self) -> Option<PauseQuantiles> {
        PauseQuantiles::from_pauses(
            &mut self
                .groups
                .iter()
                .flat_map(|group| group.pauses.iter().copied())
                .collect::<Vec<_>>(),
        )
    }
}

fn add_known(sum: &mut Option<u64>, bytes: Option<u64>) {
    if let Some(bytes) = bytes {
        *sum = Some(sum.unwrap_or(0).saturating_add(bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: quantiles are computed from 100 pauses, from one pause and from none.
    /// Guarantee: each quantile is an observed pause by nearest rank; without pauses there are no quantiles.
    #[test]
    fn quantiles_are_observed_pauses() {
        let mut hundred: Vec<i64> = (1..=100).rev().collect();
        let quantiles = PauseQuantiles::from_pauses(&mut hundred);
        assert_eq!(
            quantiles,
            Some(PauseQuantiles {
                p50: 50,
                p95: 95,
                p99: 99,
                max: 100
            })
        );
        assert_eq!(
            PauseQuantiles::from_pauses(&mut [7]),
            Some(PauseQuantiles {
                p50: 7,
                p95: 7,
                p99: 7,
                max: 7
            })
        );
        assert_eq!(PauseQuantiles::from_pauses(&mut []), None);
    }
}
