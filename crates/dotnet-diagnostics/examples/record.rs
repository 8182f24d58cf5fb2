//! Records the garbage collections of a process: `record PID FILE [SECONDS]`.
//!
//! `dotnet-trace` writes the same format; PerfView, Visual Studio and the crate `nettrace` can read it.

use std::error::Error;
use std::io::Write;
use std::pin::pin;
use std::time::Duration;

use dotnet_diagnostics::discovery::Scan;
use dotnet_diagnostics::message::SessionConfig;
use dotnet_diagnostics::{Client, Endpoint};
use tokio::task::spawn_blocking;
use tokio::time::sleep;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(pid), Some(path)) = (arguments.next(), arguments.next()) else {
        return Err("usage: record PID FILE [SECONDS]".into());
    };
    let pid: u32 = pid.parse()?;
    let seconds = arguments.next().map_or(Ok(10), |seconds| seconds.parse())?;

    // Reading /proc blocks the thread.
    let process = spawn_blocking(move || Scan::host().inspect(pid)).await??;
    let client = Client::new(Endpoint::for_process(&process)?);
    let mut session = client.collect_tracing(&SessionConfig::garbage_collection()).await?;
    let mut file = std::fs::File::create(&path)?;
    let mut buffer = vec![0; 64 << 10];
    let mut bytes = 0;
    let (mut end, mut stopping) = (pin!(sleep(Duration::from_secs(seconds))), false);
    loop {
        tokio::select! {
            read = session.read(&mut buffer) => match read? {
                0 => break,
                count => {
                    file.write_all(buffer.get(..count).unwrap_or_default())?;
                    bytes += count;
                }
            },
            // Keep reading: the runtime responds only after the last byte of the stream.
            () = &mut end, if !stopping => {
                stopping = true;
                session.request_stop();
            }
        }
    }
    writeln!(std::io::stderr(), "{path}: {bytes} bytes of {}", process.name)?;
    // An error here does not affect the file: the process was exiting, and its stream is complete.
    Ok(session.stopped().await?)
}
