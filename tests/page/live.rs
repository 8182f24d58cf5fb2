//! The page of a daemon that reads real processes.

use serde_json::Value;
use test_support::add_tests;
use test_support::harness::Tests;
use test_support::runtimes::NET_10;
use test_support::scene::Scene;

use crate::browser::{LentBrowser, need};

pub(crate) fn tests(tests: &mut Tests) {
    add_tests!(tests, need; live_processes_are_followed);
}

/// Scenario: a browser shows the page of a daemon before any process exists; then one program that collects
/// continuously and one healthy program start. Later, the first program is killed.
/// Guarantee: both programs appear in the overview without a reload, the faulty program first, with its name and
/// incident. The page of the faulty program shows marks of collections and the remedy, and is updated without a reload.
/// After the kill, this page reports the exit.
fn live_processes_are_followed() {
    let scene = Scene::begin();
    // Lower the bound of the rule, because the share of stopped time depends on the speed of the host and is about 20
    // %, the shipped bound of a warning.
    let lower =
        "apiVersion: gcwatch/v1\noverrides:\n  - id: time.stopped\n    add: { params: { share_error: 0.10 } }\n";
    std::fs::write(scene.folder().join("lower.yaml"), lower).unwrap();
    let daemon = scene.daemon(&format!("rules: {{files: [{}]}}\n", scene.path("lower.yaml")));
    let browser = LentBrowser::new();
    browser.shape(1400, 900, false);
    browser.open(&format!("http://{}/", daemon.address));
    browser.until("document.getElementById('live').className.includes('on')");
    let start = |mode, name| scene.start(NET_10, mode).env("OTEL_SERVICE_NAME", name).spawn();
    let well = start("steady", "well");
    let sick = start("storm", "sick");
    browser.until("document.querySelectorAll('table.processes tbody tr').length === 2");
    browser.until("document.querySelector('.incident')?.textContent.includes('sick')");
    browser.until("document.querySelector('table.processes tbody tr')?.innerText.includes('sick')");
    browser.picture("live-overview", 1200);
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
    assert!(shown[1].as_str().unwrap().contains("Causes of collections"));
    // The page updates by itself.
    let newest = "Math.max(...[...document.querySelectorAll('a[href*=collections]')].map((link) => Number(link.textContent) || 0))";
    let before = browser.run(&format!("return {newest}")).as_f64().unwrap();
    browser.until(&format!("{newest} > {before} + 5"));
    browser.picture("live-process", 4000);
    drop(sick);
    browser.until("/exited|No process with pid/.test(document.body.innerText)");
    browser.open(&format!("http://{}/", daemon.address));
    browser.until("document.querySelector('table.processes tbody tr')?.innerText.includes('well')");
    let complaints: Vec<String> = browser.complaints();
    assert_eq!(complaints, Vec::<String>::new());
    assert_ne!(browser.run("return document.title"), Value::Null);
    drop(well);
}
