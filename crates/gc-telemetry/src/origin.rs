//! Resource of all telemetry of one process.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Deref;

use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::resource::v1::Resource;
use prost::Message as _;

/// Resource of one process with its encoded OTLP message. An origin is attached to all telemetry of the process, and
/// changes only if new attributes become known.
#[derive(Debug, Clone)]
pub struct Origin {
    resource: Resource,
    encoded: Box<[u8]>,
    /// Hash of the encoded bytes, computed once because every request checks whether it already contains this origin.
    hash: u64,
}

impl Origin {
    /// Creates an origin with these attributes.
    pub fn new(attributes: Vec<KeyValue>) -> Self {
        let resource = Resource {
            attributes,
            ..Resource::default()
        };
        let encoded = resource.encode_to_vec().into_boxed_slice();
        let mut hasher = DefaultHasher::new();
        encoded.hash(&mut hasher);
        Self {
            resource,
            encoded,
            hash: hasher.finish(),
        }
    }

    /// Returns the OTLP message `Resource`.
    pub fn encoded(&self) -> &[u8] {
        &self.encoded
    }
}

/// Origins with equal bytes are equal.
impl PartialEq for Origin {
    fn eq(&self, other: &Self) -> bool {
        self.encoded == other.encoded
    }
}

impl Eq for Origin {}

impl Hash for Origin {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

impl Deref for Origin {
    type Target = Resource;

    fn deref(&self) -> &Resource {
        &self.resource
    }
}
