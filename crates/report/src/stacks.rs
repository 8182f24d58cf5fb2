//! Stacks of all managed threads, as text.

use std::collections::BTreeMap;
use std::io::{self, Write};

use clr_evidence::burst::BurstFacts;
use clr_evidence::threads::ThreadStacks;

use crate::table::{FAINT, HEADING};
use crate::units::plural;

/// Maximum number of frames shown per stack, unless all are requested.
const MAX_FRAMES: usize = 12;
/// Maximum number of threads named per group.
const MAX_NAMED: usize = 8;

/// Writes at most `top` groups of equal stacks, in the order of `stacks`. `names` are the system's names of the
/// threads. With `all`, every frame is written.
pub fn write(
    out: &mut dyn Write,
    stacks: &ThreadStacks,
    names: &BTreeMap<u64, String>,
    facts: &BurstFacts,
    top: usize,
    all: bool,
) -> io::Result<()> {
    let threads: usize = stacks.groups.iter().map(|group| group.threads.len()).sum();
    let time = facts.window.length().map(|ns| format!(" in {:.1} s", ns as f64 / 1e9));
    writeln!(
        out,
        "{HEADING}{}, {}, {}{}{HEADING:#}",
        plural(threads as u64, "thread"),
        plural(stacks.groups.len() as u64, "different stack"),
        plural(stacks.samples, "sample"),
        time.unwrap_or_default()
    )?;
    let shown = |thread: &u64| match names.get(thread) {
        Some(name) => format!("{thread} ({name})"),
        None => thread.to_string(),
    };
    let list = |threads: &[u64]| {
        let mut text: Vec<String> = threads.iter().take(MAX_NAMED).map(shown).collect();
        if let Some(more) = threads.len().checked_sub(MAX_NAMED).filter(|more| *more > 0) {
            text.push(format!("{more} more"));
        }
        text.join(", ")
    };
    for group in stacks.groups.iter().take(top) {
        let finalizer = if group.finalizer == Some(true) {
            ", the finalizer thread"
        } else {
            ""
        };
        writeln!(out)?;
        writeln!(
            out,
            "{HEADING}{}{finalizer}{HEADING:#}, {} of {}: {}",
            plural(group.threads.len() as u64, "thread"),
            group.samples,
            plural(group.all_samples, "sample"),
            list(&group.threads)
        )?;
        let most = if all { usize::MAX } else { MAX_FRAMES };
        for frame in group.frames.iter().take(most) {
            writeln!(out, "    {frame}")?;
        }
        if group.frames.is_empty() {
            writeln!(out, "    {FAINT}no managed frame{FAINT:#}")?;
        }
        if let Some(more) = group.frames.len().checked_sub(most).filter(|more| *more > 0) {
            writeln!(out, "    {FAINT}... {more} more; --stacks shows them{FAINT:#}")?;
        }
    }
    if let Some(more) = stacks.groups.len().checked_sub(top).filter(|more| *more > 0) {
        writeln!(
            out,
            "{FAINT}and {}; --top shows them{FAINT:#}",
            plural(more as u64, "more stack")
        )?;
    }
    writeln!(out)?;
    let mut note = |text: String| writeln!(out, "{FAINT}note: {text}{FAINT:#}");
    if stacks.samples == 0 {
        note("no samples: the runtime has no sample profiler (NativeAOT), or the time was too short".to_owned())?;
    }
    match &stacks.without_sample {
        Some(without) if !without.is_empty() => note(format!(
            "without a sample (no managed frame, or not alive for the whole time): {}",
            list(without)
        ))?,
        Some(_) => {}
        None if stacks.samples > 0 => {
            note("this runtime does not list its managed threads: those without a sample are unknown".to_owned())?
        }
        None => {}
    }
    if facts.unknown_frames > 0 {
        note(format!("{} without a name", plural(facts.unknown_frames, "frame")))?;
    }
    if let Some(lost) = facts.lost_events.filter(|lost| *lost > 0) {
        note(format!("{} lost: some samples are missing", plural(lost, "event")))?;
    }
    let dropped = stacks.without_place + facts.stacks_dropped;
    if dropped > 0 {
        note(format!("{} did not fit", plural(dropped, "sample")))?;
    }
    Ok(())
}
