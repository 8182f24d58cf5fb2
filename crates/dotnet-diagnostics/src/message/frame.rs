//! The frame of every request and response.

use super::error::MessageError;

/// First bytes of every frame.
pub const MAGIC: [u8; 14] = *b"DOTNET_IPC_V1\0";
/// Size of the header, in bytes: magic, size (u16), command set (u8), command id (u8), reserved (u16).
pub const HEADER_BYTES: usize = 20;
/// Maximum size of a frame including its header, in bytes. The size field has 16 bits.
pub const MAX_FRAME_BYTES: usize = u16::MAX as usize;
/// Maximum size of a payload, in bytes.
pub const MAX_PAYLOAD_BYTES: usize = MAX_FRAME_BYTES - HEADER_BYTES;

/// A complete frame, borrowed from a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Command set; 0xFF for responses.
    pub set: u8,
    /// Command id in the set.
    pub id: u8,
    /// Bytes after the header.
    pub payload: &'a [u8],
}

/// The result of decoding the buffered bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress<'a> {
    /// The frame is incomplete.
    Incomplete {
        /// Buffer length required before the next attempt, in bytes: first for the header, then for the frame. A reader
        /// that never reads beyond this length leaves the bytes after the frame in the socket.
        needed: usize,
    },
    /// The frame is complete. Bytes after it belong to the following data (an event stream, an environment block).
    Complete {
        /// The frame.
        frame: Frame<'a>,
        /// Length of the frame in the buffer, in bytes.
        consumed: usize,
    },
}

/// Encodes a frame.
///
/// # Errors
/// Returns [`MessageError::Limit`] if the payload is larger than [`MAX_PAYLOAD_BYTES`].
pub fn encode_frame(set: u8, id: u8, payload: &[u8]) -> Result<Vec<u8>, MessageError> {
    let length = HEADER_BYTES + payload.len();
    let size = u16::try_from(length).map_err(|_| MessageError::Limit {
        reading: "the size of the payload in bytes",
        value: payload.len() as u64,
        limit: MAX_PAYLOAD_BYTES as u64,
    })?;
    let mut frame = Vec::with_capacity(length);
    frame.extend_from_slice(&MAGIC);
    frame.extend_from_slice(&size.to_le_bytes());
    frame.extend_from_slice(&[set, id, 0, 0]);
    frame.extend_from_slice(payload);
    Ok(frame)
}

/// Decodes a frame from the start of a buffer that can still be incomplete.
///
/// An invalid magic is reported at its first invalid byte, before the header is complete, because a peer with a foreign
/// protocol does not necessarily send 20 bytes.
///
/// # Errors
/// Returns [`MessageError::Magic`] or [`MessageError::FrameSize`] if no further bytes can turn the buffer into a frame.
pub fn decode_frame(buffer: &[u8]) -> Result<Progress<'_>, MessageError> {
    for (offset, (&found, &expected)) in buffer.iter().zip(&MAGIC).enumerate() {
        if found != expected {
            return Err(MessageError::Magic {
                expected: "DOTNET_IPC_V1",
                offset,
                found,
            });
        }
    }
    let Some((header, rest)) = buffer.split_first_chunk::<HEADER_BYTES>() else {
        return Ok(Progress::Incomplete { needed: HEADER_BYTES });
    };
    let [.., size_low, size_high, set, id, _, _] = *header;
    let size = u16::from_le_bytes([size_low, size_high]);
    let Some(length) = usize::from(size).checked_sub(HEADER_BYTES) else {
        return Err(MessageError::FrameSize { size });
    };
    Ok(match rest.get(..length) {
        Some(payload) => Progress::Complete {
            frame: Frame { set, id, payload },
            consumed: usize::from(size),
        },
        None => Progress::Incomplete {
            needed: usize::from(size),
        },
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Scenario: the size field of a frame is 19, one less than the header.
    /// Guarantee: the frame is an error with that size, not an underflow.
    #[test]
    fn size_below_header_is_refused() {
        let mut frame = encode_frame(1, 2, &[]).unwrap();
        frame[14] = 19;
        assert_eq!(decode_frame(&frame), Err(MessageError::FrameSize { size: 19 }));
    }

    /// Scenario: an HTTP server responds.
    /// Guarantee: the response is refused at its first byte.
    #[test]
    fn foreign_bytes_are_refused_at_first_byte() {
        let error = decode_frame(b"H").unwrap_err();
        assert_eq!(
            error,
            MessageError::Magic {
                expected: "DOTNET_IPC_V1",
                offset: 0,
                found: b'H'
            }
        );
    }

    /// Scenario: payloads have the maximum size, and one byte more.
    /// Guarantee: the first payload round-trips, and the second is refused with the limit.
    #[test]
    fn largest_payload_has_65515_bytes() {
        let payload = vec![7; MAX_PAYLOAD_BYTES];
        let bytes = encode_frame(4, 0, &payload).unwrap();
        let Progress::Complete { frame, consumed } = decode_frame(&bytes).unwrap() else {
            panic!("whole frame")
        };
        assert_eq!((frame.payload, consumed), (payload.as_slice(), 65_535));
        assert!(matches!(
            encode_frame(4, 0, &vec![7; MAX_PAYLOAD_BYTES + 1]),
            Err(MessageError::Limit { .. })
        ));
    }

    proptest! {
        /// Scenario: any frame is followed by bytes of a stream, and cut at every position.
        /// Guarantee: a truncated frame requests more bytes than it has and not more than the frame; a complete frame
        /// round-trips without the bytes of the stream.
        #[test]
        fn frame_round_trips_at_every_cut(set: u8, id: u8, payload: Vec<u8>, stream: Vec<u8>) {
            let bytes = encode_frame(set, id, &payload).unwrap();
            for cut in 0..bytes.len() {
                match decode_frame(&bytes[..cut]).unwrap() {
                    Progress::Incomplete { needed } => prop_assert!(needed > cut && needed <= bytes.len()),
                    Progress::Complete { .. } => prop_assert!(false, "complete at {cut} of {}", bytes.len()),
                }
            }
            let all = [bytes.clone(), stream].concat();
            let expected = Progress::Complete { frame: Frame { set, id, payload: &payload }, consumed: bytes.len() };
            prop_assert_eq!(decode_frame(&all), Ok(expected));
        }
    }
}
