//! Why bytes are no message, or why a request cannot become one.

/// Why bytes are no message, or why a request cannot become one.
///
/// It knows the message alone. Which process sent it and in answer to which command is added by [`crate::Error`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MessageError {
    /// The bytes do not start with the protocol's magic.
    #[error("byte {offset} of the {expected} magic is 0x{found:02x}: it is not a .NET runtime that listens there")]
    Magic {
        /// Name of the magic that was expected: `DOTNET_IPC_V1` or `ADVR_V1`.
        expected: &'static str,
        /// Offset of the first byte that differs.
        offset: usize,
        /// That byte.
        found: u8,
    },
    /// The size field of a header is smaller than the header.
    #[error("the size field (offset 14) says {size} bytes, fewer than the 20 of the header itself")]
    FrameSize {
        /// The size field.
        size: u16,
    },
    /// The payload ends inside a field.
    #[error("{reading} at offset {offset} of the payload needs {needed} bytes, {left} are left")]
    Short {
        /// The field.
        reading: &'static str,
        /// Where it starts in the payload.
        offset: usize,
        /// How many bytes it needs.
        needed: usize,
        /// How many there are.
        left: usize,
    },
    /// A number is outside of what the protocol allows or of what this library accepts.
    #[error("{reading} is {value}; {limit} is the limit")]
    Limit {
        /// The number.
        reading: &'static str,
        /// Its value.
        value: u64,
        /// The largest value that is accepted.
        limit: u64,
    },
    /// The command set and id are none that is expected here.
    #[error("command set 0x{set:02x}, id 0x{id:02x} came where {expected} was expected")]
    UnexpectedCommand {
        /// Command set.
        set: u8,
        /// Command id.
        id: u8,
        /// What was expected.
        expected: &'static str,
    },
    /// A string of a request holds a NUL, which would end it early in the runtime.
    #[error("{writing} holds a NUL character at character {at}")]
    NulInString {
        /// The string.
        writing: &'static str,
        /// Index of the character.
        at: usize,
    },
    /// The session asks for no provider, or for more than the runtime takes.
    #[error("a session needs 1 to {limit} providers, this one has {count}")]
    ProviderCount {
        /// Providers asked for.
        count: usize,
        /// The runtime's limit.
        limit: usize,
    },
    /// A provider without a name.
    #[error("provider {index} has no name")]
    ProviderName {
        /// Index in the list of providers.
        index: usize,
    },
    /// A level above 5 (verbose).
    #[error("provider {provider} asks for level {level}; levels are 0 (always) to 5 (verbose)")]
    Level {
        /// The provider.
        provider: String,
        /// The level asked for.
        level: u32,
    },
    /// A buffer of no size.
    #[error("a session needs a buffer of at least 1 MB")]
    NoBuffer,
    /// Keywords that would make the target collect garbage or walk its heap.
    #[error(
        "keywords 0x{keywords:x} of {provider} make the target run garbage collections or walk its heap; leave them \
         out, or set allow_inducing_keywords if that is wanted"
    )]
    InducingKeywords {
        /// The provider.
        provider: String,
        /// The offending bits.
        keywords: u64,
    },
}
