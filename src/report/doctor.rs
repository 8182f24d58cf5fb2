//! What `gcwatch doctor` found: a verdict on each process, with its reason and what to do.

use std::io::{self, Write};

use serde::Serialize;

use crate::report::table::{FAINT, HEADING, MARK};
use crate::report::units::plural;

/// Width that texts are broken at, in characters.
const WIDTH: usize = 110;
/// Sockets without a process in the table; there may be thousands.
const MOST_STALE: usize = 3;
/// Where the texts under a verdict begin.
const INDENT: usize = 10;

/// `kind: "gcwatch"`: what this gcwatch may see and reach. Unknown values are `null`.
#[derive(Debug, Clone, Serialize)]
pub struct SelfRecord {
    /// Always `gcwatch`.
    pub kind: &'static str,
    /// Its version.
    pub version: &'static str,
    /// Its pid, as it sees it.
    pub pid: u32,
    /// Effective user id.
    pub uid: Option<u32>,
    /// Effective group id.
    pub gid: Option<u32>,
    /// Of the capabilities that reaching other users' processes takes, those that it has: `SYS_PTRACE`, `DAC_OVERRIDE`.
    pub capabilities: Option<Vec<&'static str>>,
    /// Those that it lacks.
    pub missing_capabilities: Option<Vec<&'static str>>,
    /// It is in the host's pid namespace: it sees all processes.
    pub host_pid_namespace: Option<bool>,
    /// It is in the host's user namespace: its capabilities count for all processes.
    pub host_user_namespace: Option<bool>,
    /// `/proc` is mounted so that other users' processes are hidden (`hidepid`).
    pub processes_hidden: Option<bool>,
    /// `none`, `strict` or `filter`.
    pub seccomp: Option<&'static str>,
    /// What it runs cannot gain rights.
    pub no_new_privileges: Option<bool>,
    /// Its label for the security module: AppArmor's profile, or SELinux' context.
    pub security_label: Option<String>,
    /// It can reach processes of every user in every container.
    pub ok: bool,
    /// What it cannot reach, in a sentence.
    pub detail: Option<String>,
    /// What to do, where it is to reach that.
    pub remedy: Option<String>,
}

/// `kind: "diagnosis"`: the verdict on one process, or on something that was expected and is not there.
#[derive(Debug, Clone, Serialize)]
pub struct Diagnosis {
    /// Always `diagnosis`.
    pub kind: &'static str,
    /// Pid as gcwatch sees it; of a process that it does not see, the pid in its socket's name; `null` for what is not there.
    pub pid: Option<u32>,
    /// Pid in its own namespace.
    pub ns_pid: Option<u32>,
    /// What it is called; for what is not there, what was expected.
    pub name: String,
    /// User that it runs as.
    pub uid: Option<u32>,
    /// Version of its runtime.
    pub runtime: Option<String>,
    /// Its diagnostics socket.
    pub socket: Option<String>,
    /// `attachable`, `attached`, `excluded`, `not-found`, or the reason as `gcwatch ps` says it.
    pub verdict: &'static str,
    /// Nothing is to be done.
    pub ok: bool,
    /// What was found.
    pub detail: Option<String>,
    /// What to do.
    pub remedy: Option<String>,
}

/// `kind: "stale-socket"`: a socket file that nobody owns.
#[derive(Debug, Clone, Serialize)]
pub struct StaleRecord {
    /// Always `stale-socket`.
    pub kind: &'static str,
    /// The file.
    pub path: String,
    /// What is known of it, and what to do.
    pub detail: String,
}

/// Everything that was found.
#[derive(Debug, Clone)]
pub struct Report {
    /// gcwatch itself.
    pub own: SelfRecord,
    /// One verdict each; see [`Report::sort`].
    pub diagnoses: Vec<Diagnosis>,
    /// Sockets that were left behind.
    pub stale: Vec<StaleRecord>,
}

impl Report {
    /// What is to be done first, then by pid.
    pub fn sort(&mut self) {
        self.diagnoses
            .sort_by(|a, b| (a.ok, a.pid, &a.name).cmp(&(b.ok, b.pid, &b.name)));
    }

    /// Nothing is to be done for any process.
    pub fn is_well(&self) -> bool {
        self.diagnoses.iter().all(|diagnosis| diagnosis.ok)
    }

    /// Writes it for people: gcwatch first, then what is to be done, then what is well.
    ///
    /// # Errors
    ///
    /// What the writer says.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        self.own.write(out)?;
        writeln!(out)?;
        let bad = self.diagnoses.iter().filter(|diagnosis| !diagnosis.ok).count();
        let all = plural(self.diagnoses.len() as u64, "verdict");
        match (self.diagnoses.len(), bad) {
            (0, _) => writeln!(out, "no .NET process is running, as far as gcwatch can see")?,
            (_, 0) => writeln!(out, "{all}, all well")?,
            _ => writeln!(out, "{all}, {MARK}{bad} to look at{MARK:#}")?,
        }
        let width = |text: fn(&Diagnosis) -> usize, least: usize| {
            self.diagnoses
                .iter()
                .map(text)
                .chain([least])
                .max()
                .unwrap_or(least)
                .min(40)
        };
        let name = width(|diagnosis| diagnosis.name.chars().count(), 4);
        let runtime = width(|diagnosis| diagnosis.runtime().chars().count(), 4);
        if !self.diagnoses.is_empty() {
            writeln!(
                out,
                "\n{HEADING}{:>8}  {:<name$}  {:<runtime$}  verdict{HEADING:#}",
                "pid", "name", ".NET"
            )?;
        }
        for diagnosis in &self.diagnoses {
            diagnosis.write(out, name, runtime)?;
        }
        if !self.stale.is_empty() {
            writeln!(
                out,
                "\n{} without a process that gcwatch sees:",
                plural(self.stale.len() as u64, "socket")
            )?;
        }
        for stale in self.stale.iter().take(MOST_STALE) {
            paragraph(out, "", 2, &stale.detail)?;
        }
        if self.stale.len() > MOST_STALE {
            writeln!(
                out,
                "  and {} more; --format ndjson has all",
                self.stale.len() - MOST_STALE
            )?;
        }
        Ok(())
    }
}

impl SelfRecord {
    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let unknown = || "?".to_owned();
        let uid = self.uid.map_or_else(unknown, |uid| uid.to_string());
        let namespace = |host: Option<bool>, kind: &str| match host {
            Some(true) => format!("the host's {kind} namespace"),
            Some(false) => format!("a {kind} namespace of its own"),
            None => format!("an unknown {kind} namespace"),
        };
        let capabilities = match &self.capabilities {
            None => "unknown capabilities".to_owned(),
            Some(own) if own.is_empty() => "neither CAP_SYS_PTRACE nor CAP_DAC_OVERRIDE".to_owned(),
            Some(own) => own
                .iter()
                .map(|name| format!("CAP_{name}"))
                .collect::<Vec<_>>()
                .join(" and "),
        };
        let (pids, users) = (
            namespace(self.host_pid_namespace, "pid"),
            namespace(self.host_user_namespace, "user"),
        );
        writeln!(
            out,
            "{HEADING}gcwatch {}{HEADING:#}, process {}: uid {uid}, {capabilities}",
            self.version, self.pid
        )?;
        let mut facts = vec![format!("in {pids} and {users}")];
        facts.extend(
            self.seccomp
                .filter(|seccomp| *seccomp != "none")
                .map(|kind| format!("seccomp {kind}")),
        );
        facts.extend(
            self.no_new_privileges
                .filter(|set| *set)
                .map(|_| "no new privileges".to_owned()),
        );
        facts.extend(self.security_label.as_ref().map(|label| format!("labelled {label}")));
        paragraph(out, "", 2, &facts.join(", "))?;
        if let Some(detail) = &self.detail {
            paragraph(out, "", 2, detail)?;
        }
        if let Some(remedy) = &self.remedy {
            paragraph(out, "-> ", 2, remedy)?;
        }
        Ok(())
    }
}

impl Diagnosis {
    fn runtime(&self) -> &str {
        self.runtime.as_deref().unwrap_or("-")
    }

    fn write(&self, out: &mut dyn Write, name: usize, runtime: usize) -> io::Result<()> {
        let pid = self.pid.map_or_else(|| "-".to_owned(), |pid| pid.to_string());
        write!(out, "{pid:>8}  {:<name$}  {:<runtime$}  ", self.name, self.runtime())?;
        if self.ok {
            writeln!(out, "{}", self.verdict)?;
        } else {
            writeln!(out, "{MARK}{}{MARK:#}", self.verdict)?;
        }
        if let Some(detail) = &self.detail {
            write!(out, "{FAINT}")?;
            paragraph(out, "", INDENT, detail)?;
            write!(out, "{FAINT:#}")?;
        }
        if let Some(remedy) = &self.remedy {
            paragraph(out, "-> ", INDENT, remedy)?;
        }
        Ok(())
    }
}

/// Writes a text in lines of at most [`WIDTH`], each indented, the first one after a mark.
fn paragraph(out: &mut dyn Write, mark: &str, indent: usize, text: &str) -> io::Result<()> {
    let mut line = String::new();
    let mut begun = mark;
    let room = WIDTH.saturating_sub(indent + mark.len());
    let later = " ".repeat(mark.len());
    for word in text.split(' ') {
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > room {
            writeln!(out, "{:indent$}{begun}{line}", "")?;
            begun = &later;
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    writeln!(out, "{:indent$}{begun}{line}", "")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn diagnosis(pid: u32, verdict: &'static str, ok: bool) -> Diagnosis {
        Diagnosis {
            kind: "diagnosis",
            pid: Some(pid),
            ns_pid: Some(1),
            name: "Shop".to_owned(),
            uid: Some(1000),
            runtime: Some("8.0.1".to_owned()),
            socket: None,
            verdict,
            ok,
            detail: (!ok).then(|| "a long word ".repeat(20).trim_end().to_owned()),
            remedy: (!ok).then(|| "do this and that ".repeat(10).trim_end().to_owned()),
        }
    }

    fn own() -> SelfRecord {
        SelfRecord {
            kind: "gcwatch",
            version: "1",
            pid: 7,
            uid: Some(0),
            gid: Some(0),
            capabilities: Some(vec!["SYS_PTRACE"]),
            missing_capabilities: Some(vec!["DAC_OVERRIDE"]),
            host_pid_namespace: Some(true),
            host_user_namespace: None,
            processes_hidden: Some(false),
            seccomp: Some("filter"),
            no_new_privileges: Some(true),
            security_label: None,
            ok: false,
            detail: Some("it cannot connect".to_owned()),
            remedy: None,
        }
    }

    /// Scenario: two processes that are well and one that is not, between them by pid.
    /// Guarantee: the one to look at is told first, no line is longer than the width, and the report is not well.
    #[test]
    fn what_is_to_be_done_comes_first() {
        let mut report = Report {
            own: own(),
            diagnoses: vec![
                diagnosis(1, "attachable", true),
                diagnosis(2, "permission", false),
                diagnosis(3, "attached", true),
            ],
            stale: Vec::new(),
        };
        report.sort();
        assert!(!report.is_well());
        let mut text = Vec::new();
        report.write(&mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        let place = |word: &str| text.find(word).unwrap();
        assert!(
            place("permission") < place("attachable") && place("attachable") < place("attached"),
            "{text}"
        );
        assert!(text.contains("3 verdicts, 1 to look at"), "{text}");
        assert!(text.contains("          -> do this"), "{text}");
        assert!(
            text.lines()
                .all(|line| line.chars().count() <= WIDTH && !line.ends_with(' ')),
            "{text}"
        );
        report.diagnoses.retain(|diagnosis| diagnosis.ok);
        assert!(report.is_well());
    }
}
