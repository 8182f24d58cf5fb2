//! The history of a run as the bytes of a file. Pure.
//!
//! A file has [`HEAD`], then frames. A frame has the length of the packed buckets (32 bits, little endian), their
//! CRC-32, and the buckets. Each frame is packed independently. A truncated or damaged frame makes the following frames
//! unreadable, but not the previous frames. If two frames contain the same ten seconds, for example after the clock was
//! set back, the newer frame applies.

use std::collections::BTreeMap;

use flate2::Crc;

use super::bucket::Bucket;
use super::packed::{packed, unpacked};

/// First bytes of a file. Another version of the format has different bytes.
pub const HEAD: &[u8; 8] = b"gcwhist1";

/// Maximum number of buckets read from a frame: more than two days.
const MAX_BUCKETS: usize = 20_000;

/// Size of the frame header in bytes.
const FRAME_HEAD: usize = 8;

/// The contents of a file.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct StoredHistory {
    /// Buckets in order, without duplicates.
    pub buckets: Vec<Bucket>,
    /// Number of intact bytes at the start of the file.
    pub whole: usize,
}

fn crc(bytes: &[u8]) -> u32 {
    let mut crc = Crc::new();
    crc.update(bytes);
    crc.sum()
}

/// Encodes buckets, which must be in order, as a frame.
pub fn frame(buckets: &[Bucket]) -> Vec<u8> {
    let body = packed(buckets);
    let length = u32::try_from(body.len()).unwrap_or(u32::MAX);
    let mut frame = Vec::with_capacity(FRAME_HEAD + body.len());
    frame.extend(length.to_le_bytes());
    frame.extend(crc(&body).to_le_bytes());
    frame.extend(body);
    frame
}

/// Reads a file, or returns `None` if it does not start with [`HEAD`].
pub fn read(bytes: &[u8]) -> Option<StoredHistory> {
    let mut rest = bytes.strip_prefix(HEAD)?;
    let mut buckets = BTreeMap::new();
    while let Some((body, after)) = whole_frame(rest) {
        for bucket in unpacked::<Bucket>(body, MAX_BUCKETS) {
            buckets.insert(bucket.index, bucket);
        }
        rest = after;
    }
    Some(StoredHistory {
        buckets: buckets.into_values().collect(),
        whole: bytes.len() - rest.len(),
    })
}

/// Returns the body of the first frame and the remaining bytes, or `None` if the frame is not intact.
fn whole_frame(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    let (sum, rest) = rest.split_first_chunk::<4>()?;
    let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
    let (body, after) = rest.split_at_checked(length)?;
    (!body.is_empty() && crc(body) == u32::from_le_bytes(*sum)).then_some((body, after))
}

/// Merges each `times` buckets into a longer bucket, in order. The index of a longer bucket is the index of the first
/// ten seconds of its interval.
pub fn merged(buckets: impl IntoIterator<Item = Bucket>, times: u64) -> Vec<Bucket> {
    let mut longer: Vec<Bucket> = Vec::new();
    for mut bucket in buckets {
        bucket.index -= bucket.index % times.max(1);
        match longer.last_mut() {
            Some(last) if last.index == bucket.index => last.add(&bucket),
            _ => longer.push(bucket),
        }
    }
    longer
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bucket(index: u64, number: u64) -> Bucket {
        Bucket {
            index,
            stopped_ns: number,
            longest_ns: Some(number),
            pauses: vec![(3, 1), (9, 2)],
            collections: [1, 0, 0, 0, 2, 0, 0, 0, 0, 0],
            allocated: Some(number * 100),
            heap: [Some(number), None, Some(7), None, None],
            container_memory: number.is_multiple_of(2).then_some(number << 12),
            ..Bucket::default()
        }
    }

    proptest! {
        /// Scenario: a file with frames is truncated at any byte, or any byte is changed.
        /// Guarantee: the buckets of the previous frames are unchanged, no other bucket is returned, and the intact
        /// length of the file is known.
        #[test]
        fn damage_affects_only_following_frames(sizes in prop::collection::vec(1u64..8, 1..6), at in 0usize..4000, flip in any::<u8>()) {
            let mut bytes = HEAD.to_vec();
            let (mut ends, mut all, mut next) = (vec![bytes.len()], Vec::new(), 1000);
            for size in sizes {
                let frame_of: Vec<Bucket> = (next..next + size).map(|index| bucket(index, index * 3)).collect();
                bytes.extend(frame(&frame_of));
                ends.push(bytes.len());
                all.push(frame_of);
                next += size;
            }
            let at = at % bytes.len();
            let whole = |damaged: &[u8]| {
                let frames = ends.iter().rposition(|end| *end <= at).unwrap_or(0);
                let before: Vec<Bucket> = all.iter().take(frames).flatten().cloned().collect();
                let stored = read(damaged);
                if at < HEAD.len() {
                    stored.is_none()
                } else {
                    stored == Some(StoredHistory { buckets: before, whole: ends[frames] })
                }
            };
            prop_assert!(whole(&bytes[..at]));
            if flip != 0 {
                let mut changed = bytes.clone();
                changed[at] ^= flip;
                prop_assert!(whole(&changed));
            }
            prop_assert_eq!(read(&bytes).unwrap().buckets, all.concat());
        }

        /// Scenario: a file has a valid head and arbitrary bytes after it.
        /// Guarantee: the file is read without a panic, also if the arbitrary bytes are the body of an intact frame.
        #[test]
        fn arbitrary_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let mut file = HEAD.to_vec();
            file.extend(&bytes);
            // Append the same bytes as the body of a valid frame.
            file.extend(u32::try_from(bytes.len()).unwrap().to_le_bytes());
            file.extend(crc(&bytes).to_le_bytes());
            file.extend(&bytes);
            prop_assert!(read(&file).is_some());
            let mut packed = HEAD.to_vec();
            packed.extend(u32::try_from(bytes.len()).unwrap().to_le_bytes());
            packed.extend(crc(&bytes).to_le_bytes());
            packed.extend(&bytes);
            prop_assert!(read(&packed).is_some());
        }
    }

    /// Scenario: eleven buckets with a gap are merged by three.
    /// Guarantee: sums are preserved, the longest pause is the maximum, sizes are the last known, and the gap remains.
    #[test]
    fn merged_buckets_have_same_sums() {
        let all: Vec<Bucket> = (0..14)
            .filter(|index| !(6..9).contains(index))
            .map(|index| bucket(index, index + 1))
            .collect();
        let longer = merged(all.clone(), 3);
        let places: Vec<u64> = longer.iter().map(|bucket| bucket.index).collect();
        assert_eq!(places, [0, 3, 9, 12]);
        let sum = |of: &[Bucket]| -> u64 { of.iter().map(|bucket| bucket.stopped_ns).sum() };
        assert_eq!(sum(&all), sum(&longer));
        assert_eq!((longer[1].longest_ns, longer[1].allocated), (Some(6), Some(1500)));
        assert_eq!((longer[1].heap[0], longer[1].heap[2]), (Some(6), Some(7)));
        assert_eq!(
            (&longer[1].pauses, longer[1].collections[4]),
            (&vec![(3, 3), (9, 6)], 6)
        );
    }
}
