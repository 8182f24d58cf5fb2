//! Quotes of foreign texts in messages.

/// Returns the text in backquotes: at most 60 characters of the first line, followed by `…` if the text is longer.
pub fn quoted(text: &str) -> String {
    const MAX_CHARS: usize = 60;
    let line = text.lines().next().unwrap_or_default();
    match line.char_indices().nth(MAX_CHARS) {
        Some((cut, _)) => format!("`{}…`", line.get(..cut).unwrap_or_default()),
        None if line.len() < text.len() => format!("`{line}…`"),
        None => format!("`{line}`"),
    }
}
