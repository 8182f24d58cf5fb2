//! Parser for `/proc/PID/smaps`: resident pages of a process, and the resident pages of its heap.
//!
//! # Location of the heap
//!
//! The collector reserves one large range of addresses and makes parts of it usable on demand. It excludes parts that
//! are only reserved from core dumps (`madvise(MADV_DONTDUMP)`, flag `dd`), as does the rest of the runtime, and no
//! other code. The heap is therefore the memory between the first and the last such part in a row of anonymous mappings
//! without gaps. If there are several rows, the heap is the row whose usable size is nearest to the bytes that the
//! collector has committed. The tables of the collector are in the same row or next to this row. Observed on .NET 8, 9
//! and 10.
//!
//! If the range is in use at its very start or up to its end, that part has no mark beyond it, and memory of other
//! owners can follow. The committed bytes decide in this case as well ([`Heap::fit`]).

/// Resident pages of a process, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ResidentPages {
    /// All resident pages.
    pub all: Option<u64>,
    /// Private (anonymous) pages.
    pub anonymous: Option<u64>,
    /// The process's part of memory without a file on disk: `memfd`, shared memory.
    pub shared: Option<u64>,
    /// Pages of files.
    pub files: Option<u64>,
    /// Anonymous pages that belong to the collector.
    pub heap: Option<u64>,
}

/// Resident and usable bytes in a possible range of the collector.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Heap {
    /// Memory that precedes the range without a gap, and can belong to the heap or to another owner.
    before: Usable,
    /// Memory between the first and the last part that is only reserved.
    inside: Usable,
    /// Memory that follows the range without a gap, and can belong to the heap or to another owner.
    behind: Usable,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Usable {
    resident: u64,
    size: u64,
}

impl Usable {
    fn add(&mut self, other: Self) {
        self.resident = self.resident.saturating_add(other.resident);
        self.size = self.size.saturating_add(other.size);
    }

    fn and(mut self, other: Self) -> Self {
        self.add(other);
        self
    }
}

impl Heap {
    /// Returns the combination whose size is nearest to the wanted size.
    fn fit(&self, wanted: u64) -> Usable {
        let with_before = self.inside.and(self.before);
        let others = [self.inside.and(self.behind), with_before, with_before.and(self.behind)];
        others.into_iter().fold(self.inside, |best, next| {
            let is_nearer = next.size.abs_diff(wanted) < best.size.abs_diff(wanted);
            if is_nearer { next } else { best }
        })
    }
}

/// Returns the resident bytes of the heap, or `None` if no row has enough memory. `wanted` is the number of bytes that
/// the collector has committed.
fn resident(rows: &[Heap], wanted: u64) -> Option<u64> {
    let fits = rows.iter().map(|row| row.fit(wanted));
    let nearest = fits.min_by_key(|usable| usable.size.abs_diff(wanted))?;
    let has_all = (u128::from(nearest.size) + u128::from(MAX_TABLE_BYTES)) * 10 >= u128::from(wanted) * 8;
    has_all.then_some(nearest.resident)
}

/// Maximum number of committed bytes that can be located elsewhere: tables.
const MAX_TABLE_BYTES: u64 = 4 << 20;

/// Maximum number of rows that are kept; the runtime has about ten.
const MAX_ROWS: usize = 256;

/// State of the parser, which processes the file line by line.
#[derive(Debug, Default)]
pub(super) struct MapsParser {
    all: u64,
    anonymous: u64,
    shared: u64,
    mapping: Option<Mapping>,
    /// End of the previous mapping.
    end: u64,
    row: Row,
    rows: Vec<Heap>,
}

/// A mapping, as read so far.
#[derive(Debug, Default)]
struct Mapping {
    start: u64,
    end: u64,
    is_usable: bool,
    is_reserved: bool,
    /// Whether the mapping belongs neither to a file nor to a stack.
    is_anonymous: bool,
    is_shared_memory: bool,
    resident: u64,
    part: u64,
    anonymous: u64,
    not_dumped: bool,
}

/// Anonymous mappings without gaps.
#[derive(Debug, Default)]
struct Row {
    /// Usable memory directly before the heap.
    before: Usable,
    /// The heap, starting with the first part that is only reserved.
    heap: Option<Heap>,
    /// Whether no following memory can belong to the heap.
    is_over: bool,
}

impl MapsParser {
    pub(super) fn line(&mut self, line: &str) {
        let mut words = line.split_ascii_whitespace();
        let Some(first) = words.next() else { return };
        let Some(key) = first.strip_suffix(':') else {
            self.close();
            self.mapping = mapping(first, words);
            return;
        };
        let Some(mapping) = &mut self.mapping else { return };
        if key == "VmFlags" {
            mapping.not_dumped = words.any(|flag| flag == "dd");
            return;
        }
        let field = match key {
            "Rss" => &mut mapping.resident,
            "Pss" => &mut mapping.part,
            "Anonymous" => &mut mapping.anonymous,
            _ => return,
        };
        let kib: Option<u64> = words.next().and_then(|number| number.parse().ok());
        *field = kib.unwrap_or(0).saturating_mul(1024);
    }

    /// Finishes after the last line. `wanted` is described at [`resident`]; without it, the heap is unknown.
    pub(super) fn finish(mut self, wanted: Option<u64>) -> ResidentPages {
        self.close();
        self.close_row();
        let heap = wanted.and_then(|wanted| resident(&self.rows, wanted));
        ResidentPages {
            all: Some(self.all),
            anonymous: Some(self.anonymous),
            shared: Some(self.shared),
            files: Some(self.all.saturating_sub(self.anonymous).saturating_sub(self.shared)),
            heap: heap.map(|heap| heap.min(self.anonymous)),
        }
    }

    fn close(&mut self) {
        let Some(mapping) = self.mapping.take() else { return };
        self.all = self.all.saturating_add(mapping.resident);
        self.anonymous = self.anonymous.saturating_add(mapping.anonymous);
        if mapping.is_shared_memory {
            self.shared = self.shared.saturating_add(mapping.part);
        }
        if mapping.start != self.end || !mapping.is_anonymous {
            self.close_row();
        }
        self.end = mapping.end;
        if mapping.is_anonymous {
            self.row.add(&mapping);
        }
    }

    fn close_row(&mut self) {
        let Row { heap, .. } = std::mem::take(&mut self.row);
        self.rows.extend(heap.filter(|_| self.rows.len() < MAX_ROWS));
    }
}

impl Row {
    fn add(&mut self, mapping: &Mapping) {
        let size = mapping.end.saturating_sub(mapping.start);
        if mapping.is_reserved && mapping.not_dumped {
            let before = self.before;
            let heap = self.heap.get_or_insert_with(|| Heap {
                before,
                ..Heap::default()
            });
            heap.inside.add(std::mem::take(&mut heap.behind));
            self.is_over = false;
        } else if mapping.is_usable && !self.is_over {
            let side = self.heap.as_mut().map_or(&mut self.before, |heap| &mut heap.behind);
            side.add(Usable {
                resident: mapping.anonymous,
                size,
            });
        } else if self.heap.is_some() {
            // The following memory belongs to another owner, unless another reserved part follows.
            self.is_over = true;
        } else {
            self.before = Usable::default();
        }
    }
}

/// Parses `START-END RIGHTS OFFSET DEVICE INODE [NAME]`.
fn mapping<'a>(range: &str, mut words: impl Iterator<Item = &'a str>) -> Option<Mapping> {
    let (start, end) = range.split_once('-')?;
    let number = |digits| u64::from_str_radix(digits, 16).ok();
    let rights = words.next()?;
    let inode = words.nth(2)?;
    let name = words.next();
    let shared_memory = ["/memfd:", "/dev/shm/", "/dev/zero", "/SYSV"];
    Some(Mapping {
        start: number(start)?,
        end: number(end)?,
        is_usable: rights.starts_with("rw"),
        is_reserved: rights.starts_with("---"),
        is_anonymous: inode == "0" && name.is_none_or(|name| name.starts_with("[anon")) && rights.ends_with('p'),
        is_shared_memory: name.is_some_and(|name| shared_memory.iter().any(|start| name.starts_with(start))),
        ..Mapping::default()
    })
}

/// Parses the `status` of a process, which is used if `smaps` is not read.
pub(super) fn parse_status(status: &str) -> ResidentPages {
    let figure = |key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key))?;
        let kib: u64 = line.split_ascii_whitespace().next()?.parse().ok()?;
        kib.checked_mul(1024)
    };
    ResidentPages {
        all: figure("VmRSS:"),
        anonymous: figure("RssAnon:"),
        shared: figure("RssShmem:"),
        files: figure("RssFile:"),
        heap: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walked(mappings: &[(&str, u64, &str)], wanted: Option<u64>) -> ResidentPages {
        let mut walk = MapsParser::default();
        for (head, kib, flags) in mappings {
            let anonymous = if head.contains('/') { 0 } else { *kib };
            let text = format!(
                "{head}\nSize: 99 kB\nRss: {kib} kB\nPss: {kib} kB\nAnonymous: {anonymous} kB\nVmFlags: rd wr {flags}\n"
            );
            text.lines().for_each(|line| walk.line(line));
        }
        walk.finish(wanted)
    }

    /// The rows of a real process: tables and heap with reserved parts between them, and arenas of malloc on both
    /// sides.
    const REAL: [(&str, u64, &str); 12] = [
        ("1000-2000 rw-p 00000000 00:00 0 [heap]", 4, ""),
        ("7fe44f76f000-7fe44f796000 rw-p 00000000 00:00 0 ", 120, ""),
        ("7fe44f796000-7fe453440000 ---p 00000000 00:00 0 ", 0, "dd"),
        ("7fe453440000-7fe453678000 rw-p 00000000 00:00 0 ", 956, ""),
        ("7fe453678000-7fe46d000000 ---p 00000000 00:00 0 ", 0, "dd"),
        ("7fe46d000000-7fe46e000000 rw-p 00000000 00:00 0 ", 15_000, ""),
        ("7fe46e000000-7fe46f000000 rw-p 00000000 00:00 0 ", 16_384, ""),
        ("7fe46f000000-7ff030000000 ---p 00000000 00:00 0 ", 0, "dd"),
        ("7ff030000000-7ff034000000 rw-p 00000000 00:00 0 ", 65_536, ""),
        ("7ff034000000-7ff038000000 ---p 00000000 00:00 0 ", 0, ""),
        ("7ff038000000-7ff03c000000 rw-p 00000000 00:00 0 ", 4096, ""),
        (
            "7ff040000000-7ff040100000 r--p 00000000 08:01 77 /usr/lib/libc.so",
            800,
            "",
        ),
    ];

    /// Scenario: a heap of 32 MiB has tables; malloc has a full arena of 64 MiB directly behind its range.
    /// Guarantee: the heap is the memory in its range, without the arena. Without the committed bytes, the heap is
    /// unknown.
    #[test]
    fn heap_excludes_arenas_of_malloc() {
        let heap = Some((956 + 15_000 + 16_384) << 10);
        for wanted in [Some(34 << 20), Some(30 << 20)] {
            let resident = walked(&REAL, wanted);
            assert_eq!(resident.heap, heap, "{wanted:?}");
            assert_eq!(resident.files, Some(800 << 10));
            assert_eq!(resident.anonymous, resident.all.map(|all| all - (800 << 10)));
        }
        assert_eq!(walked(&REAL, None).heap, None);
    }

    /// Scenario: in a small container, the runtime has reserved more memory for compiled code than the collector for
    /// objects.
    /// Guarantee: the heap is the row whose size is nearest to the committed bytes.
    #[test]
    fn largest_reserved_row_need_not_be_heap() {
        let mut all = vec![
            ("10000000-20000000 ---p 00000000 00:00 0 ", 0, "dd"),
            ("20000000-20400000 rw-p 00000000 00:00 0 ", 4000, ""),
            ("20400000-7f0000000000 ---p 00000000 00:00 0 ", 0, "dd"),
        ];
        all.extend(REAL);
        assert_eq!(walked(&all, Some(34 << 20)).heap, Some((956 + 15_000 + 16_384) << 10));
        assert_eq!(walked(&all, Some(4 << 20)).heap, Some(4000 << 10));
    }

    /// Scenario: the mappings are the same, but the collector has committed the memory behind its last reserved part
    /// (large objects up to the end of its range) and tables before the first part. In another case, it has committed
    /// far more memory than the mappings contain (segments).
    /// Guarantee: in the first case all committed memory counts, and in the second case the heap is unknown.
    #[test]
    fn committed_bytes_determine_end_of_heap() {
        let counted = walked(&REAL, Some(100 << 20)).heap;
        assert_eq!(counted, Some((120 + 956 + 15_000 + 16_384 + 65_536) << 10));
        assert_eq!(walked(&REAL, Some(500 << 20)).heap, None);
    }

    /// Scenario: the first part of a heap is in use from the start of its range, behind an arena of malloc.
    /// Guarantee: the first part belongs to the heap, and the arena does not.
    #[test]
    fn committed_bytes_determine_start_of_heap() {
        let full = [
            ("10000000-11000000 rw-p 00000000 00:00 0 ", 16_384, ""),
            ("11000000-14000000 ---p 00000000 00:00 0 ", 0, ""),
            ("14000000-16000000 rw-p 00000000 00:00 0 ", 32_768, ""),
            ("16000000-17000000 rw-p 00000000 00:00 0 ", 16_384, ""),
            ("17000000-50000000 ---p 00000000 00:00 0 ", 0, "dd"),
        ];
        assert_eq!(walked(&full, Some(48 << 20)).heap, Some(48 << 20));
        assert_eq!(walked(&full, Some(100 << 20)).heap, None);
    }

    /// Scenario: there is shared memory, a process without a collector, and truncated or invalid lines.
    /// Guarantee: shared memory is separate from files, there is no heap without a range, and the parser does not
    /// panic.
    #[test]
    fn processes_without_collector_have_no_heap() {
        let resident = walked(
            &[
                ("1000-2000 rw-s 00000000 00:01 7 /memfd:doublemapper (deleted)", 40, ""),
                ("5000-9000 rw-p 00000000 00:00 0", 16, ""),
            ],
            None,
        );
        assert_eq!((resident.shared, resident.heap), (Some(40 << 10), None));
        assert_eq!((resident.anonymous, resident.files), (Some(16 << 10), Some(0)));
        let mut walk = MapsParser::default();
        for line in [
            "",
            "-",
            "zz-1 rw-p",
            "Rss:",
            "Rss: x kB",
            "1-2 rw-p 0 0 0",
            "Rss: 18446744073709551615 kB",
            "VmFlags:",
        ] {
            walk.line(line);
        }
        assert_eq!(walk.finish(Some(1)).heap, None);
    }

    /// Scenario: the `status` of a process is parsed.
    /// Guarantee: its figures are known, and its heap is unknown.
    #[test]
    fn status_has_the_sums() {
        let resident = parse_status("VmRSS:\t 30 kB\nRssAnon:\t 20 kB\nRssFile:\t 8 kB\nRssShmem:\t 2 kB\n");
        assert_eq!((resident.all, resident.anonymous), (Some(30 << 10), Some(20 << 10)));
        assert_eq!(
            (resident.files, resident.shared, resident.heap),
            (Some(8 << 10), Some(2 << 10), None)
        );
        assert_eq!(parse_status(""), ResidentPages::default());
    }
}
