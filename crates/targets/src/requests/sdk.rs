//! Detects the OpenTelemetry SDK of another process by the name of the SDK's exporter thread. The detection works
//! before the first request, and sends no command to the process.

use std::path::Path;

use crate::thread_names::named;

/// First 15 bytes of the SDK's thread name `OpenTelemetry-BatchExportProcessor-...`. The kernel truncates thread names
/// to this length.
const EXPORTER: &str = "OpenTelemetry-B";

/// Returns whether a process has the exporter thread of an OpenTelemetry SDK. Blocks the calling thread.
pub(super) fn has_sdk(pid: u32) -> bool {
    let tasks = format!("/proc/{pid}/task");
    let mut exporters = named(Path::new(&tasks), |name| name.starts_with(EXPORTER));
    exporters.next().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: this process first has no thread with the name of an exporter, and then starts such a thread.
    /// Guarantee: the SDK is detected only while the thread exists.
    #[test]
    fn sdk_is_detected_by_exporter_thread() {
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
