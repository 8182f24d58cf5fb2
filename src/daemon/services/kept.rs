//! Content of the state directory at startup.

use std::io;
use std::path::Path;
use std::time::Duration;

use crate::daemon::bursts::BurstMarks;
use crate::daemon::incident_file::{Content, IncidentFile};
use crate::daemon::profile_keeping::{self, ReadProfiles};
use crate::daemon::state::{StateDirectory, boot_id};
use crate::pipeline::HistoryFolder;
use config::options::Options;
use delivery::otlp::Note;
use evidence::black_box::BlackBox;
use evidence::store::Store;
use targets::FileReading;
use tokio::runtime::Handle;

/// Timeout for reading the state directory at startup.
const STATE_TIMEOUT: Duration = Duration::from_secs(5);

/// Content of the state directory, except the export queue. All fields are `None` if the directory cannot be used. The
/// black box and the store are also `None` if they are disabled or cannot be used.
#[derive(Default)]
pub(super) struct StateContents {
    pub(super) state: Option<(StateDirectory, IncidentFile)>,
    pub(super) marks: Option<BurstMarks>,
    pub(super) left: Option<io::Result<Option<Content>>>,
    pub(super) black_box: Option<BlackBox>,
    pub(super) history: Option<HistoryFolder>,
    pub(super) store: Option<Store>,
    pub(super) profiles: Option<ReadProfiles>,
}

impl StateContents {
    /// Reads the directory on a separate thread, because its file system can hang.
    pub(super) async fn open(path: &Path, options: &Options, notes: &mut Vec<Note>) -> Self {
        let warning = |text| Note { is_warning: true, text };
        let (directory, recorded, stored) = (path.to_owned(), options.black_box.clone(), options.store.clone());
        let runtime = Handle::current();
        let reading = FileReading::default();
        let opened = reading.within(STATE_TIMEOUT, move || {
            let state = StateDirectory::open(&directory)?;
            let incidents = IncidentFile::new(&directory);
            let left = incidents.read();
            let marks = BurstMarks::read(&directory);
            let black_box = recorded.enabled.then(|| BlackBox::open(&directory, &recorded));
            let history = HistoryFolder::open(&directory, boot_id().as_deref());
            let profiles = profile_keeping::read(&directory);
            let store = stored.map(|(options, host)| Store::start(&directory, &host, &options, &runtime));
            Ok::<_, io::Error>((
                state,
                incidents,
                marks,
                left,
                black_box.transpose(),
                history,
                profiles,
                store.transpose(),
            ))
        });
        let path = path.display();
        let problem = match opened.await {
            Ok(Ok((state, incidents, marks, left, black_box, history, profiles, store))) => {
                let not_recorded = |error| {
                    warning(format!(
                        "incidents are not recorded: cannot use {path}/black-box: {error}"
                    ))
                };
                let (history, prepared) = history;
                if let Err(error) = prepared {
                    let folder = history.path_of_all().display();
                    notes.push(warning(format!(
                        "cannot keep the history of processes in {folder}: {error}; retrying every minute"
                    )));
                }
                let black_box = black_box.map_err(|error| notes.push(not_recorded(error)));
                let not_stored = |error| warning(format!("evidence is not stored outside this host: {error}"));
                let store = store.map_err(|error| notes.push(not_stored(error)));
                return Self {
                    state: Some((state, incidents)),
                    marks: Some(marks),
                    left: Some(left),
                    black_box: black_box.ok().flatten(),
                    history: Some(history),
                    store: store.ok().flatten(),
                    profiles: Some(profiles),
                };
            }
            Ok(Err(error)) => error.to_string(),
            Err(not_read) => not_read.to_string(),
        };
        notes.push(warning(format!(
            "cannot use {path}: {problem}; state is kept in memory only"
        )));
        Self::default()
    }
}
