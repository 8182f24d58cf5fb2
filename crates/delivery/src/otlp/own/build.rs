//! Builds exporters of `opentelemetry-otlp` over the connection of a target.

use std::sync::Arc;
use std::time::Duration;

use opentelemetry_otlp::{
    LogExporter, Protocol as SdkProtocol, SpanExporter, WithExportConfig, WithHttpConfig, WithTonicConfig,
};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::logs::LogExporter as _;
use opentelemetry_sdk::trace::SpanExporter as _;
use tonic::metadata::MetadataMap;

use crate::otlp::own::http::TargetClient;
use crate::otlp::target::Target;
use crate::transport::receiver::{Compression, Protocol};

/// Functions shared by both exporters of `opentelemetry-otlp`.
pub(crate) trait Exporter: Sized + Send + Sync + 'static {
    /// Creates an exporter for a gRPC connection.
    fn grpc(target: &Arc<Target>, channel: tonic::transport::Channel, compression: Compression)
    -> Result<Self, String>;

    /// Creates an exporter for an HTTP connection.
    fn http(target: &Arc<Target>, client: TargetClient) -> Result<Self, String>;

    /// Sets the resource of everything that the exporter sends.
    fn with_resource(self, resource: &Resource) -> Self;
}

macro_rules! exporter {
    ($name:ident) => {
        impl Exporter for $name {
            fn grpc(
                target: &Arc<Target>,
                channel: tonic::transport::Channel,
                compression: Compression,
            ) -> Result<Self, String> {
                let builder = over_grpc(Self::builder().with_tonic(), target, channel, compression);
                builder.build().map_err(|error| error.to_string())
            }

            fn http(target: &Arc<Target>, client: TargetClient) -> Result<Self, String> {
                let builder = over_http(Self::builder().with_http(), target, client);
                builder.build().map_err(|error| error.to_string())
            }

            fn with_resource(mut self, resource: &Resource) -> Self {
                self.set_resource(resource);
                self
            }
        }
    };
}

exporter!(LogExporter);
exporter!(SpanExporter);

/// Configures the target's channel. The interceptor replaces the headers that the library reads from the environment.
fn over_grpc<B: WithTonicConfig + WithExportConfig>(
    builder: B,
    target: &Arc<Target>,
    channel: tonic::transport::Channel,
    compression: Compression,
) -> B {
    let timeout = target.receiver().timeout;
    let headers = MetadataMap::from_headers(target.headers().clone());
    let mut builder =
        builder
            .with_channel(channel)
            .with_timeout(timeout)
            .with_interceptor(move |mut request: tonic::Request<()>| {
                *request.metadata_mut() = headers.clone();
                // The timeout of one attempt. The exporter's own timeout covers all of its retries.
                request.set_timeout(timeout.max(Duration::from_millis(1)));
                Ok(request)
            });
    match compression {
        Compression::None => {}
        Compression::Gzip => builder = builder.with_compression(opentelemetry_otlp::Compression::Gzip),
        Compression::Zstd => builder = builder.with_compression(opentelemetry_otlp::Compression::Zstd),
    }
    builder
}

/// Configures the target's client, which adds the headers and compresses.
fn over_http<B: WithHttpConfig + WithExportConfig>(builder: B, target: &Arc<Target>, client: TargetClient) -> B {
    let protocol = match target.receiver().protocol {
        Protocol::HttpJson => SdkProtocol::HttpJson,
        Protocol::Grpc | Protocol::HttpProtobuf => SdkProtocol::HttpBinary,
    };
    builder
        .with_http_client(client)
        .with_protocol(protocol)
        .with_endpoint(&target.receiver().endpoint)
        .with_timeout(target.receiver().timeout)
}
