//! Resolves the headers of requests.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::Resolver;
use crate::document::SecretSource;
use crate::values::HiddenString;
use base::secret::Secret;
use strict_yaml::path::KeyPath;

/// Headers that OTLP or HTTP set themselves.
const RESERVED: [&str; 11] = [
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "grpc-encoding",
    "grpc-timeout",
    "host",
    "keep-alive",
    "te",
    "transfer-encoding",
    "upgrade",
];

/// Returns the headers of a section, sorted by name. Among duplicates, the header of the higher origin is used.
pub(super) fn headers(
    resolver: &mut Resolver<'_>,
    section: &KeyPath,
    given: &BTreeMap<String, HiddenString>,
    elsewhere: &BTreeMap<String, SecretSource>,
) -> Vec<(String, Secret)> {
    let mut headers: BTreeMap<String, (KeyPath, Secret)> = BTreeMap::new();
    let direct = given.iter().map(|(name, value)| {
        let path = section.key("headers").key(name);
        (name, path, Ok(value.0.clone()))
    });
    let read = elsewhere.iter().map(|(name, source)| {
        let path = section.key("headers_from").key(name);
        (name, path, resolver.secret(source))
    });
    let all: Vec<_> = direct.chain(read).collect();
    for (name, path, value) in all {
        let name = name.to_ascii_lowercase();
        if let Err(message) = header_name(&name) {
            resolver.error(path, message);
            continue;
        }
        if let Some((other, _)) = headers.get(&name) {
            let origins = resolver.origins;
            match origins.get(&path).rank().cmp(&origins.get(other).rank()) {
                Ordering::Less => continue,
                Ordering::Equal => {
                    resolver.error(path, format!("duplicate header; also set as {other}"));
                    continue;
                }
                Ordering::Greater => {}
            }
        }
        let value = value.and_then(|value| match header_value(value.reveal()) {
            Ok(()) => Ok(value),
            Err(message) => Err(message.to_owned()),
        });
        match value {
            Ok(value) => {
                headers.insert(name, (path, value));
            }
            // If neither or both of the keys of the source are set, the fault is already reported.
            Err(message) => resolver.error_with(path.clone(), vec![path], message),
        }
    }
    headers.into_iter().map(|(name, (_, value))| (name, value)).collect()
}

fn header_name(name: &str) -> Result<(), String> {
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.is_empty() || !name.bytes().all(token) {
        return Err("invalid header name".to_owned());
    }
    if RESERVED.contains(&name) {
        return Err(format!("the header {name} is set by the protocol"));
    }
    if name.ends_with("-bin") {
        return Err("headers with names that end in -bin are not supported".to_owned());
    }
    Ok(())
}

/// Checks the value of a header. Messages do not quote the value, because it can be a secret.
fn header_value(value: &str) -> Result<(), &'static str> {
    if value.contains("${") {
        return Err("`${…}` is not expanded in a header; use `headers_from` with `env` or `file`");
    }
    let visible = |byte: u8| (0x20..0x7f).contains(&byte) || byte == b'\t';
    if !value.bytes().all(visible) {
        return Err("the value (not shown) has a line break or a character that is not ASCII");
    }
    if value.trim().is_empty() {
        return Err("the value is empty");
    }
    Ok(())
}
