//! The second session of a process, which reads its finished requests.
//!
//! The session has its own connection, buffer and limits, so that neither its load nor its losses affect the session
//! for collections. It also contains the edges of the collector's suspensions, so this stream is sufficient to compute
//! the time that a request lost. The events of the session are Informational, so the end of the session has no side
//! effects in the process.
//!
//! `Microsoft-Diagnostics-DiagnosticSource` has only one set of filters, which belongs to the last session and is empty
//! after that session ends. If another tool (for example, a trigger of dotnet-monitor) uses the provider, gcwatch's
//! events stop, either immediately or when the tool's session ends. The provider's messages show this. Requests are
//! unknown afterwards, which is logged. gcwatch does not reclaim the filter. It keeps its session open, because the end
//! of this session would stop the tool's events.
//!
//! Activities of further sources (`requests.sources`) are requested only if an SDK is active in the process, because a
//! listener without an SDK changes the headers that the process sends. The SDK is detected by the thread of its
//! exporter, or by a request that is sampled although its caller sent no parent. The assembly of the SDK is not
//! evidence, because it is also present if the SDK is disabled. The SDK can start after the session, which is then
//! restarted.

mod rate;
mod sdk;
mod stream;

use std::sync::Arc;
use std::time::Duration;

use dotnet_diagnostics::message::{Provider, SessionConfig};
use dotnet_diagnostics::{Client, Session};
use gc_requests::request::Request;
use gc_requests::session;
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, timeout};

use crate::options::RequestOptions;
use crate::order::{Order, STOP_TIMEOUT, ordered_to_stop};
use crate::requests::sdk::has_sdk;
use crate::requests::stream::RequestStream;
use crate::shared::Shared;
use crate::sink::Sink;

/// Maximum number of batches that wait for the task of the process.
const BATCHES: usize = 16;
/// Interval between checks for an SDK, until one is found.
const LOOK_FOR_SDK_INTERVAL: Duration = Duration::from_secs(10);
/// Delay before the retry of a failed session.
const RETRY_AFTER: Duration = Duration::from_secs(60);

/// Finished requests, and the time since which they are complete.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) requests: Vec<Request>,
    /// Tick from which the session's offsets count.
    pub(crate) sync_ticks: i64,
    /// Tick of the stream's clock since which every request and suspension was observed; `None` if no request was ever
    /// observed, or if events were just lost.
    pub(crate) since_ticks: Option<i64>,
}

/// A message from the task that reads requests.
#[derive(Debug)]
pub(crate) enum RequestMessage {
    Batch(Batch),
    /// Another tool has set the filter, so requests can be missing.
    Taken,
    /// Requests are not read at the moment, with the reason as a sentence.
    Paused(String),
    /// Requests of this process are no longer read, with the reason as a sentence.
    Off(String),
}

/// Reads the requests of a process in a separate task until it is ordered to stop or the receiver is dropped. `pid` is
/// the pid in gcwatch's `/proc`, if the process is visible there.
pub(crate) fn begin<S: Sink>(
    shared: &Arc<Shared<S>>,
    client: Arc<Client>,
    pid: Option<u32>,
    options: RequestOptions,
    ahead_ns: Option<i64>,
    orders: watch::Receiver<Order>,
) -> mpsc::Receiver<RequestMessage> {
    let (sender, news) = mpsc::channel(BATCHES);
    let reader = Reader {
        shared: Arc::clone(shared),
        client,
        pid,
        options,
        has_sdk: false,
        ahead_ns,
        orders,
        news: sender,
    };
    // Use the executor that reads all streams, in its rounds. From another thread, each batch would wake that executor
    // in the middle of its sleep; see `commands::run`.
    shared.readers.executor.spawn(reader.run());
    news
}

struct Reader<S: Sink> {
    shared: Arc<Shared<S>>,
    client: Arc<Client>,
    pid: Option<u32>,
    options: RequestOptions,
    /// Whether an SDK was found in the process, so that sources are requested.
    has_sdk: bool,
    ahead_ns: Option<i64>,
    orders: watch::Receiver<Order>,
    news: mpsc::Sender<RequestMessage>,
}

/// Outcome of a session.
enum End {
    /// The stream has ended, the task was ordered to stop, or the receiver was dropped.
    Over,
    /// An SDK was found. The session restarts with the sources.
    Anew,
    /// The session failed and can be retried, with the reason as a sentence.
    Failed(String),
    /// The session must not be retried, with the reason as a sentence.
    Refused(String),
}

impl<S: Sink> Reader<S> {
    async fn run(mut self) {
        loop {
            if self.looks_for_sdk() && self.sees_sdk().await {
                self.sdk_was_seen();
            }
            let fields = session::Fields {
                path: self.options.routes.need_paths(),
            };
            let sources = self.options.routes.sources().filter(|_| self.has_sdk);
            let config = SessionConfig {
                buffer_mb: self.options.buffer_mb,
                providers: vec![
                    Provider {
                        arguments: Some(session::arguments(fields, sources)),
                        ..Provider::new(session::PROVIDER, session::KEYWORDS, session::LEVEL)
                    },
                    Provider::new(clr_gc::event::RUNTIME_PROVIDER, 0x1, 4),
                ],
                ..SessionConfig::default()
            };
            let client = Arc::clone(&self.client);
            // Use another executor, so that the response does not wait for a round.
            let beginning = async move { client.collect_tracing(&config).await };
            let end = match self.shared.commands.spawn(beginning).await {
                Ok(Ok(session)) => self.read(session).await,
                Ok(Err(error)) => End::Failed(error.to_string()),
                Err(_) => End::Over,
            };
            let problem = match end {
                End::Over => return,
                End::Anew => {
                    self.sdk_was_seen();
                    continue;
                }
                End::Refused(why) => {
                    let _gone = self.news.send(RequestMessage::Off(why)).await;
                    return;
                }
                End::Failed(problem) => problem,
            };
            if self.news.send(RequestMessage::Paused(problem)).await.is_err() {
                return;
            }
            tokio::select! {
                () = sleep(RETRY_AFTER) => {}
                () = ordered_to_stop(&mut self.orders) => return,
                () = self.news.closed() => return,
            }
        }
    }

    fn sdk_was_seen(&mut self) {
        self.has_sdk = true;
        log!(
            info: pid = self.pid, "found an OpenTelemetry SDK; reading the activities of requests.sources, too"
        );
    }

    /// Returns whether sources wait for an SDK.
    fn looks_for_sdk(&self) -> bool {
        !self.has_sdk && self.options.routes.sources().next().is_some()
    }

    /// Returns whether the process has the exporter thread of an SDK.
    async fn sees_sdk(&self) -> bool {
        let Some(pid) = self.pid else { return false };
        let looking = self.shared.commands.spawn_blocking(move || has_sdk(pid));
        looking.await.unwrap_or(false)
    }

    /// Completes when the process has the exporter thread of an SDK, and never if no source waits for an SDK.
    async fn sdk_comes(&self) {
        if !self.looks_for_sdk() {
            return std::future::pending().await;
        }
        loop {
            sleep(LOOK_FOR_SDK_INTERVAL).await;
            if self.sees_sdk().await {
                return;
            }
        }
    }

    /// Reads a session and always awaits its end, because the session must not stay in the process.
    async fn read(&mut self, mut session: Session) -> End {
        if let Err(error) = session.move_here() {
            return End::Failed(error.to_string());
        }
        let rounds = Arc::clone(&self.shared.readers.rounds);
        let mut stream = RequestStream::new(&self.options, self.ahead_ns, self.shared.memory.share(), rounds);
        stream.waits_for_sdk = self.looks_for_sdk();
        let mut orders = self.orders.clone();
        let end = tokio::select! {
            end = stream.read(&mut session, &self.shared, &self.news, &self.options) => end,
            () = self.sdk_comes() => End::Anew,
            () = ordered_to_stop(&mut orders) => End::Over,
            () = self.news.closed() => End::Over,
        };
        session.request_stop();
        let _late = timeout(STOP_TIMEOUT, session.drain(|_| ())).await;
        let _stopped = session.stopped().await;
        end
    }
}
