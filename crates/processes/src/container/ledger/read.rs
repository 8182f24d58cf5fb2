//! I/O: reads the kernel's information about the memory of a process, all at about the same time.

use std::io::{BufRead as _, BufReader, Read as _};
use std::os::fd::OwnedFd;

use dotnet_diagnostics::discovery::parse_stat;
use rustix::fs::CWD;

use super::HeapFigures;
use super::maps::{MapsParser, ResidentPages, parse_status};
use crate::container::figures::Figures;
use crate::container::group::{MAX_FILE_BYTES, folder, open, text};
use crate::container::read::{ProcessScan, Reader};

/// Maximum size of `smaps` in bytes. By default, the kernel allows 65,530 mappings of 700 bytes each.
const MAX_SMAPS_BYTES: u64 = 64 << 20;

/// Maximum resident size of a process whose pages are counted, in bytes. The kernel visits all pages, 10 to 20 ms for
/// each GiB, and during this time, the process has to wait if it maps memory.
const MAX_COUNTED: u64 = 8 << 30;

/// A memory reading of a process.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MemoryReading {
    /// Figures of the control group.
    pub figures: Figures,
    /// Resident pages.
    pub resident: ResidentPages,
}

/// Reads the memory of a process. Returns `None` if the process has exited or if another process has its pid.
/// `start_time` is field 22 of its `stat`. Blocks the calling thread.
///
/// `heap` has the figures of the newest collection. The committed bytes in it are used to recognize the heap.
pub fn read(pid: u32, start_time: u64, heap: &HeapFigures) -> Option<MemoryReading> {
    // Files opened below this folder belong to this process, even if its pid is reused.
    let process = folder(CWD, &format!("/proc/{pid}")).ok()?;
    let small = |name: &str| text(open(&process, name)?, MAX_FILE_BYTES);
    if parse_stat(small("stat")?.as_bytes())?.start_time != start_time {
        return None;
    }
    let status = parse_status(&small("status")?);
    let is_small = status.all.is_some_and(|bytes| bytes <= MAX_COUNTED);
    let counted = is_small.then(|| smaps(&process, heap.all_committed())).flatten();
    Some(MemoryReading {
        resident: counted.unwrap_or(status),
        figures: Reader::with(ProcessScan::Full).read(pid, start_time)?,
    })
}

fn smaps(process: &OwnedFd, wanted: Option<u64>) -> Option<ResidentPages> {
    let mut file = BufReader::with_capacity(64 << 10, open(process, "smaps")?.take(MAX_SMAPS_BYTES));
    let mut walk = MapsParser::default();
    let mut line = Vec::new();
    while file.read_until(b'\n', &mut line).ok()? > 0 {
        walk.line(&String::from_utf8_lossy(&line));
        line.clear();
    }
    // A truncated file is incomplete.
    (file.get_ref().limit() > 0).then(|| walk.finish(wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: the memory of this test process is read, then the memory of another run with the same pid.
    /// Guarantee: the pages of this process are counted and consistent, and the other run is not read.
    #[test]
    fn own_pages_are_counted() {
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
