//! What an event session is asked for, and which forms of CollectTracing can express it.

mod layout;

use super::command::CollectVersion;
use super::error::MessageError;

/// The provider of the runtime's own events.
pub const RUNTIME_PROVIDER: &str = "Microsoft-Windows-DotNETRuntime";
/// Keywords of [`RUNTIME_PROVIDER`] that disturb the target: 0x800000 (GCHeapCollect) forces a full collection when the
/// session starts, 0x100000 (GCHeapDump) and 0x400000 (GCHeapSurvivalAndMovement) make every collection walk the heap.
pub const INDUCING_KEYWORDS: u64 = 0x80_0000 | 0x10_0000 | 0x40_0000;
/// The keyword of a default rundown, which CollectTracing2 and 3 mean by "true".
pub const DEFAULT_RUNDOWN_KEYWORD: u64 = 0x8002_0139;
/// Most providers that a runtime takes in one session.
pub const MAX_PROVIDERS: usize = 1000;
/// Default upper limit of the target's event buffers in megabytes. It is the target's memory; garbage collection events
/// at Informational level need far less.
pub const DEFAULT_BUFFER_MB: u32 = 8;

/// An event session to ask a runtime for.
///
/// The defaults are those that disturb the target least: no rundown, no stacks, a small buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionConfig {
    /// Upper limit of the event buffers in the target's memory, in megabytes. A full buffer drops new events.
    pub buffer_mb: u32,
    /// What the runtime sends about loaded code when the session ends.
    pub rundown: Rundown,
    /// Whether each event carries a call stack. Off is possible from .NET 9; older runtimes always collect them
    /// ([`Compromise::StacksIncluded`]).
    pub stacks: bool,
    /// Whose events, which groups of them, in which detail.
    pub providers: Vec<Provider>,
    /// What the runtime does while the buffers are full.
    pub when_full: WhenFull,
    /// Lets the [`INDUCING_KEYWORDS`] through. False unless a full collection in the target is what is wanted.
    pub allow_inducing_keywords: bool,
}

/// What the runtime does while the buffers of a session are full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenFull {
    /// It drops new events.
    #[default]
    Drop,
    /// The thread that writes waits until the session is read, and in a collection so do all threads: whoever asks for
    /// this must read without a rest. Possible from .NET 11; older runtimes drop ([`Compromise::Drops`]). Never for a
    /// standing session.
    Block,
}

/// What the runtime sends about loaded code when a session ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rundown {
    /// Nothing: the session ends quickly and the stream stays small. Garbage collection events need no rundown.
    #[default]
    None,
    /// The default one, [`DEFAULT_RUNDOWN_KEYWORD`]: 100-300 KB for a small program.
    Default,
    /// This keyword of the rundown provider. Possible from .NET 9; older runtimes get the default one
    /// ([`Compromise::DefaultRundown`]). Keyword 0 is no rundown.
    Keyword(u64),
}

/// One provider of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provider {
    /// Its name, for example [`RUNTIME_PROVIDER`].
    pub name: String,
    /// Bits that choose groups of events.
    pub keywords: u64,
    /// 0 (always) to 5 (verbose); 4 is informational.
    pub level: u32,
    /// Provider-specific `key=value` pairs, separated by `;`.
    pub arguments: Option<String>,
    /// Which event ids, out of those that keywords and level let through. Possible from .NET 10; older runtimes send
    /// all ([`Compromise::NoEventFilter`]).
    pub filter: Option<EventFilter>,
}

/// A choice of event ids.
///
/// Seen on 10.0.14: without GCStart and GCEnd (`Except(vec![1, 2])`) the runtime also leaves out HeapStats, the
/// histories and the marks of the same collections; leaving out MarkWithType (202) touches nothing else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventFilter {
    /// These ids and no others.
    Only(Vec<u32>),
    /// All but these ids.
    Except(Vec<u32>),
}

/// What a session gives other than what was asked for, because the runtime is too old to be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Compromise {
    /// Stacks are collected although they were not wanted.
    StacksIncluded,
    /// The default rundown is sent in place of the chosen one.
    DefaultRundown,
    /// Events are not filtered by id.
    NoEventFilter,
    /// Events are dropped while the buffers are full.
    Drops,
}

impl Default for SessionConfig {
    fn default() -> Self {
        Self {
            buffer_mb: DEFAULT_BUFFER_MB,
            rundown: Rundown::None,
            stacks: false,
            providers: Vec::new(),
            when_full: WhenFull::default(),
            allow_inducing_keywords: false,
        }
    }
}

impl Provider {
    /// A provider with keywords and level, all event ids and no arguments.
    pub fn new(name: impl Into<String>, keywords: u64, level: u32) -> Self {
        Self {
            name: name.into(),
            keywords,
            level,
            arguments: None,
            filter: None,
        }
    }
}

impl Rundown {
    /// The keyword that the runtime is asked for; 0 is no rundown.
    pub const fn keyword(self) -> u64 {
        match self {
            Self::None => 0,
            Self::Default => DEFAULT_RUNDOWN_KEYWORD,
            Self::Keyword(keyword) => keyword,
        }
    }

    const fn from_keyword(keyword: u64) -> Self {
        match keyword {
            0 => Self::None,
            DEFAULT_RUNDOWN_KEYWORD => Self::Default,
            keyword => Self::Keyword(keyword),
        }
    }
}

impl SessionConfig {
    /// Garbage collection events (keyword 0x1) at Informational level: the cheapest session that has every
    /// collection.
    pub fn garbage_collection() -> Self {
        Self {
            providers: vec![Provider::new(RUNTIME_PROVIDER, 0x1, 4)],
            ..Self::default()
        }
    }

    /// Whether a runtime may be asked for this.
    ///
    /// # Errors
    /// What the runtime would refuse (no provider, no name, level, buffer), and [`MessageError::InducingKeywords`].
    pub fn check(&self) -> Result<(), MessageError> {
        if self.buffer_mb == 0 {
            return Err(MessageError::NoBuffer);
        }
        if self.providers.is_empty() || self.providers.len() > MAX_PROVIDERS {
            return Err(MessageError::ProviderCount {
                count: self.providers.len(),
                limit: MAX_PROVIDERS,
            });
        }
        for (index, provider) in self.providers.iter().enumerate() {
            if provider.name.is_empty() {
                return Err(MessageError::ProviderName { index });
            }
            if provider.level > 5 {
                return Err(MessageError::Level {
                    provider: provider.name.clone(),
                    level: provider.level,
                });
            }
            let inducing = provider.keywords & INDUCING_KEYWORDS;
            let runtime = provider.name.eq_ignore_ascii_case(RUNTIME_PROVIDER);
            if runtime && inducing != 0 && !self.allow_inducing_keywords {
                return Err(MessageError::InducingKeywords {
                    provider: provider.name.clone(),
                    keywords: inducing,
                });
            }
        }
        Ok(())
    }

    /// The forms of the command to try, best first: the oldest that can express everything, then older ones, which can
    /// express less. An older form than needed is never tried first: plain sessions work on every runtime at once.
    pub fn versions(&self) -> &'static [CollectVersion] {
        use CollectVersion::{V2, V3, V4, V5, V6};
        let all = &[V6, V5, V4, V3, V2];
        let fits = |version: &&CollectVersion| self.compromises(**version).is_empty();
        let best = all.iter().rev().find(fits).copied().unwrap_or(V6);
        let from = all.iter().position(|version| *version == best).unwrap_or(0);
        all.get(from..).unwrap_or(all)
    }

    /// What this form of the command cannot express of the configuration.
    pub fn compromises(&self, version: CollectVersion) -> Vec<Compromise> {
        let mut compromises = Vec::new();
        if version < CollectVersion::V3 && !self.stacks {
            compromises.push(Compromise::StacksIncluded);
        }
        let plain = matches!(self.rundown.keyword(), 0 | DEFAULT_RUNDOWN_KEYWORD);
        if version < CollectVersion::V4 && !plain {
            compromises.push(Compromise::DefaultRundown);
        }
        if version < CollectVersion::V5 && self.providers.iter().any(|provider| provider.filter.is_some()) {
            compromises.push(Compromise::NoEventFilter);
        }
        if version < CollectVersion::V6 && self.when_full == WhenFull::Block {
            compromises.push(Compromise::Drops);
        }
        compromises
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: sessions that need ever newer forms.
    /// Guarantee: the first form tried is the oldest that can express the session; older ones follow and say what is
    /// lost.
    #[test]
    fn the_oldest_sufficient_form_comes_first() {
        use CollectVersion::{V2, V3, V4, V5, V6};
        let mut config = SessionConfig::garbage_collection();
        assert_eq!(config.versions(), [V3, V2]);
        assert_eq!(config.compromises(V2), [Compromise::StacksIncluded]);
        config.stacks = true;
        assert_eq!(config.versions(), [V2]);
        config.rundown = Rundown::Keyword(DEFAULT_RUNDOWN_KEYWORD);
        assert_eq!(config.versions(), [V2], "the default rundown, spelt out");
        config.rundown = Rundown::Keyword(0x10);
        assert_eq!(config.versions(), [V4, V3, V2]);
        assert_eq!(config.compromises(V3), [Compromise::DefaultRundown]);
        config.providers[0].filter = Some(EventFilter::Only(vec![1, 2]));
        assert_eq!(config.versions(), [V5, V4, V3, V2]);
        assert_eq!(config.compromises(V4), [Compromise::NoEventFilter]);
        assert_eq!(config.compromises(V5), []);
        config.when_full = WhenFull::Block;
        assert_eq!(config.versions(), [V6, V5, V4, V3, V2]);
        assert_eq!(config.compromises(V5), [Compromise::Drops]);
        assert_eq!(config.compromises(V6), []);
    }

    /// Scenario: each keyword that induces collections, on the runtime's provider and on another one.
    /// Guarantee: refused on the runtime's provider unless allowed, whatever the case of its name; harmless elsewhere.
    #[test]
    fn keywords_that_induce_collections_are_refused() {
        for keyword in [0x80_0000, 0x10_0000, 0x40_0000] {
            let mut config = SessionConfig::garbage_collection();
            config.providers[0].keywords |= keyword;
            for name in [RUNTIME_PROVIDER.to_owned(), RUNTIME_PROVIDER.to_lowercase()] {
                config.providers[0].name = name.clone();
                let error = MessageError::InducingKeywords {
                    provider: name,
                    keywords: keyword,
                };
                assert_eq!(config.encode(CollectVersion::V2), Err(error));
            }
            config.allow_inducing_keywords = true;
            assert_eq!(config.check(), Ok(()));
            config.allow_inducing_keywords = false;
            config.providers[0].name = "Other".into();
            assert_eq!(config.check(), Ok(()));
        }
    }

    /// Scenario: what the runtime would refuse.
    /// Guarantee: refused here, with the number that is out of range.
    #[test]
    fn sessions_that_no_runtime_takes_are_refused() {
        let good = SessionConfig::garbage_collection();
        let none = SessionConfig {
            providers: vec![],
            ..good.clone()
        };
        assert_eq!(none.check(), Err(MessageError::ProviderCount { count: 0, limit: 1000 }));
        let many = SessionConfig {
            providers: vec![good.providers[0].clone(); 1001],
            ..good.clone()
        };
        assert_eq!(
            many.check(),
            Err(MessageError::ProviderCount {
                count: 1001,
                limit: 1000
            })
        );
        let buffer = SessionConfig {
            buffer_mb: 0,
            ..good.clone()
        };
        assert_eq!(buffer.check(), Err(MessageError::NoBuffer));
        let nameless = SessionConfig {
            providers: vec![Provider::new("", 1, 4)],
            ..good.clone()
        };
        assert_eq!(nameless.check(), Err(MessageError::ProviderName { index: 0 }));
        let level = SessionConfig {
            providers: vec![Provider::new("P", 1, 6)],
            ..good.clone()
        };
        assert_eq!(
            level.check(),
            Err(MessageError::Level {
                provider: "P".into(),
                level: 6
            })
        );
        let nul = SessionConfig {
            providers: vec![Provider::new("P\0Q", 1, 4)],
            ..good
        };
        let error = MessageError::NulInString {
            writing: "a provider's name",
            at: 1,
        };
        assert_eq!(nul.encode(CollectVersion::V2), Err(error));
    }
}
