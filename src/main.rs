//! The `gcwatch` command.

fn main() {}
