//! Time that requests lost to collections, as text.

use std::io::{self, Write};

use gc_requests::request::Request;

use crate::table::{Column, FAINT, head, left, right, row};
use crate::units::{self, Count, Millis, Percent, Span, plural};
use api::event::hex;

/// Maximum number of requests in the table.
const WORST: usize = 10;
/// Width of a request's bar, in characters.
const BAR: usize = 24;

const COLUMNS: [Column; 6] = [
    right("took ms", 10),
    right("stopped ms", 10),
    right("%", 6),
    left("when (# stopped)", BAR + 2),
    left("collections", 16),
    left("trace", 0),
];

/// Writes the total time that requests lost, and one line for each of the requests that lost the most.
pub fn write(out: &mut dyn Write, requests: &[Request]) -> io::Result<()> {
    let mut hit: Vec<(i64, &Request)> = requests
        .iter()
        .filter_map(|request| Some((request.stopped_ns.filter(|ns| *ns > 0)?, request)))
        .collect();
    hit.sort_by_key(|(ns, request)| (-ns, request.end));
    let known = requests.iter().filter(|request| request.stopped_ns.is_some()).count();
    let lost = hit.iter().fold(0_i64, |sum, (ns, _)| sum.saturating_add(*ns));
    write!(out, "{}", plural(requests.len() as u64, "request"))?;
    if known == 0 {
        return writeln!(
            out,
            "; the time lost is unknown: they have no activity and thus no start (the service neither logs nor traces)"
        );
    }
    let share = Percent(Some(hit.len() as f64 / known as f64));
    write!(out, ", {} stopped by collections ({share})", Count(hit.len() as u64))?;
    if hit.is_empty() {
        writeln!(out)?;
    } else {
        let at = |share: f64| hit.get((hit.len() as f64 * share) as usize).map_or(0, |(ns, _)| *ns);
        writeln!(
            out,
            ": {} lost in total; of those stopped, half lost {} or more, and 1 % lost {} or more",
            Span(lost),
            Span(at(0.5)),
            Span(at(0.01)),
        )?;
    }
    if known < requests.len() {
        let unknown = plural((requests.len() - known) as u64, "request");
        writeln!(out, "{FAINT}time lost by {unknown} is unknown{FAINT:#}")?;
    }
    if hit.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    head(out, &COLUMNS)?;
    for (ns, request) in hit.into_iter().take(WORST) {
        let cells = [
            Millis(request.duration_ns()).to_string(),
            Millis(Some(ns)).to_string(),
            units::known(request.share().map(|share| format!("{:.1}", share * 100.0))),
            bar(request),
            collections(request),
            units::known(request.ended.trace_id.map(|id| hex(&id))),
        ];
        row(out, &COLUMNS, &cells)?;
    }
    Ok(())
}

/// Draws the request from its start to its end, with `#` for the times at which the request was stopped.
fn bar(request: &Request) -> String {
    let Some(start) = request.start else {
        return String::new();
    };
    let length = request.end.saturating_sub(start).max(1) as f64;
    let mut bar = vec!['.'; BAR];
    for hit in &request.hits {
        let place = |at: i64| at.saturating_sub(start) as f64 / length * BAR as f64;
        let (first, last) = (place(hit.begin).floor(), place(hit.end).ceil());
        let cells = bar.iter_mut().take((last as usize).min(BAR)).skip(first as usize);
        cells.for_each(|cell| *cell = '#');
    }
    format!("|{}|", bar.into_iter().collect::<String>())
}

fn collections(request: &Request) -> String {
    let mut numbers: Vec<String> = Vec::new();
    for hit in &request.hits {
        let name = hit
            .collection
            .map_or_else(|| "none".to_owned(), |number| format!("#{number}"));
        if !numbers.contains(&name) {
            numbers.push(name);
        }
    }
    match numbers.get(..3) {
        Some(first) if numbers.len() > 3 => format!("{} and {}", first.join(" "), numbers.len() - 3),
        _ => numbers.join(" "),
    }
}
