//! Resolves the store of evidence outside the host.

use evidence::store::StoreOptions;
use strict_yaml::path::KeyPath;

use super::Resolver;
use super::alerts::node;
use crate::document::Document;

/// Returns the options of the store and the name of this host in it, or `None` if evidence stays on the host.
pub(crate) fn store(resolver: &mut Resolver<'_>, document: &Document) -> Option<(StoreOptions, String)> {
    let keys = &document.evidence.store;
    let path = KeyPath::from_dotted("evidence.store");
    let Some(url) = &keys.url else {
        if keys.endpoint.is_some() {
            resolver.warning(path.key("endpoint"), "has no effect without `evidence.store.url`");
        }
        return None;
    };
    let options = StoreOptions {
        url: url.clone(),
        endpoint: keys.endpoint.clone(),
        max_files: keys.max_files as usize,
        max_bytes: keys.max_bytes.0,
    };
    if let Err(error) = options.check() {
        return resolver.refused(path.key("url"), error.to_string());
    }
    let is_web = |url: &String| {
        let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
        rest.is_some_and(|rest| !rest.is_empty() && !rest.contains(['@', '?', '#']))
    };
    if let Some(endpoint) = &keys.endpoint
        && !is_web(endpoint)
    {
        return resolver.refused(
            path.key("endpoint"),
            "must be a URL with http or https, without user and query",
        );
    }
    if document.state.directory.is_none() {
        let message = "has no effect without `state.directory`: files wait there until the store has accepted them";
        resolver.warning(path.key("url"), message);
    }
    Some((options, node(resolver)))
}
