//! Tests of each view, with screenshots.

use std::collections::BTreeSet;
use std::env;
use std::ops::Deref;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use clr_evidence::flame;
use gcwatch::pipeline::Records;
use incidents::{Finding, FoundAllocations, FoundAmount, FoundCensus, FoundHolder, FoundKept, FoundLiving, FoundSite};
use serde_json::json;
use test_support::harness::Tests;
use test_support::{add_tests, repository};
use tokio::runtime::Runtime;
use web::Views as _;

use crate::browser::{Browser, LentBrowser, need};
use crate::scene::{HOSTILE, LONG, Scene};

pub(crate) fn tests(tests: &mut Tests) {
    add_tests!(tests, need;
        every_view_fits,
        names_are_text,
        incident_opens_and_ends,
        finding_of_burst_is_shown,
        census_names_are_text,
        stopped_requests_are_shown,
        rows_are_updated_in_place,
        collection_is_three_clicks_from_overview,
        excess_viewer_is_refused,
    );
}

fn played(more: u32) -> (Runtime, Scene) {
    let runtime = Runtime::new().unwrap();
    let scene = runtime.block_on(Scene::new(more));
    (runtime, scene)
}

/// The shared scene of tests that change nothing, with 32 processes. Eight of the processes have a history of up to 31
/// minutes, which is played only once.
struct SharedScene(MutexGuard<'static, Option<(Runtime, Scene)>>);

fn seen() -> SharedScene {
    static SCENE: Mutex<Option<(Runtime, Scene)>> = Mutex::new(None);
    let mut scene = SCENE.lock().unwrap_or_else(PoisonError::into_inner);
    scene.get_or_insert_with(|| played(24));
    SharedScene(scene)
}

impl Deref for SharedScene {
    type Target = Scene;

    fn deref(&self) -> &Scene {
        &self.0.as_ref().unwrap().1
    }
}

fn close(runtime: Runtime, scene: Scene) {
    runtime.block_on(scene.services.close());
    runtime.shutdown_timeout(Duration::from_secs(2));
}

/// Asserts that the browser logged no error and no violation of the policy.
fn is_content(browser: &Browser) {
    let mut complaints = browser.complaints();
    // A path that deliberately does not exist causes this message.
    complaints.retain(|text| !text.contains("status of 404"));
    assert_eq!(complaints, Vec::<String>::new());
}

const ROWS: &str = "document.querySelectorAll('table.processes tbody tr').length";

/// Scenario: there are 32 services, and three processes that are not read. Every view is opened at three widths, in
/// light and dark: first in one theme, then in the other.
/// Guarantee: each view loads without a message of the browser and fits its width.
fn every_view_fits() {
    let scene = seen();
    let browser = LentBrowser::new();
    browser.open(&scene.url("/"));
    browser.until(&format!("{ROWS} === 32"));
    let pid = scene.services.pipeline.runs()[1].key().pid;
    let number = browser.run(&format!(
        "return fetch('/api/v1/processes/{pid}').then((answer) => answer.json()).then((record) => record.longest[0].number)"
    ));
    let views = [
        (
            "overview",
            "/".to_owned(),
            "document.querySelector('table.processes tbody tr')",
        ),
        (
            "not-read",
            "/?unread=1&sort=name&dir=up".to_owned(),
            "document.querySelector('.unread tbody tr')",
        ),
        (
            "process",
            format!("/processes/{pid}"),
            "document.querySelector('#chart-heap svg .area')",
        ),
        (
            "collection",
            format!("/processes/{pid}/collections/{number}"),
            "document.querySelector('#timeline svg')",
        ),
        ("rules", "/rules".to_owned(), "document.querySelector('.rule')"),
        ("self", "/self".to_owned(), "document.querySelector('.facts')"),
        (
            "gone",
            "/processes/4242424242".to_owned(),
            "document.querySelector('h1')?.textContent.includes('No process')",
        ),
        (
            "nowhere",
            "/nowhere".to_owned(),
            "document.querySelector('h1')?.textContent.includes('Page not found')",
        ),
    ];
    for (name, path, shown) in &views {
        for (width, height) in [(390, 844), (1400, 900), (2560, 1440)] {
            let begins_dark = width == 1400;
            for dark in [begins_dark, !begins_dark] {
                browser.shape(width, height, dark);
                // The second theme applies to a page that is already drawn, as when the system switches in the evening.
                if dark == begins_dark {
                    browser.open(&scene.url(path));
                    browser.until(shown);
                }
                let wide = browser.run("return document.documentElement.scrollWidth - innerWidth");
                assert!(wide.as_i64().unwrap() <= 0, "{name} at {width}: {wide} pixels too wide");
                let theme = if dark { "dark" } else { "light" };
                browser.picture(&format!("{name}-{width}-{theme}"), 4000);
            }
        }
    }
    is_content(&browser);
    drop(browser);
}

/// Scenario: the requests of one service are observed; another service is not observed.
/// Guarantee: the page of the first service shows the requests with the most lost time as bars with their stops. Each
/// request has its trace and its collections. A collection is a link while gcwatch keeps it. The counts add up. The
/// page of the other service has no such panel.
fn stopped_requests_are_shown() {
    let scene = seen();
    let browser = LentBrowser::new();
    let pid = |place: usize| scene.services.pipeline.runs()[place].key().pid;
    let heading =
        "[...document.querySelectorAll('h2')].find((title) => title.textContent === 'Requests delayed by pauses')";
    browser.open(&scene.url(&format!("/processes/{}", pid(2))));
    browser.until("document.querySelector('#chart-heap svg .area')");
    assert!(
        browser
            .run(&format!("return {heading} === undefined"))
            .as_bool()
            .unwrap()
    );
    let pid = pid(1);
    browser.open(&scene.url(&format!("/processes/{pid}")));
    browser.until(&format!(
        "{heading}?.parentElement.querySelectorAll('tbody tr').length > 5"
    ));
    let shown = browser.run(&format!("return {heading}.parentElement.textContent"));
    let view = Records::new(&scene.services.pipeline).request_view(pid).unwrap();
    let counts = format!("{} of {} (33", view.hit, view.known);
    assert!(shown.as_str().unwrap().contains(&counts), "{counts}: {shown}");
    assert_eq!((view.count, view.known), (view.hit * 3, view.hit * 3));
    let bars = browser.run(&format!(
        "return {heading}.parentElement.querySelectorAll('svg rect.stop').length"
    ));
    assert_eq!(bars.as_u64().unwrap() as usize, view.worst.len());
    for (width, dark) in [(390, false), (1400, false), (1400, true)] {
        browser.shape(width, 900, dark);
        browser.run(&format!("{heading}.scrollIntoView()"));
        let theme = if dark { "dark" } else { "light" };
        browser.picture(&format!("requests-{width}-{theme}"), 4000);
    }
    // A collection that is no longer kept is a plain number, not a link.
    let leads = browser.run(&format!(
        "return Promise.all([...{heading}.parentElement.querySelectorAll('tbody a[href*=\"/collections/\"]')]
             .map((link) => fetch('/api/v1' + link.pathname).then((answer) => answer.ok))).then((all) => all.every(Boolean))"
    ));
    assert_eq!(leads, json!(true));
    is_content(&browser);
    drop(browser);
}

/// Scenario: the name of one process is HTML, and the name of another is very long.
/// Guarantee: each view shows the names as text: they create no element and run no script, and the content fits the
/// width.
fn names_are_text() {
    let scene = seen();
    let browser = LentBrowser::new();
    browser.shape(390, 844, false);
    let hostile = scene.services.pipeline.runs()[6].key().pid;
    for path in ["/".to_owned(), format!("/processes/{hostile}"), "/rules".to_owned()] {
        browser.open(&scene.url(&path));
        browser.until("document.querySelector('main h1')");
        if path != "/rules" {
            browser.until(&format!("document.body.innerText.includes({})", json!(HOSTILE)));
        }
        assert_eq!(
            browser.run("return document.querySelectorAll('img').length"),
            0,
            "{path}"
        );
        assert_ne!(browser.run("return document.title"), "broken");
        let wide = browser.run("return document.documentElement.scrollWidth - innerWidth");
        assert!(wide.as_i64().unwrap() <= 0, "{path}: {wide} pixels too wide");
    }
    browser.open(&scene.url("/?q=somebody-generated"));
    browser.until(&format!("{ROWS} === 1"));
    let name = browser.run("return document.querySelector('table.processes .name').textContent");
    assert_eq!(name, LONG);
    // The policy cannot be bypassed.
    let refused =
        browser.run("try { document.body.innerHTML = '<b>x</b>'; return 'taken' } catch (error) { return error.name }");
    assert_eq!(refused, "TypeError");
    drop(browser);
}

/// Scenario: a process becomes faulty while the page is open, and exits.
/// Guarantee: without a reload, the page shows the incident with its service, the remedy, and a link to the dashboard
/// of the service that starts 15 minutes earlier. After the end, the incident is in the list of ended incidents. The
/// page of the process states that it has exited and stays unchanged. Later visitors find its page, charts and
/// incidents, and its row among the exited processes.
fn incident_opens_and_ends() {
    let (runtime, mut scene) = played(0);
    let browser = LentBrowser::new();
    browser.open(&scene.url("/"));
    browser.until(&format!("{ROWS} === 8"));
    let card = "[...document.querySelectorAll('main > .incidents .incident')].find((card) => card.textContent.includes('fell-ill'))";
    assert_eq!(browser.run(&format!("return Boolean({card})")), false);
    let pid = {
        let _in = runtime.enter();
        scene.fall_ill()
    };
    browser.until(card);
    let text = browser.run(&format!("return {card}.textContent"));
    let text = text.as_str().unwrap();
    assert!(text.contains("What to do") && text.contains("7777"), "{text}");
    browser.run(&format!("{card}.querySelector('a').click()"));
    browser.until("location.pathname === '/processes/7777' && document.querySelector('.incident .remedy')");
    let dashboard = browser.run(
        "const card = document.querySelector('.incident'); const { href } = card.querySelector('a[href^=\"https://grafana\"]');
         const from = Date.parse(card.querySelector('.when time').dateTime) - 900000;
         return href === `https://grafana.example/d/x?var-service=fell-ill&from=${from}&to=now` || href",
    );
    assert_eq!(dashboard, true);
    scene.exit(pid);
    // The content of the page stays.
    browser.until(
        "document.body.innerText.includes('The process has exited') && document.querySelector('#chart-heap svg .area')",
    );
    browser.open(&scene.url("/processes/7777"));
    browser.until(
        "document.body.innerText.includes('The process has exited') && document.querySelector('#chart-heap svg .area')",
    );
    // The collection that started the incident is available in full.
    let first = "document.querySelector('.incident a[href*=\"/collections/\"]')";
    if browser.run(&format!("return Boolean({first})")) == true {
        browser.run(&format!("{first}.click()"));
        browser.until("document.querySelector('#timeline svg .stop')");
        browser.open(&scene.url("/processes/7777"));
    }
    browser.until("document.querySelector('.incident .remedy')");
    browser.open(&scene.url("/"));
    browser.until(&format!("{ROWS} === 8 && !({card})"));
    // Click by a script, because the list can move while the content above it changes.
    browser.run("document.querySelector('.ended-list.ended > summary').click()");
    browser.until("document.querySelector('.ended-list.ended').innerText.includes('fell-ill')");
    browser.until("document.querySelector('.exited').innerText.includes('fell-ill')");
    is_content(&browser);
    drop(browser);
    close(runtime, scene);
}

/// Scenario: a burst finds the allocating code for an incident whose page is open, in a narrow and in a wide window.
/// Guarantee: without a reload, the page shows the sites and types of the finding, with unbroken short names, and draws
/// the flame graph.
fn finding_of_burst_is_shown() {
    let runtime = Runtime::new().unwrap();
    let mut scene = runtime.block_on(Scene::empty());
    let browser = LentBrowser::new();
    let _in = runtime.enter();
    let pid = scene.fall_ill();
    browser.open(&scene.url("/processes/7777"));
    browser.until("document.querySelector('.incident .remedy')");
    let pipeline = &scene.services.pipeline;
    let run = pipeline
        .runs()
        .iter()
        .map(|run| run.key())
        .find(|run| run.pid == 7777)
        .unwrap();
    let stacks = [(vec!["Main", "Shop.Images.Load"], 4_000_000)];
    let svg = flame::svg("Bytes allocated", &stacks.into(), flame::Unit::Bytes, &BTreeSet::new());
    let amount = FoundAmount {
        estimate: 4_000_000,
        low: Some(3_500_000),
        high: Some(4_500_000),
        samples: 40,
    };
    let site = |site: &str, of: &str| FoundSite {
        site: Some(site.to_owned()),
        r#type: Some(of.to_owned()),
        amount,
        ..FoundSite::default()
    };
    let found = FoundAllocations {
        method: Some("sampled".to_owned()),
        sites: vec![
            site("Shop.Orders.Field", "string"),
            FoundSite {
                called_by: Some("Shop.Program.Learn".to_owned()),
                ..site(
                    "Shop.Memory.Images.Thumbnails.LoadOfOneKindFromTheStoreOfAll",
                    "System.Collections.Generic.Dictionary<string, byte[]>",
                )
            },
        ],
        flame: pipeline.flames().put(run, 1, &svg),
        ..FoundAllocations::default()
    };
    // Incidents that have ended do not accept the finding.
    for number in 1..8 {
        pipeline.found(run, number, Finding::Allocations(found.clone()));
    }
    browser.until("document.querySelector('.incident .found')");
    browser.run("document.querySelector('.incident .evidence summary').click()");
    browser.until("document.querySelector('img.flame')?.naturalWidth > 100");
    for width in [390, 1400] {
        browser.shape(width, 900, false);
        let broken = "return [...document.querySelectorAll('.found code')].filter((code) => code.innerText.length < 18 && \
                      code.getClientRects().length > 1).length";
        assert_eq!(browser.run(broken), 0, "{width}");
        let wide = browser.run("return document.documentElement.scrollWidth - innerWidth");
        assert!(wide.as_i64().unwrap() <= 0, "{width}: {wide} pixels too wide");
        browser.picture(&format!("evidence-{width}-light"), 4000);
        if env::var_os("GCWATCH_UPDATE_GOLDEN").is_some() && width == 1400 {
            browser.run("document.querySelector('.incident .evidence details').open = false");
            browser.screenshot(&repository("docs/pictures/incident.png"), 860);
        }
    }
    is_content(&browser);
    scene.exit(pid);
    drop(browser);
    close(runtime, scene);
}

/// Scenario: in a heap dump, names of a type and of static fields contain HTML, quotes or styles, are very long, or
/// change the text direction. The sum of the sizes exceeds the heap.
/// Guarantee: the tables and the treemap show the names as text, and the names create no element. The cells stay inside
/// their box, and the content fits the width.
fn census_names_are_text() {
    let runtime = Runtime::new().unwrap();
    let mut scene = runtime.block_on(Scene::empty());
    let browser = LentBrowser::new();
    let _in = runtime.enter();
    let pid = scene.fall_ill();
    browser.open(&scene.url("/processes/7777"));
    browser.until("document.querySelector('.incident .remedy')");
    let pipeline = &scene.services.pipeline;
    let runs = pipeline.runs();
    let run = runs.iter().map(|run| run.key()).find(|run| run.pid == 7777).unwrap();
    let long = "N".repeat(4000);
    let names = [
        HOSTILE,
        "</span><script>document.title='broken'</script>",
        "\"; position: fixed; left: 0; \"",
        &long,
        "\u{202e}desrever",
    ];
    let found = FoundCensus {
        bytes: Some(1000),
        objects: Some(5),
        types: vec![FoundLiving {
            r#type: HOSTILE.to_owned(),
            objects: 5,
            bytes: 1000,
            root: Some(HOSTILE.to_owned()),
            path: vec![HOSTILE.to_owned(); 3],
            ..FoundLiving::default()
        }],
        roots: names
            .map(|name| FoundHolder {
                root: name.to_owned(),
                ..FoundHolder::default()
            })
            .into(),
        kept_by: names
            .map(|name| FoundKept {
                root: name.to_owned(),
                retained: u64::MAX / 2,
            })
            .into(),
        ..FoundCensus::default()
    };
    for number in 1..8 {
        pipeline.found(run, number, Finding::Census(found.clone()));
    }
    browser.until("document.querySelector('.incident .treemap')");
    for width in [390, 1400] {
        browser.shape(width, 900, false);
        let cells = browser.run("return document.querySelectorAll('.treemap span').length");
        assert_eq!(cells, names.len(), "{width}");
        let shown = browser.run(&format!(
            "return document.querySelector('.treemap').textContent.includes({})",
            json!(HOSTILE)
        ));
        assert_eq!(shown, true, "{width}");
        assert_eq!(
            browser.run("return document.querySelectorAll('main img, main script').length"),
            0
        );
        assert_ne!(browser.run("return document.title"), "broken");
        let outside = "const box = document.querySelector('.treemap').getBoundingClientRect(); \
                       return [...document.querySelectorAll('.treemap span')].map((cell) => cell.getBoundingClientRect()) \
                       .filter((cell) => cell.left < box.left - 1 || cell.right > box.right + 1 || cell.top < box.top - 1 \
                       || cell.bottom > box.bottom + 1).length";
        assert_eq!(browser.run(outside), 0, "{width}");
        let wide = browser.run("return document.documentElement.scrollWidth - innerWidth");
        assert!(wide.as_i64().unwrap() <= 0, "{width}: {wide} pixels too wide");
    }
    is_content(&browser);
    scene.exit(pid);
    drop(browser);
    close(runtime, scene);
}

/// Scenario: there are 208 processes. The user types a search, clicks a heading, and reloads the page.
/// Guarantee: the matching rows are shown in order, and the address contains the search and the order. An update keeps
/// the row elements and the focus. The duration of the longest task is printed.
fn rows_are_updated_in_place() {
    let (runtime, scene) = played(200);
    let browser = LentBrowser::new();
    browser.shape(1400, 900, false);
    browser.open(&scene.url("/"));
    browser.until(&format!("{ROWS} === 208"));
    browser.keys("/");
    browser.until("document.activeElement.id === 'search'");
    browser.keys("worker-1");
    browser.until(&format!("{ROWS} === 100"));
    browser.click("[data-sort=name]");
    browser.until("location.search.includes('sort=name')");
    let names = "[...document.querySelectorAll('table.processes .name')].map((link) => link.textContent)";
    let names = browser.run(&format!("return {names}"));
    let names: Vec<String> = serde_json::from_value(names).unwrap();
    assert!(names.is_sorted() && names[0] == "worker-100", "{names:?}");
    browser.open(&scene.url("/?q=worker-19&sort=name&dir=down"));
    browser.until(&format!("{ROWS} === 10"));
    let first = browser.run("return document.querySelector('table.processes .name').textContent");
    assert_eq!(first, "worker-199");
    // All rows are updated five times while one has the focus.
    browser.open(&scene.url("/"));
    browser.until(&format!("{ROWS} === 208"));
    browser.keys("jjj");
    let third = browser.run("return document.activeElement.textContent");
    let took = browser.run(
        "window.longest = 0; window.rows = [...document.querySelectorAll('table.processes tbody tr')];
         window.observer = new PerformanceObserver((list) => { for (const entry of list.getEntries()) window.longest = Math.max(window.longest, entry.duration); });
         window.observer.observe({ type: 'longtask', buffered: false });
         let events = 0;
         const follow = new EventSource('/api/v1/events?view=overview');
         return new Promise((done) => follow.addEventListener('overview', () => { events += 1; if (events === 5) { follow.close(); done(window.longest); } }));",
    );
    println!("longest task with 208 rows: {took} ms");
    assert_eq!(
        browser.run("return window.rows.filter((row) => !row.isConnected).length"),
        0
    );
    assert_eq!(browser.run("return document.activeElement.textContent"), third);
    is_content(&browser);
    drop(browser);
    close(runtime, scene);
}

/// Scenario: a user opens the overview, clicks the service of the first incident, then a mark in the chart of pauses,
/// goes back in the browser, and continues with the keyboard.
/// Guarantee: the overview shows service, time and remedy; the next page shows the process; the last page shows one
/// collection with its suspensions. Going back leads to the previous page.
fn collection_is_three_clicks_from_overview() {
    let scene = seen();
    let browser = LentBrowser::new();
    browser.shape(1400, 900, true);
    browser.open(&scene.url("/"));
    browser.until("document.querySelector('.incident .when time')");
    browser.click(".incident .service a");
    browser.until("document.querySelector('#chart-pauses svg .dots')");
    // Click the mark of the longest collection at its position in the chart.
    browser.run(
        "const svg = document.querySelector('#chart-pauses svg'); svg.focus();
         svg.dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowLeft', bubbles: true }));",
    );
    browser.until(
        "!document.getElementById('tip').hidden && document.getElementById('tip').innerText.includes('collection')",
    );
    browser.run(
        "const circle = document.querySelector('#chart-pauses .cursor'); const box = circle.ownerSVGElement.getBoundingClientRect();
         circle.ownerSVGElement.dispatchEvent(new MouseEvent('click', { bubbles: true, clientX: box.left + Number(circle.getAttribute('cx')), clientY: box.top + Number(circle.getAttribute('cy')) }));",
    );
    browser.until("location.pathname.includes('/collections/') && document.querySelector('.facts')");
    let here = browser.run("return location.pathname");
    browser.keys("\u{e012}");
    browser.until(&format!(
        "location.pathname !== {here} && location.pathname.includes('/collections/')"
    ));
    browser.back();
    browser.until(&format!("location.pathname === {here}"));
    browser.back();
    browser.until("/^.processes.\\d+$/.test(location.pathname) && document.querySelector('#chart-heap svg .area')");
    // The longest collections are kept in full.
    browser.run(
        "[...document.querySelectorAll('section')].find((panel) => panel.querySelector('h2')?.textContent.startsWith('Longest collections'))
         .querySelector('td a').click()",
    );
    browser.until("document.querySelector('#timeline svg .stop')");
    browser.keys("r");
    browser.until("location.pathname === '/rules' && document.querySelector('.rule.firing')");
    is_content(&browser);
    drop(browser);
}

/// Scenario: 16 viewers follow events, and a 17th viewer connects; then one of the 16 leaves.
/// Guarantee: the 17th viewer is refused with a remedy, records are still served, and the free slot can be used.
fn excess_viewer_is_refused() {
    let runtime = Runtime::new().unwrap();
    let scene = runtime.block_on(Scene::empty());
    let browser = LentBrowser::new();
    browser.open(&scene.url("/self"));
    browser.until("document.querySelector('.facts')");
    // The browser opens at most six connections to a host, so the other viewers are plain connections.
    let address = scene.services.address().unwrap();
    let ask = || {
        use std::io::{Read as _, Write as _};
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        write!(stream, "GET /api/v1/events HTTP/1.1\r\nHost: {address}\r\n\r\n").unwrap();
        let mut head = vec![0; 4096];
        let count = stream.read(&mut head).unwrap();
        (stream, String::from_utf8_lossy(&head[..count]).into_owned())
    };
    let mut others: Vec<_> = (0..15).map(|_| ask()).collect();
    assert!(others.iter().all(|(_, head)| head.starts_with("HTTP/1.1 200")));
    let (_, refused) = ask();
    assert!(
        refused.starts_with("HTTP/1.1 503") && refused.contains("retry-after"),
        "{refused}"
    );
    browser.until("document.body.innerText.includes('16 of 16')");
    let status = browser.run("return fetch('/api/v1/overview').then((answer) => answer.status)");
    assert_eq!(status, 200);
    others.pop();
    browser.until("document.body.innerText.includes('15 of 16')");
    let (_, head) = ask();
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    drop(browser);
    drop(others);
    close(runtime, scene);
}
