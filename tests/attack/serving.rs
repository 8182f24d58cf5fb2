//! `gcwatch run` for the attack tests, which exports neither target data nor its own telemetry.

use test_support::daemon::{ANY, Daemon};
use test_support::scene::Scene;

pub(crate) const SILENT: &str = "self_telemetry: {enabled: false}\n";

/// Starts a daemon for the processes of a scene, with additional configuration.
pub(crate) fn start(scene: &Scene, more: &str) -> Daemon {
    scene.daemon(&format!("{SILENT}{more}"))
}

/// Starts a daemon that reads no process.
pub(crate) fn alone(more: &str) -> Daemon {
    alone_at(ANY, more)
}

pub(crate) fn alone_at(listen: &str, more: &str) -> Daemon {
    let scene = Scene::begin();
    let command = scene.command_at(listen, &format!("{SILENT}{more}"));
    scene.into_daemon(command)
}
