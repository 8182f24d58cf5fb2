//! The recordings that began lately, behind a lock: processes, and the writer, begin them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base::time::Moment;
use gc_rules::incident::{BegunRecordings, Recordings, Share};

#[derive(Debug, Default)]
pub(super) struct Begun(Mutex<BegunRecordings>);

impl Begun {
    /// It was not written: the next one may begin.
    pub(super) fn forget(&self, id: &str) {
        self.lock().forget(id);
    }

    /// Whose the recording with this id is; `None`: it is none of those.
    pub(super) fn share(&self, id: &str) -> Option<Share> {
        self.lock().share(id)
    }

    fn lock(&self) -> MutexGuard<'_, BegunRecordings> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Recordings for Begun {
    fn begin(&self, share: &Share, rule: &Arc<str>, at: Moment, id: &Arc<str>) -> Result<(), Arc<str>> {
        self.lock().begin(share, rule, at, id)
    }
}
