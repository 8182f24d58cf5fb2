//! What one test has for itself: a folder, processes that are known by its name, and a daemon that reads them alone.

use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use crate::daemon::{ANY, Daemon, MARK, command, marked};
use crate::program;
use crate::runtimes::Runtime;
use crate::target::Start;

/// See the module.
pub struct Scene(TempDir);

impl Scene {
    /// One with a folder that nothing is in; it is removed at the end.
    pub fn begin() -> Self {
        Self(tempfile::Builder::new().prefix("gcw").tempdir().unwrap())
    }

    pub fn folder(&self) -> &Path {
        self.0.path()
    }

    /// A path in its folder.
    pub fn path(&self, name: &str) -> String {
        self.folder().join(name).to_str().unwrap().to_owned()
    }

    pub fn mark(&self) -> &str {
        self.folder().file_name().unwrap().to_str().unwrap()
    }

    pub fn marked(&self, start: Start) -> Start {
        start.env(MARK, self.mark())
    }

    /// A process of it.
    pub fn start(&self, runtime: Runtime, mode: &'static str) -> Start {
        self.marked(Start::new(runtime, mode))
    }

    /// `gcwatch run` for its processes, with more configuration.
    pub fn command(&self, more: &str) -> Command {
        self.command_at(ANY, more)
    }

    pub fn command_at(&self, listen: &str, more: &str) -> Command {
        let config = marked(self.mark()) + more;
        command(program::command(), self.folder(), listen, &config)
    }

    pub fn daemon(&self, more: &str) -> Daemon {
        Daemon::start(self.command(more))
    }

    /// The same, which has the scene until it ends.
    pub fn into_daemon(self, command: Command) -> Daemon {
        Daemon::start(command).in_folder(self.0)
    }

    /// The configuration of a state directory.
    pub fn state(&self) -> String {
        format!("state: {{directory: {}}}\n", self.path("state"))
    }

    /// The configuration of one rule, beside those that ship or without them.
    pub fn rule(&self, shipped: bool, rule: &str) -> String {
        let file = self.path("rules.yaml");
        std::fs::write(&file, format!("apiVersion: gcwatch/v1\nrules:\n  - {{{rule}}}\n")).unwrap();
        format!("rules: {{shipped: {shipped}, files: [{file}]}}\n")
    }

    /// The same of a rule that holds from the first collection on, with more keys.
    pub fn any(&self, shipped: bool, keys: &str) -> String {
        let any = "id: test.any, title: Any, on: gc, when: gc.number > 0, summary: A collection, \
                   description: A collection., remedy: None., source: none, keep_firing_for: 10m";
        self.rule(shipped, &format!("{any}, {keys}"))
    }
}
