//! Reads the rule files at startup and after each change. Invalid rules never replace the rules in force.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use tokio::task::JoinError;
use tracing::{error, info, warn};

use crate::pipeline::Pipeline;
use base::clock::now_unix_ns;
use base::time::rfc3339;
use config::file::{READ_TIMEOUT, Watch};
use config::options::RuleSources;
use config::rule_files;
use rule_language::load::{self, LoadedRules, SourceFile};
use targets::{FileReading, ReadError, or_pending};

use targets::host;

/// State of the rule files.
#[derive(Debug, Clone, Default, Serialize)]
pub struct RuleStatus {
    /// Names of the files that were read last.
    pub files: Vec<String>,
    /// `ok`, or `err` if the files are invalid and the previous rules are in force, or if rules are left out.
    pub health: &'static str,
    pub errors: Vec<String>,
    /// Errors of the rules that are left out because they use removed words. All other rules are in force.
    pub left_out: Vec<String>,
    /// Warnings about the rules in force.
    pub warnings: Vec<String>,
    /// Time at which the rules in force were read, in RFC 3339; `None` if no files have been valid yet.
    pub loaded: Option<String>,
    /// Time at which the rules in force were read, in Unix nanoseconds; `None` if no files have been valid yet.
    #[serde(skip)]
    pub loaded_unix_ns: Option<u64>,
    /// Number of reloads that were applied.
    #[serde(skip)]
    pub accepted: u64,
    /// Number of reloads that were refused.
    #[serde(skip)]
    pub refused: u64,
}

/// The contents of the rule files.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Texts {
    files: Vec<SourceFile>,
    /// Reasons why files cannot be read.
    unreadable: Vec<String>,
}

/// The rule files and their state.
#[derive(Debug, Default)]
pub struct RuleFiles {
    status: Mutex<RuleStatus>,
    /// The contents that were read last, so that equal contents do not count as a change.
    last: Mutex<Option<Texts>>,
    reading: FileReading,
}

impl RuleFiles {
    pub fn status(&self) -> RuleStatus {
        self.lock().clone()
    }

    fn last(&self) -> MutexGuard<'_, Option<Texts>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, RuleStatus> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the files for the first time. If the files are invalid, the shipped rules are in force until the files are
    /// valid, or no rules if the configuration excludes the shipped rules. The daemon starts in any case. The log is
    /// not available yet, so the first [`reload`](Self::reload) logs the errors.
    pub async fn begin(&self, sources: &RuleSources, pipeline: &Pipeline) {
        if self.read(sources, pipeline, true).await.is_ok() || !sources.shipped {
            return;
        }
        let shipped = tokio::task::spawn_blocking(|| load::load(&load::shipped()));
        if let Ok(Ok(loaded)) = shipped.await {
            pipeline.set_rules(Arc::new(loaded.rules), host::now());
        }
    }

    /// Reads the files again. Errors are logged, counted and shown, and the previous rules stay in force. Rules that use
    /// removed words are logged and shown, and all other rules are in force.
    pub async fn reload(&self, sources: &RuleSources, pipeline: &Pipeline) {
        let Err(errors) = self.read(sources, pipeline, false).await else {
            let left_out = self.lock().left_out.clone();
            for message in &left_out {
                error!("{message}");
            }
            if !left_out.is_empty() {
                warn!("left out the rules and overrides with these errors; all other rules are in force");
            }
            return;
        };
        for message in &errors {
            error!("{message}");
        }
        let were_valid = self.lock().loaded.is_some();
        let instead = match pipeline.rules().rules.len() {
            _ if were_valid => "the previous rules stay in force".to_owned(),
            0 => "no rules are in force until the files are valid".to_owned(),
            count => format!("the {count} shipped rules are in force until the files are valid"),
        };
        warn!("the rules are invalid: {instead}");
    }

    /// Reads the files and applies them if they have changed. Returns the errors if the files are invalid, were invalid
    /// and have not changed, or cannot be read in time.
    async fn read(&self, sources: &RuleSources, pipeline: &Pipeline, first: bool) -> Result<(), Vec<String>> {
        let (of, known) = (sources.clone(), self.last().clone());
        let read = read_then_load(
            &self.reading,
            move || Some(texts(&of)).filter(|texts| known.as_ref() != Some(texts)),
            loaded,
        );
        let (texts, loaded) = match read.await {
            Ok(Some(read)) => read,
            Ok(None) => {
                let mut status = self.lock();
                if status.errors.is_empty() {
                    return Ok(());
                }
                status.refused += 1;
                return Err(status.errors.clone());
            }
            Err(not_read) => {
                let error = format!("the rule files: {not_read}");
                let mut status = self.lock();
                status.health = "err";
                status.errors = vec![error.clone()];
                status.refused += u64::from(!first);
                return Err(vec![error]);
            }
        };
        let files = texts.files.iter().map(|file| file.name.clone()).collect();
        *self.last() = Some(texts);
        let mut status = self.lock();
        status.files = files;
        match loaded {
            Ok(loaded) => {
                let now = now_unix_ns();
                let late = loaded.expired(now).map(ToString::to_string).collect::<Vec<_>>();
                let LoadedRules {
                    rules,
                    left_out,
                    warnings,
                    ..
                } = loaded;
                status.health = if left_out.is_empty() { "ok" } else { "err" };
                status.errors.clear();
                status.left_out = left_out.iter().map(ToString::to_string).collect();
                status.warnings = warnings.iter().map(ToString::to_string).chain(late).collect();
                status.loaded = rfc3339(now);
                status.loaded_unix_ns = Some(now);
                status.accepted += u64::from(!first);
                let warnings = status.warnings.clone();
                drop(status);
                warnings.iter().for_each(|warning| warn!("{warning}"));
                let count = rules.rules.iter().filter(|rule| rule.enabled).count();
                pipeline.set_rules(Arc::new(rules), host::now());
                info!("{count} rules are in force");
                Ok(())
            }
            Err(errors) => {
                status.health = "err";
                status.errors.clone_from(&errors);
                status.refused += u64::from(!first);
                Err(errors)
            }
        }
    }
}

/// A watch for changes of rule files, and for files that are added to or removed from folders.
#[derive(Debug, Default)]
pub(crate) struct RuleWatch {
    paths: Vec<PathBuf>,
    watch: Option<Watch>,
    reading: FileReading,
}

impl RuleWatch {
    /// Replaces the watched paths. Does nothing if they are unchanged.
    pub(crate) async fn set(&mut self, sources: &RuleSources) {
        if self.paths == sources.paths {
            return;
        }
        self.paths.clone_from(&sources.paths);
        self.watch = None;
        if self.paths.is_empty() {
            return;
        }
        let paths = self.paths.clone();
        match self.reading.within(READ_TIMEOUT, || Watch::new(paths)).await {
            Ok(watch) => {
                if let Some(error) = watch.degraded() {
                    warn!("checking the rule files periodically, because the system does not report changes: {error}");
                }
                self.watch = Some(watch);
            }
            Err(not_read) => error!("the rule files are not watched for changes: {not_read}"),
        }
    }

    pub(crate) async fn changed(&mut self) {
        or_pending(self.watch.as_mut().map(Watch::changed)).await;
    }
}

/// The rules of the files, or the reasons for which the files are invalid.
type Loaded = Result<LoadedRules, Vec<String>>;

/// Reads the files within [`READ_TIMEOUT`], and loads their rules. Returns `None` if `read` does. Loading has no
/// timeout, because its duration depends on the CPU and not on a file system.
///
/// # Errors
///
/// Returns [`ReadError`] if the files were not read in time, or a thread panicked.
async fn read_then_load(
    reading: &FileReading,
    read: impl FnOnce() -> Option<Texts> + Send + 'static,
    load: impl FnOnce(&Texts) -> Loaded + Send + 'static,
) -> Result<Option<(Texts, Loaded)>, ReadError> {
    let Some(texts) = reading.within(READ_TIMEOUT, read).await? else {
        return Ok(None);
    };
    let loading = tokio::task::spawn_blocking(move || {
        let loaded = load(&texts);
        (texts, loaded)
    });
    let failed = |error: JoinError| ReadError::Failed {
        problem: error.to_string(),
    };
    loading.await.map(Some).map_err(failed)
}

/// Loads the rules of files that were read.
fn loaded(texts: &Texts) -> Loaded {
    match load::load(&texts.files) {
        Ok(loaded) if texts.unreadable.is_empty() => Ok(loaded),
        Ok(_) => Err(texts.unreadable.clone()),
        Err(problems) => {
            let problems = problems.iter().map(ToString::to_string);
            Err(texts.unreadable.iter().cloned().chain(problems).collect())
        }
    }
}

/// Reads the rule files, starting with the shipped rules if they are configured.
fn texts(sources: &RuleSources) -> Texts {
    let mut files = if sources.shipped { load::shipped() } else { Vec::new() };
    let mut unreadable = Vec::new();
    for path in &sources.paths {
        match rule_files::read_any(path) {
            Ok(read) => {
                if read.is_empty() {
                    info!("there is no rule file (*.yaml) in {}", path.display());
                }
                files.extend(read);
            }
            Err(problems) => unreadable.extend(problems.iter().map(ToString::to_string)),
        }
    }
    Texts { files, unreadable }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    /// Scenario: the files are read at once, and loading their rules takes twice the timeout for reading files.
    /// Guarantee: the rules are loaded; the file system is not reported as blocked.
    #[tokio::test(start_paused = true)]
    async fn slow_loading_is_not_a_blocked_file_system() {
        let texts = Texts {
            files: Vec::new(),
            unreadable: Vec::new(),
        };
        let (started, begun) = mpsc::channel();
        let (release, released) = mpsc::channel();
        let task = tokio::spawn(async move {
            let load = move |_: &Texts| {
                started.send(()).unwrap();
                released.recv().unwrap();
                Ok(LoadedRules::default())
            };
            read_then_load(&FileReading::default(), || Some(texts), load).await
        });
        // A runtime that is never idle does not move the paused clock.
        while begun.try_recv().is_err() {
            tokio::task::yield_now().await;
        }
        tokio::time::advance(READ_TIMEOUT * 2 + Duration::from_secs(1)).await;
        release.send(()).unwrap();
        let (_, loaded) = task.await.unwrap().unwrap().unwrap();
        assert!(loaded.is_ok(), "the rules are loaded");
    }
}
