//! A recording as a record, by the shipped rules: what the daemon serves as a page, and agents are answered.

use std::sync::Arc;

use super::input::SCOPE;
use super::judged::{found, reviews, time_base};
use crate::view;
use api::view::{ReportedRecording, Unseen};
use gc_rules::time::Wall;
use recording::Recording;
use recording::source::Source;
use rule_language::load::{load, shipped};

/// All of a recording, with what the shipped rules find in it and without its command line.
///
/// # Errors
///
/// A sentence, when it is no recording.
pub(crate) fn reported(mut source: Source) -> Result<ReportedRecording, String> {
    let recording = Recording::read(&mut source, SCOPE, |_| ());
    if recording.header.is_none() {
        let error = recording.error.map(|error| error.to_string());
        return Err(error.unwrap_or_else(|| format!("{} was cut before its stream began", source.name())));
    }
    let rules = load(&shipped()).map_err(|problems| problems.iter().map(ToString::to_string).collect::<String>())?;
    let reviews = reviews(Some(&Arc::new(rules.rules)), &recording);
    let found = reviews.as_deref().map(|reviews| found(reviews, &recording));
    let mut record = view::recorded(&recording, time_base(&recording).unix(Wall::UNIX), found, false, 1);
    let rest = recording.error.map(|error| error.to_string()).or(recording.cut);
    record.unseen.extend(rest.map(|why| Unseen {
        what: "the rest of the stream".to_owned(),
        why,
    }));
    Ok(record)
}
