//! The pipeline as where the tasks of the targets report.

use clr_gc::gc::{Open, Outcome};
use gc_requests::request::Request;
use gc_rules::time::TimeBase;
use opentelemetry_proto::tonic::common::v1::KeyValue;

use crate::pipeline::{Feed, Pipeline};
use processes::{Identity, RunKey, RunState, StreamProgress};
use targets::sink::{Full, RunSink, Sink};

impl Sink for Pipeline {
    type Run = Feed;

    fn open(&self, identity: Identity) -> Result<Feed, Full> {
        Self::open(self, identity)
    }

    fn note(&self, identity: &Identity, state: RunState) {
        Self::note(self, identity, state);
    }

    fn forget(&self, key: RunKey) {
        Self::forget(self, key);
    }

    fn over_memory(&self) {
        Self::over_memory(self);
    }

    fn scanned(&self) {
        Self::scanned(self);
    }
}

impl RunSink for Feed {
    fn state(&mut self, state: RunState) {
        Self::state(self, state);
    }

    fn learned(&mut self, runtime: Option<String>, attributes: Vec<KeyValue>) {
        Self::learned(self, runtime, attributes);
    }

    fn time_base(&mut self, base: TimeBase) {
        Self::time_base(self, base);
    }

    fn observe(&mut self, outcome: Outcome) {
        Self::observe(self, outcome);
    }

    fn held_back(&mut self, ns: u64) {
        Self::held_back(self, ns);
    }

    fn requests(&mut self, requests: &[Request], base: TimeBase) {
        Self::requests(self, requests, base);
    }

    fn requests_unread(&mut self, why: Option<String>) {
        Self::requests_unread(self, why);
    }

    fn progress(&mut self, progress: StreamProgress) {
        Self::progress(self, progress);
    }

    fn open(&mut self, open: Open) {
        Self::open(self, open);
    }

    fn undrained(&mut self, is: bool) {
        Self::undrained(self, is);
    }

    fn closed(&mut self, in_order: bool) {
        Self::closed(self, in_order);
    }

    fn healed(&mut self) {
        Self::healed(self);
    }

    fn end(self) {
        Self::end(self);
    }
}
