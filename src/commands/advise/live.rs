//! Observation of a live process: records its collections, and reads its memory, CPU and configuration.

use std::io::Cursor;
use std::time::Duration;

use base::run_key::RunKey;
use dotnet_diagnostics::discovery::Process;
use gc_advice::configuration::Configuration;
use gc_advice::observation::Surroundings;
use processes::container::Reader;
use recording::source::Source;
use rustix::param::clock_ticks_per_second;
use targets::heap_limit::{MemoryReader, collector_settings};
use targets::proc_file::{MAX_STATUS_BYTES, read_process_file};
use tokio::time::Instant;

use super::Outside;
use crate::commands::burst::{BurstTarget, KeptRecording, Signals, read_process_files};
use crate::commands::cli::{AdviseArgs, Profile};
use crate::commands::output::say;
use crate::commands::record::{END_TIMEOUT, begin, session};

/// Maximum size of a recording in memory. A process with ten collections per second reaches this size after hours.
const MAX_BYTES: usize = 256 << 20;
const READ_BYTES: usize = 64 << 10;
/// Timeout for the session that resets the event levels of the runtime.
const HEAL_TIMEOUT: Duration = Duration::from_secs(3);

/// Facts from `/proc` and the control group of a process at one time. Unknown values are `None`.
#[derive(Debug, Default)]
struct Reading {
    /// CPU time since the start of the process, in seconds.
    cpu_s: Option<f64>,
    resident: Option<u64>,
    memory_limit: Option<u64>,
    heap_limit: Option<u64>,
    cpus: Option<f64>,
}

/// Records a process for the requested duration, until a signal, or until the recording is too large. Returns the
/// recording, and the facts that it does not contain.
pub(super) async fn observe(pid: u32, args: &AdviseArgs) -> anyhow::Result<(Source, Outside)> {
    let asked = BurstTarget::find(pid).await?;
    let major = asked.major();
    let mut signals = Signals::new()?;
    let mut kept = KeptRecording::open(args.keep.as_deref(), args.force)?;
    let before = read(&asked.process, major).await?;
    let config = session(Profile::Gc, Profile::Gc.buffer_mb(pid), asked.runtime.as_deref());
    say(format_args!(
        "observing process {pid} for {:.0} s; Ctrl-C ends the observation early",
        args.duration.as_secs_f64()
    ));
    let started = Instant::now();
    let mut session = begin(&asked.client, &config, &mut signals).await?;
    let mut bytes = Vec::new();
    let mut buffer = vec![0; READ_BYTES];
    let mut is_stopping = false;
    let mut after = None;
    let ended = loop {
        let count = tokio::select! {
            read = session.read(&mut buffer) => match read {
                Ok(0) => break Ok(()),
                Ok(count) => count,
                Err(error) => break Err(error),
            },
            () = tokio::time::sleep_until(started + args.duration), if !is_stopping => 0,
            () = signals.stop(), if !is_stopping => 0,
        };
        let more = buffer.get(..count).unwrap_or_default();
        bytes.extend_from_slice(more);
        kept.write(more);
        let is_full = bytes.len() > MAX_BYTES;
        if !is_stopping && (count == 0 || is_full) {
            if is_full {
                say(format_args!(
                    "the observation ends early: it has more than {MAX_BYTES} bytes"
                ));
            }
            is_stopping = true;
            // The facts are read before the session stops, while the process still runs as in the window. They remain
            // unknown if the process has exited.
            after = read(&asked.process, major)
                .await
                .ok()
                .map(|reading| (reading, started.elapsed()));
            session.request_stop();
        }
    };
    if ended.is_err() {
        let _drained = tokio::time::timeout(END_TIMEOUT, session.drain(|_| ())).await;
    }
    let _stopped = session.stopped().await;
    let _gone = asked.client.recompute_levels(HEAL_TIMEOUT).await;
    let is_kept = kept.complete();
    if let Err(error) = ended {
        say(format_args!("process {pid}: {error}; using the part before"));
    }
    let process = &asked.process;
    let settings = {
        let process = process.clone();
        read_process_files(pid, move || collector_settings(&process, major)).await?
    };
    let (after, window) = after.unwrap_or_default();
    let cpu = before.cpu_s.zip(after.cpu_s).filter(|_| !window.is_zero());
    let outside = Outside {
        name: Some(process.name.clone()),
        is_incomplete: !is_kept,
        surroundings: Surroundings {
            resident: after.resident.map(|bytes| bytes as f64),
            cpu: cpu.map(|(before, after)| (after - before).max(0.0) / window.as_secs_f64()),
        },
        configuration: Configuration {
            runtime: asked.runtime.clone(),
            gen0_size: settings.gen0_size,
            conserve_memory: settings.conserve_memory,
            heap_limit: before.heap_limit,
            memory_limit: before.memory_limit,
            cpus: before.cpus,
            ..Configuration::default()
        },
    };
    Ok((
        Source::from_reader(process.name.clone(), Box::new(Cursor::new(bytes)))?,
        outside,
    ))
}

/// Reads the memory, limits and CPU of a process on a blocking thread.
async fn read(process: &Process, major: Option<u32>) -> anyhow::Result<Reading> {
    let process = process.clone();
    read_process_files(process.pid, move || reading(&process, major)).await
}

/// Reads the memory, limits and CPU of a process. All facts are unknown if `/proc` does not show the process. Blocks
/// the calling thread.
fn reading(process: &Process, major: Option<u32>) -> Reading {
    if !process.visible {
        return Reading::default();
    }
    let figures = Reader::new().read(process.pid, process.start_time).unwrap_or_default();
    let key = RunKey {
        pid: process.pid,
        start_time: process.start_time,
    };
    let memory = MemoryReader::default().read(key, major, figures.memory_limit, false);
    let file = |name: &str| read_process_file(process.pid, name, MAX_STATUS_BYTES);
    let allowed = file("status").and_then(|status| allowed_cpus(&status));
    Reading {
        cpu_s: file("stat").and_then(|stat| cpu_seconds(&stat, clock_ticks_per_second())),
        resident: memory.memory.resident,
        memory_limit: figures.memory_limit,
        heap_limit: memory.heap_limit,
        cpus: match (figures.cpu_limit, allowed) {
            (Some(limit), Some(allowed)) => Some(limit.min(allowed)),
            (limit, allowed) => limit.or(allowed),
        },
    }
}

/// Returns the CPU time of a process in seconds, from the fields `utime` and `stime` of `/proc/PID/stat`, or `None` if
/// the file is damaged.
fn cpu_seconds(stat: &str, ticks_per_second: u64) -> Option<f64> {
    // The name of the program is in parentheses and can itself contain parentheses, so parsing starts after the last
    // one.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace().skip(11);
    let (user, system): (u64, u64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some(user.checked_add(system)? as f64 / ticks_per_second.max(1) as f64)
}

/// Returns the number of CPUs on which a process may run, from a line of `/proc/PID/status` such as
/// `Cpus_allowed_list: 0-3,8`. Returns `None` if the line is missing or damaged.
fn allowed_cpus(status: &str) -> Option<f64> {
    let list = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    let mut count: u32 = 0;
    for range in list.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        count = count.checked_add(last.checked_sub(first)?.checked_add(1)?)?;
    }
    Some(f64::from(count))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: files of `/proc` are parsed: as the kernel writes them, with a parenthesis in the name of the program,
    /// truncated, with a reversed range of CPUs, or without the line.
    /// Guarantee: the CPU time and the number of CPUs are parsed; damaged and incomplete files yield `None`.
    #[test]
    fn files_of_proc_are_read() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 2 0 0 0 250 50 0 0 20 0 30 0 123 456 789";
        assert_eq!(cpu_seconds(stat, 100), Some(3.0));
        assert_eq!(cpu_seconds("7 (a) S 1 7", 100), None);
        assert_eq!(allowed_cpus("Name:\tx\nCpus_allowed_list:\t0-3,8\n"), Some(5.0));
        assert_eq!(allowed_cpus("Cpus_allowed_list:\t3-1\n"), None);
        assert_eq!(allowed_cpus("Name:\tx\n"), None);
    }
}
