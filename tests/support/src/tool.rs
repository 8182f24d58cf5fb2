//! Another tool beside gcwatch: a client of the diagnostics protocol, with its executor.

use std::time::Duration;

use dotnet_diagnostics::discovery::SocketAddress;
use dotnet_diagnostics::message::SessionConfig;
use dotnet_diagnostics::{Client, Deadlines, Endpoint, Session};
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use crate::target::{PATIENCE, Target};

pub struct Tool {
    pub executor: Runtime,
    pub client: Client,
}

impl Tool {
    pub fn of(target: &Target) -> Self {
        let address = SocketAddress::chosen(target.socket().unwrap());
        let endpoint = Endpoint::socket(address, Some(target.pid()));
        Self {
            executor: Builder::new_current_thread().enable_all().build().unwrap(),
            client: Client::with_deadlines(endpoint, Deadlines::uniform(PATIENCE)),
        }
    }

    pub fn begin(&self, config: &SessionConfig) -> Session {
        self.executor.block_on(self.client.collect_tracing(config)).unwrap()
    }

    /// Reads it for so long, as tools do.
    pub fn read(&self, session: &mut Session, lasting: Duration) {
        let mut buffer = vec![0; 1 << 20];
        let reading = async { while session.read(&mut buffer).await.unwrap() > 0 {} };
        let over = self.executor.block_on(async { timeout(lasting, reading).await });
        assert!(over.is_err(), "its session ended by itself");
    }

    /// Ends it, and reads what is left of it; its length.
    pub fn end(&self, mut session: Session) -> usize {
        let mut length = 0;
        let draining = session.drain(|bytes| length += bytes.len());
        self.executor.block_on(draining).unwrap();
        length
    }
}
