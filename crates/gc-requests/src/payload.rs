//! Parser for the bridged event: three fields, of which the last is a list of string pairs.
//!
//! ```text
//! SourceName  UTF-16, terminated by 0
//! EventName   UTF-16, terminated by 0
//! Arguments   u16 count, then that number of pairs: key, value, each UTF-16 terminated by 0
//! ```
//!
//! Layout: `DiagnosticSourceEventSource.Event` of System.Diagnostics.DiagnosticSource, verified with .NET 8 to 11.

use crate::route::Routes;
use crate::session::{END_REQUEST, SOURCE, UNHANDLED};

/// Ticks of 100 ns from year 1 to 1970.
const UNIX_EPOCH_TICKS: i64 = 621_355_968_000_000_000;
/// Maximum length of a text that is compared or parsed, in characters. Ids have 32, names 48.
const MAX_UNITS: usize = 64;
/// Maximum length of a retained path, in characters.
pub const MAX_PATH_CHARS: usize = 256;

/// A completed request, as reported by its event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CompletedRequest {
    /// End of the request, in ticks of the stream's clock.
    pub end_ticks: i64,
    /// Start of the request, in Unix nanoseconds with a resolution of 100 ns; `None` if the request had no activity.
    pub start_unix_ns: Option<i64>,
    pub trace_id: Option<[u8; 16]>,
    /// Span of the request; `None` if the request had no activity.
    pub span_id: Option<[u8; 8]>,
    /// Span of the caller; `None` if there is no caller span or it was not reported.
    pub parent_span_id: Option<[u8; 8]>,
    /// Whether the span is recorded; `None` if the request had no activity.
    pub sampled: Option<bool>,
    /// HTTP status of the response; `None` if it was not reported.
    pub status: Option<u16>,
    /// Whether the request ended with an unhandled exception, or with an error that its span reported.
    pub failed: bool,
    /// Path of the request; `None` if the session did not request paths. [`Self::route`] replaces the path immediately
    /// after parsing.
    pub path: Option<String>,
    /// Class of the path or the source, as an index of [`crate::route::Routes`]; `None` if no class matches.
    pub route: Option<u8>,
    /// Whether the activity is part of another activity of the process, which is counted separately.
    pub is_part: bool,
}

/// A completed activity of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndedActivity {
    /// Data of the event. `end_ticks` is 0, because an activity reports only times of the wall clock.
    pub ended: CompletedRequest,
    /// End of the activity, in Unix nanoseconds.
    pub end_unix_ns: i64,
}

impl EndedActivity {
    /// Parses the payload of an `ActivityStop` event. Returns `None` if the payload is truncated, has no times, or
    /// belongs to a source without a class.
    pub fn read(payload: &[u8], routes: &Routes) -> Option<Self> {
        let mut texts = Texts(payload);
        let source = texts.next()?;
        let mut ended = CompletedRequest {
            route: Some(routes.source(|name| source.is(name))?),
            ..CompletedRequest::default()
        };
        let _operation = texts.next()?;
        let mut duration = None;
        for _ in 0..texts.count()? {
            let (key, value) = (texts.next()?, texts.next()?);
            match key.ascii(&mut [0; MAX_UNITS])? {
                "StartTicks" => ended.start_unix_ns = value.number().and_then(unix_ns),
                "DurationTicks" => duration = value.number(),
                "TraceId" => ended.trace_id = value.id(),
                "SpanId" => ended.span_id = value.id(),
                "ParentSpanId" => ended.parent_span_id = value.id(),
                "ActivityTraceFlags" => ended.sampled = value.flags(),
                "Local" => ended.is_part = !value.0.is_empty(),
                "Failed" => ended.failed = value.is("Error"),
                _ => {}
            }
        }
        let duration = duration?.checked_mul(100).filter(|ns| *ns >= 0)?;
        Some(Self {
            end_unix_ns: ended.start_unix_ns?.checked_add(duration)?,
            ended,
        })
    }
}

impl CompletedRequest {
    /// Parses the payload. Returns `None` if it belongs to another source or event, is truncated, or does not contain
    /// the end of the request.
    pub fn read(payload: &[u8]) -> Option<Self> {
        let mut texts = Texts(payload);
        if !texts.next()?.is(SOURCE) {
            return None;
        }
        let event = texts.next()?;
        let failed = event.is(UNHANDLED);
        if !failed && !event.is(END_REQUEST) {
            return None;
        }
        let mut ended = Self {
            failed,
            ..Self::default()
        };
        let mut end = None;
        for _ in 0..texts.count()? {
            let (key, value) = (texts.next()?, texts.next()?);
            // The comparison starts with the length, in which most keys differ.
            match key.ascii(&mut [0; MAX_UNITS])? {
                "EndTimestamp" => end = value.number(),
                "StartTicks" => ended.start_unix_ns = value.number().and_then(unix_ns),
                "TraceId" => ended.trace_id = value.id(),
                "SpanId" => ended.span_id = value.id(),
                "ParentSpanId" => ended.parent_span_id = value.id(),
                "ActivityTraceFlags" => ended.sampled = value.flags(),
                "Status" => ended.status = value.number().and_then(|status| u16::try_from(status).ok()),
                "Path" => ended.path = value.path(),
                _ => {}
            }
        }
        ended.end_ticks = end?;
        Some(ended)
    }
}

/// Converts `DateTime.Ticks` to Unix nanoseconds. Returns `None` for times before 1970. 0 ticks mean that the activity
/// was never started.
fn unix_ns(ticks: i64) -> Option<i64> {
    let since = ticks.checked_sub(UNIX_EPOCH_TICKS)?;
    (since > 0).then(|| since.checked_mul(100)).flatten()
}

/// The remaining bytes of a payload.
struct Texts<'a>(&'a [u8]);

impl<'a> Texts<'a> {
    fn next(&mut self) -> Option<Text<'a>> {
        let units = self.0.chunks_exact(2).position(|unit| unit == [0, 0])?;
        let (text, rest) = self.0.split_at_checked(units * 2)?;
        self.0 = rest.get(2..)?;
        Some(Text(text))
    }

    fn count(&mut self) -> Option<u16> {
        let (count, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u16::from_le_bytes(*count))
    }
}

/// A little-endian UTF-16 text without its terminator.
#[derive(Clone, Copy)]
struct Text<'a>(&'a [u8]);

impl Text<'_> {
    fn units(self) -> impl Iterator<Item = u16> {
        self.0.chunks_exact(2).map(|unit| match unit {
            [low, high] => u16::from_le_bytes([*low, *high]),
            _ => 0,
        })
    }

    fn is(self, text: &str) -> bool {
        self.0.len() == text.len() * 2 && self.units().eq(text.encode_utf16())
    }

    /// Returns the text if it is ASCII and has at most [`MAX_UNITS`] characters, and an empty text otherwise. `place`
    /// is the buffer for the returned text. The result is always `Some`.
    fn ascii(self, place: &mut [u8; MAX_UNITS]) -> Option<&str> {
        let length = self.0.len() / 2;
        let Some(place) = place.get_mut(..length) else {
            return Some("");
        };
        for (to, unit) in place.iter_mut().zip(self.units()) {
            match u8::try_from(unit) {
                Ok(byte) if byte.is_ascii() => *to = byte,
                _ => return Some(""),
            }
        }
        std::str::from_utf8(place).ok()
    }

    fn number(self) -> Option<i64> {
        self.ascii(&mut [0; MAX_UNITS])?.parse().ok()
    }

    /// Parses an id of `N` bytes in hexadecimal digits. Returns `None` for other texts, and for an id of only zeros,
    /// which is invalid (W3C Trace Context).
    fn id<const N: usize>(self) -> Option<[u8; N]> {
        let mut place = [0; MAX_UNITS];
        let text = self.ascii(&mut place)?;
        if text.len() != N * 2 {
            return None;
        }
        let mut id = [0; N];
        for (byte, digits) in id.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
        }
        (id != [0; N]).then_some(id)
    }

    /// Returns whether `ActivityTraceFlags` marks a span as recorded, or `None` if the text is empty because there is
    /// no activity. The method `ToString()` of the flags writes their names, separated by commas (`Recorded,
    /// RandomTraceId`), or a number if a flag has no name. Unknown names are ignored.
    fn flags(self) -> Option<bool> {
        let mut flags = self;
        while let Some((flag, rest)) = flags.split_comma() {
            if flag.is("Recorded") || flag.is_odd() {
                return Some(true);
            }
            flags = rest;
        }
        (!self.0.is_empty()).then_some(false)
    }

    /// Returns the text before the first comma without surrounding spaces, and the text after it, or `None` if the text
    /// is empty.
    fn split_comma(self) -> Option<(Self, Self)> {
        const SPACE: [u8; 2] = [b' ', 0];
        let comma = self.0.chunks_exact(2).position(|unit| unit == [b',', 0]);
        let (mut head, rest) = self.0.split_at_checked(comma.map_or(self.0.len(), |at| at * 2))?;
        while let Some(trimmed) = head.strip_prefix(&SPACE) {
            head = trimmed;
        }
        while let Some(trimmed) = head.strip_suffix(&SPACE) {
            head = trimmed;
        }
        (!self.0.is_empty()).then_some((Text(head), Text(rest.get(2..).unwrap_or_default())))
    }

    /// Returns whether the text is an odd decimal number of any length.
    fn is_odd(self) -> bool {
        let mut digits = self
            .units()
            .map(|unit| char::from_u32(unit.into()).and_then(|unit| unit.to_digit(10)));
        let mut last = None;
        digits.all(|digit| {
            last = digit;
            digit.is_some()
        }) && last.is_some_and(|digit| digit % 2 == 1)
    }

    fn path(self) -> Option<String> {
        let chars = char::decode_utf16(self.units()).map(|char| char.unwrap_or(char::REPLACEMENT_CHARACTER));
        let path: String = chars.take(MAX_PATH_CHARS).collect();
        (!path.is_empty()).then_some(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(text: &str) -> Vec<u8> {
        text.encode_utf16().chain([0]).flat_map(u16::to_le_bytes).collect()
    }

    fn payload(event: &str, pairs: &[(&str, &str)]) -> Vec<u8> {
        let mut bytes = [text(SOURCE), text(event)].concat();
        bytes.extend((pairs.len() as u16).to_le_bytes());
        for (key, value) in pairs {
            bytes.extend(text(key));
            bytes.extend(text(value));
        }
        bytes
    }

    /// Scenario: the event of a sampled request is in the format of .NET 10.
    /// Guarantee: the times, the span, the sampling, the status and the path are parsed, and a caller span of only
    /// zeros is unknown.
    #[test]
    fn request_is_parsed() {
        let bytes = payload(
            END_REQUEST,
            &[
                ("EndTimestamp", "40373224692517"),
                ("TraceId", "dccc1001a24bc2f463a70df6a50539f6"),
                ("SpanId", "7c84ab9e19e03d31"),
                ("ParentSpanId", "0000000000000000"),
                ("ActivityTraceFlags", "Recorded"),
                ("StartTicks", "639031068503721060"),
                ("Status", "200"),
                ("Path", "/json"),
            ],
        );
        let ended = CompletedRequest::read(&bytes).unwrap();
        assert_eq!((ended.end_ticks, ended.status), (40_373_224_692_517, Some(200)));
        assert_eq!(ended.start_unix_ns, Some(1_767_510_050_372_106_000));
        assert_eq!(ended.span_id, Some([0x7c, 0x84, 0xab, 0x9e, 0x19, 0xe0, 0x3d, 0x31]));
        assert_eq!((ended.parent_span_id, ended.sampled), (None, Some(true)));
        assert_eq!((ended.failed, ended.path.as_deref()), (false, Some("/json")));
    }

    /// Scenario: a request ends with an unhandled exception. There is no logging and no listener, so the request has no
    /// activity and its values are empty.
    /// Guarantee: the request is parsed as failed, with unknown start, trace id, sampling and status.
    #[test]
    fn request_without_activity_is_parsed() {
        let none = ["TraceId", "SpanId", "ActivityTraceFlags", "StartTicks"].map(|key| (key, ""));
        let bytes = payload(UNHANDLED, &[&[("EndTimestamp", "5")], &none[..]].concat());
        let ended = CompletedRequest::read(&bytes).unwrap();
        assert!(ended.failed);
        assert_eq!((ended.end_ticks, ended.start_unix_ns, ended.trace_id), (5, None, None));
        assert_eq!((ended.sampled, ended.status), (None, None));
    }

    /// Scenario: activities are of a source with a class and of another source; one activity is part of a request; one
    /// payload is truncated at each byte.
    /// Guarantee: times, span and class of the first source are parsed; the other source and truncated payloads are
    /// ignored; the part is marked as such.
    #[test]
    fn activity_is_parsed() {
        let routes = Routes::new([crate::route::Route {
            name: "Acme.Jobs".into(),
            path: None,
        }]);
        let activity = |source: &str, local: &str| {
            let pairs = [
                ("TraceId", "dccc1001a24bc2f463a70df6a50539f6"),
                ("SpanId", "7c84ab9e19e03d31"),
                ("ParentSpanId", "0000000000000000"),
                ("ActivityTraceFlags", "Recorded"),
                ("StartTicks", "639031068503721060"),
                ("DurationTicks", "150000"),
                ("Local", local),
                ("Failed", "Error"),
            ];
            let mut bytes = [text(source), text("Job.Run")].concat();
            bytes.extend((pairs.len() as u16).to_le_bytes());
            pairs
                .iter()
                .for_each(|(key, value)| bytes.extend([text(key), text(value)].concat()));
            bytes
        };
        let bytes = activity("Acme.Jobs", "");
        let read = EndedActivity::read(&bytes, &routes).unwrap();
        assert_eq!(read.end_unix_ns, 1_767_510_050_372_106_000 + 15_000_000);
        let ended = &read.ended;
        assert_eq!(
            (ended.route, ended.sampled, ended.is_part),
            (Some(0), Some(true), false)
        );
        assert!(ended.failed && ended.span_id.is_some() && ended.parent_span_id.is_none());
        assert_eq!(EndedActivity::read(&activity("Acme.Other", ""), &routes), None);
        let part = EndedActivity::read(&activity("Acme.Jobs", "Server"), &routes).unwrap();
        assert!(part.ended.is_part);
        for length in 0..bytes.len() {
            assert_eq!(EndedActivity::read(&bytes[..length], &routes), None, "{length}");
        }
    }

    /// Scenario: flags are in the formats of DiagnosticSource before 11 and since 11; some contain a flag without a
    /// name or names of later versions.
    /// Guarantee: a request is sampled if it is recorded, regardless of other flags; without an activity, sampling is
    /// unknown.
    #[test]
    fn recorded_flag_marks_sampled_request() {
        let table = [
            ("None", Some(false)),
            ("Recorded", Some(true)),
            ("RandomTraceId", Some(false)),
            ("Recorded, RandomTraceId", Some(true)),
            ("RandomTraceId, Recorded", Some(true)),
            ("RandomTraceId,Recorded", Some(true)),
            ("RandomTraceId, Unheard", Some(false)),
            ("NotRecorded, RecordedElsewhere", Some(false)),
            (
                "Unheard, OfThisAndThat, AndOfSomethingThatIsLongerThanAnId, Recorded",
                Some(true),
            ),
            ("0", Some(false)),
            ("1", Some(true)),
            ("2", Some(false)),
            ("3", Some(true)),
            ("254", Some(false)),
            ("255", Some(true)),
            ("340282366920938463463374607431768211457", Some(true)),
            ("1x", Some(false)),
            ("x1", Some(false)),
            (",", Some(false)),
            (" ", Some(false)),
            ("", None),
        ];
        for (flags, sampled) in table {
            let bytes = payload(END_REQUEST, &[("EndTimestamp", "1"), ("ActivityTraceFlags", flags)]);
            assert_eq!(CompletedRequest::read(&bytes).unwrap().sampled, sampled, "{flags}");
        }
    }

    proptest! {
        /// Scenario: arbitrary flags of one byte are written like .NET does, with names for none, the first one, the
        /// first two, or the first three flags.
        /// Guarantee: the lowest bit determines whether the request is sampled.
        #[test]
        fn lowest_flag_marks_sampled_request(flags: u8, named in 0_usize..4) {
            let names = ["Recorded", "RandomTraceId", "Unheard"].into_iter().take(named);
            let set: Vec<&str> = names.enumerate().filter(|(bit, _)| flags >> bit & 1 == 1).map(|(_, name)| name).collect();
            let text = match (flags, u32::from(flags).checked_shr(named as u32)) {
                (0, _) => "None".to_owned(),
                (_, Some(0)) => set.join(", "),
                // If one flag has no name, all flags are written as a number.
                _ => flags.to_string(),
            };
            let bytes = payload(END_REQUEST, &[("EndTimestamp", "1"), ("ActivityTraceFlags", &text)]);
            prop_assert_eq!(CompletedRequest::read(&bytes).unwrap().sampled, Some(flags & 1 == 1), "{}", text);
        }

        /// Scenario: payloads are arbitrary bytes, or events that are truncated or changed.
        /// Guarantee: parsing does not panic.
        #[test]
        fn foreign_bytes_do_not_panic(bytes: Vec<u8>, cut in 0_usize..400, place in 0_usize..400, byte: u8) {
            let _any = CompletedRequest::read(&bytes);
            let mut event = payload(END_REQUEST, &[("EndTimestamp", "1"), ("TraceId", "dccc1001a24bc2f463a70df6a50539f6")]);
            let _cut = CompletedRequest::read(event.get(..cut).unwrap_or(&event));
            if let Some(place) = event.get_mut(place) {
                *place = byte;
            }
            let _changed = CompletedRequest::read(&event);
        }
    }
}
