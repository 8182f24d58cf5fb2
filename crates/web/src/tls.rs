//! TLS of listeners: the certificate from two files, which are read again when they change.

use std::io;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::time::{MissedTickBehavior, interval};
use tokio_rustls::TlsAcceptor;

use super::options::TlsFiles;

/// How often the files are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(30);

/// The certificate cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read, or is no PEM file of what it should be.
    #[error("{path}: {problem}")]
    File {
        /// The file.
        path: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The cryptography that is built in supports no protocol.
    #[error("TLS: {0}")]
    Unusable(#[from] rustls::Error),
}

/// The certificate in use.
#[derive(Debug)]
pub(crate) struct Certificate {
    files: TlsFiles,
    current: RwLock<Arc<CertifiedKey>>,
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner)))
    }
}

impl Certificate {
    /// Reads the files.
    ///
    /// # Errors
    ///
    /// When they cannot be used.
    pub(crate) fn read(files: &TlsFiles) -> Result<Arc<Self>, TlsError> {
        Ok(Arc::new(Self {
            files: files.clone(),
            current: RwLock::new(Arc::new(load(files)?)),
        }))
    }

    /// Accepts connections with it that speak one of these protocols.
    ///
    /// # Errors
    ///
    /// Never with the cryptography that is built in.
    pub(crate) fn acceptor(self: &Arc<Self>, protocols: &[&str]) -> Result<TlsAcceptor, TlsError> {
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_cert_resolver(Arc::clone(self) as Arc<dyn ResolvesServerCert>);
        config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        Ok(TlsAcceptor::from(Arc::new(config)))
    }

    /// Reads the files again whenever they change. While they cannot be used, the last one stays.
    pub(crate) async fn follow(self: Arc<Self>) {
        let mut looks = interval(LOOK_EVERY);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut seen = self.look().await;
        loop {
            looks.tick().await;
            let now = self.look().await;
            if now == seen {
                continue;
            }
            let files = self.files.clone();
            // Where it panicked, it is tried again.
            let Ok(loaded) = tokio::task::spawn_blocking(move || load(&files)).await else {
                continue;
            };
            match loaded {
                Ok(new) => {
                    *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(new);
                    tracing::info!(target: "gcwatch::web", "the new certificate is in use");
                }
                Err(error) => tracing::warn!(target: "gcwatch::web", "the old certificate stays in use: {error}"),
            }
            seen = now;
        }
    }

    /// When the files changed last; a disk that hangs holds up nobody else.
    async fn look(&self) -> [Option<SystemTime>; 2] {
        let files = self.files.clone();
        let changed = |path: &Path| std::fs::metadata(path).and_then(|file| file.modified()).ok();
        let looked = tokio::task::spawn_blocking(move || [changed(&files.certificate), changed(&files.key)]);
        looked.await.unwrap_or_default()
    }
}

fn load(files: &TlsFiles) -> Result<CertifiedKey, TlsError> {
    let of_file = |path: &Path, problem: String| TlsError::File {
        path: path.display().to_string(),
        problem,
    };
    let read = |path: &Path| std::fs::read(path).map_err(|error: io::Error| of_file(path, error.to_string()));
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(&read(&files.certificate)?)
        .collect::<Result<_, _>>()
        .map_err(|error| of_file(&files.certificate, format!("is no PEM file of certificates: {error}")))?;
    if chain.is_empty() {
        return Err(of_file(&files.certificate, "has no certificate".to_owned()));
    }
    // The error does not show what is in the file.
    let key = PrivateKeyDer::from_pem_slice(&read(&files.key)?)
        .map_err(|_| of_file(&files.key, "is no PEM file of a private key".to_owned()))?;
    CertifiedKey::from_der(chain, key, &ring::default_provider()).map_err(|error| {
        of_file(
            &files.key,
            format!("does not fit {}: {error}", files.certificate.display()),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(files: &TlsFiles, name: &str) -> CertificateDer<'static> {
        let made = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
        std::fs::write(&files.certificate, made.cert.pem()).unwrap();
        std::fs::write(&files.key, made.signing_key.serialize_pem()).unwrap();
        made.cert.der().clone()
    }

    /// Scenario: the certificate is replaced, then by bytes that are none, then by one of another key.
    /// Guarantee: the new one is used without a restart; what cannot be used changes nothing.
    #[tokio::test(start_paused = true)]
    async fn a_new_certificate_is_used() {
        let folder = tempfile::tempdir().unwrap();
        let files = TlsFiles {
            certificate: folder.path().join("tls.crt"),
            key: folder.path().join("tls.key"),
        };
        let first = put(&files, "first");
        let certificate = Certificate::read(&files).unwrap();
        let current = || certificate.current.read().unwrap().cert[0].clone();
        assert_eq!(current(), first);
        let follows = tokio::spawn(Arc::clone(&certificate).follow());
        tokio::time::sleep(LOOK_EVERY / 2).await;
        let second = put(&files, "second");
        tokio::time::sleep(LOOK_EVERY * 2).await;
        assert_eq!(current(), second);
        std::fs::write(&files.certificate, "none").unwrap();
        tokio::time::sleep(LOOK_EVERY * 2).await;
        assert_eq!(current(), second);
        let other = rcgen::generate_simple_self_signed(["other".to_owned()]).unwrap();
        std::fs::write(&files.certificate, other.cert.pem()).unwrap();
        tokio::time::sleep(LOOK_EVERY * 2).await;
        assert_eq!(current(), second, "its key is another one");
        follows.abort();
    }

    /// Scenario: files that are missing, empty, or something else.
    /// Guarantee: the error names the file and shows nothing of the key.
    #[test]
    fn what_is_no_certificate_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let files = TlsFiles {
            certificate: folder.path().join("tls.crt"),
            key: folder.path().join("tls.key"),
        };
        let error = |files: &TlsFiles| Certificate::read(files).unwrap_err().to_string();
        assert!(error(&files).contains("tls.crt: No such file"), "{}", error(&files));
        put(&files, "a");
        std::fs::write(
            &files.key,
            "-----BEGIN PRIVATE KEY-----\ns3cr3t\n-----END PRIVATE KEY-----\n",
        )
        .unwrap();
        let text = error(&files);
        assert!(text.contains("tls.key") && !text.contains("s3cr3t"), "{text}");
        std::fs::write(&files.certificate, "").unwrap();
        assert!(
            error(&files).ends_with("tls.crt: has no certificate"),
            "{}",
            error(&files)
        );
    }
}
