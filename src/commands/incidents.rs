//! `gcwatch incidents`: the incidents of a daemon.

use anyhow::anyhow;

use crate::commands::cli::{Format, IncidentState, IncidentsArgs};
use crate::commands::executor;
use crate::commands::listener::Listener;
use crate::commands::output::Output;
use report::incidents::{self, Filter, Incidents, State};

pub(crate) fn run(args: &IncidentsArgs) -> anyhow::Result<bool> {
    let listener = Listener::new(args.connect.as_deref(), args.token_file.as_deref())?;
    // The overview has the same records as /api/v1/incidents, and the time of the answer.
    let answer = executor()?.block_on(listener.record::<Incidents>("/api/v1/overview"));
    let all = answer.map_err(|why| anyhow!("{}: {why}", listener.address))?;
    let filter = filter_of(args);
    let one = args
        .id
        .as_ref()
        .map(|id| all.with_id(id).map_err(|why| anyhow!("{id}: {why}")));
    let one = one.transpose()?;
    let mut output = Output::stdout(args.format);
    match (output.format, one) {
        (Format::Table, None) => incidents::write(output.text(), &all, &filter)?,
        (Format::Table, Some(record)) => incidents::write_one(output.text(), record, all.at_ms, &listener.address)?,
        (Format::Ndjson, None) => output.records(all.matching(&filter))?,
        (Format::Ndjson, Some(record)) => output.record(record)?,
    }
    output.finish()?;
    Ok(true)
}

fn filter_of(args: &IncidentsArgs) -> Filter {
    Filter {
        state: match args.state {
            IncidentState::Open => Some(State::Open),
            IncidentState::Ended => Some(State::Ended),
            IncidentState::All => None,
        },
        severity: args.severity,
        rule: args.rule.clone(),
        pid: args.pid,
        name: args.name.clone(),
        pod: args.pod.clone(),
        namespace: args.namespace.clone(),
        within_ms: args
            .since
            .map(|since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX)),
    }
}
