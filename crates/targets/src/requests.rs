//! The second session of a process: the requests that end in it.
//!
//! It has its own connection, buffer and bounds, so that neither its load nor its loss touches the session of the
//! collections. It has the edges of the collector's stops too: what a request lost is known from this one stream alone.
//! Its events are Informational, so that its end leaves nothing in the process.
//!
//! One set of filters is all that `Microsoft-Diagnostics-DiagnosticSource` has: the last session's, and none when that
//! one ends. Where another tool (dotnet-monitor's triggers, for one) asks the provider for something, our events stop,
//! then or when it ends. The provider's messages show that; from then on requests are unknown, which is logged. The
//! filter is not taken back by force, and this session stays: its end would end the tool's events.
//!
//! Activities of further sources (`requests.sources`) are asked for only where an SDK is at work in the process:
//! alone, a listener changes what the process sends on. It is seen by the thread of its exporter, or by a request
//! that is sampled although nobody called with a parent; its assembly is there also where it is switched off. It may
//! come after the session began, which then begins anew.

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
use crate::order::{Order, STOP_WITHIN, ordered_to_stop};
use crate::requests::sdk::has_sdk;
use crate::requests::stream::RequestStream;
use crate::shared::Shared;
use crate::sink::Sink;

/// Batches that wait for the task of the process.
const BATCHES: usize = 16;
/// How often a process is looked at for an SDK, until there is one.
const LOOK_FOR_SDK_EVERY: Duration = Duration::from_secs(10);
/// Between a session that failed and the next one.
const RETRY_AFTER: Duration = Duration::from_secs(60);

/// Requests that ended, and how far they are known.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) requests: Vec<Request>,
    /// The tick that the session's offsets are from.
    pub(crate) sync_ticks: i64,
    /// From this tick of the stream's clock on, every request and stop was seen; `None`: no request was ever seen, or
    /// events were lost just now.
    pub(crate) since_ticks: Option<i64>,
}

/// What the task of the requests has to say.
#[derive(Debug)]
pub(crate) enum News {
    Batch(Batch),
    /// Another tool has set the filter: requests may be missing from now on.
    Taken,
    /// Requests are not read for now: a sentence.
    Paused(String),
    /// Requests of this process are not read any more: a sentence.
    Off(String),
}

/// Reads the requests of a process, in a task of its own, until it is ordered to stop or the receiver is gone. `pid`:
/// in our `/proc`, if it is there.
pub(crate) fn begin<S: Sink>(
    shared: &Arc<Shared<S>>,
    client: Arc<Client>,
    pid: Option<u32>,
    options: RequestOptions,
    ahead_ns: Option<i64>,
    orders: watch::Receiver<Order>,
) -> mpsc::Receiver<News> {
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
    // Where all streams are read, in their rounds. From another thread, each batch would wake that one up in the middle of
    // its rest: see `commands::run`.
    shared.readers.executor.spawn(reader.run());
    news
}

struct Reader<S: Sink> {
    shared: Arc<Shared<S>>,
    client: Arc<Client>,
    pid: Option<u32>,
    options: RequestOptions,
    /// An SDK was seen in the process: sources are asked for.
    has_sdk: bool,
    ahead_ns: Option<i64>,
    orders: watch::Receiver<Order>,
    news: mpsc::Sender<News>,
}

/// How a session ended.
enum End {
    /// The process, or who asked, is gone.
    Over,
    /// An SDK was seen: it begins anew, with the sources.
    Anew,
    /// It may be tried again: a sentence.
    Failed(String),
    /// Not again: a sentence.
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
            // Its answer does not wait for rounds.
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
                    let _gone = self.news.send(News::Off(why)).await;
                    return;
                }
                End::Failed(problem) => problem,
            };
            if self.news.send(News::Paused(problem)).await.is_err() {
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
            info: pid = self.pid, "an OpenTelemetry SDK was seen: the activities of requests.sources are read as well"
        );
    }

    /// Sources wait for an SDK.
    fn looks_for_sdk(&self) -> bool {
        !self.has_sdk && self.options.routes.sources().next().is_some()
    }

    /// Whether the process has the thread of an SDK.
    async fn sees_sdk(&self) -> bool {
        let Some(pid) = self.pid else { return false };
        let looking = self.shared.commands.spawn_blocking(move || has_sdk(pid));
        looking.await.unwrap_or(false)
    }

    /// Ready when the process has the thread of an SDK; never, where nothing waits for it.
    async fn sdk_comes(&self) {
        if !self.looks_for_sdk() {
            return std::future::pending().await;
        }
        loop {
            sleep(LOOK_FOR_SDK_EVERY).await;
            if self.sees_sdk().await {
                return;
            }
        }
    }

    /// Reads a session to its end, which is always awaited: it must not stay in the process.
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
        let _late = timeout(STOP_WITHIN, session.drain(|_| ())).await;
        let _stopped = session.stopped().await;
        end
    }
}
