//! The history that is kept on disk: what of it is written, and how it is shown.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::SystemTime;

use gc_rules::time::Moment;

use crate::pipeline::process_view::columns;
use crate::pipeline::registry::Pipeline;
use api::view::HistoryColumns;
use processes::RunState;
use run::Input;
use run::history::{BUCKET_NS, Bucket, bucket_of, stored};

/// Buckets that ended so long ago change no more: what belongs to a collection may be known late.
const SETTLED: u64 = 12;

/// Buckets of an hour.
const HOUR: u64 = 3600 * 1_000_000_000 / BUCKET_NS;

impl Pipeline {
    /// Writes what is new of the history of all runs; blocking. `all`: also what may change yet, as gcwatch ends.
    pub fn keep_history(&self, now: Moment, all: bool) {
        let Some(folder) = self.shared().history() else { return };
        let mut runs = self.runs();
        runs.extend(
            self.shared()
                .processes()
                .exited
                .all()
                .map(|exited| Arc::clone(&exited.run)),
        );
        for observed in &runs {
            let run = observed.look();
            let now = run.present(now);
            let is_over = all || run.session.state == RunState::Ended;
            let settled = bucket_of(now).saturating_sub(SETTLED);
            let until = if is_over { u64::MAX } else { settled };
            let mut buckets = run.history.unkept(now);
            let wall = run.wall;
            // A disk may hang.
            drop(run);
            buckets.retain(|bucket| bucket.index < until);
            let Some(newest) = buckets.last().map(|bucket| bucket.index) else {
                continue;
            };
            let shown: Vec<Bucket> = buckets.into_iter().map(|bucket| bucket.on(wall)).collect();
            if folder.keep(observed.key(), &shown) {
                let (shared, until) = (self.shared(), newest + 1);
                observed.hand(shared.at(now), Input::HistoryKept { until });
            }
        }
        let runs = runs.iter().map(|run| run.key()).collect();
        if let Err(error) = folder.prune(&runs, SystemTime::now()) {
            tracing::debug!("cannot remove old histories: {error}");
        }
    }

    /// The last hours of a process, 360 places at most; blocking. `None`: none of that pid is known, or nothing is kept.
    ///
    /// # Errors
    ///
    /// When its file cannot be read.
    pub fn long_history(&self, pid: u32, hours: u64, now: Moment) -> Option<io::Result<HistoryColumns>> {
        let folder = self.shared().history()?;
        let (observed, _) = self.run_of(pid)?;
        let run = observed.look();
        let now = run.present(now);
        // What was kept before the clock was set has the time of the clock as it was.
        let (newest, attached) = (run.history.unkept(now), run.session.first_attach);
        let wall = run.wall;
        drop(run);
        let mut all: BTreeMap<u64, Bucket> = match folder.read(observed.key()) {
            Ok(kept) => kept.into_iter().map(|bucket| (bucket.index, bucket)).collect(),
            Err(error) => return Some(Err(error)),
        };
        let first = all
            .keys()
            .next()
            .map(|first| first.saturating_mul(BUCKET_NS) / 1_000_000);
        for bucket in newest.into_iter().map(|bucket| bucket.on(wall)) {
            all.insert(bucket.index, bucket);
        }
        let from = (wall.unix_ns(now) / BUCKET_NS + 1).saturating_sub(hours.saturating_mul(HOUR));
        let buckets = stored::merged(all.split_off(&from).into_values(), hours);
        let attached = attached.map(|at| wall.unix_ms(at)).into_iter().chain(first).min();
        Some(Ok(columns(buckets, hours, hours.saturating_mul(HOUR), attached)))
    }
}
