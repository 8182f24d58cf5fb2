//! Clients of the listener cannot make the health checks fail.

use std::collections::VecDeque;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use test_support::add_tests;
use test_support::daemon::{Daemon, await_within};
use test_support::harness::Tests;
use test_support::scene::Scene;

use crate::serving::{self, SILENT};

pub(crate) fn tests(tests: &mut Tests) {
    add_tests!(
        tests, || Ok(());
        idle_connections_do_not_fail_health_checks,
        flood_does_not_fail_health_checks_over_tls,
        slow_readers_do_not_fail_health_checks,
        slow_readers_of_recordings_do_not_block_others,
        viewers_that_do_not_read_lose_their_slots,
        foreign_names_are_refused_on_loopback,
        probes_outside_loopback_are_answered_under_any_name,
        pages_forbid_inline_scripts,
    );
    add_tests!(tests, crate::need_root; private_data_is_for_user_of_daemon);
}

/// Returns the HTTP status of a path for another user of this host (uid 65534), or an empty string if no answer
/// arrives.
fn as_nobody(address: SocketAddr, path: &str) -> String {
    let script = format!(
        "exec 3<>/dev/tcp/127.0.0.1/{}; printf 'GET {path} HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n\\r\\n' \
         >&3; head -1 <&3",
        address.port()
    );
    let mut command = std::process::Command::new("bash");
    let made = command.args(["-c", &script]).uid(65_534).gid(65_534).output().unwrap();
    let line = String::from_utf8(made.stdout).unwrap();
    line.split(' ').nth(1).unwrap_or_default().to_owned()
}

/// Scenario: on loopback and without logins, root, another user, and a proxy of root that forwards a request ask for
/// recordings and figures.
/// Guarantee: the other user gets figures, but no recordings. Only the direct request of root is permitted to read
/// recordings; the forwarded request is not.
fn private_data_is_for_user_of_daemon() {
    let daemon = serving::alone("");
    let private = "/api/v1/evidence/";
    let of_root = get(daemon.address, private, "localhost", PROBE).unwrap().0;
    // The daemon has no recordings, so root gets 404.
    assert_eq!(of_root, 404);
    assert_eq!(as_nobody(daemon.address, private), "403");
    assert_eq!(as_nobody(daemon.address, "/api/v1/overview"), "200");
    let proxied = get(daemon.address, private, "localhost\r\nX-Forwarded-For: 10.0.0.1", PROBE);
    assert_eq!(proxied.unwrap().0, 403);
    daemon.end();
}

/// Timeout of a probe, which is the default of the kubelet.
const PROBE: Duration = Duration::from_secs(1);

/// Requests a path under a host name. Returns `None` if no answer arrives in time.
pub(crate) fn get(address: SocketAddr, path: &str, host: &str, within: Duration) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect_timeout(&address, within).ok()?;
    stream.set_read_timeout(Some(within)).unwrap();
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
    )
    .ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let status = answer.split(' ').nth(1)?.parse().ok()?;
    Some((status, answer))
}

/// Maximum number of consecutive late answers. After one more, the kubelet restarts a container by default.
const MAY_BE_LATE: usize = 2;

/// Asserts that five health probes succeed. Up to [`MAY_BE_LATE`] answers in a row can be late, because the machine can
/// be busy. A refused or reset connection fails the test at once.
fn assert_healthy(daemon: &Daemon, context: &str) {
    for _ in 0..5 {
        let mut late = 0;
        loop {
            let asked = Instant::now();
            let answer = get(daemon.address, "/livez", "localhost", PROBE);
            let elapsed = asked.elapsed();
            if answer.is_none() && elapsed >= PROBE && late < MAY_BE_LATE {
                late += 1;
                continue;
            }
            let status = answer.map(|(status, _)| status);
            assert_eq!(status, Some(200), "{context}, {elapsed:?}, {late} late before it");
            break;
        }
    }
}

/// Scenario: 64, 200, then 900 simultaneous connections are silent, have sent half a request, or are kept open after an
/// answer; a probe runs at the same time.
/// Guarantee: no probe is refused, and fewer probes in a row are late than make the kubelet restart a container. The
/// page is available within ten seconds. The daemon has fewer than 150 open descriptors.
fn idle_connections_do_not_fail_health_checks() {
    let daemon = serving::alone("");
    assert_healthy(&daemon, "no other connections");
    for count in [64, 200, 900] {
        for (kind, first) in [
            ("silent", ""),
            ("half", "GET / HTTP/1.1\r\nHo"),
            ("kept", "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        ] {
            let mut idle = Vec::new();
            for number in 0..count {
                let mut stream = TcpStream::connect(daemon.address).unwrap();
                // The write fails if the daemon has already closed the connection.
                let _closed = stream.write_all(first.as_bytes());
                idle.push(stream);
                if number % 200 == 199 {
                    assert_healthy(&daemon, &format!("{number} {kind}"));
                }
            }
            assert_healthy(&daemon, &format!("{count} {kind}"));
            let sockets = std::fs::read_dir(format!("/proc/{}/fd", daemon.pid())).unwrap().count();
            assert!(sockets < 150, "{sockets} descriptors, {count} {kind}");
            await_within(PROBE * 10, &format!("the page, {count} {kind}"), || {
                get(daemon.address, "/", "localhost", PROBE).is_some_and(|(status, _)| status == 200)
            });
        }
    }
    daemon.end();
}

/// Sends a probe over TLS on an open connection. Returns the status line, or `None` if no answer arrives in time.
fn probe_over_tls(stream: TcpStream, config: &Arc<rustls::ClientConfig>) -> Option<String> {
    stream.set_read_timeout(Some(PROBE)).unwrap();
    let name = "localhost".try_into().unwrap();
    let session = rustls::ClientConnection::new(Arc::clone(config), name).unwrap();
    let mut stream = rustls::StreamOwned::new(session, stream);
    stream
        .write_all(b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .ok()?;
    let mut first = [0; 15];
    stream.read_exact(&mut first).ok()?;
    Some(String::from_utf8_lossy(&first).into_owned())
}

/// Scenario: silent connections occupy all slots of a listener with TLS. A probe connects, and a hundred more
/// connections arrive before its handshake. Then two threads open connections as fast as possible while probes arrive.
/// Guarantee: the first probe is answered within one second; during the flood, fewer probes in a row are late than make
/// the kubelet restart a container.
fn flood_does_not_fail_health_checks_over_tls() {
    let scene = Scene::begin();
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (certificate, key) = (scene.path("tls.crt"), scene.path("tls.key"));
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let web = format!("{SILENT}web: {{tls: {{certificate: '{certificate}', key: '{key}'}}}}\n");
    let mut command = scene.command(&web);
    command.env("TMPDIR", scene.folder());
    let daemon = Daemon::start(command);
    let mut roots = rustls::RootCertStore::empty();
    roots.add(made.cert.der().clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = Arc::new(config.unwrap().with_root_certificates(roots).with_no_client_auth());
    let address = daemon.address;
    let silent =
        |count: usize| -> Vec<TcpStream> { (0..count).map(|_| TcpStream::connect(address).unwrap()).collect() };

    let held = silent(64);
    let probe = TcpStream::connect(address).unwrap();
    let more = silent(100);
    assert_eq!(probe_over_tls(probe, &config).as_deref(), Some("HTTP/1.1 200 OK"));
    drop((held, more));

    let (is_over, count) = (AtomicBool::new(false), AtomicU64::new(0));
    let since = Instant::now();
    let answered: Vec<bool> = std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut newest = VecDeque::new();
                while !is_over.load(Ordering::Relaxed) {
                    // If no port is free, the connection fails, and a later round finds a free port.
                    newest.extend(TcpStream::connect(address));
                    count.fetch_add(1, Ordering::Relaxed);
                    if newest.len() > 300 {
                        newest.pop_front();
                    }
                }
            });
        }
        let probes = (0..20).map(|_| {
            let stream = TcpStream::connect_timeout(&address, PROBE);
            stream.is_ok_and(|stream| probe_over_tls(stream, &config).is_some_and(|answer| answer.contains("200")))
        });
        let answered = probes.collect();
        is_over.store(true, Ordering::Relaxed);
        answered
    });
    let rate = count.into_inner() as f64 / since.elapsed().as_secs_f64();
    println!("{rate:.0} connections a second: {answered:?}");
    let lost = answered.split(|answered| *answered).map(<[bool]>::len).max();
    assert!(lost <= Some(MAY_BE_LATE), "{rate:.0} per second: {answered:?}");
    daemon.end();
}

/// Scenario: 200 connections repeatedly request a large answer and read one byte of it per second.
/// Guarantee: fewer probes in a row are late than make the kubelet restart a container, and /metrics is answered within
/// ten seconds.
fn slow_readers_do_not_fail_health_checks() {
    let daemon = serving::alone("");
    let request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(100);
    let mut readers: Vec<TcpStream> = (0..200)
        .map(|_| {
            let mut stream = TcpStream::connect(daemon.address).unwrap();
            let _closed = stream.write_all(request.as_bytes());
            stream
        })
        .collect();
    for round in 0..4 {
        for stream in &mut readers {
            stream.set_nonblocking(true).unwrap();
            let _nothing_yet = stream.read(&mut [0]);
        }
        assert_healthy(&daemon, &format!("round {round}"));
        std::thread::sleep(Duration::from_secs(1));
    }
    await_within(PROBE * 10, "metrics", || {
        get(daemon.address, "/metrics", "localhost", PROBE * 5).is_some_and(|(status, _)| status == 200)
    });
    daemon.end();
}

/// Scenario: 40 connections request a recording of 8 MB and read only its first bytes.
/// Guarantee: the daemon still answers requests that need a thread (a compressed answer, a list of files on disk), and
/// SIGTERM ends the daemon gracefully.
fn slow_readers_of_recordings_do_not_block_others() {
    let state = tempfile::Builder::new().prefix("gcw").tempdir().unwrap();
    let id = "20261123T114742Z-shop-4711-1f2e3d4c5b6a7988";
    let folder = state.path().join("black-box");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join(format!("{id}-27s-10s.nettrace")), vec![7; 8 << 20]).unwrap();
    let daemon = serving::alone(&format!("state: {{directory: '{}'}}\n", state.path().display()));
    let ask = |path: &str, more: &str| {
        let mut stream = TcpStream::connect(daemon.address).unwrap();
        stream.set_read_timeout(Some(PROBE * 10)).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\n{more}\r\n").unwrap();
        let mut first = [0; 15];
        stream
            .read_exact(&mut first)
            .unwrap_or_else(|error| panic!("{path}: {error}"));
        assert_eq!(&first, b"HTTP/1.1 200 OK", "{path}");
        stream
    };
    let readers: Vec<TcpStream> = (0..40)
        .map(|_| ask(&format!("/api/v1/evidence/{id}.nettrace"), ""))
        .collect();
    for _ in 0..3 {
        ask("/metrics", "Accept-Encoding: gzip\r\n");
        ask("/api/v1/evidence/", "");
    }
    daemon.end();
    drop(readers);
}

/// Follows a view. Reads the head of the answer, but no event. Returns `None` if the connection fails or the status is
/// not 200.
fn follow(address: SocketAddr, view: &str) -> Option<TcpStream> {
    let mut stream = TcpStream::connect_timeout(&address, PROBE).ok()?;
    stream.set_read_timeout(Some(PROBE * 5)).unwrap();
    write!(
        stream,
        "GET /api/v1/events?view={view} HTTP/1.1\r\nHost: localhost\r\n\r\n"
    )
    .ok()?;
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    head.starts_with(b"HTTP/1.1 200").then_some(stream)
}

/// Scenario: sixteen viewers, which use all slots, follow the view of the rules (200 KB every two seconds) and read no
/// event. Probes and scrapes continue. Another viewer connects.
/// Guarantee: fewer probes in a row are late than make the kubelet restart a container, and every scrape is answered.
/// The sixteen viewers lose their slots within one minute, and the new viewer gets events.
fn viewers_that_do_not_read_lose_their_slots() {
    let daemon = serving::alone("");
    let silent: Vec<TcpStream> = (0..16)
        .map(|_| follow(daemon.address, "rules").expect("a place"))
        .collect();
    assert!(
        follow(daemon.address, "rules").is_none(),
        "a seventeenth viewer is refused"
    );
    let since = Instant::now();
    let mut viewer = loop {
        assert_healthy(&daemon, "sixteen viewers that do not read");
        let (status, _) = get(daemon.address, "/metrics", "localhost", PROBE * 5).expect("metrics");
        assert_eq!(status, 200);
        match follow(daemon.address, "overview") {
            Some(viewer) => break viewer,
            None => assert!(
                since.elapsed() < Duration::from_secs(60),
                "the viewers lose their slots"
            ),
        }
        std::thread::sleep(Duration::from_millis(500));
    };
    let mut seen = String::new();
    while seen.matches("event: overview").count() < 2 {
        let mut part = [0; 4096];
        let count = viewer.read(&mut part).expect("an event arrives");
        assert!(count > 0, "{seen}");
        seen.push_str(&String::from_utf8_lossy(&part[..count]));
    }
    drop((silent, viewer));
    daemon.end();
}

/// Scenario: clients send requests to a listener on loopback under its own names, and under a name that a foreign page
/// can use.
/// Guarantee: only requests under its own names are answered; the refusal contains a remedy.
fn foreign_names_are_refused_on_loopback() {
    let daemon = serving::alone("");
    let ask = |path: &str, host: &str| get(daemon.address, path, host, PROBE * 10).unwrap();
    for own in ["localhost", "127.0.0.1:9464", "[::1]:80"] {
        assert_eq!(ask("/api/v1/targets", own).0, 200, "{own}");
    }
    for path in ["/", "/metrics", "/api/v1/targets", "/livez", "/nothing"] {
        let (status, answer) = ask(path, "rebound.example:9464");
        assert!(status == 403 && answer.contains("web.hosts"), "{path}: {answer}");
    }
    daemon.end();
}

/// Scenario: a listener on all addresses, as in the manifests, gets requests like those of the kubelet, with and
/// without a list of host names.
/// Guarantee: /livez is answered under any name. Other paths are answered under any name too if there is no list, and
/// only under the listed names otherwise.
fn probes_outside_loopback_are_answered_under_any_name() {
    for (more, others) in [("", 200), ("web: {hosts: [node-1.example]}\n", 403)] {
        let daemon = serving::alone_at("0.0.0.0:0", more);
        let address = SocketAddr::from(([127, 0, 0, 1], daemon.address.port()));
        let ask = |path: &str, host: &str| get(address, path, host, PROBE * 10).unwrap().0;
        assert_eq!(ask("/livez", "10.1.2.3:9464"), 200, "{more}");
        assert_eq!(ask("/metrics", "node-1.example:9464"), 200, "{more}");
        assert_eq!(ask("/metrics", "10.1.2.3:9464"), others, "{more}");
        daemon.end();
    }
}

/// Scenario: a client requests the page, its style sheet, the API, and a missing path.
/// Guarantee: the headers of each answer forbid foreign and inline scripts, and frames; the page has neither inline
/// scripts nor inline styles, and its style sheet is served.
fn pages_forbid_inline_scripts() {
    let daemon = serving::alone("");
    for path in ["/", "/style.css", "/metrics", "/api/v1/gcs", "/livez", "/nothing"] {
        let (_, answer) = get(daemon.address, path, "localhost", PROBE * 10).unwrap();
        let head = answer.split("\r\n\r\n").next().unwrap().to_ascii_lowercase();
        for has in [
            "content-security-policy: default-src 'none'; script-src 'self'; style-src 'self';",
            "require-trusted-types-for 'script'",
            "frame-ancestors 'none'",
            "x-content-type-options: nosniff",
            "referrer-policy: no-referrer",
        ] {
            assert!(head.contains(has), "{path}: {has}: {head}");
        }
    }
    let (_, page) = get(daemon.address, "/", "localhost", PROBE * 10).unwrap();
    assert!(
        page.contains("<link rel=\"stylesheet\" href=\"/assets/page.css\">"),
        "{page}"
    );
    for inline in ["<style", "style=", " onload", "<script>", "javascript:"] {
        assert!(!page.contains(inline), "{inline}: {page}");
    }
    let (_, style) = get(daemon.address, "/assets/page.css", "localhost", PROBE * 10).unwrap();
    assert!(style.contains("content-type: text/css"), "{style}");
    daemon.end();
}
