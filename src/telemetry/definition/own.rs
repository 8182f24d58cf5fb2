//! What gcwatch tells of its own work: with the resource of the process that it reads, and with its own.

use super::{attributes, metrics};

attributes! {
    STATE "gcwatch.target.state" Text Own
        "What is done with a process: `attached`, `unattachable`, `excluded`, `held_elsewhere`, `over_limit` ..."
        from "gcwatch"
    SIGNAL "gcwatch.signal" Text Own
        "`traces`, `metrics` or `logs`."
        from "gcwatch"
    OUTCOME "gcwatch.outcome" Text Own
        "What came of it: of a request `accepted`, `partial`, `unavailable`, `timed_out`, `unreachable`, `refused`, `too_large`, `unsupported`; of a reload `accepted`, `refused`."
        from "gcwatch"
    ERROR_TYPE "error.type" Text Stable
        "Why an item was dropped: `queue_full`, `expired`, `refused`, `too_large`, `unsupported`, `disabled`, `shutdown`."
        from "gcwatch"
    CPU_MODE "cpu.mode" Text Development
        "`user` or `system`."
        from "/proc/self/stat"
}

/// With the resource of the process that is read.
pub mod target {
    use super::metrics;

    metrics! { METRICS
        EVENTS "gcwatch.events" "{event}" Counter [] Own
            "Events that were read."
            from "gcwatch"
        UNDECODABLE "gcwatch.events.undecodable" "{event}" Counter [] Own
            "Events of a known kind whose payload was too short."
            from "gcwatch"
        SIZE "gcwatch.stream.size" "By" Counter [] Own
            "Bytes of the process's streams that were read."
            from "gcwatch"
        SESSIONS "gcwatch.sessions" "{session}" Counter [] Own
            "Sessions begun in the process: more than one means that it was attached to again."
            from "gcwatch"
        LAG "gcwatch.lag" "s" Gauge [] Own
            "How long after its end the newest collection was told. Up to 0.2 s are waited for events that come late."
            from "GCEnd, the host's clock"
    }
}

metrics! { METRICS
    CPU_TIME "process.cpu.time" "s" Counter [CPU_MODE] Development
        "CPU time that gcwatch used."
        from "/proc/self/stat"
    MEMORY "process.memory.usage" "By" UpDownCounter [] Development
        "Physical memory that gcwatch uses."
        from "/proc/self/stat"
    THREADS "process.thread.count" "{thread}" UpDownCounter [] Development
        "Threads of gcwatch."
        from "/proc/self/stat"
    DESCRIPTORS "process.unix.file_descriptor.count" "{file_descriptor}" UpDownCounter [] Development
        "Open file descriptors of gcwatch."
        from "/proc/self/fd"
    TARGETS "gcwatch.targets" "{process}" Gauge [STATE] Own
        "The .NET processes of the host, by what is done with them."
        from "gcwatch"
    TARGETS_REFUSED "gcwatch.targets.refused" "{process}" Counter [] Own
        "Attempts to tell of a process when there were as many as may be."
        from "gcwatch"
    COLLECTIONS "gcwatch.collections" "{collection}" Counter [] Own
        "Collections told, of all processes."
        from "gcwatch"
    SPANS "gcwatch.spans" "{span}" Counter [] Own
        "Spans made, of all processes."
        from "gcwatch"
    RELOADS "gcwatch.config.reloads" "{reload}" Counter [OUTCOME] Own
        "Reloads of the configuration."
        from "gcwatch"
    QUEUE_ITEMS "gcwatch.export.queue.items" "{item}" Gauge [SIGNAL] Own
        "Spans, data points and log records that wait to be sent."
        from "gcwatch"
    QUEUE_SIZE "gcwatch.export.queue.size" "By" Gauge [SIGNAL] Own
        "Encoded bytes of what waits to be sent."
        from "gcwatch"
    EXPORTED "gcwatch.export.items" "{item}" Counter [SIGNAL] Own
        "Items that a receiver accepted."
        from "gcwatch"
    REJECTED "gcwatch.export.rejected" "{item}" Counter [SIGNAL] Own
        "Items that a receiver rejected while it accepted others of the same request."
        from "OTLP's partial success"
    DROPPED "gcwatch.export.dropped" "{item}" Counter [SIGNAL, ERROR_TYPE] Own
        "Items that no receiver had."
        from "gcwatch"
    REQUESTS "gcwatch.export.requests" "{request}" Counter [SIGNAL, OUTCOME] Own
        "Requests to receivers, by what came of them."
        from "gcwatch"
    RETRIES "gcwatch.export.retries" "{request}" Counter [SIGNAL] Own
        "Requests that repeated one before."
        from "gcwatch"
    EXPORTED_SIZE "gcwatch.export.size" "By" Counter [SIGNAL] Own
        "Encoded bytes of the requests that were accepted, before compression."
        from "gcwatch"
    UNSUPPORTED "gcwatch.export.unsupported" "1" Gauge [SIGNAL] Own
        "1 while the receiver does not take the signal."
        from "gcwatch"
}
