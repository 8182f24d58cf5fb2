//! Formats errors on one line.

use std::error::Error;

/// Returns an error and its causes on one line, each cause once.
pub fn causes(error: &dyn Error) -> String {
    let mut causes = vec![error.to_string()];
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = error.to_string();
        // An error text can start with the text of the wrapping error, or end with the text of its cause.
        if causes.last().is_some_and(|last| next.starts_with(last)) {
            causes.pop();
            causes.push(next);
        } else if !causes.iter().any(|known| known.contains(&next)) {
            causes.push(next);
        }
        cause = error.source();
    }
    causes.join(": ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct WrappedError {
        text: &'static str,
        source: Option<Box<WrappedError>>,
    }

    /// Scenario: errors start with the text of the error around them, or end with the text of their cause.
    /// Guarantee: each cause appears once, in order.
    #[test]
    fn causes_are_listed_once() {
        let chain = |texts: &[&'static str]| {
            let wrap = |source, text: &&'static str| Some(Box::new(WrappedError { text, source }));
            causes(&*texts.iter().rev().fold(None, wrap).unwrap())
        };
        let texts = [
            "transport error",
            "tcp connect error",
            "tcp connect error: refused",
            "refused",
        ];
        assert_eq!(chain(&texts), "transport error: tcp connect error: refused");
        assert_eq!(chain(&["cannot send", "timed out"]), "cannot send: timed out");
    }
}
