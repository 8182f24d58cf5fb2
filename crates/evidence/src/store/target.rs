//! The destination of objects, and a single request to it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use base::text::shown;
use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::path::Path as Location;
use object_store::{ClientOptions, ObjectStore, ObjectStoreExt as _, PutPayload, RetryConfig};
use tokio::task::{JoinError, spawn_blocking};

use super::{StoreError, StoreOptions};

/// Size of the parts of a large object, in bytes. A smaller object is one request. S3 requires parts of at least 5 MiB,
/// except for the last part.
const PART_BYTES: u64 = 8 << 20;
/// Timeout for one request, with 8 MiB at most.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// Timeout for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of characters of an error.
const MAX_ERROR: usize = 400;

/// A place of objects, parsed from its address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    /// Amazon S3 or a compatible server.
    S3 { root: String, prefix: String },
    /// Google Cloud Storage.
    Gcs { root: String, prefix: String },
    /// Azure Blob Storage.
    Azure { root: String, prefix: String },
    /// A folder on a mounted volume.
    Folder(PathBuf),
}

impl Place {
    /// Parses an address. `root` in the result is the scheme with the bucket.
    pub(super) fn parse(url: &str) -> Result<Self, StoreError> {
        let (scheme, rest) = url.split_once("://").ok_or(StoreError::Address)?;
        // A user, a query or a fragment could contain a secret. Every message contains the address, so these parts are
        // refused.
        let has_user = rest.contains('@') && !matches!(scheme, "abfs" | "abfss");
        if has_user || rest.contains(['?', '#']) || rest.chars().any(|c| c.is_whitespace() || c.is_control()) {
            return Err(StoreError::Address);
        }
        if scheme == "file" {
            let path = PathBuf::from(rest.trim_end_matches('/'));
            return if path.is_absolute() {
                Ok(Self::Folder(path))
            } else {
                Err(StoreError::Address)
            };
        }
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        if bucket.is_empty() {
            return Err(StoreError::Address);
        }
        let prefix = prefix.trim_matches('/').to_owned();
        let root = format!("{scheme}://{bucket}");
        match scheme {
            "s3" => Ok(Self::S3 { root, prefix }),
            "gs" => Ok(Self::Gcs { root, prefix }),
            "az" | "abfs" | "abfss" => Ok(Self::Azure { root, prefix }),
            _ => Err(StoreError::Address),
        }
    }
}

/// The result of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SendOutcome {
    /// The store has the complete object.
    Stored,
    /// The store does not have the object, for this reason.
    Failed(String),
}

/// The destination of this host's objects.
#[derive(Debug, Clone)]
pub(super) enum Target {
    Objects {
        store: Arc<dyn ObjectStore>,
        /// Prefix of all locations, with the host.
        prefix: String,
    },
    Folder(PathBuf),
}

impl Target {
    /// Creates a client without opening a connection.
    pub(super) fn new(options: &StoreOptions, host: &str) -> Result<Self, StoreError> {
        let failed = |error: object_store::Error| StoreError::Client(text(&error));
        // The queue retries every failure.
        let retry = RetryConfig {
            max_retries: 0,
            ..RetryConfig::default()
        };
        let client = |is_http: bool| {
            // An error means that a provider is already installed.
            let _installed = rustls::crypto::ring::default_provider().install_default();
            ClientOptions::new()
                .with_timeout(REQUEST_TIMEOUT)
                .with_connect_timeout(CONNECT_TIMEOUT)
                .with_allow_http(is_http)
        };
        let is_http = options.endpoint.as_ref().is_some_and(|url| url.starts_with("http://"));
        let variable_is_http = |name: &str| std::env::var(name).is_ok_and(|url| url.starts_with("http://"));
        let (store, prefix): (Arc<dyn ObjectStore>, String) = match Place::parse(&options.url)? {
            Place::Folder(folder) => return Ok(Self::Folder(folder.join(host))),
            Place::S3 { root, prefix } => {
                let is_http = is_http || variable_is_http("AWS_ENDPOINT_URL") || variable_is_http("AWS_ENDPOINT");
                let mut builder = AmazonS3Builder::from_env().with_url(root);
                if let Some(endpoint) = &options.endpoint {
                    builder = builder.with_endpoint(endpoint);
                }
                let builder = builder.with_retry(retry).with_client_options(client(is_http));
                (Arc::new(builder.build().map_err(failed)?), prefix)
            }
            Place::Gcs { root, prefix } => {
                let builder = GoogleCloudStorageBuilder::from_env().with_url(root);
                let builder = builder.with_retry(retry).with_client_options(client(is_http));
                (Arc::new(builder.build().map_err(failed)?), prefix)
            }
            Place::Azure { root, prefix } => {
                let is_http = is_http || variable_is_http("AZURE_STORAGE_ENDPOINT");
                let mut builder = MicrosoftAzureBuilder::from_env().with_url(root);
                if let Some(endpoint) = &options.endpoint {
                    builder = builder.with_endpoint(endpoint.clone());
                }
                let builder = builder.with_retry(retry).with_client_options(client(is_http));
                (Arc::new(builder.build().map_err(failed)?), prefix)
            }
        };
        let prefix = format!("{prefix}/{host}").trim_start_matches('/').to_owned();
        Ok(Self::Objects { store, prefix })
    }

    /// Stores a file under a key. The store has either the complete file or no file afterwards.
    pub(super) async fn send(&self, key: &str, file: File, bytes: u64) -> SendOutcome {
        let sent = match self {
            Self::Folder(folder) => {
                let to = folder.join(key);
                let copied = spawn_blocking(move || copy(file, &to)).await;
                copied.map_err(SendError::Task).and_then(|copied| Ok(copied?))
            }
            Self::Objects { store, prefix } => {
                let location = Location::from(format!("{prefix}/{key}"));
                put(&**store, &location, file, bytes).await
            }
        };
        match sent {
            Ok(()) => SendOutcome::Stored,
            Err(error) => SendOutcome::Failed(error.to_string()),
        }
    }
}

/// Error returned if a file cannot be stored.
#[derive(Debug, thiserror::Error)]
enum SendError {
    /// The store refused the request or did not answer.
    #[error("{}", text(.0))]
    Store(#[from] object_store::Error),
    /// The file cannot be read or copied.
    #[error(transparent)]
    File(#[from] io::Error),
    /// The task panicked or was cancelled.
    #[error(transparent)]
    Task(#[from] JoinError),
}

/// Stores an object in one request, or in parts.
async fn put(store: &dyn ObjectStore, location: &Location, file: File, bytes: u64) -> Result<(), SendError> {
    if bytes <= PART_BYTES {
        let (_, part) = part(file).await?;
        store.put(location, part.into()).await?;
        return Ok(());
    }
    let mut upload = store.put_multipart(location).await?;
    let mut file = file;
    let sent = async {
        loop {
            let (rest, part) = part(file).await?;
            if part.is_empty() {
                upload.complete().await?;
                return Ok(());
            }
            upload.put_part(PutPayload::from(part)).await?;
            file = rest;
        }
    };
    let sent: Result<(), SendError> = sent.await;
    if sent.is_err() {
        // Without the abort, the parts would stay in the store and cause costs. If the store is unreachable, only a
        // lifecycle rule of the store can delete the parts.
        let _not_reachable = upload.abort().await;
    }
    sent
}

/// Reads the next part of a file.
async fn part(mut file: File) -> Result<(File, Vec<u8>), SendError> {
    let read = spawn_blocking(move || {
        let mut part = Vec::new();
        (&mut file).take(PART_BYTES).read_to_end(&mut part)?;
        Ok::<_, io::Error>((file, part))
    });
    Ok(read.await??)
}

/// Copies a file to a volume, first under a temporary name, so that no reader finds an incomplete file.
fn copy(mut file: File, to: &Path) -> io::Result<()> {
    let folder = to.parent().ok_or_else(|| io::Error::other("it has no folder"))?;
    fs::create_dir_all(folder)?;
    let partial = to.with_extension("partial");
    let copied = (|| {
        let mut options = OpenOptions::new();
        let mut out = options
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o640)
            .open(&partial)?;
        io::copy(&mut file, &mut out)?;
        out.sync_all()?;
        fs::rename(&partial, to)?;
        File::open(folder)?.sync_all()
    })();
    if copied.is_err() {
        let _nothing_there = fs::remove_file(&partial);
    }
    copied
}

/// Returns an error with its causes, in one line.
fn text(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    shown(&text.chars().take(MAX_ERROR).collect::<String>())
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    /// Scenario: addresses of every kind are parsed; other addresses have an unknown scheme, no bucket, a user, a query
    /// or a relative folder.
    /// Guarantee: bucket and prefix of the valid addresses are returned, and the other addresses are refused.
    #[test]
    fn addresses_are_read() {
        let s3 = |root: &str, prefix: &str| Place::S3 {
            root: root.to_owned(),
            prefix: prefix.to_owned(),
        };
        assert_eq!(Place::parse("s3://b").unwrap(), s3("s3://b", ""));
        assert_eq!(Place::parse("s3://b/a/c/").unwrap(), s3("s3://b", "a/c"));
        assert!(matches!(Place::parse("gs://b/x").unwrap(), Place::Gcs { prefix, .. } if prefix == "x"));
        let azure = Place::parse("abfss://c@account.dfs.core.windows.net/x").unwrap();
        assert!(matches!(azure, Place::Azure { root, .. } if root == "abfss://c@account.dfs.core.windows.net"));
        assert_eq!(Place::parse("file:///mnt/e/").unwrap(), Place::Folder("/mnt/e".into()));
        for wrong in [
            "b/x",
            "s3://",
            "ftp://b",
            "s3://k:s@b",
            "s3://b?X-Amz-Signature=1",
            "file://e",
            "s3://a b",
            "s3://b/#x",
        ] {
            assert!(Place::parse(wrong).is_err(), "{wrong}");
        }
    }

    /// Scenario: a file is stored on a volume, then again with other content, then under a path below the stored file.
    /// Guarantee: the volume has only the newest content; the last attempt fails with a reason.
    #[tokio::test]
    async fn volume_has_whole_files() {
        let (volume, source) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let options = StoreOptions {
            url: format!("file://{}", volume.path().display()),
            endpoint: None,
            max_files: 1,
            max_bytes: 1,
        };
        let target = Target::new(&options, "node7").unwrap();
        for content in ["one", "another"] {
            let path = source.path().join("x");
            File::create(&path).unwrap().write_all(content.as_bytes()).unwrap();
            let sent = target.send("0f/incident.json", File::open(&path).unwrap(), 3).await;
            assert_eq!(sent, SendOutcome::Stored);
            let folder = volume.path().join("node7/0f");
            assert_eq!(fs::read_to_string(folder.join("incident.json")).unwrap(), content);
            assert_eq!(fs::read_dir(folder).unwrap().count(), 1);
        }
        let file = File::open(source.path().join("x")).unwrap();
        assert!(matches!(
            target.send("0f/incident.json/x", file, 3).await,
            SendOutcome::Failed(_)
        ));
    }
}
