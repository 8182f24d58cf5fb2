//! The settings of an event session, and the variants of CollectTracing that can express them.

mod layout;

use super::command::CollectVersion;
use super::error::MessageError;

/// Provider of the runtime's events.
pub const RUNTIME_PROVIDER: &str = "Microsoft-Windows-DotNETRuntime";
/// Keywords of [`RUNTIME_PROVIDER`] that disturb the target: 0x800000 (GCHeapCollect) forces a full collection when the
/// session starts; 0x100000 (GCHeapDump) and 0x400000 (GCHeapSurvivalAndMovement) make every collection walk the heap.
pub const INDUCING_KEYWORDS: u64 = 0x80_0000 | 0x10_0000 | 0x40_0000;
/// Keyword of the default rundown. In CollectTracing2 and CollectTracing3, a boolean requests this rundown.
pub const DEFAULT_RUNDOWN_KEYWORD: u64 = 0x8002_0139;
/// Maximum number of providers that a runtime accepts in a session.
pub const MAX_PROVIDERS: usize = 1000;
/// Default maximum size of the target's event buffers, in MiB. The buffers are in the target's memory; garbage
/// collection events at Informational level need much less.
pub const DEFAULT_BUFFER_MB: u32 = 8;

/// Settings of an event session.
///
/// The defaults disturb the target least: no rundown, no stacks, a small buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionConfig {
    /// Maximum size of the event buffers in the target's memory, in MiB, at least 1. By default, new events are dropped
    /// while the buffers are full.
    pub buffer_mb: u32,
    /// Information about loaded code that the runtime sends when the session ends.
    pub rundown: Rundown,
    /// Whether each event contains a call stack. Stacks can be disabled since .NET 9; older runtimes always collect
    /// stacks ([`Compromise::StacksIncluded`]).
    pub stacks: bool,
    /// Providers with their groups of events and levels.
    pub providers: Vec<Provider>,
    /// Behaviour of the runtime while the buffers are full.
    pub when_full: WhenFull,
    /// Whether [`INDUCING_KEYWORDS`] are allowed. Set this only if a full collection in the target is intended.
    pub allow_inducing_keywords: bool,
}

/// Behaviour of the runtime while the buffers of a session are full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenFull {
    /// The runtime drops new events.
    #[default]
    Drop,
    /// The writing thread blocks until the session is read, and during a collection all threads block. The reader must
    /// therefore read continuously. Supported since .NET 11; older runtimes drop events ([`Compromise::Drops`]).
    /// Unsuitable for permanent sessions.
    Block,
}

/// Information about loaded code that the runtime sends when a session ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rundown {
    /// No information: the session ends quickly and the stream stays small. Garbage collection events need no rundown.
    #[default]
    None,
    /// The default rundown, [`DEFAULT_RUNDOWN_KEYWORD`]: 100 to 300 KB for a small program.
    Default,
    /// A rundown with this keyword of the rundown provider. Supported since .NET 9; older runtimes send the default
    /// rundown ([`Compromise::DefaultRundown`]). Keyword 0 means no rundown.
    Keyword(u64),
}

/// A provider of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provider {
    /// Name of the provider, for example [`RUNTIME_PROVIDER`].
    pub name: String,
    /// Bits that select groups of events.
    pub keywords: u64,
    /// Level from 0 (always) to 5 (verbose); 4 is informational.
    pub level: u32,
    /// Provider-specific `key=value` pairs, separated by `;`; `None` if the provider needs no arguments.
    pub arguments: Option<String>,
    /// Filter by event id, in addition to keywords and level; `None` for all event ids. Supported since .NET 10; older
    /// runtimes send all events ([`Compromise::NoEventFilter`]).
    pub filter: Option<EventFilter>,
}

/// A selection of event ids.
///
/// Measured with 10.0.14: without GCStart and GCEnd (`Except(vec![1, 2])`), the runtime also omits HeapStats, the
/// histories and the marks of the same collections. Excluding MarkWithType (202) has no side effects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventFilter {
    /// Include only these ids.
    Only(Vec<u32>),
    /// Include all ids except these.
    Except(Vec<u32>),
}

/// A difference between the requested and the actual session, because the runtime is too old.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Compromise {
    /// Stacks are collected although they were disabled.
    StacksIncluded,
    /// The runtime sends the default rundown instead of the requested rundown.
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
    /// Creates a provider with keywords and level, all event ids and no arguments.
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
    /// Returns the keyword of the rundown; 0 means no rundown.
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
    /// Returns a session with garbage collection events (keyword 0x1) at Informational level: the cheapest session that
    /// contains every collection.
    pub fn garbage_collection() -> Self {
        Self {
            providers: vec![Provider::new(RUNTIME_PROVIDER, 0x1, 4)],
            ..Self::default()
        }
    }

    /// Checks whether the session is valid and harmless.
    ///
    /// # Errors
    /// Returns [`MessageError::NoBuffer`], [`MessageError::ProviderCount`], [`MessageError::ProviderName`] or
    /// [`MessageError::Level`] for settings that the runtime would refuse. Returns [`MessageError::InducingKeywords`]
    /// if [`RUNTIME_PROVIDER`] has [`INDUCING_KEYWORDS`] that are not allowed.
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

    /// Returns the variants of the command to try, in order: the oldest variant that can express every setting, then
    /// older variants, which can express fewer settings. A newer variant than necessary is never tried first, so that
    /// simple sessions work on every runtime immediately.
    pub fn versions(&self) -> &'static [CollectVersion] {
        use CollectVersion::{V2, V3, V4, V5, V6};
        let all = &[V6, V5, V4, V3, V2];
        let fits = |version: &&CollectVersion| self.compromises(**version).is_empty();
        let best = all.iter().rev().find(fits).copied().unwrap_or(V6);
        let from = all.iter().position(|version| *version == best).unwrap_or(0);
        all.get(from..).unwrap_or(all)
    }

    /// Returns the settings that this variant of the command cannot express.
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

    /// Scenario: sessions require increasingly new variants.
    /// Guarantee: the first variant is the oldest variant that can express the session; older variants follow and list
    /// the settings that they lose.
    #[test]
    fn oldest_sufficient_variant_is_first() {
        use CollectVersion::{V2, V3, V4, V5, V6};
        let mut config = SessionConfig::garbage_collection();
        assert_eq!(config.versions(), [V3, V2]);
        assert_eq!(config.compromises(V2), [Compromise::StacksIncluded]);
        config.stacks = true;
        assert_eq!(config.versions(), [V2]);
        config.rundown = Rundown::Keyword(DEFAULT_RUNDOWN_KEYWORD);
        assert_eq!(config.versions(), [V2], "an explicit default rundown");
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

    /// Scenario: the keywords that induce collections are set on the runtime's provider and on another provider.
    /// Guarantee: the keywords are refused on the runtime's provider unless allowed, regardless of the case of its
    /// name; they are accepted on other providers.
    #[test]
    fn inducing_keyword_is_refused() {
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

    /// Scenario: sessions have settings that the runtime would refuse.
    /// Guarantee: the sessions are refused with the value that is out of range.
    #[test]
    fn invalid_session_is_refused() {
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
