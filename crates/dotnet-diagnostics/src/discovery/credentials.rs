//! The rights of this process, and those that it lacks.

use std::fmt;

/// The rights of this process, from `/proc/self/status` and `/proc/self/uid_map`. `None`: the kernel does not say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Credentials {
    /// Effective user id.
    pub uid: Option<u32>,
    /// Effective group id.
    pub gid: Option<u32>,
    /// Capabilities in effect now.
    pub effective: Option<Capabilities>,
    /// The most capabilities that it can ever get.
    pub bounding: Option<Capabilities>,
    /// Whether programs that it executes never get more rights.
    pub no_new_privileges: Option<bool>,
    /// 0 no seccomp, 1 strict, 2 a filter.
    pub seccomp: Option<u8>,
    /// Whether it is in the host's own user namespace: only there its capabilities count for all processes.
    pub initial_user_namespace: Option<bool>,
}

/// A set of capabilities, as the kernel writes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities(
    /// A bit for each capability's number.
    pub u64,
);

/// A capability that is needed to reach other users' processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capability {
    /// To write to sockets (which connecting is) and to open files that are another user's.
    DacOverride,
    /// To read `environ`, `maps`, `exe` and `root` of another user's process.
    SysPtrace,
}

impl Capability {
    /// All that reaching the processes of all users takes.
    pub const ALL: [Self; 2] = [Self::SysPtrace, Self::DacOverride];

    /// Its number in `linux/capability.h`.
    const fn bit(self) -> u32 {
        match self {
            Self::DacOverride => 1,
            Self::SysPtrace => 19,
        }
    }

    /// Its name, as Kubernetes writes it: without `CAP_`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::DacOverride => "DAC_OVERRIDE",
            Self::SysPtrace => "SYS_PTRACE",
        }
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CAP_{}", self.name())
    }
}

impl Capabilities {
    /// Whether the set holds this capability.
    pub const fn has(self, capability: Capability) -> bool {
        self.0 & (1 << capability.bit()) != 0
    }
}

impl Credentials {
    /// Reads the texts of `/proc/self/status` and `/proc/self/uid_map`.
    pub fn parse(status: &[u8], uid_map: Option<&[u8]>) -> Self {
        let status = String::from_utf8_lossy(status);
        let field = |name: &str| {
            let line = status
                .lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            line.map(str::trim)
        };
        let effective_id = |name| field(name)?.split_ascii_whitespace().nth(1)?.parse().ok();
        let set = |name| u64::from_str_radix(field(name)?, 16).ok().map(Capabilities);
        let map = uid_map.map(String::from_utf8_lossy);
        Self {
            uid: effective_id("Uid"),
            gid: effective_id("Gid"),
            effective: set("CapEff"),
            bounding: set("CapBnd"),
            no_new_privileges: field("NoNewPrivs").map(|value| value != "0"),
            seccomp: field("Seccomp").and_then(|value| value.parse().ok()),
            initial_user_namespace: map.map(|map| map.split_ascii_whitespace().eq(["0", "0", "4294967295"])),
        }
    }

    /// The capabilities that reaching other users' processes takes and that are missing. `None`: the kernel does not
    /// say what we have.
    pub fn missing(&self) -> Option<Vec<Capability>> {
        let effective = self.effective?;
        Some(
            Capability::ALL
                .into_iter()
                .filter(|needed| !effective.has(*needed))
                .collect(),
        )
    }

    /// What to do so that a process of this user (`None`: not known) can be reached, to which these rights were not
    /// enough.
    pub fn remedy(&self, owner: Option<u32>) -> String {
        let owner_is = owner.map_or_else(
            || "its user and group".to_owned(),
            |uid| format!("uid {uid} and its group"),
        );
        let Some(missing) = self.missing() else {
            return format!("run as {owner_is}, or with sudo, as root with CAP_SYS_PTRACE and CAP_DAC_OVERRIDE");
        };
        if missing.is_empty() {
            if self.initial_user_namespace == Some(false) {
                return "this program is in a user namespace, and its capabilities do not count outside: run it in the \
                        host's (Kubernetes: hostUsers not false; no rootless container)"
                    .to_owned();
            }
            return "this program has the capabilities: most likely a security module refuses (see its log: AppArmor, \
                    SELinux); on Kubernetes give it appArmorProfile type Unconfined, or seLinuxOptions type spc_t"
                .to_owned();
        }
        let names: Vec<String> = missing.iter().map(Capability::to_string).collect();
        let kubernetes: Vec<&str> = missing.iter().map(|capability| capability.name()).collect();
        let them = if missing.len() == 1 { "it" } else { "them" };
        let (names, kubernetes) = (names.join(" and "), kubernetes.join(", "));
        let in_bounds = |capability: &Capability| self.bounding.is_some_and(|bounding| bounding.has(*capability));
        if self.uid != Some(0) && missing.iter().all(in_bounds) {
            return format!(
                "run it with sudo, or as {owner_is}: it is not root and lacks {names} (Kubernetes: runAsUser 0; systemd: \
                 AmbientCapabilities=)"
            );
        }
        format!(
            "this program lacks {names}: add {them} (Kubernetes: runAsUser 0 and capabilities.add [{kubernetes}]; \
             systemd: AmbientCapabilities=), or run it as {owner_is}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn credentials(uid: u32, effective: &str, bounding: &str, map: &str) -> Credentials {
        let status = format!(
            "Name:\tg\nUid:\t9\t{uid}\t9\t9\nGid:\t9\t7\t9\t9\nCapEff:\t{effective}\nCapBnd:\t{bounding}\nNoNewPrivs:\t1\nSeccomp:\t2\n"
        );
        Credentials::parse(status.as_bytes(), Some(map.as_bytes()))
    }

    const HOST: &str = "         0          0 4294967295\n";

    /// Scenario: status and map of a host's root, of a container's user, of a user namespace, and an old kernel's.
    /// Guarantee: the effective ids and sets are read; what is not there is unknown.
    #[test]
    fn credentials_are_read() {
        let own = credentials(0, "0000000000080002", "00000000a80425fb", HOST);
        assert_eq!((own.uid, own.gid, own.seccomp), (Some(0), Some(7), Some(2)));
        assert_eq!(
            (own.no_new_privileges, own.initial_user_namespace),
            (Some(true), Some(true))
        );
        assert_eq!(own.missing(), Some(Vec::new()));
        assert_eq!(
            credentials(0, "0", "0", "0 100000 65536\n").initial_user_namespace,
            Some(false)
        );
        assert_eq!(Credentials::parse(b"Name:\tx\n", None), Credentials::default());
        assert_eq!(Credentials::default().missing(), None);
    }

    /// Scenario: the rows of the measured matrix: nothing, one of the two, both; a user that only has them in bounds; a
    /// user namespace.
    /// Guarantee: the remedy names exactly what is missing, or that capabilities are not what is.
    #[test]
    fn the_remedy_names_what_is_missing() {
        let remedy = |own: Credentials| own.remedy(Some(12345));
        let none = remedy(credentials(0, "0", "0", HOST));
        assert!(
            none.contains("lacks CAP_SYS_PTRACE and CAP_DAC_OVERRIDE") && none.contains("12345"),
            "{none}"
        );
        let ptrace = remedy(credentials(0, "80000", "80000", HOST));
        assert!(
            ptrace.contains("lacks CAP_DAC_OVERRIDE:") && ptrace.contains("[DAC_OVERRIDE]"),
            "{ptrace}"
        );
        let dac = remedy(credentials(0, "2", "2", HOST));
        assert!(dac.contains("lacks CAP_SYS_PTRACE:"), "{dac}");
        let user = remedy(credentials(65532, "0", "80002", HOST));
        assert!(user.contains("runAsUser 0") && user.contains("not root"), "{user}");
        assert!(remedy(credentials(0, "80002", "80002", HOST)).contains("AppArmor"));
        assert!(remedy(credentials(0, "80002", "80002", "0 1000 1\n")).contains("user namespace"));
        assert!(remedy(Credentials::default()).contains("as root with"));
    }
}
