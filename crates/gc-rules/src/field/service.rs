//! `service.*`, `watcher.*`: what outlives a process, and gcwatch itself.

use super::facts::{AFFECTED_RULE, FactValue, LAST_DEATH};
use super::fields;
use crate::value::Value;

fn int(number: u64) -> Option<Value<'static>> {
    Some(Value::Int(i64::try_from(number).unwrap_or(i64::MAX)))
}

fn seconds(ns: u64) -> Option<Value<'static>> {
    Some(Value::Double(ns as f64 / 1e9))
}

fields! { SERVICE_FIELDS Service
    "service.processes" Int "" "Processes of the service on this host that live and were attached to."
        = |s| int(s.stream.service?.processes);
    "service.deaths_10m" Int "" "Processes of the service that ended within ten minutes, for whatever reason."
        = |s| int(s.stream.service?.deaths_10m);
    "service.deaths_in_emergency_10m" Int "" "Those of them on which a rule on memory of severity error or critical fired within a minute before, and that did not end in order."
        = |s| int(s.stream.service?.deaths_in_emergency_10m);
    "service.oom_kills_10m" Int "" "Those of them that the kernel killed for memory, by their control groups and by Kubernetes; unknown if that cannot be known of any of them."
        = |s| int(s.stream.service?.oom_kills_10m?);
    "service.sudden_oom_kills_10m" Int "" "Those of the killed on which no rule on memory of severity error or critical fired within a minute before; of the others their own incident speaks. Unknown as service.oom_kills_10m is."
        = |s| int(s.stream.service?.sudden_oom_kills_10m?);
    "service.restarts_10m" Int "" "Those of them that lived for less than five minutes and ended by an OOM kill, in an emergency, or with a failure that Kubernetes restarted them for."
        = |s| int(s.stream.service?.restarts_10m);
    "service.affected" Int "" "The most processes of the service on which one and the same rule of severity error or critical fires."
        = |s| int(s.stream.service?.affected);
    "service.affected_rule" Text "" "The id of that rule; unknown while there is none."
        = |s| s.process.attribute(AFFECTED_RULE).map(FactValue::value);
    "service.last_death" Text "" "Which of its processes was the newest that the kernel killed for memory or that ended in an emergency: its pod and container, else its pid; unknown while there is none."
        = |s| s.process.attribute(LAST_DEATH).map(FactValue::value);
    "service.well_s" Double "s" "Seconds since a process that began after the newest death lives without such a rule; 0 while there is none."
        = |s| seconds(s.stream.service?.well_since.map_or(0, |since| s.now.since(since)));
}

fields! { WATCHER_FIELDS Watcher
    "watcher.stalls_10m" Int "" "How often gcwatch stalled for more than five seconds within ten minutes: stopped, or without CPU."
        = |s| int(s.stream.watcher?.stalls_10m);
    "watcher.stall_s" Double "s" "How long the newest one of them lasted; unknown if there was none."
        = |s| seconds(s.stream.watcher?.stall_ns?);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::{Field, ProcessFacts, Scope, ServiceFacts, StreamFacts, WatcherFacts};
    use base::time::Moment;

    fn read(name: &str, stream: &StreamFacts) -> Option<f64> {
        let process = ProcessFacts::default();
        let scope = Scope::new(&process, stream, Moment::from_ns(10_000_000_000));
        match Field::of(name).unwrap().read(&scope)? {
            Value::Int(number) => Some(number as f64),
            Value::Double(number) => Some(number),
            other => panic!("{other:?}"),
        }
    }

    /// Scenario: the facts of a service, of gcwatch itself, and of a process.
    /// Guarantee: each field is known where its facts are, and unknown elsewhere; a service without a successor is well
    /// for no time.
    #[test]
    fn fields_are_known_where_their_facts_are() {
        let service = StreamFacts {
            service: Some(ServiceFacts {
                processes: 2,
                well_since: Some(Moment::from_ns(4_000_000_000)),
                ..ServiceFacts::default()
            }),
            ..StreamFacts::default()
        };
        assert_eq!(read("service.processes", &service), Some(2.0));
        assert_eq!(read("service.well_s", &service), Some(6.0));
        assert_eq!(read("service.oom_kills_10m", &service), None);
        assert_eq!(read("watcher.stalls_10m", &service), None);
        let watcher = StreamFacts {
            watcher: Some(WatcherFacts {
                stalls_10m: 1,
                stall_ns: Some(75_500_000_000),
            }),
            service: Some(ServiceFacts::default()),
            ..StreamFacts::default()
        };
        assert_eq!(read("watcher.stall_s", &watcher), Some(75.5));
        assert_eq!(read("service.well_s", &watcher), Some(0.0));
        for field in SERVICE_FIELDS
            .iter()
            .chain(WATCHER_FIELDS)
            .filter(|field| !["service.affected_rule", "service.last_death"].contains(&field.name))
        {
            assert_eq!(read(field.name, &StreamFacts::default()), None, "{field:?}");
        }
    }
}
