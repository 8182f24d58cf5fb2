//! `gcwatch analyze --html`: a file that opens without a server.

use std::fs;
use std::path::Path;

use api::gc::Subject;
use base::time::UnixBase;
use clr_gc::stream::Scope;
use gcwatch::view;
use recording::source::Source;
use recording::{ProcessHistory, Recording};
use test_support::harness::Tests;
use test_support::program::{gcwatch, written};
use test_support::{add_tests, repository};

use crate::browser::{LentBrowser, need};

pub(crate) fn tests(tests: &mut Tests) {
    add_tests!(tests, need;
        report_opens_without_server,
        several_recordings_are_compared,
        collections_of_two_processes_are_distinct,
        name_in_report_is_text,
    );
}

/// Returns the URL of a report about recordings.
fn page_of(recordings: &[impl AsRef<Path>], folder: &Path) -> String {
    let file = folder.join("report.html");
    let mut args: Vec<&Path> = vec!["analyze".as_ref(), "--html".as_ref(), &file];
    args.extend(recordings.iter().map(AsRef::as_ref));
    written(gcwatch(args));
    format!("file://{}", file.display())
}

/// Scenario: two reports are opened as files: the report of a web service with requests, and the report of a process
/// that runs out of memory. Each report is opened at three widths, light and dark, and a collection is clicked.
/// Guarantee: all charts are drawn; alerts, rules without a result, and the complete collection are shown; the content
/// fits the width, and the browser logs no error.
fn report_opens_without_server() {
    let browser = LentBrowser::new();
    // The first recording is too short for many rules, so their silence is not an all-clear.
    for (name, recording, verdict) in [
        (
            "report-shop",
            "tests/recordings/requests/net8-shop.nettrace.gz",
            "document.body.innerText.includes('No incident in this recording')",
        ),
        (
            "report-oom",
            "tests/recordings/net10-lohoos.nettrace.gz",
            "document.querySelector('.incident .remedy')",
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let url = page_of(&[repository(recording)], folder.path());
        for (width, height) in [(390, 844), (1400, 900), (2560, 1440)] {
            for dark in [false, true] {
                browser.shape(width, height, dark);
                browser.open("about:blank");
                browser.open(&url);
                browser.until("document.querySelector('#chart-allocation svg .bar')");
                browser.until("document.querySelectorAll('#chart-pauses svg .dots').length === 5");
                browser.until("document.querySelector('#chart-heap svg .area')");
                browser.until(verdict);
                let wide = browser.run("return document.documentElement.scrollWidth - innerWidth");
                assert!(wide.as_i64().unwrap() <= 0, "{name} at {width}: {wide} pixels too wide");
                let theme = if dark { "dark" } else { "light" };
                browser.picture(&format!("{name}-{width}-{theme}"), 4000);
            }
        }
        browser.run("document.querySelector('a[href*=\"-collection-\"]').scrollIntoView()");
        browser.click("a[href*='-collection-']");
        browser.until("document.querySelector('#chosen #timeline svg')");
        browser.picture(&format!("{name}-collection"), 4000);
        browser.run("document.querySelector('#chosen button').click()");
        browser.until("!document.getElementById('chosen')");
    }
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

/// Scenario: a report has three recordings; the second recording is selected, one of its collections is opened, and the
/// browser goes back twice.
/// Guarantee: each recording is a line with its figures, the content fits each width, the selection is shown, and going
/// back leads to the first recording.
fn several_recordings_are_compared() {
    let names = ["net10-steady", "net10-lohoos", "requests/net8-shop"];
    let files = names.map(|name| repository(&format!("tests/recordings/{name}.nettrace.gz")));
    let folder = tempfile::tempdir().unwrap();
    let url = page_of(&files, folder.path());
    let browser = LentBrowser::new();
    for width in [390, 1400, 2560] {
        browser.shape(width, 900, width == 2560);
        browser.open("about:blank");
        browser.open(&url);
        browser.until("document.querySelectorAll('.contents tbody tr').length === 3");
        let wide = browser.run("return document.documentElement.scrollWidth - innerWidth");
        assert!(wide.as_i64().unwrap() <= 0, "{width}: {wide} pixels too wide");
        browser.picture(&format!("report-several-{width}"), 2000);
    }
    let title = "document.querySelector('h1').textContent";
    browser.until(&format!("{title} === 'net10-steady.nettrace.gz'"));
    browser.click("a[href='#process-2']");
    browser.until(&format!("{title} === 'net10-lohoos.nettrace.gz'"));
    browser.until("document.querySelector('.incident')?.textContent.includes('exhausted')");
    browser.run("document.querySelector('a[href^=\"#process-2-collection-\"]').click()");
    browser.until("document.querySelector('#chosen #timeline svg')");
    browser.back();
    browser.until("!document.getElementById('chosen')");
    browser.back();
    browser.until(&format!("{title} === 'net10-steady.nettrace.gz'"));
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

/// Scenario: a recording has two processes whose collections have the same numbers and different pauses; a collection
/// of the second process is opened.
/// Guarantee: the collection of the second process is shown, also if only its address is opened, and going back leads
/// to the previous view.
fn collections_of_two_processes_are_distinct() {
    let mut source = Source::open(&repository("tests/recordings/net10-lohoos.nettrace.gz")).unwrap();
    let mut recording = Recording::read(&mut source, Scope::Collections, |_| ());
    let (first, history) = &recording.processes[0];
    let mut second = ProcessHistory {
        collections: history.collections.clone(),
        ..ProcessHistory::default()
    };
    for collection in &mut second.collections {
        collection.pause_ns = collection.pause_ns.map(|ns| ns + 3_600_000_000_000);
        second.totals.add(collection);
    }
    let subject = Subject {
        pid: Some(4711),
        ..*first
    };
    recording.processes.push((subject, second));
    let page = web::report::page(&view::page(vec![view::recorded(
        &recording,
        UnixBase::at(0),
        None,
        false,
        1,
    )]))
    .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("two.html");
    fs::write(&file, page).unwrap();
    let browser = LentBrowser::new();
    browser.open(&format!("file://{}", file.display()));
    browser.click("a[href='#process-2']");
    browser.until("document.querySelector('.headline').textContent.includes('pid 4711')");
    browser.run("document.querySelector('a[href*=\"-collection-\"]').scrollIntoView()");
    browser.click("a[href*='-collection-']");
    browser.until("document.querySelector('#chosen').textContent.includes('60 min') || document.querySelector('#chosen').textContent.includes('3600')");
    let address = browser.run("return location.href");
    browser.open("about:blank");
    browser.open(address.as_str().unwrap());
    browser.until("document.querySelector('#chosen')");
    let head = browser.run("return document.querySelector('.headline').textContent");
    assert!(head.as_str().unwrap().contains("pid 4711"), "{head}");
    browser.click("#chosen button");
    browser.until("!document.querySelector('#chosen')");
    browser.run("history.back()");
    browser.until("document.querySelector('#chosen')");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

/// Scenario: the name of a recording is HTML that closes the element of the data.
/// Guarantee: the name is shown as text: it creates no element and runs no script.
fn name_in_report_is_text() {
    let folder = tempfile::tempdir().unwrap();
    let name = "<script>window.harm=1<\u{2044}script><img src=x onerror=window.harm=1>.nettrace.gz";
    let recording = folder.path().join(name);
    fs::copy(repository("tests/recordings/net10-steady.nettrace.gz"), &recording).unwrap();
    let url = page_of(&[recording], folder.path());
    let browser = LentBrowser::new();
    browser.open(&url);
    browser.until("document.querySelector('h1')?.textContent.startsWith('<script>')");
    assert_eq!(
        browser.run("return [window.harm ?? null, document.querySelectorAll('img').length]"),
        serde_json::json!([null, 0])
    );
    assert_eq!(browser.complaints(), Vec::<String>::new());
}
