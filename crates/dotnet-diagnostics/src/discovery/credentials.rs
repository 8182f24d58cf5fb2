//! The permissions of this process, and missing permissions.

use std::fmt;

/// The permissions of this process, from `/proc/self/status` and `/proc/self/uid_map`. Values are `None` if the kernel
/// does not report them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Credentials {
    /// Effective user id.
    pub uid: Option<u32>,
    /// Effective group id.
    pub gid: Option<u32>,
    /// Effective capabilities.
    pub effective: Option<Capabilities>,
    /// Maximum set of capabilities that the process can acquire.
    pub bounding: Option<Capabilities>,
    /// Whether programs that the process executes cannot gain privileges.
    pub no_new_privileges: Option<bool>,
    /// Seccomp mode: 0 disabled, 1 strict, 2 filter.
    pub seccomp: Option<u8>,
    /// Whether the process is in the host's initial user namespace. Only there, its capabilities apply to all
    /// processes.
    pub initial_user_namespace: Option<bool>,
}

/// A set of capabilities in the format of the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities(
    /// One bit for the number of each capability.
    pub u64,
);

/// A capability that is required to access processes of other users.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capability {
    /// Write to sockets (required to connect) and open files of other users.
    DacOverride,
    /// Read `environ`, `maps`, `exe` and `root` of processes of other users.
    SysPtrace,
}

impl Capability {
    /// The capabilities that are required to access the processes of all users.
    pub const ALL: [Self; 2] = [Self::SysPtrace, Self::DacOverride];

    /// Returns the number in `linux/capability.h`.
    const fn bit(self) -> u32 {
        match self {
            Self::DacOverride => 1,
            Self::SysPtrace => 19,
        }
    }

    /// Returns the name without `CAP_`, as in Kubernetes.
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
    /// Returns whether the set contains this capability.
    pub const fn has(self, capability: Capability) -> bool {
        self.0 & (1 << capability.bit()) != 0
    }
}

impl Credentials {
    /// Parses the contents of `/proc/self/status` and `/proc/self/uid_map`.
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

    /// Returns the capabilities that are required to access processes of other users and that are missing, or `None` if
    /// the kernel does not report the effective capabilities.
    pub fn missing(&self) -> Option<Vec<Capability>> {
        let effective = self.effective?;
        Some(
            Capability::ALL
                .into_iter()
                .filter(|needed| !effective.has(*needed))
                .collect(),
        )
    }

    /// Returns the remedy if these permissions are not sufficient to access a process of the user `owner` (`None` if
    /// unknown).
    pub fn remedy(&self, owner: Option<u32>) -> String {
        let owner_is = owner.map_or_else(
            || "its user and group".to_owned(),
            |uid| format!("uid {uid} and its group"),
        );
        let Some(missing) = self.missing() else {
            return format!("run it as {owner_is}, or as root with CAP_SYS_PTRACE and CAP_DAC_OVERRIDE");
        };
        if missing.is_empty() {
            if self.initial_user_namespace == Some(false) {
                return "this program is in a user namespace, so its capabilities do not apply outside; run it in the \
                        host's user namespace (Kubernetes: hostUsers not false; no rootless container)"
                    .to_owned();
            }
            return "this program has the required capabilities; a security module probably denies access (see \
                    its log: AppArmor, SELinux); on Kubernetes, set appArmorProfile type Unconfined or seLinuxOptions type spc_t"
                .to_owned();
        }
        let names: Vec<String> = missing.iter().map(Capability::to_string).collect();
        let kubernetes: Vec<&str> = missing.iter().map(|capability| capability.name()).collect();
        let them = if missing.len() == 1 { "it" } else { "them" };
        let (names, kubernetes) = (names.join(" and "), kubernetes.join(", "));
        let in_bounds = |capability: &Capability| self.bounding.is_some_and(|bounding| bounding.has(*capability));
        if self.uid != Some(0) && missing.iter().all(in_bounds) {
            return format!(
                "run it with sudo, or as {owner_is}: this program is not root and lacks {names} (Kubernetes: runAsUser 0; \
                 systemd: AmbientCapabilities=)"
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

    /// Scenario: status and map are of the host's root user, of a container user, of a user namespace, and of an old
    /// kernel.
    /// Guarantee: the effective ids and sets are parsed, and missing values are unknown.
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

    /// Scenario: the process has the capabilities of the measured matrix: none, each of the two, both, both only in its
    /// bounding set, and both in a user namespace.
    /// Guarantee: the remedy names exactly the missing capabilities, or another cause if no capability is missing.
    #[test]
    fn remedy_names_missing_capabilities() {
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
