//! Responses of a runtime.

use super::error::MessageError;
use super::frame::{Frame, encode_frame};
use super::primitive::{Fields, Payload};
use super::runtime_error::RuntimeError;

/// Command set of responses.
const ANSWER_SET: u8 = 0xff;
const ANSWER_OK: u8 = 0x00;
const ANSWER_ERROR: u8 = 0xff;

/// Maximum size of an environment block, in bytes. Linux limits the arguments and the environment of a process to 6 MB
/// at its start, and UTF-16 doubles this size.
pub const MAX_ENVIRONMENT_BYTES: u32 = 16 << 20;
/// Maximum number of variables. An empty variable takes 4 bytes in the message, but 48 bytes in memory.
pub const MAX_ENVIRONMENT_VARIABLES: u32 = 1 << 17;

/// A runtime's response to a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer<'a> {
    /// The command succeeded. The layout of the payload depends on the command.
    Ok(&'a [u8]),
    /// The runtime refused the command for this reason.
    Error(RuntimeError),
}

/// An environment variable of a process. The target controls the name and the value: escape both strings before you
/// display them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnvironmentVariable {
    /// Text before the first `=`.
    pub name: String,
    /// Text after the first `=`; `None` if there is no `=`.
    pub value: Option<String>,
}

impl<'a> Answer<'a> {
    /// Decodes a response.
    ///
    /// # Errors
    /// Returns [`MessageError::UnexpectedCommand`] if the frame is a command, or [`MessageError::Short`] if an error
    /// response has no code.
    pub fn decode(frame: Frame<'a>) -> Result<Self, MessageError> {
        match (frame.set, frame.id) {
            (ANSWER_SET, ANSWER_OK) => Ok(Self::Ok(frame.payload)),
            (ANSWER_SET, ANSWER_ERROR) => {
                let hresult = Fields::new(frame.payload).u32("the HRESULT of an error response")?;
                Ok(Self::Error(RuntimeError::from_hresult(hresult)))
            }
            (set, id) => Err(MessageError::UnexpectedCommand {
                set,
                id,
                expected: "a response (set 0xff, id 0x00 or 0xff)",
            }),
        }
    }

    /// Encodes the complete frame, as a runtime sends it (for simulated runtimes).
    ///
    /// # Errors
    /// Returns [`MessageError::Limit`] if the payload is too large.
    pub fn encode(&self) -> Result<Vec<u8>, MessageError> {
        match self {
            Self::Ok(payload) => encode_frame(ANSWER_SET, ANSWER_OK, payload),
            Self::Error(error) => encode_frame(ANSWER_SET, ANSWER_ERROR, &error.hresult().to_le_bytes()),
        }
    }
}

/// Decodes the session id from the OK response to CollectTracing and StopTracing.
///
/// # Errors
/// Returns [`MessageError::Short`] if the id is missing.
pub fn decode_session_id(payload: &[u8]) -> Result<u64, MessageError> {
    Fields::new(payload).u64("the session id")
}

/// Decodes the length, in bytes, of the environment block that follows the OK response to ProcessEnvironment.
///
/// # Errors
/// Returns [`MessageError::Short`] if the length is missing, or [`MessageError::Limit`] if it exceeds
/// [`MAX_ENVIRONMENT_BYTES`].
pub fn decode_environment_header(payload: &[u8]) -> Result<u32, MessageError> {
    const READING: &str = "the length of the environment block in bytes";
    let length = Fields::new(payload).u32(READING)?;
    if length > MAX_ENVIRONMENT_BYTES {
        return Err(MessageError::Limit {
            reading: READING,
            value: length.into(),
            limit: MAX_ENVIRONMENT_BYTES.into(),
        });
    }
    Ok(length)
}

/// Decodes an environment block: a count, followed by that number of `NAME=value` strings.
///
/// # Errors
/// Returns [`MessageError::Short`] if the block ends inside a variable, or [`MessageError::Limit`] if it has more than
/// [`MAX_ENVIRONMENT_VARIABLES`] variables.
pub fn decode_environment(block: &[u8]) -> Result<Vec<EnvironmentVariable>, MessageError> {
    const COUNT: &str = "the number of environment variables";
    let mut fields = Fields::new(block);
    let count = fields.u32(COUNT)?;
    if count > MAX_ENVIRONMENT_VARIABLES {
        return Err(MessageError::Limit {
            reading: COUNT,
            value: count.into(),
            limit: MAX_ENVIRONMENT_VARIABLES.into(),
        });
    }
    let mut variables = Vec::new();
    for _ in 0..count {
        let text = fields.string("an environment variable")?;
        variables.push(match text.split_once('=') {
            Some((name, value)) => EnvironmentVariable {
                name: name.to_owned(),
                value: Some(value.to_owned()),
            },
            None => EnvironmentVariable {
                name: text,
                value: None,
            },
        });
    }
    Ok(variables)
}

/// Encodes the response to ProcessEnvironment with its block, as a runtime does (for simulated runtimes).
///
/// # Errors
/// Returns [`MessageError::NulInString`] if a string contains a NUL, or [`MessageError::Limit`] if there are more than
/// 16,378 variables.
pub fn encode_environment(variables: &[EnvironmentVariable]) -> Result<Vec<u8>, MessageError> {
    let mut block = Payload::default();
    block.count("the number of environment variables", variables.len())?;
    for variable in variables {
        let text = match &variable.value {
            Some(value) => format!("{}={value}", variable.name),
            None => variable.name.clone(),
        };
        block.string("an environment variable", &text)?;
    }
    let mut header = Payload::default();
    header.u32(u32::try_from(block.bytes.len()).unwrap_or(u32::MAX)).u16(0);
    Ok([Answer::Ok(&header.bytes).encode()?, block.bytes].concat())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::frame::{Progress, decode_frame};
    use super::*;

    /// Scenario: a runtime sends the 24-byte error for an unknown command.
    /// Guarantee: the error is decoded; an error without its code and a command are refused.
    #[test]
    fn error_response_has_24_bytes() {
        let bytes = Answer::Error(RuntimeError::UnknownCommand).encode().unwrap();
        assert_eq!(bytes.len(), 24);
        let Progress::Complete { frame, .. } = decode_frame(&bytes).unwrap() else {
            panic!("whole frame")
        };
        assert_eq!(Answer::decode(frame), Ok(Answer::Error(RuntimeError::UnknownCommand)));
        let cut = Frame {
            payload: &frame.payload[..3],
            ..frame
        };
        assert!(matches!(Answer::decode(cut), Err(MessageError::Short { .. })));
        let command = Frame { set: 4, ..frame };
        assert!(matches!(
            Answer::decode(command),
            Err(MessageError::UnexpectedCommand { set: 4, .. })
        ));
    }

    /// Scenario: an environment block of 4 GB is announced, and a block has a count larger than its size.
    /// Guarantee: both claims are errors, and so is a count above the limit.
    #[test]
    fn claimed_length_is_checked() {
        let huge = [0xff, 0xff, 0xff, 0xff, 0, 0];
        assert!(matches!(
            decode_environment_header(&huge),
            Err(MessageError::Limit { value: 0xffff_ffff, .. })
        ));
        assert!(matches!(
            decode_environment(&[0xff, 0xff, 0xff, 0xff]),
            Err(MessageError::Limit { .. })
        ));
        assert!(matches!(
            decode_environment(&[0xff, 0xff, 0, 0, 0, 0, 0, 0]),
            Err(MessageError::Short { .. })
        ));
    }

    proptest! {
        /// Scenario: any environment has variables with and without values.
        /// Guarantee: the environment round-trips, and a truncated block is an error.
        #[test]
        fn environment_round_trips(pairs in proptest::collection::vec(("[^\0=]{1,9}", proptest::option::of("[^\0]{0,9}")), 0..9)) {
            let variables: Vec<_> =
                pairs.into_iter().map(|(name, value)| EnvironmentVariable { name, value }).collect();
            let bytes = encode_environment(&variables).unwrap();
            let Progress::Complete { frame, consumed } = decode_frame(&bytes).unwrap() else { panic!("whole frame") };
            let Ok(Answer::Ok(header)) = Answer::decode(frame) else { panic!("ok") };
            let block = &bytes[consumed..];
            prop_assert_eq!(decode_environment_header(header).unwrap() as usize, block.len());
            prop_assert_eq!(decode_environment(block), Ok(variables));
            for cut in 0..block.len() {
                prop_assert!(decode_environment(&block[..cut]).is_err());
            }
        }
    }
}
