//! The content of the page: recordings played as processes for the last 30 minutes.

use std::net::SocketAddr;

use base::clock::now_unix_ns;
use base::run_key::RunKey;
use base::time::{Moment, TimeBase};
use clr_gc::gc::Outcome;
use config::options::Options;
use gc_requests::payload::CompletedRequest;
use gc_requests::request::Request;
use gc_requests::stops::Stop;
use gc_telemetry::value::key_value;
use gcwatch::daemon::Services;
use gcwatch::pipeline::replay::complete_at;
use gcwatch::pipeline::{Clock, Feed, PipelineSettings, ProcessReading};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use processes::container::{Figures, Memory};
use processes::{Identity, Provenance, RunState, StreamProgress};
use rule_engine::field::MemoryFacts;
use targets::sink::{RunSink as _, Sink as _};
use test_support::replay::outcomes;
use web::options::WebOptions;

const MINUTE_NS: u64 = 60_000_000_000;
const MIB: u64 = 1 << 20;

/// A name that would have an effect if it were interpreted as HTML, and a long name.
pub(crate) const HOSTILE: &str = "<img src=x onerror=\"document.title='broken'\">&amp;\"'";
pub(crate) const LONG: &str =
    "a-service-with-a-name-that-somebody-generated-and-that-nobody-would-ever-want-to-read-to-its-end";

/// The outcomes of a recording, and its duration.
struct Recording {
    outcomes: Vec<Outcome>,
    length_ns: u64,
}

impl Recording {
    fn read(name: &str) -> Self {
        let outcomes = outcomes(name);
        // An idle process has no outcomes.
        let last = outcomes.iter().filter_map(complete_at).max().unwrap_or(10_000_000_000);
        Self {
            outcomes,
            length_ns: u64::try_from(last).unwrap() + 500_000_000,
        }
    }
}

impl Recording {
    /// Returns plausible requests of a service: each collection stopped one request, and two of three requests were not
    /// stopped.
    fn requests(&self) -> Vec<Request> {
        let stops = self.outcomes.iter().filter_map(|outcome| match outcome {
            Outcome::Collection(collection) => {
                let edges = &collection.pauses.first()?.edges;
                Some((collection, edges.suspend_begin?, edges.restart_end?))
            }
            Outcome::Suspension(_) => None,
        });
        let mut requests = Vec::new();
        for (place, (collection, begin, end)) in (0_i64..).zip(stops) {
            let (before, after) = ((place * 7 % 40 + 1) * 1_000_000, (place * 11 % 60 + 1) * 1_000_000);
            let mut trace_id = [0xab_u8; 16];
            trace_id[8..].copy_from_slice(&place.to_be_bytes());
            let hit = Stop {
                begin,
                end,
                collection: Some(collection.number),
                generation: collection.generation,
                background: false,
            };
            requests.push(Request {
                ended: CompletedRequest {
                    trace_id: Some(trace_id),
                    ..CompletedRequest::default()
                },
                start: Some(begin - before),
                end: end + after,
                stopped_ns: Some(end - begin),
                stops: 1,
                hits: vec![hit],
            });
            requests.extend((0..2).map(|_| Request {
                ended: CompletedRequest::default(),
                start: Some(end + 1),
                end: end + after,
                stopped_ns: Some(0),
                stops: 0,
                hits: Vec::new(),
            }));
        }
        requests
    }
}

/// A service and the properties of its container.
struct Role {
    service: &'static str,
    recording: &'static str,
    pod: Option<&'static str>,
    minutes: u64,
    limit_mib: Option<u64>,
}

const fn role(service: &'static str, recording: &'static str, minutes: u64) -> Role {
    Role {
        service,
        recording,
        pod: None,
        minutes,
        limit_mib: None,
    }
}

const ROLES: [Role; 8] = [
    Role {
        pod: Some("checkout-7d9f8b6c5d-x2x8q"),
        limit_mib: Some(512),
        ..role("checkout", "svc8-workstation", 31)
    },
    Role {
        pod: Some("pricing-5c6b7f9d8-kk9tw"),
        limit_mib: Some(320),
        ..role("pricing", "net10b-nearlimit", 31)
    },
    role("search", "net10-threads-server-datas", 31),
    role("catalogue", "net8-leak", 12),
    role("reports", "net8-lohcompact", 31),
    role("quiet-batch", "net10-idle", 31),
    role(HOSTILE, "net10-steady", 5),
    role(LONG, "net9-aggressive", 5),
];

/// The services of a daemon in the test process, and the processes that play recordings.
pub(crate) struct Scene {
    pub(crate) services: Services,
    feeds: Vec<Feed>,
}

fn options() -> Options {
    Options {
        pipeline: PipelineSettings {
            clock: Clock::Recorded,
            ..PipelineSettings::default()
        },
        listen: Some(SocketAddr::from(([127, 0, 0, 1], 0))),
        web: WebOptions {
            grafana_url: Some("https://grafana.example/d/x?var-service={service}&from={from}&to={to}".to_owned()),
            ..WebOptions::default()
        },
        ..Options::default()
    }
}

fn identity(pid: u32, service: &str, pod: Option<&str>) -> Identity {
    let text = |key: &str, value: &str| key_value(key, Value::StringValue(value.to_owned()));
    let mut resource = vec![
        text("service.name", service),
        text("process.executable.path", "/usr/bin/dotnet"),
        key_value("gcwatch.gc.settings.server", Value::BoolValue(pid.is_multiple_of(3))),
        key_value("gcwatch.gc.settings.concurrent", Value::BoolValue(true)),
    ];
    if let Some(pod) = pod {
        resource.push(text("k8s.pod.name", pod));
        resource.push(text("k8s.namespace.name", "shop"));
    }
    Identity {
        key: RunKey { pid, start_time: 1 },
        ns_pid: Some(1),
        name: "run".to_owned(),
        runtime: Some("10.0.1".to_owned()),
        native_aot: Some(false),
        resource,
        provenance: Provenance::default(),
    }
}

impl Scene {
    /// Creates a host without processes.
    pub(crate) async fn empty() -> Self {
        let services = Services::open(&options()).await.unwrap();
        services.set_ready(true);
        let feeds = Vec::new();
        Self { services, feeds }
    }

    /// Creates eight services with different states of health, and `more` healthy services.
    pub(crate) async fn new(more: u32) -> Self {
        let mut scene = Self::empty().await;
        for (place, role) in (0u32..).zip(&ROLES) {
            let recording = Recording::read(role.recording);
            scene.act(
                identity(4000 + place * 37, role.service, role.pod),
                &recording,
                role.minutes,
                role.limit_mib,
            );
        }
        let recording = Recording::read("net9-life-steady");
        for number in 0..more {
            let service = format!("worker-{number:03}");
            let pod = format!("worker-{number:03}-6f5d4c-abcde");
            scene.act(identity(10_000 + number, &service, Some(&pod)), &recording, 1, None);
        }
        let noted = [
            (900, "excluded-tool", RunState::Excluded),
            (
                901,
                "other-user",
                RunState::Unattachable {
                    reason: "permission".to_owned(),
                    detail: "its socket belongs to uid 1654, and gcwatch runs as uid 1000".to_owned(),
                },
            ),
            (
                902,
                "second-gcwatch",
                RunState::HeldElsewhere {
                    holder: "gcwatch 0.1.0, pid 77".to_owned(),
                },
            ),
        ];
        for (pid, name, state) in noted {
            let mut identity = identity(pid, name, None);
            identity.name = name.to_owned();
            identity.resource = Vec::new();
            scene.services.pipeline.note(&identity, state);
        }
        scene
    }

    /// Plays a recording repeatedly for the given number of minutes up to now.
    fn act(&mut self, identity: Identity, recording: &Recording, minutes: u64, limit_mib: Option<u64>) {
        let mut feed = self.services.pipeline.open(identity).unwrap();
        let now = now_unix_ns();
        let rounds = (minutes * MINUTE_NS / recording.length_ns).max(1);
        let mut begin = now - rounds * recording.length_ns;
        feed.time_base(TimeBase::at(begin.into()));
        feed.state(RunState::Attached);
        let highest = recording.outcomes.iter().filter_map(|outcome| match outcome {
            Outcome::Collection(collection) => Some(collection.number),
            Outcome::Suspension(_) => None,
        });
        let highest = highest.max().unwrap_or(0);
        for round in 0..u32::try_from(rounds).unwrap() {
            feed.time_base(TimeBase::at(begin.into()));
            for outcome in &recording.outcomes {
                feed.observe(match outcome {
                    Outcome::Collection(collection) => {
                        let mut collection = collection.clone();
                        collection.number += highest * round;
                        Outcome::Collection(collection)
                    }
                    Outcome::Suspension(suspension) => Outcome::Suspension(suspension.clone()),
                });
            }
            let figures = Figures {
                memory_limit: limit_mib.map(|mib| mib * MIB),
                memory: Memory {
                    usage: limit_mib.map(|mib| mib * MIB * 3 / 4 + u64::from(round % 17) * MIB),
                    working_set: limit_mib.map(|mib| mib * MIB * 2 / 3 + u64::from(round % 17) * MIB),
                    anonymous: limit_mib.map(|mib| mib * MIB * 2 / 3),
                    shmem: limit_mib.map(|mib| mib * MIB / 40),
                    page_cache: limit_mib.map(|mib| mib * MIB / 12),
                    held: limit_mib.map(|mib| mib * MIB * 2 / 3 + u64::from(round % 17) * MIB),
                    kernel: limit_mib.map(|_| 3 * MIB),
                    kernel_reclaimable: limit_mib.map(|_| MIB),
                    processes: limit_mib.map(|_| 2),
                    ..Memory::default()
                },
                ..Figures::default()
            };
            let measured = ProcessReading {
                figures: Some(figures),
                memory: MemoryFacts {
                    resident: Some(300 * MIB),
                    private: Some(260 * MIB),
                    ..MemoryFacts::default()
                },
                heap_limit: limit_mib.map(|mib| mib * MIB * 3 / 4),
                machine: None,
                ..ProcessReading::default()
            };
            begin += recording.length_ns;
            self.services
                .pipeline
                .measured(feed.run(), measured, Moment::from_ns(begin));
        }
        if limit_mib.is_some() {
            let base = TimeBase::at((begin - recording.length_ns).into());
            feed.requests(&recording.requests(), base);
        }
        feed.progress(StreamProgress {
            bytes: 4_000_000,
            events: 90_000,
            lost_events: Some(0),
            undecodable: 0,
        });
        self.feeds.push(feed);
    }

    /// Starts a process that is faulty from the beginning. Returns its pid.
    pub(crate) fn fall_ill(&mut self) -> u32 {
        let recording = Recording::read("net10b-nearlimit");
        self.act(identity(7777, "fell-ill", None), &recording, 6, Some(320));
        7777
    }

    /// Removes a process that exits.
    pub(crate) fn exit(&mut self, pid: u32) {
        let place = self.feeds.iter().position(|feed| feed.run().key().pid == pid).unwrap();
        self.feeds.remove(place).end();
    }

    /// Returns the address of a page.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.services.address().unwrap())
    }
}
