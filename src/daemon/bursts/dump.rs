//! Takes the heap dumps that incidents request. A separate process computes the graph (`evidence::heap::child`), so a
//! heap that is too large ends only this process and not the daemon.

use std::sync::{Mutex, PoisonError};

use clr_heap::survey::Survey;
use dotnet_diagnostics::{Client, Error};
use evidence::census::Plan;
use evidence::heap::child::{ANSWER_TIMEOUT, AnalysisProcess, AnalysisRequest, Form};
use evidence::heap::files::LeftBehind;
use evidence::heap::session::{self, DumpSessionOutcome};
use evidence::heap::{MAX_BYTES, free_half};
use evidence::schedule::Outcome;
use tracing::warn;

/// Takes a dump. The error is a clause. The second value is the reason why the process was not healed, or `None` if the
/// process was healed or no session was started. `left` contains the processes that earlier dumps left behind.
///
/// Blocks the calling thread while the computing process is slower than the stream, and until the computing process
/// answers.
pub(super) async fn take(
    client: &Client,
    pid: u32,
    plan: Plan,
    left: &Mutex<LeftBehind>,
) -> (Result<Survey, (String, Outcome)>, Option<Error>) {
    let left = || left.lock().unwrap_or_else(PoisonError::into_inner);
    let refusal = left().refusal(pid);
    if let Some(because) = &refusal {
        warn!(pid, "the heap dump names no classes of static fields: {because}");
    }
    let what = AnalysisRequest {
        form: Form::Brief,
        histogram: false,
        most: MAX_BYTES.min(free_half()),
        pid: refusal.is_none().then_some(pid),
        only: None,
    };
    let failed = |because: String| (Err((because, Outcome::Failed)), None);
    let mut computing = match AnalysisProcess::start(&what, None) {
        Ok(computing) => computing,
        Err(error) => return failed(format!("cannot start a process that computes the graph: {error}")),
    };
    let asked = session::DumpOptions {
        buffer_mb: plan.buffer_mb,
        histogram: false,
        small_buffer: false,
    };
    let never = std::future::pending();
    let DumpSessionOutcome { cut, not_healed, .. } =
        match session::run(client, asked, never, |bytes| computing.feed(bytes)).await {
            Ok(done) => done,
            Err(error) => {
                computing.give_up();
                return failed(format!("the runtime refused the session: {error}"));
            }
        };
    let survey = match (computing.finish(ANSWER_TIMEOUT), cut) {
        (Ok(answer), _) => {
            if let Some(late) = answer.late {
                let count = late.process.map_or(0, |process| left().add(pid, process));
                warn!(
                    pid,
                    left_behind = count,
                    "the assemblies of the process did not respond in time: static fields have no class"
                );
            }
            Ok(answer.survey)
        }
        (Err(_), Some(cut)) => Err((cut, Outcome::Cut)),
        (Err(error), None) => Err((error.to_string(), Outcome::Failed)),
    };
    (survey, not_healed)
}
