//! Owner of the socket at the other end of a connection: on loopback, the kernel reports it.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use axum::http::HeaderMap;
use rustix::process::geteuid;
use tokio::task::spawn_blocking;

/// Two ends of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ends {
    /// Address of the client.
    pub(super) peer: SocketAddr,
    /// Address of the listener.
    pub(super) own: SocketAddr,
}

/// Kernel tables of connections. An IPv6 socket can have an IPv4 address.
const TABLES: [&str; 2] = ["/proc/thread-self/net/tcp", "/proc/thread-self/net/tcp6"];

/// State of a connection that is open in both directions. A closing connection has no owner in the tables.
const ESTABLISHED: &str = "01";

impl Ends {
    /// Returns `true` if the client runs as root or as the user of gcwatch. Reads the kernel tables on another thread.
    pub(super) async fn is_of_own_user(self) -> bool {
        let own = geteuid().as_raw();
        let uid = spawn_blocking(move || self.uid()).await.ok().flatten();
        uid.is_some_and(|uid| uid == 0 || uid == own)
    }

    fn uid(self) -> Option<u32> {
        TABLES.iter().find_map(|table| {
            let lines = BufReader::new(File::open(table).ok()?).lines();
            lines.map_while(Result::ok).find_map(|line| self.uid_in(&line))
        })
    }

    /// Returns the user in a line of the kernel if the line belongs to the socket of the client. An example of a line
    /// is `12: 0100007F:D431 0100007F:24F8 01 00000000:00000000 00:00000000 00000000 1000 ...`.
    fn uid_in(self, line: &str) -> Option<u32> {
        let mut fields = line.split_whitespace().skip(1);
        let (local, remote) = (address(fields.next()?)?, address(fields.next()?)?);
        let is_it = fields.next()? == ESTABLISHED && (local, remote) == (plain(self.peer), plain(self.own));
        // Skipped fields: queues, timers, retransmissions.
        is_it.then(|| fields.nth(3)?.parse().ok()).flatten()
    }
}

fn plain(address: SocketAddr) -> (IpAddr, u16) {
    (address.ip().to_canonical(), address.port())
}

/// Parses an address in a kernel table: hexadecimal 32-bit words in the byte order of the machine, then the port.
fn address(text: &str) -> Option<(IpAddr, u16)> {
    let (address, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let mut bytes = Vec::with_capacity(16);
    for word in 0..address.len() / 8 {
        let word = address.get(word * 8..word * 8 + 8)?;
        bytes.extend(u32::from_str_radix(word, 16).ok()?.to_ne_bytes());
    }
    let ip = match <[u8; 4]>::try_from(bytes.as_slice()) {
        Ok(four) => IpAddr::from(four),
        Err(_) => IpAddr::from(Ipv6Addr::from(<[u8; 16]>::try_from(bytes.as_slice()).ok()?)),
    };
    Some((ip.to_canonical(), port))
}

/// Headers that proxies add.
const OF_PROXIES: [&str; 6] = [
    "forwarded",
    "via",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-real-ip",
];

/// Returns `true` if a proxy forwarded the request.
pub(super) fn is_proxied(headers: &HeaderMap) -> bool {
    OF_PROXIES.iter().any(|name| headers.contains_key(*name))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    /// Scenario: a connection of this process uses IPv4, IPv6, or an IPv6 socket with an IPv4 address; then the other
    /// end is closed.
    /// Guarantee: an open connection belongs to the user of the process; a closed connection has no owner.
    #[tokio::test]
    async fn kernel_reports_owner_of_connection() {
        for (bind, to) in [
            ("127.0.0.1:0", "127.0.0.1"),
            ("[::1]:0", "::1"),
            ("127.0.0.1:0", "::ffff:127.0.0.1"),
        ] {
            // A host can lack IPv6.
            let Ok(listener) = TcpListener::bind(bind) else {
                continue;
            };
            let own = listener.local_addr().unwrap();
            let stream = TcpStream::connect((to.parse::<IpAddr>().unwrap(), own.port())).unwrap();
            let (accepted, peer) = listener.accept().unwrap();
            let ends = Ends { peer, own };
            assert_eq!(ends.uid(), Some(geteuid().as_raw()), "{bind}");
            assert!(ends.is_of_own_user().await);
            let turned = Ends { peer: own, own: peer };
            assert_eq!(
                turned.uid(),
                Some(geteuid().as_raw()),
                "the listener's end is also a socket"
            );
            drop((stream, accepted));
            assert_eq!(ends.uid(), None, "{bind}");
        }
    }

    /// Scenario: the lines belong to another connection, to a closing connection and to this connection, or are
    /// damaged.
    /// Guarantee: only lines of this connection in the established state return the user.
    #[test]
    fn other_lines_are_ignored() {
        let address = |text: &str| text.parse().unwrap();
        let ends = Ends {
            peer: address("127.0.0.1:54321"),
            own: address("127.0.0.1:9464"),
        };
        let word = |ip: [u8; 4]| format!("{:08X}", u32::from_ne_bytes(ip));
        let local = word([127, 0, 0, 1]);
        let line = |port: &str, state: &str| {
            format!(
                "  1: {local}:{port} {local}:24F8 {state} 00000000:00000000 00:00000000 00000000  1000        0 99 1"
            )
        };
        assert_eq!(ends.uid_in(&line("D432", "01")), None);
        assert_eq!(ends.uid_in(&line("D431", "06")), None);
        assert_eq!(ends.uid_in(&line("D431", "01")), Some(1000));
        let mapped =
            line("D431", "01").replace(&local, &format!("0000000000000000{}{local}", word([0, 0, 0xff, 0xff])));
        assert_eq!(ends.uid_in(&mapped), Some(1000));
        for cut in ["", "1:", "1: 0100007F:D431", "  sl  local_address rem_address   st"] {
            assert_eq!(ends.uid_in(cut), None);
        }
    }

    /// Scenario: requests have or lack headers of a proxy.
    /// Guarantee: only requests with such headers are recognized as forwarded.
    #[test]
    fn forwarded_requests_are_recognized() {
        let mut headers = HeaderMap::new();
        assert!(!is_proxied(&headers));
        headers.insert("x-forwarded-for", "10.0.0.1".parse().unwrap());
        assert!(is_proxied(&headers));
    }
}
