//! The profiles as text, one service per line, so that a damaged line loses one service.

use serde::{Deserialize, Serialize};

use super::block::{Block, FIGURES};
use super::{Change, MAX_BLOCKS, MAX_CHANGES, MAX_PERIODS, Period, Service};
use crate::change::ChangeRecord;
use crate::configuration::Configuration;
use crate::profile::LeftOut;

/// Error returned if a line cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DamagedError;

/// A service as it is stored.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct StoredService {
    service: String,
    name: String,
    periods: Vec<StoredPeriod>,
    changes: Vec<StoredChange>,
}

#[derive(Debug, Serialize, Deserialize)]
struct StoredPeriod {
    first: u64,
    last: u64,
    configuration: Configuration,
    /// Number of the first minute and codes of the figures of each block.
    blocks: Vec<(u32, Vec<u16>)>,
    all_blocks: usize,
    left_out: LeftOut,
    /// Number of the first minute and codes of the figures of the newest starts of processes.
    start: Option<(u32, Vec<u16>)>,
}

#[derive(Debug, Serialize, Deserialize)]
struct StoredChange {
    id: String,
    before: u64,
    after: u64,
    record: Option<Box<ChangeRecord>>,
}

/// Moves the number of a minute.
fn moved(minute: u64, by: i64) -> u64 {
    minute.saturating_add_signed(by)
}

impl StoredService {
    /// Returns a service as a line without a line break. `shift` is added to the number of each minute.
    pub(super) fn write(key: &str, service: &Service, shift: i64) -> String {
        let stored = |block: &Block| (moved(block.at.into(), shift) as u32, block.codes.to_vec());
        let period = |period: &Period| StoredPeriod {
            first: moved(period.first, shift),
            last: moved(period.last, shift),
            configuration: period.configuration.clone(),
            blocks: period.blocks.iter().map(stored).collect(),
            all_blocks: period.all_blocks,
            left_out: period.left_out,
            start: period.start.as_ref().map(stored),
        };
        let change = |change: &Change| StoredChange {
            id: change.id.clone(),
            before: moved(change.before, shift),
            after: moved(change.after, shift),
            record: change.record.clone(),
        };
        let stored = Self {
            service: key.to_owned(),
            name: service.name.clone(),
            periods: service.periods.iter().map(period).collect(),
            changes: service.changes.iter().map(change).collect(),
        };
        // Strings and finite numbers can always be serialized.
        serde_json::to_string(&stored).unwrap_or_default()
    }

    /// Reads a line. Returns the identity of the service, and the service.
    pub(super) fn read(line: &str) -> Result<(String, Service), DamagedError> {
        let stored: Self = serde_json::from_str(line).map_err(|_| DamagedError)?;
        let is_bounded = stored.periods.len() <= MAX_PERIODS && stored.changes.len() <= MAX_CHANGES;
        if !is_bounded {
            return Err(DamagedError);
        }
        let periods = stored.periods.into_iter().map(period).collect::<Result<Vec<_>, _>>()?;
        let changes = stored.changes.into_iter().map(|change| Change {
            id: change.id,
            before: change.before,
            after: change.after,
            record: change.record,
        });
        let service = Service {
            name: stored.name,
            periods,
            changes: changes.collect(),
        };
        Ok((stored.service, service))
    }
}

fn block((at, codes): (u32, Vec<u16>)) -> Result<Block, DamagedError> {
    let codes: [u16; FIGURES] = codes.try_into().map_err(|_| DamagedError)?;
    Ok(Block { at, codes })
}

fn period(stored: StoredPeriod) -> Result<Period, DamagedError> {
    let mut blocks = Vec::with_capacity(stored.blocks.len().min(MAX_BLOCKS));
    for stored in stored.blocks {
        blocks.push(block(stored)?);
    }
    let is_ordered = blocks.is_sorted_by(|one, next| one.at < next.at) && stored.first <= stored.last;
    if blocks.len() > MAX_BLOCKS || !is_ordered {
        return Err(DamagedError);
    }
    Ok(Period {
        first: stored.first,
        last: stored.last,
        configuration: stored.configuration,
        all_blocks: stored.all_blocks.max(blocks.len()),
        blocks,
        open: Vec::new(),
        left_out: stored.left_out,
        warm_up_left: 0,
        start: stored.start.map(block).transpose()?,
    })
}
