//! A block of minutes in 64 bytes.

use crate::profile::Minute;

/// Number of figures in a block.
pub(super) const FIGURES: usize = 30;
/// Code of an unknown figure.
const UNKNOWN: u16 = u16::MAX;
/// Number of codes per factor of two. The precision of a figure is 0.07 %, and counts up to 500 are exact.
const PER_OCTAVE: f64 = 1_023.0;

/// Figures of one minute or of consecutive minutes. The age of the process is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Block {
    /// Number of the first minute.
    pub(super) at: u32,
    pub(super) codes: [u16; FIGURES],
}

/// Returns the code of a figure: its logarithm.
fn code(figure: Option<u64>) -> u16 {
    figure.map_or(UNKNOWN, |figure| {
        let code = ((figure as f64 + 1.0).log2() * PER_OCTAVE).round() as u16;
        code.min(UNKNOWN - 1)
    })
}

/// Returns the figure of a code.
fn figure(code: u16) -> Option<u64> {
    (code != UNKNOWN).then(|| ((f64::from(code) / PER_OCTAVE).exp2() - 1.0).round() as u64)
}

impl Block {
    pub(super) fn new(minute: &Minute) -> Self {
        Self {
            at: u32::try_from(minute.at).unwrap_or(u32::MAX),
            codes: [
                Some(minute.observed_ns),
                Some(minute.collections),
                minute.allocated,
                minute.requests,
                minute.stopped_ns,
                minute.young_pause_ns,
                minute.median_pause_ns,
                minute.p95_pause_ns,
                Some(minute.full),
                minute.full_stopped_ns,
                minute.live,
                minute.young_budget,
                minute.free,
                minute.committed_unused,
                minute.native,
                minute.resident,
                minute.container_peak,
                minute.cpu_ns,
                Some(u64::from(minute.lossy)),
                Some(minute.gen1),
                minute.promoted,
                minute.large_allocated,
                minute.young_before,
                minute.young_high,
                minute.live_high,
                minute.committed,
                Some(minute.full_blocking),
                Some(minute.full_at_limit),
                minute.blocking_ns,
                minute.background_ns,
            ]
            .map(code),
        }
    }

    pub(super) fn minute(&self) -> Minute {
        let [
            observed_ns,
            collections,
            allocated,
            requests,
            stopped_ns,
            young_pause_ns,
            median_pause_ns,
            p95_pause_ns,
            full,
            full_stopped_ns,
            live,
            young_budget,
            free,
            committed_unused,
            native,
            resident,
            container_peak,
            cpu_ns,
            lossy,
            gen1,
            promoted,
            large_allocated,
            young_before,
            young_high,
            live_high,
            committed,
            full_blocking,
            full_at_limit,
            blocking_ns,
            background_ns,
        ] = self.codes.map(figure);
        Minute {
            at: self.at.into(),
            observed_ns: observed_ns.unwrap_or(0),
            age_s: None,
            lossy: lossy.unwrap_or(0) > 0,
            collections: collections.unwrap_or(0),
            allocated,
            requests,
            stopped_ns,
            young_pause_ns,
            median_pause_ns,
            p95_pause_ns,
            full: full.unwrap_or(0),
            full_stopped_ns,
            live,
            young_budget,
            free,
            committed_unused,
            native,
            resident,
            container_peak,
            cpu_ns,
            gen1: gen1.unwrap_or(0),
            promoted,
            large_allocated,
            young_before,
            young_high,
            live_high,
            committed,
            full_blocking: full_blocking.unwrap_or(0),
            full_at_limit: full_at_limit.unwrap_or(0),
            blocking_ns,
            background_ns,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: figures are unknown, 0, small counts, and up to the highest number of 64 bits.
    /// Guarantee: unknown figures and counts up to 500 are exact, and all other figures are within 0.07 %.
    #[test]
    fn figures_keep_their_precision() {
        assert_eq!(figure(code(None)), None);
        for count in 0..=500 {
            assert_eq!(figure(code(Some(count))), Some(count));
        }
        for value in [1_234, 98_765_432, 60_000_000_000, 4 << 40, u64::MAX] {
            let found = figure(code(Some(value))).unwrap() as f64;
            assert!((found / value as f64 - 1.0).abs() < 0.0007, "{found} for {value}");
        }
    }

    /// Scenario: a minute with a different value in each figure becomes a block and a minute again.
    /// Guarantee: each figure returns to its own field.
    #[test]
    fn figures_return_to_their_fields() {
        let minute = Minute {
            at: 29_000_000,
            observed_ns: 1,
            age_s: None,
            lossy: true,
            collections: 3,
            allocated: Some(4),
            requests: None,
            stopped_ns: Some(6),
            young_pause_ns: Some(7),
            median_pause_ns: Some(8),
            p95_pause_ns: Some(9),
            full: 10,
            full_stopped_ns: Some(11),
            live: Some(12),
            young_budget: Some(13),
            free: Some(14),
            committed_unused: None,
            native: Some(16),
            resident: Some(17),
            container_peak: Some(18),
            cpu_ns: Some(19),
            gen1: 20,
            promoted: Some(21),
            large_allocated: None,
            young_before: Some(23),
            young_high: Some(24),
            live_high: Some(25),
            committed: Some(26),
            full_blocking: 27,
            full_at_limit: 28,
            blocking_ns: Some(29),
            background_ns: Some(30),
        };
        assert_eq!(Block::new(&minute).minute(), minute);
        assert_eq!(size_of::<Block>(), 64);
    }
}
