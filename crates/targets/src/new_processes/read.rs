//! The thread that reads the last assigned pid from the kernel. It reads only kernel files, which need no disk and
//! never wait for the process that they describe.

use std::fs::File;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{self, Read as _};
use std::thread::{Builder, sleep};

use tokio::sync::mpsc::{Receiver, Sender, channel};

use super::{READ_INTERVAL, Thread, ThreadMakers};

/// Files with the last assigned pid in gcwatch's pid namespace. The first file does not exist on every kernel
/// (`CONFIG_CHECKPOINT_RESTORE`), and the second file can be fake (lxcfs).
const COUNTERS: [&str; 2] = ["/proc/sys/kernel/ns_last_pid", "/proc/loadavg"];
/// Maximum of `pid_max` on 64-bit machines, used if the file is not readable.
const PID_MAX: u32 = 1 << 22;
const STACK_BYTES: usize = 64 << 10;
const MAX_BYTES: usize = 4096;
/// Maximum number of results that wait for the receiver.
const MAX_LOOKS: usize = 4;

/// A receiver of the processes that create threads. Dropping the receiver stops the thread.
#[derive(Debug)]
pub(crate) struct NewProcesses(Option<Receiver<Vec<u32>>>);

impl NewProcesses {
    /// Waits for the next processes, or forever if the kernel does not report pids. This method is cancel safe.
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

/// Starts the thread that looks for processes that create threads.
pub(crate) fn watch() -> NewProcesses {
    let (sender, receiver) = channel(MAX_LOOKS);
    let thread = Builder::new().name("new-processes".to_owned()).stack_size(STACK_BYTES);
    match thread.spawn(move || run(&sender)) {
        Ok(_thread) => NewProcesses(Some(receiver)),
        Err(error) => {
            log!(warn: "new processes are found only by reading /proc: {error}");
            NewProcesses(None)
        }
    }
}

fn run(sender: &Sender<Vec<u32>>) {
    let Some(counter) = COUNTERS.into_iter().find(|path| last_pid(path).is_some()) else {
        log!(
            info: "the kernel does not report assigned pids; new processes with a private /tmp are found only by \
             reading /proc"
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
            // If the receiver is behind, the full scan finds these processes.
            if !found.is_empty() {
                let _full = sender.try_send(found);
            }
        }
        if births.skipped > skipped {
            skipped = births.skipped;
            log!(debug: "{skipped} pids were assigned too fast to be examined");
        }
        sleep(READ_INTERVAL);
    }
}

/// Returns the last assigned pid: the whole content of the first file, or the last word of the second file. Returns
/// `None` if the file is not readable or contains no pid.
fn last_pid(path: &str) -> Option<u32> {
    let text = text(path).ok()?;
    text.split_ascii_whitespace()
        .next_back()?
        .parse()
        .ok()
        .filter(|pid| *pid > 0)
}

/// Returns the facts about a pid, or `None` if the pid no longer exists, is hidden, or belongs to the kernel.
fn thread(pid: u32) -> Option<Thread> {
    let status = text(&format!("/proc/{pid}/status")).ok()?;
    let process = process_of(&status)?;
    // The first thread of a process. Its program is not needed.
    if process == pid {
        return Some(Thread { process, program: 0 });
    }
    let mut hasher = DefaultHasher::new();
    match std::fs::read_link(format!("/proc/{process}/exe")) {
        Ok(program) => program.hash(&mut hasher),
        // The link is not readable for gcwatch: identify the program of another user by the name of its thread.
        Err(_) => status.lines().next().hash(&mut hasher),
    }
    Some(Thread {
        process,
        program: hasher.finish(),
    })
}

/// Returns the process of a thread (`Tgid` in `status`), or `None` for kernel threads, which have no own memory.
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
    let mut bytes = [0; MAX_BYTES];
    let read = File::open(path)?.read(&mut bytes)?;
    Ok(String::from_utf8_lossy(bytes.get(..read).unwrap_or_default()).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: this test creates a thread.
    /// Guarantee: the kernel reports a last pid, and the new thread is recognized as a thread of this process.
    #[test]
    fn own_thread_is_recognized() {
        let Some(counter) = COUNTERS.into_iter().find(|path| last_pid(path).is_some()) else {
            eprintln!("skipped: the kernel does not report the last assigned pid");
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

    /// Scenario: the status of a thread, of a kernel thread, and an empty text are parsed.
    /// Guarantee: a process is returned only for the thread that is not a kernel thread.
    #[test]
    fn kernel_threads_are_ignored() {
        assert_eq!(process_of("Name:\tx\nTgid:\t71\nVmSize:\t 1 kB\n"), Some(71));
        assert_eq!(process_of("Name:\tkworker\nTgid:\t71\n"), None);
        assert_eq!(process_of(""), None);
    }
}
