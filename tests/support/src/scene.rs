//! The environment of one test: a folder, processes marked with the folder's name, and a daemon that reads only these
//! processes.

use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use crate::daemon::{ANY, Daemon, MARK, command, marked};
use crate::program;
use crate::runtimes::Runtime;
use crate::target::Start;

/// The environment of one test, with its temporary folder. See the module.
pub struct Scene(TempDir);

impl Scene {
    /// Creates a scene with an empty folder. Dropping the scene removes the folder.
    pub fn begin() -> Self {
        Self(tempfile::Builder::new().prefix("gcw").tempdir().unwrap())
    }

    pub fn folder(&self) -> &Path {
        self.0.path()
    }

    /// Returns the path of the file with this name in the scene's folder.
    pub fn path(&self, name: &str) -> String {
        self.folder().join(name).to_str().unwrap().to_owned()
    }

    pub fn mark(&self) -> &str {
        self.folder().file_name().unwrap().to_str().unwrap()
    }

    pub fn marked(&self, start: Start) -> Start {
        start.env(MARK, self.mark())
    }

    /// Returns the configuration to start a process that is marked as part of the scene.
    pub fn start(&self, runtime: Runtime, mode: &'static str) -> Start {
        self.marked(Start::new(runtime, mode))
    }

    /// Returns the command `gcwatch run` for the processes of the scene. `more` is additional configuration in YAML.
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

    /// Starts the daemon of a command, and transfers the ownership of the scene's folder to the daemon.
    pub fn into_daemon(self, command: Command) -> Daemon {
        Daemon::start(command).in_folder(self.0)
    }

    /// Returns the configuration section `state` with a directory in the scene's folder.
    pub fn state(&self) -> String {
        format!("state: {{directory: {}}}\n", self.path("state"))
    }

    /// Writes a file with one rule, and returns the configuration section `rules` that loads the file. `shipped` is
    /// whether the section also loads the shipped rules.
    pub fn rule(&self, shipped: bool, rule: &str) -> String {
        let file = self.path("rules.yaml");
        std::fs::write(&file, format!("apiVersion: gcwatch/v1\nrules:\n  - {{{rule}}}\n")).unwrap();
        format!("rules: {{shipped: {shipped}, files: [{file}]}}\n")
    }

    /// Like [`rule`](Self::rule), but for a rule whose condition holds from the first collection. `keys` are further
    /// keys of the rule.
    pub fn any(&self, shipped: bool, keys: &str) -> String {
        let any = "id: test.any, title: Any, on: gc, when: gc.number > 0, summary: A collection, \
                   description: A collection., remedy: None., source: none, keep_firing_for: 10m";
        self.rule(shipped, &format!("{any}, {keys}"))
    }
}
