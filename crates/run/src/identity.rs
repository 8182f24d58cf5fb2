//! Identity of a run: its resource, overlaid with the metadata of an orchestrator.

use std::sync::Arc;

use gc_telemetry::definition::{resource as row, settings};
use gc_telemetry::origin::Origin;
use gc_telemetry::value::{facts, flag, set, text, value};
use incidents::QuotaOwner;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use rule_engine::field::ProcessFacts;

use processes::Identity;
use processes::service::ServiceKey;

/// The heap limit as reported by a runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SaidLimit {
    /// The runtime reports nothing: it does not send its settings, or they have not been read.
    Nothing,
    /// The runtime reports that the heap has no limit. Such a runtime does not see a limit of the container either,
    /// because its heap limit would then be a part of the container's limit.
    NoLimit,
    /// The limit in bytes.
    Bytes(u64),
}

/// Identity of a run.
#[derive(Debug)]
pub struct RunIdentity {
    /// Identity without attributes, which are only in `resource`.
    identity: Identity,
    resource: Arc<Origin>,
    /// Attributes from an orchestrator, which are part of `resource`.
    metadata: Vec<KeyValue>,
    /// `resource` without `metadata`; `None` if `metadata` is empty.
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

    /// Returns the identity. The attributes are in [`Self::resource`].
    pub fn who(&self) -> &Identity {
        &self.identity
    }

    /// Returns the resource of all telemetry of the run.
    pub fn resource(&self) -> &Arc<Origin> {
        &self.resource
    }

    /// Returns the major version of the runtime, or `None` if the version is unknown.
    pub fn major(&self) -> Option<u32> {
        self.identity.runtime.as_deref()?.split('.').next()?.parse().ok()
    }

    /// Returns whether the process uses server GC, according to the settings that the runtime reports, or `None` if it
    /// does not report them.
    pub fn is_server(&self) -> Option<bool> {
        flag(&self.resource.attributes, settings::SERVER.name)
    }

    /// Returns the heap limit reported by the runtime.
    pub fn said_limit(&self) -> SaidLimit {
        let value = |name: &str| value(&self.resource.attributes, name);
        match (value(settings::HARD_LIMIT.name), value(settings::LARGE_PAGES.name)) {
            (Some(Value::IntValue(limit)), _) => u64::try_from(*limit).map_or(SaidLimit::Nothing, SaidLimit::Bytes),
            // Every settings event has a value for large pages.
            (None, Some(_)) => SaidLimit::NoLimit,
            _ => SaidLimit::Nothing,
        }
    }

    /// Returns whether the runtime is configured to assume a memory size regardless of the container's limit.
    pub fn assumes_memory(&self) -> bool {
        value(&self.resource.attributes, settings::PHYSICAL_MEMORY.name).is_some()
    }

    /// Returns whether the container or the pod is known.
    pub fn is_in_container(&self) -> bool {
        let of_container = [row::CONTAINER_ID.name, row::K8S_POD_UID.name];
        let mut attributes = self.resource.attributes.iter();
        attributes.any(|attribute| of_container.contains(&attribute.key.as_str()))
    }

    /// Returns the facts for the rules. `further` is added to the attributes of the resource.
    pub fn facts(&self, further: impl Iterator<Item = KeyValue>) -> ProcessFacts {
        let Identity { key, name, runtime, .. } = &self.identity;
        let attributes: Vec<KeyValue> = self.resource.attributes.iter().cloned().chain(further).collect();
        ProcessFacts::new(Some(key.pid), Some(name), runtime.as_deref(), facts(&attributes))
    }

    /// Adds facts: the version of the runtime, attributes. Existing attributes get the new values, and other attributes
    /// are added.
    pub(crate) fn learned(&mut self, runtime: Option<String>, attributes: Vec<KeyValue>) {
        if runtime.is_some() {
            self.identity.runtime = runtime;
        }
        if !attributes.is_empty() {
            let known = self.take_without_metadata();
            self.set_resource(merged(known, attributes));
        }
    }

    /// Returns the quota owner of the process for shared resources. If an orchestrator reports a namespace for the
    /// process, this namespace is the tenant, because the pods in a namespace come and go.
    pub fn share(&self) -> QuotaOwner {
        let namespace = text(&self.metadata, "k8s.namespace.name");
        let tenant = namespace.map_or_else(
            || self.identity.provenance.tenant.clone(),
            |namespace| format!("namespace {namespace}"),
        );
        let service = ServiceKey::for_process(&self.identity, &self.resource.attributes);
        QuotaOwner {
            tenant: tenant.into(),
            service: Arc::clone(service.text()),
        }
    }

    /// Returns whether the metadata is not empty and differs from the known metadata.
    pub fn is_news(&self, metadata: &[KeyValue]) -> bool {
        // The last known metadata is kept, because a deleted pod is forgotten before its processes have exited.
        !metadata.is_empty() && metadata != self.metadata
    }

    /// Sets the metadata of an orchestrator. Returns whether it has changed.
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

    /// Overlays the metadata on `known`, except for names that the process itself has set.
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

/// Sets the attributes in `known`: existing attributes get the new values, and other attributes are added.
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

    /// Scenario: a process has set an attribute itself; metadata arrives, attributes are learned, other metadata
    /// arrives, then empty metadata.
    /// Guarantee: metadata overrides attributes that were found or learned, but never attributes that the process has
    /// set; attributes missing from the new metadata revert to the values that were found or learned; empty metadata
    /// changes nothing.
    #[test]
    fn metadata_overrides_found_attributes() {
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
