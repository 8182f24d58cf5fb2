//! Observes a process for several seconds and prints the code that triggers collections and the code that allocates:
//! `sites PID [SECONDS]`.
//!
//! The crate `dotnet-diagnostics` attaches to the process and reads the stream. This crate stores the stacks and
//! determines their names. No code is loaded into the process. Allocations are sampled by .NET 10 and later; for older
//! runtimes, only the first part is printed.

use std::error::Error;
use std::io::Write;
use std::pin::pin;
use std::time::Duration;

use clr_evidence::burst::{Burst, Origin};
use clr_evidence::name::Name;
use dotnet_diagnostics::discovery::Scan;
use dotnet_diagnostics::message::{Provider, RUNTIME_PROVIDER, Rundown, SessionConfig};
use dotnet_diagnostics::{Client, Endpoint};
use tokio::task::spawn_blocking;
use tokio::time::sleep;

/// Keywords for collections with their triggers, and for samples of allocations.
const KEYWORDS: u64 = 0x1 | 0x800_0000_0000;
const INFORMATIONAL: u32 = 4;
/// Modules and methods, which provide the names in stacks.
const NAMES: Rundown = Rundown::Keyword(0x38);
/// Maximum number of rows per table.
const MAX_ROWS: usize = 10;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let pid: u32 = arguments.next().ok_or("usage: sites PID [SECONDS]")?.parse()?;
    let seconds = arguments.next().map_or(Ok(5), |seconds| seconds.parse())?;

    // Reading /proc blocks the thread.
    let process = spawn_blocking(move || Scan::host().inspect(pid)).await??;
    let client = Client::new(Endpoint::for_process(&process)?);
    let config = SessionConfig {
        // Most of the buffer is for the rundown.
        buffer_mb: 32,
        rundown: NAMES,
        stacks: true,
        providers: vec![Provider::new(RUNTIME_PROVIDER, KEYWORDS, INFORMATIONAL)],
        ..SessionConfig::default()
    };
    let mut session = client.collect_tracing(&config).await?;
    let mut burst = Burst::new(Origin::Live);
    let mut buffer = vec![0; 64 << 10];
    let (mut end, mut stopping) = (pin!(sleep(Duration::from_secs(seconds))), false);
    loop {
        tokio::select! {
            read = session.read(&mut buffer) => match read? {
                0 => break,
                count => burst.push(buffer.get(..count).unwrap_or_default())?,
            },
            // The remaining events are names at the end of the stream, so keep reading.
            () = &mut end, if !stopping => {
                stopping = true;
                burst.close();
                session.request_stop();
            }
        }
    }
    burst.finish()?;
    // The runtime keeps collecting stacks for the sessions of other tools until another session has ended.
    client.recompute_levels(Duration::from_secs(3)).await?;
    Ok(print(&burst)?)
}

fn print(burst: &Burst) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    let site = |name: &Option<Name>| name.as_ref().map_or("unknown".to_owned(), Name::to_string);
    let callers = burst.callers();
    writeln!(out, "{} collections", callers.collections)?;
    for caller in callers.callers.iter().take(MAX_ROWS) {
        // `None` if no stop was observed.
        let stopped = caller
            .stopped_ns
            .map_or("?".to_owned(), |ns| format!("{:.1}", ns as f64 / 1e6));
        let (api, collections) = (caller.api.unwrap_or("unknown"), caller.collections);
        writeln!(out, "{collections:>8} {stopped:>9} ms  {api} by {}", site(&caller.site))?;
    }
    let allocations = burst.allocations();
    writeln!(out, "{:.1} MB allocated", allocations.total.estimate as f64 / 1e6)?;
    for one in allocations.sites.iter().take(MAX_ROWS) {
        let of = one.r#type.as_deref().unwrap_or("several types");
        let megabytes = one.amount.estimate as f64 / 1e6;
        writeln!(out, "{megabytes:>18.1} MB  {of} by {}", site(&one.site))?;
    }
    Ok(())
}
