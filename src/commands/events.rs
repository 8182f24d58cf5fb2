//! `gcwatch events`: lists every decoded event of a recording with its fields.

use std::collections::BTreeSet;
use std::io;
use std::time::Duration;

use clr_gc::stream::Scope;

use crate::commands::analyze::{complain, opened};
use crate::commands::cli::{EventsArgs, Format};
use crate::commands::output::{Output, say};
use api::event::{self, EventView};
use recording::Recording;
use recording::source::Source;
use report::summary;
use report::table::FAINT;
use strict_yaml::check::nearest;

/// Runs the command. Returns `false` if the recording could not be read to its end; the error was reported.
pub(crate) fn run(args: &EventsArgs) -> anyhow::Result<bool> {
    let Some(mut source) = opened(Source::open(&args.file)) else {
        return Ok(false);
    };
    let mut output = Output::stdout(args.format);
    let ns = |time: Duration| i64::try_from(time.as_nanos()).unwrap_or(i64::MAX);
    let (from, to) = (args.from.map_or(i64::MIN, ns), args.to.map_or(i64::MAX, ns));
    let mut written: io::Result<()> = Ok(());
    let mut headed = output.format == Format::Ndjson;
    let mut seen: BTreeSet<String> = BTreeSet::new();
    let mut matched = false;
    let recording = Recording::read(&mut source, Scope::Everything, |observed| {
        let name = event::name(observed);
        let is = |wanted: &String| name.is_some_and(|name| name.eq_ignore_ascii_case(wanted));
        let wanted = args.name.is_empty() || args.name.iter().any(is);
        matched |= wanted;
        if !wanted {
            seen.extend(name.filter(|name| !seen.contains(*name)).map(str::to_owned));
        }
        if written.is_err() || !wanted || observed.at < from || observed.at >= to {
            return;
        }
        written = (|| {
            if !headed {
                headed = true;
                writeln!(output.text(), "{FAINT}         at s   thread  event{FAINT:#}")?;
            }
            match output.format {
                Format::Table => writeln!(output.text(), "{}", event::line(observed)),
                Format::Ndjson => output.record(&EventView(observed)),
            }
        })();
    });
    written?;
    if recording.header.is_some() {
        match output.format {
            Format::Table => {
                writeln!(output.text(), "\n{}", summary::title(&recording.stream))?;
            }
            Format::Ndjson => output.record(&recording.stream)?,
        }
    }
    output.finish()?;
    if !matched && recording.header.is_some() && !args.name.is_empty() {
        let names: Vec<&str> = seen.iter().map(String::as_str).collect();
        let wanted = args.name.join(", ");
        let near = args.name.iter().find_map(|name| nearest(name, names.iter().copied()));
        let has = match near {
            Some(near) => format!("did you mean {near}?"),
            None => format!("it has {}", names.join(", ")),
        };
        say(format_args!(
            "{}: no event is called {wanted}; {has}",
            recording.stream.file
        ));
    }
    Ok(complain(&recording))
}
