//! The commands of the protocol with their numbers.

use std::fmt;

/// A command of the protocol.
///
/// Only commands that do not change the target, and the command that resumes the target, are included. Dumps,
/// profilers, startup hooks and changes to the environment are deliberately omitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Command {
    /// Stops an event session (.NET Core 3.0 and later).
    StopTracing,
    /// Starts an event session, see [`CollectVersion`].
    CollectTracing(CollectVersion),
    /// Identifies the process, see [`InfoVersion`].
    ProcessInfo(InfoVersion),
    /// Resumes a runtime that was suspended at startup (.NET 5 and later).
    ResumeRuntime,
    /// Reads the current environment of the process (.NET 5 and later).
    ProcessEnvironment,
}

/// A variant of CollectTracing. Later variants have more options.
///
/// The first variant (command 0x0202) always collects a rundown and is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CollectVersion {
    /// CollectTracing2, .NET Core 3.0 and later: rundown on or off; stacks are always collected.
    V2,
    /// CollectTracing3, .NET 9 and later (8.0.33 refuses it): stacks on or off.
    V3,
    /// CollectTracing4, .NET 9 and later: keyword of the rundown.
    V4,
    /// CollectTracing5, .NET 10 and later: event ids per provider.
    V5,
    /// CollectTracing6, .NET 11 and later: behaviour while the buffers are full.
    V6,
}

/// A variant of ProcessInfo. Later variants have more fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum InfoVersion {
    /// ProcessInfo, .NET 5 and later.
    V1,
    /// ProcessInfo2, .NET 6 and later: entry assembly and runtime version.
    V2,
    /// ProcessInfo3, .NET 8 and later: runtime identifier.
    V3,
}

impl Command {
    /// Every command that this crate implements, ordered by number.
    pub const ALL: [Self; 11] = [
        Self::StopTracing,
        Self::CollectTracing(CollectVersion::V2),
        Self::CollectTracing(CollectVersion::V3),
        Self::CollectTracing(CollectVersion::V4),
        Self::CollectTracing(CollectVersion::V5),
        Self::CollectTracing(CollectVersion::V6),
        Self::ProcessInfo(InfoVersion::V1),
        Self::ResumeRuntime,
        Self::ProcessEnvironment,
        Self::ProcessInfo(InfoVersion::V2),
        Self::ProcessInfo(InfoVersion::V3),
    ];

    /// Returns the number of the command set: 2 EventPipe, 4 process.
    pub const fn set(self) -> u8 {
        match self {
            Self::StopTracing | Self::CollectTracing(_) => 0x02,
            Self::ProcessInfo(_) | Self::ResumeRuntime | Self::ProcessEnvironment => 0x04,
        }
    }

    /// Returns the command id.
    pub const fn id(self) -> u8 {
        match self {
            Self::StopTracing => 0x01,
            Self::CollectTracing(CollectVersion::V2) => 0x03,
            Self::CollectTracing(CollectVersion::V3) => 0x04,
            Self::CollectTracing(CollectVersion::V4) => 0x05,
            Self::CollectTracing(CollectVersion::V5) => 0x06,
            Self::CollectTracing(CollectVersion::V6) => 0x07,
            Self::ProcessInfo(InfoVersion::V1) => 0x00,
            Self::ResumeRuntime => 0x01,
            Self::ProcessEnvironment => 0x02,
            Self::ProcessInfo(InfoVersion::V2) => 0x04,
            Self::ProcessInfo(InfoVersion::V3) => 0x08,
        }
    }

    /// Returns the command with these numbers, or `None` if no command in [`Command::ALL`] has these numbers.
    pub fn from_wire(set: u8, id: u8) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|command| command.set() == set && command.id() == id)
    }

    /// Returns the name of the command in the protocol documentation.
    pub const fn name(self) -> &'static str {
        match self {
            Self::StopTracing => "StopTracing",
            Self::CollectTracing(CollectVersion::V2) => "CollectTracing2",
            Self::CollectTracing(CollectVersion::V3) => "CollectTracing3",
            Self::CollectTracing(CollectVersion::V4) => "CollectTracing4",
            Self::CollectTracing(CollectVersion::V5) => "CollectTracing5",
            Self::CollectTracing(CollectVersion::V6) => "CollectTracing6",
            Self::ProcessInfo(InfoVersion::V1) => "ProcessInfo",
            Self::ResumeRuntime => "ResumeRuntime",
            Self::ProcessEnvironment => "ProcessEnvironment",
            Self::ProcessInfo(InfoVersion::V2) => "ProcessInfo2",
            Self::ProcessInfo(InfoVersion::V3) => "ProcessInfo3",
        }
    }

    /// Returns the bit of the command in a set of commands.
    pub(crate) fn bit(self) -> u32 {
        Self::ALL
            .iter()
            .position(|&command| command == self)
            .map_or(0, |index| 1 << index)
    }
}

impl From<InfoVersion> for Command {
    fn from(version: InfoVersion) -> Self {
        Self::ProcessInfo(version)
    }
}

impl From<CollectVersion> for Command {
    fn from(version: CollectVersion) -> Self {
        Self::CollectTracing(version)
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: every command is converted to its numbers and back.
    /// Guarantee: the numbers are unique and match the table of the protocol.
    #[test]
    fn numbers_match_the_protocol() {
        let wire: Vec<_> = Command::ALL.iter().map(|c| (c.name(), c.set(), c.id())).collect();
        let table = [
            ("StopTracing", 2, 1),
            ("CollectTracing2", 2, 3),
            ("CollectTracing3", 2, 4),
            ("CollectTracing4", 2, 5),
            ("CollectTracing5", 2, 6),
            ("CollectTracing6", 2, 7),
            ("ProcessInfo", 4, 0),
            ("ResumeRuntime", 4, 1),
            ("ProcessEnvironment", 4, 2),
            ("ProcessInfo2", 4, 4),
            ("ProcessInfo3", 4, 8),
        ];
        assert_eq!(wire, table);
        for command in Command::ALL {
            assert_eq!(Command::from_wire(command.set(), command.id()), Some(command));
        }
        assert_eq!(
            Command::from_wire(0x01, 0x01),
            None,
            "dump commands are not implemented"
        );
    }
}
