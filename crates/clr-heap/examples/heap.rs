//! Prints the live objects of a recorded heap dump and their holders: `heap FILE`.
//!
//! `dotnet-trace collect --providers Microsoft-Windows-DotNETRuntime:0x1980001:4` makes the process perform a
//! collection and records its whole heap.

use std::error::Error;
use std::fs::File;
use std::io::{Read, Write};

use clr_heap::reading::{DumpDetail, DumpReading};
use clr_heap::survey::survey;

/// Maximum size of the graph, in bytes. A larger heap is still counted by type.
const MAX_BYTES: u64 = 1 << 30;
/// Number of rows per table.
const MAX_ROWS: usize = 15;

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("usage: heap FILE")?;
    let mut file = File::open(path)?;
    let mut reading = DumpReading::new(DumpDetail::Graph { most: MAX_BYTES });
    let mut buffer = vec![0; 64 << 10];
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            count => reading.push(buffer.get(..count).unwrap_or_default())?,
        }
    }
    // A dump that lost events is an error, because its remainder is not a representative sample.
    let (survey, _) = survey(reading.finish()?, None);
    let mut out = std::io::stdout().lock();
    let heap = &survey.heap;
    writeln!(out, "{} objects, {:.1} MB", heap.objects, megabytes(heap.bytes))?;
    for row in survey.types.iter().take(MAX_ROWS) {
        // Without a graph, holders are unknown.
        let retained = row
            .retained
            .map_or("?".to_owned(), |bytes| format!("{:.1}", megabytes(bytes)));
        let (objects, own) = (row.objects, megabytes(row.bytes));
        writeln!(
            out,
            "{objects:>9} {own:>8.1} MB, keeps {retained:>7} MB  {}",
            row.r#type
        )?;
    }
    for suspect in &survey.suspects {
        writeln!(out, "{}", suspect.text)?;
    }
    for row in survey.paths.iter().take(MAX_ROWS) {
        writeln!(
            out,
            "{:>8.1} MB  {} > {}",
            megabytes(row.bytes),
            row.root,
            row.path.join(" > ")
        )?;
    }
    Ok(())
}

fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}
