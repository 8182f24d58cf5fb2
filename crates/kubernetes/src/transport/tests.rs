use std::net::SocketAddr;
use std::sync::Arc;

use http_body_util::Full;
use hyper::service::service_fn;
use hyper::{Request, Version, body::Incoming};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::PrivatePkcs8KeyDer;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::*;

/// Starts a server on 127.0.0.1 that answers each request with its version and token. Returns its address and the PEM
/// of its certificate.
pub(crate) async fn server(protocols: &[&str]) -> (SocketAddr, String) {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec!["127.0.0.1".to_owned()])
        .unwrap()
        .self_signed(&key)
        .unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![certificate.der().clone()],
            PrivatePkcs8KeyDer::from(key.serialize_der()).into(),
        )
        .unwrap();
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
    let tls = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let tls = tls.clone();
            tokio::spawn(async move {
                let Ok(stream) = tls.accept(stream).await else { return };
                let service = service_fn(|request: Request<Incoming>| async move {
                    let version = if request.version() == Version::HTTP_2 {
                        "2"
                    } else {
                        "1.1"
                    };
                    let token = request
                        .headers()
                        .get(AUTHORIZATION)
                        .map(|token| token.to_str().unwrap().to_owned());
                    let text = format!("{version} {} {token:?}", request.uri().path());
                    Ok::<_, std::convert::Infallible>(hyper::Response::new(Full::new(Bytes::from(text))))
                });
                let server = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
                let _cut = server.serve_connection(TokioIo::new(stream), service).await;
            });
        }
    });
    (address, certificate.pem())
}

async fn ask(http: &Http) -> Result<String, AnswerError> {
    let mut answer = http.get("/pods", Some(HeaderValue::from_static("Bearer me"))).await?;
    let mut bytes = Vec::new();
    while let Some(piece) = Body::chunk(&mut answer.body).await? {
        bytes.extend_from_slice(&piece);
    }
    Ok(String::from_utf8(bytes).unwrap())
}

/// Scenario: one server supports HTTP/2 and others do not, at an address with a path.
/// Guarantee: the newest version of HTTP that the server supports is used, the path is kept, and the token is sent.
#[tokio::test]
async fn http_2_and_http_1_are_supported() {
    for (protocols, version) in [
        (["h2", "http/1.1"].as_slice(), "2"),
        (&["http/1.1"], "1.1"),
        (&[], "1.1"),
    ] {
        let (address, _) = server(protocols).await;
        let url = Url::parse(&format!("https://{address}/nodes/a/proxy/")).unwrap();
        let http = Http::new(&url, Trust::Anyone).unwrap();
        let expected = format!("{version} /nodes/a/proxy/pods Some(\"Bearer me\")");
        assert_eq!(ask(&http).await.unwrap(), expected);
    }
}

/// Scenario: a server sends one piece of its answer and closes the connection.
/// Guarantee: the piece is received, and then an error is returned instead of the end.
#[tokio::test]
async fn truncated_answer_is_error() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = Url::parse(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        assert!(stream.read(&mut [0; 1024]).await.unwrap() > 0);
        let cut = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nfirst\r\n";
        stream.write_all(cut).await.unwrap();
    });
    let mut answer = Http::new(&url, Trust::System)
        .unwrap()
        .get("/pods", None)
        .await
        .unwrap();
    assert_eq!(Body::chunk(&mut answer.body).await.unwrap().unwrap(), "first");
    let error = Body::chunk(&mut answer.body).await.unwrap_err();
    assert!(matches!(error, AnswerError::Broken(_)), "{error}");
}

/// Scenario: the file with the authorities is missing, then invalid, then contains the authority of another server. The
/// authority of the server is added; then the file becomes invalid, and is removed.
/// Guarantee: no client is created with a missing or invalid file. New authorities are used at once. A file that is
/// invalid or missing later has no effect.
#[tokio::test]
async fn replaced_certificates_are_used() {
    let (address, pem) = server(&[]).await;
    let (_, stranger) = server(&[]).await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ca.crt");
    let url = Url::parse(&format!("https://{address}")).unwrap();
    let open = || Http::new(&url, Trust::File(path.clone()));
    assert!(matches!(open(), Err(SetupError::Read { .. })));
    for invalid in [
        "",
        "no certificate",
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
    ] {
        std::fs::write(&path, invalid).unwrap();
        assert!(matches!(open(), Err(SetupError::Certificates { .. })), "{invalid}");
    }
    std::fs::write(&path, &stranger).unwrap();
    let http = open().unwrap();
    let error = ask(&http).await.unwrap_err();
    assert!(matches!(error, AnswerError::Unreachable(_)), "{error}");
    std::fs::write(&path, stranger + &pem).unwrap();
    ask(&http).await.unwrap();
    std::fs::write(&path, "no certificate").unwrap();
    ask(&http).await.unwrap();
    std::fs::remove_file(&path).unwrap();
    ask(&http).await.unwrap();
}

/// Scenario: addresses have TLS or not, and are on this host or elsewhere.
/// Guarantee: a token is sent in clear text only to this host.
#[test]
fn tokens_are_not_sent_in_clear_text() {
    let urls = [
        ("https://10.0.0.1:443", true),
        ("http://127.0.0.1:8001", true),
        ("http://[::1]:8001", true),
        ("http://localhost:8001", true),
        ("http://10.0.0.1:10255", false),
        ("http://node.example:10255", false),
    ];
    for (url, expected) in urls {
        let http = Http::new(&Url::parse(url).unwrap(), Trust::Anyone).unwrap();
        assert_eq!(http.keeps_secrets, expected, "{url}");
    }
}
