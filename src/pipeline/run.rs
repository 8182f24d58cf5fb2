//! One run of a process, as everybody but its own task sees it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use clr_gc::gc::{Collection, Suspension};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::metrics::v1::Metric;
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::Span;

use crate::pipeline::registry::{Clock, Settings};
use crate::telemetry::definition::own::target as row;
use crate::telemetry::options::Temporality;
use crate::telemetry::series::Series;
use crate::telemetry::sheet::{Sheet, seconds, whole};
use crate::telemetry::spans::{LeftOut, Traced, Tracer};
use crate::telemetry::time::TimeBase;

/// Which run of a process: a pid is used again, a pid with its start time is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RunKey {
    /// The host's pid; in a recording, the pid that the stream names.
    pub pid: u32,
    /// When it started: clock ticks after boot (field 22 of `/proc/PID/stat`); in a recording, the stream's sync time.
    pub start_time: u64,
}

/// Who a run is.
#[derive(Debug, Clone, PartialEq)]
pub struct Identity {
    /// Which run.
    pub key: RunKey,
    /// Its pid in its own pid namespace.
    pub ns_pid: Option<u32>,
    /// The name that people know it by (the entry assembly's, else the executable's).
    pub name: String,
    /// The runtime's version, once it is known.
    pub runtime: Option<String>,
    /// The attributes of the OpenTelemetry resource.
    pub resource: Vec<KeyValue>,
}

/// What the daemon does with a run at present.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// Found, nothing done yet.
    Found,
    /// The configuration leaves it out.
    Excluded,
    /// As many processes as may be are attached already.
    OverLimit,
    /// Another gcwatch reads it.
    HeldElsewhere {
        /// Who: its pid, and what else it says of itself.
        holder: String,
    },
    /// It cannot be attached to now; it is tried again.
    Unattachable {
        /// One word, as `gcwatch ps` says it (`permission`, `silent`, ...).
        reason: String,
        /// One sentence.
        detail: String,
    },
    /// A session is being started.
    Attaching,
    /// Its events are read.
    Attached,
    /// The session is being stopped, or ended and will be started again.
    Detached {
        /// Why, one sentence.
        detail: String,
    },
    /// The process is gone.
    Ended,
}

/// How far a stream was read, as its decoder counts; of one session, from its beginning.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StreamProgress {
    /// Bytes.
    pub bytes: u64,
    /// Events delivered.
    pub events: u64,
    /// Events that the runtime dropped; `None` where it numbers nothing.
    pub lost_events: Option<u64>,
    /// Events whose payload could not be decoded.
    pub undecodable: u64,
}

/// A collection that is remembered.
#[derive(Debug, Clone)]
pub(crate) struct Recent {
    pub(crate) collection: Arc<Collection>,
    pub(crate) base: TimeBase,
}

/// Everything of a run that changes.
#[derive(Debug)]
pub(crate) struct Inside {
    pub(crate) identity: Identity,
    pub(crate) resource: Arc<Resource>,
    pub(crate) state: State,
    pub(crate) since_unix_ns: u64,
    pub(crate) first_attach_unix_ns: Option<u64>,
    pub(crate) sessions: u64,
    /// The sum over the sessions that ended, without the present one.
    ended_sessions: StreamProgress,
    session: StreamProgress,
    pub(crate) recent: VecDeque<Recent>,
    pub(crate) collections: u64,
    pub(crate) suspensions: u64,
    pub(crate) lossy: u64,
    pub(crate) incomplete: u64,
    /// When the newest event of a collection was, Unix time.
    pub(crate) newest_unix_ns: u64,
    /// How late the newest collection was told, nanoseconds after its end.
    pub(crate) lag_ns: Option<u64>,
    series: Option<Series>,
    tracer: Option<(Arc<Settings>, Tracer)>,
    seed: [u8; 16],
}

/// One run of a process.
#[derive(Debug)]
pub struct Run {
    key: RunKey,
    clock: Clock,
    inside: Mutex<Inside>,
}

impl Run {
    pub(crate) fn new(identity: Identity, clock: Clock, now_unix_ns: u64) -> Self {
        let mut seed = [0; 16];
        fastrand::fill(&mut seed);
        let key = identity.key;
        let resource = Arc::new(resource(&identity));
        let inside = Inside {
            identity,
            resource,
            state: State::Found,
            since_unix_ns: now_unix_ns,
            first_attach_unix_ns: None,
            sessions: 0,
            ended_sessions: StreamProgress::default(),
            session: StreamProgress::default(),
            recent: VecDeque::new(),
            collections: 0,
            suspensions: 0,
            lossy: 0,
            incomplete: 0,
            newest_unix_ns: 0,
            lag_ns: None,
            series: None,
            tracer: None,
            seed,
        };
        Self {
            key,
            clock,
            inside: Mutex::new(inside),
        }
    }

    /// Which run.
    pub fn key(&self) -> RunKey {
        self.key
    }

    pub(crate) fn clock(&self) -> Clock {
        self.clock
    }

    pub(crate) fn inside(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set_state(&self, state: State, now_unix_ns: u64) {
        self.inside().set_state(state, now_unix_ns);
    }

    /// Its metrics; `None` before the first attach.
    pub(crate) fn metrics(&self, now_unix_ns: u64, temporality: Temporality) -> Option<(Arc<Resource>, Vec<Metric>)> {
        let mut inside = self.inside();
        let resource = Arc::clone(&inside.resource);
        let reading = inside.reading(now_unix_ns);
        let series = inside.series.as_mut()?;
        let mut metrics = match temporality {
            Temporality::Cumulative => series.cumulative(now_unix_ns),
            Temporality::Delta => series.delta(now_unix_ns),
        };
        metrics.extend(reading);
        Some((resource, metrics))
    }
}

fn resource(identity: &Identity) -> Resource {
    Resource {
        attributes: identity.resource.clone(),
        ..Resource::default()
    }
}

impl Inside {
    pub(crate) fn set_state(&mut self, state: State, now_unix_ns: u64) {
        if self.state != state {
            self.state = state;
            self.since_unix_ns = now_unix_ns;
        }
    }

    /// A session begins: what it counts is added to what the earlier ones counted.
    pub(crate) fn begin_session(&mut self, settings: &Settings, start_unix_ns: u64) {
        self.sessions += 1;
        self.ended_sessions = self.progress();
        self.session = StreamProgress::default();
        self.first_attach_unix_ns.get_or_insert(start_unix_ns);
        if self.series.is_none() {
            self.series = Some(Series::new(settings.metrics.clone(), start_unix_ns));
        }
    }

    /// How well it is read.
    fn reading(&self, now_unix_ns: u64) -> Vec<Metric> {
        let progress = self.progress();
        let mut sheet = Sheet::new(self.first_attach_unix_ns.unwrap_or(now_unix_ns), now_unix_ns);
        sheet.put_one(&row::EVENTS, Some(whole(progress.events)));
        sheet.put_one(&row::UNDECODABLE, Some(whole(progress.undecodable)));
        sheet.put_one(&row::SIZE, Some(whole(progress.bytes)));
        sheet.put_one(&row::SESSIONS, Some(whole(self.sessions)));
        sheet.put_one(&row::LAG, self.lag_ns.map(seconds));
        sheet.into_metrics()
    }

    /// Over all sessions.
    pub(crate) fn progress(&self) -> StreamProgress {
        let (a, b) = (self.ended_sessions, self.session);
        StreamProgress {
            bytes: a.bytes + b.bytes,
            events: a.events + b.events,
            lost_events: match (a.lost_events, b.lost_events) {
                (None, None) => None,
                (a, b) => Some(a.unwrap_or(0) + b.unwrap_or(0)),
            },
            undecodable: a.undecodable + b.undecodable,
        }
    }

    pub(crate) fn set_progress(&mut self, progress: StreamProgress) {
        let before = self.progress().lost_events.unwrap_or(0);
        self.session = progress;
        // Of a stream that numbers nothing it is not known; a metric that is absent says so.
        let Some(lost) = self.progress().lost_events else {
            return;
        };
        if let Some(series) = self.series.as_mut() {
            series.lost(lost.saturating_sub(before));
        }
    }

    /// A name that is there gets the new value, others are added.
    pub(crate) fn learned(&mut self, runtime: Option<String>, attributes: Vec<KeyValue>) {
        if runtime.is_some() {
            self.identity.runtime = runtime;
        }
        for attribute in attributes {
            let known = &mut self.identity.resource;
            match known.iter_mut().find(|known| known.key == attribute.key) {
                Some(known) => *known = attribute,
                None => known.push(attribute),
            }
        }
        self.resource = Arc::new(resource(&self.identity));
    }

    /// One collection: counted, measured, remembered, and told as spans when it is among those that are.
    pub(crate) fn collection(
        &mut self,
        collection: Box<Collection>,
        base: TimeBase,
        settings: &Arc<Settings>,
    ) -> Result<Vec<Span>, LeftOut> {
        self.collections += 1;
        self.lossy += u64::from(collection.lossy);
        self.incomplete += u64::from(!collection.is_complete());
        self.newest_unix_ns = self.newest_unix_ns.max(base.unix_ns(collection.last_event));
        let (of, tracer) = self.tracer.get_or_insert_with(|| {
            let tracer = Tracer::new(settings.spans.clone(), self.seed);
            (Arc::clone(settings), tracer)
        });
        if !Arc::ptr_eq(of, settings) {
            tracer.set_options(settings.spans.clone());
            *of = Arc::clone(settings);
        }
        let (ids, spans) = match tracer.trace(&collection, base, false) {
            Traced::Spans { ids, spans } => (Some(ids), Ok(spans)),
            Traced::NotSelected => (None, Err(LeftOut::NotSelected)),
            Traced::OverRate => (None, Err(LeftOut::OverRate)),
        };
        if let Some(series) = self.series.as_mut() {
            series.observe(&collection, base, ids);
            if let (Err(why), true) = (&spans, settings.spans.enabled) {
                series.untold(*why);
            }
        }
        if settings.recent > 0 {
            while self.recent.len() >= settings.recent {
                self.recent.pop_front();
            }
            let collection = Arc::from(collection);
            self.recent.push_back(Recent { collection, base });
        }
        spans
    }

    /// A stop in which no collection ran.
    pub(crate) fn suspension(&mut self, suspension: &Suspension) {
        self.suspensions += 1;
        if let Some(series) = self.series.as_mut() {
            series.observe_suspension(suspension);
        }
    }
}
