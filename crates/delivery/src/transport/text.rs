//! Safe display of foreign text: bounded, on one line, without secrets.

use base::secret::Secret;

/// Maximum number of bytes of a receiver's message that are shown.
const MAX_BYTES: usize = 300;

/// Minimum length of a secret that is searched for in messages. Shorter values would match ordinary words.
const SHORTEST_SECRET: usize = 4;

/// Returns `text` on one line of bounded length, with control characters escaped and secrets replaced.
pub fn shown(text: &str, secrets: &[Secret]) -> String {
    // Replace secrets before truncating the text, because a part of a secret is secret, too. Answers were bounded when
    // they were read.
    let mut clean = text.trim().to_owned();
    for secret in secrets {
        // `Bearer TOKEN`: a receiver can repeat only the token.
        let words = secret.reveal().split_whitespace();
        for part in std::iter::once(secret.reveal()).chain(words) {
            if part.len() >= SHORTEST_SECRET {
                clean = clean.replace(part, "<redacted>");
            }
        }
    }
    let mut line = String::new();
    for c in clean.chars() {
        if c.is_control() {
            line.extend(c.escape_default())
        } else {
            line.push(c)
        }
        if line.len() > MAX_BYTES {
            return format!("{}...", cut(&line, MAX_BYTES));
        }
    }
    line
}

/// Returns an endpoint without its possible secrets: user, password and query.
pub fn endpoint(text: &str) -> String {
    let text = text.split(['?', '#']).next().unwrap_or_default();
    let (scheme, rest) = text
        .split_once("://")
        .map_or(("", text), |(scheme, rest)| (scheme, rest));
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = authority.rsplit('@').next().unwrap_or_default();
    let separator = if scheme.is_empty() { "" } else { "://" };
    shown(&format!("{scheme}{separator}{host}{path}"), &[])
}

/// Returns the secrets in an address: the password, the whole query, and each value of the query, both encoded and
/// decoded.
pub(crate) fn secrets_of(url: &reqwest::Url) -> Vec<Secret> {
    let mut secrets: Vec<Secret> = url.password().into_iter().chain(url.query()).map(Secret::new).collect();
    let written = url.query().into_iter().flat_map(|query| query.split('&'));
    let values = written.filter_map(|pair| Some(Secret::new(pair.split_once('=')?.1)));
    secrets.extend(values);
    secrets.extend(url.query_pairs().map(|(_, value)| Secret::new(&*value)));
    secrets
}

/// Returns at most `longest` bytes of `text`, truncated at a character boundary.
fn cut(text: &str, longest: usize) -> &str {
    let mut end = longest.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: a receiver answers with terminal escapes, newlines, very long text and the token that it received.
    /// Guarantee: the result is one bounded line without escapes, newlines and token.
    #[test]
    fn messages_are_sanitized() {
        let secrets = [Secret::new("Bearer s3cr3t-token"), Secret::new("ab")];
        let shown_text = shown("bad \x1b[31mtoken\n's3cr3t-token'", &secrets);
        assert_eq!(shown_text, "bad \\u{1b}[31mtoken\\n'<redacted>'");
        assert!(shown(&"ä".repeat(10_000), &secrets).len() <= MAX_BYTES + 3);
        for before in 0..MAX_BYTES + 30 {
            let text = shown(&format!("{}{}", "x".repeat(before), "s3cr3t-token"), &secrets);
            assert!(!text.contains("s3cr3t-t"), "after {before}: {text}");
        }
    }

    /// Scenario: a receiver repeats its own address with a token in the query, or only the token.
    /// Guarantee: neither the query nor the token is shown.
    #[test]
    fn tokens_in_queries_are_redacted() {
        let url = reqwest::Url::parse("https://me:passw0rd@hooks.example/in?channel=gc&token=s3cr3t%2Ftoken").unwrap();
        let secrets = secrets_of(&url);
        for text in [
            url.as_str(),
            "no such token: s3cr3t/token",
            "no such token: s3cr3t%2Ftoken",
        ] {
            let text = shown(text, &secrets);
            assert!(!text.contains("s3cr3t") && !text.contains("passw0rd"), "{text}");
        }
    }

    /// Scenario: an error contains an endpoint with a password and a key in its query.
    /// Guarantee: scheme, host, port and path are shown, and the secrets are not.
    #[test]
    fn endpoints_are_shown_without_secrets() {
        assert_eq!(
            endpoint("https://me:pw@host:4318/v1/traces?key=1#f"),
            "https://host:4318/v1/traces"
        );
        assert_eq!(endpoint("host:4317"), "host:4317");
        assert_eq!(endpoint(""), "");
    }
}
