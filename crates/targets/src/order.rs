//! What a task is ordered to do, and how long it may take to stop.

use std::time::Duration;

use tokio::sync::watch;

/// How long a session may take to end once it is asked to.
pub(crate) const STOP_WITHIN: Duration = Duration::from_secs(3);

/// What a task is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// To read.
    Read,
    /// To stop the session: the daemon ends.
    ShutDown,
    /// To stop the session: the configuration excludes the process now.
    Exclude,
}

/// Waits until something else than reading is ordered; a supervisor that is gone orders to stop.
pub(crate) async fn ordered_to_stop(orders: &mut watch::Receiver<Order>) {
    let _gone = orders.wait_for(|order| *order != Order::Read).await;
}
