//! TLS and mTLS with certificates that the tests create.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use delivery::otlp::settings::{OtlpSettings, Protocol};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tempfile::TempDir;

use crate::otlp::given::{PROTOCOLS, assert_sum, resource, settle, span, spans_to, start};
use test_support::receiver::{LONG, Receiver};

/// An authority that signs certificates.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: rcgen::Certificate,
}

/// A certificate with its key.
struct SignedCertificate {
    certificate: rcgen::Certificate,
    key: KeyPair,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        Self {
            issuer: Issuer::new(params, key),
            certificate,
        }
    }

    fn sign(&self, name: &str) -> SignedCertificate {
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        SignedCertificate { certificate, key }
    }

    fn roots(&self) -> Arc<rustls::RootCertStore> {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(self.certificate.der().clone()).unwrap();
        Arc::new(roots)
    }
}

impl SignedCertificate {
    fn chain(&self) -> Vec<CertificateDer<'static>> {
        vec![self.certificate.der().clone()]
    }

    fn key(&self) -> PrivateKeyDer<'static> {
        PrivatePkcs8KeyDer::from(self.key.serialize_der()).into()
    }
}

/// Returns the configuration of a server. With `clients`, the server demands a client certificate of this authority.
fn server(identity: &SignedCertificate, clients: Option<&Authority>) -> rustls::ServerConfig {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .unwrap();
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some(clients) => {
            let verifier = rustls::server::WebPkiClientVerifier::builder_with_provider(clients.roots(), provider);
            builder.with_client_cert_verifier(verifier.build().unwrap())
        }
    };
    builder.with_single_cert(identity.chain(), identity.key()).unwrap()
}

/// PEM files in a separate directory.
struct Files(TempDir);

impl Files {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// Writes a file as a rotation does: a new file is renamed over the old file.
    fn write(&self, name: &str, pem: &str) -> PathBuf {
        let path = self.0.path().join(name);
        let new = self.0.path().join(format!("{name}.new"));
        fs::write(&new, pem).unwrap();
        fs::rename(new, &path).unwrap();
        path
    }
}

fn settings(receiver: &Receiver, protocol: Protocol, authority: &Path, client: Option<(&Path, &Path)>) -> OtlpSettings {
    let mut settings = spans_to(receiver, protocol);
    if let Some(traces) = &mut settings.traces {
        traces.certificate = Some(authority.to_owned());
        traces.client_certificate = client.map(|(certificate, _)| certificate.to_owned());
        traces.client_key = client.map(|(_, key)| key.to_owned());
    }
    settings
}

/// Scenario: in each protocol, a receiver with a private authority demands a client certificate.
/// Guarantee: the span arrives if the settings name files with the authority, certificate and key.
#[tokio::test]
async fn mutual_tls_works() {
    let (servers, clients, files) = (Authority::new(), Authority::new(), Files::new());
    let client = clients.sign("gcwatch");
    let authority = files.write("ca.pem", &servers.certificate.pem());
    let certificate = files.write("client.pem", &client.certificate.pem());
    let key = files.write("client.key", &client.key.serialize_pem());
    for protocol in PROTOCOLS {
        let mut receiver = Receiver::start_tls(server(&servers.sign("localhost"), Some(&clients))).await;
        let (exporter, _running) = start(&settings(&receiver, protocol, &authority, Some((&certificate, &key))));
        exporter.spans(&resource("shop"), vec![span("gc")]);
        settle(&exporter).await;
        assert_eq!(
            exporter.stats().traces.exported,
            1,
            "{protocol:?}: {:?}",
            exporter.stats().traces
        );
        assert_eq!(receiver.next().await.span_names(), ["gc"]);
    }
}

/// Scenario: the receiver's certificate is from an authority that is not in the file, or for another name, or the
/// receiver demands a client certificate and the exporter does not have one.
/// Guarantee: no data is sent; the attempt counts as unreachable, and the error names the cause.
#[tokio::test]
async fn invalid_certificate_is_not_trusted() {
    let (servers, others, files) = (Authority::new(), Authority::new(), Files::new());
    let authority = files.write("ca.pem", &servers.certificate.pem());
    for protocol in [Protocol::Grpc, Protocol::HttpProtobuf] {
        for config in [
            server(&others.sign("localhost"), None),
            server(&servers.sign("elsewhere"), None),
            server(&servers.sign("localhost"), Some(&others)),
        ] {
            let mut receiver = Receiver::start_tls(config).await;
            let mut settings = settings(&receiver, protocol, &authority, None);
            settings.limits.retry_for = Duration::ZERO;
            let (exporter, _running) = start(&settings);
            exporter.spans(&resource("shop"), vec![span("gc")]);
            settle(&exporter).await;
            let stats = exporter.stats().traces;
            assert_eq!((stats.dropped.expired, stats.requests.unreachable), (1, 1), "{stats:?}");
            assert!(receiver.try_next().is_none());
            assert_sum(&stats);
            let text = stats.last_error.unwrap().text;
            assert!(text.contains("ertificate"), "{protocol:?}: {text}");
        }
    }
}

/// Scenario: the receiver's authority changes; the file with the authorities is replaced while a batch waits for a
/// retry.
/// Guarantee: the batch arrives without a restart or a reload.
#[tokio::test]
async fn replaced_files_are_read_again() {
    for protocol in [Protocol::Grpc, Protocol::HttpProtobuf] {
        let (old, new, files) = (Authority::new(), Authority::new(), Files::new());
        let authority = files.write("ca.pem", &old.certificate.pem());
        let mut receiver = Receiver::start_tls(server(&new.sign("localhost"), None)).await;
        let (exporter, _running) = start(&settings(&receiver, protocol, &authority, None));
        exporter.spans(&resource("shop"), vec![span("gc")]);
        exporter.until(|stats| stats.traces.requests.unreachable > 0).await;
        files.write("ca.pem", &new.certificate.pem());
        settle(&exporter).await;
        assert_eq!(receiver.next().await.span_names(), ["gc"]);
        // A file that is no longer a valid certificate has no effect.
        files.write(
            "ca.pem",
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
        );
        exporter.spans(&resource("shop"), vec![span("again")]);
        settle(&exporter).await;
        assert_eq!(receiver.next().await.span_names(), ["again"]);
        assert_eq!(exporter.stats().traces.dropped.total(), 0);
    }
}

/// Scenario: a peer accepts connections and never answers the TLS handshake, like a load balancer without backends. All
/// three protocols are tested.
/// Guarantee: a handshake ends with the timeout of its request, and the next attempt uses another connection.
#[tokio::test]
async fn hanging_handshake_times_out() {
    let authority = Authority::new();
    let files = Files::new();
    let certificate = files.write("ca.pem", &authority.certificate.pem());
    for protocol in PROTOCOLS {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let receiver = Receiver::start().await;
        let mut settings = spans_to(&receiver, protocol);
        if let Some(traces) = &mut settings.traces {
            traces.endpoint = format!("https://{}/", listener.local_addr().unwrap());
            traces.certificate = Some(certificate.clone());
            traces.timeout = Duration::from_millis(200);
        }
        let (exporter, running) = start(&settings);
        exporter.spans(&resource("shop"), vec![span("kept")]);
        let mut held = Vec::new();
        for number in 0..3 {
            let accepted = tokio::time::timeout(LONG, listener.accept()).await;
            held.push(
                accepted
                    .unwrap_or_else(|_| panic!("{protocol:?}: {number} connections"))
                    .unwrap(),
            );
        }
        drop(running);
    }
}
