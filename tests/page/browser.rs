//! A headless browser, controlled over WebDriver: JSON over plain HTTP.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use serde_json::{Value, json};
use test_support::harness::{Missing, Need, unless_skipped};
use test_support::repository;

/// Timeout for every action of the page.
const ACTION_TIMEOUT: Duration = Duration::from_secs(30);

const DRIVER: &str = "chromedriver";
const BROWSERS: [&str; 2] = ["chromium", "google-chrome"];

fn found(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
}

/// Returns an error if no browser is available, or if `GCWATCH_SKIP_LIVE` skips its tests.
pub(crate) fn need() -> Need {
    unless_skipped("browser")?;
    if found(DRIVER).is_some() && BROWSERS.iter().any(|name| found(name).is_some()) {
        return Ok(());
    }
    Err(Missing::Ignored(
        "no browser: apt-get install chromium chromium-driver".to_owned(),
    ))
}

/// Returns whether an answer is an error record.
fn is_refused(value: &Value) -> bool {
    value.get("error").is_some_and(|error| !error.is_null())
}

/// The browser, while no test uses it. The tests use one browser one after the other. Each test opens its own address.
static RESTING: Mutex<Option<Browser>> = Mutex::new(None);

/// The browser of a test. After a failed test, the browser is closed, because its state is unknown.
pub(crate) struct LentBrowser(Option<Browser>);

impl LentBrowser {
    /// Returns a browser in its initial state: without a set size and without earlier log entries.
    pub(crate) fn new() -> Self {
        let resting = RESTING.lock().unwrap().take();
        let browser = resting.inspect(|browser| {
            browser.open("about:blank");
            for (command, parameters) in [
                ("Emulation.clearDeviceMetricsOverride", json!({})),
                ("Emulation.setEmulatedMedia", json!({ "features": [] })),
            ] {
                browser.devtools(command, parameters);
            }
            browser.complaints();
        });
        Self(Some(browser.unwrap_or_else(Browser::start)))
    }
}

impl Deref for LentBrowser {
    type Target = Browser;

    fn deref(&self) -> &Browser {
        self.0.as_ref().unwrap()
    }
}

impl Drop for LentBrowser {
    fn drop(&mut self) {
        let browser = self.0.take().filter(|_| !thread::panicking());
        if let Ok(mut resting) = RESTING.lock() {
            *resting = browser;
        }
    }
}

/// Closes the shared browser.
pub(crate) fn end() {
    drop(RESTING.lock().map(|mut resting| resting.take()));
}

/// A browser with one window.
pub(crate) struct Browser {
    driver: Child,
    port: u16,
    session: String,
}

impl Browser {
    fn start() -> Self {
        let mut driver = Command::new(found(DRIVER).unwrap())
            .args(["--port=0", "--log-level=WARNING"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let said = BufReader::new(driver.stdout.take().unwrap());
        let mut lines = said.lines().map_while(Result::ok);
        let port = lines.find_map(|line| {
            let port = line.split_once("started successfully on port ")?.1;
            port.trim_end_matches('.').parse().ok()
        });
        let mut browser = Self {
            driver,
            port: port.unwrap(),
            session: String::new(),
        };
        let program = BROWSERS.iter().find_map(|name| found(name)).unwrap();
        let arguments = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--force-color-profile=srgb",
        ];
        let wanted = json!({ "capabilities": { "alwaysMatch": {
            "goog:chromeOptions": { "binary": program, "args": arguments },
            "goog:loggingPrefs": { "browser": "ALL" },
        } } });
        let begun = browser.ask("POST", "/session", &wanted);
        begun["sessionId"].as_str().unwrap().clone_into(&mut browser.session);
        browser
    }

    /// Sends a command of the protocol. Returns its result or an error record.
    fn answer(&self, method: &str, path: &str, body: &Value) -> Value {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(ACTION_TIMEOUT * 2)).unwrap();
        let body = body.to_string();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
             Connection: close\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        // The driver leaves the connection open, so read only the announced number of bytes.
        let mut answer = BufReader::new(stream);
        let (mut line, mut length) = (String::new(), 0);
        while answer.read_line(&mut line).unwrap() > 2 {
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            line.clear();
        }
        let mut body = vec![0; length];
        answer.read_exact(&mut body).unwrap();
        let mut body: Value = serde_json::from_slice(&body).unwrap();
        body["value"].take()
    }

    /// Sends a command that must succeed.
    fn ask(&self, method: &str, path: &str, body: &Value) -> Value {
        let value = self.answer(method, path, body);
        assert!(!is_refused(&value), "{method} {path}: {value}");
        value
    }

    fn command(&self, name: &str, body: &Value) -> Value {
        self.ask("POST", &format!("/session/{}/{name}", self.session), body)
    }

    fn devtools(&self, command: &str, parameters: Value) -> Value {
        self.command("goog/cdp/execute", &json!({ "cmd": command, "params": parameters }))
    }

    /// Opens an address and waits until the page is loaded, because a new hash in a page that still loads would replace
    /// the history entry.
    pub(crate) fn open(&self, url: &str) {
        self.command("url", &json!({ "url": url }));
        self.until("document.readyState === 'complete'");
    }

    pub(crate) fn back(&self) {
        self.command("back", &json!({}));
    }

    /// Returns the result of a script.
    pub(crate) fn run(&self, script: &str) -> Value {
        self.command("execute/sync", &json!({ "script": script, "args": [] }))
    }

    /// Waits until an expression is true.
    pub(crate) fn until(&self, expression: &str) {
        let end = Instant::now() + ACTION_TIMEOUT;
        while self.run(&format!("return Boolean({expression})")) != json!(true) {
            if Instant::now() > end {
                let text = self.run("return document.body.innerText.slice(0, 2000)");
                panic!(
                    "not within {ACTION_TIMEOUT:?}: {expression}\n{}\n{:?}",
                    text.as_str().unwrap(),
                    self.complaints()
                );
            }
            thread::sleep(Duration::from_millis(100));
        }
    }

    /// Clicks in the middle of the first element that matches a selector, like a user: as soon as the element exists
    /// and no element that is still being drawn covers or replaces it.
    pub(crate) fn click(&self, selector: &str) {
        let end = Instant::now() + ACTION_TIMEOUT;
        loop {
            let refusal = match self.try_click(selector) {
                Ok(()) => return,
                Err(refusal) => refusal,
            };
            assert!(
                Instant::now() < end,
                "clickable within {ACTION_TIMEOUT:?}: {selector}: {refusal}"
            );
            thread::sleep(Duration::from_millis(100));
        }
    }

    fn try_click(&self, selector: &str) -> Result<(), Value> {
        let command = |name: &str, body: &Value| {
            let value = self.answer("POST", &format!("/session/{}/{name}", self.session), body);
            if is_refused(&value) { Err(value) } else { Ok(value) }
        };
        let element = command("element", &json!({ "using": "css selector", "value": selector }))?;
        let (_, id) = element.as_object().unwrap().iter().next().unwrap();
        command(&format!("element/{}/click", id.as_str().unwrap()), &json!({}))?;
        Ok(())
    }

    /// Types on the keyboard into the focused element.
    pub(crate) fn keys(&self, keys: &str) {
        let presses = keys.chars().flat_map(|key| {
            [
                json!({ "type": "keyDown", "value": key.to_string() }),
                json!({ "type": "keyUp", "value": key.to_string() }),
            ]
        });
        let presses: Vec<Value> = presses.collect();
        self.command(
            "actions",
            &json!({ "actions": [{ "type": "key", "id": "keyboard", "actions": presses }] }),
        );
    }

    /// Sets the size of the window and the theme of the system.
    pub(crate) fn shape(&self, width: u32, height: u32, dark: bool) {
        let metrics = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.devtools("Emulation.setDeviceMetricsOverride", metrics);
        let theme = if dark { "dark" } else { "light" };
        let features = json!([{ "name": "prefers-color-scheme", "value": theme }]);
        self.devtools("Emulation.setEmulatedMedia", json!({ "features": features }));
    }

    /// Writes a screenshot to `target/page/NAME.png` for a visual check, only if `GCWATCH_PAGE_PICTURES` is set.
    pub(crate) fn picture(&self, name: &str, most_height: u32) {
        if env::var_os("GCWATCH_PAGE_PICTURES").is_some() {
            self.screenshot(&repository(&format!("target/page/{name}.png")), most_height);
        }
    }

    /// Writes a screenshot of the complete page, down to `most_height` pixels.
    pub(crate) fn screenshot(&self, file: &Path, most_height: u32) {
        let size = self.run("return [innerWidth, Math.max(innerHeight, document.documentElement.scrollHeight)]");
        let height = size[1].as_u64().unwrap().min(most_height.into());
        let clip = json!({ "x": 0, "y": 0, "width": size[0], "height": height, "scale": 1 });
        let parameters = json!({ "format": "png", "captureBeyondViewport": true, "clip": clip });
        let image = self.devtools("Page.captureScreenshot", parameters);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, base64(image["data"].as_str().unwrap())).unwrap();
    }

    /// Returns the browser's log entries since the last call: failed scripts and violated policies.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let log = self.command("se/log", &json!({ "type": "browser" }));
        let entries = log.as_array().unwrap().iter();
        entries
            .filter_map(|entry| Some(entry["message"].as_str()?.to_owned()))
            .collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !self.session.is_empty() && !thread::panicking() {
            self.ask("DELETE", &format!("/session/{}", self.session), &json!({}));
        }
        // The driver can have exited by itself.
        let _ended = self.driver.kill();
        let _status = self.driver.wait();
    }
}

fn base64(text: &str) -> Vec<u8> {
    let digit = |c: u8| match c {
        b'A'..=b'Z' => Some(c - b'A'),
        b'a'..=b'z' => Some(c - b'a' + 26),
        b'0'..=b'9' => Some(c - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    let (mut bits, mut count, mut bytes) = (0u32, 0, Vec::with_capacity(text.len() / 4 * 3));
    for six in text.bytes().filter_map(digit) {
        bits = bits << 6 | u32::from(six);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    bytes
}
