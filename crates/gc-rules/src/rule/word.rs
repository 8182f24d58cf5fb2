//! Severity, status and occasion of a rule: one type each, for rule files, their schema, tests of rules, records and
//! messages.

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
        /// Something does not work as it should.
        Error = "error",
        /// Immediate action needed.
        Critical = "critical",
    }
}

words! {
    /// What the rule is for. Without a role its alert begins an incident, as that of a symptom.
    pub enum Role {
        /// Harm, measured where it is felt. It begins an incident, which has its name, beginning and severity.
        Symptom = "symptom",
        /// An explanation of symptoms: listed in their incidents by what it explains of them. It begins no incident.
        Cause = "cause",
        /// Worth knowing for whoever looks at the process. It is a part of no incident.
        Note = "note",
    }
}

words! {
    /// The unit of a harm.
    pub enum HarmUnit {
        /// Nanoseconds, of stopped time.
        Nanoseconds = "ns",
        /// Bytes.
        Bytes = "bytes",
        /// Bytes a minute.
        BytesPerMinute = "bytes/min",
    }
}

words! {
    /// How reliable the rule is.
    #[derive(Default)]
    pub enum Status {
        /// Reliable; its threshold is proven.
        Stable = "stable",
        /// Believed to be reliable.
        Test = "test",
        /// Its threshold is a first guess.
        #[default]
        Experimental = "experimental",
        /// Will be removed; its description names the replacement.
        Deprecated = "deprecated",
    }
}

words! {
    /// When the condition is evaluated.
    #[derive(Default)]
    pub enum On {
        /// At each collection, on it. Each match is an occurrence; the alert ends `keep_firing_for` after the last one.
        Gc = "gc",
        /// On the process: once a second, at each collection (of generation 0 and 1 unless another one was less than a
        /// second before), when more is known of it, and when it ends. The alert lasts as long as the condition.
        #[default]
        Process = "process",
        /// On a service of this host, once a second: over its processes that live and those that ended.
        Service = "service",
        /// On gcwatch itself, once a second.
        Watcher = "watcher",
    }
}

words! {
    /// What a service is divided by.
    pub enum Division {
        /// Its processes of one `service.version`, or, where that is unknown, of one image.
        ServiceVersion = "service.version",
    }
}

impl On {
    /// What such a rule is about: a process, a service, gcwatch itself.
    pub fn subject(self) -> Self {
        match self {
            Self::Gc | Self::Process => Self::Process,
            Self::Service => Self::Service,
            Self::Watcher => Self::Watcher,
        }
    }
}

words! {
    /// What is gathered for an incident.
    #[derive(PartialOrd, Ord)]
    pub enum Evidence {
        /// Where the memory of the process is.
        Ledger = "ledger",
        /// The last seconds of its event stream, and the first ones of the incident.
        BlackBox = "black-box",
        /// Who makes it collect: a burst of seconds with stacks.
        Callers = "callers",
        /// Who allocates: the same.
        Allocations = "allocations",
        /// What its threads do: the same.
        Stacks = "stacks",
        /// What lives, what holds it, and what grew: two heap dumps, some minutes apart.
        Census = "census",
    }
}
