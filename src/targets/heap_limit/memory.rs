//! The memory of processes as the kernel counts it, and what their heaps may take.

use std::collections::HashMap;
use std::fs::File;

use dotnet_diagnostics::discovery::parse_stat;
use gc_rules::field::MemoryFacts;

use super::read::{MAX_STATUS_BYTES, machine, runtime_config, text};
use super::{Configured, Sources, anonymous, kib};
use crate::process::RunKey;
use crate::targets::facts::Facts;

/// Reads the memory of many processes, again and again. What they are configured with is read once.
#[derive(Debug, Default)]
pub(crate) struct MemoryReader {
    configured: HashMap<RunKey, Configured>,
    machine: Option<u64>,
}

impl MemoryReader {
    /// The memory of a process, whose container has that memory limit, and what its heap may take; blocking. What cannot
    /// be read is unknown.
    pub(crate) fn read(&mut self, key: RunKey, container: Option<u64>) -> (MemoryFacts, Option<u64>) {
        let file = |name: &str| text(File::open(format!("/proc/{}/{name}", key.pid)).ok()?, MAX_STATUS_BYTES);
        let status = file("status");
        let configured = self
            .configured
            .get(&key)
            .cloned()
            .unwrap_or_else(|| configured(key.pid));
        // Another one may have its pid by now.
        let is_same = || Some(parse_stat(file("stat")?.as_bytes())?.start_time == key.start_time);
        if is_same() != Some(true) {
            return (MemoryFacts::default(), None);
        }
        self.machine = self.machine.or_else(machine);
        let limit = configured.limit(container, self.machine);
        self.configured.entry(key).or_insert(configured);
        let status = status.as_deref();
        let memory = MemoryFacts {
            resident: status.and_then(|status| kib(status, "VmRSS:")?.checked_mul(1024)),
            private: status.and_then(anonymous),
        };
        (memory, limit.map(|limit| limit.bytes))
    }

    /// Forgets all processes but these.
    pub(crate) fn keep(&mut self, keys: &[RunKey]) {
        self.configured.retain(|key, _| keys.contains(key));
    }
}

fn configured(pid: u32) -> Configured {
    let facts = Facts::read(pid, None);
    let sources = Sources {
        variable: &|name| facts.variable(name),
        runtime_config: runtime_config(pid, &facts),
        container: None,
        machine: None,
    };
    sources.configured()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: this process, in a container with a limit and without one; then one that has its pid, but began at
    /// another time.
    /// Guarantee: its memory is known, the limit of a heap is three quarters of the container's; of another process
    /// nothing is known, and what is not kept is forgotten.
    #[test]
    fn memory_is_of_this_very_process() {
        let pid = std::process::id();
        let stat = std::fs::read(format!("/proc/{pid}/stat")).unwrap();
        let key = RunKey {
            pid,
            start_time: parse_stat(&stat).unwrap().start_time,
        };
        let mut reader = MemoryReader::default();
        let (facts, limit) = reader.read(key, Some(400 << 20));
        assert!(facts.resident.is_some_and(|bytes| bytes > 1 << 20));
        assert!(
            facts
                .private
                .zip(facts.resident)
                .is_some_and(|(private, resident)| private <= resident + (1 << 30))
        );
        assert_eq!(limit, Some(300 << 20));
        assert_eq!(reader.read(key, None).1, None);
        let other = RunKey {
            start_time: key.start_time + 1,
            ..key
        };
        assert_eq!(reader.read(other, Some(400 << 20)), (MemoryFacts::default(), None));
        assert_eq!(reader.configured.len(), 1);
        reader.keep(&[]);
        assert!(reader.configured.is_empty());
    }
}
