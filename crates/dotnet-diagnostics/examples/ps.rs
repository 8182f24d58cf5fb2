//! Lists the .NET processes on this host with their runtime versions, and sockets whose process has exited.

use std::error::Error;
use std::io::Write;

use dotnet_diagnostics::discovery::Scan;
use dotnet_diagnostics::text::shown;
use dotnet_diagnostics::{Client, Endpoint};
use tokio::task::spawn_blocking;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{:>8} {:>8} {:<24} RUNTIME", "PID", "NS PID", "NAME")?;
    let listing = spawn_blocking(|| Scan::host().list()).await??;
    for process in &listing.processes {
        let answer = match Endpoint::for_process(process) {
            Ok(endpoint) => Client::new(endpoint).probe().await,
            Err(error) => Err(error),
        };
        let runtime = match answer {
            // Strings of other processes can contain anything.
            Ok(Some(info)) => shown(info.runtime_version.as_deref().unwrap_or("5.0")),
            Ok(None) => "3.x".to_owned(),
            Err(error) => error.obstacle().to_string(),
        };
        writeln!(
            out,
            "{:>8} {:>8} {:<24} {runtime}",
            process.pid, process.ns_pid, process.name
        )?;
    }
    for stale in &listing.stale {
        writeln!(out, "{stale}")?;
    }
    Ok(())
}
