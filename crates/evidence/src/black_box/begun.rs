//! The recordings that started recently, behind a lock: processes and the writer start them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base::time::Moment;
use incidents::{BegunRecordings, QuotaOwner, Recordings};

#[derive(Debug, Default)]
pub(super) struct RecordingRegistry(Mutex<BegunRecordings>);

impl RecordingRegistry {
    /// Forgets a recording that was not written, so that the next recording can start.
    pub(super) fn forget(&self, id: &str) {
        self.lock().forget(id);
    }

    /// Returns the owner of the recording with this id, or `None` if there is no such recording.
    pub(super) fn share(&self, id: &str) -> Option<QuotaOwner> {
        self.lock().share(id)
    }

    fn lock(&self) -> MutexGuard<'_, BegunRecordings> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Recordings for RecordingRegistry {
    fn begin(&self, share: &QuotaOwner, rule: &Arc<str>, at: Moment, id: &Arc<str>) -> Result<(), Arc<str>> {
        self.lock().begin(share, rule, at, id)
    }
}
