//! The incidents of a recording as text: what happened, when, how often, its rules, and the remedy.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::io::{self, Write};
use std::sync::Arc;

use crate::report::table::{FAINT, HEADING, MARK};
use crate::report::units::{Seconds, Span, plural};
use gc_rules::incident::{Incident, Member};
use gc_rules::review::Review;
use gc_rules::rule::{On, Severity};
use gc_rules::time::TimeBase;

/// Limit of listed incidents; further ones are counted.
const MOST_LISTED: usize = 50;

/// Writes the incidents of one process, the most severe first; `base` is the time base of its stream.
///
/// # Errors
///
/// When the output cannot be written.
pub fn write(out: &mut dyn Write, review: &Review, base: TimeBase) -> io::Result<()> {
    let mut incidents: Vec<&Arc<Incident>> = review.incidents().collect();
    if incidents.is_empty() {
        return writeln!(out, "\nincidents: none");
    }
    writeln!(out, "\n{HEADING}incidents{HEADING:#}")?;
    incidents.sort_by_key(|incident| (Reverse(incident.severity), incident.number));
    let mut explained = HashSet::new();
    for incident in incidents.iter().take(MOST_LISTED) {
        let Some(cause) = incident.cause() else { continue };
        let name = incident.severity.name();
        if incident.severity >= Severity::Warning {
            write!(out, "{MARK}{name:<8}{MARK:#}")?;
        } else {
            write!(out, "{name:<8}")?;
        }
        let rule = cause.rule();
        writeln!(out, "  {}  {FAINT}{}{FAINT:#}", rule.title, when(incident, cause, base))?;
        writeln!(out, "          {}", cause.alert.summary)?;
        let members: Vec<String> = incident.members.iter().map(member).collect();
        writeln!(out, "          {FAINT}{}{FAINT:#}", members.join(", "))?;
        // The remedy of a rule is written once.
        if explained.insert(rule.id.clone()) && !rule.remedy.is_empty() {
            writeln!(out, "          {FAINT}-> {}{FAINT:#}", rule.remedy)?;
        }
    }
    let more = incidents.len().saturating_sub(MOST_LISTED);
    if more > 0 {
        writeln!(out, "and {}", plural(more as u64, "more incident"))?;
    }
    Ok(())
}

/// A rule, and how often it held.
fn member(member: &Member) -> String {
    let rule = member.rule();
    if rule.on == On::Gc && member.count > 1 {
        return format!("{} ({})", rule.id, plural(member.count, "time"));
    }
    rule.id.to_string()
}

/// Start, collection and duration.
fn when(incident: &Incident, cause: &Member, base: TimeBase) -> String {
    let offset = |unix_ns: u64| i64::try_from(unix_ns.saturating_sub(base.unix_ns(0))).unwrap_or(i64::MAX);
    let mut text = format!("at {} s", Seconds(Some(offset(incident.began_unix_ns))));
    if let Some(number) = cause.alert.collection {
        text.push_str(&format!(", #{number}"));
    }
    let last = incident.members.iter().map(|member| member.alert.last_unix_ns).max();
    let lasted = last.unwrap_or(0).saturating_sub(incident.began_unix_ns);
    let lasted = Span(i64::try_from(lasted).unwrap_or(i64::MAX));
    if lasted.0 > 0 {
        text.push_str(&format!(", for {lasted}"));
    }
    text
}
