//! The token that identifies gcwatch to Kubernetes, in a file that the kubelet replaces before the token expires.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use http::HeaderValue;

use super::cluster::read;
use super::error::SetupError;
use targets::FileReading;

/// Maximum size of a token, in bytes. The token is part of a header line, for which servers accept some KiB.
const MAX_BYTES: u64 = 64 << 10;

/// Timeout for reading the file.
const READ_TIMEOUT: Duration = Duration::from_secs(2);

/// Replacement for a token in messages.
const REDACTED: &str = "<redacted>";

/// A bearer token. Neither the `Debug` output of the token nor of a request shows its value.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Token(HeaderValue);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Token").field(&REDACTED).finish()
    }
}

impl Token {
    fn new(text: &[u8]) -> Result<Self, &'static str> {
        let text = text.trim_ascii();
        if text.is_empty() {
            return Err("it is empty");
        }
        let header = HeaderValue::from_bytes(&[b"Bearer ".as_slice(), text].concat());
        let mut header = header.map_err(|_| "it has characters that no token has")?;
        header.set_sensitive(true);
        Ok(Self(header))
    }

    /// Returns the value of the `Authorization` header.
    pub(crate) fn header(&self) -> HeaderValue {
        self.0.clone()
    }

    /// Removes the token from a message of the server, because the server can repeat the token.
    pub(crate) fn redact(&self, message: &str) -> String {
        let header = String::from_utf8_lossy(self.0.as_bytes());
        let secret = header.strip_prefix("Bearer ").unwrap_or(&header);
        message.replace(secret, REDACTED)
    }
}

/// The file of a token. The file is read before each request, so that a replaced token is used at once. There is only
/// one request per page, watch and poll, so the cost is negligible.
#[derive(Debug)]
pub(crate) struct TokenFile {
    path: PathBuf,
    last: Mutex<Token>,
    reading: FileReading,
}

impl TokenFile {
    /// Opens a file, which must contain a token now.
    pub(crate) fn open(path: PathBuf) -> Result<Self, SetupError> {
        let remedy = "check automountServiceAccountToken of the pod and of the service account";
        let bytes = read(&path, MAX_BYTES).map_err(|source| SetupError::Read {
            what: "token",
            path: path.clone(),
            source,
            remedy,
        })?;
        match Token::new(&bytes) {
            Ok(token) => Ok(Self {
                path,
                last: Mutex::new(token),
                reading: FileReading::default(),
            }),
            Err(reason) => Err(SetupError::Token { path, reason }),
        }
    }

    /// Returns the current token. If the file has no valid token or does not respond, returns the last valid token.
    pub(crate) async fn current(&self) -> Token {
        let path = self.path.clone();
        let bytes = self.reading.within(READ_TIMEOUT, move || read(&path, MAX_BYTES)).await;
        let now = bytes
            .ok()
            .and_then(Result::ok)
            .and_then(|bytes| Token::new(&bytes).ok());
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(now) = now {
            *last = now;
        }
        last.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: a token file is replaced, emptied, filled with an invalid token, and removed.
    /// Guarantee: a new token is used at once; without a valid token in the file, the last valid token is kept.
    #[tokio::test]
    async fn replaced_token_is_used_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        assert!(matches!(TokenFile::open(path.clone()), Err(SetupError::Read { .. })));
        std::fs::write(&path, " \n").unwrap();
        assert!(matches!(TokenFile::open(path.clone()), Err(SetupError::Token { .. })));
        std::fs::write(&path, "first\n").unwrap();
        let file = TokenFile::open(path.clone()).unwrap();
        assert_eq!(file.current().await.header(), "Bearer first");
        std::fs::write(folder.path().join("new"), "second").unwrap();
        std::fs::rename(folder.path().join("new"), &path).unwrap();
        assert_eq!(file.current().await.header(), "Bearer second");
        for bytes in [b"".as_slice(), b"a\nb", &[b'x'; (MAX_BYTES + 1) as usize]] {
            std::fs::write(&path, bytes).unwrap();
            assert_eq!(file.current().await.header(), "Bearer second");
        }
        std::fs::remove_file(&path).unwrap();
        assert_eq!(file.current().await.header(), "Bearer second");
    }

    /// Scenario: a token is formatted for debugging, and repeated by a server.
    /// Guarantee: the token is replaced in both texts.
    #[test]
    fn tokens_are_redacted() {
        let token = Token::new(b"s3cr3t.token").unwrap();
        let shown = format!("{token:?} {:?}", token.header());
        assert!(!shown.contains("s3cr3t"), "{shown}");
        assert_eq!(
            token.redact("no such token: s3cr3t.token!"),
            "no such token: <redacted>!"
        );
    }
}
