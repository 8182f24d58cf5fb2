//! The classes of static fields.
//!
//! The runtime's events have a static field's name, and not its class. It writes the variables module by module, and
//! within a module in the order of the metadata: class by class, field by field; those of classes that were not used,
//! and those that hold nothing, are left out. So a variable has a class
//!
//! * where one class of all modules has a field of that name; then
//! * where of the classes that have one, one alone lies behind the variable before it and in front of the one after it,
//!   which are known already: in the module that both are in, or in that of one of them.
//!
//! Where that leaves several, the bare name stays. Where a module cannot be read, which may have a field of that name,
//! what one class alone has counts if it lies in order beside another one of its module.

use std::collections::HashMap;

use crate::metadata::StaticField;

/// Where a field is: its module, and its place there.
type Place = (usize, usize);

/// The class of each name, in the order of the runtime; `None`: not known. `modules`: the static fields of all modules
/// with such names; `is_whole`: there is no other one, so that what is in one class alone is that.
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
    // One pass is enough: a variable needs both neighbours, so that what is found helps no other one.
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

/// Those that lie in order beside one of the same module.
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

/// The one candidate that lies between the known neighbours of a variable. Candidates are in the order of their places.
fn between(known: &[Option<Place>], at: usize, candidates: &[Place]) -> Option<Place> {
    let neighbour = |at: usize| known.get(at).copied().flatten();
    let (before, after) = (at.checked_sub(1).and_then(neighbour)?, neighbour(at + 1)?);
    // Those from a place on, in front of another one.
    let within = |(from, to): (Place, Place)| {
        let [from, to] = [from, to].map(|end| candidates.partition_point(|place| *place < end));
        candidates.get(from..to).unwrap_or_default()
    };
    let behind = (before.0, before.1 + 1);
    if before.0 == after.0 {
        return only(within((behind, after)).iter().copied());
    }
    // The module changes here: behind the one, or in front of the other.
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

    /// Scenario: names that one class has; one that three have, of which one lies between its neighbours; one at the
    /// change of modules; one of which two lie there; one of no class.
    /// Guarantee: what is certain has its class, the rest has none.
    #[test]
    fn only_what_is_certain_has_a_class() {
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

    /// Scenario: a module that could not be read; names that one class has, two in the order of their module, one alone.
    /// Guarantee: those that confirm each other have their class, the other one might be another module's.
    #[test]
    fn without_a_module_neighbours_confirm() {
        let modules = [module(&[("A", "one"), ("B", "two")]), module(&[("C", "three")])];
        let names = ["three", "one", "two"];
        assert_eq!(classes(&names, &modules, false), [None, Some("A"), Some("B")]);
        assert_eq!(classes(&names, &modules, true), [Some("C"), Some("A"), Some("B")]);
    }

    /// Scenario: 65,536 variables with a name that 60,000 fields have, where every second one is
    /// certain.
    /// Guarantee: only those have a class; a search through all fields for each variable takes two billion steps.
    #[test]
    fn many_fields_of_one_name_cost_little() {
        let fields = [vec![("A", "first"), ("A", "second")], vec![("B", "x"); 60_000]].concat();
        let names = ["first", "x", "second", "x"].repeat(16_384);
        let modules = [module(&fields), module(&[("C", "x")])];
        let found = classes(&names, &modules, true);
        assert_eq!(found.iter().flatten().count(), 32_768);
    }

    /// Scenario: three names in a row that two classes have, between two that are certain.
    /// Guarantee: those with one possible place are found, one after the other.
    #[test]
    fn what_is_found_finds_its_neighbours() {
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
