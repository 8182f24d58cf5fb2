//! Takes a heap dump of a process and prints the types of its live objects: `gcdump PID`.
//!
//! The crate `dotnet-diagnostics` attaches to the process and reads the stream, and this crate counts the objects. The
//! process performs one collection, and all its threads are suspended while the runtime walks the heap.

use std::error::Error;
use std::io::Write;
use std::time::Duration;

use clr_heap::reading::{DumpDetail, DumpReading};
use clr_heap::survey::survey;
use dotnet_diagnostics::discovery::Scan;
use dotnet_diagnostics::message::{Provider, RUNTIME_PROVIDER, SessionConfig};
use dotnet_diagnostics::{Client, Deadlines, Endpoint};
use tokio::task::spawn_blocking;

/// Collections, types with names, the forced collection and its dump.
const KEYWORDS: u64 = 0x198_0001;
const INFORMATIONAL: u32 = 4;
/// Timeout for a command. The runtime makes the dump within the command or before the end of the stream.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(120);
/// Maximum number of rows.
const MAX_ROWS: usize = 30;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let pid: u32 = std::env::args().nth(1).ok_or("usage: gcdump PID")?.parse()?;
    // Reading /proc blocks.
    let process = spawn_blocking(move || Scan::host().inspect(pid)).await??;
    let deadlines = Deadlines {
        start: COMMAND_TIMEOUT,
        stop: COMMAND_TIMEOUT,
        ..Deadlines::default()
    };
    let client = Client::with_deadlines(Endpoint::for_process(&process)?, deadlines);
    let config = SessionConfig {
        // The buffer is in the target's memory and grows only as needed for the dump. Events that do not fit are
        // dropped, and the dump is refused.
        buffer_mb: 1024,
        providers: vec![Provider::new(RUNTIME_PROVIDER, KEYWORDS, INFORMATIONAL)],
        allow_inducing_keywords: true,
        ..SessionConfig::default()
    };
    let mut session = client.collect_tracing(&config).await?;
    // Stop at once: while the session is open, it dumps again for each session that another tool starts.
    session.request_stop();
    let mut reading = DumpReading::new(DumpDetail::Histogram);
    let mut buffer = vec![0; 64 << 10];
    loop {
        match session.read(&mut buffer).await? {
            0 => break,
            count => reading.push(buffer.get(..count).unwrap_or_default())?,
        }
    }
    session.stopped().await?;
    // Without this call, the runtime would not send the names of its types again, and the next dump would have no
    // names.
    client.recompute_levels(Duration::from_secs(3)).await?;

    let (survey, _) = survey(reading.finish()?, None);
    let mut out = std::io::stdout().lock();
    let (objects, bytes) = (survey.heap.objects, survey.heap.bytes);
    writeln!(out, "{}: {objects} objects, {bytes} bytes", process.name)?;
    for row in survey.types.iter().take(MAX_ROWS) {
        writeln!(
            out,
            "{:>12} bytes {:>9} objects  {}",
            row.bytes, row.objects, row.r#type
        )?;
    }
    Ok(())
}
