//! The edge: reads what the kernel says of a process's memory, all at about the same time.

use std::io::{BufRead as _, BufReader, Read as _};
use std::os::fd::OwnedFd;

use dotnet_diagnostics::discovery::parse_stat;
use rustix::fs::CWD;

use super::HeapFigures;
use super::maps::{Resident, Walk, of_status};
use crate::container::figures::Figures;
use crate::container::group::{MAX_FILE_BYTES, folder, open, text};
use crate::container::read::{ProcessScan, Reader};

/// A process may have 65,530 mappings by the kernel's default, of 700 bytes each.
const MAX_SMAPS_BYTES: u64 = 64 << 20;

/// Of a larger process the pages are not counted: the kernel goes through all of them, 10 to 20 ms for each GiB, and
/// the process may have to wait meanwhile when it maps memory.
const MOST_COUNTED: u64 = 8 << 30;

/// What was read of a process.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MemoryReading {
    /// Of its control group.
    pub figures: Figures,
    /// Of its pages.
    pub resident: Resident,
}

/// Reads it; blocking. `None`: it is gone, or another one has its pid (`start_time`: field 22 of its `stat`).
///
/// `heap`: what its newest collection shows; by what is committed its heap is recognized.
pub fn read(pid: u32, start_time: u64, heap: &HeapFigures) -> Option<MemoryReading> {
    // What is opened below this folder is of this very process, whoever has the pid later.
    let process = folder(CWD, &format!("/proc/{pid}")).ok()?;
    let small = |name: &str| text(open(&process, name)?, MAX_FILE_BYTES);
    if parse_stat(small("stat")?.as_bytes())?.start_time != start_time {
        return None;
    }
    let status = of_status(&small("status")?);
    let is_small = status.all.is_some_and(|bytes| bytes <= MOST_COUNTED);
    let counted = is_small.then(|| smaps(&process, heap.all_committed())).flatten();
    Some(MemoryReading {
        resident: counted.unwrap_or(status),
        figures: Reader::with(ProcessScan::Full).read(pid, start_time)?,
    })
}

fn smaps(process: &OwnedFd, wanted: Option<u64>) -> Option<Resident> {
    let mut file = BufReader::with_capacity(64 << 10, open(process, "smaps")?.take(MAX_SMAPS_BYTES));
    let mut walk = Walk::default();
    let mut line = Vec::new();
    while file.read_until(b'\n', &mut line).ok()? > 0 {
        walk.line(&String::from_utf8_lossy(&line));
        line.clear();
    }
    // One that was cut says too little.
    (file.get_ref().limit() > 0).then(|| walk.finish(wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: this very process; then another run with its pid.
    /// Guarantee: its pages are counted and agree with each other; of the other run nothing is read.
    #[test]
    fn our_own_pages_are_counted() {
        let stat = std::fs::read("/proc/self/stat").unwrap();
        let start_time = parse_stat(&stat).unwrap().start_time;
        let reading = read(std::process::id(), start_time, &HeapFigures::default()).unwrap();
        let resident = reading.resident;
        let sum = resident.anonymous.unwrap() + resident.shared.unwrap() + resident.files.unwrap();
        assert!(
            resident.anonymous.is_some_and(|bytes| bytes > 100 << 10),
            "{resident:?}"
        );
        assert_eq!(Some(sum), resident.all);
        assert_eq!(resident.heap, None);
        assert!(smaps(&folder(CWD, "/proc/self").unwrap(), None).is_some());
        assert_eq!(read(std::process::id(), start_time + 1, &HeapFigures::default()), None);
    }
}
