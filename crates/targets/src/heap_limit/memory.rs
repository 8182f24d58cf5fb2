//! The memory of processes as counted by the kernel, and the limits of their heaps.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use base::run_key::RunKey;
use dotnet_diagnostics::discovery::parse_stat;
use rule_engine::field::MemoryFacts;
use rustix::param::clock_ticks_per_second;

use super::committed;
use super::read::{machine, runtime_config};
use super::{CollectorSettings, ConfiguredLimits, SettingSyntax, Sources};
use crate::facts::Facts;
use crate::proc_file::{
    MAX_MAPS_BYTES, MAX_STATUS_BYTES, address_space_limit, allowed_cpus, anonymous, count, cpu_ns, read_process_file,
};

/// The results of a reading. A field is `None` if its value is unknown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MemoryReading {
    /// Memory as counted by the kernel.
    pub memory: MemoryFacts,
    /// Estimated limit of the heap, in bytes.
    pub heap_limit: Option<u64>,
    /// Whether the configuration was read and the limit is a share of the container's limit.
    pub follows_container: bool,
    /// Memory of the machine, in bytes.
    pub machine: Option<u64>,
    /// Settings of the collector that no event reports; `None` if the configuration was not read.
    pub collector: Option<CollectorSettings>,
    /// CPU time since the start of the process, in nanoseconds.
    pub cpu_ns: Option<u64>,
    /// Number of CPUs on which the process may run.
    pub allowed_cpus: Option<u32>,
}

/// A reader that repeatedly reads the memory of many processes. The configuration of a process is read once. The
/// mappings are read only for processes that grow without collections.
#[derive(Debug, Default)]
pub struct MemoryReader {
    configured: HashMap<RunKey, Configured>,
    growth: HashMap<RunKey, Growth>,
    limits: HashMap<RunKey, AddressSpaceLimit>,
    machine: Option<u64>,
    /// Number of threads that read the configuration of a process.
    reading: Arc<AtomicUsize>,
}

/// The settings in the environment and the files of a process.
#[derive(Debug, Clone, Default)]
struct Configured {
    limits: ConfiguredLimits,
    /// Settings of the collector; `None` if the files did not respond.
    collector: Option<CollectorSettings>,
}

/// Timeout for reading the configuration of a process. Its program and `runtimeconfig.json` are on its own file
/// systems, which can fail to respond.
const CONFIGURED_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum number of threads that wait for files of processes.
const MAX_READING: usize = 8;

/// The limit of a process's address space.
#[derive(Debug, Clone, Copy, Default)]
struct AddressSpaceLimit {
    bytes: Option<u64>,
    /// Number of readings of the process until the limit is read again.
    readings: u8,
}

/// Number of readings from one reading of the limit to the next: 5 minutes with a reading every 15 s. Only `prlimit`
/// changes the limit of a running process.
const LIMIT_READINGS: u8 = 20;

/// The growth of a process.
#[derive(Debug, Clone, Copy)]
struct Growth {
    /// Private memory at the last reading, in bytes.
    private: u64,
    /// Number of readings for which the process still counts as growing.
    readings: u8,
}

/// Increase of private memory between two readings that counts as growth: 8 MiB per minute with a reading every 15 s.
const GROWS_BY: u64 = 2 << 20;
/// Number of readings in which a process counts as growing, starting with the reading that shows the growth.
const GROWS_FOR: u8 = 8;

impl Growth {
    fn after(before: Option<Self>, private: u64) -> Self {
        let readings = match before {
            Some(before) if private >= before.private.saturating_add(GROWS_BY) => GROWS_FOR,
            Some(before) => before.readings.saturating_sub(1),
            None => 0,
        };
        Self { private, readings }
    }
}

impl MemoryReader {
    /// Reads the memory of a process and the limit of its heap. `major` is the major version of its runtime, and
    /// `container` is the memory limit of its container. `rests` is whether no collection, which would report the size
    /// of the heap, has arrived for some time. Returns an empty reading if the process has exited or another process
    /// has its pid. Blocks the calling thread.
    pub fn read(&mut self, key: RunKey, major: Option<u32>, container: Option<u64>, rests: bool) -> MemoryReading {
        let file = |name: &str| read_process_file(key.pid, name, MAX_STATUS_BYTES);
        let status = file("status");
        let configured = self
            .configured
            .get(&key)
            .cloned()
            .unwrap_or_else(|| self.configured(key.pid, major));
        let mut space = self.limits.get(&key).copied().unwrap_or_default();
        if space.readings == 0 {
            space.bytes = file("limits").and_then(|limits| address_space_limit(&limits));
            space.readings = LIMIT_READINGS;
        }
        space.readings -= 1;
        // The pid can belong to another process by now.
        let stat = file("stat");
        let is_same = |stat: &str| Some(parse_stat(stat.as_bytes())?.start_time == key.start_time);
        if stat.as_deref().and_then(is_same) != Some(true) {
            return MemoryReading::default();
        }
        self.machine = self.machine.or_else(machine);
        let limit = configured.limits.limit(container, self.machine);
        let follows_container = configured.limits.follows_container();
        let collector = configured.collector;
        self.configured.entry(key).or_insert(configured);
        self.limits.insert(key, space);
        let status = status.as_deref();
        let kib = |key: &str| status.and_then(|status| count(status, key)?.checked_mul(1024));
        let private = status.and_then(anonymous);
        let grows = private.is_some_and(|private| {
            let growth = Growth::after(self.growth.get(&key).copied(), private);
            self.growth.insert(key, growth);
            growth.readings > 0
        });
        // The range that the collector reserves is larger than its limit, or than the machine's memory if there is no
        // limit.
        let range = limit.as_ref().map(|limit| limit.bytes).or(self.machine);
        let native = private
            .zip(range)
            .filter(|_| grows && rests)
            .and_then(|(private, range)| {
                let maps = read_process_file(key.pid, "maps", MAX_MAPS_BYTES)?;
                Some(private.saturating_sub(committed(&maps, range)?))
            });
        MemoryReading {
            memory: MemoryFacts {
                resident: kib("VmRSS:"),
                private,
                native,
                threads: status.and_then(|status| count(status, "Threads:")),
                address_space: kib("VmSize:"),
                address_space_limit: space.bytes,
            },
            heap_limit: limit.map(|limit| limit.bytes),
            follows_container,
            machine: self.machine,
            collector,
            cpu_ns: stat.and_then(|stat| cpu_ns(&stat, clock_ticks_per_second())),
            allowed_cpus: status.and_then(allowed_cpus),
        }
    }

    /// Reads the configuration of a process on a separate thread, which is abandoned if a file system does not respond.
    /// In this case, or if [`MAX_READING`] threads are already reading, the configuration counts as empty, and the
    /// files are not read again.
    fn configured(&self, pid: u32, major: Option<u32>) -> Configured {
        if self.reading.load(Ordering::Relaxed) >= MAX_READING {
            return Configured::default();
        }
        self.reading.fetch_add(1, Ordering::Relaxed);
        let (reading, (give, taken)) = (Arc::clone(&self.reading), sync_channel(1));
        let read = move || {
            let configured = configured(pid, major);
            reading.fetch_sub(1, Ordering::Relaxed);
            let _late = give.send(configured);
        };
        if std::thread::Builder::new()
            .name("files".to_owned())
            .spawn(read)
            .is_err()
        {
            self.reading.fetch_sub(1, Ordering::Relaxed);
        }
        taken.recv_timeout(CONFIGURED_TIMEOUT).unwrap_or_else(|_| {
            log!(warn: pid, "the limit of its heap is unknown: its files do not respond");
            Configured::default()
        })
    }

    /// Forgets all processes that are not in `keys`.
    pub fn keep(&mut self, keys: &[RunKey]) {
        self.configured.retain(|key, _| keys.contains(key));
        self.growth.retain(|key, _| keys.contains(key));
        self.limits.retain(|key, _| keys.contains(key));
    }
}

fn configured(pid: u32, major: Option<u32>) -> Configured {
    let facts = Facts::read(pid, None);
    let sources = Sources {
        takes: SettingSyntax::for_runtime(facts.native_aot, major),
        variable: &|name| facts.variable(name),
        runtime_config: runtime_config(pid, &facts),
    };
    Configured {
        limits: sources.configured(),
        collector: Some(sources.collector()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: this process is read, with and without a container limit; then another run with the same pid and a
    /// different start time is read.
    /// Guarantee: the memory of this process is known, and the heap limit is three quarters of the container's limit,
    /// or unknown without such a limit; no value is returned for the other run; processes that are not kept are
    /// forgotten.
    #[test]
    fn memory_is_read_only_for_same_run() {
        let pid = std::process::id();
        let stat = std::fs::read(format!("/proc/{pid}/stat")).unwrap();
        let key = RunKey {
            pid,
            start_time: parse_stat(&stat).unwrap().start_time,
        };
        let mut reader = MemoryReader::default();
        let read = reader.read(key, Some(10), Some(400 << 20), false);
        let facts = read.memory;
        assert!(facts.resident.is_some_and(|bytes| bytes > 1 << 20));
        assert!(
            facts
                .private
                .zip(facts.resident)
                .is_some_and(|(private, resident)| private <= resident + (1 << 30))
        );
        assert!(facts.address_space > facts.resident);
        assert!(facts.threads.is_some_and(|threads| (1..100_000).contains(&threads)));
        assert_eq!(read.heap_limit, Some(300 << 20));
        assert!(read.machine.is_some_and(|bytes| bytes > 1 << 20));
        assert_eq!(read.collector, Some(CollectorSettings::default()));
        assert!(read.cpu_ns.is_some() && read.allowed_cpus.is_some_and(|cpus| cpus > 0));
        assert_eq!(reader.read(key, None, None, true).heap_limit, None);
        let other = RunKey {
            start_time: key.start_time + 1,
            ..key
        };
        assert_eq!(
            reader.read(other, None, Some(400 << 20), true),
            MemoryReading::default()
        );
        assert_eq!(reader.configured.len(), 1);
        reader.keep(&[]);
        assert!(reader.configured.is_empty() && reader.limits.is_empty());
    }

    /// Scenario: between readings, a process grows by 1 MiB, 2 MiB, 1 MiB and 2 MiB, and then stays the same.
    /// Guarantee: the process counts as growing from the first growth of 2 MiB, and for fewer than eight further
    /// readings after the last growth of 2 MiB.
    #[test]
    fn growth_is_between_readings() {
        let mut growth = Growth::after(None, 100 << 20);
        assert_eq!(growth.readings, 0);
        for (mib, readings) in [(101, 0), (103, 8), (104, 7), (106, 8)] {
            growth = Growth::after(Some(growth), mib << 20);
            assert_eq!(growth.readings, readings, "{mib}");
        }
        for _ in 0..8 {
            growth = Growth::after(Some(growth), 106 << 20);
        }
        assert_eq!(growth.readings, 0);
    }
}
