//! Control groups of version 1 for processes of a test, named like the groups of a container.

use std::fmt::Display;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use crate::harness::{Missing, Need};
use crate::target::TIMEOUT;

/// Returns an error if this machine or this user cannot create control groups of version 1 for a controller.
pub fn need(controller: &'static str) -> Need {
    let missing = || {
        Missing::Ignored(format!(
            "no control groups of version 1 ({controller}) can be created here"
        ))
    };
    // Several tests can call this function at once.
    static ASKED: AtomicU32 = AtomicU32::new(0);
    let name = format!("need {}", ASKED.fetch_add(1, Ordering::Relaxed));
    Group::new(controller, &name).map(drop).ok_or_else(missing)
}

/// A control group whose name has the form of Docker's names. The group is removed when this value is dropped; its
/// processes then return to the root group.
#[derive(Debug)]
pub struct Group {
    controller: PathBuf,
    path: PathBuf,
    /// Id of the container in the group's name.
    pub id: String,
}

impl Group {
    /// Creates a group. Groups with the same name and different controllers form one container. Returns `None` if this
    /// machine or this user cannot create groups.
    pub fn new(controller: &str, name: &str) -> Option<Self> {
        let digits = name.bytes().fold(u64::from(std::process::id()), |hash, byte| {
            hash.wrapping_mul(31).wrapping_add(byte.into())
        });
        let id = format!("{digits:064x}");
        let controller = PathBuf::from("/sys/fs/cgroup").join(controller);
        let path = controller.join(format!("docker-{id}.scope"));
        std::fs::create_dir(&path).ok()?;
        let group = Self { controller, path, id };
        // A directory outside a control group file system has no file `tasks`.
        group.path.join("tasks").exists().then_some(group)
    }

    pub fn write(&self, file: &str, value: impl Display) {
        std::fs::write(self.path.join(file), value.to_string()).unwrap();
    }

    pub fn read(&self, file: &str) -> String {
        std::fs::read_to_string(self.path.join(file)).unwrap()
    }

    pub fn take(&self, pid: u32) {
        self.write("cgroup.procs", pid);
    }

    /// Runs a function with this thread in the group. Processes that the function starts are in the group from their
    /// first instruction.
    pub fn inside<T>(&self, run: impl FnOnce() -> T) -> T {
        let own = rustix::thread::gettid().as_raw_nonzero();
        self.write("tasks", own);
        let done = run();
        std::fs::write(self.controller.join("tasks"), own.to_string()).unwrap();
        done
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _thawed_if_it_can_be_frozen = std::fs::write(self.path.join("freezer.state"), "THAWED");
        // A process that has just exited can still be in the group.
        let until = Instant::now() + TIMEOUT;
        while std::fs::remove_dir(&self.path).is_err() && self.path.exists() && Instant::now() < until {
            let tasks = std::fs::read_to_string(self.path.join("tasks")).unwrap_or_default();
            for task in tasks.lines() {
                let _moved = std::fs::write(self.controller.join("tasks"), task);
            }
            std::thread::yield_now();
        }
    }
}
