//! The report of `gcwatch doctor`: gcwatch's own access, and a verdict on each process with its reason and remedy.

use std::io::{self, Write};

use serde::Serialize;

use crate::processes::{PERMISSION, permission};
use crate::table::{self, FAINT, HEADING, MARK};
use crate::units::plural;

/// Width at which texts are wrapped, in characters, or the width of the terminal if that is smaller.
const WIDTH: usize = 110;
/// Maximum number of sockets without a process in the table. There can be thousands.
const MAX_STALE: usize = 3;
/// Indentation of the texts below a verdict.
const INDENT: usize = 10;

/// `kind: "gcwatch"`: what this gcwatch instance can see and attach to. Unknown values are `null`.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(tag = "kind", rename = "gcwatch")]
pub struct SelfRecord {
    /// Version of gcwatch.
    pub version: &'static str,
    /// Pid of gcwatch in its own pid namespace.
    pub pid: u32,
    /// Effective user id of gcwatch.
    pub uid: Option<u32>,
    /// Effective group id of gcwatch.
    pub gid: Option<u32>,
    /// Capabilities that gcwatch has, out of those required for processes of other users: `SYS_PTRACE`, `DAC_OVERRIDE`.
    pub capabilities: Option<Vec<&'static str>>,
    /// Capabilities that gcwatch lacks, out of those required for processes of other users.
    pub missing_capabilities: Option<Vec<&'static str>>,
    /// Whether gcwatch is in the host's pid namespace and sees all processes.
    pub host_pid_namespace: Option<bool>,
    /// Whether gcwatch is in the host's user namespace, so that its capabilities apply to all processes.
    pub host_user_namespace: Option<bool>,
    /// Whether `/proc` hides processes of other users (`hidepid`).
    pub processes_hidden: Option<bool>,
    /// Seccomp mode of gcwatch: `none`, `strict` or `filter`.
    pub seccomp: Option<&'static str>,
    /// Whether `no_new_privs` is set.
    pub no_new_privileges: Option<bool>,
    /// AppArmor profile or SELinux context of gcwatch.
    pub security_label: Option<String>,
    /// Number of file descriptors that the daemon needs when `targets.max_targets` processes are attached.
    pub file_descriptors_needed: u64,
    /// Limit of file descriptors; `null` if there is no limit.
    pub file_descriptors_allowed: Option<u64>,
    /// Conflicts of the session that reads requests; `null` if the configuration does not enable this session.
    pub requests: Option<String>,
    /// Whether gcwatch can attach to processes of every user in every container, up to the configured number.
    pub ok: bool,
    /// Description of missing access, in one sentence.
    pub detail: Option<String>,
    /// Description of how to grant the missing access.
    pub remedy: Option<String>,
}

/// `kind: "diagnosis"`: the verdict on one process, or on an expected process that is missing.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(tag = "kind", rename = "diagnosis")]
pub struct Diagnosis {
    /// Pid in gcwatch's pid namespace. For an invisible process, the pid in the name of its socket; `null` for a
    /// missing process.
    pub pid: Option<u32>,
    /// Pid in the process's own namespace.
    pub ns_pid: Option<u32>,
    /// Name of the process, or for a missing process the setting that expects it.
    pub name: String,
    /// User of the process.
    pub uid: Option<u32>,
    /// Version of the runtime.
    pub runtime: Option<String>,
    /// Path of the diagnostics socket.
    pub socket: Option<String>,
    /// Verdict: `attachable`, `attached`, `excluded`, `not-found`, or the reason as in `gcwatch ps`.
    pub verdict: &'static str,
    /// Whether no action is needed.
    pub ok: bool,
    /// Reason for the verdict.
    pub detail: Option<String>,
    /// Recommended action.
    pub remedy: Option<String>,
}

/// `kind: "stale-socket"`: a socket file that no process owns.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "kind", rename = "stale-socket")]
pub struct StaleRecord {
    /// Path of the socket file.
    pub path: String,
    /// Reason and recommended action.
    pub detail: String,
}

/// The whole report.
#[derive(Debug, Clone)]
pub struct Report {
    /// Access of gcwatch itself.
    pub own: SelfRecord,
    /// Verdicts; see [`Report::sort`].
    pub diagnoses: Vec<Diagnosis>,
    /// Sockets left behind by processes that have exited.
    pub stale: Vec<StaleRecord>,
}

impl Report {
    /// Sorts the verdicts: problems first, then by pid and name.
    pub fn sort(&mut self) {
        self.diagnoses
            .sort_by(|a, b| (a.ok, a.pid, &a.name).cmp(&(b.ok, b.pid, &b.name)));
    }

    /// Returns whether no process has a problem.
    pub fn is_ok(&self) -> bool {
        self.diagnoses.iter().all(|diagnosis| diagnosis.ok)
    }

    /// Writes the report as text: gcwatch itself, then the verdicts, then stale sockets. `sudo` is the command to
    /// repeat as root if gcwatch lacks the rights to reach processes of other users. The command is written once for
    /// all these processes, and replaces their reasons and remedies.
    pub fn write(&self, out: &mut dyn Write, sudo: Option<&str>) -> io::Result<()> {
        self.own.write(out)?;
        writeln!(out)?;
        let bad = self.diagnoses.iter().filter(|diagnosis| !diagnosis.ok).count();
        let all = match self.diagnoses.len() {
            1 => "1 process".to_owned(),
            count => format!("{count} processes"),
        };
        match (self.diagnoses.len(), bad) {
            (0, _) => writeln!(out, "no .NET process found that gcwatch can see")?,
            (_, 0) => writeln!(out, "{all}, no problems")?,
            _ => writeln!(
                out,
                "{all}, {MARK}{bad} {}{MARK:#}",
                if bad == 1 { "needs attention" } else { "need attention" }
            )?,
        }
        if let Some(command) = sudo {
            let others = self
                .diagnoses
                .iter()
                .filter(|diagnosis| diagnosis.verdict == PERMISSION);
            permission(out, others.count(), command)?;
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
            let is_said = sudo.is_some() && diagnosis.verdict == PERMISSION;
            diagnosis.write(out, name, runtime, is_said)?;
        }
        if !self.stale.is_empty() {
            writeln!(
                out,
                "\n{} without a visible process:",
                plural(self.stale.len() as u64, "socket")
            )?;
        }
        for stale in self.stale.iter().take(MAX_STALE) {
            paragraph(out, "", 2, &stale.detail)?;
        }
        if self.stale.len() > MAX_STALE {
            writeln!(
                out,
                "  and {} more; --format ndjson has all",
                self.stale.len() - MAX_STALE
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
            Some(false) => format!("a separate {kind} namespace"),
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
        if let Some(requests) = &self.requests {
            paragraph(out, "", 2, requests)?;
        }
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

    /// Writes the verdict. `brief` omits the reason and the remedy, which were already written for another process.
    fn write(&self, out: &mut dyn Write, name: usize, runtime: usize, brief: bool) -> io::Result<()> {
        let pid = self.pid.map_or_else(|| "-".to_owned(), |pid| pid.to_string());
        write!(out, "{pid:>8}  {:<name$}  {:<runtime$}  ", self.name, self.runtime())?;
        if self.ok {
            writeln!(out, "{}", self.verdict)?;
        } else {
            writeln!(out, "{MARK}{}{MARK:#}", self.verdict)?;
        }
        if brief {
            return Ok(());
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

/// Writes a text wrapped at [`WIDTH`] and indented, with a mark before its first line.
fn paragraph(out: &mut dyn Write, mark: &str, indent: usize, text: &str) -> io::Result<()> {
    let most = table::columns().map_or(WIDTH, |columns| columns.min(WIDTH));
    let indent = indent + mark.len();
    writeln!(out, "{mark:>indent$}{}", table::beside(text, indent, most))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn diagnosis(pid: u32, verdict: &'static str, ok: bool) -> Diagnosis {
        Diagnosis {
            pid: Some(pid),
            name: "Shop".to_owned(),
            runtime: Some("8.0.1".to_owned()),
            verdict,
            ok,
            detail: (!ok).then(|| "a long word ".repeat(20).trim_end().to_owned()),
            remedy: (!ok).then(|| "do this and that ".repeat(10).trim_end().to_owned()),
            ..Diagnosis::default()
        }
    }

    fn own() -> SelfRecord {
        SelfRecord {
            version: "1",
            pid: 7,
            uid: Some(0),
            capabilities: Some(vec!["SYS_PTRACE"]),
            host_pid_namespace: Some(true),
            seccomp: Some("filter"),
            no_new_privileges: Some(true),
            detail: Some("it cannot connect".to_owned()),
            ..SelfRecord::default()
        }
    }

    /// Scenario: a process with a problem is between two processes without problems, by pid. The report is written
    /// without and with a command to repeat as root.
    /// Guarantee: the problem is reported first, no line exceeds the width, and the report is not ok. The command
    /// replaces the remedy of the process.
    #[test]
    fn problems_are_reported_first() {
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
        assert!(!report.is_ok());
        let mut text = Vec::new();
        report.write(&mut text, None).unwrap();
        let text = String::from_utf8(text).unwrap();
        let place = |word: &str| text.find(word).unwrap();
        assert!(
            place("permission") < place("attachable") && place("attachable") < place("attached"),
            "{text}"
        );
        assert!(text.contains("3 processes, 1 needs attention"), "{text}");
        let mut brief = Vec::new();
        report.write(&mut brief, Some("gcwatch doctor")).unwrap();
        let brief = String::from_utf8(brief).unwrap();
        assert!(
            brief.contains("Run `sudo gcwatch doctor`.") && !brief.contains("do this"),
            "{brief}"
        );
        assert!(text.contains("          -> do this"), "{text}");
        assert!(
            text.lines()
                .all(|line| line.chars().count() <= WIDTH && !line.ends_with(' ')),
            "{text}"
        );
        report.diagnoses.retain(|diagnosis| diagnosis.ok);
        assert!(report.is_ok());
    }
}
