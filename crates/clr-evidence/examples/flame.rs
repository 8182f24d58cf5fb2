//! Writes a flame graph of the allocations in a recording to standard output: `flame FILE > allocations.svg`.
//!
//! The recording must contain stacks and a rundown: `dotnet-trace collect --profile gc-verbose` writes both.

use std::error::Error;
use std::fs::File;
use std::io::{Read, Write};

use clr_evidence::burst::{Burst, Origin, Weight};
use clr_evidence::flame::{Unit, svg};

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("usage: flame FILE")?;
    let mut file = File::open(&path)?;
    let mut burst = Burst::new(Origin::File);
    let mut buffer = vec![0; 64 << 10];
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            count => burst.push(buffer.get(..count).unwrap_or_default())?,
        }
    }
    burst.finish()?;
    let stacks = burst.weighted_stacks(Weight::Allocated);
    if stacks.is_empty() {
        return Err(format!("{path} contains no allocation samples").into());
    }
    let picture = svg(&path, &stacks, Unit::Bytes, &burst.framework());
    Ok(std::io::stdout().write_all(picture.as_bytes())?)
}
