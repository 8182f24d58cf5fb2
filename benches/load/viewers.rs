//! Open pages, to measure the cost of viewers for the daemon.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context as _, bail};

/// Connections that follow a view and read every event immediately, until this value is dropped.
#[derive(Debug)]
pub(crate) struct Viewers {
    streams: Vec<TcpStream>,
    readers: Vec<JoinHandle<u64>>,
}

impl Viewers {
    /// Opens `number` connections. Each connection follows one of the queries, which are repeated in order.
    pub(crate) fn open(address: SocketAddr, number: usize, queries: &[String]) -> anyhow::Result<Self> {
        let mut viewers = Self {
            streams: Vec::new(),
            readers: Vec::new(),
        };
        for query in queries.iter().cycle().take(number) {
            let mut stream = TcpStream::connect(address).context("cannot reach the page")?;
            stream.set_read_timeout(Some(Duration::from_secs(30)))?;
            write!(stream, "GET /api/v1/events?{query} HTTP/1.1\r\nHost: {address}\r\n\r\n")?;
            let mut reader = BufReader::new(stream.try_clone()?);
            let mut first = String::new();
            reader.read_line(&mut first)?;
            if !first.contains(" 200 ") {
                bail!("{query}: {}", first.trim_end());
            }
            viewers.streams.push(stream);
            viewers.readers.push(std::thread::spawn(move || bytes(reader)));
        }
        Ok(viewers)
    }

    /// Closes the connections and returns the number of bytes that they received.
    pub(crate) fn close(mut self) -> u64 {
        for stream in &self.streams {
            let _it_ended_before = stream.shutdown(std::net::Shutdown::Both);
        }
        let readers = std::mem::take(&mut self.readers);
        readers.into_iter().filter_map(|reader| reader.join().ok()).sum()
    }
}

/// Reads until the connection ends.
fn bytes(mut reader: BufReader<TcpStream>) -> u64 {
    let mut taken = 0;
    loop {
        let length = match reader.fill_buf() {
            Ok([]) | Err(_) => return taken,
            Ok(piece) => piece.len(),
        };
        reader.consume(length);
        taken += length as u64;
    }
}
