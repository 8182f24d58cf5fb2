//! The log of one signal: records in segments, consumed from the front.

use std::collections::VecDeque;
use std::io;

use crate::store::disk::Disk;
use crate::store::position::Position;
use crate::store::record::{HEADER, Header};

/// Maximum number of bytes of a damaged segment that are searched for records.
const MAX_SEARCHED: u64 = 16 << 20;

/// Returns the size of a record with a payload of `len` bytes.
pub(crate) fn space(len: usize) -> u64 {
    (HEADER + len) as u64
}

/// State of a segment. The records are in its file.
#[derive(Debug)]
struct Segment {
    /// Number of the first record, which is also the name of the file.
    first: u64,
    /// Number of whole records.
    records: u64,
    /// Number of items in the records that are not removed.
    items: u64,
    /// Length of the whole records, in bytes.
    len: u64,
    /// Length of the file, in bytes.
    file_len: u64,
    /// Time at which the last record was written.
    newest_unix_ns: u64,
}

impl Segment {
    fn empty(first: u64) -> Self {
        Self {
            first,
            records: 0,
            items: 0,
            len: 0,
            file_len: 0,
            newest_unix_ns: 0,
        }
    }

    fn name(&self) -> String {
        format!("{:016x}", self.first)
    }

    /// Returns the number after the last record.
    fn end(&self) -> u64 {
        self.first + self.records
    }
}

/// The records of one signal.
#[derive(Debug)]
pub(crate) struct Log<D> {
    disk: D,
    segment_bytes: u64,
    segments: VecDeque<Segment>,
    /// Whether the last segment can be written to.
    is_open: bool,
    position: Position,
    /// Offset of the first record that is not removed, in the first segment.
    offset: u64,
    /// Header of the first record that is not removed; `None` until it was read.
    front: Option<Header>,
    next: u64,
    missing: u64,
}

impl<D: Disk> Log<D> {
    /// Reads the log from the disk. Torn records are ignored.
    pub(crate) fn open(mut disk: D, segment_bytes: u64) -> io::Result<Self> {
        let position = Position::read(&mut disk);
        let mut firsts: Vec<(u64, u64)> = Vec::new();
        for (name, len) in disk.list()? {
            // Accept only names that this module creates: no `+00...`, and no number near the maximum.
            match u64::from_str_radix(&name, 16) {
                Ok(first) if first <= u64::MAX / 2 && Segment::empty(first).name() == name => firsts.push((first, len)),
                _ => {}
            }
        }
        firsts.sort_unstable();
        let mut log = Self {
            disk,
            segment_bytes,
            segments: VecDeque::new(),
            is_open: false,
            position,
            offset: 0,
            front: None,
            next: position.number,
            missing: 0,
        };
        let mut behind_last = 0;
        for (first, file_len) in firsts {
            let (segment, offset) = log.scan(first, file_len);
            let behind = log.behind_damage(&segment);
            // A segment without a whole record is removed, too, because its number is free again.
            let unsent = segment.records > 0 && segment.end() > position.number;
            if unsent {
                let expected = log.segments.back().map_or(position.number, Segment::end);
                log.missing += first.saturating_sub(expected);
                behind_last = behind;
                if log.segments.is_empty() {
                    log.offset = offset;
                }
                log.next = log.next.max(segment.end());
                log.segments.push_back(segment);
            } else {
                if segment.first >= position.number {
                    behind_last = behind;
                }
                log.next = log.next.max(segment.end());
                // If this fails, the next opening removes the file.
                let _removed_later = log.disk.remove(&segment.name());
            }
        }
        // For the other segments, the name of the next segment shows how many records are missing.
        log.missing += behind_last;
        if let Some(first) = log.segments.front().map(|segment| segment.first) {
            log.position.number = log.position.number.max(first);
        } else {
            log.position.number = log.next;
        }
        Ok(log)
    }

    /// Returns a segment with its whole records, and the offset of the first record that was not sent.
    fn scan(&mut self, first: u64, file_len: u64) -> (Segment, u64) {
        let mut segment = Segment {
            file_len,
            ..Segment::empty(first)
        };
        let name = segment.name();
        let mut unsent_at = 0;
        while let Some(header) = self.header(&name, segment.len) {
            let end = segment.len + header.record_len();
            if header.number != segment.end() || end > file_len {
                break;
            }
            // Only the last record can be torn behind its header. The payloads of the other records are checked when
            // they are read.
            let is_last = end + HEADER as u64 > file_len || self.header(&name, end).is_none();
            if is_last && !matches!(self.payload(&name, segment.len, &header), Ok(Some(_))) {
                break;
            }
            segment.records += 1;
            segment.len = end;
            segment.newest_unix_ns = segment.newest_unix_ns.max(header.unix_ns);
            if header.number < self.position.number {
                unsent_at = segment.len;
            } else {
                segment.items += u64::from(header.items);
            }
        }
        (segment, unsent_at)
    }

    /// Returns the number of records behind the whole records of a segment, including the record with the damaged
    /// header. The headers are searched for, because a damaged header does not show where the next record starts. A
    /// record that was torn while it was written does not count.
    fn behind_damage(&mut self, segment: &Segment) -> u64 {
        let (at, end) = (segment.len, segment.end());
        let len = usize::try_from(segment.file_len.saturating_sub(at).min(MAX_SEARCHED)).unwrap_or_default();
        let mut rest = vec![0; len];
        if self.disk.read_at(&segment.name(), at, &mut rest).is_err() {
            return 0;
        }
        let headers = rest
            .windows(HEADER)
            .filter_map(|bytes| Header::decode(bytes.try_into().ok()?));
        let behind = headers
            .map(|header| header.number)
            .filter(|number| *number > end && *number < end + MAX_SEARCHED);
        behind.max().map_or(0, |last| last - end + 1)
    }

    /// Returns the payload after a header; `None` if its checksum is wrong.
    fn payload(&mut self, name: &str, offset: u64, header: &Header) -> io::Result<Option<Vec<u8>>> {
        let mut payload = vec![0; header.payload_len as usize];
        self.disk.read_at(name, offset + HEADER as u64, &mut payload)?;
        Ok((crc32fast::hash(&payload) == header.payload_crc).then_some(payload))
    }

    fn header(&mut self, name: &str, offset: u64) -> Option<Header> {
        let mut bytes = [0; HEADER];
        self.disk.read_at(name, offset, &mut bytes).ok()?;
        Header::decode(&bytes)
    }

    pub(crate) fn set_segment_bytes(&mut self, bytes: u64) {
        self.segment_bytes = bytes;
    }

    /// Adds a record. The record is on the disk when this method returns. After an error, the log is unchanged.
    pub(crate) fn append(&mut self, items: u64, plain_len: usize, payload: &[u8], unix_ns: u64) -> io::Result<()> {
        let short = |len: usize| u32::try_from(len).map_err(|_| io::Error::other("the request is too large"));
        let header = Header {
            number: self.next,
            unix_ns,
            items: u32::try_from(items).unwrap_or(u32::MAX),
            plain_len: short(plain_len)?,
            payload_len: short(payload.len())?,
            payload_crc: crc32fast::hash(payload),
        };
        let record = [header.encode().as_slice(), payload].concat();
        let full = self.segments.back().is_none_or(|last| last.len >= self.segment_bytes);
        if !self.is_open || full {
            self.segments.push_back(Segment::empty(self.next));
            self.is_open = true;
        }
        let Some(segment) = self.segments.back_mut() else {
            return Err(io::Error::other("no segment is open"));
        };
        let (name, at, is_new) = (segment.name(), segment.len, segment.records == 0);
        let written = match self.disk.write_at(&name, at, &record) {
            Ok(()) => self.disk.sync(&name, is_new),
            error => error,
        };
        if let Err(error) = written {
            self.is_open = false;
            let undone = if is_new {
                self.segments.pop_back();
                self.disk.remove(&name)
            } else {
                self.disk.cut(&name, at)
            };
            if undone.is_err() {
                // The record can be on the disk anyway, so its number is used up.
                self.next += 1;
            }
            return Err(error);
        }
        segment.records += 1;
        segment.items += u64::from(header.items);
        segment.len += header.record_len();
        segment.file_len = segment.len;
        segment.newest_unix_ns = segment.newest_unix_ns.max(unix_ns);
        self.next += 1;
        Ok(())
    }

    /// Returns the first record, with its payload unless the payload is damaged. Returns `None` if there is no record.
    pub(crate) fn oldest(&mut self) -> io::Result<Option<(Header, Option<Vec<u8>>)>> {
        loop {
            let Some(segment) = self.segments.front() else {
                return Ok(None);
            };
            if self.position.number >= segment.end() {
                self.leave_first();
                continue;
            }
            let (name, offset) = (segment.name(), self.offset);
            let mut bytes = [0; HEADER];
            self.disk.read_at(&name, offset, &mut bytes)?;
            let Some(header) = Header::decode(&bytes).filter(|header| header.number == self.position.number) else {
                // The header was valid when the log was opened.
                let changed = format!("another process has changed {name}");
                return Err(io::Error::new(io::ErrorKind::InvalidData, changed));
            };
            self.front = Some(header);
            let payload = self.payload(&name, offset, &header)?;
            return Ok(Some((header, payload)));
        }
    }

    /// Removes the first record if it has this number and was [read](Self::oldest).
    pub(crate) fn remove(&mut self, number: u64) -> bool {
        let Some(header) = self.front.filter(|front| front.number == number) else {
            return false;
        };
        if let Some(segment) = self.segments.front_mut() {
            segment.items = segment.items.saturating_sub(u64::from(header.items));
        }
        self.offset += header.record_len();
        self.advance(number + 1);
        true
    }

    /// Returns whether the record that was read last has this number and is still stored.
    pub(crate) fn has(&self, number: u64) -> bool {
        self.front.is_some_and(|front| front.number == number)
    }

    /// Returns the time at which the last record of the first segment was written, or `None` if there is no segment.
    pub(crate) fn newest_of_first(&self) -> Option<u64> {
        self.segments.front().map(|segment| segment.newest_unix_ns)
    }

    /// Drops the first segment and returns the number of its items.
    pub(crate) fn drop_first(&mut self) -> u64 {
        let Some((items, end)) = self.segments.front().map(|segment| (segment.items, segment.end())) else {
            return 0;
        };
        self.advance(end);
        items
    }

    /// Removes all records before `number`.
    fn advance(&mut self, number: u64) {
        self.front = None;
        // If the position cannot be written, the records are sent again after a restart.
        if self.position.write(number, &mut self.disk).is_err() {
            self.position.number = number;
        }
        if self.segments.front().is_some_and(|first| first.end() <= number) {
            self.leave_first();
        }
    }

    fn leave_first(&mut self) {
        self.front = None;
        self.offset = 0;
        if let Some(segment) = self.segments.pop_front() {
            // If this fails, the next opening removes the file.
            let _removed_later = self.disk.remove(&segment.name());
        }
        self.is_open &= !self.segments.is_empty();
        let next = self.segments.front().map_or(self.next, |next| next.first);
        self.position.number = self.position.number.max(next);
    }

    pub(crate) fn items(&self) -> u64 {
        self.segments.iter().map(|segment| segment.items).sum()
    }

    /// Returns the number of bytes of the segments.
    pub(crate) fn bytes(&self) -> u64 {
        self.segments
            .iter()
            .map(|segment| segment.file_len.max(segment.len))
            .sum()
    }

    /// Returns the number of records that were missing or behind damage when the log was opened.
    pub(crate) fn missing(&self) -> u64 {
        self.missing
    }

    #[cfg(test)]
    pub(crate) fn disk(&self) -> &D {
        &self.disk
    }

    #[cfg(test)]
    pub(crate) fn into_disk(self) -> D {
        self.disk
    }
}
