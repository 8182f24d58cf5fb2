//! The thread that asks the kernel which pids it gave out. It reads files of the kernel alone: they need no disk, and
//! none of them waits for the process that it is about.

use std::fs::File;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{self, Read as _};
use std::thread::{Builder, sleep};

use tokio::sync::mpsc::{Receiver, Sender, channel};

use super::{EVERY, Thread, ThreadMakers};

/// Where the kernel says which pid it gave out last in our pid namespace. The first one is not on every kernel
/// (`CONFIG_CHECKPOINT_RESTORE`), the second may be made up (lxcfs).
const COUNTERS: [&str; 2] = ["/proc/sys/kernel/ns_last_pid", "/proc/loadavg"];
/// What Linux has on machines of 64 bits.
const PID_MAX: u32 = 1 << 22;
const STACK_BYTES: usize = 64 << 10;
const MOST_BYTES: usize = 4096;
/// Looks that wait to be taken.
const MOST_LOOKS: usize = 4;

/// Processes that made threads, as they are found. Dropped, it ends.
#[derive(Debug)]
pub(crate) struct NewProcesses(Option<Receiver<Vec<u32>>>);

impl NewProcesses {
    /// Waits for the next ones; for ever, where the kernel does not say. Cancel safe.
    pub(crate) async fn found(&mut self) -> Vec<u32> {
        if let Some(receiver) = &mut self.0 {
            if let Some(pids) = receiver.recv().await {
                return pids;
            }
            self.0 = None;
        }
        std::future::pending().await
    }
}

/// Looks for processes that make threads, on a thread of its own.
pub(crate) fn watch() -> NewProcesses {
    let (sender, receiver) = channel(MOST_LOOKS);
    let thread = Builder::new().name("new-processes".to_owned()).stack_size(STACK_BYTES);
    match thread.spawn(move || run(&sender)) {
        Ok(_thread) => NewProcesses(Some(receiver)),
        Err(error) => {
            log!(warn: "new processes are found by reading /proc alone: {error}");
            NewProcesses(None)
        }
    }
}

fn run(sender: &Sender<Vec<u32>>) {
    let Some(counter) = COUNTERS.into_iter().find(|path| last_pid(path).is_some()) else {
        log!(
            info: "the kernel does not say which pids it gave out: processes with a /tmp of their own are found by \
             reading /proc alone"
        );
        return;
    };
    let pid_max = text("/proc/sys/kernel/pid_max")
        .ok()
        .and_then(|text| text.trim().parse().ok());
    let mut births = ThreadMakers::new(pid_max.unwrap_or(PID_MAX));
    let mut skipped = 0;
    while !sender.is_closed() {
        if let Some(last) = last_pid(counter) {
            let found = births.look(last, thread);
            // The receiver is behind: these processes are found by the look through all.
            if !found.is_empty() {
                let _full = sender.try_send(found);
            }
        }
        if births.skipped > skipped {
            skipped = births.skipped;
            log!(debug: "{skipped} pids were given out too fast to be looked at");
        }
        sleep(EVERY);
    }
}

/// The number that the kernel gave out last: all of the one file, the last word of the other.
fn last_pid(path: &str) -> Option<u32> {
    let text = text(path).ok()?;
    text.split_ascii_whitespace()
        .next_back()?
        .parse()
        .ok()
        .filter(|pid| *pid > 0)
}

/// What a pid is. `None`: it is gone, hidden, or the kernel's own.
fn thread(pid: u32) -> Option<Thread> {
    let status = text(&format!("/proc/{pid}/status")).ok()?;
    let process = process_of(&status)?;
    // Its first thread: its program does not matter.
    if process == pid {
        return Some(Thread { process, program: 0 });
    }
    let mut hasher = DefaultHasher::new();
    match std::fs::read_link(format!("/proc/{process}/exe")) {
        Ok(program) => program.hash(&mut hasher),
        // It may not be seen: a program of another user is known by the name of its thread.
        Err(_) => status.lines().next().hash(&mut hasher),
    }
    Some(Thread {
        process,
        program: hasher.finish(),
    })
}

/// The process of a thread: `Tgid` of its `status`. `None` for what has no memory of its own, the kernel's threads.
fn process_of(status: &str) -> Option<u32> {
    let value = |key: &str| {
        status
            .lines()
            .find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))
    };
    value("VmSize")?;
    value("Tgid")?.trim().parse().ok()
}

fn text(path: &str) -> io::Result<String> {
    let mut bytes = [0; MOST_BYTES];
    let read = File::open(path)?.read(&mut bytes)?;
    Ok(String::from_utf8_lossy(bytes.get(..read).unwrap_or_default()).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: this test makes a thread.
    /// Guarantee: the kernel's counter moves past its pid, and it is known as a thread of this process.
    #[test]
    fn a_thread_of_ours_is_seen() {
        let Some(counter) = COUNTERS.into_iter().find(|path| last_pid(path).is_some()) else {
            eprintln!("skipped: the kernel does not say which pid it gave out");
            return;
        };
        let (sender, of) = std::sync::mpsc::channel();
        let (end, ends) = std::sync::mpsc::channel::<()>();
        let running = std::thread::spawn(move || {
            let own = std::fs::read_link("/proc/thread-self").unwrap();
            let tid: u32 = own.file_name().unwrap().to_str().unwrap().parse().unwrap();
            sender.send(tid).unwrap();
            let _ended = ends.recv();
        });
        let tid = of.recv().unwrap();
        assert!(last_pid(counter).is_some());
        assert_eq!(thread(tid).unwrap().process, std::process::id());
        assert_ne!(tid, std::process::id());
        drop(end);
        running.join().unwrap();
    }

    /// Scenario: the texts of a thread, of a kernel's thread and of nothing.
    /// Guarantee: only the first is one.
    #[test]
    fn threads_of_programs_are_distinguished_from_the_kernels() {
        assert_eq!(process_of("Name:\tx\nTgid:\t71\nVmSize:\t 1 kB\n"), Some(71));
        assert_eq!(process_of("Name:\tkworker\nTgid:\t71\n"), None);
        assert_eq!(process_of(""), None);
    }
}
