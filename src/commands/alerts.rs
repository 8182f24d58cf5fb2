//! `gcwatch alerts test`: sends a test incident to every configured receiver, and prints each answer.
//!
//! A webhook gets the end of the incident at once. An Alertmanager does not get the end: it waits (`group_wait`, 30 s
//! by default) before it notifies, and it does not notify of an alert that has ended by then. In Alertmanager the alert
//! expires by itself, after four times `alerts.resend_interval`.

use std::sync::Arc;
use std::time::Duration;

use base::clock::now_unix_ns;
use base::run_key::RunKey;
use base::time::Wall;
use delivery::alerts::stats::ReceiverStats;
use delivery::alerts::{IncidentNotice, Notifier};
use incidents::{QuotaOwner, sample};
use opentelemetry_proto::tonic::resource::v1::Resource;
use rule_engine::rule::Severity;
use serde::Serialize;

use crate::commands::cli::{AlertsArgs, AlertsCommand, AlertsTestArgs, Format};
use crate::commands::executor;
use crate::commands::output::{Output, say};
use crate::commands::run::{load, log_lines};

/// Timeout for the answer of a receiver.
const RECEIVER_TIMEOUT: Duration = Duration::from_secs(15);

/// The answer of a receiver.
#[derive(Debug, Serialize)]
#[serde(tag = "kind", rename = "receiver")]
struct AnswerRecord {
    receiver: String,
    accepted: bool,
    error: Option<String>,
}

/// Runs the command. Returns `false` if a receiver did not accept the incident, or if no receiver is configured.
pub(crate) fn run(args: &AlertsArgs) -> anyhow::Result<bool> {
    let AlertsCommand::Test(args) = &args.command;
    test(args)
}

fn test(args: &AlertsTestArgs) -> anyhow::Result<bool> {
    let Some(loaded) = load(&args.config)? else {
        return Ok(true);
    };
    log_lines(&loaded)?;
    let mut settings = loaded.config.options.alerts.clone();
    // The test incident has severity info, and every receiver must get it.
    settings
        .alertmanagers
        .iter_mut()
        .for_each(|to| to.min_severity = Severity::Info);
    settings
        .webhooks
        .iter_mut()
        .for_each(|to| to.min_severity = Severity::Info);
    // Alerts on standard output would appear between the answers.
    settings.stdout = false;
    if settings.alertmanagers.is_empty() && settings.webhooks.is_empty() {
        say("no receiver is configured: alerts.alertmanagers and alerts.webhooks are empty");
        return Ok(false);
    }
    let (mut alertmanagers, mut webhooks) = (settings.clone(), settings);
    alertmanagers.webhooks.clear();
    webhooks.alertmanagers.clear();
    let answers = executor()?.block_on(async {
        let (alertmanagers, webhooks) = (Notifier::start(&alertmanagers)?, Notifier::start(&webhooks)?);
        let (began, ended) = incident();
        let (mut answers, of_webhooks) = tokio::join!(ask(&alertmanagers, &began), ask(&webhooks, &began));
        answers.extend(of_webhooks);
        webhooks.notify(&Resource::default(), ended.as_slice(), Wall::UNIX);
        tokio::join!(
            alertmanagers.shutdown(RECEIVER_TIMEOUT),
            webhooks.shutdown(RECEIVER_TIMEOUT)
        );
        anyhow::Ok(answers)
    })?;
    let mut output = Output::stdout(args.format);
    let mut all = true;
    for answer in &answers {
        all &= answer.accepted;
        match output.format {
            Format::Ndjson => output.record(answer)?,
            Format::Table => match &answer.error {
                None => writeln!(output.text(), "{}: accepted", answer.receiver)?,
                Some(error) => writeln!(output.text(), "{}: not accepted: {error}", answer.receiver)?,
            },
        }
    }
    output.finish()?;
    Ok(all)
}

/// Returns the changes of the test incident: its start, and its end.
fn incident() -> (Vec<IncidentNotice>, Option<IncidentNotice>) {
    let run = RunKey {
        pid: std::process::id(),
        start_time: now_unix_ns(),
    };
    let notice = |change| IncidentNotice {
        run,
        process: Arc::from("gcwatch"),
        change,
        span: None,
        share: QuotaOwner {
            tenant: "".into(),
            service: "gcwatch".into(),
        },
    };
    let changes = sample(Wall::UNIX.moment(now_unix_ns()));
    let mut notices: Vec<IncidentNotice> = changes.into_iter().map(notice).collect();
    let ended = notices.pop();
    (notices, ended)
}

/// Sends changes, and returns the answer of each receiver.
async fn ask(notifier: &Notifier, notices: &[IncidentNotice]) -> Vec<AnswerRecord> {
    notifier.notify(&Resource::default(), notices, Wall::UNIX);
    let failed = |stats: &ReceiverStats| stats.failures().iter().any(|(_, count)| *count > 0);
    let answered = |stats: &[(String, ReceiverStats)]| stats.iter().all(|(_, stats)| stats.sent > 0 || failed(stats));
    let _too_slow = tokio::time::timeout(RECEIVER_TIMEOUT, notifier.until(answered)).await;
    let answer = |(receiver, stats): (String, ReceiverStats)| {
        let silent = || format!("no answer within {} s", RECEIVER_TIMEOUT.as_secs());
        let accepted = stats.sent > 0;
        AnswerRecord {
            receiver,
            accepted,
            error: (!accepted).then(|| stats.last_error.unwrap_or_else(silent)),
        }
    };
    notifier.stats().into_iter().map(answer).collect()
}
