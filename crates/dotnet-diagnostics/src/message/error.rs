//! Errors of messages that cannot be decoded or encoded.

/// Error returned if bytes are not a valid message, or if a request cannot be encoded.
///
/// The error describes only the message. [`crate::Error`] adds the process and the command.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MessageError {
    /// The bytes do not start with the protocol's magic.
    #[error("byte {offset} of the {expected} magic is 0x{found:02x}: the listener is not a .NET runtime")]
    Magic {
        /// Name of the expected magic: `DOTNET_IPC_V1` or `ADVR_V1`.
        expected: &'static str,
        /// Offset of the first byte that differs.
        offset: usize,
        /// Value of that byte.
        found: u8,
    },
    /// The size field of a header is smaller than the header.
    #[error("the size field (offset 14) is {size} bytes, less than the header of 20 bytes")]
    FrameSize {
        /// Value of the size field.
        size: u16,
    },
    /// The payload ends inside a field.
    #[error("{reading} at offset {offset} of the payload needs {needed} bytes, but only {left} are left")]
    Short {
        /// Name of the field.
        reading: &'static str,
        /// Offset of the field in the payload.
        offset: usize,
        /// Number of bytes required.
        needed: usize,
        /// Number of bytes available.
        left: usize,
    },
    /// A number exceeds a limit of the protocol or of this crate.
    #[error("{reading} is {value}; the limit is {limit}")]
    Limit {
        /// Name of the number.
        reading: &'static str,
        /// Value of the number.
        value: u64,
        /// Maximum accepted value.
        limit: u64,
    },
    /// The command set and id are not expected here.
    #[error("received command set 0x{set:02x}, id 0x{id:02x}; expected {expected}")]
    UnexpectedCommand {
        /// Command set.
        set: u8,
        /// Command id.
        id: u8,
        /// The expected message.
        expected: &'static str,
    },
    /// A string of a request contains a NUL, which would terminate it in the runtime.
    #[error("{writing} contains a NUL at character {at}")]
    NulInString {
        /// Name of the string.
        writing: &'static str,
        /// Index of the character.
        at: usize,
    },
    /// The session has no providers, or more than the runtime accepts.
    #[error("a session needs 1 to {limit} providers; this session has {count}")]
    ProviderCount {
        /// Number of providers in the session.
        count: usize,
        /// Limit of the runtime.
        limit: usize,
    },
    /// A provider has no name.
    #[error("provider {index} has no name")]
    ProviderName {
        /// Index in the list of providers.
        index: usize,
    },
    /// A level is above 5 (verbose).
    #[error("provider {provider} has level {level}; valid levels are 0 (always) to 5 (verbose)")]
    Level {
        /// Name of the provider.
        provider: String,
        /// Level of the provider.
        level: u32,
    },
    /// The buffer size is zero.
    #[error("a session needs a buffer of at least 1 MB")]
    NoBuffer,
    /// The keywords would cause the target to collect garbage or to walk its heap.
    #[error(
        "keywords 0x{keywords:x} of {provider} make the target run garbage collections or walk its heap; remove \
         them, or set allow_inducing_keywords if this is intended"
    )]
    InducingKeywords {
        /// Name of the provider.
        provider: String,
        /// The keywords that are not allowed.
        keywords: u64,
    },
}
