//! Fields `service.*` and `watcher.*`: facts about services, which outlive their processes, and about gcwatch itself.

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
    "service.processes" Int "" "Number of running processes of the service on this host that gcwatch attached to."
        = |s| int(s.stream.service?.processes);
    "service.deaths_10m" Int "" "Number of processes of the service that ended within ten minutes, for any reason."
        = |s| int(s.stream.service?.deaths_10m);
    "service.deaths_in_emergency_10m" Int "" "Number of these processes for which a memory rule of severity error or critical fired within the minute before, and that did not exit cleanly."
        = |s| int(s.stream.service?.deaths_in_emergency_10m);
    "service.oom_kills_10m" Int "" "Number of processes of the service that the kernel killed for memory within ten minutes, according to their control groups and Kubernetes; unknown if this cannot be determined for any of them."
        = |s| int(s.stream.service?.oom_kills_10m?);
    "service.sudden_oom_kills_10m" Int "" "Number of these kills for which no memory rule of severity error or critical fired within the minute before. Other kills are reported by the incident of the process. Unknown if `service.oom_kills_10m` is unknown."
        = |s| int(s.stream.service?.sudden_oom_kills_10m?);
    "service.restarts_10m" Int "" "Number of processes of the service that ended within ten minutes, lived for less than five minutes, and ended by an OOM kill, in an emergency, or with a failure after which Kubernetes restarted them."
        = |s| int(s.stream.service?.restarts_10m);
    "service.affected" Int "" "Maximum number of processes of the service on which the same rule of severity error or critical fires."
        = |s| int(s.stream.service?.affected);
    "service.affected_rule" Text "" "Id of the rule in `service.affected`; unknown if there is no such rule."
        = |s| s.process.attribute(AFFECTED_RULE).map(FactValue::value);
    "service.last_death" Text "" "Newest process of the service that the kernel killed for memory or that ended in an emergency: its pod and container, or its pid; unknown if there was no such process."
        = |s| s.process.attribute(LAST_DEATH).map(FactValue::value);
    "service.well_s" Double "s" "Seconds for which a process that started after the newest death has run without such a rule; 0 if there is no such process."
        = |s| seconds(s.stream.service?.well_since.map_or(0, |since| s.now.since(since)));
}

fields! { WATCHER_FIELDS Watcher
    "watcher.stalls_10m" Int "" "Number of times within ten minutes that gcwatch stalled for more than five seconds because it was stopped or had no CPU."
        = |s| int(s.stream.watcher?.stalls_10m);
    "watcher.stall_s" Double "s" "Duration of the newest stall; unknown if gcwatch has not stalled."
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
        match Field::find(name).unwrap().read(&scope)? {
            Value::Int(number) => Some(number as f64),
            Value::Double(number) => Some(number),
            other => panic!("{other:?}"),
        }
    }

    /// Scenario: fields are read from the facts of a service, of gcwatch itself, and of a process.
    /// Guarantee: a field is known only if its facts are present; a service without a new process after a death has
    /// been healthy for 0 s.
    #[test]
    fn fields_are_known_only_with_their_facts() {
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
