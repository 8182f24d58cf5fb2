//! Error codes that a runtime returns when it rejects a command.

use std::fmt;

/// The HRESULT of an error response.
///
/// The names are from `ds-types.h` and `ds-protocol.c` in the source of the runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RuntimeError {
    /// 0x80131384: the runtime could not parse the payload.
    BadEncoding,
    /// 0x80131385: the runtime does not support the command, but can support an older variant of it.
    UnknownCommand,
    /// 0x80131386: the runtime does not support the magic bytes of the protocol.
    UnknownMagic,
    /// 0x80131387: the runtime reported an unknown error.
    UnknownError,
    /// 0x80131515: the runtime does not support the command on this platform or in this build.
    NotSupported,
    /// 0x80004005: the command failed, for example because the runtime could not create a session.
    Fail,
    /// 0x8013135B: the runtime is not ready for the command yet.
    NotYetAvailable,
    /// 0x80131371: the runtime is still suspended at startup and cannot execute the command now.
    RuntimeUninitialized,
    /// 0x80070057: an argument is out of range.
    InvalidArgument,
    /// 0x8007007A: a buffer was too small.
    InsufficientBuffer,
    /// 0x800000CB: the environment variable does not exist.
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

    /// Returns the error with this HRESULT.
    pub fn from_hresult(hresult: u32) -> Self {
        Self::NAMED
            .iter()
            .find(|(code, _)| *code == hresult)
            .map_or(Self::Unknown(hresult), |(_, error)| *error)
    }

    /// Returns the HRESULT.
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
            Self::BadEncoding => "the runtime could not parse the command",
            Self::UnknownCommand => "the runtime does not support the command (older .NET version)",
            Self::UnknownMagic => "the runtime does not support the protocol's magic bytes",
            Self::UnknownError => "the runtime reported an unknown error",
            Self::NotSupported => "the runtime does not support the command on this platform or in this build",
            Self::Fail => "the command failed (for example because 64 sessions are running, or memory is insufficient)",
            Self::NotYetAvailable => "the runtime is not ready for the command; try again later",
            Self::RuntimeUninitialized => "the runtime is still suspended at startup; resume it first",
            Self::InvalidArgument => "an argument of the command is invalid",
            Self::InsufficientBuffer => "a buffer was too small",
            Self::EnvironmentVariableNotFound => "the environment variable does not exist",
            Self::ProfilerAlreadyActive => "another profiler is active",
            Self::Unknown(_) => "the HRESULT is not defined by the protocol",
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

    /// Scenario: every known HRESULT and an unknown HRESULT are converted to an error and back.
    /// Guarantee: each HRESULT round-trips, and the message for the unknown HRESULT contains its number.
    #[test]
    fn hresult_round_trips() {
        for (code, error) in RuntimeError::NAMED {
            assert_eq!(RuntimeError::from_hresult(code), error);
            assert_eq!(error.hresult(), code);
        }
        let unknown = RuntimeError::from_hresult(0x8013_FFFF);
        assert_eq!(unknown, RuntimeError::Unknown(0x8013_FFFF));
        assert!(unknown.to_string().contains("0x8013FFFF"));
    }
}
