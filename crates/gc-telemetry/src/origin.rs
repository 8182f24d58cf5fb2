//! Whose telemetry it is.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Deref;

use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::resource::v1::Resource;
use prost::Message as _;

/// The resource of one process, with its bytes as OTLP has them: it goes with everything that is told of the process, and is the same for
/// as long as nothing new is learned of it.
#[derive(Debug, Clone)]
pub struct Origin {
    resource: Resource,
    encoded: Box<[u8]>,
    /// Of those bytes: each request asks whether it has this origin already.
    hash: u64,
}

impl Origin {
    /// The origin with these attributes.
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

    /// The message `Resource` of OTLP.
    pub fn encoded(&self) -> &[u8] {
        &self.encoded
    }
}

/// Those with the same bytes are the same.
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
