//! What a census found for an incident: what lives, what holds it, and what grew between two heap dumps.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::plural;

/// Types and roots that an incident has of a census, each.
pub const MOST_LIVING: usize = 8;
/// Types and roots of a clause.
const MOST_OF_CLAUSE: usize = 2;

/// What lives in a process, and what grew between two heap dumps. Unknown values are null.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct FoundCensus {
    /// Why there was no heap dump; null: there was one.
    pub none_because: Option<String>,
    /// Why there is no second one, so that nothing is known of growth; null: there is one, or it is to come.
    pub alone_because: Option<String>,
    /// When the newest dump was, RFC 3339; null: there was none.
    pub at: Option<String>,
    /// How long before it the first one was, seconds; null: there is one.
    pub apart_s: Option<u64>,
    /// How long all threads stood for it, nanoseconds: each stop of each dump.
    pub stopped_ns: Vec<i64>,
    /// Objects that live.
    pub objects: Option<u64>,
    /// Their bytes.
    pub bytes: Option<u64>,
    /// By how much these grew; null: there is one dump.
    pub grown_bytes: Option<i64>,
    /// Why nothing is known of who holds what: the graph had no room.
    pub no_graph_because: Option<String>,
    /// Of two dumps the types that grew, most first; of one, those that keep most bytes alive. At most
    /// [`MOST_LIVING`].
    pub types: Vec<FoundLiving>,
    /// The same of roots.
    pub roots: Vec<FoundHolder>,
    /// Roots that alone keep most bytes alive, in the newest dump; the rest is kept by several together. At most
    /// [`MOST_LIVING`].
    pub kept_by: Vec<FoundKept>,
}

/// What lives of a type, and its growth.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct FoundLiving {
    /// As people write it. A nested type comes without its outer type.
    pub r#type: String,
    /// Objects.
    pub objects: u64,
    /// Own bytes.
    pub bytes: u64,
    /// Bytes that would go with them; null: there is no graph.
    pub retained: Option<u64>,
    /// More objects than in the first dump.
    pub grown_objects: Option<i64>,
    /// More own bytes.
    pub grown_bytes: Option<i64>,
    /// More bytes that would go with them.
    pub grown_retained: Option<i64>,
    /// What holds most of them: a static field, a handle, a stack; null: there is no graph.
    pub root: Option<String>,
    /// Types from there to it; neighbours of one type are one.
    pub path: Vec<String>,
}

/// What a root holds, and its growth.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct FoundHolder {
    /// `static entries`, `stack of Program.Main`, `strong handles`.
    pub root: String,
    /// Objects that it alone keeps.
    pub objects: u64,
    /// Bytes that it alone keeps.
    pub retained: u64,
    /// Bytes of the objects whose shortest way begins here, whoever else holds them.
    pub reached: u64,
    /// More bytes that it alone keeps than in the first dump.
    pub grown_retained: Option<i64>,
    /// More bytes whose shortest way begins here.
    pub grown_reached: Option<i64>,
}

/// A root with what it alone keeps.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FoundKept {
    /// The root.
    pub root: String,
    /// Bytes.
    pub retained: u64,
}

impl FoundCensus {
    /// There was no heap dump.
    pub fn none(because: String) -> Self {
        Self {
            none_because: Some(because),
            ..Self::default()
        }
    }

    /// Whether nothing more comes of it: not where a second dump is to come.
    pub fn is_final(&self) -> bool {
        self.none_because.is_some() || self.alone_because.is_some() || self.apart_s.is_some()
    }

    /// `14.2 MiB more live after 300 s: Order +71450 objects, +12.1 MiB, held by static entries; ...`.
    pub fn clause(&self) -> String {
        if let Some(because) = &self.none_because {
            return format!("not taken: {because}");
        }
        let types = self.types.iter().filter(|one| one.is_subject());
        let mut parts: Vec<String> = types.take(MOST_OF_CLAUSE).map(FoundLiving::text).collect();
        // What grew by less than a tenth of the first one is not worth a word.
        let most = self.roots.first().map_or(0, FoundHolder::growth);
        let is_worth = |root: &&FoundHolder| self.apart_s.is_none() || root.growth() > most / 10;
        let grown = self.roots.iter().filter(is_worth);
        parts.extend(grown.take(MOST_OF_CLAUSE).map(FoundHolder::text));
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
    /// Worth a word: a list that holds what grew has no more objects than before.
    fn is_subject(&self) -> bool {
        self.grown_objects.is_none_or(|objects| objects > 0)
    }

    fn text(&self) -> String {
        let held = self.root.as_ref().map(|root| format!(", held by {root}"));
        let held = held.unwrap_or_default();
        // In bytes that would go, else in own ones.
        if let (Some(objects), Some(grown)) = (self.grown_objects, self.grown_retained.max(self.grown_bytes)) {
            return format!("{} {objects:+} objects, {}{held}", self.r#type, more(grown));
        }
        let (count, kept) = (plural(self.objects, "object"), self.retained.unwrap_or(self.bytes));
        format!("{count} of {}, {}{held}", self.r#type, mib(kept))
    }
}

impl FoundHolder {
    /// In bytes, of two dumps.
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

/// `+1.5 MiB`.
fn more(bytes: i64) -> String {
    let sign = if bytes < 0 { '-' } else { '+' };
    format!("{sign}{}", mib(bytes.unsigned_abs()))
}

/// `1.5 MiB`.
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

    /// Scenario: two dumps between which one type grew, in a list that is one object as before; nothing grew.
    /// Guarantee: the type that there is more of is named with what holds it, and the root that grew.
    #[test]
    fn a_clause_says_what_grew() {
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

    /// Scenario: one dump, whose second is to come; then the second is refused; none at all.
    /// Guarantee: what lives is named, nothing is said of growth, and the reason is; only the first waits for more.
    #[test]
    fn one_dump_says_what_lives() {
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

    /// Scenario: a census of an older version, of which fields are missing.
    /// Guarantee: it is read; what is not there is unknown.
    #[test]
    fn a_record_comes_back() {
        let text = serde_json::to_string(&grown()).unwrap();
        assert_eq!(serde_json::from_str::<FoundCensus>(&text).unwrap(), grown());
        assert_eq!(
            serde_json::from_str::<FoundCensus>("{}").unwrap(),
            FoundCensus::default()
        );
    }
}
