//! Prints the garbage collections of a recording: `collections FILE`, or `collections -` for a stream on standard
//! input.

use std::error::Error;
use std::fs::File;
use std::io::{Read, Write};

use clr_gc::gc::{Collection, LIVE_SETTLE_NS, Outcome, ReportTiming};
use clr_gc::stream::{GcStream, Scope};

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("usage: collections FILE|-")?;
    let mut input: Box<dyn Read> = match path.as_str() {
        "-" => Box::new(std::io::stdin().lock()),
        path => Box::new(File::open(path)?),
    };
    let mut out = std::io::stdout().lock();
    let mut stream = GcStream::new(Scope::Collections, ReportTiming::After(LIVE_SETTLE_NS));
    loop {
        let count = input.read(stream.space(64 << 10))?;
        stream.filled(count);
        if count == 0 {
            stream.finish();
        }
        stream.advance(|_| ())?;
        if count == 0 {
            stream.end();
        }
        while let Some((_, outcome)) = stream.next_outcome() {
            if let Outcome::Collection(gc) = outcome {
                print(&mut out, &gc)?;
            }
        }
        if count == 0 {
            return Ok(());
        }
    }
}

/// Prints one line per collection, with `?` for values that were never observed.
fn print(out: &mut impl Write, gc: &Collection) -> std::io::Result<()> {
    let scaled = |value: Option<f64>, unit: f64| value.map_or("?".to_owned(), |value| format!("{:.3}", value / unit));
    let generation = gc
        .generation
        .map_or("?".to_owned(), |generation| generation.to_string());
    let kind = gc.gc_type.map_or("?".to_owned(), |kind| kind.to_string());
    let reason = gc.reason.map_or("?".to_owned(), |reason| reason.to_string());
    writeln!(
        out,
        "{:>5} gen{generation} {kind:<10} {reason:<14} at {:>9} s  pause {:>8} ms  heap {:>9} -> {:>9} MB{}",
        gc.number,
        scaled(gc.start.map(|ns| ns as f64), 1e9),
        scaled(gc.pause_ns.map(|ns| ns as f64), 1e6),
        scaled(gc.heap_before().map(|bytes| bytes as f64), 1e6),
        scaled(gc.heap_after().map(|bytes| bytes as f64), 1e6),
        if gc.lossy { "  events lost" } else { "" }
    )
}
