//! The bytes of a connection: as they are, or in TLS.

use std::io;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

/// Bytes both ways.
pub(crate) trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// A connection, after the handshake where there is one.
pub(crate) async fn wire(stream: TcpStream, tls: Option<TlsAcceptor>) -> io::Result<Box<dyn Duplex>> {
    Ok(match tls {
        Some(tls) => Box::new(tls.accept(stream).await?),
        None => Box::new(stream),
    })
}
