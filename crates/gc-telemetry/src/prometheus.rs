//! Metrics in the text formats of Prometheus and of OpenMetrics 1.0.
//!
//! The translation is the conventional one of OTLP metrics ("Prometheus and OpenMetrics compatibility" of the
//! OpenTelemetry specification): dots become underscores, the unit is a suffix (`_seconds`, `_bytes`, `_ratio`),
//! counters end in `_total`, a sum that falls is a gauge, and the resource is in `target_info`.
//!
//! # Labels of the process
//!
//! Every series has `job` (`service.namespace/service.name`), `instance` (`service.instance.id`), and those of
//! `service_name`, `process_pid`, `k8s_namespace_name`, `k8s_pod_name`, `k8s_container_name` that are known. Prometheus
//! has a job and an instance of its own for each scrape target and renames these to `exported_job` and
//! `exported_instance`, unless the scrape configuration sets `honor_labels: true`; the other labels stay.
//!
//! # Histograms
//!
//! The text formats have no exponential histograms. They get buckets with the bounds 2^-13 s (0.12 ms) to 2^3 s (8 s):
//! powers of two are bounds of an exponential histogram of any scale that is not negative, so the counts are exact and
//! never decrease when the scale becomes coarser. (With fewer than 66 buckets the scale may become negative; then a
//! bucket that reaches beyond a bound counts as above it.) A histogram with explicit bounds keeps its own.

mod family;
mod labels;
mod text;

use opentelemetry_proto::tonic::metrics::v1::Metric;
use opentelemetry_proto::tonic::resource::v1::Resource;

use self::family::Families;
use self::labels::target_labels;

/// Text format of `/metrics`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Prometheus text format 0.0.4.
    Text,
    /// OpenMetrics 1.0.0, with exemplars.
    OpenMetrics,
}

impl Format {
    /// Value of the `Content-Type` header.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// Appends the metrics of all processes to `out`, one family after the other. The metrics must be cumulative.
///
/// Returns the number of points that cannot be translated and are skipped (deltas, summaries, a name of two kinds).
pub fn exposition(format: Format, processes: &[(&Resource, &[Metric])], out: &mut String) -> usize {
    let targets = target_labels(processes.iter().map(|(resource, _)| *resource));
    let mut families = Families::default();
    for ((_, metrics), target) in processes.iter().zip(&targets) {
        for metric in *metrics {
            families.add(metric, &target.series);
        }
    }
    labels::write_target_info(format, &targets, out);
    let left_out = families.write(format, out);
    if format == Format::OpenMetrics {
        out.push_str("# EOF\n");
    }
    left_out
}
