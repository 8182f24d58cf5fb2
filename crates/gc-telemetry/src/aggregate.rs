//! Series of services instead of processes: `metrics.aggregate: service`.
//!
//! ```text
//! totals of a process (cumulative) --> difference since its last reading --> totals of its service, which only rise
//! its other values (last reading) ------------------------------------------> values of its service, when exported
//! ```
//!
//! [`Services`] adds the increase of each process since its previous reading, so the totals of a service never fall.
//! The increases of an exited process stay in the totals, and a process that counts from scratch adds only new events.
//! Values that rise and fall are summed over the running processes; gauges follow their [`GaugeRule`].
//!
//! Processes belong to one service if the attributes of `SERVICE_ATTRIBUTES` are equal. These attributes are the
//! resource of the series.
//!
//! Figures of a container are the same in all processes of the container, so only the first process of each container
//! adds these figures.

mod merge;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::metrics::v1::Metric;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use uuid::Uuid;

use crate::definition::own::{service, target};
use crate::definition::resource as row;
use crate::definition::{Attribute, GaugeRule, Instrument, MetricDefinition, container, metric};
use crate::options::{HistogramBuckets, MetricOptions, Temporality};
use crate::origin::Origin;
use crate::snapshot::{MetricSnapshot, whole};
use crate::value::{key_value, text};

/// Attributes that a service has in common with its processes. All processes of a service on a host have the same
/// values.
static SERVICE_ATTRIBUTES: [&Attribute; 17] = [
    &row::SERVICE_NAME,
    &row::SERVICE_NAMESPACE,
    &row::DEPLOYMENT_ENVIRONMENT_NAME,
    &row::PROCESS_RUNTIME_NAME,
    &row::HOST_NAME,
    &row::HOST_ID,
    &row::HOST_ARCH,
    &row::OS_TYPE,
    &row::K8S_CLUSTER_NAME,
    &row::K8S_NODE_NAME,
    &row::K8S_NAMESPACE_NAME,
    &row::K8S_CONTAINER_NAME,
    &row::K8S_DEPLOYMENT_NAME,
    &row::K8S_STATEFULSET_NAME,
    &row::K8S_DAEMONSET_NAME,
    &row::K8S_CRONJOB_NAME,
    &row::TELEMETRY_DISTRO_NAME,
];

/// Lines of the memory ledger that describe the container and not one of its processes.
const CONTAINER_LINES: [&str; 5] = [
    "other_processes",
    "files_in_memory",
    "page_cache",
    "kernel",
    "kernel_reclaimable",
];

/// Namespace of the ids of services.
const NAMESPACE: Uuid = Uuid::from_u128(0x6f0b_7c52_4c1d_5b0e_9a53_1d0f_6a2e_84c7);

/// Maximum number of services without processes whose totals are remembered. Beyond this number, the totals of the
/// service that ended first are forgotten.
const MAX_ENDED: usize = 200;

/// Pid and start time of a process.
pub type ProcessKey = (u32, u64);

/// Identity of a service: the encoded attributes of its resource.
type ServiceKey = Box<[u8]>;

/// The series of the services of one host.
#[derive(Debug, Default)]
pub struct Services {
    services: BTreeMap<ServiceKey, Service>,
    processes: BTreeMap<ProcessKey, Process>,
    /// The process of each container that adds the container's figures.
    containers: BTreeMap<String, ProcessKey>,
    /// Number of services that have lost their last process so far.
    ended: u64,
}

/// A service.
#[derive(Debug)]
struct Service {
    origin: Arc<Origin>,
    start_unix_ns: u64,
    /// Time of the last delta export, in Unix nanoseconds.
    exported_unix_ns: u64,
    totals: Vec<Metric>,
    /// The totals of the last delta export.
    exported: Vec<Metric>,
    /// Position in the order in which services lost their last process; `None` while a process runs.
    ended: Option<u64>,
}

/// A running process.
#[derive(Debug)]
struct Process {
    service: ServiceKey,
    container: Option<String>,
    /// Totals of the previous reading.
    totals: Vec<Metric>,
    /// Gauges and other values that can rise and fall.
    values: Vec<Metric>,
}

/// Returns the attributes of the service of a process, and the identity of the service.
fn service_of(resource: &[KeyValue], configured: &[KeyValue]) -> (ServiceKey, Arc<Origin>) {
    let is_kept = |pair: &&KeyValue| {
        SERVICE_ATTRIBUTES.iter().any(|attribute| attribute.name == pair.key)
            || configured.iter().any(|attribute| attribute.key == pair.key)
    };
    let mut attributes: Vec<KeyValue> = resource.iter().filter(is_kept).cloned().collect();
    attributes.sort_by(|one, other| one.key.cmp(&other.key));
    let plain = Origin::new(attributes.clone());
    let id = Uuid::new_v5(&NAMESPACE, plain.encoded()).to_string();
    attributes.push(key_value(row::SERVICE_INSTANCE_ID.name, Value::StringValue(id)));
    (plain.encoded().into(), Arc::new(Origin::new(attributes)))
}

/// Returns whether the service of a process is in the given share of `shares`.
pub fn is_in_share(resource: &[KeyValue], configured: &[KeyValue], (share, shares): (u32, u32)) -> bool {
    let (key, _) = service_of(resource, configured);
    number(&key) % shares.max(1) == share
}

impl Services {
    /// Applies a reading of a process, which contains its cumulative metrics. `configured` are the attributes that the
    /// configuration gives to every process.
    pub fn observe(
        &mut self,
        process: ProcessKey,
        resource: &[KeyValue],
        configured: &[KeyValue],
        metrics: Vec<Metric>,
        options: &MetricOptions,
    ) {
        let (key, origin) = service_of(resource, configured);
        let container = text(resource, row::CONTAINER_ID.name);
        let is_first = container
            .as_ref()
            .is_none_or(|id| *self.containers.entry(id.clone()).or_insert(process) == process);
        let (mut totals, mut values) = (Vec::new(), Vec::new());
        for mut metric in metrics {
            if metric.name == metric::TOTAL_ALLOCATED.name {
                continue;
            }
            if merge::is_total(&metric) {
                totals.push(metric);
            } else if is_first || keep_own(&mut metric) {
                values.push(metric);
            }
        }
        let known = self.processes.get(&process).map_or(&[][..], |known| &known.totals);
        let mut news = Vec::with_capacity(totals.len());
        for total in &totals {
            if is_first || !is_of_container(&total.name) {
                news.push(merge::difference(total, named(known, &total.name)));
            }
        }
        let start = totals.iter().filter_map(merge::start_of).min().unwrap_or(0);
        let service = self.services.entry(key.clone()).or_insert_with(|| Service {
            origin,
            start_unix_ns: start,
            exported_unix_ns: start,
            totals: Vec::new(),
            exported: Vec::new(),
            ended: None,
        });
        service.ended = None;
        service.add(news, options);
        let process_now = Process {
            service: key.clone(),
            container,
            totals,
            values,
        };
        let container = process_now.container.clone();
        let Some(before) = self.processes.insert(process, process_now) else {
            return;
        };
        if before.container != container {
            self.leave_container(before.container, process);
        }
        if before.service != key {
            self.leave(&before.service);
        }
    }

    /// Records that a process no longer adds the figures of its container. Another process of the container then adds
    /// them.
    fn leave_container(&mut self, container: Option<String>, process: ProcessKey) {
        if let Some(id) = container
            && let Entry::Occupied(entry) = self.containers.entry(id)
            && *entry.get() == process
        {
            entry.remove();
        }
    }

    /// Removes a process that has exited and whose last reading was applied. If this was the last process of its
    /// service, returns the last metrics of the service, and `None` otherwise.
    pub fn remove(
        &mut self,
        process: ProcessKey,
        now_unix_ns: u64,
        temporality: Temporality,
        options: &MetricOptions,
    ) -> Option<(Arc<Origin>, Vec<Metric>)> {
        let gone = self.processes.get(&process)?;
        let is_last = self
            .processes
            .values()
            .filter(|other| other.service == gone.service)
            .count()
            == 1;
        let last = self.services.get_mut(&gone.service).filter(|_| is_last).map(|service| {
            let metrics = service.metrics(&[gone], now_unix_ns, temporality, options);
            (Arc::clone(&service.origin), metrics)
        });
        let gone = self.processes.remove(&process)?;
        self.leave_container(gone.container, process);
        self.leave(&gone.service);
        last
    }

    /// Marks a service as ended if it has no process left. Forgets the service that ended first if there are more than
    /// [`MAX_ENDED`].
    fn leave(&mut self, key: &ServiceKey) {
        if self.processes.values().any(|process| process.service == *key) {
            return;
        }
        let Some(service) = self.services.get_mut(key) else {
            return;
        };
        service.ended = Some(self.ended);
        self.ended += 1;
        let ended = || {
            self.services
                .iter()
                .filter_map(|(key, service)| Some((service.ended?, key)))
        };
        if ended().count() > MAX_ENDED
            && let Some((_, oldest)) = ended().min()
        {
            let oldest = oldest.clone();
            self.services.remove(&oldest);
        }
    }

    /// Returns the metrics of the services with processes, for the given share of `shares`.
    pub fn metrics(
        &mut self,
        (share, shares): (u32, u32),
        now_unix_ns: u64,
        temporality: Temporality,
        options: &MetricOptions,
    ) -> Vec<(Arc<Origin>, Vec<Metric>)> {
        let mut living: BTreeMap<&ServiceKey, Vec<&Process>> = BTreeMap::new();
        for process in self.processes.values() {
            living.entry(&process.service).or_default().push(process);
        }
        let wanted = self
            .services
            .iter_mut()
            .filter(|(key, _)| number(key) % shares.max(1) == share);
        wanted
            .filter_map(|(key, service)| {
                let metrics = service.metrics(living.get(key)?, now_unix_ns, temporality, options);
                Some((Arc::clone(&service.origin), metrics))
            })
            .collect()
    }
}

impl Service {
    /// Adds increases of totals.
    fn add(&mut self, news: Vec<Metric>, options: &MetricOptions) {
        for mut part in news {
            merge::drop_exemplars(&mut part);
            match self.totals.iter_mut().find(|total| total.name == part.name) {
                Some(total) => merge::add(total, &part, None, max_buckets(options)),
                None => self.totals.push(part),
            }
        }
    }

    /// Returns the metrics of the service, with the values of the given processes.
    fn metrics(
        &mut self,
        processes: &[&Process],
        now_unix_ns: u64,
        temporality: Temporality,
        options: &MetricOptions,
    ) -> Vec<Metric> {
        // No point starts after its own time, even if the wall clock was set back.
        let start = self.start_unix_ns.min(now_unix_ns);
        let mut metrics = match temporality {
            Temporality::Cumulative => self.totals.clone(),
            Temporality::Delta => self.differences(now_unix_ns),
        };
        for metric in &mut metrics {
            for process in processes {
                if let Some(total) = named(&process.totals, &metric.name) {
                    merge::add_exemplars(metric, total);
                }
            }
        }
        if temporality == Temporality::Cumulative {
            metrics
                .iter_mut()
                .for_each(|metric| merge::set_times(metric, start, now_unix_ns));
        }
        let mut values: Vec<Metric> = Vec::new();
        for part in processes.iter().flat_map(|process| &process.values) {
            match values.iter_mut().find(|value| value.name == part.name) {
                Some(value) => merge::add(value, part, gauge_rule(&part.name), max_buckets(options)),
                None => values.push(part.clone()),
            }
        }
        values
            .iter_mut()
            .for_each(|value| merge::set_times(value, start, now_unix_ns));
        metrics.append(&mut values);
        let mut own = MetricSnapshot::new(start, now_unix_ns);
        own.put_one(&service::PROCESSES, Some(whole(processes.len() as u64)));
        metrics.extend(own.into_metrics());
        metrics
    }

    /// Returns the increases since the last call.
    fn differences(&mut self, now_unix_ns: u64) -> Vec<Metric> {
        let start = self.exported_unix_ns.min(now_unix_ns);
        let news = self.totals.iter().filter_map(|total| {
            let mut news = merge::difference(total, named(&self.exported, &total.name));
            merge::set_delta(&mut news);
            merge::set_times(&mut news, start, now_unix_ns);
            merge::drop_empty(&mut news).then_some(news)
        });
        let news = news.collect();
        self.exported.clone_from(&self.totals);
        self.exported_unix_ns = now_unix_ns;
        news
    }
}

/// Returns a number that determines the share of a service.
fn number(key: &[u8]) -> u32 {
    let next = |sum: u32, byte: &u8| sum.wrapping_mul(31).wrapping_add(u32::from(*byte));
    key.iter().fold(0, next)
}

fn named<'a>(metrics: &'a [Metric], name: &str) -> Option<&'a Metric> {
    metrics.iter().find(|metric| metric.name == name)
}

fn max_buckets(options: &MetricOptions) -> usize {
    match options.buckets {
        HistogramBuckets::Exponential { max_buckets } => usize::from(max_buckets),
        HistogramBuckets::Explicit(_) => usize::MAX,
    }
}

/// The rules by which gauges of processes become gauges of their service.
pub static GAUGES: [(&MetricDefinition, GaugeRule); 8] = [
    (&metric::BUDGET, GaugeRule::Sum),
    (&metric::HEAP_COUNT, GaugeRule::Sum),
    (&metric::MEMORY_LOAD, GaugeRule::Max),
    (&metric::PINNED_OBJECTS, GaugeRule::Sum),
    (&metric::HANDLES, GaugeRule::Sum),
    (&metric::SYNC_BLOCKS, GaugeRule::Sum),
    (&metric::FINALIZATION_PROMOTED, GaugeRule::Sum),
    (&target::LAG, GaugeRule::Max),
];

fn gauge_rule(name: &str) -> Option<GaugeRule> {
    let row = GAUGES.iter().find(|(definition, _)| definition.name == name);
    row.map(|(_, rule)| *rule)
}

/// Returns the rule by which a metric of processes becomes a metric of their service, as a word for display.
pub fn rule_name(definition: &MetricDefinition) -> &'static str {
    let is = |other: &MetricDefinition| std::ptr::eq(definition, other);
    match definition.instrument {
        _ if is(&metric::TOTAL_ALLOCATED) => "absent",
        Instrument::Histogram => "merged",
        Instrument::Gauge => match gauge_rule(definition.name) {
            Some(GaugeRule::Max) => "maximum",
            Some(GaugeRule::Sum) => "sum",
            None => "absent",
        },
        Instrument::Counter | Instrument::UpDownCounter => "sum",
    }
}

fn is_of_container(name: &str) -> bool {
    container::METRICS.iter().any(|definition| definition.name == name)
}

/// Removes the points of the container from a metric. Returns `false` if the whole metric describes the container.
fn keep_own(metric: &mut Metric) -> bool {
    let is = |definition: &MetricDefinition| definition.name == metric.name;
    if is_of_container(&metric.name) || is(&target::MEMORY_LIMIT) || is(&target::MEMORY_PEAK) {
        return false;
    }
    if is(&target::MEMORY)
        && let Some(Data::Sum(sum)) = &mut metric.data
    {
        sum.data_points.retain(|point| {
            let line = text(&point.attributes, target::LINE.name);
            line.is_none_or(|line| !CONTAINER_LINES.contains(&line.as_str()))
        });
    }
    true
}

#[cfg(test)]
mod tests;
