//! What the daemon is given of a configuration: at its start, and the same again at every reload.

use std::path::Path;
use std::sync::LazyLock;

use delivery::clock::now_unix_ns;
use gc_telemetry::value::key_value;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;

use crate::config::Config;
use crate::daemon::Options;
use crate::pipeline::{Clock, PipelineSettings};
use crate::process::RunKey;
use crate::targets::own_identity;

/// When this process began, near enough: the same at every reload, so that one that changes nothing changes nothing.
static STARTED: LazyLock<u64> = LazyLock::new(now_unix_ns);

/// The options of the daemon by a configuration.
pub(crate) fn options(config: &Config) -> Options {
    let texts = |attributes: &[(String, String)]| -> Vec<KeyValue> {
        attributes
            .iter()
            .map(|(key, value)| key_value(key, Value::StringValue(value.clone())))
            .collect()
    };
    let own = config.self_telemetry();
    let run = RunKey {
        pid: std::process::id(),
        start_time: *STARTED,
    };
    let mut own_resource = own_identity(&own.service_name, run);
    for given in texts(&own.attributes) {
        own_resource.retain(|known| known.key != given.key);
        own_resource.push(given);
    }
    Options {
        targets: config.targets().clone(),
        pipeline: PipelineSettings {
            spans: config.spans().clone(),
            metrics: config.metrics().clone(),
            max_runs: config.targets().max_targets,
            clock: Clock::Live,
            resource: texts(config.resource()),
            ..PipelineSettings::default()
        },
        otlp: config.otlp().clone(),
        state_directory: config.state_directory().map(Path::to_owned),
        rules: config.rules().clone(),
        alerts: config.alerts().clone(),
        black_box: config.black_box(),
        bursts: config.bursts(),
        kubernetes: config.kubernetes().clone(),
        listen: config.listen(),
        web: config.web().clone(),
        own_resource,
        export_own_metrics: own.metrics,
    }
}
