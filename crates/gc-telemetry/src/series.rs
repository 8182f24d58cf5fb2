//! Metrics of one run of a process: sums, newest values and distributions, from the first attach to the end of the run.
//!
//! A [`Series`] exists for the whole run, across its sessions, so that totals continue after gcwatch reattaches. A
//! [`Series`] has no clock: the times of points are arguments.
//!
//! Unknown values create no point and no measurement. Totals cover only observed data; unobserved data is counted
//! separately (`gcwatch.collections.missed`, `gcwatch.collections.incomplete`, `gcwatch.gc.pauses.unknown`,
//! `gcwatch.events.lost`). Only the numbers of collections (`dotnet.gc.collections`, `gcwatch.gc.collections`) are
//! complete, because they include missed collections, without a generation.

mod exemplars;
mod labels;
mod missed;
mod point;

use std::ops::Range;

use base::time::UnixBase;
use clr_gc::gc::{Account, Collection, HeapGeneration, Pause, Suspension};
use gc_requests::request::Request;
use opentelemetry_proto::tonic::metrics::v1::Metric;

use self::labels::{Label, Labels};
use self::missed::RunGaps;
use self::point::{Point, Times};
use super::definition::metric as row;
use super::definition::{Instrument, MetricDefinition};
use super::names::{condemned, effective_type};
use super::options::{Detail, MetricOptions, RuntimeMetrics, Temporality};
use super::spans::{NotExported, SpanIds};

/// Number of points by which the list grows: a process has few points, and they remain.
const POINTS_AT_ONCE: usize = 4;

/// Metrics of one run of a process.
#[derive(Debug)]
pub struct Series {
    options: MetricOptions,
    start_unix_ns: u64,
    /// Time of the last delta export, Unix nanoseconds.
    exported_unix_ns: u64,
    /// Points of all metrics by metric and labels, contiguous: a collection uses nearly all points, and with hundreds
    /// of processes the points are not in the CPU cache.
    points: Vec<(Labels, Point)>,
    /// Index of the first point of each metric in [`row::METRICS`], and end of the last metric's points.
    begins: Box<[u32]>,
    /// Number of points, without overflow points.
    within_limit: usize,
    missed: RunGaps,
    /// Whether the process exports its runtime metrics.
    exports_runtime: bool,
}

impl Series {
    /// Creates the metrics of a run that counts from `start_unix_ns`, the first attach.
    pub fn new(options: MetricOptions, start_unix_ns: u64) -> Self {
        let mut series = Self {
            options,
            start_unix_ns,
            exported_unix_ns: start_unix_ns,
            points: Vec::new(),
            begins: vec![0; row::METRICS.len() + 1].into_boxed_slice(),
            within_limit: 0,
            missed: RunGaps::default(),
            exports_runtime: false,
        };
        // The count starts at the attach, so the initial value is a known 0.
        for generation in [HeapGeneration::Gen0, HeapGeneration::Gen1, HeapGeneration::Gen2] {
            series.add(
                &row::OWN_COLLECTIONS,
                Labels::new([Some(Label::Generation(generation))]),
                0,
            );
        }
        for definition in [
            &row::OWN_PAUSE_TIME,
            &row::PAUSES_UNKNOWN,
            &row::ALLOCATED,
            &row::INCOMPLETE,
            &row::LOSSY,
            &row::MISSED,
            &row::SERIES_OVERFLOW,
        ] {
            series.add(definition, Labels::NONE, 0);
        }
        series
    }

    /// Observes a collection; `span` is its root span, or `None` without a span.
    pub fn observe(&mut self, collection: &Collection, base: UnixBase, span: Option<SpanIds>) {
        let at = base.unix_ns(collection.end.unwrap_or(collection.last_event));
        let generation = condemned(collection).map(Label::Generation);
        self.add(&row::OWN_COLLECTIONS, Labels::new([generation]), 1);
        let missed = self.missed.observe(collection);
        if missed > 0 {
            self.add(&row::OWN_COLLECTIONS, Labels::NONE, missed);
            self.add(&row::MISSED, Labels::NONE, missed);
        }
        self.add(&row::INCOMPLETE, Labels::NONE, u64::from(!collection.is_complete()));
        self.add(&row::LOSSY, Labels::NONE, u64::from(collection.lossy));
        for figure in collection.implausible.iter() {
            self.add(&row::IMPLAUSIBLE, Labels::new([Some(Label::Figure(figure))]), 1);
        }
        if collection.is_compacting() == Some(true) {
            self.add(&row::COMPACTIONS, Labels::new([generation]), 1);
        }
        for pause in &collection.pauses {
            self.pause(collection, pause, base, span);
        }
        self.stopped(&collection.account());
        if let (true, Some(ns)) = (collection.is_concurrent(), known(collection.duration_ns())) {
            self.record(&row::BACKGROUND_DURATION, Labels::NONE, ns, at, span);
        }
        self.allocated(collection, base);
        self.heap(collection, at);
    }

    /// Updates the totals of allocated bytes. The conventions' total counts from the first collection while every later
    /// collection has a known allocation. After a gap or an estimate the total is absent, and restarts with the next
    /// measurement. The total of gcwatch continues as a lower bound.
    fn allocated(&mut self, collection: &Collection, base: UnixBase) {
        match collection.allocated {
            Ok(allocated) => {
                self.add(&row::ALLOCATED, Labels::NONE, allocated.bytes);
                if allocated.at_least {
                    self.forget(&row::TOTAL_ALLOCATED);
                    return;
                }
                let start = base.unix_ns(allocated.since).max(self.start_unix_ns);
                if let Some(point) = self.point(&row::TOTAL_ALLOCATED, Labels::NONE) {
                    point.add_since(start, allocated.bytes);
                }
            }
            Err(why) => {
                self.add(
                    &row::ALLOCATED_UNKNOWN,
                    Labels::new([Some(Label::AllocatedUnknown(why))]),
                    1,
                );
                self.forget(&row::TOTAL_ALLOCATED);
            }
        }
    }

    fn pause(&mut self, collection: &Collection, pause: &Pause, base: UnixBase, span: Option<SpanIds>) {
        let Some(ns) = known(pause.pause_ns) else {
            self.add(&row::PAUSES_UNKNOWN, Labels::NONE, 1);
            return;
        };
        let generation = condemned(collection).map(Label::Generation);
        let gc_type = effective_type(collection).map(Label::Type);
        let reason = collection.reason.map(Label::Reason);
        let end = pause.spans.last().map_or(collection.last_event, |part| part.1);
        let at = base.unix_ns(end);
        match known(pause.runtime_pause_ns()) {
            Some(ns) => self.add(&row::OWN_PAUSE_TIME, Labels::NONE, ns),
            None => self.add(&row::PAUSES_UNKNOWN, Labels::NONE, 1),
        }
        self.record(
            &row::PAUSE_DURATION,
            Labels::new([generation, gc_type, reason]),
            ns,
            at,
            span,
        );
        // Only the first collection of a suspension waits for the threads.
        let first = pause.start.is_some() && pause.start == pause.edges.suspend_begin;
        if let (true, Some(ns)) = (first, known(pause.suspend_ns)) {
            self.record(&row::SUSPEND_DURATION, Labels::NONE, ns, at, span);
        }
    }

    fn stopped(&mut self, account: &Account) {
        for part in account.parts() {
            let labels = Labels::new([Some(Label::Cause(part.cause))]);
            self.add(&row::STOPPED_TIME, labels, u64::try_from(part.ns).unwrap_or(0));
        }
    }

    fn heap(&mut self, collection: &Collection, at: u64) {
        for (generation, sizes) in HeapGeneration::ALL.into_iter().zip(&collection.heap) {
            let labels = Labels::new([Some(Label::Generation(generation))]);
            self.set(&row::OWN_HEAP_SIZE, labels, sizes.after, at);
            self.set(&row::OWN_HEAP_FRAGMENTATION, labels, sizes.fragmentation, at);
            self.set(&row::BUDGET, labels, sizes.budget, at);
            if let Some(bytes) = sizes.promoted {
                self.add(&row::PROMOTED, labels, bytes);
            }
        }
        let committed = collection
            .committed
            .total_after()
            .or(collection.committed.total_before());
        self.set(&row::OWN_COMMITTED_SIZE, Labels::NONE, committed, at);
        if let Some(global) = &collection.global {
            self.set(&row::HEAP_COUNT, Labels::NONE, Some(global.heap_count), at);
            self.set(&row::MEMORY_LOAD, Labels::NONE, collection.memory_load_percent(), at);
        }
        if let Some(stats) = &collection.heap_stats {
            self.set(&row::PINNED_OBJECTS, Labels::NONE, Some(stats.pinned_object_count), at);
            self.set(&row::HANDLES, Labels::NONE, collection.handles(), at);
            self.set(&row::SYNC_BLOCKS, Labels::NONE, collection.sync_blocks(), at);
            let promoted = collection.finalization_promoted_count();
            self.set(&row::FINALIZATION_PROMOTED, Labels::NONE, promoted, at);
        }
    }

    /// Observes a suspension without a collection.
    pub fn observe_suspension(&mut self, suspension: &Suspension) {
        let labels = Labels::new([suspension.reason.map(Label::Stop)]);
        self.add(&row::SUSPENSIONS, labels, 1);
        match known(suspension.stopped_ns) {
            Some(ns) => self.add(&row::SUSPENSION_TIME, labels, ns),
            None => self.add(&row::PAUSES_UNKNOWN, Labels::NONE, 1),
        }
        if let Some(account) = suspension.account() {
            self.stopped(&account);
        }
    }

    /// Observes an ended request.
    pub fn observe_request(&mut self, request: &Request, base: UnixBase) {
        let Some(lost) = known(request.stopped_ns) else {
            self.add(&row::REQUESTS_UNKNOWN, Labels::NONE, 1);
            return;
        };
        let ended = &request.ended;
        let labels = Labels::new([ended.route.map(Label::Route)]);
        self.add(&row::REQUESTS, labels, 1);
        if lost > 0 {
            let ids = ended
                .trace_id
                .zip(ended.span_id)
                .filter(|_| ended.sampled == Some(true));
            let span = ids.map(|(trace_id, span_id)| SpanIds { trace_id, span_id });
            self.record(&row::REQUEST_PAUSE, labels, lost, base.unix_ns(request.end), span);
        }
    }

    /// Counts a request that has no spans in its trace although its loss was large enough.
    pub fn observe_unexported_request(&mut self) {
        self.add(&row::REQUESTS_UNEXPORTED, Labels::NONE, 1);
    }

    /// Counts a collection that was not exported as a span.
    pub fn observe_unexported(&mut self, why: NotExported) {
        self.add(&row::UNEXPORTED_SPANS, Labels::new([Some(Label::NotExported(why))]), 1);
    }

    /// Sets whether the process exports its runtime metrics.
    pub fn set_exports_runtime(&mut self, is: bool) {
        self.exports_runtime = is;
    }

    /// Adds events that the runtime dropped. The metric is absent (unknown) until the first call; the first call can
    /// add 0.
    pub fn lost(&mut self, events: u64) {
        self.add(&row::EVENTS_LOST, Labels::NONE, events);
    }

    /// Returns the start time of the totals, in Unix nanoseconds.
    pub fn start_unix_ns(&self) -> u64 {
        self.start_unix_ns
    }

    /// Returns the totals since the first attach.
    pub fn cumulative(&mut self, now_unix_ns: u64) -> Vec<Metric> {
        self.export_at(now_unix_ns);
        let times = Times {
            start: self.start_unix_ns,
            now: now_unix_ns,
        };
        self.metrics(|definition, points| {
            point::metric(
                definition,
                points,
                &self.options,
                Temporality::Cumulative,
                times,
                |point| point.total(definition),
            )
        })
    }

    /// Returns the changes since the previous call or since the first attach. Up-down counters are always totals, as
    /// the specification requires. Points without a change are omitted.
    pub fn delta(&mut self, now_unix_ns: u64) -> Vec<Metric> {
        self.export_at(now_unix_ns);
        let times = Times {
            start: self.exported_unix_ns,
            now: now_unix_ns,
        };
        let since_attach = Times {
            start: self.start_unix_ns,
            ..times
        };
        let options = &self.options;
        let metrics = self.metrics(|definition, points| match definition.instrument {
            Instrument::Counter | Instrument::Histogram => {
                point::metric(definition, points, options, Temporality::Delta, times, |point| {
                    point.delta(definition)
                })
            }
            Instrument::UpDownCounter | Instrument::Gauge => point::metric(
                definition,
                points,
                options,
                Temporality::Cumulative,
                since_attach,
                |point| point.total(definition),
            ),
        });
        self.exported_unix_ns = times.now;
        for (_, point) in &mut self.points {
            point.mark_exported();
        }
        metrics
    }

    /// Ensures that no point starts after its creation: after a backward change of the wall clock, the totals start
    /// earlier.
    fn export_at(&mut self, now_unix_ns: u64) {
        self.start_unix_ns = self.start_unix_ns.min(now_unix_ns);
        self.exported_unix_ns = self.exported_unix_ns.min(now_unix_ns);
    }

    fn metrics(&self, metric: impl Fn(&'static MetricDefinition, &[(Labels, Point)]) -> Option<Metric>) -> Vec<Metric> {
        let has_runtime = match self.options.runtime_metrics {
            RuntimeMetrics::Auto => !self.exports_runtime,
            RuntimeMetrics::On => true,
            RuntimeMetrics::Off => false,
        };
        let exported = row::METRICS
            .iter()
            .filter(|definition| has_runtime || !definition.is_of_the_runtime());
        let points = |definition| {
            let place = place_of(points_of(definition))?;
            self.points.get(self.range(place))
        };
        exported
            .filter_map(|definition| metric(definition, points(definition).unwrap_or_default()))
            .collect()
    }

    fn add(&mut self, definition: &'static MetricDefinition, labels: Labels, amount: u64) {
        if let Some(point) = self.point(definition, labels) {
            point.add(amount);
        }
    }

    fn set(&mut self, definition: &'static MetricDefinition, labels: Labels, value: Option<impl Into<u64>>, at: u64) {
        let Some(value) = value else { return };
        if let Some(point) = self.point(definition, labels) {
            point.set(value.into(), at);
        }
    }

    fn record(
        &mut self,
        definition: &'static MetricDefinition,
        labels: Labels,
        ns: u64,
        at: u64,
        span: Option<SpanIds>,
    ) {
        let window = u64::try_from(self.options.interval.as_nanos()).unwrap_or(u64::MAX);
        if let Some(point) = self.point(definition, labels) {
            point.record(ns, at, span, window);
        }
    }

    /// Returns the point with these labels, and creates it if it does not exist. Returns the overflow point instead of
    /// a new point with labels at the limit of series, and `None` for a disabled metric.
    fn point(&mut self, definition: &'static MetricDefinition, labels: Labels) -> Option<&mut Point> {
        let is_low = self.options.detail == Detail::Low;
        if is_low && row::DETAILED.iter().any(|detailed| std::ptr::eq(*detailed, definition)) {
            return None;
        }
        let is_pauses = std::ptr::eq(definition, &row::PAUSE_DURATION);
        let labels = if is_low && is_pauses { Labels::NONE } else { labels };
        let metric = place_of(definition)?;
        let (place, labels) = match self.place(metric, labels) {
            Ok(place) => return self.points.get_mut(place).map(|(_, point)| point),
            Err(place) if self.within_limit < self.options.max_series || labels == Labels::NONE => {
                self.within_limit += 1;
                (place, labels)
            }
            Err(_) => {
                self.add(&row::SERIES_OVERFLOW, Labels::NONE, 1);
                match self.place(metric, Labels::OVERFLOW) {
                    Ok(place) => return self.points.get_mut(place).map(|(_, point)| point),
                    Err(place) => (place, Labels::OVERFLOW),
                }
            }
        };
        let point = Point::new(definition, &self.options);
        if self.points.len() == self.points.capacity() {
            self.points.reserve_exact(POINTS_AT_ONCE);
        }
        self.points.insert(place, (labels, point));
        for begin in self.begins.iter_mut().skip(metric + 1) {
            *begin = begin.saturating_add(1);
        }
        self.points.get_mut(place).map(|(_, point)| point)
    }

    /// Removes all points of a metric.
    fn forget(&mut self, definition: &'static MetricDefinition) {
        let Some(metric) = place_of(definition) else { return };
        let range = self.range(metric);
        let gone = range.len();
        self.points.drain(range);
        self.within_limit = self.within_limit.saturating_sub(gone);
        for begin in self.begins.iter_mut().skip(metric + 1) {
            *begin = begin.saturating_sub(u32::try_from(gone).unwrap_or(u32::MAX));
        }
    }

    /// Returns the index of a point, or the index for its insertion. A metric has few points.
    fn place(&self, metric: usize, labels: Labels) -> Result<usize, usize> {
        let range = self.range(metric);
        let points = self.points.get(range.clone()).unwrap_or_default();
        let known = points.iter().position(|(known, _)| *known == labels);
        known.map(|place| range.start + place).ok_or_else(|| {
            let before = points.iter().take_while(|(known, _)| *known < labels).count();
            range.start + before
        })
    }

    /// Returns the range of a metric's points.
    fn range(&self, metric: usize) -> Range<usize> {
        let begin = |metric: usize| self.begins.get(metric).map_or(0, |begin| *begin as usize);
        begin(metric)..begin(metric + 1)
    }
}

/// Returns the index of a metric in [`row::METRICS`], or `None` if the list does not contain the metric.
fn place_of(definition: &MetricDefinition) -> Option<usize> {
    row::METRICS.iter().position(|row| std::ptr::eq(*row, definition))
}

/// Returns the metric that stores the points of this metric.
fn points_of(definition: &'static MetricDefinition) -> &'static MetricDefinition {
    let same = row::SAME.iter().find(|(other, _)| std::ptr::eq(*other, definition));
    same.map_or(definition, |(_, own)| own)
}

/// Returns the duration; `None` if it is unknown or negative (possible in a damaged stream).
fn known(ns: Option<i64>) -> Option<u64> {
    u64::try_from(ns?).ok()
}
