//! The `gcwatch` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    gcwatch::commands::main()
}
