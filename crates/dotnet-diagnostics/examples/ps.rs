//! Lists the .NET processes of this host, asks each who it is, and names the sockets that nobody owns any more.

#![allow(clippy::print_stdout, reason = "a program for a terminal")]

use std::error::Error;

use dotnet_diagnostics::discovery::Scan;
use dotnet_diagnostics::{Client, Endpoint};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let listing = tokio::task::spawn_blocking(|| Scan::host().list()).await??;
    for process in &listing.processes {
        let answer = match Endpoint::of(process) {
            Ok(endpoint) => Client::new(endpoint).probe().await,
            Err(error) => Err(error),
        };
        let state = match answer {
            Ok(Some(info)) => info.runtime_version.unwrap_or_else(|| "5.0".to_owned()),
            Ok(None) => "3.x".to_owned(),
            Err(error) => error.obstacle().to_string(),
        };
        println!("{:>8} {:>8} {:<24} {state}", process.pid, process.ns_pid, process.name);
    }
    for stale in &listing.stale {
        println!("{stale}");
    }
    Ok(())
}
