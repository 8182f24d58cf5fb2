//! TLS of listeners: the certificate comes from two files, which are read again after a change.

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

/// Interval between checks of the files.
const FILE_CHECK_INTERVAL: Duration = Duration::from_secs(30);

/// Error if the certificate is unusable.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file is unreadable or is not the expected PEM file.
    #[error("{path}: {problem}")]
    File {
        /// Path of the file.
        path: String,
        /// Problem with the file.
        problem: String,
    },
    /// The built-in cryptography supports no protocol.
    #[error("TLS: {0}")]
    Unusable(#[from] rustls::Error),
}

/// Certificate in use.
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
    /// Returns an error if the files are unusable.
    pub(crate) fn read(files: &TlsFiles) -> Result<Arc<Self>, TlsError> {
        Ok(Arc::new(Self {
            files: files.clone(),
            current: RwLock::new(Arc::new(load(files)?)),
        }))
    }

    /// Returns an acceptor that uses this certificate and the specified protocols.
    ///
    /// # Errors
    ///
    /// Returns an error if the cryptography supports no protocol; the built-in cryptography never fails.
    pub(crate) fn acceptor(self: &Arc<Self>, protocols: &[&str]) -> Result<TlsAcceptor, TlsError> {
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_cert_resolver(Arc::clone(self) as Arc<dyn ResolvesServerCert>);
        config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        Ok(TlsAcceptor::from(Arc::new(config)))
    }

    /// Reads the files again after each change. While the files are unusable, the last certificate stays in use.
    pub(crate) async fn follow(self: Arc<Self>) {
        let mut looks = interval(FILE_CHECK_INTERVAL);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut seen = self.look().await;
        loop {
            looks.tick().await;
            let now = self.look().await;
            if now == seen {
                continue;
            }
            let files = self.files.clone();
            // If the task fails, the next check reads the files again.
            let Ok(loaded) = tokio::task::spawn_blocking(move || load(&files)).await else {
                continue;
            };
            match loaded {
                Ok(new) => {
                    *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(new);
                    tracing::info!(target: "gcwatch::web", "the new certificate is now active");
                }
                Err(error) => {
                    tracing::warn!(target: "gcwatch::web", "keeping the old certificate: {error}")
                }
            }
            seen = now;
        }
    }

    /// Returns the modification time of each file, or `None` if it is not available. A separate thread reads the times,
    /// so that a hanging disk blocks no other task.
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
        .map_err(|error| {
            of_file(
                &files.certificate,
                format!("is not a PEM file of certificates: {error}"),
            )
        })?;
    if chain.is_empty() {
        return Err(of_file(&files.certificate, "contains no certificate".to_owned()));
    }
    // The error discloses no content of the file.
    let key = PrivateKeyDer::from_pem_slice(&read(&files.key)?)
        .map_err(|_| of_file(&files.key, "is not a PEM file of a private key".to_owned()))?;
    CertifiedKey::from_der(chain, key, &ring::default_provider()).map_err(|error| {
        of_file(
            &files.key,
            format!("does not match {}: {error}", files.certificate.display()),
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

    /// Scenario: the certificate is replaced by a new certificate, by invalid bytes, and by a certificate with another
    /// key.
    /// Guarantee: the new certificate is used without a restart; unusable files change nothing.
    #[tokio::test(start_paused = true)]
    async fn new_certificate_is_used() {
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
        tokio::time::sleep(FILE_CHECK_INTERVAL / 2).await;
        let second = put(&files, "second");
        tokio::time::sleep(FILE_CHECK_INTERVAL * 2).await;
        assert_eq!(current(), second);
        std::fs::write(&files.certificate, "none").unwrap();
        tokio::time::sleep(FILE_CHECK_INTERVAL * 2).await;
        assert_eq!(current(), second);
        let other = rcgen::generate_simple_self_signed(["other".to_owned()]).unwrap();
        std::fs::write(&files.certificate, other.cert.pem()).unwrap();
        tokio::time::sleep(FILE_CHECK_INTERVAL * 2).await;
        assert_eq!(current(), second, "the key does not match");
        follows.abort();
    }

    /// Scenario: the certificate is missing or empty, or the key is invalid.
    /// Guarantee: the error names the file and discloses nothing about the key.
    #[test]
    fn unusable_file_is_named() {
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
            error(&files).ends_with("tls.crt: contains no certificate"),
            "{}",
            error(&files)
        );
    }
}
