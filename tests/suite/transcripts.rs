//! Transcripts of `Run::step`: the inputs and outputs for every recording and every hostile stream.
//!
//! Transcripts reveal unintended changes of behaviour, for example during a restructuring. The test plays a stream on
//! virtual time, as the daemon would read it, and hashes the outputs of each step. The hashes cover the data that
//! leaves the process (OTLP messages and JSON), and no type names or `Debug` texts, so they survive a rename and reveal
//! a change of behaviour.
//!
//! `tests/transcripts.txt` has one block per stream. Each of its lines covers up to [`BLOCK`] collections and
//! suspensions, with the number of inputs of each kind, the number of outputs, and a hash of all outputs so far. The
//! first line that differs therefore shows where the behaviour changed. After an intended change, run with
//! `GCWATCH_UPDATE_GOLDEN=1`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use api::gc::{GcRecord, Subject};
use base::run_key::RunKey;
use base::time::{Moment, TimeBase, Wall};
use clr_gc::gc::Outcome;
use clr_gc::stream::ProcessKey;
use gc_telemetry::anomaly::log_record;
use gc_telemetry::incident::incident_record;
use gc_telemetry::notice::Notices;
use gc_telemetry::options::Temporality;
use gcwatch::pipeline::replay::{Player, complete_at};
use incidents::IncidentSubject;
use processes::{Identity, StreamProgress};
use prost::Message as _;
use rule_engine::rule_set::RuleSet;
use rule_language::load::{load, shipped};
use run::{Attachment, Input, InputTime, Output, Run};
use test_support::{golden, recordings};

/// Number of collections and suspensions that one line covers.
const BLOCK: usize = 50;

/// Maximum number of ticks between two collections; in a longer gap, the clock skips the rest.
const MAX_TICKS: u64 = 120;

const SECOND: u64 = 1_000_000_000;

/// FNV-1a with 64 bits, which is short and gives the same result on every machine.
#[derive(Debug, Clone, Copy)]
struct Hash(u64);

impl Hash {
    fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes.iter().copied().chain([0xff]) {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn add_json(&mut self, value: &impl serde::Serialize) {
        self.add(&serde_json::to_vec(value).unwrap());
    }
}

/// A process of a stream, and its transcript.
struct Transcript {
    run: Run,
    base: TimeBase,
    now: Moment,
    inputs: BTreeMap<&'static str, u64>,
    outputs: u64,
    hash: Hash,
    in_block: usize,
    text: String,
}

impl Transcript {
    fn new(key: ProcessKey, base: TimeBase, rules: &Arc<RuleSet>) -> Self {
        // Use a fixed seed, because trace ids are random and part of the outputs.
        fastrand::seed(7);
        let pid = key.pid.and_then(|pid| u32::try_from(pid).ok()).unwrap_or(0);
        let key = RunKey { pid, start_time: 1 };
        let start = base.moment(0);
        let at = InputTime {
            now: start,
            wall: Wall::UNIX,
        };
        let mut transcript = Self {
            run: Run::new(Identity::new(key, "shop"), Arc::default(), at),
            base,
            now: start,
            inputs: BTreeMap::new(),
            outputs: 0,
            hash: Hash::new(),
            in_block: 0,
            text: String::new(),
        };
        let attachment = Attachment {
            base: None,
            rules: Arc::clone(rules),
            incidents: None,
            recordings: None,
        };
        transcript.step("attached", Input::Attached(Box::new(attachment)));
        transcript
    }

    fn step(&mut self, kind: &'static str, input: Input) {
        *self.inputs.entry(kind).or_default() += 1;
        let at = InputTime {
            now: self.now,
            wall: Wall::UNIX,
        };
        let mut outputs = Vec::new();
        self.run.step(at, input, &mut outputs);
        outputs.retain(|output| !matches!(output, Output::Minute(_) | Output::MinuteWithoutConfiguration));
        self.hash.add(kind.as_bytes());
        self.outputs += outputs.len() as u64;
        for output in outputs {
            self.add_output(output);
        }
    }

    fn add_output(&mut self, output: Output) {
        match output {
            Output::Notices(notices) => self.add_notices(&notices),
            Output::Spans(spans) => self.hash.add(&spans.into_fields()),
            Output::OverRate => self.hash.add(b"over rate"),
            // The tests of changes cover minutes.
            Output::Minute(_) | Output::MinuteWithoutConfiguration => {}
            Output::Ended { in_order, left } => {
                self.hash.add_json(&in_order);
                let left = left.map(|(name, incidents)| (name.to_string(), incidents.open().count()));
                self.hash.add_json(&left);
            }
        }
    }

    fn add_notices(&mut self, notices: &Notices) {
        for notice in &notices.alerts {
            let record = log_record(
                &notice.transition,
                notice.group.as_deref(),
                notice.span,
                notices.wall,
                1,
            );
            self.hash.add(&record.encode_to_vec());
        }
        for notice in &notices.incidents {
            let subject = IncidentSubject::default();
            let record = incident_record(&notice.change, &subject, None, notices.wall, notice.span, 1);
            self.hash.add(&record.encode_to_vec());
        }
    }

    /// Advances the time up to this moment, with one tick per second.
    fn tick_until(&mut self, moment: Moment) {
        let until = moment.ns();
        for _ in 0..MAX_TICKS {
            let next = (self.now.ns() / SECOND + 1) * SECOND;
            if next >= until {
                break;
            }
            self.now = Moment::from_ns(next);
            self.step("tick", Input::Tick { behind_ns: 0 });
        }
        self.now = self.now.max(moment);
    }

    fn observe(&mut self, outcome: Outcome) {
        if let Some(offset) = complete_at(&outcome) {
            self.tick_until(self.base.moment(offset));
        }
        let base = self.base;
        match outcome {
            Outcome::Collection(collection) => {
                let subject = Subject {
                    pid: Some(self.run.key().pid.into()),
                    clr_instance: None,
                };
                self.hash.add_json(&GcRecord::new(subject, &collection, None));
                let input = Input::Collection {
                    collection,
                    base,
                    held_back_ns: 0,
                };
                self.step("collection", input);
            }
            Outcome::Suspension(suspension) => {
                let suspension = Box::new(suspension);
                self.step("suspension", Input::Suspension { suspension, base });
            }
        }
        self.in_block += 1;
        if self.in_block == BLOCK {
            self.write_line();
        }
    }

    fn write_line(&mut self) {
        let inputs = self.inputs.iter().map(|(kind, count)| format!("{count} {kind}"));
        let inputs = inputs.collect::<Vec<_>>().join(", ");
        writeln!(
            self.text,
            "  {inputs} -> {} outputs, {:016x}",
            self.outputs, self.hash.0
        )
        .unwrap();
        self.inputs.clear();
        self.outputs = 0;
        self.in_block = 0;
    }

    /// Steps through the exit of the process and returns the transcript. The metrics are part of the last hash.
    fn end(mut self, progress: StreamProgress) -> String {
        self.step("progress", Input::Progress(progress));
        self.step("closed", Input::Closed { in_order: true });
        let metrics = self.run.metrics(self.now.ns(), Temporality::Cumulative);
        for metric in metrics.iter().flatten() {
            self.hash.add(&metric.encode_to_vec());
        }
        self.step("ended", Input::Ended);
        self.write_line();
        self.text
    }
}

/// Returns the transcript of a stream: a line with its name, then the lines of its processes.
fn transcript_of(path: &Path, rules: &Arc<RuleSet>) -> String {
    let name = path.strip_prefix(recordings::folder()).unwrap().to_str().unwrap();
    let mut text = format!("{}\n", name.strip_suffix(".nettrace.gz").unwrap());
    let mut player = match Player::open(path) {
        Ok(player) => player,
        Err(error) => panic!("{}: {error}", path.display()),
    };
    let mut processes: Vec<(ProcessKey, Transcript)> = Vec::new();
    let base = player
        .begin()
        .ok()
        .flatten()
        .and_then(|header| header.unix_ns_of_offset(0));
    let base = TimeBase::at(base.unwrap_or(0));
    // A hostile stream can end in an error; outcomes before the error were reported.
    while let Ok(Some((key, outcome))) = player.next_outcome() {
        let place = processes.iter().position(|(known, _)| *known == key);
        let place = place.unwrap_or_else(|| {
            processes.push((key, Transcript::new(key, base, rules)));
            processes.len() - 1
        });
        processes[place].1.observe(outcome);
    }
    for (_, transcript) in processes {
        text += &transcript.end(player.progress());
    }
    text
}

/// Scenario: every recording (including the recordings of the demonstration) and the captured stream of every mode of
/// the hostile runtime is read as the daemon reads a socket, on virtual time and with the shipped rules.
/// Guarantee: the outputs of the steps have the committed hashes.
#[test]
fn every_stream_has_its_transcript() {
    let rules = Arc::new(load(&shipped()).unwrap().rules);
    let paths = recordings::paths_in(&["", "rules", "hostile"]);
    assert!(paths.len() >= 100, "recordings are missing");
    let text = recordings::on_all_cores(&paths, |path| transcript_of(path, &rules)).concat();
    golden::compare("tests/transcripts.txt", &text);
}
