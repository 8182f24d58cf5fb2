//! Bytes of a connection: plain, or over TLS.

use std::io;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

/// Bidirectional byte stream.
pub(crate) trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// Returns the byte stream of a connection, after the handshake if TLS is enabled.
pub(crate) async fn wire(stream: TcpStream, tls: Option<TlsAcceptor>) -> io::Result<Box<dyn Duplex>> {
    Ok(match tls {
        Some(tls) => Box::new(tls.accept(stream).await?),
        None => Box::new(stream),
    })
}
