//! Metrics in the text formats of Prometheus and of OpenMetrics 1.0.
//!
//! The translation is the conventional translation of OTLP metrics ("Prometheus and OpenMetrics compatibility" in the
//! OpenTelemetry specification): dots become underscores, the unit is a suffix (`_seconds`, `_bytes`, `_ratio`),
//! counters end in `_total`, a sum that can fall is a gauge, and the resource is in `target_info`.
//!
//! # Labels of the process
//!
//! Every series has `job` (`service.namespace/service.name`), `instance` (`service.instance.id`), and the known labels
//! of `service_name`, `process_pid`, `k8s_namespace_name`, `k8s_pod_name`, `k8s_container_name`. Prometheus has its own
//! job and instance for each scrape target and renames these labels to `exported_job` and `exported_instance`, unless
//! the scrape configuration sets `honor_labels: true`. The other labels remain.
//!
//! # Histograms
//!
//! The text formats have no exponential histograms. The exported buckets have the bounds 2^-13 s (0.12 ms) to 2^3 s (8
//! s). Powers of two are bounds of an exponential histogram of any nonnegative scale, so the counts are exact and never
//! decrease if the scale becomes coarser. With fewer than 66 buckets the scale can become negative; a bucket that
//! extends above a bound is then counted above the bound. A histogram with explicit bounds keeps its bounds.

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
    /// Returns the value of the `Content-Type` header.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// Appends the metrics of all processes to `out`, grouped by family. The metrics must be cumulative.
///
/// Returns the number of skipped points. A point is skipped if it has no translation (deltas, summaries, a name with
/// two kinds).
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
