//! Where requests are known from.

use gc_requests::session::is_source;

use super::Resolver;
use crate::config::document::{Document, RequestMode};
use crate::intake::options::IntakeOptions;
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

    /// The options of the receiver of spans; `None`: there is none.
    pub(crate) fn intake(&mut self, document: &Document) -> Option<IntakeOptions> {
        let keys = &document.requests.otlp;
        let path = KeyPath::of("requests.otlp");
        let tls = self.tls_files(&keys.tls, path.key("tls"));
        if document.requests.mode != RequestMode::Otlp {
            return None;
        }
        let Some(address) = keys.listen.0 else {
            self.error(path.key("listen"), "must be an address where `requests.mode` is otlp");
            return None;
        };
        if Some(address) == document.listen.0 && address.port() != 0 {
            let with = vec![KeyPath::of("listen")];
            self.error_with(
                path.key("listen"),
                with,
                "is the address of `listen`: spans need a port of their own",
            );
        }
        Some(IntakeOptions { address, tls })
    }
}
