//! Orders to tasks, and the time limit for stopping.

use std::time::Duration;

use tokio::sync::watch;

/// Maximum time for a session to end after its task received the order to stop.
pub(crate) const STOP_TIMEOUT: Duration = Duration::from_secs(3);

/// An order to a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// Read the session.
    Read,
    /// Stop the session because the daemon shuts down.
    ShutDown,
    /// Stop the session because the configuration now excludes the process.
    Exclude,
}

/// Waits until the order is no longer to read. A dropped supervisor counts as an order to stop.
pub(crate) async fn ordered_to_stop(orders: &mut watch::Receiver<Order>) {
    let _gone = orders.wait_for(|order| *order != Order::Read).await;
}
