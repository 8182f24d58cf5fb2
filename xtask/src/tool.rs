//! Runs the programs of other projects that build parts of a release.

use std::io::ErrorKind;
use std::process::Command;

use anyhow::{Context as _, Result, bail};

/// A program that `.ci/tools packages` installs.
#[derive(Debug)]
pub(crate) struct Tool {
    /// Name of the program and of its crate.
    pub(crate) name: &'static str,
    /// Version that the release uses. A different version can write different bytes.
    pub(crate) version: &'static str,
    /// Other arguments of `cargo install`.
    pub(crate) install: &'static str,
}

impl Tool {
    /// Runs a command of the program, and returns the standard output. Returns `None` and prints a message if the program
    /// is missing. `output` is the name of the missing output in the message.
    ///
    /// # Errors
    ///
    /// Returns an error if the command fails, or if the program is missing for a release (`is_release`).
    pub(crate) fn run(&self, output: &str, command: &mut Command, is_release: bool) -> Result<Option<Vec<u8>>> {
        let name = self.name;
        match command.output() {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let install = format!(
                    "cargo install {name} --version {} --locked{}",
                    self.version, self.install
                );
                let missing = format!("{output}: {name} is missing: {install}");
                if is_release {
                    bail!(missing);
                }
                println!("left out: {missing}");
                Ok(None)
            }
            Err(error) => Err(error).with_context(|| format!("cannot run {name}")),
            Ok(done) if done.status.success() => Ok(Some(done.stdout)),
            Ok(done) => bail!("{name}: {}", String::from_utf8_lossy(&done.stderr).trim()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: a program is missing, fails, or succeeds.
    /// Guarantee: a missing program leaves its output out, but is an error for a release, with the command that installs
    /// the program. A failure is an error with the text of standard error.
    #[test]
    fn missing_program_fails_only_a_release() {
        let tool = Tool {
            name: "cargo-none",
            version: "1.2.3",
            install: "",
        };
        let missing = || Command::new("/no/such/folder/cargo-none");
        assert_eq!(tool.run("file", &mut missing(), false).unwrap(), None);
        let error = tool.run("file", &mut missing(), true).unwrap_err().to_string();
        assert_eq!(
            error,
            "file: cargo-none is missing: cargo install cargo-none --version 1.2.3 --locked"
        );
        let shell = |text: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", text]);
            tool.run("file", &mut command, true)
        };
        assert_eq!(shell("echo yes").unwrap().unwrap(), b"yes\n");
        assert_eq!(shell("echo no >&2; exit 3").unwrap_err().to_string(), "cargo-none: no");
    }
}
