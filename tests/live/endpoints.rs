//! Bursts of a web service that counts for itself: what its endpoints allocate, and how long they stop it.

use std::time::Duration;

use serde_json::Value;
use test_support::add_tests_on;
use test_support::harness::Tests;
use test_support::program::records;
use test_support::runtimes::Runtime;
use test_support::service::{Clients, Service};

use crate::requests::runtimes;

pub(crate) fn tests(tests: &mut Tests) {
    add_tests_on!(tests, runtimes(); a_caller_stopped_it_as_long_as_it_counted);
    let newest = |runtime: &Runtime| runtime.name.starts_with("asp10");
    add_tests_on!(tests, runtimes().filter(newest); the_busiest_sites_are_endpoints);
}

/// A burst of a service under load, the service's own log of the requests in it, and those that were there in part.
struct Asked {
    records: Vec<Value>,
    whole: Vec<Logged>,
    part: Vec<Logged>,
}

/// A request as the service counted it.
struct Logged {
    path: String,
    stopped_ns: i64,
}

/// A client for each path, which waits so long after each answer.
fn ask(runtime: Runtime, env: &[(&str, &str)], paths: &[&'static str], pause: Duration, command: [&str; 2]) -> Asked {
    let mut shop = Service::shop(runtime, 60, env);
    // Once, so that everything is compiled.
    paths.iter().for_each(|path| drop(shop.get(path)));
    let clients = Clients::start(&shop, paths.iter().map(|path| vec![*path]), pause);
    let leases = shop.scene.path("leases");
    let [name, seconds] = command;
    let what = [name, &shop.pid.to_string(), "--for", seconds, "--format", "ndjson"];
    let records = records([&what[..], &["--lease-folder", &leases]].concat());
    clients.stop();
    let [begin, end] = ["start_ns", "end_ns"].map(|key| records[0][key].as_i64().unwrap());
    shop.end();
    let (mut whole, mut part) = (Vec::new(), Vec::new());
    for line in std::fs::read_to_string(shop.scene.path("log")).unwrap().lines() {
        let fields: Vec<&str> = line.split(' ').collect();
        let number = |place: usize| fields[place].parse::<i64>().unwrap();
        let request = Logged {
            path: fields[8].to_owned(),
            stopped_ns: (number(3) - number(2)) * 100,
        };
        if begin <= number(0) && number(1) <= end {
            whole.push(request);
        } else if begin <= number(1) && number(0) <= end {
            part.push(request);
        }
    }
    Asked { records, whole, part }
}

/// Scenario: a client asks for a path that calls `GC.Collect`, one request after the other; workstation and server GC.
/// Guarantee: the time for which gcwatch says that this call stopped the service is what `GC.GetTotalPauseDuration()`
/// said around its requests, within 2 %. (Three tries: the runtime's own figure ends before threads are let go, which
/// takes as long as there is no CPU for it.)
fn a_caller_stopped_it_as_long_as_it_counted(runtime: Runtime) {
    let live = ("SLIVE", "20");
    let server = [live, ("DOTNET_gcServer", "1"), ("DOTNET_GCHeapCount", "2")];
    for env in [&[live][..], &server] {
        let mut tries = Vec::new();
        let agrees = (0..3).any(|_| {
            let (off, context) = stopped_beside_its_own_figure(runtime, env);
            println!("{} {env:?}: {:.2} % off", runtime.name, off * 100.0);
            assert!(off < 0.1, "{context}");
            tries.push(context);
            off <= 0.02
        });
        assert!(agrees, "{tries:#?}");
    }
}

/// By which share of the service's own figure gcwatch's is beside the range that it leaves, and what was compared.
fn stopped_beside_its_own_figure(runtime: Runtime, env: &[(&str, &str)]) -> (f64, String) {
    let asked = ask(
        runtime,
        env,
        &["/gc?generation=2"],
        Duration::from_millis(150),
        ["callers", "7s"],
    );
    let collects = asked.records.iter().filter(|record| record["api"] == "GC.Collect");
    let said: i64 = collects.map(|record| record["stopped_ns"].as_i64().unwrap()).sum();
    let sum = |requests: &[Logged]| requests.iter().map(|one| one.stopped_ns).sum::<i64>();
    let (least, most) = (sum(&asked.whole), sum(&asked.whole) + sum(&asked.part));
    let context = format!("{env:?}: {said} of {least} to {most}: {:#?}", asked.records);
    // Each stops for a third of a second where four services share two slow CPUs: the figures are compared, not the host.
    assert!(asked.whole.len() >= 5, "{context}");
    let off = (least - said).max(said - most).max(0);
    (off as f64 / least as f64, context)
}

/// Scenario: a service on .NET 10 under load on five endpoints, lambdas of one method behind a middleware.
/// Guarantee: the five sites that allocate most are code of these endpoints. Those that allocate known bytes are one
/// site each, named by their place in it, with about those bytes: within bounds that chance leaves once in a million
/// runs.
fn the_busiest_sites_are_endpoints(runtime: Runtime) {
    let paths = ["/alloc?kb=400", "/loh?mb=1", "/slow?ms=1", "/json", "/cache"];
    let asked = ask(
        runtime,
        &[("SLIVE", "10")],
        &paths,
        Duration::from_millis(1),
        ["allocations", "4s"],
    );
    let sites = asked
        .records
        .iter()
        .filter(|record| record["kind"] == "allocation_site");
    let busiest: Vec<&Value> = sites.clone().take(5).collect();
    for site in &busiest {
        let name = site["site"].as_str().unwrap();
        assert!(name.starts_with("Program.Main (lambda "), "{name}: {busiest:#?}");
    }
    // By their place in the program. Arrays of 2,000 bytes, one for each 2 KiB; one of a mebibyte; one of 50,000 bytes.
    let known = [
        ("/alloc", "Program.Main (lambda 4)", 200.0 * 2024.0),
        ("/loh", "Program.Main (lambda 5)", 1_048_600.0),
        ("/slow", "Program.Main (lambda 7)", 50_024.0),
    ];
    for (path, name, bytes) in known {
        let requests = |of: &[Logged]| of.iter().filter(|one| one.path == path).count() as f64;
        let (least, most) = (requests(&asked.whole), requests(&asked.whole) + requests(&asked.part));
        let site = busiest.iter().find(|site| site["site"] == name);
        let site = site.unwrap_or_else(|| panic!("{path}: {busiest:#?}"));
        let [estimate, samples] = ["estimate", "samples"].map(|key| site[key].as_f64().unwrap());
        // The fewer samples, the less is known; five times their deviation.
        let spread = 5.0 / samples.sqrt();
        assert!(
            estimate >= least * bytes * (1.0 - spread) && estimate <= most * bytes * (1.0 + spread),
            "{path}: {least} to {most} requests: {site}"
        );
    }
}
