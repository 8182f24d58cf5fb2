//! Where alerts of a rule go, as a list of words.

use gc_rules::rule::Emit;
use strict_yaml::words;

words! {
    /// Where alerts go.
    pub(crate) enum Destination {
        /// A log record.
        Log = "log",
        /// An event on the collection's span, and its error status from severity `error` on.
        Span = "span",
        /// The counters and the state, as metrics.
        Metric = "metric",
        /// Notifications: Alertmanager and webhooks.
        Notify = "notify",
    }
}

impl FromIterator<Destination> for Emit {
    fn from_iter<I: IntoIterator<Item = Destination>>(destinations: I) -> Self {
        let mut emit = Self {
            log: false,
            span: false,
            metric: false,
            notify: false,
        };
        for destination in destinations {
            match destination {
                Destination::Log => emit.log = true,
                Destination::Span => emit.span = true,
                Destination::Metric => emit.metric = true,
                Destination::Notify => emit.notify = true,
            }
        }
        emit
    }
}
