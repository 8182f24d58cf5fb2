//! The page over a daemon that reads real processes.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;
use test_support::harness::Tests;
use test_support::runtimes::NET_10;
use test_support::target::Start;
use test_support::{add_tests, repository};

use crate::browser::{Browser, need};

pub(crate) fn tests(tests: &mut Tests) {
    add_tests!(tests, need; live_processes_are_followed);
}

/// `gcwatch run`, killed at the end, and its address.
struct Daemon(Child, String);

impl Daemon {
    /// It reads the processes with this mark.
    fn start(mark: &str, folder: &TempDir) -> Self {
        let config = folder.path().join("gcwatch.yaml");
        let text = format!(
            "targets: {{include: [{{environment: {{GCWATCH_TEST_MARK: '{mark}'}}}}], lease_folder: {}, \
             scan_interval: 1s}}\notlp: {{enabled: false}}\nlisten: 127.0.0.1:0\n",
            folder.path().join("leases").display()
        );
        fs::write(&config, text).unwrap();
        let mut daemon = Command::new(env!("CARGO_BIN_EXE_gcwatch"))
            .args(["run", "--config"])
            .arg(&config)
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(daemon.stderr.take().unwrap())
            .lines()
            .map_while(Result::ok);
        let line = lines.find(|line| line.contains("listening at http://")).unwrap();
        let address = line.split("http://").nth(1).unwrap().split('/').next().unwrap();
        let daemon = Self(daemon, address.to_owned());
        // What it says later must not fill the pipe.
        std::thread::spawn(move || lines.for_each(drop));
        daemon
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.1)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _it_ended_before = self.0.kill();
        let _it_was_awaited = self.0.wait();
    }
}

/// Scenario: a daemon, and a browser on its page before there is a process; then a program begins that asks for
/// collections all the time, and one that is well. Later the first is killed.
/// Guarantee: without a reload both are in the overview, the sick one above, with its name, its pauses and its
/// incident; its page has a mark for each collection and the same figures as the record; when it is killed, its page
/// says so.
fn live_processes_are_followed() {
    let folder = tempfile::Builder::new().prefix("gcw").tempdir().unwrap();
    let mark = folder.path().file_name().unwrap().to_str().unwrap().to_owned();
    let daemon = Daemon::start(&mark, &folder);
    let browser = Browser::start();
    browser.shape(1400, 900, false);
    browser.open(&daemon.url("/"));
    browser.until("document.getElementById('live').className.includes('on')");
    let start = |mode: &'static str, name: &str| {
        let start = Start::new(NET_10, mode).env("GCWATCH_TEST_MARK", &mark);
        start.env("OTEL_SERVICE_NAME", name).spawn()
    };
    let well = start("steady", "well");
    let sick = start("collect", "sick");
    browser.until("document.querySelectorAll('table.processes tbody tr').length === 2");
    // It may be one for information, which is folded up.
    browser.until("document.querySelector('.incident')?.textContent.includes('sick')");
    browser.until("document.querySelector('table.processes tbody tr')?.innerText.includes('sick')");
    browser.screenshot(&repository("target/page/live-overview.png"), 1200);
    browser.run(
        "[...document.querySelectorAll('table.processes tbody a')].find((link) => link.textContent === 'sick').click()",
    );
    let pid = sick.pid();
    browser.until(&format!("location.pathname === '/processes/{pid}'"));
    browser.until("document.querySelector('#chart-pauses svg path')");
    browser.until("document.querySelector('.incident .remedy')");
    let asked = format!(
        "return fetch('/api/v1/processes/{pid}').then((answer) => answer.json()).then((record) => [record.process.collections, document.body.innerText])"
    );
    let shown = browser.run(&asked);
    let collections = shown[0].as_u64().unwrap();
    assert!(collections > 1, "{collections}");
    assert!(shown[1].as_str().unwrap().contains("Why it collects"));
    // What is drawn grows by itself.
    let newest = "Math.max(...[...document.querySelectorAll('a[href*=collections]')].map((link) => Number(link.textContent) || 0))";
    let before = browser.run(&format!("return {newest}")).as_f64().unwrap();
    browser.until(&format!("{newest} > {before} + 5"));
    browser.screenshot(&repository("target/page/live-process.png"), 4000);
    drop(sick);
    browser.until("/exited|No process of pid/.test(document.body.innerText)");
    browser.open(&daemon.url("/"));
    browser.until("document.querySelector('table.processes tbody tr')?.innerText.includes('well')");
    let complaints: Vec<String> = browser.complaints();
    assert_eq!(complaints, Vec::<String>::new());
    assert_ne!(browser.run("return document.title"), Value::Null);
    drop(well);
}
