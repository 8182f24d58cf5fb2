//! Limits and usage of a run's container.

use gc_telemetry::definition::container as row;
use gc_telemetry::snapshot::{MetricSnapshot, Number, seconds, whole};
use gc_telemetry::value::key_value;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;

use processes::container::{Figures, Usage};

/// Figures of a run's container.
#[derive(Debug, Default)]
pub struct RunContainer {
    usage: Usage,
    /// Most recent figures; all unknown while the container cannot be read.
    pub(crate) figures: Figures,
}

impl RunContainer {
    /// Processes a reading; `figures` is `None` if the reading failed. Returns whether the limits have changed and must
    /// be passed to the rules.
    pub(crate) fn observe(&mut self, figures: Option<Figures>) -> bool {
        let before = (self.figures.memory_limit, self.figures.cpu_limit);
        let Some(figures) = figures else {
            // After a failed reading, the rules keep the previous limits. Rules for processes with a limit stay active,
            // with unknown usage.
            self.figures = Figures::default();
            return false;
        };
        self.figures = self.usage.take(figures);
        before != (self.figures.memory_limit, self.figures.cpu_limit)
    }

    /// Returns the limits as attributes for the rules.
    pub fn limits(&self) -> impl Iterator<Item = KeyValue> + use<> {
        let memory = self.figures.memory_limit;
        let memory = memory.map(|limit| Value::IntValue(limit.try_into().unwrap_or(i64::MAX)));
        let cpu = self.figures.cpu_limit.map(Value::DoubleValue);
        let limits = [(row::MEMORY_LIMIT.name, memory), (row::CPU_LIMIT.name, cpu)];
        limits
            .into_iter()
            .filter_map(|(name, limit)| Some(key_value(name, limit?)))
    }

    pub(crate) fn metrics(&self, snapshot: &mut MetricSnapshot) {
        let (memory, cpu) = (&self.figures.memory, &self.figures.cpu);
        snapshot.put_one(&row::MEMORY_LIMIT, self.figures.memory_limit.map(whole));
        snapshot.put_one(&row::MEMORY_USAGE, memory.usage.map(whole));
        snapshot.put_one(&row::MEMORY_WORKING_SET, memory.working_set.map(whole));
        snapshot.put_one(&row::OOM_KILLS, memory.oom_kills.map(whole));
        snapshot.put_one(&row::LIMIT_HITS, memory.limit_hits.map(whole));
        snapshot.put_one(&row::HIGH_EVENTS, memory.high_events.map(whole));
        snapshot.put_one(&row::CPU_LIMIT, self.figures.cpu_limit.map(Number::AsDouble));
        snapshot.put_one(&row::CPU_PERIODS, cpu.periods.map(whole));
        snapshot.put_one(&row::CPU_THROTTLED_PERIODS, cpu.throttled_periods.map(whole));
        snapshot.put_one(&row::CPU_THROTTLED_TIME, cpu.throttled_ns.map(seconds));
    }
}
