//! Who a run is: its resource, with an orchestrator's metadata over what was found.

use std::sync::Arc;

use gc_rules::field::ProcessFacts;
use gc_rules::incident::Share;
use gc_telemetry::definition::{resource as row, settings};
use gc_telemetry::origin::Origin;
use gc_telemetry::value::{facts, flag, set, text, value};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;

use processes::Identity;
use processes::service::ServiceKey;

/// What a runtime says of the limit of its heap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SaidLimit {
    /// Nothing: it does not send its settings, or they have not been read.
    Nothing,
    /// There is none. It sees none of a container either: it would have taken a part of that.
    NoLimit,
    /// Bytes.
    Bytes(u64),
}

/// Who a run is.
#[derive(Debug)]
pub struct RunIdentity {
    /// Without its attributes, which are in `resource` alone.
    identity: Identity,
    resource: Arc<Origin>,
    /// An orchestrator's attributes, a part of `resource`.
    metadata: Vec<KeyValue>,
    /// `resource` without `metadata`; `None` where that is empty.
    without_metadata: Option<Vec<KeyValue>>,
}

impl RunIdentity {
    pub(crate) fn new(mut identity: Identity) -> Self {
        let resource = Arc::new(Origin::new(std::mem::take(&mut identity.resource)));
        Self {
            identity,
            resource,
            metadata: Vec::new(),
            without_metadata: None,
        }
    }

    /// Its identity; the attributes are in [`Self::resource`].
    pub fn who(&self) -> &Identity {
        &self.identity
    }

    /// The resource that all its telemetry has.
    pub fn resource(&self) -> &Arc<Origin> {
        &self.resource
    }

    /// The first number of its runtime's version.
    pub fn major(&self) -> Option<u32> {
        self.identity.runtime.as_deref()?.split('.').next()?.parse().ok()
    }

    /// It has the server collector, by what the runtime says of its settings.
    pub fn is_server(&self) -> Option<bool> {
        flag(&self.resource.attributes, settings::SERVER.name)
    }

    /// What the runtime says of the limit of its heap.
    pub fn said_limit(&self) -> SaidLimit {
        let value = |name: &str| value(&self.resource.attributes, name);
        match (value(settings::HARD_LIMIT.name), value(settings::LARGE_PAGES.name)) {
            (Some(Value::IntValue(limit)), _) => u64::try_from(*limit).map_or(SaidLimit::Nothing, SaidLimit::Bytes),
            // Every event of the settings has a value for it.
            (None, Some(_)) => SaidLimit::NoLimit,
            _ => SaidLimit::Nothing,
        }
    }

    /// The runtime is configured to assume a size of the memory, whatever its container's limit is.
    pub fn assumes_memory(&self) -> bool {
        value(&self.resource.attributes, settings::PHYSICAL_MEMORY.name).is_some()
    }

    /// Whether its container or its pod is known.
    pub fn is_in_container(&self) -> bool {
        let of_container = [row::CONTAINER_ID.name, row::K8S_POD_UID.name];
        let mut attributes = self.resource.attributes.iter();
        attributes.any(|attribute| of_container.contains(&attribute.key.as_str()))
    }

    /// What the rules know of it; `further` is laid beside the attributes of the resource.
    pub fn facts(&self, further: impl Iterator<Item = KeyValue>) -> ProcessFacts {
        let Identity { key, name, runtime, .. } = &self.identity;
        let attributes: Vec<KeyValue> = self.resource.attributes.iter().cloned().chain(further).collect();
        ProcessFacts::new(Some(key.pid), Some(name), runtime.as_deref(), facts(&attributes))
    }

    /// More is known: the runtime's version, attributes. A name that is there gets the new value, others are added.
    pub(crate) fn learned(&mut self, runtime: Option<String>, attributes: Vec<KeyValue>) {
        if runtime.is_some() {
            self.identity.runtime = runtime;
        }
        if !attributes.is_empty() {
            let known = self.take_without_metadata();
            self.set_resource(merged(known, attributes));
        }
    }

    /// Whose part of what all processes have in common it takes. An orchestrator's namespace is a tenant, too: pods come
    /// and go in it.
    pub fn share(&self) -> Share {
        let namespace = text(&self.metadata, "k8s.namespace.name");
        let tenant = namespace.map_or_else(
            || self.identity.provenance.tenant.clone(),
            |namespace| format!("namespace {namespace}"),
        );
        let service = ServiceKey::of(&self.identity, &self.resource.attributes);
        Share {
            tenant: tenant.into(),
            service: Arc::clone(service.text()),
        }
    }

    /// Whether that is more than is known of it: metadata that is other, and not none.
    pub fn is_news(&self, metadata: &[KeyValue]) -> bool {
        // What was known last stays: a pod that is deleted is forgotten before its processes have ended.
        !metadata.is_empty() && metadata != self.metadata
    }

    /// What an orchestrator knows of it from now on. Returns whether that differs from what it was.
    pub(crate) fn set_metadata(&mut self, metadata: Vec<KeyValue>) -> bool {
        if !self.is_news(&metadata) {
            return false;
        }
        self.metadata = metadata;
        let known = self.take_without_metadata();
        self.set_resource(known);
        true
    }

    fn take_without_metadata(&mut self) -> Vec<KeyValue> {
        let known = self.without_metadata.take();
        known.unwrap_or_else(|| self.resource.attributes.clone())
    }

    /// Lays the metadata over `known`, except for the names that the process gave itself.
    fn set_resource(&mut self, known: Vec<KeyValue>) {
        if self.metadata.is_empty() {
            self.resource = Arc::new(Origin::new(known));
            return;
        }
        let own = &self.identity.provenance.own_names;
        let news = self.metadata.iter().filter(|attribute| !own.contains(&attribute.key));
        self.resource = Arc::new(Origin::new(merged(known.clone(), news.cloned())));
        self.without_metadata = Some(known);
    }
}

/// A name that is there gets the new value, others are added.
fn merged(mut known: Vec<KeyValue>, news: impl IntoIterator<Item = KeyValue>) -> Vec<KeyValue> {
    news.into_iter().for_each(|attribute| set(&mut known, attribute));
    known
}

#[cfg(test)]
mod tests {
    use gc_telemetry::value::key_value;
    use opentelemetry_proto::tonic::common::v1::any_value::Value;

    use super::*;
    use base::run_key::RunKey;

    fn attribute(key: &str, value: &str) -> KeyValue {
        key_value(key, Value::StringValue(value.to_owned()))
    }

    /// Scenario: a process that gave itself a name; metadata comes, attributes are learned, other metadata comes, then
    /// none.
    /// Guarantee: metadata wins over what was found and learned, never over what the process gave itself; what other
    /// metadata does not have any more is again what was found, and empty metadata changes nothing.
    #[test]
    fn metadata_is_laid_over_what_was_found() {
        let mut identity = Identity::new(RunKey { pid: 1, start_time: 2 }, "app");
        identity.resource = vec![attribute("own", "process"), attribute("found", "proc")];
        identity.provenance.own_names = vec!["own".to_owned()];
        let mut run = RunIdentity::new(identity);
        let values = |run: &RunIdentity| {
            ["own", "found", "learned"].map(|key| text(&run.resource().attributes, key).unwrap_or_default())
        };
        assert!(run.set_metadata(vec![attribute("own", "pod"), attribute("found", "pod")]));
        assert_eq!(values(&run), ["process", "pod", ""]);
        run.learned(
            Some("10.0.0".to_owned()),
            vec![attribute("found", "new"), attribute("learned", "a")],
        );
        assert_eq!(values(&run), ["process", "pod", "a"]);
        assert!(run.set_metadata(vec![attribute("learned", "pod")]));
        assert_eq!(values(&run), ["process", "new", "pod"]);
        assert!(!run.set_metadata(Vec::new()) && !run.set_metadata(vec![attribute("learned", "pod")]));
        assert_eq!(values(&run), ["process", "new", "pod"]);
        assert_eq!(run.who().runtime.as_deref(), Some("10.0.0"));
    }
}
