//! What may not be there is waited for as if it never came.

use std::future::{Future, pending};

/// Waits for it; for ever, where there is nothing. Cancel safe, if it is.
pub async fn or_pending<F: Future>(future: Option<F>) -> F::Output {
    match future {
        Some(future) => future.await,
        None => pending().await,
    }
}
