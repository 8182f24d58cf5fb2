//! Another tool next to gcwatch: a client of the diagnostics protocol with its own executor.

use std::time::Duration;

use dotnet_diagnostics::discovery::SocketAddress;
use dotnet_diagnostics::message::SessionConfig;
use dotnet_diagnostics::{Client, Deadlines, Endpoint, Session};
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use crate::target::{TIMEOUT, Target};

pub struct Tool {
    pub executor: Runtime,
    pub client: Client,
}

impl Tool {
    pub fn for_target(target: &Target) -> Self {
        let address = SocketAddress::chosen(target.socket().unwrap());
        let endpoint = Endpoint::socket(address, Some(target.pid()));
        Self {
            executor: Builder::new_current_thread().enable_all().build().unwrap(),
            client: Client::with_deadlines(endpoint, Deadlines::uniform(TIMEOUT)),
        }
    }

    pub fn begin(&self, config: &SessionConfig) -> Session {
        self.executor.block_on(self.client.collect_tracing(config)).unwrap()
    }

    /// Reads the session for this duration. Panics if the stream ends earlier.
    pub fn read(&self, session: &mut Session, lasting: Duration) {
        let mut buffer = vec![0; 1 << 20];
        let reading = async { while session.read(&mut buffer).await.unwrap() > 0 {} };
        let over = self.executor.block_on(async { timeout(lasting, reading).await });
        assert!(over.is_err(), "the session stays open");
    }

    /// Stops the session, reads the rest of its stream, and returns the length of the rest.
    pub fn end(&self, mut session: Session) -> usize {
        let mut length = 0;
        let draining = session.drain(|bytes| length += bytes.len());
        self.executor.block_on(draining).unwrap();
        length
    }
}
