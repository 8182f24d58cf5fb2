//! Folded stacks: one line each, frames from the outermost, separated by semicolons, and the weight.

use std::collections::BTreeMap;
use std::io::{self, Write};

/// Writes the stacks. A semicolon or a line break inside of a name would change the stack: they are replaced.
///
/// # Errors
/// When the output cannot be written.
pub fn write(out: &mut (impl Write + ?Sized), stacks: &BTreeMap<Vec<&str>, u64>) -> io::Result<()> {
    for (frames, weight) in stacks.iter().filter(|(_, weight)| **weight > 0) {
        let frames: Vec<String> = frames
            .iter()
            .map(|frame| frame.replace([';', '\n', '\r'], ","))
            .collect();
        writeln!(out, "{} {weight}", frames.join(";"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: a stack, one with a semicolon in a name, and one without weight.
    /// Guarantee: a line for each that weighs something, and no stack is changed by a name.
    #[test]
    fn each_stack_is_a_line() {
        let stack = |frames: &[&'static str]| frames.to_vec();
        let stacks = BTreeMap::from([
            (stack(&["Main", "F"]), 7),
            (stack(&["a;b\nc"]), 2),
            (stack(&["none"]), 0),
        ]);
        let mut text = Vec::new();
        write(&mut text, &stacks).unwrap();
        assert_eq!(String::from_utf8(text).unwrap(), "Main;F 7\na,b,c 2\n");
    }
}
