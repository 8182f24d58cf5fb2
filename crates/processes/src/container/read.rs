//! The edge: reads the files of the control groups of processes.
//!
//! By gcwatch's own mounts where the group is below them (on a host), else by those of the process, in its root: from a
//! container with a control group namespace nothing else can be seen.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::fs::File;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use dotnet_diagnostics::discovery::parse_stat;
use rustix::fs::{CWD, fstat};

use super::figures::{Cpu, Figures, Memory};
use super::group::{MAX_FILE_BYTES, file, folder, group_folder, open, text};
use super::identity::container_depth;
use super::kills::KillCounts;
use super::level;
use super::membership::{Membership, group_of};
use super::mount::{GroupFolder, place};

/// How deep groups are looked at.
const MAX_LEVELS: usize = 32;

/// Limit of groups whose kill counts are kept in a round.
const MAX_KILLS: usize = 4096;

/// What is read of the list of mounts at most.
const MAX_MOUNTINFO_BYTES: u64 = 4 << 20;

/// Reads the figures of many processes at about the same time.
#[derive(Debug)]
pub struct Reader {
    own_mounts: String,
    /// Processes in the same groups have the same figures.
    known: HashMap<String, Figures>,
    kills: HashMap<String, KillCounts>,
}

impl Reader {
    /// Begins a round.
    pub fn new() -> Self {
        let own_mounts = File::open("/proc/self/mountinfo").ok();
        Self {
            own_mounts: own_mounts
                .and_then(|file| text(file, MAX_MOUNTINFO_BYTES))
                .unwrap_or_default(),
            known: HashMap::new(),
            kills: HashMap::new(),
        }
    }

    /// The figures of a process; blocking. `None`: it is gone, or another one has its pid (`start_time`: field 22 of
    /// its `stat`).
    pub fn read(&mut self, pid: u32, start_time: u64) -> Option<Figures> {
        let groups = Groups::of(&self.own_mounts, pid, start_time)?;
        if let Some(known) = self.known.get(&groups.cgroup) {
            return Some(*known);
        }
        let mut figures = Figures::default();
        if let Some((membership, place, root)) = groups.group("memory") {
            if self.kills.len() < MAX_KILLS {
                self.kills.insert(groups.cgroup.clone(), KillCounts::read(&place));
            }
            (figures.memory_limit, figures.memory) = memory(&levels(&membership, &place, root.as_fd()), place.unified);
        }
        if let Some((membership, place, root)) = groups.group("cpu") {
            (figures.cpu_limit, figures.cpu) = cpu(levels(&membership, &place, root.as_fd()), place.unified);
        }
        self.known.insert(groups.cgroup, figures);
        Some(figures)
    }

    /// The kill counts of the groups of a process whose figures were just read.
    pub fn kills(&self, pid: u32) -> Option<KillCounts> {
        let file = File::open(format!("/proc/{pid}/cgroup")).ok()?;
        self.kills.get(&text(file, MAX_FILE_BYTES)?).cloned()
    }
}

/// The control groups of one process.
struct Groups<'a> {
    own_mounts: &'a str,
    process: OwnedFd,
    cgroup: String,
    their_mounts: OnceCell<String>,
}

impl<'a> Groups<'a> {
    /// `None`: the process is gone, or another one has its pid.
    fn of(own_mounts: &'a str, pid: u32, start_time: u64) -> Option<Self> {
        // What is opened below this folder is of this very process, whoever has the pid later.
        let process = folder(CWD, &format!("/proc/{pid}")).ok()?;
        if parse_stat(text(open(&process, "stat")?, MAX_FILE_BYTES)?.as_bytes())?.start_time != start_time {
            return None;
        }
        Some(Self {
            own_mounts,
            cgroup: text(open(&process, "cgroup")?, MAX_FILE_BYTES)?,
            process,
            their_mounts: OnceCell::new(),
        })
    }

    /// Its group for a controller, where that is, and below which root.
    fn group(&self, controller: &str) -> Option<(Membership<'_>, GroupFolder, OwnedFd)> {
        let membership = group_of(&self.cgroup, controller)?;
        if let Some(place) = place(self.own_mounts, &membership, controller)
            && let Ok(root) = folder(CWD, "/")
            && group_folder(root.as_fd(), &place, place.below.len()).is_some()
        {
            return Some((membership, place, root));
        }
        let read = || text(open(&self.process, "mountinfo")?, MAX_MOUNTINFO_BYTES);
        let place = place(
            self.their_mounts.get_or_init(|| read().unwrap_or_default()),
            &membership,
            controller,
        )?;
        Some((membership, place, folder(&self.process, "root").ok()?))
    }
}

/// The group whose CPU limit holds for a process, kept open: how long it was throttled can be read often.
#[derive(Debug)]
pub struct Throttling {
    folder: OwnedFd,
    unified: bool,
}

impl Throttling {
    /// `None`: there is no limit, or the process is gone; blocking.
    pub fn of(pid: u32, start_time: u64) -> Option<Self> {
        let Reader { own_mounts, .. } = Reader::new();
        let groups = Groups::of(&own_mounts, pid, start_time)?;
        let (membership, place, root) = groups.group("cpu")?;
        let (_, folder) = smallest_quota(levels(&membership, &place, root.as_fd()), place.unified)?;
        Some(Self {
            folder,
            unified: place.unified,
        })
    }

    /// For how long it was throttled so far, nanoseconds, summed over CPUs.
    pub fn read(&self) -> Option<u64> {
        level::cpu(self.unified, &|name| file(&self.folder, name)).throttled_ns
    }
}

impl Default for Reader {
    fn default() -> Self {
        Self::new()
    }
}

/// The process's group and those above it, up to the container's.
#[derive(Debug, Default)]
struct Levels {
    /// Innermost first.
    folders: Vec<OwnedFd>,
    in_container: bool,
}

fn levels(membership: &Membership<'_>, place: &GroupFolder, root: BorrowedFd<'_>) -> Levels {
    let parts = membership.path.split('/').filter(|part| !part.is_empty()).count();
    let above_mount = parts.saturating_sub(place.below.len());
    if !place.unified && membership.path == "/" {
        // The root of version 1 has files, with the figures of the whole machine; that of version 2 has none.
        return Levels::default();
    }
    let container = container_depth(membership.path);
    // The root is everybody's.
    let outermost = container.map_or(1, |depth| depth.saturating_sub(above_mount));
    let innermost = place.below.len().min(outermost.saturating_add(MAX_LEVELS));
    let depths = (outermost.min(innermost)..=innermost).rev();
    Levels {
        folders: depths.filter_map(|depth| group_folder(root, place, depth)).collect(),
        in_container: container.is_some(),
    }
}

/// The smallest limit, and the memory of the group that has it; of equals the outermost, to which all count.
fn memory(levels: &Levels, unified: bool) -> (Option<u64>, Memory) {
    let limits = levels.folders.iter().filter_map(|folder| {
        let limit = level::memory_limit(unified, &|name| file(folder, name))?;
        Some((limit, folder))
    });
    let smallest = limits.reduce(|inner, outer| if outer.0 <= inner.0 { outer } else { inner });
    let (limit, folder) = match smallest {
        Some((limit, folder)) => (Some(limit), Some(folder)),
        None if levels.in_container => (None, levels.folders.last()),
        None => (None, levels.folders.first()),
    };
    let memory = folder.map(|folder| {
        let mut memory = level::memory(unified, &|name| file(folder, name));
        if !has_groups(folder) {
            memory.processes = level::processes(&|name| file(folder, name));
        }
        memory
    });
    (limit, memory.unwrap_or_default())
}

/// Whether there are groups below a group, or that is not known.
fn has_groups(folder: &OwnedFd) -> bool {
    // A folder's own name, that in the folder above, and the second name that each folder below it has.
    !fstat(folder).is_ok_and(|stat| stat.st_nlink <= 2)
}

/// The smallest quota, and how the group was throttled that has it.
fn cpu(levels: Levels, unified: bool) -> (Option<f64>, Cpu) {
    let Some((limit, folder)) = smallest_quota(levels, unified) else {
        return (None, Cpu::default());
    };
    (Some(limit), level::cpu(unified, &|name| file(&folder, name)))
}

/// The smallest quota, and the group that has it.
fn smallest_quota(levels: Levels, unified: bool) -> Option<(f64, OwnedFd)> {
    let limits = levels.folders.into_iter().filter_map(|folder| {
        let limit = level::cpu_limit(unified, &|name| file(&folder, name))?;
        Some((limit, folder))
    });
    limits.min_by(|(one, _), (other, _)| one.total_cmp(other))
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};
    use std::process::{Child, Command, Stdio};

    use super::*;

    /// A group of version 1 of this machine, removed at the end.
    struct Group(Vec<PathBuf>);

    impl Group {
        /// `None`: this machine or this user cannot make one.
        fn new(controller: &str, parts: &[&str]) -> Option<Self> {
            let mut made = Vec::new();
            let mut path = PathBuf::from("/sys/fs/cgroup").join(controller);
            for part in parts {
                path = path.join(part);
                std::fs::create_dir(&path).ok()?;
                made.push(path.clone());
            }
            Some(Self(made))
        }

        fn set(&self, depth: usize, file: &str, value: &str) -> bool {
            std::fs::write(self.0[depth].join(file), value).is_ok()
        }
    }

    impl Drop for Group {
        fn drop(&mut self) {
            for path in self.0.iter().rev() {
                let _gone = std::fs::remove_dir(path);
            }
        }
    }

    struct Sleeper(Child);

    impl Sleeper {
        fn new() -> Self {
            let sleep = Command::new("sleep").arg("60").stdin(Stdio::null()).spawn();
            Self(sleep.unwrap())
        }

        fn start_time(&self) -> u64 {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.0.id())).unwrap();
            parse_stat(stat.as_bytes()).unwrap().start_time
        }
    }

    impl Drop for Sleeper {
        fn drop(&mut self) {
            let _killed = self.0.kill();
            let _ended = self.0.wait();
        }
    }

    /// Scenario: a process in a group of its own below one that is named as Docker's is, with limits on both; needs
    /// root and version 1.
    /// Guarantee: the smallest limit within the container holds, usage is of the group that has it, and another run
    /// with the pid is none.
    #[test]
    fn a_group_of_this_machine_is_read() {
        let id = format!("{:064x}", std::process::id());
        let parts = ["docker", &*id, "inner"];
        let made = (Group::new("memory", &parts), Group::new("cpu", &parts));
        let (Some(memory), Some(cpu)) = made else {
            eprintln!("skipped: no control groups of version 1 can be made here");
            return;
        };
        // Outside of the container: it does not count.
        assert!(memory.set(0, "memory.limit_in_bytes", "67108864"));
        assert!(memory.set(1, "memory.limit_in_bytes", "134217728"));
        let _may_be_off = cpu.set(1, "cpu.cfs_period_us", "100000");
        let quota = cpu.set(1, "cpu.cfs_quota_us", "50000");
        let sleeper = Sleeper::new();
        let pid = sleeper.0.id().to_string();
        assert!(memory.set(2, "cgroup.procs", &pid) && cpu.set(2, "cgroup.procs", &pid));

        let mut reader = Reader::new();
        let figures = reader.read(sleeper.0.id(), sleeper.start_time()).unwrap();
        assert_eq!(figures.memory_limit, Some(134_217_728));
        assert!(
            figures.memory.usage.is_some_and(|usage| usage < 134_217_728),
            "{figures:?}"
        );
        assert!(figures.memory.working_set <= figures.memory.usage);
        if quota {
            assert_eq!(figures.cpu_limit, Some(0.5));
            assert!(
                figures.cpu.periods.is_some() && figures.cpu.throttled_ns.is_some(),
                "{figures:?}"
            );
        }
        assert_eq!(reader.read(sleeper.0.id(), sleeper.start_time() + 1), None);
        drop(sleeper);
        drop((memory, cpu));
        assert!(!Path::new("/sys/fs/cgroup/memory/docker").join(id).exists());
    }

    /// Scenario: folders that are no control groups, files of every kind in them, links out of a root.
    /// Guarantee: nothing of them is read.
    #[test]
    fn only_control_groups_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let root = super::folder(CWD, folder.path().to_str().unwrap()).unwrap();
        std::fs::create_dir_all(folder.path().join("sys/fs/cgroup")).unwrap();
        std::fs::write(folder.path().join("sys/fs/cgroup/memory.max"), "1").unwrap();
        std::os::unix::fs::symlink("/sys/fs/cgroup", folder.path().join("out")).unwrap();
        for mount in [
            "/sys/fs/cgroup",
            "/out",
            "/nowhere",
            "/../../../../sys/fs/cgroup/memory",
        ] {
            let place = GroupFolder {
                mount: mount.to_owned(),
                below: Vec::new(),
                unified: true,
            };
            assert!(group_folder(root.as_fd(), &place, 0).is_none(), "{mount}");
        }
        let plain = super::folder(&root, "sys/fs/cgroup").unwrap();
        std::os::unix::fs::symlink("memory.max", folder.path().join("sys/fs/cgroup/link")).unwrap();
        assert_eq!(file(&plain, "link"), None);
        assert_eq!(file(&plain, "../cgroup/memory.max"), None);
    }
}
