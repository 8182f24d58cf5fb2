//! The options of the daemon.

use std::sync::LazyLock;

use delivery::clock::now_unix_ns;

use config::options::Options;
use config::{Config, texts};
use processes::RunKey;
use targets::own_identity;

/// When this process began, near enough: the same at every reload, so that one that changes nothing changes nothing.
static STARTED: LazyLock<u64> = LazyLock::new(now_unix_ns);

/// The options of a configuration, with the identity of this process as the daemon's own resource.
pub(crate) fn options(config: &Config) -> Options {
    let own = &config.self_telemetry;
    let run = RunKey {
        pid: std::process::id(),
        start_time: *STARTED,
    };
    let mut own_resource = own_identity(&own.service_name, run);
    for given in texts(own.attributes.clone()) {
        own_resource.retain(|known| known.key != given.key);
        own_resource.push(given);
    }
    Options {
        own_resource,
        ..config.options.clone()
    }
}
