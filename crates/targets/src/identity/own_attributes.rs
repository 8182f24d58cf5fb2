//! Parses `OTEL_RESOURCE_ATTRIBUTES` from the environment of a target, with a limit on the number of attributes.
//! Handles any input.

use processes::text::bounded;

/// Maximum number of attributes taken from the target's environment.
const MAX_OWN_ATTRIBUTES: usize = 64;

/// Error in a target's `OTEL_RESOURCE_ATTRIBUTES`. The specification requires that the whole variable is then ignored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadAttributes {
    #[error("entry {0} of its OTEL_RESOURCE_ATTRIBUTES is not of the form key=value")]
    Form(usize),
    #[error("entry {0} of its OTEL_RESOURCE_ATTRIBUTES is not percent-encoded UTF-8")]
    Encoding(usize),
    #[error("its OTEL_RESOURCE_ATTRIBUTES has more than {MAX_OWN_ATTRIBUTES} entries")]
    Many,
}

/// Parses `key=value,key=value` with percent-encoding. Spaces around keys and values are ignored.
pub(super) fn own_attributes(text: &str) -> Result<Vec<(String, String)>, BadAttributes> {
    let mut attributes = Vec::new();
    for (place, entry) in text.split(',').enumerate() {
        let number = place + 1;
        if entry.trim().is_empty() {
            continue;
        }
        if attributes.len() >= MAX_OWN_ATTRIBUTES {
            return Err(BadAttributes::Many);
        }
        let (key, value) = entry.split_once('=').ok_or(BadAttributes::Form(number))?;
        let decode = |text: &str| percent_decoded(text.trim()).ok_or(BadAttributes::Encoding(number));
        let key = decode(key)?;
        if key.is_empty() {
            return Err(BadAttributes::Form(number));
        }
        attributes.push((bounded(&key), bounded(&decode(value)?)));
    }
    Ok(attributes)
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        if byte != b'%' {
            bytes.push(byte);
            rest = tail;
            continue;
        }
        let (digits, tail) = tail.split_at_checked(2)?;
        let digit = |digit: &u8| char::from(*digit).to_digit(16);
        let (high, low) = (digits.first().and_then(digit)?, digits.get(1).and_then(digit)?);
        bytes.push(u8::try_from(high * 16 + low).ok()?);
        rest = tail;
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use processes::text::MAX_VALUE_BYTES;

    /// Scenario: attributes are not key=value, not encoded, not UTF-8, too many or too long.
    /// Guarantee: malformed attributes are refused with the number of the entry, too many attributes are refused, and
    /// lengths are bounded.
    #[test]
    fn malformed_attributes_are_refused() {
        assert_eq!(own_attributes("a=1,b"), Err(BadAttributes::Form(2)));
        assert_eq!(own_attributes("=1"), Err(BadAttributes::Form(1)));
        assert_eq!(own_attributes("a=%4"), Err(BadAttributes::Encoding(1)));
        assert_eq!(own_attributes("a=%ff"), Err(BadAttributes::Encoding(1)));
        assert_eq!(own_attributes("a=%+1"), Err(BadAttributes::Encoding(1)));
        assert_eq!(own_attributes(&"a=1,".repeat(65)), Err(BadAttributes::Many));
        assert_eq!(own_attributes(""), Ok(vec![]));
        let long = own_attributes(&format!("a={}", "x".repeat(5000))).unwrap();
        assert_eq!(long[0].1.len(), MAX_VALUE_BYTES);
    }

    proptest! {
        /// Scenario: arbitrary keys and values are encoded as specified.
        /// Guarantee: the decoded attributes are equal to the originals.
        #[test]
        fn encoded_attributes_are_read_back(pairs in proptest::collection::vec(("[a-z.]{1,9}", "[ -~é]{0,9}"), 0..9)) {
            let encoded = |text: &str| text.bytes().map(|byte| format!("%{byte:02X}")).collect::<String>();
            let entries: Vec<_> = pairs.iter().map(|(key, value)| format!("{}={}", encoded(key), encoded(value))).collect();
            prop_assert_eq!(own_attributes(&entries.join(",")), Ok(pairs));
        }

        /// Scenario: the input is arbitrary text.
        /// Guarantee: the parser returns without panic.
        #[test]
        fn any_text_is_answered(text in ".{0,40}") {
            let _answer = own_attributes(&text);
        }
    }
}
