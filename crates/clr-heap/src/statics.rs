//! The classes of static fields.
//!
//! The runtime's events contain the name of a static field, but not its class. The runtime writes the variables module
//! by module, and within a module in the order of the metadata: class by class, field by field. It omits fields of
//! unused classes and fields without an object. The class of a variable is known in two cases:
//!
//! * Only one class of all modules has a field of that name.
//! * Of the classes with a field of that name, only one is between the known neighbours of the variable: in the module
//!   of both neighbours, or in the module of one of them.
//!
//! If several classes remain, the variable keeps its bare name. If a module is not readable, it can have a field of
//! that name. In this case, a field of only one class counts if it is in order with a neighbour in the same module.

use std::collections::HashMap;

use crate::metadata::StaticField;

/// Position of a field: the module, and the index in the module.
type Place = (usize, usize);

/// Returns the class of each name, in the order of the runtime, or `None` if the class is unknown. `modules` are the
/// static fields of all modules with these names. `is_whole` states whether no module is missing. If so, the class of a
/// field that only one class has is certain.
pub fn classes<'a>(names: &[&str], modules: &'a [Vec<StaticField>], is_whole: bool) -> Vec<Option<&'a str>> {
    let mut by_name: HashMap<&str, Vec<Place>> = HashMap::new();
    for (module, fields) in modules.iter().enumerate() {
        for (place, field) in fields.iter().enumerate() {
            by_name.entry(&field.name).or_default().push((module, place));
        }
    }
    let candidates = |name: &str| by_name.get(name).map(Vec::as_slice).unwrap_or_default();
    let mut known: Vec<Option<Place>> = names
        .iter()
        .map(|name| only(candidates(name).iter().copied()))
        .collect();
    if !is_whole {
        known = confirmed(&known);
    }
    // One pass is sufficient: a variable needs both neighbours, so a new result does not help another variable.
    let found: Vec<Option<Place>> = names
        .iter()
        .enumerate()
        .map(|(at, name)| match known.get(at) {
            Some(None) => between(&known, at, candidates(name)),
            _ => None,
        })
        .collect();
    for (known, found) in known.iter_mut().zip(found) {
        *known = known.or(found);
    }
    let class = |place: Option<Place>| {
        let (module, place) = place?;
        let field = modules.get(module)?.get(place)?;
        Some(field.class_name.as_str()).filter(|name| !name.is_empty())
    };
    known.into_iter().map(class).collect()
}

/// Returns the positions that are in order with a neighbour in the same module, and `None` for all other positions.
fn confirmed(known: &[Option<Place>]) -> Vec<Option<Place>> {
    let neighbour = |at: Option<usize>| known.get(at?).copied().flatten();
    let is_beside = |at: usize, place: Place| {
        let (before, after) = (neighbour(at.checked_sub(1)), neighbour(at.checked_add(1)));
        before.is_some_and(|before| before.0 == place.0 && before < place)
            || after.is_some_and(|after| after.0 == place.0 && place < after)
    };
    let keep = |(at, place): (usize, &Option<Place>)| place.filter(|place| is_beside(at, *place));
    known.iter().enumerate().map(keep).collect()
}

/// Returns the only candidate between the known neighbours of a variable, or `None` if a neighbour is unknown or there
/// is not exactly one candidate. Candidates are sorted by position.
fn between(known: &[Option<Place>], at: usize, candidates: &[Place]) -> Option<Place> {
    let neighbour = |at: usize| known.get(at).copied().flatten();
    let (before, after) = (at.checked_sub(1).and_then(neighbour)?, neighbour(at + 1)?);
    // Returns the candidates from one position up to, but not including, another position.
    let within = |(from, to): (Place, Place)| {
        let [from, to] = [from, to].map(|end| candidates.partition_point(|place| *place < end));
        candidates.get(from..to).unwrap_or_default()
    };
    let behind = (before.0, before.1 + 1);
    if before.0 == after.0 {
        return only(within((behind, after)).iter().copied());
    }
    // The module changes here: candidates are after the first neighbour, or before the second neighbour.
    let behind = within((behind, (before.0 + 1, 0)));
    only(behind.iter().chain(within(((after.0, 0), after))).copied())
}

fn only<T>(mut all: impl Iterator<Item = T>) -> Option<T> {
    let one = all.next();
    one.filter(|_| all.next().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module(fields: &[(&str, &str)]) -> Vec<StaticField> {
        let field = |(place, (class, name)): (usize, &(&str, &str))| StaticField {
            class: place as u32,
            class_name: (*class).to_owned(),
            name: (*name).to_owned(),
        };
        fields.iter().enumerate().map(field).collect()
    }

    /// Scenario: several names belong to one class each; one name belongs to three classes, one of which is between the
    /// neighbours, and also occurs at a change of modules; one name belongs to two classes between the neighbours; one
    /// name belongs to no class.
    /// Guarantee: each name with exactly one possible class has this class, and the other names have no class.
    #[test]
    fn only_unambiguous_names_have_class() {
        let modules = [
            module(&[
                ("A", "first"),
                ("B", "Log"),
                ("C", "second"),
                ("D", "Log"),
                ("D", "twin"),
                ("E", "twin"),
                ("F", "third"),
            ]),
            module(&[("G", "Log"), ("H", "entries")]),
        ];
        let names = ["first", "Log", "second", "twin", "third", "Log", "entries", "nobody"];
        assert_eq!(
            classes(&names, &modules, true),
            [
                Some("A"),
                Some("B"),
                Some("C"),
                None,
                Some("F"),
                Some("G"),
                Some("H"),
                None
            ]
        );
        assert_eq!(classes(&["Log"], &modules, true), [None]);
        assert_eq!(classes(&["first"], &[], true), [None]);
    }

    /// Scenario: a module is not readable; three names belong to one class each, and two of them are in the order of
    /// their module.
    /// Guarantee: the two neighbours have their class; the third name can belong to the missing module.
    #[test]
    fn neighbours_confirm_class_if_module_is_missing() {
        let modules = [module(&[("A", "one"), ("B", "two")]), module(&[("C", "three")])];
        let names = ["three", "one", "two"];
        assert_eq!(classes(&names, &modules, false), [None, Some("A"), Some("B")]);
        assert_eq!(classes(&names, &modules, true), [Some("C"), Some("A"), Some("B")]);
    }

    /// Scenario: 65,536 variables alternate between unambiguous names and a name that 60,000 fields have.
    /// Guarantee: only the unambiguous names have a class. A search through all fields for each variable would take two
    /// billion steps.
    #[test]
    fn many_fields_of_one_name_are_fast() {
        let fields = [vec![("A", "first"), ("A", "second")], vec![("B", "x"); 60_000]].concat();
        let names = ["first", "x", "second", "x"].repeat(16_384);
        let modules = [module(&fields), module(&[("C", "x")])];
        let found = classes(&names, &modules, true);
        assert_eq!(found.iter().flatten().count(), 32_768);
    }

    /// Scenario: a name belongs to two classes, and is between two unambiguous names.
    /// Guarantee: the only class between the neighbours is found.
    #[test]
    fn class_between_neighbours_is_found() {
        let modules = [module(&[
            ("A", "start"),
            ("A", "x"),
            ("B", "y"),
            ("C", "end"),
            ("D", "x"),
            ("E", "y"),
        ])];
        let names = ["start", "x", "end"];
        assert_eq!(classes(&names, &modules, true), [Some("A"), Some("A"), Some("C")]);
    }
}
