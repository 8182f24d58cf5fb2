//! Commands in a pseudoterminal.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags, open};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

/// Timeout for a busy machine; an incident starts within a few seconds.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Scenario: `gcwatch demo` runs on a terminal of 80x24 until an incident is shown; then the test sends Ctrl-Z, `fg`
/// and `q`.
/// Guarantee: the program shows `top` for the recorded processes, with the page's address in its head and the incident
/// of the process that has exhausted its memory. The terminal is restored while the program is stopped and after it has
/// exited.
#[test]
fn demonstration_runs_in_terminal() {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&ours).unwrap();
    unlockpt(&ours).unwrap();
    let name = ptsname(&ours, Vec::new()).unwrap();
    let theirs = open(name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
    let size = Winsize {
        ws_row: 24,
        ws_col: 80,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(&theirs, size).unwrap();
    let mut demo = test_support::program::command()
        .args(["demo", "--listen", "127.0.0.1:0"])
        .env("TERM", "xterm-256color")
        // The kernel ignores Ctrl-Z in a process group that no shell could continue. The parent of this group, the
        // test, is in another group, like a shell.
        .process_group(0)
        .stdin(theirs.try_clone().unwrap())
        .stdout(theirs.try_clone().unwrap())
        .stderr(theirs)
        .spawn()
        .unwrap();
    let mut keys = File::from(ours.try_clone().unwrap());
    let mut screen = File::from(ours);
    let (sender, drawn) = mpsc::channel();
    // A dedicated thread reads, because reads block. The last read fails when the program has exited and the terminal
    // is closed.
    std::thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = screen.read(&mut bytes) {
            if sender.send(bytes[..count].to_vec()).is_err() {
                return;
            }
        }
    });
    let end = Instant::now() + TIMEOUT;
    let mut seen = Vec::new();
    // Wait until each part was drawn at least this many times.
    let mut until = |times: usize, parts: &[&str]| {
        loop {
            let text = String::from_utf8_lossy(&seen).into_owned();
            if parts.iter().all(|part| text.matches(part).count() >= times) {
                return text;
            }
            let left = end.saturating_duration_since(Instant::now());
            match drawn.recv_timeout(left) {
                Ok(more) => seen.extend(more),
                Err(error) => panic!("{error}: {parts:?} in {text}"),
            }
        }
    };
    until(
        1,
        &[
            "\u{1b}[?1049h",
            "http://127.0.0.1:",
            "demo-uploads",
            "demo-web",
            "critical",
            "Memory is exhausted",
        ],
    );
    keys.write_all(b"\x1a").unwrap();
    until(1, &["\u{1b}[?1049l"]);
    let stat = format!("/proc/{}/stat", demo.id());
    while !std::fs::read_to_string(&stat).unwrap().contains(") T ") {
        assert!(Instant::now() < end, "the program stops in time");
        std::thread::sleep(Duration::from_millis(10));
    }
    kill_process(Pid::from_child(&demo), Signal::CONT).unwrap();
    until(2, &["\u{1b}[?1049h"]);
    keys.write_all(b"q").unwrap();
    until(2, &["\u{1b}[?1049l"]);
    let text = until(1, &["played"]);
    assert!(!text.contains("OTLP") && !text.contains("incident: "), "{text}");
    assert!(demo.wait().unwrap().success());
}
