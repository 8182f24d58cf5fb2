//! Prints the garbage collections of a running process as they happen, until it exits: `live PID`.
//!
//! The crate `dotnet-diagnostics` attaches to the process and reads its stream; this crate rebuilds collections. No
//! code is loaded into the process.

use std::error::Error;
use std::io::Write;

use clr_gc::gc::{LIVE_SETTLE_NS, Outcome, ReportTiming};
use clr_gc::stream::{GcStream, Scope};
use dotnet_diagnostics::discovery::Scan;
use dotnet_diagnostics::message::SessionConfig;
use dotnet_diagnostics::{Client, Endpoint};
use tokio::task::spawn_blocking;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let pid: u32 = std::env::args().nth(1).ok_or("usage: live PID")?.parse()?;
    // Reading /proc blocks.
    let process = spawn_blocking(move || Scan::host().inspect(pid)).await??;
    let client = Client::new(Endpoint::for_process(&process)?);
    let mut session = client.collect_tracing(&SessionConfig::garbage_collection()).await?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "attached to {}", process.name)?;

    // A collection is reported once no more facts can arrive for it.
    let mut stream = GcStream::new(Scope::Collections, ReportTiming::After(LIVE_SETTLE_NS));
    loop {
        let count = session.read(stream.space(64 << 10)).await?;
        stream.filled(count);
        if count == 0 {
            stream.finish();
        }
        stream.advance(|_| ())?;
        if count == 0 {
            stream.end();
        }
        while let Some((_, outcome)) = stream.next_outcome() {
            let Outcome::Collection(gc) = outcome else {
                continue;
            };
            // Values that were never observed are `None`, for example in a collection that was running when the session
            // started.
            let pause = gc
                .pause_ns
                .map_or("unknown".to_owned(), |ns| format!("{:.3} ms", ns as f64 / 1e6));
            let generation = gc
                .generation
                .map_or("?".to_owned(), |generation| generation.to_string());
            let reason = gc.reason.map_or("?".to_owned(), |reason| reason.to_string());
            writeln!(out, "GC #{} gen{generation} {reason}: pause {pause}", gc.number)?;
        }
        if count == 0 {
            return Ok(());
        }
    }
}
