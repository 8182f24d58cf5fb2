//! The end of a session: its cause, the rest of the work, and the verdict about the session. Pure.

use std::time::Duration;

use tokio::time::Instant;

use crate::memory::OverMemory;
use crate::order::Order;
use crate::session::HEADER_TIMEOUT;
use processes::text::bounded;

/// Detail for a process whose session the guard closed. The guard itself logs one message for all sessions.
const CLOSED_BY_GUARD: &str = "gcwatch read nothing for several seconds, so its guard closed the session; \
                               collections since then are missing; gcwatch re-attaches";
const DAMAGED: &str = "the event stream is damaged; gcwatch re-attaches";
const CLOSED: &str = "the runtime ended the session; gcwatch re-attaches if the process still runs";

/// Error returned if a stream is not read any further.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum StreamError {
    #[error("the event stream is damaged: {0}")]
    Damaged(#[from] nettrace::Error),
    #[error("{0}")]
    OverMemory(#[from] OverMemory),
    #[error("the event stream did not start within {HEADER_TIMEOUT:?}")]
    NoHeader,
}

impl StreamError {
    /// Returns whether the error is about the memory that the stream needs, and not about its contents.
    fn is_over_memory(&self) -> bool {
        matches!(
            self,
            Self::OverMemory(_) | Self::Damaged(nettrace::Error::LimitExceeded { .. })
        )
    }
}

/// The cause of the end of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The stream has ended.
    Closed,
    /// Reading failed, with the reason.
    Failed(String),
    /// The stream is not read any further, although bytes can follow.
    Broken(StreamError),
}

/// A session that has ended, whose stream is not yet finished.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ending {
    /// The last order that the session received.
    pub(crate) order: Order,
    pub(crate) cause: Cause,
    /// Whether the guard closed the session, because gcwatch did not read for too long.
    pub(crate) is_closed_by_guard: bool,
    /// Duration of the session.
    pub(crate) lived: Duration,
    /// Time until which the driver waits for the tasks that run in addition, because their sessions must also end;
    /// `None` if no task is running.
    pub(crate) wait_until: Option<Instant>,
}

/// The verdict about a session that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The stream used too much memory. The run is retried after a long pause.
    OverMemory {
        /// The problem as a clause.
        problem: String,
        /// Duration of the session.
        lived: Duration,
    },
    /// The session ended without an order. The run is retried.
    Detached {
        /// Reason for the end, as a clause.
        detail: String,
        /// The problem of which the log warns; `None` if there is no problem.
        warning: Option<String>,
        /// Duration of the session, as it counts for the pause before the retry.
        lived: Duration,
    },
    /// The session was stopped by order. The text states why it did not end cleanly; `None` if it ended cleanly.
    Stopped(Option<String>),
}

impl Ending {
    /// Returns whether the stream is broken. A broken stream is released instead of finished.
    pub(crate) fn is_broken(&self) -> bool {
        matches!(self.cause, Cause::Broken(_))
    }

    /// Returns whether the remaining bytes must be drained and ignored, because the session must not stay in the
    /// process.
    pub(crate) fn must_drain(&self) -> bool {
        self.is_broken() && !self.is_closed_by_guard
    }

    /// Returns the verdict about the session. `unfinished` is the problem with which the decoder finished the stream.
    pub(crate) fn verdict(self, unfinished: Option<String>) -> Verdict {
        let is_broken = self.is_broken();
        let is_over_memory = matches!(&self.cause, Cause::Broken(error) if error.is_over_memory());
        let problem = match self.cause {
            Cause::Closed => unfinished,
            Cause::Failed(problem) => Some(problem),
            Cause::Broken(error) => Some(error.to_string()),
        };
        match (self.order, problem) {
            (Order::ShutDown | Order::Exclude, problem) => Verdict::Stopped(problem),
            (Order::Read, Some(problem)) if is_over_memory => Verdict::OverMemory {
                problem,
                lived: self.lived,
            },
            // The guard cut the stream off, so an error of the stream is not relevant.
            (Order::Read, _) if self.is_closed_by_guard => Verdict::Detached {
                detail: CLOSED_BY_GUARD.to_owned(),
                warning: None,
                lived: self.lived,
            },
            (Order::Read, None) => Verdict::Detached {
                detail: CLOSED.to_owned(),
                warning: None,
                lived: self.lived,
            },
            (Order::Read, Some(problem)) => {
                let problem = bounded(&problem);
                let (detail, lived) = if is_broken {
                    (DAMAGED.to_owned(), Duration::ZERO)
                } else {
                    (problem.clone(), self.lived)
                };
                Verdict::Detached {
                    detail,
                    warning: Some(problem),
                    lived,
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SESSION_DURATION: Duration = Duration::from_secs(90);

    /// A cause, and the problem with which the decoder finished the stream.
    type End = (Cause, Option<String>);

    fn clean() -> End {
        (Cause::Closed, None)
    }

    fn cut_off() -> End {
        (Cause::Closed, Some("the stream was cut off".to_owned()))
    }

    fn failed() -> End {
        (Cause::Failed("connection reset".to_owned()), None)
    }

    fn failed_and_cut_off() -> End {
        let (_, problem) = cut_off();
        (Cause::Failed("connection reset".to_owned()), problem)
    }

    fn damaged() -> End {
        (Cause::Broken(StreamError::Damaged(nettrace::Error::Empty)), None)
    }

    fn without_header() -> End {
        (Cause::Broken(StreamError::NoHeader), None)
    }

    fn over_memory() -> End {
        let over = OverMemory::All { held: 9_000_000 };
        (Cause::Broken(StreamError::OverMemory(over)), None)
    }

    fn over_limit() -> End {
        let over = nettrace::Error::LimitExceeded {
            offset: 7,
            reading: "a stack",
            value: 9,
            limit: 8,
        };
        (Cause::Broken(StreamError::Damaged(over)), None)
    }

    fn verdict(order: Order, is_closed_by_guard: bool, (cause, unfinished): End) -> Verdict {
        let ending = Ending {
            order,
            cause,
            is_closed_by_guard,
            lived: SESSION_DURATION,
            wait_until: None,
        };
        ending.verdict(unfinished)
    }

    /// Returns the verdict as text: the verdict, the detail, the warning, and whether the duration counts.
    fn text(verdict: &Verdict) -> String {
        match verdict {
            Verdict::OverMemory { problem, lived } => format!("over memory, {}: {problem}", lived.as_secs()),
            Verdict::Detached { detail, warning, lived } => {
                let known = [(CLOSED_BY_GUARD, "guard"), (DAMAGED, "damaged"), (CLOSED, "closed")];
                let known = known.iter().find(|(text, _)| text == detail);
                let detail = known.map_or(detail.as_str(), |(_, name)| name);
                let warning = warning.as_deref().unwrap_or("none");
                format!("detached, {}: {detail}; warning: {warning}", lived.as_secs())
            }
            Verdict::Stopped(problem) => format!("stopped: {}", problem.as_deref().unwrap_or("clean")),
        }
    }

    /// Scenario: a session ends by each cause, with each order, and with or without the guard.
    /// Guarantee: the verdict is the one in the table. An order to stop is more important than the cause, too much
    /// memory is more important than the guard, and the guard is more important than every other problem. Only a
    /// stream that breaks without the guard lets the duration of the session not count.
    #[test]
    fn every_end_has_its_verdict() {
        let empty =
            "the event stream is damaged: the stream is empty: the process sent no data, or nothing was recorded";
        let no_header = "the event stream did not start within 15s";
        let memory = "the event streams of all processes hold more than 64.0 MB in memory, and this one holds most: \
                      9.0 MB";
        let limit = "the event stream is damaged: damaged or hostile at byte 7, in a stack: 9 exceeds the limit of 8";
        let cut = "the stream was cut off";
        let reset = "connection reset";
        let guard = "detached, 90: guard; warning: none".to_owned();
        let broken = |problem: &str| format!("detached, 0: damaged; warning: {problem}");
        let over = |problem: &str| format!("over memory, 90: {problem}");
        // The cause, the problem in the verdict about a stopped session, and the verdicts without an order: without and
        // with the guard.
        let closed = "detached, 90: closed; warning: none".to_owned();
        let unfinished = format!("detached, 90: {cut}; warning: {cut}");
        let unread = format!("detached, 90: {reset}; warning: {reset}");
        let table = [
            (clean(), "clean", closed, guard.clone()),
            (cut_off(), cut, unfinished, guard.clone()),
            (failed(), reset, unread.clone(), guard.clone()),
            (failed_and_cut_off(), reset, unread, guard.clone()),
            (damaged(), empty, broken(empty), guard.clone()),
            (without_header(), no_header, broken(no_header), guard),
            (over_memory(), memory, over(memory), over(memory)),
            (over_limit(), limit, over(limit), over(limit)),
        ];
        for (end, problem, without_guard, with_guard) in table {
            assert_eq!(text(&verdict(Order::Read, false, end.clone())), without_guard);
            assert_eq!(text(&verdict(Order::Read, true, end.clone())), with_guard);
            for (order, guard) in [
                (Order::ShutDown, false),
                (Order::ShutDown, true),
                (Order::Exclude, false),
                (Order::Exclude, true),
            ] {
                let stopped = format!("stopped: {problem}");
                assert_eq!(text(&verdict(order, guard, end.clone())), stopped, "{order:?}, {guard}");
            }
        }
    }

    /// Scenario: a session ends by each cause, with or without the guard.
    /// Guarantee: only a broken stream is released instead of finished, and its rest is drained unless the guard closed
    /// the session.
    #[test]
    fn broken_stream_is_drained_unless_guard_closed_it() {
        let table = [
            (clean(), false),
            (failed(), false),
            (damaged(), true),
            (without_header(), true),
            (over_memory(), true),
        ];
        for ((cause, _), is_broken) in table {
            for is_closed_by_guard in [false, true] {
                let ending = Ending {
                    order: Order::Read,
                    cause: cause.clone(),
                    is_closed_by_guard,
                    lived: SESSION_DURATION,
                    wait_until: None,
                };
                assert_eq!(ending.is_broken(), is_broken, "{ending:?}");
                assert_eq!(ending.must_drain(), is_broken && !is_closed_by_guard, "{ending:?}");
            }
        }
    }
}
