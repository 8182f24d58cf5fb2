//! I/O: reads the files of the control groups of processes.
//!
//! Groups below gcwatch's own mounts are read there (on a host). Other groups are read through the mounts of the
//! process, in its root; from a container with a control group namespace, no other groups are visible.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::fs::File;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use dotnet_diagnostics::discovery::parse_stat;
use rustix::fs::{CWD, fstat};

use super::figures::{Cpu, Figures, Memory, OtherProcesses};
use super::group::{MAX_FILE_BYTES, file, folder, group_folder, open, text};
use super::identity::container_depth;
use super::kills::KillCounts;
use super::level;
use super::membership::{Membership, group_of};
use super::mount::{GroupFolder, place};
use super::others::Members;

/// Maximum number of levels of groups that are read.
const MAX_LEVELS: usize = 32;

/// Maximum number of groups whose kill counts are kept per round.
const MAX_KILLS: usize = 4096;

/// Maximum number of bytes read from the list of mounts.
const MAX_MOUNTINFO_BYTES: u64 = 4 << 20;

/// Maximum number of processes of a group that are read with [`ProcessScan::Full`]: about 10 ms.
const MAX_PROCESSES: usize = 256;

/// Maximum number of processes of a group that are read with [`ProcessScan::Small`].
const MAX_SMALL_PROCESSES: usize = 16;

/// Extent of the scan for the memory of the other processes in a container.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ProcessScan {
    /// No process is read. The memory of the other processes is unknown if a container has others.
    #[default]
    Skipped,
    /// Containers with at most 16 processes are read: for rounds that are one second apart.
    Small,
    /// The first 256 processes of the first 64 groups of each container are read.
    Full,
}

impl ProcessScan {
    fn max_processes(self) -> usize {
        match self {
            Self::Skipped => 0,
            Self::Small => MAX_SMALL_PROCESSES,
            Self::Full => MAX_PROCESSES,
        }
    }
}

/// A reader for the figures of many processes at about the same time.
#[derive(Debug)]
pub struct Reader {
    own_mounts: String,
    others: ProcessScan,
    /// Figures of the groups read so far; processes in the same groups share them.
    known: HashMap<String, GroupFigures>,
    /// Processes of a group, by its device and inode. Several groups of a container can share one limit above them.
    members: HashMap<GroupId, Members>,
    kills: HashMap<String, KillCounts>,
    /// Reclaimable share of the host's kernel memory.
    kernel_share: OnceCell<Option<f64>>,
}

/// Device and inode of a group's folder.
type GroupId = (u64, u64);

/// Figures of the processes in the same groups.
#[derive(Debug, Clone, Copy)]
struct GroupFigures {
    figures: Figures,
    /// Group that contains the other processes; `None` if these processes are not read.
    group: Option<GroupId>,
}

impl Reader {
    /// Creates a reader for a round that does not read other processes.
    pub fn new() -> Self {
        Self::with(ProcessScan::Skipped)
    }

    /// Creates a reader for a round that reads other processes to this extent.
    pub fn with(others: ProcessScan) -> Self {
        let own_mounts = File::open("/proc/self/mountinfo").ok();
        Self {
            own_mounts: own_mounts
                .and_then(|file| text(file, MAX_MOUNTINFO_BYTES))
                .unwrap_or_default(),
            others,
            known: HashMap::new(),
            members: HashMap::new(),
            kills: HashMap::new(),
            kernel_share: OnceCell::new(),
        }
    }

    /// Returns the figures of a process, or `None` if the process has exited or another process has its pid.
    /// `start_time` is field 22 of its `stat`. Blocks the calling thread.
    pub fn read(&mut self, pid: u32, start_time: u64) -> Option<Figures> {
        let groups = Groups::read(&self.own_mounts, pid, start_time)?;
        if let Some(known) = self.known.get(&groups.cgroup) {
            return Some(known.for_process(pid, &self.members));
        }
        let mut figures = Figures::default();
        let mut group = None;
        if let Some((membership, place, root)) = groups.group("memory") {
            if self.kills.len() < MAX_KILLS {
                self.kills.insert(groups.cgroup.clone(), KillCounts::read(&place));
            }
            let levels = levels(&membership, &place, root.as_fd());
            let folder;
            (figures.memory_limit, figures.memory, folder) = memory(&levels, place.unified);
            if !place.unified {
                let share = self.kernel_share.get_or_init(|| reclaimable_share(&meminfo()?));
                figures.memory.estimate_kernel(*share);
            }
            // In other groups, the processes do not share a limit with this process.
            let counts = levels.in_container || figures.memory_limit.is_some();
            let has_others = figures.memory.processes != Some(1);
            group = folder.filter(|_| counts && has_others).and_then(|folder| {
                let max = Some(self.others.max_processes()).filter(|max| *max > 0)?;
                let id = group_id(folder)?;
                self.members.entry(id).or_insert_with(|| Members::read(folder, max));
                Some(id)
            });
        }
        if let Some((membership, place, root)) = groups.group("cpu") {
            (figures.cpu_limit, figures.cpu) = cpu(levels(&membership, &place, root.as_fd()), place.unified);
        }
        if self.others == ProcessScan::Small {
            // A partial scan of many processes would report less than an earlier round.
            group = group.filter(|group| self.members.get(group).is_some_and(|members| !members.is_cut()));
        }
        let known = GroupFigures { figures, group };
        self.known.insert(groups.cgroup, known);
        Some(known.for_process(pid, &self.members))
    }

    /// Returns the kill counts of the groups of a process whose figures were just read, or `None` if the process has
    /// exited or its groups are not visible.
    pub fn kills(&self, pid: u32) -> Option<KillCounts> {
        let file = File::open(format!("/proc/{pid}/cgroup")).ok()?;
        self.kills.get(&text(file, MAX_FILE_BYTES)?).cloned()
    }
}

impl GroupFigures {
    /// Returns the figures, with all processes of the group except `pid` as the other processes.
    fn for_process(&self, pid: u32, members: &HashMap<GroupId, Members>) -> Figures {
        let others = match self.group.and_then(|group| members.get(&group)) {
            Some(members) => members.others(pid),
            None => OtherProcesses {
                bytes: (self.figures.memory.processes == Some(1)).then_some(0),
                ..OtherProcesses::default()
            },
        };
        Figures { others, ..self.figures }
    }
}

/// Control groups of one process.
struct Groups<'a> {
    own_mounts: &'a str,
    process: OwnedFd,
    cgroup: String,
    their_mounts: OnceCell<String>,
}

impl<'a> Groups<'a> {
    /// Reads the groups of a process. Returns `None` if the process has exited or another process has its pid.
    fn read(own_mounts: &'a str, pid: u32, start_time: u64) -> Option<Self> {
        // Files opened below this folder belong to this process, even if its pid is reused.
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

    /// Returns the group of the process for a controller, its location, and the root for this location. Returns `None`
    /// if the group is not mounted anywhere.
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

/// The group whose CPU limit applies to a process. The group is kept open, so that its throttled time can be read
/// often.
#[derive(Debug)]
pub struct Throttling {
    folder: OwnedFd,
    unified: bool,
}

impl Throttling {
    /// Opens the group, or returns `None` if there is no limit or the process has exited. Blocks the calling thread.
    pub fn open(pid: u32, start_time: u64) -> Option<Self> {
        let Reader { own_mounts, .. } = Reader::new();
        let groups = Groups::read(&own_mounts, pid, start_time)?;
        let (membership, place, root) = groups.group("cpu")?;
        let (_, folder) = smallest_quota(levels(&membership, &place, root.as_fd()), place.unified)?;
        Some(Self {
            folder,
            unified: place.unified,
        })
    }

    /// Returns the throttled time so far, in nanoseconds, summed over CPUs, or `None` if the group was deleted.
    pub fn read(&self) -> Option<u64> {
        level::cpu(self.unified, &|name| file(&self.folder, name)).throttled_ns
    }
}

impl Default for Reader {
    fn default() -> Self {
        Self::new()
    }
}

/// The group of a process and the groups above it, up to the group of the container.
#[derive(Debug, Default)]
struct Levels {
    /// Folders of the groups, innermost first.
    folders: Vec<OwnedFd>,
    in_container: bool,
}

fn levels(membership: &Membership<'_>, place: &GroupFolder, root: BorrowedFd<'_>) -> Levels {
    let parts = membership.path.split('/').filter(|part| !part.is_empty()).count();
    let above_mount = parts.saturating_sub(place.below.len());
    if !place.unified && membership.path == "/" {
        // The root of version 1 has files with the figures of the whole machine; the root of version 2 has no such
        // files.
        return Levels::default();
    }
    let container = container_depth(membership.path);
    // The root is shared by all processes.
    let outermost = container.map_or(1, |depth| depth.saturating_sub(above_mount));
    let innermost = place.below.len().min(outermost.saturating_add(MAX_LEVELS));
    let depths = (outermost.min(innermost)..=innermost).rev();
    Levels {
        folders: depths.filter_map(|depth| group_folder(root, place, depth)).collect(),
        in_container: container.is_some(),
    }
}

/// Returns the smallest limit, the memory of the group with this limit, and the group itself. If several groups have
/// the smallest limit, the outermost group counts, which includes the others. Without a limit, the group of the
/// container counts, or the group of the process outside containers.
fn memory(levels: &Levels, unified: bool) -> (Option<u64>, Memory, Option<&OwnedFd>) {
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
    (limit, memory.unwrap_or_default(), folder)
}

fn group_id(folder: &OwnedFd) -> Option<GroupId> {
    let stat = fstat(folder).ok()?;
    Some((stat.st_dev, stat.st_ino))
}

fn meminfo() -> Option<String> {
    text(File::open("/proc/meminfo").ok()?, MAX_FILE_BYTES)
}

/// Returns the share of the host's kernel memory that is reclaimable, from the text of `/proc/meminfo`, or `None` if a
/// figure is missing. Kernel memory that is not charged to groups (`vmalloc`, per-CPU memory) is excluded.
fn reclaimable_share(meminfo: &str) -> Option<f64> {
    let kib = |key: &str| {
        let line = meminfo
            .lines()
            .find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
        line.split_ascii_whitespace().next()?.parse::<u64>().ok()
    };
    let (slab, reclaimable) = (kib("Slab")?, kib("SReclaimable")?);
    let others = kib("KernelStack")?.saturating_add(kib("PageTables")?);
    let all = slab.saturating_add(others);
    (all > 0).then(|| (reclaimable as f64 / all as f64).min(1.0))
}

/// Returns whether there are groups below a group; `true` if unknown.
fn has_groups(folder: &OwnedFd) -> bool {
    // A folder has two links (its name and `.`), plus one for each folder below it.
    !fstat(folder).is_ok_and(|stat| stat.st_nlink <= 2)
}

/// Returns the smallest quota, and the throttling of the group with that quota.
fn cpu(levels: Levels, unified: bool) -> (Option<f64>, Cpu) {
    let Some((limit, folder)) = smallest_quota(levels, unified) else {
        return (None, Cpu::default());
    };
    (Some(limit), level::cpu(unified, &|name| file(&folder, name)))
}

/// Returns the smallest quota and its group, or `None` if no group has a quota.
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

    /// A group of version 1 on this machine, which is removed at the end.
    struct Group(Vec<PathBuf>);

    impl Group {
        /// Creates a group, or returns `None` if this machine or user cannot create one.
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
            let sleeper = Self(sleep.unwrap());
            // Until the program runs, the process has the name of this thread.
            let comm = format!("/proc/{}/comm", sleeper.0.id());
            while std::fs::read_to_string(&comm).is_ok_and(|name| name != "sleep\n") {
                std::thread::yield_now();
            }
            sleeper
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

    /// Scenario: a process is in a group below a group that is named like a container of Docker, with limits on both;
    /// needs root and version 1.
    /// Guarantee: the smallest limit within the container applies, the usage of the group with this limit is returned,
    /// and another run with the same pid is not read.
    #[test]
    fn control_group_of_this_machine_is_read() {
        let id = format!("{:064x}", std::process::id());
        let parts = ["docker", &*id, "inner"];
        let made = (Group::new("memory", &parts), Group::new("cpu", &parts));
        let (Some(memory), Some(cpu)) = made else {
            eprintln!("skipped: this machine cannot create control groups of version 1");
            return;
        };
        // This group is outside the container, so its limit does not apply.
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

    /// Scenario: a process is only in a CPU group of version 1, which is named like a container of Docker and has a
    /// quota; needs root and version 1.
    /// Guarantee: the quota and its counters are read, no memory of another group is reported, and throttling is read.
    #[test]
    fn cpu_group_is_enough() {
        let name = format!("docker-{:064x}.scope", u64::from(std::process::id()) << 8);
        let Some(cpu) = Group::new("cpu", &[&*name]) else {
            eprintln!("skipped: this machine cannot create control groups of version 1");
            return;
        };
        let sleeper = Sleeper::new();
        let pid = sleeper.0.id().to_string();
        let root = std::fs::write("/sys/fs/cgroup/memory/cgroup.procs", &pid);
        if root.is_err() || !cpu.set(0, "cpu.cfs_quota_us", "50000") || !cpu.set(0, "cgroup.procs", &pid) {
            eprintln!("skipped: this machine has no CPU quota, or its memory groups are read-only");
            return;
        }
        let figures = Reader::with(ProcessScan::Full).read(sleeper.0.id(), sleeper.start_time());
        let figures = figures.unwrap();
        assert_eq!(figures.cpu_limit, Some(0.5));
        assert!(figures.cpu.throttled_ns.is_some(), "{figures:?}");
        assert_eq!((figures.memory_limit, figures.memory), (None, Memory::default()));
        assert_eq!(figures.others, OtherProcesses::default());
        let throttling = Throttling::open(sleeper.0.id(), sleeper.start_time()).unwrap();
        assert!(throttling.read().is_some());
        drop(sleeper);
        drop(cpu);
    }

    /// Scenario: a memory group of version 1 has two processes, one of them in a group below, and an 8 MiB file in
    /// memory that one of them wrote; needs root and version 1.
    /// Guarantee: the file counts as a file in memory and as held. Each process has the other process as the largest
    /// other process, with both extents of the scan.
    #[test]
    fn files_in_memory_and_others_are_read() {
        let name = format!("docker-{:064x}.scope", (u64::from(std::process::id()) << 8) + 1);
        let parts = [&*name, "inner"];
        let folder = tempfile::tempdir_in("/dev/shm");
        let (Some(group), Ok(folder)) = (Group::new("memory", &parts), folder) else {
            eprintln!("skipped: this machine cannot create control groups of version 1, or has no /dev/shm");
            return;
        };
        assert!(group.set(0, "memory.limit_in_bytes", "134217728"));
        let write = format!(
            "echo $$ > {}; head -c 8388608 /dev/zero > {}",
            group.0[0].join("cgroup.procs").display(),
            folder.path().join("file").display()
        );
        let written = Command::new("sh").args(["-c", &write]).status().unwrap();
        assert!(written.success());
        let sleepers = [Sleeper::new(), Sleeper::new()];
        assert!(group.set(0, "cgroup.procs", &sleepers[0].0.id().to_string()));
        assert!(group.set(1, "cgroup.procs", &sleepers[1].0.id().to_string()));
        for others in [ProcessScan::Full, ProcessScan::Small] {
            let mut reader = Reader::with(others);
            for sleeper in &sleepers {
                let figures = reader.read(sleeper.0.id(), sleeper.start_time()).unwrap();
                let Memory { usage, held, shmem, .. } = figures.memory;
                assert!(shmem.is_some_and(|bytes| bytes >= 8 << 20), "{figures:?}");
                assert!(held >= shmem && held <= usage, "{figures:?}");
                assert!(figures.memory.kernel_is_estimated, "{figures:?}");
                assert!(
                    figures.memory.kernel_reclaimable <= figures.memory.kernel,
                    "{figures:?}"
                );
                let OtherProcesses {
                    bytes,
                    largest,
                    largest_bytes,
                } = figures.others;
                assert_eq!(largest.unwrap().as_str(), "sleep");
                assert!(
                    bytes.is_some_and(|bytes| bytes > 0) && bytes == largest_bytes,
                    "{figures:?}"
                );
            }
            assert_eq!(reader.members.len(), 1);
        }
        drop((sleepers, folder));
        drop(group);
    }

    /// Scenario: `meminfo` is from a host, from a kernel without the figures, or has inconsistent figures.
    /// Guarantee: the share is between 0 and 1 or unknown, and an estimate never exceeds the kernel memory.
    #[test]
    fn share_of_host_divides_kernel_memory() {
        let host = "MemTotal: 9 kB\nSlab: 300 kB\nSReclaimable:   200 kB\nKernelStack: 60 kB\nPageTables: 40 kB\n";
        assert_eq!(reclaimable_share(host), Some(0.5));
        assert_eq!(reclaimable_share(&host.replace("200", "2000")), Some(1.0));
        assert_eq!(reclaimable_share("Slab: 3 kB\n"), None);
        assert_eq!(
            reclaimable_share("Slab: 0 kB\nSReclaimable: 0 kB\nKernelStack: 0 kB\nPageTables: 0 kB\n"),
            None
        );
        let estimated = |kernel, share| {
            let mut memory = Memory {
                kernel,
                ..Memory::default()
            };
            memory.estimate_kernel(share);
            (memory.kernel_reclaimable, memory.kernel_is_estimated)
        };
        assert_eq!(estimated(Some(1000), Some(0.5)), (Some(500), true));
        assert_eq!(estimated(Some(u64::MAX), Some(1.0)), (Some(u64::MAX), true));
        assert_eq!(estimated(Some(1000), None), (None, false));
        assert_eq!(estimated(None, Some(0.5)), (None, false));
    }

    /// Scenario: folders are not control groups, contain files of every kind, and have links out of a root.
    /// Guarantee: no file outside a control group is read.
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
