//! Writes the pprof format (`profile.proto` of google/pprof), limited to the fields for allocation profiles. The caller
//! must compress the profile with gzip, as `go tool pprof` and Pyroscope expect.
//!
//! Each sample of an allocation profile has two values: the number of samples, and the bytes that these samples
//! represent. The addresses are from the traced process. Function names are readable names, and `system_name` is the
//! name in the runtime.

use std::collections::HashMap;

use prost::Message;

use crate::burst_facts::BurstFacts;
use crate::name::Frame;

#[derive(Clone, PartialEq, Message)]
struct Profile {
    #[prost(message, repeated, tag = "1")]
    sample_type: Vec<ValueType>,
    #[prost(message, repeated, tag = "2")]
    sample: Vec<Sample>,
    #[prost(message, repeated, tag = "4")]
    location: Vec<Location>,
    #[prost(message, repeated, tag = "5")]
    function: Vec<Function>,
    #[prost(string, repeated, tag = "6")]
    string_table: Vec<String>,
    #[prost(int64, tag = "9")]
    time_nanos: i64,
    #[prost(int64, tag = "10")]
    duration_nanos: i64,
    #[prost(message, optional, tag = "11")]
    period_type: Option<ValueType>,
    #[prost(int64, tag = "12")]
    period: i64,
    #[prost(int64, repeated, tag = "13")]
    comment: Vec<i64>,
    #[prost(int64, tag = "14")]
    default_sample_type: i64,
}

#[derive(Clone, PartialEq, Message)]
struct ValueType {
    #[prost(int64, tag = "1")]
    r#type: i64,
    #[prost(int64, tag = "2")]
    unit: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Sample {
    #[prost(uint64, repeated, tag = "1")]
    location_id: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    value: Vec<i64>,
    #[prost(message, repeated, tag = "3")]
    label: Vec<Label>,
}

#[derive(Clone, PartialEq, Message)]
struct Label {
    #[prost(int64, tag = "1")]
    key: i64,
    #[prost(int64, tag = "2")]
    str: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Location {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(uint64, tag = "3")]
    address: u64,
    #[prost(message, repeated, tag = "4")]
    line: Vec<Line>,
}

#[derive(Clone, PartialEq, Message)]
struct Line {
    #[prost(uint64, tag = "1")]
    function_id: u64,
}

#[derive(Clone, PartialEq, Message)]
struct Function {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(int64, tag = "2")]
    name: i64,
    #[prost(int64, tag = "3")]
    system_name: i64,
}

/// A stack of a profile: addresses with their frames, innermost first, the allocated type, the number of samples, and
/// the bytes that these samples represent.
#[derive(Debug, Clone, PartialEq)]
pub struct SampleStack<'a> {
    /// Addresses and frames, innermost first.
    pub frames: Vec<(u64, &'a Frame)>,
    /// Name of the type in the runtime; `None` if unknown.
    pub type_name: Option<&'a str>,
    /// Number of samples.
    pub samples: u64,
    /// Bytes that the samples represent.
    pub bytes: f64,
}

#[derive(Debug, Default)]
struct Tables {
    strings: HashMap<String, i64>,
    profile: Profile,
    functions: HashMap<(i64, i64), u64>,
    locations: HashMap<u64, u64>,
}

impl Tables {
    /// Creates tables for a profile with these two values per sample, each with its name and unit. Tools display the
    /// second value by default.
    fn new(values: [(&str, &str); 2], unix_ns: Option<i64>) -> Self {
        let mut tables = Self::default();
        // The format requires that the first string is empty.
        tables.text("");
        let [first, second] = values.map(|(name, unit)| ValueType {
            r#type: tables.text(name),
            unit: tables.text(unit),
        });
        tables.profile.default_sample_type = second.r#type;
        tables.profile.sample_type = vec![first, second];
        tables.profile.time_nanos = unix_ns.unwrap_or(0);
        tables
    }

    fn text(&mut self, text: &str) -> i64 {
        if let Some(place) = self.strings.get(text) {
            return *place;
        }
        let place = self.profile.string_table.len() as i64;
        self.profile.string_table.push(text.to_owned());
        self.strings.insert(text.to_owned(), place);
        place
    }

    /// Returns the id of the location with this key, and adds the location if the key is new.
    fn location(&mut self, key: u64, address: u64, (name, system_name): (&str, &str)) -> u64 {
        if let Some(id) = self.locations.get(&key) {
            return *id;
        }
        let (name, system_name) = (self.text(name), self.text(system_name));
        let function_id = *self.functions.entry((name, system_name)).or_insert_with(|| {
            let id = self.profile.function.len() as u64 + 1;
            self.profile.function.push(Function { id, name, system_name });
            id
        });
        let id = self.profile.location.len() as u64 + 1;
        self.profile.location.push(Location {
            id,
            address,
            line: vec![Line { function_id }],
        });
        self.locations.insert(key, id);
        id
    }
}

/// Encodes an allocation profile without compression. `facts` contains the length of the profile. `unix_ns` is the
/// start time of the profile in nanoseconds since 1970; `None` if unknown. `biased` states whether the samples are
/// ticks; if so, a comment in the profile reports the bias.
pub fn encode(stacks: &[SampleStack<'_>], facts: &BurstFacts, unix_ns: Option<i64>, biased: bool) -> Vec<u8> {
    let mut tables = Tables::new([("alloc_samples", "count"), ("alloc_space", "bytes")], unix_ns);
    tables.profile.period_type = tables.profile.sample_type.last().cloned();
    tables.profile.period = crate::estimate::INTERVAL_BYTES as i64;
    if biased {
        let comment = tables.text("biased: from AllocationTick, one about every 100 KB");
        tables.profile.comment.push(comment);
    }
    let key = tables.text("type");
    for stacked in stacks {
        let location_id = stacked
            .frames
            .iter()
            .map(|(address, frame)| tables.location(*address, *address, (&*frame.name, &*frame.raw)))
            .collect();
        let label = stacked.type_name.map(|name| Label {
            key,
            str: tables.text(name),
        });
        tables.profile.sample.push(Sample {
            location_id,
            value: vec![
                i64::try_from(stacked.samples).unwrap_or(i64::MAX),
                stacked.bytes.round() as i64,
            ],
            label: label.into_iter().collect(),
        });
    }
    let duration = facts.window.length().and_then(|ns| i64::try_from(ns).ok());
    tables.profile.duration_nanos = duration.unwrap_or(0);
    tables.profile.encode_to_vec()
}

/// A stack of names, innermost first, with its weights.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WeightedStack<'a> {
    /// Names, innermost first.
    pub names: Vec<&'a str>,
    /// Weights, one for each of the two values of the profile.
    pub values: [u64; 2],
}

/// Encodes a profile of names that are not methods, such as types of a heap, without compression. `values` contains the
/// name and the unit of each of the two values. `unix_ns` is the start time of the profile in nanoseconds since 1970;
/// `None` if unknown. Tools display the second value by default.
pub fn encode_names(stacks: &[WeightedStack<'_>], values: [(&str, &str); 2], unix_ns: Option<i64>) -> Vec<u8> {
    let mut tables = Tables::new(values, unix_ns);
    for stack in stacks {
        let names = stack.names.iter().copied().map(|name| {
            // A name has one location, whose key is the index of the string.
            let key = tables.text(name) as u64;
            tables.location(key, 0, (name, name))
        });
        let location_id = names.collect();
        let value = stack.values.map(|value| i64::try_from(value).unwrap_or(i64::MAX));
        tables.profile.sample.push(Sample {
            location_id,
            value: value.to_vec(),
            label: Vec::new(),
        });
    }
    tables.profile.encode_to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: two stacks share a frame.
    /// Guarantee: each frame is stored once, the first string is empty, and all ids are valid.
    #[test]
    fn profile_has_valid_references() {
        let (main, parse) = (Frame::new("Shop.Program", "Main"), Frame::new("Shop.Orders", "Parse"));
        let main = (10, &main);
        let stacks = [
            SampleStack {
                frames: vec![(20, &parse), main],
                type_name: Some("System.String"),
                samples: 2,
                bytes: 204_800.4,
            },
            SampleStack {
                frames: vec![main],
                type_name: None,
                samples: 1,
                bytes: 1.0,
            },
        ];
        let facts = crate::burst::Burst::new(crate::burst::Origin::File).facts();
        let profile = Profile::decode(encode(&stacks, &facts, Some(5), false).as_slice()).unwrap();
        assert_eq!(profile.string_table[0], "");
        assert_eq!((profile.location.len(), profile.function.len()), (2, 2));
        assert_eq!(profile.sample[0].location_id, [1, 2]);
        assert_eq!(profile.sample[1].location_id, [2]);
        assert_eq!(profile.sample[0].value, [2, 204_800]);
        let text = |place: i64| profile.string_table[place as usize].as_str();
        assert_eq!(text(profile.sample[0].label[0].str), "System.String");
        assert_eq!(text(profile.function[0].name), "Shop.Orders.Parse");
        assert_eq!(text(profile.sample_type[1].r#type), "alloc_space");
        assert_eq!(profile.time_nanos, 5);
    }

    /// Scenario: a profile has two stacks of names; one stack contains a name twice.
    /// Guarantee: each name is stored once, and all ids are valid.
    #[test]
    fn profile_of_names_has_valid_references() {
        let stacks = [
            WeightedStack {
                names: vec!["Node", "List", "Node"],
                values: [3, 72],
            },
            WeightedStack {
                names: vec!["List"],
                values: [1, 32],
            },
        ];
        let values = [("inuse_objects", "count"), ("inuse_space", "bytes")];
        let profile = Profile::decode(encode_names(&stacks, values, None).as_slice()).unwrap();
        let text = |place: i64| profile.string_table[place as usize].as_str();
        assert_eq!((profile.location.len(), profile.function.len()), (2, 2));
        assert_eq!(profile.sample[0].location_id, [1, 2, 1]);
        assert_eq!(profile.sample[1].value, [1, 32]);
        assert_eq!(text(profile.function[1].name), "List");
        assert_eq!(text(profile.default_sample_type), "inuse_space");
    }
}
