//! Where spans are listened for.

use super::Resolver;
use crate::config::document::{Document, RequestMode};
use crate::intake::options::IntakeOptions;
use strict_yaml::path::KeyPath;

impl Resolver<'_> {
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
