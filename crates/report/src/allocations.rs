//! Allocations by type and site, as text.

use std::io::{self, Write};

use clr_evidence::allocations::{Allocations, Amount, Method};
use clr_evidence::burst::BurstFacts;
use clr_evidence::name::type_name;
use clr_evidence::site::place;

use crate::table::{Column, FAINT, HEADING, head, left, more, right, row};
use crate::units::{Bytes, known, plural};

/// Maximum number of frames shown per stack.
const MAX_FRAMES: usize = 12;
const AMOUNTS: [Column; 4] = [
    right("a second", 10),
    right("95 % from", 10),
    right("to", 10),
    right("samples", 7),
];

/// Writes at most `top` types and `top` sites, the largest first. `stacks` adds the stacks of each site.
pub fn write(
    out: &mut dyn Write,
    allocations: &Allocations,
    facts: &BurstFacts,
    top: usize,
    stacks: bool,
) -> io::Result<()> {
    let seconds = facts.window.length().filter(|ns| *ns > 0);
    let seconds = seconds.map(|ns| ns as f64 / 1e9);
    let total = allocations.total;
    let time = seconds.map(|seconds| format!(" in {seconds:.1} s")).unwrap_or_default();
    writeln!(
        out,
        "{HEADING}{} allocated{time} ({}){HEADING:#}",
        Bytes(total.estimate),
        plural(total.samples, "sample"),
    )?;
    if total.samples == 0 {
        return notes(out, allocations, facts);
    }
    // Without a duration, show sums instead of rates.
    let seconds = seconds.unwrap_or(1.0);
    writeln!(out)?;
    let [a, b, c, d] = AMOUNTS;
    let columns = [a, b, c, d, left("type", 20)];
    head(out, &columns)?;
    for one in allocations.types.iter().take(top) {
        let name = one
            .name
            .clone()
            .unwrap_or_else(|| "[type not named by the runtime]".to_owned());
        row(out, &columns, &cells(&one.amount, seconds, name))?;
    }
    more(out, allocations.types.len(), top, "type")?;
    writeln!(out)?;
    let columns = [a, b, c, d, left("site", 20)];
    head(out, &columns)?;
    let untyped = if allocations.are_types_unknown() {
        "type unknown"
    } else {
        "several types"
    };
    for one in allocations.sites.iter().take(top) {
        let site = place(one.called_by.as_deref(), one.site.as_deref());
        let what = one.r#type.as_deref().map_or_else(|| untyped.to_owned(), type_name);
        row(out, &columns, &cells(&one.amount, seconds, format!("{site} ({what})")))?;
        if stacks {
            for stack in &one.stacks {
                if one.stacks.len() > 1 {
                    writeln!(out, "{:42}{FAINT}{}:{FAINT:#}", "", plural(stack.count, "sample"))?;
                }
                for frame in stack.frames.iter().skip(1).take(MAX_FRAMES) {
                    writeln!(out, "{:42}{FAINT}{frame}{FAINT:#}", "")?;
                }
            }
        }
    }
    more(out, allocations.sites.len(), top, "site")?;
    notes(out, allocations, facts)
}

fn cells(amount: &Amount, seconds: f64, name: String) -> [String; 5] {
    let rate = |bytes: u64| Bytes((bytes as f64 / seconds).round() as u64).to_string();
    let limit = |bytes: Option<u64>| known(bytes.map(rate));
    [
        rate(amount.estimate),
        limit(amount.low),
        limit(amount.high),
        amount.samples.to_string(),
        name,
    ]
}

/// Writes notes about the limits of the figures.
fn notes(out: &mut dyn Write, allocations: &Allocations, facts: &BurstFacts) -> io::Result<()> {
    let mut note = |text: String| writeln!(out, "{FAINT}note: {text}{FAINT:#}");
    if allocations.total.samples == 0 {
        note("no samples: the process allocates little, or the session has no such events".to_owned())?;
        return Ok(());
    }
    if allocations.method == Method::Tick {
        note("biased: each tick (about 100 KB) counts only for the type that crossed the threshold".to_owned())?;
    }
    if allocations.are_types_unknown() {
        note("the runtime does not name types (NativeAOT)".to_owned())?;
    }
    if allocations.sites.iter().all(|one| one.frames.is_empty()) {
        note("the runtime sent no stacks (NativeAOT never does): the sites are unknown".to_owned())?;
    }
    if facts.unknown_frames > 0 && facts.methods == 0 {
        note("the stream has no method names: it ended without a rundown".to_owned())?;
    } else if facts.unknown_frames > 0 {
        note(format!("{} without a name", plural(facts.unknown_frames, "frame")))?;
    }
    if let Some(lost) = facts.lost_events.filter(|lost| *lost > 0) {
        note(format!("{} lost: estimates are too low", plural(lost, "event")))?;
    }
    let dropped = allocations.without_place + facts.stacks_dropped;
    if dropped > 0 {
        note(format!(
            "{} did not fit into the tables",
            plural(dropped, "type or stack")
        ))?;
    }
    Ok(())
}
