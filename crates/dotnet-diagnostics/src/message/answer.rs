//! What a runtime answers.

use super::error::MessageError;
use super::frame::{Frame, encode_frame};
use super::primitive::{Fields, Payload};
use super::runtime_error::RuntimeError;

/// Command set of answers.
const ANSWER_SET: u8 = 0xff;
const ANSWER_OK: u8 = 0x00;
const ANSWER_ERROR: u8 = 0xff;

/// Largest environment block that is read, in bytes. Linux gives a process at most 6 MB of arguments and environment at
/// its start; in UTF-16 that doubles.
pub const MAX_ENVIRONMENT_BYTES: u32 = 16 << 20;
/// Most variables that are read: an empty one takes 4 bytes on the wire and twelve times that in memory.
pub const MAX_ENVIRONMENT_VARIABLES: u32 = 1 << 17;

/// A runtime's answer to a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer<'a> {
    /// Done; the payload's layout is the command's.
    Ok(&'a [u8]),
    /// Refused, with the runtime's reason.
    Error(RuntimeError),
}

/// One variable of a process. Both strings are the target's: escape them before showing them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnvironmentVariable {
    /// Before the first `=`.
    pub name: String,
    /// After it; `None` when there is none.
    pub value: Option<String>,
}

impl<'a> Answer<'a> {
    /// Reads an answer.
    ///
    /// # Errors
    /// [`MessageError::UnexpectedCommand`] when the frame is a command, [`MessageError::Short`] when an error has no
    /// code.
    pub fn decode(frame: Frame<'a>) -> Result<Self, MessageError> {
        match (frame.set, frame.id) {
            (ANSWER_SET, ANSWER_OK) => Ok(Self::Ok(frame.payload)),
            (ANSWER_SET, ANSWER_ERROR) => {
                let hresult = Fields::new(frame.payload).u32("the HRESULT of an error answer")?;
                Ok(Self::Error(RuntimeError::from_hresult(hresult)))
            }
            (set, id) => Err(MessageError::UnexpectedCommand {
                set,
                id,
                expected: "an answer (set 0xff, id 0x00 or 0xff)",
            }),
        }
    }

    /// The whole frame, as a runtime sends it (for simulated runtimes).
    ///
    /// # Errors
    /// [`MessageError::Limit`] when the payload is too large.
    pub fn encode(&self) -> Result<Vec<u8>, MessageError> {
        match self {
            Self::Ok(payload) => encode_frame(ANSWER_SET, ANSWER_OK, payload),
            Self::Error(error) => encode_frame(ANSWER_SET, ANSWER_ERROR, &error.hresult().to_le_bytes()),
        }
    }
}

/// The session id in the OK answer to CollectTracing and StopTracing.
///
/// # Errors
/// [`MessageError::Short`] when it is missing.
pub fn decode_session_id(payload: &[u8]) -> Result<u64, MessageError> {
    Fields::new(payload).u64("the session id")
}

/// The length in bytes of the environment block that follows the OK answer to ProcessEnvironment.
///
/// # Errors
/// [`MessageError::Short`] when it is missing, [`MessageError::Limit`] above [`MAX_ENVIRONMENT_BYTES`].
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

/// Reads an environment block: a count, then that many strings `NAME=value`.
///
/// # Errors
/// [`MessageError::Short`] when the block ends inside a variable, [`MessageError::Limit`] above
/// [`MAX_ENVIRONMENT_VARIABLES`].
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

/// Writes the answer to ProcessEnvironment with its block, as a runtime does (for simulated runtimes).
///
/// # Errors
/// [`MessageError::NulInString`] when a string holds a NUL.
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

    /// Scenario: the 24-byte error that a runtime sends for a command that it does not know.
    /// Guarantee: read as that error; one without its code is refused.
    #[test]
    fn errors_are_24_bytes() {
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

    /// Scenario: an environment block of 4 GB is announced, and one whose count is larger than its bytes.
    /// Guarantee: both are errors, before anything of that size is allocated.
    #[test]
    fn lengths_are_not_believed() {
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
        /// Scenario: any environment, with and without values.
        /// Guarantee: it comes back, and a cut block is an error.
        #[test]
        fn environments_round_trip(pairs in proptest::collection::vec(("[^\0=]{1,9}", proptest::option::of("[^\0]{0,9}")), 0..9)) {
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
