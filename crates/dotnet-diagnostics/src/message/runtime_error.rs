//! What a runtime answers when it refuses a command.

use std::fmt;

/// The HRESULT of an error answer.
///
/// Names from `ds-types.h` and `ds-protocol.c` of the runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RuntimeError {
    /// 0x80131384: the payload did not parse.
    BadEncoding,
    /// 0x80131385: the runtime does not know the command; an older form may do.
    UnknownCommand,
    /// 0x80131386: the magic is not one that the runtime knows.
    UnknownMagic,
    /// 0x80131387: the runtime's own "unknown error".
    UnknownError,
    /// 0x80131515: not supported on this platform or in this build.
    NotSupported,
    /// 0x80004005: failed, for example a session that could not be created.
    Fail,
    /// 0x8013135B: not available yet.
    NotYetAvailable,
    /// 0x80131371: the runtime is still suspended at its start and cannot do this now.
    RuntimeUninitialized,
    /// 0x80070057: an argument is outside of what the runtime allows.
    InvalidArgument,
    /// 0x8007007A: a buffer was too small.
    InsufficientBuffer,
    /// 0x800000CB: there is no such environment variable.
    EnvironmentVariableNotFound,
    /// 0x8013136A: another profiler is active.
    ProfilerAlreadyActive,
    /// Any other HRESULT.
    Unknown(u32),
}

impl RuntimeError {
    const NAMED: [(u32, Self); 12] = [
        (0x8013_1384, Self::BadEncoding),
        (0x8013_1385, Self::UnknownCommand),
        (0x8013_1386, Self::UnknownMagic),
        (0x8013_1387, Self::UnknownError),
        (0x8013_1515, Self::NotSupported),
        (0x8000_4005, Self::Fail),
        (0x8013_135B, Self::NotYetAvailable),
        (0x8013_1371, Self::RuntimeUninitialized),
        (0x8007_0057, Self::InvalidArgument),
        (0x8007_007A, Self::InsufficientBuffer),
        (0x8000_00CB, Self::EnvironmentVariableNotFound),
        (0x8013_136A, Self::ProfilerAlreadyActive),
    ];

    /// The error with this HRESULT.
    pub fn from_hresult(hresult: u32) -> Self {
        Self::NAMED
            .iter()
            .find(|(code, _)| *code == hresult)
            .map_or(Self::Unknown(hresult), |(_, error)| *error)
    }

    /// The HRESULT on the wire.
    pub fn hresult(self) -> u32 {
        match self {
            Self::Unknown(hresult) => hresult,
            named => Self::NAMED
                .iter()
                .find(|(_, error)| *error == named)
                .map_or(0, |(code, _)| *code),
        }
    }

    const fn meaning(self) -> &'static str {
        match self {
            Self::BadEncoding => "it could not parse the command",
            Self::UnknownCommand => "it does not know the command (an older .NET)",
            Self::UnknownMagic => "it does not know the protocol's magic",
            Self::UnknownError => "it met an error that it does not name",
            Self::NotSupported => "it does not support the command on this platform or in this build",
            Self::Fail => "it failed (as when a session cannot be created: 64 run already, or memory is short)",
            Self::NotYetAvailable => "it is not ready for the command yet; try again later",
            Self::RuntimeUninitialized => "it is still suspended at its start; resume it first",
            Self::InvalidArgument => "it does not allow an argument of the command",
            Self::InsufficientBuffer => "a buffer was too small",
            Self::EnvironmentVariableNotFound => "it has no such environment variable",
            Self::ProfilerAlreadyActive => "another profiler is active in it",
            Self::Unknown(_) => "it answered with an HRESULT that is not in the protocol",
        }
    }
}

impl fmt::Display for RuntimeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (0x{:08X})", self.meaning(), self.hresult())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: every named HRESULT and one that has no name.
    /// Guarantee: the number survives, and the unknown one is shown.
    #[test]
    fn hresults_keep_their_number() {
        for (code, error) in RuntimeError::NAMED {
            assert_eq!(RuntimeError::from_hresult(code), error);
            assert_eq!(error.hresult(), code);
        }
        let unknown = RuntimeError::from_hresult(0x8013_FFFF);
        assert_eq!(unknown, RuntimeError::Unknown(0x8013_FFFF));
        assert!(unknown.to_string().contains("0x8013FFFF"));
    }
}
