//! A process that poses as a .NET runtime and misbehaves: see `test_support::hostile`.

use std::process::ExitCode;

fn main() -> ExitCode {
    test_support::hostile::program(std::env::args().skip(1))
}
