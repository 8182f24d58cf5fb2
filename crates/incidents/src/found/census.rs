//! Findings of a census for an incident: live objects, the roots that hold them, and growth between two heap dumps.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::plural;

/// Maximum number of types and of roots of a census in an incident.
pub const MAX_LIVING: usize = 8;
/// Maximum number of types and of roots in a clause.
const MAX_OF_CLAUSE: usize = 2;

/// Live objects of a process, and their growth between two heap dumps. Unknown values are null.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct FoundCensus {
    /// Reason why there was no heap dump; null if there was one.
    pub none_because: Option<String>,
    /// Reason why there is no second heap dump, so that growth is unknown; null if there is one, or if it is pending.
    pub alone_because: Option<String>,
    /// Time of the newest dump, RFC 3339; null if there was no dump.
    pub at: Option<String>,
    /// Seconds between the two dumps; null unless there are two dumps.
    pub apart_s: Option<u64>,
    /// Durations for which all threads were suspended, in nanoseconds: each stop of each dump.
    pub stopped_ns: Vec<i64>,
    /// Number of live objects.
    pub objects: Option<u64>,
    /// Bytes of live objects.
    pub bytes: Option<u64>,
    /// Growth of the live bytes; null unless there are two dumps.
    pub grown_bytes: Option<i64>,
    /// Reason why holders are unknown (the graph did not fit); null if holders are known, or if there was no dump.
    pub no_graph_because: Option<String>,
    /// Types that grew between two dumps, the largest growth first; with one dump, the types that keep the most bytes
    /// alive. At most [`MAX_LIVING`].
    pub types: Vec<FoundLiving>,
    /// Roots, selected and sorted like `types`.
    pub roots: Vec<FoundHolder>,
    /// Roots that exclusively keep the most bytes alive in the newest dump. Other bytes are kept alive by several roots
    /// together. At most [`MAX_LIVING`].
    pub kept_by: Vec<FoundKept>,
}

/// Live objects of a type, and their growth.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct FoundLiving {
    /// Human-readable name. A nested type is named without its outer type.
    pub r#type: String,
    /// Number of objects.
    pub objects: u64,
    /// Own bytes of the objects.
    pub bytes: u64,
    /// Bytes that would be freed together with the objects; null without a graph.
    pub retained: Option<u64>,
    /// Growth of the number of objects since the first dump.
    pub grown_objects: Option<i64>,
    /// Growth of the own bytes.
    pub grown_bytes: Option<i64>,
    /// Growth of the bytes that would be freed together with the objects.
    pub grown_retained: Option<i64>,
    /// Root that holds most of the objects: a static field, a handle, a stack; null without a graph.
    pub root: Option<String>,
    /// Types on the path from the root to the object. Consecutive objects of one type are merged.
    pub path: Vec<String>,
}

/// Objects held by a root, and their growth.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct FoundHolder {
    /// Name of the root: `static entries`, `stack of Program.Main`, `strong handles`.
    pub root: String,
    /// Number of objects that only this root keeps alive.
    pub objects: u64,
    /// Bytes that only this root keeps alive.
    pub retained: u64,
    /// Bytes of the objects whose shortest path starts at this root, even if other roots hold them too.
    pub reached: u64,
    /// Growth since the first dump of the bytes that only this root keeps alive.
    pub grown_retained: Option<i64>,
    /// Growth of the bytes whose shortest path starts at this root.
    pub grown_reached: Option<i64>,
}

/// A root with the bytes that only this root keeps alive.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FoundKept {
    /// Name of the root.
    pub root: String,
    /// Bytes that only this root keeps alive.
    pub retained: u64,
}

impl FoundCensus {
    /// Creates the result if there was no heap dump, from the reason.
    pub fn none(because: String) -> Self {
        Self {
            none_because: Some(because),
            ..Self::default()
        }
    }

    /// Returns whether the result is final. A result is not final while a second dump is pending.
    pub fn is_final(&self) -> bool {
        self.none_because.is_some() || self.alone_because.is_some() || self.apart_s.is_some()
    }

    /// Returns `14.2 MiB more live after 300 s: Order +71450 objects, +12.1 MiB, held by static entries; ...`.
    pub fn clause(&self) -> String {
        if let Some(because) = &self.none_because {
            return format!("not taken: {because}");
        }
        let types = self.types.iter().filter(|one| one.is_subject());
        let mut parts: Vec<String> = types.take(MAX_OF_CLAUSE).map(FoundLiving::text).collect();
        // Omit roots that grew by less than a tenth of the first root.
        let most = self.roots.first().map_or(0, FoundHolder::growth);
        let is_worth = |root: &&FoundHolder| self.apart_s.is_none() || root.growth() > most / 10;
        let grown = self.roots.iter().filter(is_worth);
        parts.extend(grown.take(MAX_OF_CLAUSE).map(FoundHolder::text));
        let mut text = match (self.apart_s, self.grown_bytes) {
            (Some(apart), Some(grown)) if grown >= 0 => {
                format!("{} more live after {apart} s", mib(grown.unsigned_abs()))
            }
            (Some(apart), Some(grown)) => format!("{} less live after {apart} s", mib(grown.unsigned_abs())),
            _ => format!("{} live", mib(self.bytes.unwrap_or(0))),
        };
        if parts.is_empty() && self.apart_s.is_some() {
            text.push_str(": no type grew");
        }
        if !parts.is_empty() {
            text = format!("{text}: {}", parts.join("; "));
        }
        if let Some(because) = &self.alone_because {
            text = format!("{text}; not compared: {because}");
        }
        text
    }
}

impl FoundLiving {
    /// Returns whether the type is worth naming: its number of objects grew, or the growth is unknown. A list that
    /// holds growing content is still one object, so it is not worth naming.
    fn is_subject(&self) -> bool {
        self.grown_objects.is_none_or(|objects| objects > 0)
    }

    fn text(&self) -> String {
        let held = self.root.as_ref().map(|root| format!(", held by {root}"));
        let held = held.unwrap_or_default();
        // Use the larger growth of retained and own bytes. Without growth, use retained bytes or, if unknown, own
        // bytes.
        if let (Some(objects), Some(grown)) = (self.grown_objects, self.grown_retained.max(self.grown_bytes)) {
            return format!("{} {objects:+} objects, {}{held}", self.r#type, more(grown));
        }
        let (count, kept) = (plural(self.objects, "object"), self.retained.unwrap_or(self.bytes));
        format!("{count} of {}, {}{held}", self.r#type, mib(kept))
    }
}

impl FoundHolder {
    /// Returns the growth between two dumps, in bytes: the larger growth of retained and reached bytes, or 0 if
    /// unknown.
    pub fn growth(&self) -> i64 {
        self.grown_retained.max(self.grown_reached).unwrap_or(0)
    }

    fn text(&self) -> String {
        match self.grown_retained.max(self.grown_reached) {
            Some(grown) => format!("{} holds {}", self.root, more(grown)),
            None => format!("{} holds {}", self.root, mib(self.retained.max(self.reached))),
        }
    }
}

/// Returns `+1.5 MiB`.
fn more(bytes: i64) -> String {
    let sign = if bytes < 0 { '-' } else { '+' };
    format!("{sign}{}", mib(bytes.unsigned_abs()))
}

/// Returns `1.5 MiB`.
fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn grown() -> FoundCensus {
        let list = FoundLiving {
            r#type: "List<Leaked>".to_owned(),
            grown_objects: Some(0),
            grown_retained: Some(12 * MIB as i64),
            ..FoundLiving::default()
        };
        let leaked = FoundLiving {
            r#type: "Leaked".to_owned(),
            objects: 80_000,
            bytes: 2_560_000,
            retained: Some(13 * MIB),
            grown_objects: Some(71_450),
            grown_bytes: Some(2_286_400),
            grown_retained: Some(12 * MIB as i64),
            root: Some("static entries".to_owned()),
            path: vec!["List<Leaked>".to_owned(), "Leaked[]".to_owned(), "Leaked".to_owned()],
        };
        let root = FoundHolder {
            root: "static entries".to_owned(),
            grown_retained: Some(12 * MIB as i64),
            ..FoundHolder::default()
        };
        FoundCensus {
            apart_s: Some(300),
            bytes: Some(120 * MIB),
            grown_bytes: Some(12 * MIB as i64),
            types: vec![list, leaked],
            roots: vec![root, FoundHolder::default()],
            ..FoundCensus::default()
        }
    }

    /// Scenario: one type grows between two dumps, in a list that is still one object; then nothing grows.
    /// Guarantee: the clause names the type with more objects, its root, and the root that grew.
    #[test]
    fn clause_names_grown_type_and_root() {
        let mut found = grown();
        assert_eq!(
            found.clause(),
            "12.0 MiB more live after 300 s: Leaked +71450 objects, +12.0 MiB, held by static entries; static entries \
             holds +12.0 MiB"
        );
        assert!(found.is_final());
        (found.types, found.roots) = (Vec::new(), Vec::new());
        found.grown_bytes = Some(-(MIB as i64));
        assert_eq!(found.clause(), "1.0 MiB less live after 300 s: no type grew");
    }

    /// Scenario: there is one dump and a second is pending; then the second dump is refused; then there is no dump.
    /// Guarantee: the clause names live objects, no growth, and the reason; only a result with a pending dump is not
    /// final.
    #[test]
    fn clause_of_single_dump_names_live_objects() {
        let mut found = grown();
        (found.apart_s, found.grown_bytes) = (None, None);
        for one in &mut found.types {
            (one.grown_objects, one.grown_bytes, one.grown_retained) = (None, None, None);
        }
        found.types.remove(0);
        found.roots.clear();
        assert_eq!(
            found.clause(),
            "120.0 MiB live: 80000 objects of Leaked, 13.0 MiB, held by static entries"
        );
        assert!(!found.is_final());
        found.alone_because = Some("the container is full".to_owned());
        assert!(found.is_final() && found.clause().ends_with("; not compared: the container is full"));
        let none = FoundCensus::none("busy".to_owned());
        assert!(none.is_final() && none.clause() == "not taken: busy");
    }

    /// Scenario: a census is written and read; a census of an older version lacks fields.
    /// Guarantee: the census round-trips unchanged, and missing fields are unknown.
    #[test]
    fn census_round_trips_through_json() {
        let text = serde_json::to_string(&grown()).unwrap();
        assert_eq!(serde_json::from_str::<FoundCensus>(&text).unwrap(), grown());
        assert_eq!(
            serde_json::from_str::<FoundCensus>("{}").unwrap(),
            FoundCensus::default()
        );
    }
}
