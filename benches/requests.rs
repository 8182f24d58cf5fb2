//! Measures the cost of reading requests for a web service (`requests.mode: diagnosticsource`): CPU time and latency
//! with and without reading requests, in consecutive pairs.
//!
//! ```text
//! cargo bench --bench requests -- --gcwatch target/release/gcwatch
//! cargo bench --bench requests -- --rates 100,1000 --pairs 5 --runtime asp8.0.33
//! ```
//!
//! The service is `known/shop/shop.dll` on ASP.NET Core. Each request is a small `/json`, over persistent connections
//! at an even rate. In both halves of a pair, a daemon reads the collections of the service. In one half, alternately
//! the first or the second, the daemon also reads the requests. Requires the runtimes (`tests/runtimes/fetch`). All
//! traffic is on loopback, and all started processes are ended by pid. docs/requests.md contains measured figures.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a report for the user, and errors of a separate program"
)]

#[expect(dead_code, reason = "the load bench uses more of it")]
#[path = "load/proc.rs"]
mod proc;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use clap::Parser;
use test_support::daemon::{ANY, Daemon, command, marked};
use test_support::runtimes::{ASP, KNOWN};
use test_support::service::Service;

/// Requests per second of one connection.
const BY_CONNECTION: u32 = 200;
/// Warm-up time before a half is measured.
const WARM: Duration = Duration::from_secs(3);

#[derive(Debug, Parser)]
struct Args {
    /// Path of the gcwatch under test.
    #[arg(long, default_value_os_t = test_support::program::path())]
    gcwatch: PathBuf,
    /// Runtime of the service.
    #[arg(long, default_value = "asp10.0.14")]
    runtime: String,
    /// Requests per second.
    #[arg(long, value_delimiter = ',', default_values_t = [100, 1000, 10_000])]
    rates: Vec<u32>,
    /// Duration of each half, in seconds.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Path of the requests.
    #[arg(long, default_value = "/json?n=2")]
    path: String,
    /// Number of pairs per rate.
    #[arg(long, default_value_t = 3)]
    pairs: u32,
    /// Argument that cargo adds.
    #[arg(long, hide = true)]
    bench: bool,
}

/// Results of a half.
#[derive(Debug, Clone, Copy)]
struct HalfResults {
    requests: usize,
    cpu: Duration,
    median: Duration,
    p99: Duration,
}

impl HalfResults {
    fn us_of_request(self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / self.requests.max(1) as f64
    }
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let runtime = ASP.into_iter().find(|runtime| runtime.name == args.runtime);
    let runtime = runtime.filter(|runtime| runtime.is_there() && KNOWN.is_there());
    let runtime = runtime.context("the service is missing; run tests/runtimes/fetch")?;
    // Disable spinning: threads that wait for work spin, which would dominate the measured CPU time.
    let env = [("SLOGGING", "1"), ("DOTNET_ThreadPool_UnfairSemaphoreSpinLimit", "0")];
    let shop = Service::shop(runtime, 3600, &env);
    println!("{}, {} s per half, off and on in pairs", args.runtime, args.seconds);
    println!("   rate  reached   CPU off      on  per request   p50 off      on   p99 off      on");
    for rate in &args.rates {
        let mut differences = Vec::new();
        // Warm up first: the runtime recompiles hot code, which is not part of the cost.
        load(&shop.address, &args.path, *rate, 3 * WARM)?;
        for pair in 0..args.pairs {
            let half = |mode| half(&shop, &args, *rate, mode);
            let (off, on) = if pair % 2 == 0 {
                let off = half("off")?;
                (off, half("diagnosticsource")?)
            } else {
                let on = half("diagnosticsource")?;
                (half("off")?, on)
            };
            let difference = on.us_of_request() - off.us_of_request();
            differences.push(difference);
            let ms = |time: Duration| time.as_secs_f64() * 1e3;
            println!(
                "{rate:>7} {:>8.0} {:>6.1} us {:>4.1} us {difference:>+11.1} us {:>6.2} ms {:>4.2} ms {:>6.2} ms {:>4.2} ms",
                on.requests as f64 / args.seconds as f64,
                off.us_of_request(),
                on.us_of_request(),
                ms(off.median),
                ms(on.median),
                ms(off.p99),
                ms(on.p99),
            );
        }
        differences.sort_by(f64::total_cmp);
        if let Some(median) = differences.get(differences.len() / 2) {
            println!(
                "{rate:>7} median of {}: {median:+.1} us of CPU per request",
                differences.len()
            );
        }
    }
    Ok(())
}

/// Measures a half with a daemon in the given mode.
fn half(shop: &Service, args: &Args, rate: u32, mode: &str) -> anyhow::Result<HalfResults> {
    let config = format!(
        "{}otlp: {{enabled: false}}\nrequests: {{mode: {mode}, max_per_second: 1000000}}\n",
        marked(shop.scene.mark())
    );
    let gcwatch = command(Command::new(&args.gcwatch), shop.scene.folder(), ANY, &config);
    let mut daemon = Daemon::start(gcwatch);
    daemon.await_line("attached");
    let cpu = || proc::cpu_time(shop.pid).context("the service has ended");
    load(&shop.address, &args.path, rate, WARM)?;
    let before = cpu()?;
    let mut latencies = load(&shop.address, &args.path, rate, Duration::from_secs(args.seconds))?;
    let cpu = cpu()?.saturating_sub(before);
    latencies.sort_unstable();
    let at = |share: f64| latencies.get((latencies.len() as f64 * share) as usize).copied();
    Ok(HalfResults {
        requests: latencies.len(),
        cpu,
        median: at(0.5).context("no request was answered")?,
        p99: at(0.99).context("no request was answered")?,
    })
}

/// Sends requests at an even rate over several connections. Returns their durations.
fn load(address: &str, path: &str, rate: u32, length: Duration) -> anyhow::Result<Vec<Duration>> {
    let connections = rate.div_ceil(BY_CONNECTION).clamp(1, 64);
    let pace = Duration::from_secs_f64(f64::from(connections) / f64::from(rate));
    let begin = Instant::now();
    let clients: Vec<_> = (0..connections)
        .map(|number| {
            let (address, path) = (address.to_owned(), path.to_owned());
            let first = pace * number / connections;
            std::thread::spawn(move || client(&address, &path, begin + first, pace, begin + length))
        })
        .collect();
    let mut all = Vec::new();
    for client in clients {
        all.extend(client.join().map_err(|_| anyhow::anyhow!("a client panicked"))??);
    }
    Ok(all)
}

fn client(address: &str, path: &str, mut next: Instant, pace: Duration, end: Instant) -> anyhow::Result<Vec<Duration>> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n");
    let (mut latencies, mut answer) = (Vec::new(), Vec::new());
    while next < end {
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
        let sent = Instant::now();
        stream.write_all(request.as_bytes())?;
        read_answer(&mut stream, &mut answer)?;
        latencies.push(sent.elapsed());
        next += pace;
    }
    Ok(latencies)
}

/// Reads an answer with a length, or with chunks of which the last is empty.
fn read_answer(stream: &mut TcpStream, answer: &mut Vec<u8>) -> anyhow::Result<()> {
    answer.clear();
    let mut part = [0; 16 << 10];
    loop {
        let count = stream.read(&mut part)?;
        if count == 0 {
            bail!("the service closed the connection");
        }
        answer.extend_from_slice(part.get(..count).unwrap_or_default());
        if answer.ends_with(b"0\r\n\r\n") {
            return Ok(());
        }
        let text = String::from_utf8_lossy(answer);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head
                .lines()
                .find_map(|line| line.strip_prefix("Content-Length: ")?.parse().ok());
            if length.is_some_and(|length: usize| body.len() >= length) {
                return Ok(());
            }
        }
    }
}
