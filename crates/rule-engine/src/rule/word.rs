//! Severity, role, status, trigger and other keywords of rules: one type each, used by rule files, their schema, tests
//! of rules, records and messages.

use base::words;

words! {
    /// Severity of the alert, in ascending order.
    #[derive(Default, PartialOrd, Ord)]
    pub enum Severity {
        /// Worth knowing; no action needed.
        #[default]
        Info = "info",
        /// Should be investigated in working hours.
        Warning = "warning",
        /// A part of the service does not work as it should.
        Error = "error",
        /// Immediate action needed.
        Critical = "critical",
    }
}

words! {
    /// Role of the rule. The alert of a rule without a role starts an incident, like the alert of a symptom.
    pub enum Role {
        /// Harm, measured where it has its effect. A symptom starts an incident, which takes its name, start and
        /// severity from it.
        Symptom = "symptom",
        /// An explanation of symptoms, listed in their incidents with the share that it explains. A cause starts no
        /// incident.
        Cause = "cause",
        /// Information for users who examine the process. A note is not part of an incident.
        Note = "note",
    }
}

words! {
    /// The unit of a harm.
    pub enum HarmUnit {
        /// Nanoseconds of stopped time.
        Nanoseconds = "ns",
        /// Bytes.
        Bytes = "bytes",
        /// Bytes per minute.
        BytesPerMinute = "bytes/min",
    }
}

words! {
    /// Reliability of the rule.
    #[derive(Default)]
    pub enum Status {
        /// Reliable; its threshold is proven.
        Stable = "stable",
        /// Believed to be reliable.
        Test = "test",
        /// The threshold is an initial estimate.
        #[default]
        Experimental = "experimental",
        /// Will be removed; its description names the replacement.
        Deprecated = "deprecated",
    }
}

words! {
    /// Time at which the condition is evaluated.
    #[derive(Default)]
    #[schemars(rename = "On")]
    pub enum EvaluationTrigger {
        /// For a collection: at each collection. Each match is an occurrence. The alert ends `keep_firing_for` after
        /// the last occurrence.
        Gc = "gc",
        /// For the process: once per second, at each collection (of generation 0 and 1 only if the previous one was at
        /// least one second before), when facts about the process change, and when it ends. The alert lasts as long as
        /// the condition.
        #[default]
        Process = "process",
        /// For a service on this host, once per second: across its running processes and those that have ended.
        Service = "service",
        /// For gcwatch itself, once per second.
        Watcher = "watcher",
    }
}

words! {
    /// Criterion by which a service is divided.
    pub enum Division {
        /// Processes with the same `service.version` or, if it is unknown, with the same image.
        ServiceVersion = "service.version",
    }
}

impl EvaluationTrigger {
    /// Returns the subject of a rule with this trigger: a process, a service, or gcwatch itself.
    pub fn subject(self) -> Self {
        match self {
            Self::Gc | Self::Process => Self::Process,
            Self::Service => Self::Service,
            Self::Watcher => Self::Watcher,
        }
    }
}

words! {
    /// Evidence that is gathered for an incident.
    #[derive(PartialOrd, Ord)]
    pub enum Evidence {
        /// Memory ledger of the process.
        Ledger = "ledger",
        /// Recording of the last seconds of the event stream before the incident, and of the first seconds after its
        /// start.
        BlackBox = "black-box",
        /// Callers that make the process collect, from a burst of a few seconds with stacks.
        Callers = "callers",
        /// Callers that allocate, from a burst of a few seconds with stacks.
        Allocations = "allocations",
        /// Activity of the threads, from a burst of a few seconds with stacks.
        Stacks = "stacks",
        /// Live objects, their holders, and their growth, from two heap dumps some minutes apart.
        Census = "census",
    }
}
