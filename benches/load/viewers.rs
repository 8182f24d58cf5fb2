//! Pages that are open: what the daemon pays for those who look.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context as _, bail};

/// Connections that follow a view and take every event at once, until this is dropped.
#[derive(Debug)]
pub(crate) struct Viewers {
    streams: Vec<TcpStream>,
    readers: Vec<JoinHandle<u64>>,
}

impl Viewers {
    /// `number` of them follow the view; the next one of these at each of its queries.
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

    /// Ends them, and returns the bytes that they were sent.
    pub(crate) fn close(mut self) -> u64 {
        for stream in &self.streams {
            let _it_ended_before = stream.shutdown(std::net::Shutdown::Both);
        }
        let readers = std::mem::take(&mut self.readers);
        readers.into_iter().filter_map(|reader| reader.join().ok()).sum()
    }
}

/// Takes everything until the connection ends.
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
