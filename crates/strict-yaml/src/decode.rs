//! Decodes UTF-8, with the position of the first invalid byte.

use crate::yaml::Position;

/// Decodes bytes as UTF-8.
///
/// # Errors
///
/// Returns the position of the first character that is not UTF-8, and a message.
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
            "the file is not valid UTF-8 at this position".to_owned(),
        )
    })
}
