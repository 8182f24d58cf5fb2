//! The identity of a process as reported by its runtime.

use std::fmt;

use super::command::InfoVersion;
use super::error::MessageError;
use super::primitive::{Fields, Payload};

/// Identity of a runtime: a random GUID created at its start. The text form is the usual form of a GUID.
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

/// The response to ProcessInfo, ProcessInfo2 or ProcessInfo3.
///
/// The strings are under the control of the target and can contain anything, including control characters. Escape them
/// before displaying them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProcessInfo {
    /// Variant of the command that was used.
    pub version: InfoVersion,
    /// Process id in the target's own pid namespace.
    pub pid: u64,
    /// Identity of the runtime.
    pub cookie: Cookie,
    /// Command line without the quoting of arguments. CoreCLR: `HOST HOST.dll ARGS`. NativeAOT: only the first
    /// argument.
    pub command_line: String,
    /// Operating system: `Linux`, `macOS`, `Windows` or `Unknown`.
    pub os: String,
    /// Architecture: `x64`, `arm64`, `x86`, `arm32`, ...
    pub arch: String,
    /// Name of the assembly with the entry point; `None` before version 2. The name can be empty while the runtime is
    /// suspended at startup.
    pub entry_assembly: Option<String>,
    /// Version of the runtime, for example `10.0.14`; `None` before version 2.
    pub runtime_version: Option<String>,
    /// Portable runtime identifier, for example `linux_musl_x64`; `None` before version 3, or if the response does not
    /// contain it.
    pub runtime_identifier: Option<String>,
}

impl ProcessInfo {
    /// Decodes the payload of an OK response. Surplus bytes belong to a newer variant and are ignored.
    ///
    /// Layout: `ds-process-protocol.c`. The cookie is the second field (the protocol documentation lists it after the
    /// architecture).
    ///
    /// # Errors
    /// Returns [`MessageError::Short`] if the payload ends inside a field.
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

    /// Encodes the payload of an OK response, as a runtime does (for simulated runtimes).
    ///
    /// # Errors
    /// Returns [`MessageError::NulInString`] if a string contains a NUL.
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

    /// Scenario: all bytes of a GUID differ.
    /// Guarantee: the GUID has .NET's byte order: the first three groups are little-endian.
    #[test]
    fn cookie_is_displayed_as_guid() {
        let bytes = std::array::from_fn(|index| index as u8);
        assert_eq!(Cookie(bytes).to_string(), "03020100-0504-0706-0809-0a0b0c0d0e0f");
    }

    fn text() -> impl Strategy<Value = String> {
        "[^\0]{0,24}"
    }

    proptest! {
        /// Scenario: any ProcessInfo is encoded in each version, cut at every position, and followed by bytes of a
        /// newer variant.
        /// Guarantee: the complete payload round-trips, surplus bytes are ignored, and a truncated payload is an error.
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
