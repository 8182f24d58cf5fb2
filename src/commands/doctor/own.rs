//! The access rights of gcwatch itself: the processes that it can see and attach to.

use std::path::Path;

use base::text::shown;
use dotnet_diagnostics::discovery::{Capability, Credentials};

use report::doctor::SelfRecord;
use targets::descriptors::Descriptors;
use targets::options::TargetOptions;

/// The host's pid namespace (`PROC_PID_INIT_INO` of the kernel's proc_ns.h).
const HOST_PID_NAMESPACE: &str = "pid:[4026531836]";
/// Maximum number of bytes that are read from one of gcwatch's own files in `/proc`.
const MAX_OWN_BYTES: usize = 256 << 10;

/// A description of the conflicts that the session that reads requests causes.
const REQUESTS: &str = "requests.mode is diagnosticsource: the runtime has one filter for all sessions of the provider \
                        Microsoft-Diagnostics-DiagnosticSource. Triggers of dotnet-monitor on ASP.NET Core, and other \
                        tools that request its events, stop gcwatch's events, which the daemon then logs; gcwatch \
                        stops theirs when it attaches later, and when it leaves. Exclude their processes with \
                        requests.exclude";

/// Returns the access rights of this gcwatch process. Blocks, but reads only `/proc`.
pub(super) fn own(credentials: &Credentials, options: &TargetOptions) -> SelfRecord {
    let max_targets = options.max_targets;
    let missing = credentials.missing();
    let names = |wanted: bool| {
        let missing = missing.as_ref()?;
        let chosen = Capability::ALL
            .into_iter()
            .filter(|capability| missing.contains(capability) != wanted);
        Some(chosen.map(Capability::name).collect::<Vec<_>>())
    };
    let host_pids = std::fs::read_link("/proc/self/ns/pid")
        .ok()
        .map(|link| link == Path::new(HOST_PID_NAMESPACE));
    let hidden = read("/proc/self/mountinfo").map(|text| hides_processes(&text));
    let label = ["/proc/self/attr/apparmor/current", "/proc/self/attr/current"]
        .into_iter()
        .find_map(read);
    let label = label
        .map(|label| shown(label.trim_matches(['\0', '\n', ' '])))
        .filter(|label| !label.is_empty());
    let mut problems = Vec::new();
    let mut remedies = Vec::new();
    if host_pids == Some(false) {
        problems.push("it sees only the processes of gcwatch's pid namespace".to_owned());
        remedies.push("on Kubernetes set hostPID (a sidecar does not need it)".to_owned());
    }
    if hidden == Some(true) {
        problems.push("/proc is mounted with hidepid: processes of other users may be hidden".to_owned());
        remedies.push("grant CAP_SYS_PTRACE, or add it to the group of hidepid's gid= option".to_owned());
    }
    let lacking = missing.as_ref().is_some_and(|missing| !missing.is_empty());
    if lacking {
        let users = credentials
            .uid
            .map_or_else(|| "its own user".to_owned(), |uid| format!("uid {uid}"));
        problems.push(format!("it can attach only to processes of {users} and its group"));
        remedies.push(format!("to reach all: {}", credentials.remedy(None)));
    } else if credentials.initial_user_namespace == Some(false) {
        problems.push("its capabilities only apply in its own user namespace".to_owned());
        remedies.push(credentials.remedy(None));
    }
    let descriptors = Descriptors::for_targets(max_targets);
    if let Some((problem, remedy)) = descriptors.problem(max_targets) {
        problems.push(problem);
        remedies.push(remedy);
    }
    let text = |parts: Vec<String>| (!parts.is_empty()).then(|| parts.join("; "));
    SelfRecord {
        version: env!("GCWATCH_VERSION"),
        pid: std::process::id(),
        uid: credentials.uid,
        gid: credentials.gid,
        capabilities: names(true),
        missing_capabilities: names(false),
        host_pid_namespace: host_pids,
        host_user_namespace: credentials.initial_user_namespace,
        processes_hidden: hidden,
        seccomp: credentials.seccomp.map(|mode| match mode {
            0 => "none",
            1 => "strict",
            _ => "filter",
        }),
        no_new_privileges: credentials.no_new_privileges,
        security_label: label,
        file_descriptors_needed: descriptors.needed,
        file_descriptors_allowed: descriptors.allowed,
        requests: options.requests.enabled.then(|| REQUESTS.to_owned()),
        ok: problems.is_empty(),
        detail: text(problems),
        remedy: text(remedies),
    }
}

fn read(path: &str) -> Option<String> {
    let mut text = String::new();
    let file = std::fs::File::open(path).ok()?;
    std::io::Read::read_to_string(&mut std::io::Read::take(file, MAX_OWN_BYTES as u64), &mut text).ok()?;
    Some(text)
}

/// Returns whether `/proc` hides other users' processes, according to the text of `mountinfo`: the mount of `/proc` has
/// the option `hidepid` with a value other than 0 and off.
fn hides_processes(mountinfo: &str) -> bool {
    let mut of_proc = mountinfo.lines().filter(|line| line.split(' ').nth(4) == Some("/proc"));
    let hides = |option: &str| {
        let value = option.strip_prefix("hidepid=");
        value.is_some_and(|value| !matches!(value, "0" | "off"))
    };
    of_proc
        .next_back()
        .is_some_and(|line| line.split([' ', ',']).any(hides))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: mount tables have `hidepid` in both of its spellings, on another mount, and not at all.
    /// Guarantee: hidden processes are detected only on `/proc`.
    #[test]
    fn hidden_processes_are_detected() {
        let mount = |options: &str| format!("22 28 0:21 / /proc rw,nosuid - proc proc rw{options}\n");
        assert!(!hides_processes(&mount("")) && !hides_processes(&mount(",hidepid=0")));
        assert!(hides_processes(&mount(",gid=9,hidepid=2")) && hides_processes(&mount(",hidepid=invisible")));
        let other = mount(",hidepid=2").replace(" /proc ", " /host/proc ");
        assert!(!hides_processes(&other));
    }
}
