//! Where requests are known from.

use gc_requests::session::is_source;

use super::Resolver;
use crate::document::{Document, RequestMode};
use strict_yaml::path::KeyPath;

impl Resolver<'_> {
    /// Checks the sources whose activities count.
    pub(crate) fn request_sources(&mut self, document: &Document) {
        let path = KeyPath::of("requests.sources");
        let keys = &document.requests;
        for (index, name) in keys.sources.iter().enumerate().filter(|(_, name)| !is_source(name)) {
            let message = format!(
                "{name:?} must be the name of one ActivitySource, such as Acme.Jobs; requests of ASP.NET Core need none"
            );
            self.error(path.clone().index(index), message);
        }
        if !keys.sources.is_empty() && keys.mode != RequestMode::DiagnosticSource {
            self.warning(path, "has no effect: `requests.mode` is not diagnosticsource");
        }
    }
}
