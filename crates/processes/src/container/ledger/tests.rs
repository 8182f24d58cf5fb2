use proptest::prelude::*;

use super::*;

const MIB: u64 = 1 << 20;

fn mib(bytes: u64) -> Option<u64> {
    Some(bytes * MIB)
}

/// A container of 512 MiB with one process whose heap was counted: 120 live, 90 free, 20 kept, 3 for tables, 250
/// native, 2 in other files in memory, 18 in files on disk, 1 in the kernel.
fn usual() -> Sources {
    Sources {
        limit: mib(512),
        group: Some(Memory {
            usage: mib(510),
            working_set: mib(500),
            anonymous: mib(483),
            shmem: mib(8),
            page_cache: mib(18),
            kernel: mib(1),
            processes: Some(1),
            ..Memory::default()
        }),
        largest_other: None,
        resident: ResidentPages {
            all: mib(520),
            anonymous: mib(483),
            shared: mib(6),
            files: mib(31),
            heap: mib(233),
        },
        heap: HeapFigures {
            after: mib(210),
            free: mib(90),
            committed: mib(225),
            kept: mib(10),
            bookkeeping: mib(3),
            not_looked_at: None,
        },
    }
}

/// Scenario: a full collection left 100 MB of old objects one minute ago, six minutes ago, or never.
/// Guarantee: objects that became old since the full collection are a separate line next to live objects, and the lines
/// add up. If the full collection was too long ago or never happened, all old objects are in this line.
#[test]
fn old_objects_age_since_full_collection() {
    const MINUTE: u64 = 60_000_000_000;
    assert_eq!(not_looked_at(110, Some((100, MINUTE)), 9 * MINUTE), (10, 60));
    assert_eq!(not_looked_at(110, Some((100, 6 * MINUTE)), 9 * MINUTE), (110, 360));
    assert_eq!(not_looked_at(110, None, 9 * MINUTE), (110, 540));
    assert_eq!(not_looked_at(90, Some((100, MINUTE)), 9 * MINUTE), (0, 60));
    let mut sources = usual();
    sources.heap.not_looked_at = Some((70 * MIB, 60));
    let ledger = divide(&sources);
    assert_eq!(
        (ledger.live, ledger.not_looked_at, ledger.not_looked_at_s, ledger.free),
        (mib(50), mib(70), Some(60), mib(90))
    );
    let lines = ledger.lines().into_iter().filter_map(|(_, bytes)| bytes);
    assert_eq!(Some(lines.sum()), ledger.usage);
}

/// Scenario: a process is alone in a container with a limit, and all sources are known and consistent.
/// Guarantee: every line has its value, the lines add up to the usage, and the largest line is the verdict.
#[test]
fn lines_of_container_add_up_to_usage() {
    let ledger = divide(&usual());
    assert_eq!(ledger.of, Scope::Container);
    assert_eq!(
        (ledger.limit, ledger.headroom, ledger.usage),
        (mib(512), mib(2), mib(510))
    );
    assert_eq!(
        (ledger.live, ledger.free, ledger.bookkeeping),
        (mib(120), mib(90), mib(3))
    );
    assert_eq!((ledger.committed_unused, ledger.native), (mib(20), mib(256)));
    assert_eq!((ledger.other_processes, ledger.files_in_memory), (Some(0), mib(2)));
    assert_eq!((ledger.page_cache, ledger.kernel_reclaimable), (mib(18), None));
    assert_eq!((ledger.kernel, ledger.unknown), (mib(1), Some(0)));
    assert_eq!(ledger.verdict, MemoryVerdict::Native);
    assert!(ledger.counted);
}

/// Scenario: most of the heap's live memory was never touched (large arrays that are not cleared). In another case, a
/// heap has committed far more memory than is resident, next to a native leak.
/// Guarantee: memory that is not resident is in no line, and the leak is not attributed to the heap.
#[test]
fn committed_memory_is_not_resident_memory() {
    let mut sources = usual();
    sources.resident.heap = mib(50);
    let ledger = divide(&sources);
    assert_eq!(
        (ledger.live, ledger.free, ledger.committed_unused),
        (mib(50), Some(0), Some(0))
    );
    assert_eq!((ledger.native, ledger.verdict), (mib(439), MemoryVerdict::Native));
    let mut sources = usual();
    sources.heap.kept = mib(4000);
    assert_eq!(divide(&sources).committed_unused, mib(20));
    assert_eq!(divide(&sources).native, mib(256));
}

/// Scenario: the pages of the heap were not counted.
/// Guarantee: the committed bytes bound the collector's lines, and the rest of the process is native. If the committed
/// bytes are unknown as well, native memory is unknown and part of the remainder.
#[test]
fn committed_memory_bounds_uncounted_heap() {
    let mut sources = usual();
    sources.resident.heap = None;
    let ledger = divide(&sources);
    assert!(!ledger.counted);
    assert_eq!((ledger.committed_unused, ledger.native), (mib(25), mib(251)));
    sources.heap.committed = None;
    let ledger = divide(&sources);
    assert_eq!((ledger.committed_unused, ledger.native), (None, None));
    assert_eq!(
        (ledger.unknown, ledger.verdict),
        (mib(510 - 213 - 20 - 1), MemoryVerdict::NotKnown)
    );
}

/// Scenario: one container has a second process, one has many pages of files on disk, and one has many files in memory.
/// Guarantee: the second process has the anonymous memory of the group beyond the first process; pages of files on disk
/// are never the verdict, but files in memory are.
#[test]
fn other_memory_of_container_is_divided() {
    let mut sources = usual();
    let group = sources.group.as_mut().unwrap();
    (group.processes, group.anonymous, group.usage) = (Some(2), mib(900), mib(927));
    let ledger = divide(&sources);
    assert_eq!(ledger.other_processes, mib(417));
    assert_eq!(ledger.verdict, MemoryVerdict::OtherProcesses);
    let mut sources = usual();
    let group = sources.group.as_mut().unwrap();
    (group.page_cache, group.usage, group.working_set) = (mib(600), mib(1092), mib(1092));
    assert_eq!(divide(&sources).page_cache, mib(600));
    assert_eq!(divide(&sources).verdict, MemoryVerdict::Native);
    let group = sources.group.as_mut().unwrap();
    (group.shmem, group.page_cache) = (mib(606), mib(2));
    assert_eq!(divide(&sources).files_in_memory, mib(600));
    assert_eq!(divide(&sources).verdict, MemoryVerdict::FilesInMemory);
    assert_eq!(
        divide(&sources).clause().unwrap(),
        "limit 512 MiB: live 120, free 90, unused 20, native 256, files in memory 600"
    );
}

/// Scenario: a container has 300 MiB of kernel memory, of which the kernel can reclaim 290 MiB, an unknown part, or
/// none.
/// Guarantee: kernel memory is divided into two lines, an estimate is marked, and only memory that cannot be reclaimed
/// is the verdict.
#[test]
fn kernel_memory_is_divided() {
    let mut sources = usual();
    let group = sources.group.as_mut().unwrap();
    (group.kernel, group.usage) = (mib(300), mib(809));
    (group.kernel_reclaimable, group.kernel_is_estimated) = (mib(290), true);
    let ledger = divide(&sources);
    assert_eq!((ledger.kernel, ledger.kernel_reclaimable), (mib(10), mib(290)));
    assert!(ledger.kernel_is_estimated);
    assert_eq!((ledger.verdict, ledger.unknown), (MemoryVerdict::Native, Some(0)));
    let group = sources.group.as_mut().unwrap();
    (group.kernel_reclaimable, group.kernel_is_estimated) = (Some(0), false);
    assert_eq!(divide(&sources).verdict, MemoryVerdict::Kernel);
    sources.group.as_mut().unwrap().kernel_reclaimable = None;
    let ledger = divide(&sources);
    assert_eq!((ledger.kernel, ledger.kernel_reclaimable), (mib(300), None));
    assert!(!ledger.kernel_is_estimated);
}

/// Scenario: a process is in no container; a recording knows only the heap; no source is known.
/// Guarantee: there is no limit; the lines of a process add up to its resident memory; a recording has only the lines
/// of the heap.
#[test]
fn process_outside_container_has_no_limit() {
    let process = Sources {
        limit: None,
        group: None,
        ..usual()
    };
    let ledger = divide(&process);
    assert_eq!((ledger.of, ledger.limit, ledger.headroom), (Scope::Process, None, None));
    assert_eq!(
        (ledger.usage, ledger.native, ledger.page_cache),
        (mib(520), mib(256), mib(31))
    );
    assert_eq!((ledger.other_processes, ledger.unknown), (None, Some(0)));
    let recording = Sources {
        heap: usual().heap,
        ..Sources::default()
    };
    let ledger = divide(&recording);
    assert_eq!(ledger.of, Scope::Heap);
    assert_eq!(
        (ledger.live, ledger.free, ledger.committed_unused),
        (mib(120), mib(90), mib(25))
    );
    assert_eq!(
        (ledger.bookkeeping, ledger.native, ledger.unknown),
        (mib(3), None, None)
    );
    assert_eq!(ledger.verdict, MemoryVerdict::LiveHeap);
    assert!(divide(&Sources::default()).is_empty());
}

fn bytes() -> impl Strategy<Value = Option<u64>> {
    prop_oneof![
        2 => Just(None),
        1 => Just(Some(0)),
        6 => (0..4096u64).prop_map(|bytes| Some(bytes << 20)),
        1 => any::<u64>().prop_map(Some),
    ]
}

fn memory() -> impl Strategy<Value = Memory> {
    let pages = (bytes(), bytes(), bytes(), bytes());
    let kernel = (bytes(), bytes(), any::<bool>());
    (pages, kernel, proptest::option::of(0..3u64)).prop_map(
        |((usage, anonymous, shmem, page_cache), (kernel, kernel_reclaimable, kernel_is_estimated), processes)| {
            Memory {
                usage,
                anonymous,
                shmem,
                page_cache,
                kernel,
                kernel_reclaimable,
                kernel_is_estimated,
                processes,
                ..Memory::default()
            }
        },
    )
}

fn sources() -> impl Strategy<Value = Sources> {
    let resident =
        (bytes(), bytes(), bytes(), bytes(), bytes()).prop_map(|(all, anonymous, shared, files, heap)| ResidentPages {
            all,
            anonymous,
            shared,
            files,
            heap,
        });
    let heap = (bytes(), bytes(), bytes(), bytes(), bytes(), bytes()).prop_map(
        |(after, free, committed, kept, bookkeeping, unseen)| HeapFigures {
            after,
            free,
            committed,
            kept,
            bookkeeping,
            not_looked_at: unseen.map(|bytes| (bytes, 60)),
        },
    );
    (bytes(), proptest::option::of(memory()), resident, heap).prop_map(|(limit, group, resident, heap)| Sources {
        limit,
        group,
        largest_other: None,
        resident,
        heap,
    })
}

proptest! {
    /// Scenario: the sources are arbitrary and not necessarily consistent.
    /// Guarantee: if the usage is known, the lines and the unknown rest add up to it exactly; the collector's lines are
    /// within its resident pages; headroom plus usage is the limit, unless the limit is exceeded.
    #[test]
    fn lines_never_exceed_what_they_share(sources in sources()) {
        let ledger = divide(&sources);
        let sum: u128 = ledger.lines().iter().filter_map(|(_, bytes)| bytes.map(u128::from)).sum();
        match ledger.usage {
            Some(usage) => prop_assert_eq!(sum, u128::from(usage)),
            None => prop_assert_eq!(ledger.unknown, None),
        }
        let managed: u128 = [ledger.live, ledger.free, ledger.bookkeeping, ledger.committed_unused]
            .into_iter()
            .flatten()
            .map(u128::from)
            .sum();
        if let Some(bound) = sources.resident.heap.or(sources.resident.anonymous) {
            prop_assert!(managed <= u128::from(bound));
        }
        if let (Some(limit), Some(headroom), Some(usage)) = (ledger.limit, ledger.headroom, ledger.usage) {
            prop_assert_eq!(headroom, limit.saturating_sub(usage));
        }
    }

    /// Scenario: one of several arbitrary sources is removed.
    /// Guarantee: a line whose source is unknown is unknown, not zero.
    #[test]
    fn unknown_sources_yield_unknown_lines(mut sources in sources()) {
        let without = |change: fn(&mut Sources)| {
            let mut sources = sources;
            change(&mut sources);
            divide(&sources)
        };
        let ledger = without(|sources| sources.heap.free = None);
        prop_assert_eq!((ledger.live, ledger.free), (None, None));
        prop_assert_eq!(without(|sources| sources.heap.bookkeeping = None).bookkeeping, None);
        prop_assert_eq!(without(|sources| sources.limit = None).headroom, None);
        let ledger = without(|sources| sources.resident = ResidentPages::default());
        prop_assert_eq!(ledger.native, None);
        sources.group = None;
        let ledger = divide(&sources);
        prop_assert_eq!((ledger.other_processes, ledger.kernel), (None, None));
    }

    /// Scenario: sources are arbitrary.
    /// Guarantee: a verdict names a line that is known, not zero and at least the unknown rest. The kernel cannot
    /// reclaim the memory of this line.
    #[test]
    fn verdict_has_known_line(sources in sources()) {
        let ledger = divide(&sources);
        if ledger.verdict != MemoryVerdict::NotKnown {
            let line = ledger.line_of(ledger.verdict);
            prop_assert!(line.is_some_and(|bytes| bytes > 0 && bytes >= ledger.unknown.unwrap_or(0)));
            prop_assert!(ledger.verdict != MemoryVerdict::PageCache);
        }
    }
}
