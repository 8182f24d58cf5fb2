//! The incidents of a daemon: a table, and one incident in full.
//!
//! The records of the incidents come from `/api/v1/overview`. They are read from JSON, because the daemon can have
//! another version.

use std::io::{self, Write};

use rule_engine::rule::Severity;
use serde::Deserialize;
use serde_json::Value;

use crate::table::{self, BAD, Column, FAINT, HEADING, MARK, head, left, row, wrapped};
use crate::units::{UNKNOWN, plural};

/// Minimum number of characters of an id that select an incident.
const MIN_ID: usize = 4;
/// Number of characters of an id in the table.
const SHOWN_ID: usize = 8;
/// Milliseconds of an hour and of a day, for ages.
const HOUR_MS: u64 = 3_600_000;
const DAY_MS: u64 = 24 * HOUR_MS;

/// A state of incidents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// The harm continues.
    Open,
    /// The harm has ended.
    Ended,
}

/// The conditions for listed incidents. A field is `None` if it is not restricted.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// The state.
    pub state: Option<State>,
    /// The lowest severity.
    pub severity: Option<Severity>,
    /// The rule that names the incident, or its family: `memory` selects `memory.growth`.
    pub rule: Option<String>,
    /// Pid of the process on the host.
    pub pid: Option<u32>,
    /// Part of the name of the service or the process, in any case.
    pub name: Option<String>,
    /// Name of the pod.
    pub pod: Option<String>,
    /// Namespace of the pod.
    pub namespace: Option<String>,
    /// Age in milliseconds: incidents that were open within this time.
    pub within_ms: Option<u64>,
}

/// Error returned if a text does not select exactly one incident by its id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SelectionError {
    /// No incident has an id that starts with the given text.
    None,
    /// Several incidents, whose number is the value, have an id that starts with the given text.
    Several(usize),
    /// The given text has fewer than 4 characters.
    TooShort,
}

impl std::fmt::Display for SelectionError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::None => write!(
                f,
                "the daemon has no incident with this id; new incidents replace the oldest ones"
            ),
            Self::Several(count) => write!(f, "{count} incidents have an id with this start; write more of the id"),
            Self::TooShort => write!(f, "an id needs at least {MIN_ID} characters"),
        }
    }
}

impl std::error::Error for SelectionError {}

/// The answer of a daemon to `/api/v1/overview`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Incidents {
    /// Time of the answer, Unix milliseconds.
    pub at_ms: u64,
    /// Name of the daemon's host.
    pub host: Option<String>,
    /// The records as the daemon sent them, open incidents first.
    pub incidents: Vec<Value>,
}

impl Incidents {
    /// Returns the incidents that fulfil the conditions, in order.
    pub fn matching(&self, filter: &Filter) -> Vec<&Value> {
        let matches = |record: &&Value| filter.matches(&Incident::read(record), self.at_ms);
        self.incidents.iter().filter(matches).collect()
    }

    /// Returns the only incident whose id is or starts with the given text.
    ///
    /// # Errors
    ///
    /// Returns an error if the text selects no incident or several incidents, or has fewer than 4 characters.
    pub fn with_id(&self, id: &str) -> Result<&Value, SelectionError> {
        if id.len() < MIN_ID {
            return Err(SelectionError::TooShort);
        }
        let mut found = self.incidents.iter().filter(|record| {
            record
                .get("id")
                .and_then(Value::as_str)
                .is_some_and(|own| own.starts_with(id))
        });
        let first = found.next().ok_or(SelectionError::None)?;
        match found.count() {
            0 => Ok(first),
            others => Err(SelectionError::Several(others + 1)),
        }
    }
}

impl Filter {
    /// Returns whether there is no condition.
    fn is_empty(&self) -> bool {
        self.state.is_none()
            && self.severity.is_none()
            && self.rule.is_none()
            && self.pid.is_none()
            && self.name.is_none()
            && self.pod.is_none()
            && self.namespace.is_none()
            && self.within_ms.is_none()
    }

    fn matches(&self, incident: &Incident, now_ms: u64) -> bool {
        let is_state = |state| incident.is_open() == (state == State::Open);
        let is_grave = |least| incident.severity().is_some_and(|severity| severity >= least);
        let is_rule = |wanted: &String| {
            let rest = incident
                .symptom
                .as_deref()
                .and_then(|rule| rule.strip_prefix(wanted.as_str()));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        let has_name = |part: &String| {
            let names = [&incident.service, &incident.process];
            let part = part.to_lowercase();
            names
                .into_iter()
                .flatten()
                .any(|name| name.to_lowercase().contains(&part))
        };
        let is_recent = |within| {
            let until = incident.until.as_deref().and_then(unix_ms);
            until.is_none_or(|until| now_ms.saturating_sub(until) <= within)
        };
        self.state.is_none_or(is_state)
            && self.severity.is_none_or(is_grave)
            && self.rule.as_ref().is_none_or(is_rule)
            && self.pid.is_none_or(|pid| incident.pid == Some(pid))
            && self.name.as_ref().is_none_or(has_name)
            && (self.pod.is_none() || self.pod == incident.resource.pod)
            && (self.namespace.is_none() || self.namespace == incident.resource.namespace)
            && self.within_ms.is_none_or(is_recent)
    }
}

/// The parts of a record that are shown.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Incident {
    id: Option<String>,
    state: Option<String>,
    ending: Option<String>,
    severity: Option<String>,
    symptom: Option<String>,
    title: Option<String>,
    summary: Option<String>,
    description: Option<String>,
    remedy: Option<String>,
    command: Option<String>,
    since: Option<String>,
    until: Option<String>,
    pid: Option<u32>,
    process: Option<String>,
    service: Option<String>,
    resource: Resource,
    causes: Vec<Cause>,
    members: Vec<Member>,
    evidence: Vec<Evidence>,
}

/// Attributes of the process.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Resource {
    #[serde(rename = "k8s.pod.name")]
    pod: Option<String>,
    #[serde(rename = "k8s.namespace.name")]
    namespace: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Cause {
    title: Option<String>,
    share: Option<f64>,
    summary: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Member {
    rule: Option<String>,
    severity: Option<String>,
    count: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Evidence {
    name: Option<String>,
    text: Option<String>,
    #[serde(rename = "where")]
    place: Option<String>,
    stored: Option<String>,
}

impl Incident {
    /// Reads the known fields of a record. If the record has another shape, all fields are empty.
    fn read(record: &Value) -> Self {
        Self::deserialize(record).unwrap_or_default()
    }

    fn is_open(&self) -> bool {
        self.state.as_deref() == Some("firing")
    }

    fn severity(&self) -> Option<Severity> {
        self.severity.as_deref()?.parse().ok()
    }

    /// Returns the name of the service or of the process, with the pid; unknown parts are left out.
    fn subject(&self) -> String {
        let name = self.service.as_ref().or(self.process.as_ref());
        match (name, self.pid) {
            (Some(name), Some(pid)) => format!("{name} ({pid})"),
            (Some(name), None) => name.clone(),
            (None, Some(pid)) => pid.to_string(),
            (None, None) => UNKNOWN.to_owned(),
        }
    }

    /// Returns the duration of the incident in words, up to now if the incident is open. Returns `None` if a time is
    /// missing or invalid.
    fn duration(&self, now_ms: u64) -> Option<String> {
        let since = unix_ms(self.since.as_deref()?)?;
        let until = match &self.until {
            Some(until) => unix_ms(until)?,
            None => now_ms,
        };
        Some(words(until.saturating_sub(since)))
    }

    /// Returns for example `open 3 min` or `ended 5 min ago`, without the duration if it is unknown.
    fn when(&self, now_ms: u64) -> String {
        if self.is_open() {
            return match self.duration(now_ms) {
                Some(duration) => format!("open {duration}"),
                None => "open".to_owned(),
            };
        }
        let until = self.until.as_deref().and_then(unix_ms);
        until.map_or_else(
            || "ended".to_owned(),
            |until| format!("ended {} ago", words(now_ms.saturating_sub(until))),
        )
    }

    /// Returns the first cause with its share, or an empty text if no cause is known.
    fn cause(&self) -> String {
        let first = self.causes.first();
        first.map_or_else(String::new, Cause::line)
    }
}

impl Cause {
    fn line(&self) -> String {
        let title = text(self.title.as_ref());
        match self.share {
            Some(share) => format!("{title} ({:.0} %)", share * 100.0),
            None => title.to_owned(),
        }
    }
}

fn text(value: Option<&String>) -> &str {
    value.map_or(UNKNOWN, String::as_str)
}

fn unix_ms(time: &str) -> Option<u64> {
    let time: jiff::Timestamp = time.parse().ok()?;
    u64::try_from(time.as_millisecond()).ok()
}

/// Formats a duration in words.
fn words(ms: u64) -> String {
    match ms {
        0..120_000 => format!("{} s", ms / 1000),
        120_000..7_200_000 => format!("{} min", ms / 60_000),
        7_200_000..172_800_000 => format!("{} h", ms / HOUR_MS),
        _ => format!("{} d", ms / DAY_MS),
    }
}

const COLUMNS: [Column; 6] = [
    left("id", SHOWN_ID),
    left("severity", 8),
    left("when", 17),
    left("process", 24),
    left("title", 36),
    left("cause", 0),
];
/// The columns that stay longest on a narrow terminal have the highest numbers.
const IMPORTANCE: [u8; 6] = [5, 3, 4, 2, 6, 1];
/// Minimum number of characters for the last column.
const CAUSE_WIDTH: usize = 24;

/// Writes a line per incident, and the number of incidents that the conditions exclude.
///
/// # Errors
///
/// Returns an error if the output cannot be written.
pub fn write(out: &mut dyn Write, all: &Incidents, filter: &Filter) -> io::Result<()> {
    let chosen = all.matching(filter);
    let excluded = all.incidents.len() - chosen.len();
    if chosen.is_empty() {
        let host = all.host.as_ref().map_or_else(String::new, |host| format!(" on {host}"));
        return match excluded {
            0 => writeln!(out, "no incidents{host}"),
            _ => writeln!(
                out,
                "no such incidents{host}; {} in total",
                plural(excluded as u64, "incident")
            ),
        };
    }
    let shown = table::fitting(&COLUMNS, &IMPORTANCE, CAUSE_WIDTH);
    let columns = table::chosen(&shown, &COLUMNS);
    head(out, &columns)?;
    for record in chosen {
        let incident = Incident::read(record);
        let id = incident.id.as_deref().unwrap_or(UNKNOWN);
        let cells = [
            id.chars().take(SHOWN_ID).collect(),
            painted(&incident),
            incident.when(all.at_ms),
            incident.subject(),
            text(incident.title.as_ref()).to_owned(),
            incident.cause(),
        ];
        row(out, &columns, &table::chosen(&shown, &cells))?;
    }
    if excluded > 0 && !filter.is_empty() {
        writeln!(out, "{FAINT}{} excluded{FAINT:#}", plural(excluded as u64, "incident"))?;
    }
    Ok(())
}

/// Returns the severity in its style. The severity is padded here, because a column also counts the characters of a
/// style.
fn painted(incident: &Incident) -> String {
    let word = incident.severity.as_deref().unwrap_or(UNKNOWN);
    match incident.severity() {
        Some(Severity::Critical | Severity::Error) => format!("{BAD}{word:<8}{BAD:#}"),
        Some(Severity::Warning) => format!("{MARK}{word:<8}{MARK:#}"),
        _ => word.to_owned(),
    }
}

/// Indentation of the texts of one incident.
const INDENT: usize = 12;

/// Writes one incident in full. `address` is the address of the listener, for paths of evidence.
///
/// # Errors
///
/// Returns an error if the output cannot be written.
pub fn write_one(out: &mut dyn Write, record: &Value, at_ms: u64, address: &str) -> io::Result<()> {
    let incident = Incident::read(record);
    writeln!(
        out,
        "{HEADING}{}{HEADING:#}  {}  {}",
        text(incident.title.as_ref()),
        painted(&incident).trim_end(),
        incident.subject()
    )?;
    let mut line = |name: &str, words: &str| writeln!(out, "  {name:<8}  {}", wrapped(words, INDENT));
    line("id", text(incident.id.as_ref()))?;
    line("rule", text(incident.symptom.as_ref()))?;
    let since = text(incident.since.as_ref());
    let mut when = format!("{}, since {since}", incident.when(at_ms));
    if let Some(until) = &incident.until {
        let duration = incident.duration(at_ms).unwrap_or_else(|| UNKNOWN.to_owned());
        when += &format!(" until {until} ({duration}");
        when += &incident
            .ending
            .as_ref()
            .map_or_else(String::new, |ending| format!(", {ending}"));
        when.push(')');
    }
    line("when", &when)?;
    if let Some(pod) = &incident.resource.pod {
        let namespace = incident.resource.namespace.as_ref();
        line(
            "pod",
            &namespace.map_or_else(|| pod.clone(), |namespace| format!("{namespace}/{pod}")),
        )?;
    }
    line("summary", text(incident.summary.as_ref()))?;
    if let Some(description) = incident.description.as_ref().filter(|text| !text.is_empty()) {
        line("meaning", description)?;
    }
    for (cause, name) in incident
        .causes
        .iter()
        .zip(std::iter::once("causes").chain(std::iter::repeat("")))
    {
        let summary = cause
            .summary
            .as_ref()
            .map_or_else(String::new, |summary| format!(": {summary}"));
        line(name, &format!("{}{summary}", cause.line()))?;
    }
    if let Some(remedy) = incident.remedy.as_ref().filter(|text| !text.is_empty()) {
        line("remedy", remedy)?;
    }
    if let Some(command) = &incident.command {
        line("next", command)?;
    }
    for (evidence, name) in incident
        .evidence
        .iter()
        .zip(std::iter::once("evidence").chain(std::iter::repeat("")))
    {
        // Only evidence that the API serves has a path. Other evidence names a field of the record.
        let path = evidence.place.as_deref().filter(|place| place.starts_with('/'));
        let path = path.map_or_else(String::new, |path| format!(" ({address}{path})"));
        let stored = evidence
            .stored
            .as_ref()
            .map_or_else(String::new, |stored| format!("; copy: {stored}"));
        let (kind, said) = (text(evidence.name.as_ref()), text(evidence.text.as_ref()));
        line(
            name,
            &format!("{}: {said}{path}{stored}", kind.replace(['_', '-'], " ")),
        )?;
    }
    let members = incident
        .members
        .iter()
        .zip(std::iter::once("rules").chain(std::iter::repeat("")));
    for (member, name) in members {
        let times = member
            .count
            .map_or_else(|| UNKNOWN.to_owned(), |count| plural(count, "time"));
        let severity = text(member.severity.as_ref());
        line(name, &format!("{} ({severity}, {times})", text(member.rule.as_ref())))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn incidents() -> Incidents {
        serde_json::from_value(json!({ "at_ms": 1_800_000_600_000_u64, "host": "node7", "incidents": [
            { "id": "aaaa1111bbbb2222", "state": "firing", "severity": "error", "symptom": "time.stopped",
              "title": "The GC stops the process", "summary": "9 % of the last minute", "remedy": "Pool buffers.",
              "since": "2027-01-15T08:00:00Z", "until": null, "pid": 4711, "process": "Shop", "service": "checkout",
              "resource": { "k8s.pod.name": "checkout-7d9f", "k8s.namespace.name": "trial" },
              "causes": [{ "title": "Large objects", "share": 0.62, "summary": "62 % of the pauses" }],
              "members": [{ "rule": "time.stopped", "severity": "error", "count": 1 }],
              "evidence": [{ "name": "black_box", "text": "a recording", "where": "/api/v1/evidence/x.nettrace",
                             "stored": "s3://b/n/x.nettrace" },
                           { "name": "callers", "text": "Shop.Cart", "where": "callers" }], "new_field": 7 },
            { "id": "aaaa3333bbbb4444", "state": "ended", "ending": "resolved", "severity": "warning",
              "symptom": "memory.growth", "title": "Memory\u{1b} grows", "since": "2027-01-15T07:00:00Z",
              "until": "2027-01-15T07:30:00Z", "pid": null, "process": "Orders", "causes": [] },
            "no record",
        ] }))
        .unwrap()
    }

    fn ids(filter: &Filter) -> Vec<String> {
        let all = incidents();
        let chosen = all.matching(filter).into_iter();
        chosen
            .filter_map(|record| Some(record.get("id")?.as_str()?.get(..8)?.to_owned()))
            .collect()
    }

    /// Scenario: each condition is applied to an open incident of a pod, an ended incident without a pod, and a record
    /// of another shape.
    /// Guarantee: only incidents that fulfil the condition are returned, unchanged.
    #[test]
    fn conditions_select_incidents() {
        let (open, ended) = ("aaaa1111".to_owned(), "aaaa3333".to_owned());
        let none = Filter::default;
        assert_eq!(ids(&none()), [open.clone(), ended.clone()]);
        let only_open = [
            Filter {
                state: Some(State::Open),
                ..none()
            },
            Filter {
                severity: Some(Severity::Error),
                ..none()
            },
            Filter {
                rule: Some("time".to_owned()),
                ..none()
            },
            Filter {
                rule: Some("time.stopped".to_owned()),
                ..none()
            },
            Filter {
                pid: Some(4711),
                ..none()
            },
            Filter {
                name: Some("CHECK".to_owned()),
                ..none()
            },
            Filter {
                pod: Some("checkout-7d9f".to_owned()),
                ..none()
            },
            Filter {
                namespace: Some("trial".to_owned()),
                ..none()
            },
            Filter {
                within_ms: Some(60_000),
                ..none()
            },
        ];
        for filter in only_open {
            assert_eq!(ids(&filter), *std::slice::from_ref(&open), "{filter:?}");
        }
        assert_eq!(
            ids(&Filter {
                name: Some("order".to_owned()),
                ..none()
            }),
            *std::slice::from_ref(&ended)
        );
        assert_eq!(
            ids(&Filter {
                within_ms: Some(3 * HOUR_MS),
                ..none()
            }),
            [open, ended]
        );
        for filter in [
            Filter {
                rule: Some("tim".to_owned()),
                ..none()
            },
            Filter {
                pod: Some("checkout".to_owned()),
                ..none()
            },
            Filter { pid: Some(0), ..none() },
        ] {
            assert_eq!(ids(&filter), [""; 0], "{filter:?}");
        }
        let all = incidents();
        let record = all.matching(&Filter {
            state: Some(State::Open),
            ..none()
        });
        assert_eq!(
            record.first().and_then(|record| record.get("new_field")),
            Some(&json!(7))
        );
    }

    /// Scenario: an incident is selected by its id, by the start of its id, by a start that two ids have, by another id
    /// and by one character.
    /// Guarantee: the result is the only matching incident, or the reason why no incident was selected.
    #[test]
    fn id_selects_one_incident() {
        let all = incidents();
        let id_of = |id: &str| all.with_id(id).map(|record| record["id"].as_str().unwrap().to_owned());
        assert_eq!(id_of("aaaa1111bbbb2222").as_deref(), Ok("aaaa1111bbbb2222"));
        assert_eq!(id_of("aaaa3").as_deref(), Ok("aaaa3333bbbb4444"));
        assert_eq!(id_of("aaaa"), Err(SelectionError::Several(2)));
        assert_eq!(id_of("bbbb"), Err(SelectionError::None));
        assert_eq!(id_of("a"), Err(SelectionError::TooShort));
    }

    /// Scenario: a table with a condition, a table whose condition excludes all incidents, a table of an empty answer,
    /// and two incidents in full are written.
    /// Guarantee: the tables have the figures of the records and the number of excluded incidents; an unknown value is
    /// a dash.
    #[test]
    fn tables_have_what_records_have() {
        let written = |filter: &Filter| {
            let mut out = Vec::new();
            write(&mut out, &incidents(), filter).unwrap();
            String::from_utf8(out).unwrap()
        };
        let table = written(&Filter {
            severity: Some(Severity::Info),
            ..Filter::default()
        });
        let lines: Vec<&str> = table.lines().collect();
        assert!(lines[1].starts_with("aaaa1111  error     open 10 min"), "{table}");
        assert!(
            lines[1].ends_with("Large objects (62 %)") && lines[1].contains("checkout (4711)"),
            "{table}"
        );
        assert!(
            lines[2].contains("ended 40 min ago") && lines[2].contains("Orders"),
            "{table}"
        );
        assert_eq!(lines[3], "1 incident excluded");
        let other = Filter {
            pid: Some(1),
            ..Filter::default()
        };
        assert_eq!(written(&other), "no such incidents on node7; 3 incidents in total\n");
        let mut out = Vec::new();
        write(&mut out, &Incidents::default(), &Filter::default()).unwrap();
        assert_eq!(out, b"no incidents\n");
        let mut out = Vec::new();
        let all = incidents();
        write_one(&mut out, &all.incidents[0], all.at_ms, "http://h:1").unwrap();
        let one = String::from_utf8(out).unwrap();
        for part in [
            "The GC stops the process  error  checkout (4711)\n",
            "  when      open 10 min, since 2027-01-15T08:00:00Z\n",
            "  pod       trial/checkout-7d9f\n",
            "  causes    Large objects (62 %): 62 % of the pauses\n",
            "  evidence  black box: a recording (http://h:1/api/v1/evidence/x.nettrace); copy: s3://b/n/x.nettrace\n            callers: Shop.Cart\n",
            "  rules     time.stopped (error, 1 time)\n",
        ] {
            assert!(one.contains(part), "{part:?}: {one}");
        }
        let mut out = Vec::new();
        write_one(&mut out, &all.incidents[1], all.at_ms, "").unwrap();
        let one = String::from_utf8(out).unwrap();
        assert!(
            one.contains("until 2027-01-15T07:30:00Z (30 min, resolved)") && one.contains("  summary   -\n"),
            "{one}"
        );
    }
}
