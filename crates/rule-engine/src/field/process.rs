//! Fields `process.*`, `settings.*`, `container.*`, `stream.*` and `open.*`.

use base::time::Moment;

use super::facts::{Exit, FRESH_HEAP_LIMIT, FactValue, HEAP_LIMIT, ProcessFacts, STALE_HEAP_LIMIT, UNSEEN_LIMIT};
use super::trends::{Limits, MemoryTrend};
use super::{Scope, fields};
use crate::value::Value;

fn text(text: Option<&str>) -> Option<Value<'_>> {
    text.map(Value::Text)
}

fn count(count: Option<u64>) -> Option<Value<'static>> {
    count.map(|count| Value::Int(i64::try_from(count).unwrap_or(i64::MAX)))
}

fn attribute<'a>(scope: &Scope<'a>, name: &str) -> Option<Value<'a>> {
    scope.process.attribute(name).map(FactValue::value)
}

/// Returns part `index` of a version, such as 10 of `10.0.1`.
fn version(runtime: Option<&str>, index: usize) -> Option<Value<'static>> {
    let part = runtime?.split(['.', '-', '+']).nth(index)?;
    part.parse().ok().map(Value::Int)
}

/// Returns the working set of the container relative to its memory limit, or `None` if one of them is unknown.
fn used<'a>(scope: &Scope<'a>) -> Option<Value<'a>> {
    let Some(Value::Int(limit @ 1..)) = attribute(scope, "gcwatch.container.memory.limit") else {
        return None;
    };
    Some(Value::Double(
        scope.stream.container.memory_working_set? as f64 / limit as f64,
    ))
}

/// Returns the heap limit reported by the runtime or, if the runtime reports none, implied by configuration and
/// container.
fn heap_limit(process: &ProcessFacts) -> Option<&FactValue> {
    let reported = process.attribute("gcwatch.gc.settings.hard_limit");
    reported.or_else(|| process.attribute(HEAP_LIMIT))
}

/// Returns the limits that memory levels refer to.
pub(crate) fn limits(process: &ProcessFacts) -> Limits {
    let bytes = |value: Option<&FactValue>| match value {
        Some(FactValue::Int(bytes)) => u64::try_from(*bytes).ok(),
        _ => None,
    };
    Limits {
        container: bytes(process.attribute("gcwatch.container.memory.limit")),
        heap: bytes(heap_limit(process)),
    }
}

/// Returns a growth rate in bytes per hour, like the slopes of windows.
fn pace(per_minute: Option<f64>) -> Option<Value<'static>> {
    per_minute.map(|per_minute| Value::Double(per_minute * 60.0))
}

/// Returns the age of a growth in seconds; 0 if the memory does not grow.
fn trend_age(scope: &Scope<'_>, trend: &MemoryTrend) -> Option<Value<'static>> {
    trend.per_minute?;
    age(scope, Some(trend.since.unwrap_or(scope.now)))
}

/// Returns the age of a growth over the last hour in seconds; 0 if the memory does not grow.
fn slow_age(scope: &Scope<'_>, trend: &MemoryTrend) -> Option<Value<'static>> {
    trend.slow_per_minute?;
    age(scope, Some(trend.slow_since.unwrap_or(scope.now)))
}

/// Returns the duration of the current round of finalizers in seconds; 0 if no round is in progress. Unknown if the
/// runtime has never reported rounds, and while the reader is behind.
fn finalizers(scope: &Scope<'_>) -> Option<Value<'static>> {
    let begun = scope.stream.open.finalizers;
    if begun.is_none() {
        scope.stream.finalizers_waiting?;
    }
    open(scope, begun)
}

/// Returns the seconds from `then` to now; 0 if `then` is later.
fn age(scope: &Scope<'_>, then: Option<Moment>) -> Option<Value<'static>> {
    then.map(|then| Value::Double(scope.now.since(then) as f64 / 1e9))
}

/// Returns the duration of an operation in progress in seconds; 0 if there is no such operation. Unknown while the
/// reader is behind.
fn open(scope: &Scope<'_>, begun: Option<Moment>) -> Option<Value<'static>> {
    let now = scope.now;
    age(scope, Some(begun.unwrap_or(now)).filter(|_| !scope.stream.behind))
}

/// Returns the time since which the process is stopped for the GC, or `None` if no stop or collection is in progress.
fn stopped_since(scope: &Scope<'_>) -> Option<Moment> {
    let open = &scope.stream.open;
    open.stop.into_iter().chain(open.collection).min()
}

fields! { FIELDS Process
    "process.pid" Int "" "Pid on the host; in a recording, the pid in the stream."
        = |s| s.process.pid.map(|pid| Value::Int(pid.into()));
    "process.name" Text "" "Name of the entry assembly, or of the executable if the entry assembly is unknown."
        = |s| text(s.process.name.as_deref());
    "process.runtime" Text "" "Version of the runtime, such as `10.0.1`."
        = |s| text(s.process.runtime.as_deref());
    "process.runtime_major" Int "" "First number of the runtime version."
        = |s| version(s.process.runtime.as_deref(), 0);
    "process.runtime_minor" Int "" "Second number of the runtime version."
        = |s| version(s.process.runtime.as_deref(), 1);
    "process.service" Text "" "`service.name` of the process."
        = |s| attribute(s, "service.name");
    "process.user" Text "" "User that the process runs as: the name, or the number if the name is unknown. Unknown in a recording."
        = |s| attribute(s, "process.owner");
    "process.executable" Text "" "Path of the executable as the process sees it. Unknown in a recording."
        = |s| attribute(s, "process.executable.path");
    "process.watched_s" Double "s" "Seconds since the first attach; in a recording, since its start."
        = |s| age(s, s.stream.since);
    "process.heap_limit" Int "bytes" "Maximum number of bytes that the heap can commit: the runtime's setting (.NET 9 and later), or GCHeapHardLimit or GCHeapHardLimitPercent from the environment or runtimeconfig.json, or three quarters of the container's memory limit. Unknown without a limit, if the runtime reports that it has no limit, and in a recording without settings."
        = |s| heap_limit(s.process).map(FactValue::value);
    "process.unseen_limit" Int "bytes" "Memory limit of the container if the runtime reports that its heap has no limit (.NET 9 and later): the runtime does not see the limit of the container. Otherwise unknown, and unknown in a recording."
        = |s| attribute(s, UNSEEN_LIMIT);
    "process.stale_heap_limit" Int "bytes" "The limit of the heap that the runtime keeps although the memory limit of its container was changed after its start. Unknown if the limit is the present one, and in a recording."
        = |s| attribute(s, STALE_HEAP_LIMIT);
    "process.fresh_heap_limit" Int "bytes" "The limit of the heap that the runtime would have after GC.RefreshMemoryLimit or a restart, where it keeps another one. Unknown otherwise, and in a recording."
        = |s| attribute(s, FRESH_HEAP_LIMIT);
    "settings.server" Bool "" "Whether server GC is used, with one heap per core. Settings are known for .NET 9 and later (CoreCLR)."
        = |s| attribute(s, "gcwatch.gc.settings.server");
    "settings.concurrent" Bool "" "Whether background collections are enabled."
        = |s| attribute(s, "gcwatch.gc.settings.concurrent");
    "settings.large_pages" Bool "" "Whether the heap uses large pages."
        = |s| attribute(s, "gcwatch.gc.settings.large_pages");
    "settings.hard_limit" Int "bytes" "Maximum number of bytes that the heap can commit; unknown without a limit."
        = |s| attribute(s, "gcwatch.gc.settings.hard_limit");
    "settings.loh_threshold" Int "bytes" "Minimum size of objects in the large object heap."
        = |s| attribute(s, "gcwatch.gc.settings.loh_threshold");
    "settings.physical_memory" Int "bytes" "Configured physical memory for the GC (GCTotalPhysicalMemory); unknown if not configured."
        = |s| attribute(s, "gcwatch.gc.settings.physical_memory");
    "settings.gen0_min_budget" Int "bytes" "Configured minimum budget of generation 0 (GCgen0size); unknown if not configured."
        = |s| attribute(s, "gcwatch.gc.settings.gen0_min_budget");
    "settings.gen0_max_budget" Int "bytes" "Configured maximum budget of generation 0; unknown if not configured."
        = |s| attribute(s, "gcwatch.gc.settings.gen0_max_budget");
    "settings.high_memory_percent" Int "percent" "Configured memory load above which the GC is more aggressive; unknown if not configured."
        = |s| attribute(s, "gcwatch.gc.settings.high_memory_percent");
    "settings.dynamic_adaptation" Bool "" "True after the number of heaps has adapted to the size of the application (DATAS); otherwise unknown."
        = |s| attribute(s, "gcwatch.gc.settings.dynamic_adaptation");
    "container.memory_limit" Int "bytes" "Memory limit of the container; unknown outside a container."
        = |s| attribute(s, "gcwatch.container.memory.limit");
    "container.memory_usage" Int "bytes" "Memory in use in the container, including the page cache. Read every 15 s, like the following fields; unknown in a recording."
        = |s| count(s.stream.container.memory_usage);
    "container.memory_working_set" Int "bytes" "Memory in use in the container without inactive page cache, which is relevant for the memory limit."
        = |s| count(s.stream.container.memory_working_set);
    "container.memory_held" Int "bytes" "Memory in use in the container that the kernel cannot reclaim: without the page cache and reclaimable kernel memory. cgroup version 1 does not report the reclaimable part of kernel memory, so all kernel memory is excluded there, and the value is a lower bound."
        = |s| count(s.stream.container.memory_held);
    "container.memory_shmem" Int "bytes" "Files in memory (tmpfs, shared memory) of the container, which the kernel cannot reclaim."
        = |s| count(s.stream.container.memory_shmem);
    "container.memory_kernel" Int "bytes" "Kernel memory of the container that cannot be reclaimed, such as network buffers and page tables; unknown with cgroup version 1."
        = |s| count(s.stream.container.memory_kernel);
    "container.memory_kernel_reclaimable" Int "bytes" "Kernel memory of the container that the kernel reclaims when memory is needed, such as cached directory entries; unknown with cgroup version 1."
        = |s| count(s.stream.container.memory_kernel_reclaimable);
    "container.other_processes" Int "bytes" "Private memory of the other processes in the container, resident or swapped out; 0 without other processes. A lower bound if the container has more than 256 processes or 64 control groups."
        = |s| count(s.stream.container.other_processes);
    "container.largest_other" Text "" "Name of the other process in the container with the most private memory, at most 15 bytes; unknown without other processes."
        = |s| s.stream.container.largest_other.as_ref().map(|name| Value::Text(name.as_str()));
    "container.largest_other_bytes" Int "bytes" "Private memory of the process in `container.largest_other`; unknown without other processes."
        = |s| count(s.stream.container.largest_other_bytes);
    "container.memory_used_ratio" Double "ratio" "Working set relative to the limit, 0 to 1; unknown without a limit."
        = used;
    "container.oom_kills" Int "" "Number of processes of the container that were killed at the memory limit since the first attach."
        = |s| count(s.stream.container.oom_kills);
    "container.memory_limit_hits" Int "" "Number of times that the container reached its memory limit since the first attach."
        = |s| count(s.stream.container.memory_limit_hits);
    "container.memory_high_events" Int "" "Number of times since the first attach that processes of the container were throttled because usage exceeded memory.high; unknown with cgroup version 1."
        = |s| count(s.stream.container.memory_high_events);
    "container.cpu_limit" Double "" "CPU limit of the container; unknown without a limit."
        = |s| attribute(s, "gcwatch.container.cpu.limit");
    "container.cpu_periods" Int "" "Number of CPU limit periods in which the container ran since the first attach; unknown without a limit."
        = |s| count(s.stream.container.cpu_periods);
    "container.throttled_periods" Int "" "Number of periods since the first attach in which the container was CPU-throttled."
        = |s| count(s.stream.container.throttled_periods);
    "container.throttled_s" Double "s" "CPU-throttled time since the first attach, summed over the CPUs of the container."
        = |s| s.stream.container.throttled_ns.map(|ns| Value::Double(ns as f64 / 1e9));
    "container.throttled_ratio" Double "ratio" "Ratio of throttled periods between the last two readings, 0 to 1; unknown without a CPU limit."
        = |s| s.stream.container.throttled_ratio.map(Value::Double);
    "host.load" Double "" "Average number of tasks of the host that ran or waited for a CPU in the last minute. Read every 15 s; unknown in a recording."
        = |s| s.stream.host.load.map(Value::Double);
    "host.cpus" Int "" "Number of CPUs of the host."
        = |s| count(s.stream.host.cpus);
    "host.committed" Int "bytes" "Memory that the processes of the host have committed. Known only if the kernel limits it (vm.overcommit_memory is 2)."
        = |s| count(s.stream.host.committed_as);
    "host.commit_limit" Int "bytes" "Maximum memory that the processes of the host can commit: allocations beyond it fail. Known only if vm.overcommit_memory is 2."
        = |s| count(s.stream.host.commit_limit);
    "container.id" Text "" "Id of the container; unknown outside a container."
        = |s| attribute(s, "container.id");
    "container.image" Text "" "Image of the container, without tag and digest; known with Kubernetes metadata."
        = |s| attribute(s, "container.image.name");
    "container.name" Text "" "Name of the container in its pod; known with Kubernetes metadata."
        = |s| attribute(s, "k8s.container.name");
    "container.pod" Text "" "Name of the pod; known with Kubernetes metadata."
        = |s| attribute(s, "k8s.pod.name");
    "container.namespace" Text "" "Namespace of the pod; known with Kubernetes metadata."
        = |s| attribute(s, "k8s.namespace.name");
}

/// Minimum number of requests for a share. A share of fewer requests is not meaningful.
const MIN_REQUESTS: u64 = 20;

fn touched_share<'a>(scope: &Scope<'a>) -> Option<Value<'a>> {
    let requests = scope
        .stream
        .requests
        .filter(|requests| requests.judged >= MIN_REQUESTS)?;
    Some(Value::Double(requests.touched as f64 / requests.judged as f64))
}

fields! { STREAM_FIELDS Stream
    "stream.events" Int "" "Events delivered since the first attach."
        = |s| count(s.stream.events);
    "stream.lost_events" Int "" "Events that the runtime dropped since the first attach; unknown if its events have no sequence numbers."
        = |s| count(s.stream.lost_events);
    "stream.undecodable" Int "" "Events with undecodable payload since the first attach."
        = |s| count(s.stream.undecodable);
    "stream.sessions" Int "" "Number of sessions since the first attach; more than 1 after a reconnect."
        = |s| count(s.stream.sessions);
    "stream.lag_s" Double "s" "Delay from the end of the newest collection until gcwatch processed it. Unknown in a recording."
        = |s| s.stream.lag_ns.map(|ns| Value::Double(ns as f64 / 1e9));
    "stream.silent_s" Double "s" "Seconds since the newest event of a collection; unknown before the first collection, and while gcwatch is behind."
        = |s| age(s, s.stream.newest.filter(|_| !s.stream.behind));
    "process.finalizers_waiting" Int "" "Number of objects that collections found dead and whose finalizers have not run. Unknown before the first finalizer of a session, after a loss of events, and on NativeAOT 8 and 9, which do not report finalizers."
        = |s| count(s.stream.finalizers_waiting);
 "process.finalizer_cpu" Double "ratio" "Share of the time in which the finalizer thread ran, 0 to 1: high while a finalizer loops, 0 while it waits. Read every 5 s while a round takes longer than 5 s; otherwise unknown. Also unknown on .NET Core 3.1, whose threads have no names, and in a recording."
        = |s| s.stream.finalizer_cpu.filter(|_| !s.stream.behind).map(Value::Double);
    "process.requests_touched_share" Double "ratio" "Share of the requests of the last minute that a collection stopped, 0 to 1. Unknown with fewer than 20 requests in that minute, unless `requests.mode` is on for the process, and in a recording."
        = touched_share;
    "process.memory" Int "bytes" "Resident memory of the process (RSS), including files. Read every 15 s, like the next field; unknown in a recording."
        = |s| count(s.stream.memory.resident);
    "process.memory_private" Int "bytes" "Private memory of the process, resident or swapped out, without files. The heap is part of it."
        = |s| count(s.stream.memory.private);
    "process.memory_native" Int "bytes" "Lower bound of the native part of the private memory: the excess over the memory that the collector has made writable. Known for a process that grows between collections (figures of collections are better), on .NET 7 and later; unknown in a recording."
        = |s| count(s.stream.memory.native);
    "process.age_s" Double "s" "Time since the process started. Unknown in a recording."
        = |s| age(s, s.stream.started);
    "process.exit" Text "" ["in order", "abrupt"] "How the process ended: the runtime closed its event stream, or the stream broke off because the process was killed or an unhandled exception ended it. Known only in the last evaluation of the rules, after the exit."
        = |s| text(s.stream.exit.map(Exit::name));
    "process.memory_level" Double "ratio" "Private memory relative to the memory limit of the container, 0 to 1. Unknown without a limit and in a recording."
        = |s| s.stream.trends.process.level.map(Value::Double);
    "process.memory_trend" Double "bytes per hour" "Growth of private memory over the last five minutes, without heap bytes that no full collection has visited: the slope of the lower envelope, so memory that is released again does not count. 0 if the memory does not grow. In a recording, the growth of the heap's live bytes. Unknown in the first minute, and after 100 s without a collection."
        = |s| pace(s.stream.trends.process.per_minute);
    "process.memory_trend_1h" Double "bytes per hour" "Growth of private memory over the last hour. Unknown in the first ten minutes."
        = |s| pace(s.stream.trends.process.slow_per_minute);
    "process.memory_trend_s" Double "s" "Age of the growth; 0 if the memory does not grow."
        = |s| trend_age(s, &s.stream.trends.process);
    "process.memory_trend_1h_s" Double "s" "Age of the growth over the last hour; 0 if the memory does not grow."
        = |s| slow_age(s, &s.stream.trends.process);
    "container.memory_level" Double "ratio" "Memory of the container that the kernel cannot reclaim (`container.memory_held`), relative to its limit, 0 to 1. Unknown without a limit and in a recording."
        = |s| s.stream.trends.container.level.map(Value::Double);
    "container.memory_trend" Double "bytes per hour" "Growth of that memory over the last five minutes, without the heap bytes of the process that no full collection has visited: the slope of the lower envelope, so memory that is released again does not count. 0 if the memory does not grow. Unknown in the first minute and in a recording."
        = |s| pace(s.stream.trends.container.per_minute);
    "container.memory_trend_s" Double "s" "Age of that growth; 0 if the memory does not grow."
        = |s| trend_age(s, &s.stream.trends.container);
    "process.heap_level" Double "ratio" "Live bytes of the heap after the newest full collection, relative to `process.heap_limit`, 0 to 1. Unknown without a limit, and before the first full collection."
        = |s| s.stream.trends.heap.level.map(Value::Double);
    "process.heap_visited" Int "bytes" "Live bytes of the heap after the newest full collection. Unknown before the first one."
        = |s| count(s.stream.trends.heap.bytes);
    "process.heap_unvisited" Int "bytes" "Bytes of objects that the heap gained since the newest full collection: no full collection has visited them, and they may be dead. Before the first full collection, since the first collection. Unknown before that."
        = |s| count(s.stream.trends.unvisited);
    "process.heap_trend" Double "bytes per hour" "Growth of the live bytes after full collections over the last five minutes, 0 if they do not grow. Unknown in the first minute after the first full collection."
        = |s| pace(s.stream.trends.heap.per_minute);
    "process.heap_trend_1h" Double "bytes per hour" "Growth of the live bytes after full collections over the last hour. Unknown in the first ten minutes."
        = |s| pace(s.stream.trends.heap.slow_per_minute);
    "process.heap_trend_s" Double "s" "Age of that growth; 0 if the memory does not grow."
        = |s| trend_age(s, &s.stream.trends.heap);
    "process.heap_trend_1h_s" Double "s" "Age of the growth over the last hour; 0 if the memory does not grow."
        = |s| slow_age(s, &s.stream.trends.heap);
    "process.full_collection_s" Double "s" "Time since the newest full collection; if none was observed, since the first collection. Unknown before that."
        = |s| age(s, s.stream.trends.full_collection);
    "process.full_kept_away" Bool "" "Whether the latency mode prevents full collections: `LowLatency`, or a no-GC region. Unknown before the first collection."
        = |s| s.stream.trends.is_full_kept_away.map(Value::Bool);
    "process.threads" Int "" "Number of threads, including native threads. Read every 15 s; unknown in a recording."
        = |s| count(s.stream.memory.threads);
    "process.address_space" Int "bytes" "Address space of the process (VmSize), including memory that is only reserved. Read every 15 s; unknown in a recording."
        = |s| count(s.stream.memory.address_space);
    "process.address_space_limit" Int "bytes" "Limit of the address space (`ulimit -v`); unknown without a limit, and in a recording."
        = |s| count(s.stream.memory.address_space_limit);
    "open.stop_s" Double "s" "Time for which the threads have been suspended for the GC; 0 if they run. Unknown while gcwatch is behind: after gcwatch was stopped or had no CPU, until it has read the events of that time."
        = |s| open(s, s.stream.open.stop);
    "open.collection_s" Double "s" "Time for which a blocking or foreground collection has been in progress; 0 if there is no such collection. Unknown if `open.stop_s` is unknown."
        = |s| open(s, s.stream.open.collection);
    "open.stopped_s" Double "s" "Time for which the process has been stopped for the GC: the longer of `open.stop_s` and `open.collection_s`. Unknown if `open.stop_s` is unknown."
        = |s| open(s, stopped_since(s));
    "open.stopped_ns" Int "ns" "The same in nanoseconds."
        = |s| {
            let ns = stopped_since(s).map_or(0, |begun| s.now.since(begun));
            Some(Value::Int(i64::try_from(ns).ok()?)).filter(|_| !s.stream.behind)
        };
    "open.requested_by_tool" Bool "" "Whether a tool requested the collection in progress for a heap dump. The process resumes when the tool reads or exits. Unknown if no collection is in progress, and if the requester is unknown."
        = |s| s.stream.open.requested_by_tool.filter(|_| !s.stream.behind).map(Value::Bool);
    "open.background_s" Double "s" "Time for which a background collection has been in progress; 0 if there is no such collection. Unknown if `open.stop_s` is unknown."
        = |s| open(s, s.stream.open.background);
    "open.finalizers_s" Double "s" "Time for which the finalizer thread has been running finalizers without finishing; 0 if it waits for work. Unknown if `process.finalizers_waiting` is unknown."
        = finalizers;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::{Field, ProcessFacts, RequestFacts, StreamFacts};

    /// Scenario: requests are not observed; the last minute has 19 requests; the last minute has 40 requests, 10 of
    /// which a collection stopped.
    /// Guarantee: the share is unknown with fewer than 20 requests, and otherwise exact.
    #[test]
    fn share_of_requests_needs_20_requests() {
        let share = |judged: Option<(u64, u64)>| {
            let stream = StreamFacts {
                requests: judged.map(|(judged, touched)| RequestFacts { judged, touched }),
                ..StreamFacts::default()
            };
            let process = ProcessFacts::default();
            let scope = Scope::new(&process, &stream, Moment::from_ns(1));
            match Field::find("process.requests_touched_share").unwrap().read(&scope)? {
                Value::Double(share) => Some(share),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(share(None), None);
        assert_eq!(share(Some((19, 19))), None);
        assert_eq!(share(Some((40, 10))), Some(0.25));
    }
}
