//! UTF-8, with the position of what is not.

use crate::yaml::Position;

/// The bytes as text.
///
/// # Errors
///
/// The position of the first character that is not UTF-8, and a message.
pub fn decoded(bytes: Vec<u8>) -> Result<String, (Position, String)> {
    String::from_utf8(bytes).map_err(|error| {
        let valid = error
            .as_bytes()
            .get(..error.utf8_error().valid_up_to())
            .unwrap_or_default();
        let valid = String::from_utf8_lossy(valid);
        let line = valid.matches('\n').count() + 1;
        let column = valid.rsplit('\n').next().map_or(0, |line| line.chars().count()) + 1;
        (
            Position { line, column },
            "the file is not UTF-8 from here on".to_owned(),
        )
    })
}
