//! Converts the allocations of a burst to an OTLP profile (`opentelemetry/proto/profiles/v1development/profiles.proto`,
//! in development). Pure.
//!
//! Repeated values are in tables to which the profile refers by index. Index 0 of each table is its empty value. Each
//! sample has one value: the bytes that it represents.

use std::collections::HashMap;
use std::hash::Hash;

use clr_evidence::burst::Window;
use clr_evidence::estimate::INTERVAL_BYTES;
use clr_evidence::name::{Frame, type_name};
use clr_evidence::pprof::SampleStack;
use gc_telemetry::definition::Attribute;
use gc_telemetry::definition::anomaly::INCIDENT_ID;
use gc_telemetry::definition::profile::{ALLOCATED_TYPE, BIASED, FRAME_TYPE};
use opentelemetry_proto::tonic::common::v1::AnyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::profiles::v1development::{
    Function, KeyValueAndUnit, Line, Link, Location, Mapping, Profile, ProfilesDictionary, Sample, Stack, ValueType,
};

/// Type and unit of the samples, as in profiles of Go and in [`clr_evidence::pprof`].
const SPACE: (&str, &str) = ("alloc_space", "bytes");

/// A profile, and the tables to which it refers.
#[derive(Debug, Clone, PartialEq)]
pub struct ProfileData {
    /// The profile with its samples.
    pub profile: Profile,
    /// Strings, functions, locations, stacks and attributes.
    pub dictionary: ProfilesDictionary,
}

/// Metadata of a profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subject<'a> {
    /// Id of the incident that requested the profile.
    pub incident: &'a str,
    /// Time span of the samples, on the stream's clock.
    pub window: Window,
    /// Start of the profile, in Unix nanoseconds.
    pub began_unix_ns: u64,
    /// Whether the runtime did not sample randomly.
    pub is_biased: bool,
    /// Unique id of the profile.
    pub id: [u8; 16],
}

/// Creates the profile of these stacks.
pub fn profile(stacks: &[SampleStack<'_>], subject: &Subject<'_>) -> ProfileData {
    let mut tables = Tables::new();
    let space = ValueType {
        type_strindex: tables.text(SPACE.0),
        unit_strindex: tables.text(SPACE.1),
    };
    let frame_type = tables.attribute(&FRAME_TYPE, Value::StringValue("dotnet".to_owned()), "dotnet");
    let samples = stacks.iter().map(|stacked| {
        let frames = stacked.frames.iter();
        let locations = frames.map(|(address, frame)| tables.location(*address, frame, frame_type));
        let locations: Vec<i32> = locations.collect();
        let allocated = stacked.type_name.map(type_name);
        let allocated =
            allocated.map(|name| tables.attribute(&ALLOCATED_TYPE, Value::StringValue(name.clone()), &name));
        Sample {
            stack_index: tables.stack(locations),
            attribute_indices: allocated.into_iter().collect(),
            values: vec![stacked.bytes.round() as i64],
            ..Sample::default()
        }
    });
    let samples = samples.collect();
    let incident = Value::StringValue(subject.incident.to_owned());
    let attribute_indices = vec![
        tables.attribute(&INCIDENT_ID, incident, subject.incident),
        tables.attribute(&BIASED, Value::BoolValue(subject.is_biased), ""),
    ];
    let profile = Profile {
        sample_type: Some(space),
        samples,
        time_unix_nano: subject.began_unix_ns,
        duration_nano: subject.window.length().unwrap_or(0),
        period_type: (!subject.is_biased).then_some(space),
        period: if subject.is_biased { 0 } else { INTERVAL_BYTES as i64 },
        profile_id: subject.id.to_vec(),
        attribute_indices,
        ..Profile::default()
    };
    ProfileData {
        profile,
        dictionary: tables.dictionary,
    }
}

/// The tables, and the indices of their rows.
struct Tables {
    dictionary: ProfilesDictionary,
    strings: HashMap<String, i32>,
    functions: HashMap<(i32, i32), i32>,
    locations: HashMap<u64, i32>,
    stacks: HashMap<Vec<i32>, i32>,
    attributes: HashMap<(&'static str, String), i32>,
}

impl Tables {
    fn new() -> Self {
        let dictionary = ProfilesDictionary {
            mapping_table: vec![Mapping::default()],
            location_table: vec![Location::default()],
            function_table: vec![Function::default()],
            link_table: vec![Link::default()],
            string_table: vec![String::new()],
            attribute_table: vec![KeyValueAndUnit::default()],
            stack_table: vec![Stack::default()],
        };
        Self {
            dictionary,
            strings: HashMap::from([(String::new(), 0)]),
            functions: HashMap::new(),
            locations: HashMap::new(),
            stacks: HashMap::from([(Vec::new(), 0)]),
            attributes: HashMap::new(),
        }
    }

    fn text(&mut self, text: &str) -> i32 {
        if let Some(place) = self.strings.get(text) {
            return *place;
        }
        put(
            &mut self.dictionary.string_table,
            text.to_owned(),
            &mut self.strings,
            text.to_owned(),
        )
    }

    /// Adds an attribute. `distinct` distinguishes its values.
    fn attribute(&mut self, attribute: &Attribute, value: Value, distinct: &str) -> i32 {
        let key = (attribute.name, distinct.to_owned());
        if let Some(place) = self.attributes.get(&key) {
            return *place;
        }
        let row = KeyValueAndUnit {
            key_strindex: self.text(attribute.name),
            value: Some(AnyValue { value: Some(value) }),
            unit_strindex: 0,
        };
        put(&mut self.dictionary.attribute_table, row, &mut self.attributes, key)
    }

    fn location(&mut self, address: u64, frame: &Frame, frame_type: i32) -> i32 {
        if let Some(place) = self.locations.get(&address) {
            return *place;
        }
        let names = (self.text(&frame.name), self.text(&frame.raw));
        let function_index = match self.functions.get(&names) {
            Some(place) => *place,
            None => {
                let function = Function {
                    name_strindex: names.0,
                    system_name_strindex: names.1,
                    ..Function::default()
                };
                put(
                    &mut self.dictionary.function_table,
                    function,
                    &mut self.functions,
                    names,
                )
            }
        };
        let location = Location {
            address,
            lines: vec![Line {
                function_index,
                ..Line::default()
            }],
            attribute_indices: vec![frame_type],
            ..Location::default()
        };
        put(
            &mut self.dictionary.location_table,
            location,
            &mut self.locations,
            address,
        )
    }

    fn stack(&mut self, locations: Vec<i32>) -> i32 {
        if let Some(place) = self.stacks.get(&locations) {
            return *place;
        }
        let stack = Stack {
            location_indices: locations.clone(),
        };
        put(&mut self.dictionary.stack_table, stack, &mut self.stacks, locations)
    }
}

/// Appends a row and returns its index. A burst has some thousands of samples, each with at most some hundreds of
/// frames.
fn put<K: Eq + Hash, T>(table: &mut Vec<T>, row: T, places: &mut HashMap<K, i32>, key: K) -> i32 {
    let place = i32::try_from(table.len()).unwrap_or(i32::MAX);
    table.push(row);
    places.insert(key, place);
    place
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: a profile has three stacks with a common frame. Two stacks are equal and have different types; the
    /// third stack has an unknown type.
    /// Guarantee: every row occurs once, after the empty row of its table, and every index refers to the original
    /// value.
    #[test]
    fn profile_refers_to_table_rows() {
        let names = [
            Frame::new("Shop.Program", "Main"),
            Frame::new("Shop.Orders+<ParseAsync>d__7", "MoveNext"),
        ];
        let (main, parse) = ((10, &names[0]), (20, &names[1]));
        let stacked = |frames: Vec<_>, type_name, bytes| SampleStack {
            frames,
            type_name,
            samples: 1,
            bytes,
        };
        let both = [parse, main];
        let stacks = [
            stacked(both.to_vec(), Some("System.String"), 102_400.4),
            stacked(both.to_vec(), Some("System.Byte[]"), 1e6),
            stacked(vec![main], None, 24.0),
        ];
        let subject = Subject {
            incident: "b62235ca546ae1fd",
            window: Window {
                start: Some(5),
                end: Some(1_005),
            },
            began_unix_ns: 77,
            is_biased: false,
            id: [7; 16],
        };
        let ProfileData { profile, dictionary } = profile(&stacks, &subject);
        let lengths = [
            dictionary.mapping_table.len(),
            dictionary.link_table.len(),
            dictionary.location_table.len(),
            dictionary.function_table.len(),
            dictionary.stack_table.len(),
        ];
        assert_eq!(lengths, [1, 1, 3, 3, 3]);
        assert_eq!(dictionary.attribute_table[0], KeyValueAndUnit::default());
        let text = |place: i32| dictionary.string_table[place as usize].as_str();
        let shown = |sample: &Sample| {
            let stack = &dictionary.stack_table[sample.stack_index as usize];
            let names = stack.location_indices.iter().map(|place| {
                let location = &dictionary.location_table[*place as usize];
                let function = &dictionary.function_table[location.lines[0].function_index as usize];
                let kind = &dictionary.attribute_table[location.attribute_indices[0] as usize];
                assert_eq!(text(kind.key_strindex), "profile.frame.type");
                text(function.name_strindex)
            });
            let names: Vec<&str> = names.collect();
            let of = sample.attribute_indices.iter().map(|place| {
                let row = &dictionary.attribute_table[*place as usize];
                match &row.value.as_ref().unwrap().value {
                    Some(Value::StringValue(value)) => format!("{}={value}", text(row.key_strindex)),
                    other => panic!("{other:?}"),
                }
            });
            let of: Vec<String> = of.collect();
            format!("{} {} {:?}", names.join("<"), of.join(","), sample.values)
        };
        let shown: Vec<String> = profile.samples.iter().map(shown).collect();
        let expected = [
            "Shop.Orders.ParseAsync<Shop.Program.Main gcwatch.allocation.type=string [102400]",
            "Shop.Orders.ParseAsync<Shop.Program.Main gcwatch.allocation.type=byte[] [1000000]",
            "Shop.Program.Main  [24]",
        ];
        assert_eq!(shown, expected);
        let space = profile.sample_type.unwrap();
        assert_eq!((text(space.type_strindex), text(space.unit_strindex)), SPACE);
        assert_eq!((profile.time_unix_nano, profile.duration_nano), (77, 1_000));
        assert_eq!(profile.period, 102_400);
        assert_eq!(profile.attribute_indices.len(), 2);
    }
}
