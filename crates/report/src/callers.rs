//! The callers that cause the collections of a process, as text.

use std::io::{self, Write};

use clr_evidence::burst::BurstFacts;
use clr_evidence::callers::{Caller, Callers};
use clr_evidence::site::{Stack, place};

use crate::table::{FAINT, HEADING};
use crate::units::{Span, plural};

/// Maximum number of frames shown per stack.
const MAX_FRAMES: usize = 12;

/// Writes at most `top` callers, in descending order of the time for which their collections stopped the process.
/// `stacks` adds the stacks of each caller.
pub fn write(out: &mut dyn Write, callers: &Callers, facts: &BurstFacts, top: usize, stacks: bool) -> io::Result<()> {
    let time = facts
        .window
        .length()
        .map(|ns| format!(" in {:.1} s", ns as f64 / 1e9))
        .unwrap_or_default();
    writeln!(
        out,
        "{HEADING}{}{time}, {}, {} stopped{HEADING:#}",
        plural(callers.triggers, "request"),
        plural(callers.collections, "collection"),
        stopped(callers.stopped_ns)
    )?;
    let sites = sites(callers);
    for site in sites.iter().take(top) {
        writeln!(
            out,
            "{}: {}{time}, {} stopped",
            site.name,
            site.collections,
            stopped(site.stopped_ns)
        )?;
        if site.without_collection > 0 {
            let requests = plural(site.without_collection, "request");
            writeln!(out, "    {FAINT}{requests} led to no collection{FAINT:#}")?;
        }
        if stacks {
            for one in site.callers.iter().flat_map(|caller| &caller.stacks) {
                stack(out, one)?;
            }
        }
    }
    if let Some(more) = sites.len().checked_sub(top).filter(|more| *more > 0) {
        writeln!(
            out,
            "{FAINT}and {}; --top shows more{FAINT:#}",
            plural(more as u64, "other caller")
        )?;
    }
    notes(out, callers, facts)
}

/// The callers in one method that use the same call, regardless of the rest of their stacks.
struct Site<'a> {
    /// Name of the site, for example `Shop.Cache.Trim -> GC.Collect`.
    name: String,
    callers: Vec<&'a Caller>,
    collections: u64,
    without_collection: u64,
    stopped_ns: Option<i64>,
}

fn sites(callers: &Callers) -> Vec<Site<'_>> {
    let mut sites: Vec<Site<'_>> = Vec::new();
    for caller in &callers.callers {
        let name = name(caller);
        let place = sites.iter().position(|site| site.name == name).unwrap_or(sites.len());
        if place == sites.len() {
            sites.push(Site {
                name,
                callers: Vec::new(),
                collections: 0,
                without_collection: 0,
                stopped_ns: None,
            });
        }
        if let Some(site) = sites.get_mut(place) {
            site.callers.push(caller);
            site.collections += caller.collections;
            site.without_collection += caller.without_collection;
            if let Some(ns) = caller.stopped_ns {
                site.stopped_ns = Some(site.stopped_ns.unwrap_or(0).saturating_add(ns));
            }
        }
    }
    sites.sort_by_key(|site| std::cmp::Reverse(site.stopped_ns));
    sites
}

fn name(caller: &Caller) -> String {
    let site = place(caller.called_by.as_deref(), caller.site.as_deref());
    match caller.api {
        Some("allocation") => format!("{site} -> allocation ({})", caller.reason),
        Some(api) => format!("{site} -> {api}"),
        None => format!("{site} -> {} (no frame names the call)", caller.reason),
    }
}

fn stack(out: &mut dyn Write, stack: &Stack) -> io::Result<()> {
    writeln!(out, "    {FAINT}{}:{FAINT:#}", plural(stack.count, "request"))?;
    for frame in stack.frames.iter().take(MAX_FRAMES) {
        writeln!(out, "        {FAINT}{frame}{FAINT:#}")?;
    }
    match stack.frames.len().checked_sub(MAX_FRAMES).filter(|more| *more > 0) {
        Some(more) => writeln!(out, "        {FAINT}... {more} more{FAINT:#}"),
        None => Ok(()),
    }
}

fn stopped(ns: Option<i64>) -> String {
    ns.map_or_else(|| "unknown time".to_owned(), |ns| Span(ns).to_string())
}

/// Writes notes about the limits of the figures.
fn notes(out: &mut dyn Write, callers: &Callers, facts: &BurstFacts) -> io::Result<()> {
    let mut note = |text: String| writeln!(out, "{FAINT}note: {text}{FAINT:#}");
    if callers.unasked_stops > 0 {
        note(format!(
            "{} of {} without a request: the runtime does not say whose (GC.RefreshMemoryLimit)",
            plural(callers.unasked_stops, "stop"),
            stopped(callers.unasked_stopped_ns)
        ))?;
    }
    if facts.unknown_frames > 0 && facts.methods == 0 {
        note("the stream has no method names: it ended without a rundown".to_owned())?;
    } else if facts.unknown_frames > 0 {
        note(format!("{} without a name", plural(facts.unknown_frames, "frame")))?;
    }
    if let Some(lost) = facts.lost_events.filter(|lost| *lost > 0) {
        note(format!("{} lost: counts are too low", plural(lost, "event")))?;
    }
    if facts.stacks_dropped > 0 {
        note(format!("{} did not fit", plural(facts.stacks_dropped, "stack")))?;
    }
    if callers.triggers > 0 && callers.callers.iter().all(|caller| caller.frames.is_empty()) {
        note("the runtime sent no stacks (NativeAOT never does): the callers are unknown".to_owned())?;
    }
    if callers.callers.iter().any(|caller| caller.site.is_some()) {
        note("a method that ends with the call, or is inlined, has no frame: its caller is named".to_owned())?;
    }
    Ok(())
}
