//! Waits for optional futures.

use std::future::{Future, pending};

/// Waits for a future, or forever if the future is `None`. This function is cancel safe if `future` is cancel safe.
pub async fn or_pending<F: Future>(future: Option<F>) -> F::Output {
    match future {
        Some(future) => future.await,
        None => pending().await,
    }
}
