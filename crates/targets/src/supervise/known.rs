//! State that the supervisor keeps for each run.

use dotnet_diagnostics::Endpoint;
use tokio::sync::{oneshot, watch};

use crate::kept_run::KeptRun;
use crate::order::Order;
use crate::sink::{RunSink, Sink};
use processes::{Identity, RunState};

/// State of a run in the supervisor, without its phase.
#[derive(Debug)]
pub(crate) struct KnownRun<T> {
    pub(crate) identity: Identity,
    /// Data that outlives a task; `None` while the task runs and owns it.
    pub(crate) kept: Option<KeptRun<T>>,
    /// Sender of orders to the task; `None` if no task runs.
    pub(crate) orders: Option<watch::Sender<Order>>,
    /// Whether a scan reported the process as exited while its task ran. The process is scanned again when the task
    /// ends.
    pub(crate) looked_gone: bool,
    /// Whether the process is visible in gcwatch's `/proc`.
    pub(crate) visible: bool,
    /// Endpoint of the process's reverse connections; `None` if the process does not connect to gcwatch.
    pub(crate) reverse: Option<Endpoint>,
    /// Sender that resumes the suspended runtime: used when the session has started, dropped if there will be no
    /// session; `None` if no runtime waits.
    pub(crate) begun: Option<oneshot::Sender<()>>,
}

/// Reasons that a new socket can resolve.
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
    /// Reports the state of the run, unless its task runs and reports by itself.
    pub(crate) fn report<S: Sink<Run = T>>(&mut self, sink: &S, state: RunState) {
        if let Some(kept) = &mut self.kept {
            kept.report(sink, &self.identity, state);
        }
    }

    /// Returns the state that was reported last, or `None` if no state was reported or the task runs.
    pub(crate) fn reported(&self) -> Option<&RunState> {
        self.kept.as_ref()?.reported.as_ref()
    }

    /// Sends an order to the task, if one runs.
    pub(crate) fn order(&self, order: Order) {
        if let Some(orders) = &self.orders {
            orders.send_replace(order);
        }
    }

    /// Returns whether the run was not attachable for a reason that a new socket can resolve.
    pub(crate) fn waits_for_socket(&self) -> bool {
        matches!(
            self.reported(),
            Some(RunState::Unattachable { reason, .. }) if WAITS_FOR_SOCKET.contains(&reason.as_str())
        )
    }
}
