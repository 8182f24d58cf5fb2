//! Folded stacks: one line per stack, with the frames, outermost first and separated by semicolons, and the weight.

use std::collections::BTreeMap;
use std::io::{self, Write};

/// Writes the stacks whose weight is greater than 0, as one line each. Semicolons and line breaks in names become
/// commas, because they would change the stack.
///
/// # Errors
/// Returns an error if the output cannot be written.
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

    /// Scenario: a stack has weight, another has a semicolon in a name, and a third has no weight.
    /// Guarantee: each stack with weight has a line, and separators in names do not change the stacks.
    #[test]
    fn stack_is_written_as_line() {
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
