//! The first message of a runtime that connects to a tool.

use super::error::MessageError;
use super::primitive::{Fields, Payload};
use super::process_info::Cookie;

/// First bytes of an advertise message.
pub const ADVERTISE_MAGIC: [u8; 8] = *b"ADVR_V1\0";
/// Size of an advertise message, in bytes: magic, cookie (16), pid (u64), reserved (u16).
pub const ADVERTISE_BYTES: usize = 34;

/// An advertise message of a runtime that connected to a reverse port. The tool sends no reply; the connection then
/// waits for one command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advertise {
    /// Identity of the runtime, which is the same for all its connections.
    pub cookie: Cookie,
    /// Process id in the pid namespace of the runtime.
    pub pid: u64,
}

impl Advertise {
    /// Encodes the message.
    pub fn encode(&self) -> Vec<u8> {
        let mut message = Payload::default();
        message.raw(&ADVERTISE_MAGIC).raw(&self.cookie.0).u64(self.pid).u16(0);
        message.bytes
    }

    /// Decodes the first [`ADVERTISE_BYTES`] bytes of a connection.
    ///
    /// # Errors
    /// Returns [`MessageError::Magic`] if the bytes are not an advertise message, or [`MessageError::Short`] if bytes
    /// are missing.
    pub fn decode(bytes: &[u8]) -> Result<Self, MessageError> {
        for (offset, (&found, &expected)) in bytes.iter().zip(&ADVERTISE_MAGIC).enumerate() {
            if found != expected {
                return Err(MessageError::Magic {
                    expected: "ADVR_V1",
                    offset,
                    found,
                });
            }
        }
        let mut fields = Fields::new(bytes);
        fields.bytes(ADVERTISE_MAGIC.len(), "the magic of an advertise message")?;
        let cookie = Cookie(fields.array("the runtime's cookie")?);
        let pid = fields.u64("the runtime's process id")?;
        fields.u16("the reserved field of an advertise message")?;
        Ok(Self { cookie, pid })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Scenario: any advertise message is encoded, and cut at every position.
        /// Guarantee: the complete message round-trips, and a truncated message is an error.
        #[test]
        fn advertise_round_trips(cookie: [u8; 16], pid: u64) {
            let advertise = Advertise { cookie: Cookie(cookie), pid };
            let bytes = advertise.encode();
            prop_assert_eq!(bytes.len(), ADVERTISE_BYTES);
            prop_assert_eq!(Advertise::decode(&bytes), Ok(advertise));
            for cut in 0..bytes.len() {
                let short = matches!(Advertise::decode(&bytes[..cut]), Err(MessageError::Short { .. }));
                prop_assert!(short, "cut at {}", cut);
            }
        }
    }

    /// Scenario: a peer sends a command instead of an advertise message.
    /// Guarantee: the message is refused at the first byte that differs.
    #[test]
    fn command_is_not_an_advertise_message() {
        let error = Advertise::decode(b"DOTNET_IPC_V1\0").unwrap_err();
        assert_eq!(
            error,
            MessageError::Magic {
                expected: "ADVR_V1",
                offset: 0,
                found: b'D'
            }
        );
    }
}
