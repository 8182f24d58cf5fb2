//! The history that is kept on disk: what of it is written, and how it is shown.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::SystemTime;

use crate::pipeline::history::{BUCKET_NS, Bucket, stored};
use crate::pipeline::overview_view::now_of;
use crate::pipeline::process_view::columns;
use crate::pipeline::registry::Pipeline;
use api::view::HistoryColumns;
use processes::RunState;

/// Buckets that ended so long ago change no more: what belongs to a collection may be known late.
const SETTLED: u64 = 12;

/// Buckets of an hour.
const HOUR: u64 = 3600 * 1_000_000_000 / BUCKET_NS;

impl Pipeline {
    /// Writes what is new of the history of all runs; blocking. `all`: also what may change yet, as gcwatch ends.
    pub fn keep_history(&self, now_unix_ns: u64, all: bool) {
        let Some(folder) = self.shared().history() else { return };
        let mut runs = self.runs();
        runs.extend(
            self.shared()
                .processes()
                .exited
                .all()
                .map(|exited| Arc::clone(&exited.run)),
        );
        for run in &runs {
            let parts = run.parts();
            let now = now_of(run.clock(), &parts, now_unix_ns);
            let is_over = all || parts.session.state == RunState::Ended;
            let until = if is_over {
                u64::MAX
            } else {
                (now / BUCKET_NS).saturating_sub(SETTLED)
            };
            let mut buckets = parts.history.buckets(now);
            // A disk may hang.
            drop(parts);
            buckets.retain(|bucket| bucket.index < until);
            folder.keep(run.key(), &buckets);
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
    pub fn long_history(&self, pid: u32, hours: u64, now_unix_ns: u64) -> Option<io::Result<HistoryColumns>> {
        let folder = self.shared().history()?;
        let (run, _) = self.run_of(pid)?;
        let parts = run.parts();
        let now = now_of(run.clock(), &parts, now_unix_ns);
        let (newest, attached) = (parts.history.buckets(now), parts.session.first_attach_unix_ns);
        drop(parts);
        let mut all: BTreeMap<u64, Bucket> = match folder.read(run.key()) {
            Ok(kept) => kept.into_iter().map(|bucket| (bucket.index, bucket)).collect(),
            Err(error) => return Some(Err(error)),
        };
        let first = all.keys().next().map(|first| first.saturating_mul(BUCKET_NS));
        all.extend(newest.into_iter().map(|bucket| (bucket.index, bucket)));
        let from = (now / BUCKET_NS + 1).saturating_sub(hours.saturating_mul(HOUR));
        let buckets = stored::merged(all.split_off(&from).into_values(), hours);
        let attached = attached.into_iter().chain(first).min();
        Some(Ok(columns(buckets, hours, hours.saturating_mul(HOUR), attached)))
    }
}
