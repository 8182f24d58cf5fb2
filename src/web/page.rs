//! The status page: firing alerts, and the processes with their states.

use std::fmt::Write as _;

use dotnet_diagnostics::text::is_plain;

use crate::pipeline::{AlertView, TargetView};
use crate::report::units::Span;

/// Where the style is. In the page itself a content security policy would have to allow it by its digest.
pub(crate) const STYLE_PATH: &str = "/style.css";

/// The style of the page.
pub(crate) const STYLE: &str = "\
:root{color-scheme:light dark}body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:75rem;padding:0 1rem}\n\
table{border-collapse:collapse;width:100%}th,td{text-align:left;padding:.35rem .7rem;border-bottom:1px solid #8884}\n\
th{font-weight:600}.n{text-align:right;font-variant-numeric:tabular-nums}.attached{color:#2a7}.unattachable{color:#c52}\n\
.warn,.error,.critical{color:#c52}.warning{color:#b80}.critical{font-weight:600}small{opacity:.7}\n";

const HEAD: &str = "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>gcwatch</title>\n\
<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n\
<link rel=\"stylesheet\" href=\"/style.css\"></head><body>\n";

/// The page as HTML.
pub(crate) fn render(targets: &[TargetView], alerts: &[AlertView]) -> String {
    let mut page = String::from(HEAD);
    let attached = targets.iter().filter(|target| target.state == "attached").count();
    // Writing to a String cannot fail.
    let _ = write!(
        page,
        "<h1>gcwatch</h1>\n<p>{} .NET process{}, {attached} attached. <a href=\"/metrics\">metrics</a> \
         <a href=\"/api/v1/targets\">targets</a> <a href=\"/api/v1/gcs\">last collections</a> <a href=\"/api/v1/rules\">rules</a> <a href=\"/api/v1/alerts\">alerts</a></p>\n",
        targets.len(),
        if targets.len() == 1 { "" } else { "es" },
    );
    firing(&mut page, alerts);
    if targets.is_empty() {
        page.push_str(
            "<p>No .NET process found yet. <code>gcwatch ps</code> lists the processes that gcwatch can see.</p>\n",
        );
    } else {
        page.push_str(
            "<table><thead><tr><th class=\"n\">pid</th><th>process</th><th>.NET</th><th>state</th>\
             <th class=\"n\">collections</th><th class=\"n\">lost events</th><th class=\"n\">lag</th></tr></thead><tbody>\n",
        );
        for target in targets {
            row(&mut page, target);
        }
        page.push_str("</tbody></table>\n");
    }
    page.push_str("</body></html>\n");
    page
}

/// Limit of alerts on the page; the API has all.
const MOST_ALERTS: usize = 100;

fn firing(page: &mut String, alerts: &[AlertView]) {
    if alerts.is_empty() {
        return;
    }
    page.push_str(
        "<table><thead><tr><th>severity</th><th>alert</th><th>process</th><th>since</th></tr></thead><tbody>\n",
    );
    for alert in alerts.iter().take(MOST_ALERTS) {
        // Writing to a String cannot fail.
        let _ = writeln!(
            page,
            "<tr><td><span class=\"{severity}\">{severity}</span></td><td>{} <small>{}</small></td><td>{} <small>{}</small></td><td>{}</td></tr>",
            escape(&alert.alert.summary),
            escape(&alert.alert.rule),
            escape(&alert.process),
            alert.pid,
            alert.since.as_deref().unwrap_or_default(),
            severity = alert.alert.severity,
        );
    }
    page.push_str("</tbody></table>\n");
    if alerts.len() > MOST_ALERTS {
        // Writing to a String cannot fail.
        let _ = writeln!(
            page,
            "<p>and {} more: <a href=\"/api/v1/alerts\">all alerts</a></p>",
            alerts.len() - MOST_ALERTS
        );
    }
}

fn row(page: &mut String, target: &TargetView) {
    let service = target.service_name.as_deref().filter(|service| *service != target.name);
    let service = service.map_or_else(String::new, |service| format!(" <small>{}</small>", escape(service)));
    let detail = match (&target.reason, &target.detail) {
        (Some(reason), Some(detail)) => format!(" <small>{}: {}</small>", escape(reason), escape(detail)),
        (None, Some(detail)) => format!(" <small>{}</small>", escape(detail)),
        _ => String::new(),
    };
    let lost = match target.lost_events {
        None => "&ndash;".to_owned(),
        Some(0) => "0".to_owned(),
        Some(lost) => format!("<span class=\"warn\">{lost}</span>"),
    };
    let lag = target
        .lag_ns
        .and_then(|lag| i64::try_from(lag).ok())
        .map_or_else(|| "&ndash;".to_owned(), |lag| Span(lag).to_string());
    let collections = match target.last_collection {
        Some(last) => format!(
            "<a href=\"/api/v1/gcs?pid={}\">{}</a> <small>to {last}</small>",
            target.pid, target.collections
        ),
        None => target.collections.to_string(),
    };
    // Writing to a String cannot fail.
    let _ = writeln!(
        page,
        "<tr><td class=\"n\">{}</td><td>{}{service}</td><td>{}</td><td><span class=\"{state}\">{}</span>{detail}</td>\
         <td class=\"n\">{collections}</td><td class=\"n\">{lost}</td><td class=\"n\">{lag}</td></tr>",
        target.pid,
        escape(&target.name),
        target.runtime.as_deref().map_or_else(|| "&ndash;".to_owned(), escape),
        target.state.replace('_', " "),
        state = target.state,
    );
}

/// Names come from processes, which are not trusted.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            deceiving if !is_plain(deceiving) => escaped.push('\u{fffd}'),
            other => escaped.push(other),
        }
    }
    escaped
}
