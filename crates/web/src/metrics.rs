//! `/metrics`: series of all targets and of gcwatch, in the text format that the scraper selects.

use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use base::clock::now_unix_ns;
use gc_telemetry::prometheus::{self, Format};
use opentelemetry_proto::tonic::metrics::v1::Metric;
use opentelemetry_proto::tonic::resource::v1::Resource;

use crate::site::Site;

pub(super) async fn metrics(State(site): State<Site>, headers: HeaderMap) -> Response {
    let now = now_unix_ns();
    let mut all = vec![site.watcher.own_metrics(now)];
    all.extend(site.views.collect(now));
    let format = accepted(&headers);
    let mut text = String::new();
    let parts: Vec<(&Resource, &[Metric])> = all
        .iter()
        .map(|(resource, metrics)| (&***resource, metrics.as_slice()))
        .collect();
    prometheus::exposition(format, &parts, &mut text);
    ([(header::CONTENT_TYPE, format.content_type())], text).into_response()
}

/// Returns OpenMetrics if the scraper accepts OpenMetrics and does not prefer the text format. Prometheus accepts both
/// formats with weights, and prefers OpenMetrics.
fn accepted(headers: &HeaderMap) -> Format {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    let weight = |media: &str| {
        accept
            .unwrap_or_default()
            .split(',')
            .map(str::trim)
            .filter(|range| range.split(';').next().is_some_and(|name| name.trim() == media))
            .map(|range| {
                range
                    .split(';')
                    .find_map(|parameter| parameter.trim().strip_prefix("q="))
                    .map_or(1.0, |q| q.trim().parse::<f32>().unwrap_or(0.0))
            })
            .fold(0.0_f32, f32::max)
    };
    let open = weight("application/openmetrics-text");
    if open > 0.0 && open >= weight("text/plain") {
        Format::OpenMetrics
    } else {
        Format::Text
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    /// Scenario: scrapers send different `Accept` headers.
    /// Guarantee: only scrapers that accept OpenMetrics and do not prefer the text format receive OpenMetrics.
    #[test]
    fn scraper_selects_format() {
        let format = |accept: Option<&'static str>| {
            let mut headers = HeaderMap::new();
            if let Some(accept) = accept {
                headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
            }
            accepted(&headers)
        };
        assert_eq!(format(None), Format::Text);
        assert_eq!(format(Some("*/*")), Format::Text);
        assert_eq!(
            format(Some(
                "application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,\
                 text/plain;version=1.0.0;q=0.3,text/plain;version=0.0.4;q=0.2,/;q=0.1"
            )),
            Format::OpenMetrics
        );
        assert_eq!(
            format(Some("text/plain, application/openmetrics-text;q=0.5")),
            Format::Text
        );
        assert_eq!(format(Some("application/openmetrics-text;q=0")), Format::Text);
    }
}
