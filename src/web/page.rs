//! The status page: incidents, and the processes with their states; and the page of one process.

use std::fmt::Write as _;

use dotnet_diagnostics::text::is_plain;

use crate::pipeline::TargetView;
use crate::report::units::{Bytes, Span};
use delivery::clock::now_unix_ns;
use gc_rules::incident::IncidentRecord;
use serde_json::Value;

/// Where the style is. In the page itself a content security policy would have to allow it by its digest.
pub(crate) const STYLE_PATH: &str = "/style.css";

/// The style of the page.
pub(crate) const STYLE: &str = "\
:root{color-scheme:light dark}body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:75rem;padding:0 1rem}\n\
table{border-collapse:collapse;width:100%}th,td{text-align:left;padding:.35rem .7rem;border-bottom:1px solid #8884}\n\
th{font-weight:600}.n{text-align:right;font-variant-numeric:tabular-nums}.attached{color:#2a7}.unattachable{color:#c52}\n\
.warn,.error,.critical{color:#c52}.warning{color:#b80}.critical{font-weight:600}small{opacity:.7}\n\
.incident{border-left:.3rem solid #8884;padding:.2rem .9rem;margin:1rem 0}.incident.error,.incident.critical{border-color:#c52}\n\
.incident.warning{border-color:#b80}.incident p{margin:.3rem 0;color:CanvasText;font-weight:400}h2{font-size:1.05rem;margin:.2rem 0}\n\
code{overflow-wrap:anywhere}.wide{overflow-x:auto}\n";

const HEAD: &str = "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>gcwatch</title>\n\
<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n\
<link rel=\"stylesheet\" href=\"/style.css\"></head><body>\n";

/// The page as HTML.
pub(crate) fn render(targets: &[TargetView], incidents: &[IncidentRecord]) -> String {
    let mut page = String::from(HEAD);
    let attached = targets.iter().filter(|target| target.state == "attached").count();
    // Writing to a String cannot fail.
    let _ = write!(
        page,
        "<h1>gcwatch</h1>\n<p>{} .NET process{}, {attached} attached. <a href=\"/metrics\">metrics</a> \
         <a href=\"/api/v1/targets\">targets</a> <a href=\"/api/v1/gcs\">last collections</a> <a href=\"/api/v1/rules\">rules</a> <a href=\"/api/v1/incidents\">incidents</a> \
         <a href=\"/api/v1/alerts\">alerts</a></p>\n",
        targets.len(),
        if targets.len() == 1 { "" } else { "es" },
    );
    let now = now_unix_ns();
    all_incidents(&mut page, incidents, now);
    if targets.is_empty() {
        page.push_str(
            "<p>No .NET process found yet. <code>gcwatch ps</code> lists the processes that gcwatch can see.</p>\n",
        );
    } else {
        table_of(&mut page, targets);
    }
    page.push_str("</body></html>\n");
    page
}

fn table_of(page: &mut String, targets: &[TargetView]) {
    page.push_str(
        "<div class=\"wide\"><table><thead><tr><th class=\"n\">pid</th><th>process</th><th>.NET</th><th>state</th>\
         <th class=\"n\">collections</th><th class=\"n\">lost events</th><th class=\"n\">lag</th></tr></thead><tbody>\n",
    );
    for target in targets {
        row(page, target);
    }
    page.push_str("</tbody></table></div>\n");
}

/// The page of one process: what is wrong, and its newest collections.
pub(crate) fn process(
    pid: u32,
    target: Option<&TargetView>,
    incidents: &[IncidentRecord],
    collections: &[Value],
) -> String {
    let mut page = String::from(HEAD);
    let name = target.map_or_else(|| "not known".to_owned(), |target| escape(&target.name));
    // Writing to a String cannot fail.
    let _ = write!(
        page,
        "<p><a href=\"/\">all processes</a></p>\n<h1>{name} <small>{pid}</small></h1>\n"
    );
    match target {
        Some(target) => table_of(&mut page, std::slice::from_ref(target)),
        None => page.push_str("<p>No process of this pid is known; it may have exited.</p>\n"),
    }
    all_incidents(&mut page, incidents, now_unix_ns());
    if !collections.is_empty() {
        collections_of(&mut page, collections);
    }
    page.push_str("</body></html>\n");
    page
}

/// Most collections on the page of a process; the API has all that are kept.
const MOST_COLLECTIONS: usize = 100;

fn collections_of(page: &mut String, collections: &[Value]) {
    page.push_str(
        "<div class=\"wide\"><table><thead><tr><th class=\"n\">collection</th><th>start</th><th class=\"n\">generation</th>\
         <th>type</th><th>reason</th><th class=\"n\">pause</th><th class=\"n\">suspension</th>\
         <th class=\"n\">heap after</th></tr></thead><tbody>\n",
    );
    let text = |value: &Value| match value {
        Value::String(text) => escape(text),
        Value::Number(number) => number.to_string(),
        _ => "&ndash;".to_owned(),
    };
    let span = |value: &Value| {
        value
            .as_i64()
            .map_or_else(|| "&ndash;".to_owned(), |ns| Span(ns).to_string())
    };
    for gc in collections.iter().take(MOST_COLLECTIONS) {
        let heap = gc["heap_after"]
            .as_u64()
            .map_or_else(|| "&ndash;".to_owned(), |bytes| Bytes(bytes).to_string());
        let start = gc["start"]
            .as_str()
            .map_or_else(|| "&ndash;".to_owned(), |start| escape(&second(start)));
        // Writing to a String cannot fail.
        let _ = writeln!(
            page,
            "<tr><td class=\"n\">{}</td><td>{start}</td><td class=\"n\">{}</td><td>{}</td><td>{}</td>\
             <td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{heap}</td></tr>",
            text(&gc["number"]),
            text(&gc["generation"]),
            text(&gc["type"]),
            text(&gc["reason"]),
            span(&gc["pause_ns"]),
            span(&gc["suspend_ns"]),
        );
    }
    page.push_str("</tbody></table></div>\n");
}

/// Limit of incidents on the page; the API has all.
const MOST_INCIDENTS: usize = 100;

/// Those that are open whole, those that ended as a line each.
fn all_incidents(page: &mut String, incidents: &[IncidentRecord], now_unix_ns: u64) {
    let (open, ended): (Vec<_>, Vec<_>) = incidents.iter().partition(|incident| incident.until.is_none());
    for incident in open.iter().take(MOST_INCIDENTS) {
        incident_of(page, incident, now_unix_ns);
    }
    if open.len() > MOST_INCIDENTS {
        let more = open.len() - MOST_INCIDENTS;
        // Writing to a String cannot fail.
        let _ = writeln!(
            page,
            "<p>and {more} more: <a href=\"/api/v1/incidents\">all incidents</a></p>"
        );
    }
    if ended.is_empty() {
        return;
    }
    // Writing to a String cannot fail.
    let _ = writeln!(page, "<details><summary>{} over</summary><ul>", ended.len());
    for incident in ended {
        let _ = writeln!(
            page,
            "<li><span class=\"{severity}\">{severity}</span> {}: {} <small>{} to {}</small></li>",
            who(incident),
            escape(&incident.title),
            second(incident.since.as_deref().unwrap_or_default()),
            second(incident.until.as_deref().unwrap_or_default()),
            severity = incident.severity,
        );
    }
    page.push_str("</ul></details>\n");
}

fn incident_of(page: &mut String, incident: &IncidentRecord, now_unix_ns: u64) {
    let members: Vec<String> = incident.members.iter().map(|member| escape(&member.line())).collect();
    let exited = if incident.process_ended.is_some() {
        ", exited"
    } else {
        ""
    };
    // Writing to a String cannot fail.
    let _ = writeln!(
        page,
        "<div class=\"incident {severity}\"><h2>{} <small>{}{exited}, {severity} since {}</small></h2><p>{}</p>",
        escape(&incident.title),
        who(incident),
        age(incident.since.as_deref(), now_unix_ns),
        escape(&incident.summary),
        severity = incident.severity,
    );
    if !incident.remedy.is_empty() {
        let _ = writeln!(page, "<p>{}</p>", escape(&incident.remedy));
    }
    if let Some(command) = &incident.command {
        let _ = writeln!(page, "<p><code>{}</code></p>", escape(command));
    }
    let _ = writeln!(page, "<p><small>{}</small></p></div>", members.join(", "));
}

/// Service or process, pod and pid, with a link to its page.
fn who(incident: &IncidentRecord) -> String {
    let name = incident
        .service
        .as_deref()
        .or(incident.process.as_deref())
        .unwrap_or("process");
    let pod = incident
        .resource
        .get("k8s.pod.name")
        .map(|pod| format!(" {}", escape(pod)));
    let pid = incident.pid.unwrap_or_default();
    format!(
        "<a href=\"/processes/{pid}\">{}</a>{} {pid}",
        escape(name),
        pod.unwrap_or_default()
    )
}

/// `4 min` since an instant of RFC 3339.
fn age(since: Option<&str>, now_unix_ns: u64) -> String {
    let since = since.and_then(|since| since.parse::<jiff::Timestamp>().ok());
    let ns = since.map(|since| i128::from(now_unix_ns) - since.as_nanosecond());
    match ns.map(|ns| ns.max(0) / 1_000_000_000) {
        None => "an unknown time".to_owned(),
        Some(seconds @ 0..=119) => format!("{seconds} s"),
        Some(seconds @ 120..=7199) => format!("{} min", seconds / 60),
        Some(seconds) => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
    }
}

/// An instant of RFC 3339 to the second.
fn second(instant: &str) -> String {
    match instant.split_once('.') {
        Some((seconds, _)) => format!("{}Z", seconds.replace('T', " ")),
        None => instant.replace('T', " "),
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
