//! What the supervisor knows of a run.

use dotnet_diagnostics::Endpoint;
use tokio::sync::{oneshot, watch};

use crate::kept_run::KeptRun;
use crate::order::Order;
use crate::sink::{RunSink, Sink};
use processes::{Identity, RunState};

/// What the supervisor knows of a run, beside its phase.
#[derive(Debug)]
pub(crate) struct KnownRun<T> {
    pub(crate) identity: Identity,
    /// With its task while that runs.
    pub(crate) kept: Option<KeptRun<T>>,
    /// To its task, while that runs.
    pub(crate) orders: Option<watch::Sender<Order>>,
    /// A look found it gone while its task ran; looked at again when the task is over.
    pub(crate) looked_gone: bool,
    /// It is in our `/proc`.
    pub(crate) visible: bool,
    /// Where it connects to us, if it does.
    pub(crate) reverse: Option<Endpoint>,
    /// It waits to be resumed: sent when its session has begun, dropped when it is to have none.
    pub(crate) begun: Option<oneshot::Sender<()>>,
}

/// Reasons that a socket's coming takes away.
const WAITS_FOR_SOCKET: [&str; 7] = [
    "starting",
    "no-socket",
    "unwritable-directory",
    "other-architecture",
    "stale-socket",
    "socket-removed",
    "refused",
];

impl<T: RunSink> KnownRun<T> {
    /// Reports its state, unless its task runs, which reports by itself.
    pub(crate) fn report<S: Sink<Run = T>>(&mut self, sink: &S, state: RunState) {
        if let Some(kept) = &mut self.kept {
            kept.report(sink, &self.identity, state);
        }
    }

    /// The state that was reported last; `None` also while its task runs.
    pub(crate) fn reported(&self) -> Option<&RunState> {
        self.kept.as_ref()?.reported.as_ref()
    }

    /// Gives its task an order, if that runs.
    pub(crate) fn order(&self, order: Order) {
        if let Some(orders) = &self.orders {
            orders.send_replace(order);
        }
    }

    /// It could not be attached to because its socket was missing or did not answer.
    pub(crate) fn waits_for_socket(&self) -> bool {
        matches!(
            self.reported(),
            Some(RunState::Unattachable { reason, .. }) if WAITS_FOR_SOCKET.contains(&reason.as_str())
        )
    }
}
