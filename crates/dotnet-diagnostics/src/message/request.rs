//! A command with its arguments.

use super::command::{CollectVersion, Command, InfoVersion};
use super::error::MessageError;
use super::frame::{Frame, encode_frame};
use super::primitive::{Fields, Payload};
use super::session_config::SessionConfig;

/// A command with its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Identifies the process.
    ProcessInfo(InfoVersion),
    /// Reads the current environment of the process.
    ProcessEnvironment,
    /// Resumes a suspended runtime.
    ResumeRuntime,
    /// Stops an event session.
    StopTracing {
        /// Opaque id of the session, assigned by the runtime.
        session_id: u64,
    },
    /// Starts an event session.
    CollectTracing {
        /// Variant of the command.
        version: CollectVersion,
        /// Providers, buffer, rundown, stacks.
        config: SessionConfig,
    },
}

impl Request {
    /// Returns the command without its arguments.
    pub const fn command(&self) -> Command {
        match self {
            Self::ProcessInfo(version) => Command::ProcessInfo(*version),
            Self::ProcessEnvironment => Command::ProcessEnvironment,
            Self::ResumeRuntime => Command::ResumeRuntime,
            Self::StopTracing { .. } => Command::StopTracing,
            Self::CollectTracing { version, .. } => Command::CollectTracing(*version),
        }
    }

    /// Encodes the complete frame.
    ///
    /// # Errors
    /// Returns the errors of [`SessionConfig::check`], [`MessageError::NulInString`] if a string contains a NUL, and
    /// [`MessageError::Limit`] if the frame would be too large.
    pub fn encode(&self) -> Result<Vec<u8>, MessageError> {
        let payload = match self {
            Self::ProcessInfo(_) | Self::ProcessEnvironment | Self::ResumeRuntime => Vec::new(),
            Self::StopTracing { session_id } => {
                let mut payload = Payload::default();
                payload.u64(*session_id);
                payload.bytes
            }
            Self::CollectTracing { version, config } => config.encode(*version)?,
        };
        let command = self.command();
        encode_frame(command.set(), command.id(), &payload)
    }

    /// Decodes a request, as a runtime does (for simulated runtimes). Settings that a variant of CollectTracing cannot
    /// express have the values that the runtime assumes. [`SessionConfig::allow_inducing_keywords`] is not part of a
    /// request and is always set.
    ///
    /// # Errors
    /// Returns [`MessageError::UnexpectedCommand`] for a command that is not implemented, [`MessageError::Short`] if
    /// the payload ends inside a field, and [`MessageError::Limit`] if a number is out of range.
    pub fn decode(frame: Frame<'_>) -> Result<Self, MessageError> {
        let Some(command) = Command::from_wire(frame.set, frame.id) else {
            return Err(MessageError::UnexpectedCommand {
                set: frame.set,
                id: frame.id,
                expected: "a command",
            });
        };
        Ok(match command {
            Command::ProcessInfo(version) => Self::ProcessInfo(version),
            Command::ProcessEnvironment => Self::ProcessEnvironment,
            Command::ResumeRuntime => Self::ResumeRuntime,
            Command::StopTracing => Self::StopTracing {
                session_id: Fields::new(frame.payload).u64("the session id")?,
            },
            Command::CollectTracing(version) => Self::CollectTracing {
                version,
                config: SessionConfig::decode(version, frame.payload)?,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::frame::{Progress, decode_frame};
    use super::super::session_config::{EventFilter, Provider, Rundown, WhenFull};
    use super::*;

    fn provider() -> impl Strategy<Value = Provider> {
        let ids = || proptest::collection::vec(any::<u32>(), 1..5);
        let filter = prop_oneof![
            Just(None),
            ids().prop_map(|ids| Some(EventFilter::Only(ids))),
            ids().prop_map(|ids| Some(EventFilter::Except(ids))),
        ];
        let arguments = proptest::option::of("[^\0]{1,20}");
        ("[^\0]{1,20}", any::<u64>(), 0..=5u32, arguments, filter).prop_map(
            |(name, keywords, level, arguments, filter)| Provider {
                name,
                keywords,
                level,
                arguments,
                filter,
            },
        )
    }

    proptest! {
        /// Scenario: any session is encoded in the newest variant, which can express every setting, and cut at every
        /// position in its payload.
        /// Guarantee: the complete request round-trips, and a truncated request is an error.
        #[test]
        fn session_round_trips(
            buffer_mb in 1u32.., keyword: u64, stacks: bool, blocks: bool,
            providers in proptest::collection::vec(provider(), 1..4),
        ) {
            let rundown = Rundown::Keyword(keyword.max(1));
            let when_full = if blocks { WhenFull::Block } else { WhenFull::Drop };
            let config =
                SessionConfig { buffer_mb, rundown, stacks, providers, when_full, allow_inducing_keywords: true };
            let request = Request::CollectTracing { version: CollectVersion::V6, config };
            let bytes = request.encode().unwrap();
            let Progress::Complete { frame, .. } = decode_frame(&bytes).unwrap() else { panic!("whole frame") };
            prop_assert_eq!(Request::decode(frame), Ok(request));
            for cut in 0..frame.payload.len() {
                let cut = Frame { payload: &frame.payload[..cut], ..frame };
                prop_assert!(Request::decode(cut).is_err());
            }
        }

        /// Scenario: arbitrary bytes are the payload of any command.
        /// Guarantee: decoding returns a request or an error, and does not panic.
        #[test]
        fn arbitrary_payload_does_not_panic(set in 0u8..6, id in 0u8..10, payload: Vec<u8>) {
            let _ = Request::decode(Frame { set, id, payload: &payload });
        }
    }

    /// Scenario: a session is encoded in each of the older variants.
    /// Guarantee: settings that the variant can express round-trip, and the other settings have the values that the
    /// runtime assumes.
    #[test]
    fn older_variant_has_default_settings() {
        let mut config = SessionConfig::garbage_collection();
        config.rundown = Rundown::Keyword(0x10);
        for (version, rundown, stacks) in [
            (CollectVersion::V2, Rundown::Default, true),
            (CollectVersion::V3, Rundown::Default, false),
            (CollectVersion::V4, Rundown::Keyword(0x10), false),
            (CollectVersion::V5, Rundown::Keyword(0x10), false),
        ] {
            let bytes = Request::CollectTracing {
                version,
                config: config.clone(),
            }
            .encode()
            .unwrap();
            let Progress::Complete { frame, .. } = decode_frame(&bytes).unwrap() else {
                panic!("whole frame")
            };
            let Request::CollectTracing { config: read, .. } = Request::decode(frame).unwrap() else {
                panic!("a session")
            };
            assert_eq!((read.rundown, read.stacks), (rundown, stacks), "{version:?}");
            assert_eq!(read.providers, config.providers);
        }
    }

    /// Scenario: the id in a StopTracing command uses all 64 bits.
    /// Guarantee: the request has 28 bytes, and the id round-trips.
    #[test]
    fn stop_tracing_contains_session_id() {
        let request = Request::StopTracing {
            session_id: 0xfedc_ba98_7654_3210,
        };
        let bytes = request.encode().unwrap();
        assert_eq!(bytes.len(), 28);
        let Progress::Complete { frame, .. } = decode_frame(&bytes).unwrap() else {
            panic!("whole frame")
        };
        assert_eq!(Request::decode(frame), Ok(request));
    }
}
