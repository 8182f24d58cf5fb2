//! The matrix of runtimes and configurations. Each row states the data that a runtime sends; the tests check that this
//! data is consistent. docs/compatibility.md has the table.
//!
//! A run compares the rows of its runtimes with the committed table; with `GCWATCH_UPDATE_MATRIX=1`, the run writes its
//! rows into the table. A row contains no counts and no times, so the row is the same on every machine.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use test_support::harness::Tests;
use test_support::runtimes::{ALL, MUSL, Runtime};
use test_support::target::Start;

use crate::analyzed::Analyzed;
use crate::profiles::record;

/// A configuration of the collector, and a workload that exercises it.
struct Configuration {
    name: &'static str,
    mode: &'static str,
    knobs: &'static [(&'static str, &'static str)],
    fits: fn(Runtime) -> bool,
    /// Checks the specific content of the recording, in addition to the common checks.
    check: fn(&Analyzed, Runtime, &str),
}

fn any(_: Runtime) -> bool {
    true
}

fn managed(runtime: Runtime) -> bool {
    !runtime.is_native_aot()
}

/// Returns whether the runtime has the standalone collector library, which is part of packs of .NET 8 and later.
fn has_clrgc(runtime: Runtime) -> bool {
    runtime.folder().join("libclrgc.so").exists()
}

fn after_3(runtime: Runtime) -> bool {
    managed(runtime) && !runtime.is_core_3()
}

fn datas(runtime: Runtime) -> bool {
    after_3(runtime) && runtime.version.is_some_and(|version| !version.starts_with("8."))
}

const CONFIGURATIONS: &[Configuration] = &[
    Configuration {
        name: "default",
        mode: "steady",
        knobs: &[],
        fits: any,
        check: |_, _, _| (),
    },
    Configuration {
        name: "background",
        mode: "bgc",
        knobs: &[],
        fits: managed,
        check: |analyzed, _, context| assert!(analyzed.has_type("background"), "{context}"),
    },
    Configuration {
        name: "concurrent off",
        mode: "threads",
        knobs: &[("gcConcurrent", "0")],
        fits: managed,
        check: |analyzed, _, context| assert!(!analyzed.has_type("background"), "{context}"),
    },
    Configuration {
        name: "server",
        mode: "threads",
        knobs: &[
            ("gcServer", "1"),
            ("GCDynamicAdaptationMode", "0"),
            ("GCHeapCount", "0x2"),
            ("GCgen0size", "0x1000000"),
        ],
        fits: managed,
        check: |analyzed, _, context| assert!(analyzed.most_heaps() > 1, "{context}"),
    },
    Configuration {
        name: "server, DATAS",
        mode: "threads",
        knobs: &[("gcServer", "1"), ("GCDynamicAdaptationMode", "1")],
        fits: datas,
        check: |analyzed, _, context| assert!(analyzed.has_dynamic("SizeAdaptationSample"), "{context}"),
    },
    Configuration {
        name: "segments (libclrgc.so)",
        mode: "threads",
        knobs: &[("GCName", "libclrgc.so")],
        fits: has_clrgc,
        check: |_, _, _| (),
    },
    Configuration {
        name: "hard limit",
        mode: "lohoos",
        knobs: &[("GCHeapHardLimit", "0x6000000")],
        fits: managed,
        check: |analyzed, _, context| assert!(analyzed.has_reason("OutOfSpaceLOH"), "{context}"),
    },
    Configuration {
        name: "induced",
        mode: "induced",
        knobs: &[],
        fits: any,
        check: |analyzed, _, context| assert!(analyzed.has_reason("Induced"), "{context}"),
    },
    Configuration {
        name: "provisional mode",
        mode: "leak",
        knobs: &[("GCProvModeStress", "1")],
        fits: after_3,
        check: |_, _, _| (),
    },
    Configuration {
        name: "no-GC regions",
        mode: "nogc",
        knobs: &[],
        fits: managed,
        check: |analyzed, _, context| {
            assert!(
                analyzed
                    .suspensions
                    .iter()
                    .any(|suspension| suspension["triggered"] == true),
                "{context}"
            );
        },
    },
    Configuration {
        name: "memory limit refreshed",
        mode: "refresh",
        knobs: &[],
        fits: after_3,
        check: |analyzed, _, context| {
            assert!(
                analyzed
                    .suspensions
                    .iter()
                    .any(|suspension| suspension["triggered"] == false),
                "{context}"
            );
        },
    },
];

/// The events whose versions are in a row. All runtimes send them.
const EVENTS: [&str; 5] = [
    "GCStart",
    "GCEnd",
    "GCHeapStats",
    "GCGlobalHeapHistory",
    "GCPerHeapHistory",
];

fn row(runtime: Runtime, configuration: &Configuration) -> String {
    let context = format!("{}, {}", runtime.name, configuration.name);
    let mut target = Start::new(runtime, configuration.mode)
        .knobs(configuration.knobs)
        .start();
    let (analyzed, said) = record(&mut target, &["--duration", "3s"]);
    assert_eq!(analyzed.stream["clean_end"], true, "{context}");
    analyzed.assert_whole(&context);
    (configuration.check)(&analyzed, runtime, &context);
    // NativeAOT programs print no counters, and no-GC regions count collections that do not exist.
    if !runtime.is_native_aot() && configuration.mode != "nogc" {
        target.await_ticks(1);
        analyzed.assert_agrees_with(target.ticks(), &context);
    }
    target.stop();
    let command = said
        .split_whitespace()
        .find(|word| word.starts_with("CollectTracing"))
        .unwrap_or("?");
    let command = command.trim_end_matches(|end: char| !end.is_alphanumeric());
    let versions: Vec<String> = EVENTS
        .iter()
        .map(|name| {
            analyzed
                .version_of(name)
                .map_or_else(|| "–".to_owned(), |version| version.to_string())
        })
        .collect();
    let mut features = Vec::new();
    for (feature, seen) in [
        ("committed", analyzed.has_dynamic("CommittedUsage")),
        ("DATAS", analyzed.has_dynamic("SizeAdaptationSample")),
        // The row states this only for `server`, because DATAS changes the number of heaps.
        (
            "several heaps",
            configuration.name == "server" && analyzed.most_heaps() > 1,
        ),
        (
            "suspensions without a collection",
            ["nogc", "refresh"].contains(&configuration.mode) && !analyzed.suspensions.is_empty(),
        ),
    ] {
        if seen {
            features.push(feature);
        }
    }
    format!(
        "| {} | {} | x86_64 | {} | {command} | {} | {} |",
        runtime.name,
        configuration.name,
        if runtime.is_musl() { "musl" } else { "glibc" },
        versions.join(" "),
        features.join(", ")
    )
}

fn table() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("docs/compatibility.md")
}

const HEAD: &str = "\
# Compatibility

With this page you can check whether gcwatch was tested with your runtime, configuration and kernel. `tests/live/run`
writes this table: it records real processes with `gcwatch record`, and compares the recordings with the counters of the
processes (`GC.CollectionCount`, `GC.GetTotalPauseDuration`). In every row, all collections except those in progress at
the ends were complete, no event was lost or undecoded, and the number of collections and the pause time are equal.

*Command* is the newest command that the runtime accepted. *Versions* are the received versions of GCStart, GCEnd,
GCHeapStats, GCGlobalHeapHistory and GCPerHeapHistory. The tests download the runtimes `core3.1.23`, `net10.0.0` and
`net10.0.0-musl`; the other runtimes come from a folder of packs. Kernel and control groups of this table are those of
the test host; [the second table](#machines) has machines with known versions of both.

| Runtime | Configuration | Processor | C library | Command | Versions | Also seen |
|---|---|---|---|---|---|---|
";

/// Heading of the section that `tests/machines/run` writes. An update of the matrix keeps this section.
const MACHINES: &str = "\n## Machines\n";

fn committed() -> BTreeMap<(String, String), String> {
    let text = std::fs::read_to_string(table()).unwrap_or_default();
    let text = text.split(MACHINES).next().unwrap_or_default();
    let key = |row: &str| {
        let mut cells = row.split('|').map(str::trim).skip(1);
        Some((cells.next()?.to_owned(), cells.next()?.to_owned()))
    };
    let rows = text
        .lines()
        .filter(|line| line.starts_with("| ") && !line.starts_with("| Runtime"));
    rows.filter_map(|row| Some((key(row)?, row.to_owned()))).collect()
}

fn write(rows: &BTreeMap<(String, String), String>) {
    let mut text = HEAD.to_owned();
    for runtime in ALL.into_iter().chain(MUSL) {
        for configuration in CONFIGURATIONS {
            if let Some(row) = rows.get(&(runtime.name.to_owned(), configuration.name.to_owned())) {
                text.push_str(row);
                text.push('\n');
            }
        }
    }
    let former = std::fs::read_to_string(table()).unwrap_or_default();
    if let Some((_, machines)) = former.split_once(MACHINES) {
        text.push_str(MACHINES);
        text.push_str(machines);
    }
    std::fs::create_dir_all(table().parent().unwrap()).unwrap();
    std::fs::write(table(), text).unwrap();
}

/// Scenario: a process runs on one runtime in one configuration, and is recorded. Without `GCWATCH_MATRIX=full`, only a
/// selection of the configurations is tested.
/// Guarantee: the recording is complete and agrees with the process, and the row matches docs/compatibility.md.
fn row_is_as_committed(runtime: Runtime, configuration: &Configuration) {
    let row = row(runtime, configuration);
    let key = (runtime.name.to_owned(), configuration.name.to_owned());
    // The lock keeps parallel tests from overwriting each other's rows.
    static TABLE: Mutex<()> = Mutex::new(());
    let _table = TABLE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut rows = committed();
    if std::env::var_os("GCWATCH_UPDATE_MATRIX").is_some() {
        rows.insert(key, row);
        write(&rows);
    } else {
        assert_eq!(rows.get(&key), Some(&row), "left: committed, right: seen");
    }
}

pub(crate) fn tests(tests: &mut Tests) {
    let full = crate::is_full();
    let selection = ["background", "server", "hard limit", "no-GC regions"];
    for runtime in ALL.into_iter().chain(MUSL) {
        for configuration in CONFIGURATIONS {
            let chosen = if runtime.is_always_there() || runtime == MUSL[0] {
                selection.contains(&configuration.name)
            } else {
                configuration.name == "default"
            };
            // `fits` reads the content of a pack, so the function is called only if the pack is available.
            let fits = !runtime.is_there() || (configuration.fits)(runtime);
            if !fits || !(full || chosen) {
                continue;
            }
            tests.add(
                format!("{}::{}::{}", module_path!(), runtime.name, configuration.name),
                move || runtime.need(),
                move || row_is_as_committed(runtime, configuration),
            );
        }
    }
}
