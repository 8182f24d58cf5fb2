//! Places of viewers that follow events, and the text of the overview that the viewers share.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::Bytes;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::peer::Ends;

/// Maximum number of concurrent viewers.
pub(super) const MAX_VIEWERS: usize = 16;
/// Time within which viewers of the overview share one text.
const SHARED_FOR: Duration = Duration::from_millis(1500);

/// Data of a connection for the handler of its request.
#[derive(Debug, Clone)]
pub(super) struct Link {
    /// Notification that closes the connection.
    pub(super) slow: Arc<Notify>,
    /// Receiver of `true` when the listener shuts down.
    pub(super) ended: watch::Receiver<bool>,
    /// The two ends of the connection.
    pub(super) ends: Ends,
}

/// A taken place of a viewer.
#[derive(Debug)]
struct ViewerSlot {
    address: IpAddr,
    /// Notification that closes the connection; identifies the viewer.
    slow: Arc<Notify>,
}

/// Guard of the place of a viewer. Drop releases the place.
#[derive(Debug)]
pub(super) struct ViewerPlace {
    taken: Arc<Mutex<Vec<ViewerSlot>>>,
    slow: Arc<Notify>,
}

impl Drop for ViewerPlace {
    fn drop(&mut self) {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.retain(|taken| !Arc::ptr_eq(&taken.slow, &self.slow));
    }
}

/// Taken places of viewers, oldest first, and the shared text of the overview.
#[derive(Debug, Default)]
pub(super) struct Viewers {
    taken: Arc<Mutex<Vec<ViewerSlot>>>,
    /// Overview as an event, with its creation time.
    shared: Mutex<Option<(Instant, Bytes)>>,
}

impl Viewers {
    /// Returns the number of viewers.
    pub(super) fn count(&self) -> usize {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Returns a place for a viewer. If no place is free, the address with the most places loses its oldest place,
    /// provided that it has at least two more places than the address of the request. Otherwise returns `None`.
    pub(super) fn take(&self, link: &Link) -> Option<ViewerPlace> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let address = link.ends.peer.ip().to_canonical();
        if taken.len() >= MAX_VIEWERS {
            let of = |address: IpAddr| taken.iter().filter(|taken| taken.address == address).count();
            let most = taken.iter().map(|taken| taken.address).max_by_key(|other| of(*other))?;
            if of(most) < of(address) + 2 {
                return None;
            }
            let oldest = taken.iter().position(|taken| taken.address == most)?;
            taken.remove(oldest).slow.notify_one();
        }
        let slow = Arc::clone(&link.slow);
        taken.push(ViewerSlot {
            address,
            slow: Arc::clone(&slow),
        });
        Some(ViewerPlace {
            taken: Arc::clone(&self.taken),
            slow,
        })
    }

    /// Returns the overview as an event, which all viewers share for [`SHARED_FOR`]. `create` creates the first event, and
    /// a new event if the shared event is older.
    pub(super) fn overview(&self, now: Instant, create: impl FnOnce() -> Option<Bytes>) -> Option<Bytes> {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, text)) = shared.as_ref()
            && now.saturating_duration_since(*at) < SHARED_FOR
        {
            return Some(text.clone());
        }
        let text = create()?;
        *shared = Some((now, text.clone()));
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(address: &str) -> Link {
        let address = std::net::SocketAddr::new(address.parse().unwrap(), 1);
        Link {
            slow: Arc::default(),
            ended: watch::channel(false).1,
            ends: Ends {
                peer: address,
                own: address,
            },
        }
    }

    /// Scenario: one address has all places of viewers; another address sends repeated requests; the first address
    /// sends one more request.
    /// Guarantee: the second address receives half of the places, the oldest places of the first address are closed,
    /// and repeated requests do not add places.
    #[tokio::test]
    async fn addresses_share_the_places_of_viewers() {
        let viewers = Viewers::default();
        let first: Vec<Link> = (0..MAX_VIEWERS).map(|_| link("10.0.0.1")).collect();
        let places: Vec<_> = first.iter().map(|link| viewers.take(link).unwrap()).collect();
        assert!(viewers.take(&link("::ffff:10.0.0.1")).is_none());
        let mut others = Vec::new();
        while let Some(place) = viewers.take(&link("10.0.0.2")) {
            others.push(place);
        }
        assert_eq!((others.len(), viewers.count()), (MAX_VIEWERS / 2, MAX_VIEWERS));
        for link in first.iter().take(MAX_VIEWERS / 2) {
            link.slow.notified().await;
        }
        assert!(viewers.take(&link("10.0.0.1")).is_none());
        drop((places, others));
        assert_eq!(viewers.count(), 0);
    }
}
