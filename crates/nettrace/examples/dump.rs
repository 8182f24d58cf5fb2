//! Prints the events of a recording: `dump FILE`.

use std::error::Error;
use std::fs::File;
use std::io::{BufWriter, Read, Write};

use nettrace::{Decoder, Event, Item, Options, TraceHeader};

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("usage: dump FILE")?;
    let mut file = File::open(path)?;
    let mut out = BufWriter::new(std::io::stdout().lock());
    let mut decoder = Decoder::new(Options::default());
    let mut header = None;
    loop {
        let count = file.read(decoder.space(64 << 10))?;
        decoder.filled(count);
        if count == 0 {
            decoder.finish();
        }
        while let Some(item) = decoder.next_item()? {
            match item {
                Item::Header(found) => {
                    writeln!(out, "{found:?}")?;
                    header = Some(found.clone());
                }
                Item::Event(event) => print(&mut out, header.as_ref(), &event)?,
                Item::Gap(gap) => writeln!(out, "{} events of thread {} were lost", gap.lost, gap.thread)?,
                _ => {}
            }
        }
        if let Some(ending) = decoder.ending() {
            let stats = decoder.stats();
            writeln!(out, "{} events, {:?} lost, {ending:?}", stats.events, stats.lost)?;
            return Ok(out.flush()?);
        }
    }
}

fn print(out: &mut impl Write, header: Option<&TraceHeader>, event: &Event<'_>) -> std::io::Result<()> {
    let seconds = header.map_or(0.0, |header| header.offset_ns(event.timestamp) as f64 / 1e9);
    let metadata = event.metadata;
    // Native events have no names. Strings of the stream are printed with Rust's debug format, so that they cannot harm
    // a terminal.
    writeln!(
        out,
        "{seconds:>12.6} thread {:>7} {:?} event {} {:?} version {:?}: {} bytes",
        event.thread,
        metadata.provider,
        metadata.event_id,
        metadata.name,
        metadata.version,
        event.payload.len()
    )
}
