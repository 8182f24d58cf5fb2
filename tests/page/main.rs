//! The page in a real browser: Debian's chromium, controlled through chromedriver.
//!
//! `apt-get install chromium chromium-driver` installs the browser and its driver. If one of them is missing, the tests
//! are `ignored`, with the reason. After a change of the page, check it visually: `GCWATCH_PAGE_PICTURES=1 cargo test
//! --test page` writes screenshots of every view, narrow and wide, light and dark, to `target/page/`.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test fails by panicking")]

mod browser;
mod live;
mod report;
mod scene;
mod views;

use std::process::ExitCode;

use test_support::harness::Tests;

fn main() -> ExitCode {
    // For manual checks: serve the scene of the tests until the program is stopped.
    if let Some(more) = std::env::var("GCWATCH_PAGE_SERVE")
        .ok()
        .and_then(|more| more.parse().ok())
    {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let scene = runtime.block_on(scene::Scene::new(more));
        println!("{}", scene.url("/"));
        runtime.block_on(std::future::pending::<()>());
    }
    let mut tests = Tests::default();
    views::tests(&mut tests);
    report::tests(&mut tests);
    live::tests(&mut tests);
    // All tests share one browser.
    let code = tests.run(1);
    browser::end();
    code
}
