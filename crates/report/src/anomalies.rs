//! The incidents of a recording as text: the symptoms with their times and counts, rules, causes and remedies.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::io::{self, Write};
use std::sync::Arc;

use serde::Serialize;

use crate::table::{FAINT, HEADING, MARK, wrapped};
use crate::units::{Seconds, Span, plural};
use api::gc::Subject;
use base::time::TimeBase;
use incidents::review::Review;
use incidents::{Incident, Member, remedy_for_a_file};
use rule_engine::rule::{EvaluationTrigger, Rule, Severity};

/// `kind: "rules_judged"`: the number of rules that gcwatch could evaluate on a recording, and the rules that it could
/// not evaluate.
#[derive(Debug, Serialize)]
#[serde(tag = "kind", rename = "rules_judged")]
pub struct JudgedRecord {
    #[serde(flatten)]
    subject: Subject,
    /// Number of enabled rules.
    rules: usize,
    /// Number of rules whose result was known at some time.
    judged: usize,
    /// Rules that need a longer recording.
    too_short: Vec<Box<str>>,
    /// Rules that need values, settings, limits or samples that the recording does not contain.
    unknown: Vec<Box<str>>,
    /// Rules of `too_short` that hold for the recorded time, one per group.
    so_far: Vec<UnconfirmedRule>,
}

/// A rule that needs a longer recording and holds so far.
#[derive(Debug, Serialize)]
struct UnconfirmedRule {
    rule: Box<str>,
    severity: Severity,
    summary: String,
}

impl JudgedRecord {
    /// Creates the record of a process that was observed for `observed_ns`.
    pub fn new(subject: Subject, review: &Review, observed_ns: i64) -> Self {
        let not = review.not_judged(observed_ns);
        let ids = |rules: &[Arc<Rule>]| rules.iter().map(|rule| (&*rule.id).into()).collect();
        let rules = enabled(review);
        Self {
            subject,
            rules,
            judged: rules.saturating_sub(not.count()),
            too_short: ids(&not.too_short),
            unknown: ids(&not.unknown),
            so_far: not
                .so_far
                .iter()
                .map(|(rule, summary)| UnconfirmedRule {
                    rule: (&*rule.id).into(),
                    severity: rule.severity,
                    summary: summary.clone(),
                })
                .collect(),
        }
    }
}

fn enabled(review: &Review) -> usize {
    review.engine().rules().rules.iter().filter(|rule| rule.enabled).count()
}

/// Writes the rules that would hold if a longer recording continued in the same way, then the number of rules that
/// could not be evaluated and the reasons, if there are any.
pub fn write_judged(out: &mut dyn Write, review: &Review, observed_ns: i64) -> io::Result<()> {
    let not = review.not_judged(observed_ns);
    if not.count() == 0 {
        return Ok(());
    }
    if !not.so_far.is_empty() {
        writeln!(out, "{HEADING}so far, in a recording too short to judge it{HEADING:#}")?;
    }
    for (rule, summary) in &not.so_far {
        writeln!(
            out,
            "{:<8}  {}  {FAINT}{}{FAINT:#}",
            rule.severity.name(),
            rule.title,
            rule.id
        )?;
        writeln!(out, "          {summary}")?;
    }
    let reasons = [
        (not.too_short.len(), "need a longer recording"),
        (
            not.unknown.len(),
            "need values, settings or limits that it does not have",
        ),
    ];
    let reasons: Vec<String> = reasons
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, why)| format!("{count} {why}"))
        .collect();
    writeln!(
        out,
        "{FAINT}not judged: {} of {} rules; {}{FAINT:#}",
        not.count(),
        enabled(review),
        reasons.join(", ")
    )
}

/// Maximum number of listed incidents. Further incidents are counted.
const MAX_LISTED: usize = 50;

/// Writes the incidents of one process, the most severe first. `base` is the time base of its stream.
pub fn write(out: &mut dyn Write, review: &Review, base: TimeBase) -> io::Result<()> {
    let mut incidents: Vec<&Arc<Incident>> = review.incidents().collect();
    if incidents.is_empty() {
        return writeln!(out, "\nincidents: none");
    }
    writeln!(out, "\n{HEADING}incidents{HEADING:#}")?;
    incidents.sort_by_key(|incident| (Reverse(incident.severity), incident.number));
    let mut explained = HashSet::new();
    for incident in incidents.iter().take(MAX_LISTED) {
        let Some(head) = incident.head() else { continue };
        let name = incident.severity.name();
        if incident.severity >= Severity::Warning {
            write!(out, "{MARK}{name:<8}{MARK:#}")?;
        } else {
            write!(out, "{name:<8}")?;
        }
        let rule = head.rule();
        writeln!(out, "  {}  {FAINT}{}{FAINT:#}", rule.title, when(incident, head, base))?;
        writeln!(out, "          {}", wrapped(&head.alert.summary, 10))?;
        let causes = incident.causes();
        for cause in &causes {
            let share = cause
                .share
                .map_or_else(String::new, |share| format!(" ({:.0} %)", share * 100.0));
            writeln!(out, "          cause: {}{share}", cause.rule().title)?;
            writeln!(out, "            {}", wrapped(&cause.alert.summary, 12))?;
        }
        if causes.is_empty() && head.rule().amount.is_some() {
            writeln!(out, "          cause: no known cause explains 30 % of it")?;
        }
        let members: Vec<String> = incident.members.iter().map(member).collect();
        writeln!(out, "          {FAINT}{}{FAINT:#}", wrapped(&members.join(", "), 10))?;
        // The remedy of the main cause, or of the rule if no cause is known, is written once.
        let advice = causes.first().map_or(rule, |cause| cause.rule());
        if explained.insert(advice.id.clone()) && !advice.remedy.is_empty() {
            writeln!(
                out,
                "          {FAINT}-> {}{FAINT:#}",
                wrapped(&remedy_for_a_file(&advice.remedy), 13)
            )?;
        }
    }
    let more = incidents.len().saturating_sub(MAX_LISTED);
    if more > 0 {
        writeln!(out, "and {}", plural(more as u64, "more incident"))?;
    }
    Ok(())
}

/// Returns the id of a rule, with the number of collections for which it held if this number is more than 1.
fn member(member: &Member) -> String {
    let rule = member.rule();
    if rule.on == EvaluationTrigger::Gc && member.count > 1 {
        return format!("{} ({})", rule.id, plural(member.count, "time"));
    }
    rule.id.to_string()
}

/// Returns the start, the collection and the duration of an incident, if known.
fn when(incident: &Incident, head: &Member, base: TimeBase) -> String {
    let offset = i64::try_from(incident.began.since(base.moment(0))).unwrap_or(i64::MAX);
    let mut text = format!("at {} s", Seconds(Some(offset)));
    if let Some(number) = head.alert.collection {
        text.push_str(&format!(", #{number}"));
    }
    let last = incident.harms().map(|member| member.alert.last).max();
    let lasted = last.map_or(0, |last| last.since(incident.began));
    let lasted = Span(i64::try_from(lasted).unwrap_or(i64::MAX));
    if lasted.0 > 0 {
        text.push_str(&format!(", for {lasted}"));
    }
    text
}
