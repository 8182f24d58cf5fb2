//! The identity of a process, as its runtime reports it.

use std::fmt;

use super::command::InfoVersion;
use super::error::MessageError;
use super::primitive::{Fields, Payload};

/// A runtime's identity: a random GUID, made at its start. Shown in the usual form of a GUID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Cookie(pub [u8; 16]);

impl fmt::Display for Cookie {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g, h, i, rest @ ..] = self.0;
        let (first, second, third) = (
            u32::from_le_bytes([a, b, c, d]),
            u16::from_le_bytes([e, g]),
            u16::from_le_bytes([h, i]),
        );
        let [j, k, l, m, n, o, p, q] = rest;
        write!(
            f,
            "{first:08x}-{second:04x}-{third:04x}-{j:02x}{k:02x}-{l:02x}{m:02x}{n:02x}{o:02x}{p:02x}{q:02x}"
        )
    }
}

/// The answer to ProcessInfo, ProcessInfo2 or ProcessInfo3.
///
/// The strings are the target's and may hold anything, control characters included: escape them before showing them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProcessInfo {
    /// Which form of the command was answered.
    pub version: InfoVersion,
    /// Process id in the target's own pid namespace.
    pub pid: u64,
    /// The runtime's identity.
    pub cookie: Cookie,
    /// Command line with the quoting of arguments lost; CoreCLR: `HOST HOST.dll ARGS`, NativeAOT: the first argument
    /// only.
    pub command_line: String,
    /// `Linux`, `macOS`, `Windows` or `Unknown`.
    pub os: String,
    /// `x64`, `arm64`, `x86`, `arm32`, ...
    pub arch: String,
    /// Name of the assembly with the entry point. From version 2; may be empty while the runtime is suspended at its
    /// start.
    pub entry_assembly: Option<String>,
    /// Version of the runtime as its makers write it, for example `10.0.14`. From version 2.
    pub runtime_version: Option<String>,
    /// Portable runtime identifier, for example `linux_musl_x64`. From version 3.
    pub runtime_identifier: Option<String>,
}

impl ProcessInfo {
    /// Reads the payload of an OK answer. Surplus bytes are those of a newer form and are ignored.
    ///
    /// Layout: `ds-process-protocol.c`; the cookie comes second (the protocol's document has it after the
    /// architecture).
    ///
    /// # Errors
    /// [`MessageError::Short`] when the payload ends inside a field.
    pub fn decode(version: InfoVersion, payload: &[u8]) -> Result<Self, MessageError> {
        let mut fields = Fields::new(payload);
        let layout = match version {
            InfoVersion::V3 => Some(fields.u32("ProcessInfo3's payload version")?),
            InfoVersion::V1 | InfoVersion::V2 => None,
        };
        let pid = fields.u64("the process id")?;
        let cookie = Cookie(fields.array("the runtime's cookie")?);
        let command_line = fields.string("the command line")?;
        let os = fields.string("the operating system")?;
        let arch = fields.string("the architecture")?;
        let (mut entry_assembly, mut runtime_version, mut runtime_identifier) = (None, None, None);
        if version >= InfoVersion::V2 {
            entry_assembly = Some(fields.string("the entry assembly")?);
            runtime_version = Some(fields.string("the runtime's version")?);
        }
        if layout.is_some_and(|layout| layout >= 1) {
            runtime_identifier = Some(fields.string("the runtime identifier")?);
        }
        Ok(Self {
            version,
            pid,
            cookie,
            command_line,
            os,
            arch,
            entry_assembly,
            runtime_version,
            runtime_identifier,
        })
    }

    /// Writes the payload of an OK answer, as a runtime does (for simulated runtimes).
    ///
    /// # Errors
    /// [`MessageError::NulInString`] when a string holds a NUL.
    pub fn encode(&self) -> Result<Vec<u8>, MessageError> {
        let mut payload = Payload::default();
        if self.version == InfoVersion::V3 {
            payload.u32(u32::from(self.runtime_identifier.is_some()));
        }
        payload.u64(self.pid).raw(&self.cookie.0);
        payload.string("the command line", &self.command_line)?;
        payload.string("the operating system", &self.os)?;
        payload.string("the architecture", &self.arch)?;
        if self.version >= InfoVersion::V2 {
            payload.string("the entry assembly", self.entry_assembly.as_deref().unwrap_or_default())?;
            payload.string(
                "the runtime's version",
                self.runtime_version.as_deref().unwrap_or_default(),
            )?;
        }
        if let (InfoVersion::V3, Some(identifier)) = (self.version, &self.runtime_identifier) {
            payload.string("the runtime identifier", identifier)?;
        }
        Ok(payload.bytes)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Scenario: a GUID with every byte different.
    /// Guarantee: shown in .NET's order: the first three groups are little-endian.
    #[test]
    fn cookies_are_shown_as_guids() {
        let bytes = std::array::from_fn(|index| index as u8);
        assert_eq!(Cookie(bytes).to_string(), "03020100-0504-0706-0809-0a0b0c0d0e0f");
    }

    fn text() -> impl Strategy<Value = String> {
        "[^\0]{0,24}"
    }

    proptest! {
        /// Scenario: any ProcessInfo in each version, cut anywhere, and with bytes of a newer form behind it.
        /// Guarantee: whole it comes back, longer it comes back the same, cut it is an error.
        #[test]
        fn process_info_round_trips(
            version in prop_oneof![Just(InfoVersion::V1), Just(InfoVersion::V2), Just(InfoVersion::V3)],
            pid: u64, cookie: [u8; 16], command_line in text(), entry in text(), rid in proptest::option::of(text()),
        ) {
            let info = ProcessInfo {
                version, pid, cookie: Cookie(cookie), command_line, os: "Linux".into(), arch: "x64".into(),
                entry_assembly: (version >= InfoVersion::V2).then_some(entry),
                runtime_version: (version >= InfoVersion::V2).then(|| "10.0.14".into()),
                runtime_identifier: rid.filter(|_| version == InfoVersion::V3),
            };
            let payload = info.encode().unwrap();
            prop_assert_eq!(ProcessInfo::decode(version, &payload), Ok(info.clone()));
            let longer = [payload.clone(), vec![1, 2, 3]].concat();
            prop_assert_eq!(ProcessInfo::decode(version, &longer), Ok(info));
            for cut in 0..payload.len() {
                prop_assert!(ProcessInfo::decode(version, &payload[..cut]).is_err(), "cut at {}", cut);
            }
        }
    }
}
