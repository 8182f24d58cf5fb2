//! An OpenTelemetry SDK in a process, seen from outside: its exporter has a thread with a name of its own. So it is
//! known before the first request, and nothing is asked of the process.

use std::path::Path;

use crate::thread_names::named;

/// `OpenTelemetry-BatchExportProcessor-...` of the SDK, as far as the kernel keeps a name.
const EXPORTER: &str = "OpenTelemetry-B";

/// Whether a thread of a process is the exporter of an OpenTelemetry SDK; blocking.
pub(super) fn has_sdk(pid: u32) -> bool {
    let tasks = format!("/proc/{pid}/task");
    let mut exporters = named(Path::new(&tasks), |name| name.starts_with(EXPORTER));
    exporters.next().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: this process, before it has a thread with the name of an exporter, and with one.
    /// Guarantee: it is seen then.
    #[test]
    fn an_sdk_is_seen_by_its_exporter() {
        let own = std::process::id();
        assert!(!has_sdk(own));
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let (begun, has_begun) = std::sync::mpsc::channel();
        let exporter = std::thread::Builder::new().name("OpenTelemetry-B".to_owned());
        let exporter = exporter.spawn(move || {
            begun.send(()).unwrap();
            ended.recv().unwrap_err();
        });
        has_begun.recv().unwrap();
        assert!(has_sdk(own));
        drop(end);
        exporter.unwrap().join().unwrap();
    }
}
