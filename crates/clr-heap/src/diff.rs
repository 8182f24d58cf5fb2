//! Growth between two surveys, by type and by root.
//!
//! Two surveys are of one process if both have the same pid ([`Heap::pid`](crate::survey::Heap::pid)). Within one
//! process, types are matched by name and number. Between two processes, which use different numbers, and between
//! recordings, types are matched by name, and types of the same name are merged.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::reading::Holder;
use crate::survey::{Survey, root_shown};

/// The difference of a type or a root between two surveys: the later value minus the earlier value. A type or root that
/// is missing in one survey counts as 0 in this survey. A survey lacks types without live objects, and rows beyond its
/// maximum number of rows ([`Survey::shorten`]).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Growth {
    /// Always `heap_growth`.
    pub kind: &'static str,
    /// Name of the type; `None` for a root.
    pub r#type: Option<String>,
    /// Name of the root; `None` for a type.
    pub root: Option<String>,
    /// Difference in the number of objects. For a root, only objects that no other root keeps alive count.
    pub objects: i64,
    /// Difference in own bytes. For a root, the bytes of objects whose preferred path starts at the root. The bytes
    /// include objects that a static and a stack hold together, although neither root retains these objects. [`diff()`]
    /// always sets this value.
    pub bytes: Option<i64>,
    /// Difference in retained bytes; `None` if one of the surveys is a histogram.
    pub retained: Option<i64>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    objects: i128,
    bytes: i128,
    retained: Option<i128>,
}

fn narrow(value: i128) -> i64 {
    i64::try_from(value).unwrap_or(if value < 0 { i64::MIN } else { i64::MAX })
}

/// Returns all differences other than zero, largest growth first. The order uses the growth of retained bytes or the
/// growth of own bytes, whichever is larger. Roots are compared only if both surveys are of graphs.
pub fn diff(before: &Survey, after: &Survey) -> Vec<Growth> {
    let is_one_process = before.heap.pid.is_some() && before.heap.pid == after.heap.pid;
    let is_graph = |survey: &Survey| survey.heap.method == "graph";
    let are_graphs = is_graph(before) && is_graph(after);
    let zero = are_graphs.then_some(0);
    let mut types: BTreeMap<(String, u64), Sum> = BTreeMap::new();
    let mut roots: BTreeMap<(Holder, String), Sum> = BTreeMap::new();
    for (survey, sign) in [(before, -1), (after, 1)] {
        for row in &survey.types {
            let id = if is_one_process { row.type_id } else { 0 };
            let sum = types.entry((row.r#type.clone(), id)).or_default();
            sum.objects += sign * i128::from(row.objects);
            sum.bytes += sign * i128::from(row.bytes);
            let retained = sum.retained.or(zero).zip(row.retained);
            sum.retained = retained.map(|(sum, retained)| sum + sign * i128::from(retained));
        }
        for row in &survey.roots {
            let name = row.name.clone().unwrap_or_default();
            let sum = roots.entry((row.root_kind, name)).or_default();
            sum.objects += sign * i128::from(row.objects);
            sum.bytes += sign * i128::from(row.reached);
            sum.retained = Some(sum.retained.unwrap_or(0) + sign * i128::from(row.retained));
        }
    }
    let types = types.into_iter().map(|((name, _), sum)| Growth {
        kind: "heap_growth",
        r#type: Some(name),
        root: None,
        objects: narrow(sum.objects),
        bytes: Some(narrow(sum.bytes)),
        retained: sum.retained.map(narrow),
    });
    let roots = roots
        .into_iter()
        .filter(|_| are_graphs)
        .map(|((holder, name), sum)| Growth {
            kind: "heap_growth",
            r#type: None,
            root: Some(root_shown(holder, &name)),
            objects: narrow(sum.objects),
            bytes: Some(narrow(sum.bytes)),
            retained: sum.retained.map(narrow),
        });
    let is_change = |one: &Growth| {
        one.objects != 0 || one.bytes.is_some_and(|bytes| bytes != 0) || one.retained.is_some_and(|bytes| bytes != 0)
    };
    let mut all: Vec<Growth> = types.chain(roots).filter(is_change).collect();
    all.sort_by_key(|one| std::cmp::Reverse((one.retained.max(one.bytes), one.bytes)));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::survey::{Heap, RootRow, TypeRow};

    fn survey(pid: u32, method: &str, types: &[(&str, u64, u64, u64)], held: u64) -> Survey {
        let is_graph = method == "graph";
        let row = |(name, type_id, objects, bytes): &(&str, u64, u64, u64)| TypeRow {
            r#type: (*name).to_owned(),
            raw_type: (*name).to_owned(),
            type_id: *type_id,
            module: 0,
            objects: *objects,
            bytes: *bytes,
            retained: is_graph.then_some(bytes * 2),
        };
        let root = RootRow {
            root_kind: Holder::Static,
            name: Some("entries".to_owned()),
            roots: 1,
            objects: held / 24,
            retained: held,
            reached: held,
        };
        Survey {
            heap: Heap {
                pid: Some(pid),
                method: method.to_owned(),
                ..Heap::default()
            },
            types: types.iter().map(row).collect(),
            roots: if is_graph { vec![root] } else { Vec::new() },
            ..Survey::default()
        }
    }

    /// Scenario: one process is surveyed twice. One of two nested types with the same name grows, and another type
    /// disappears. Another process uses different type numbers, and a third survey of the first process is a histogram.
    /// Guarantee: types of one process are distinguished by number, and types of two processes are matched by name.
    /// Unchanged types are absent. With a histogram, the differences contain neither retained bytes nor roots.
    #[test]
    fn growth_is_found_by_type_and_root() {
        let before = survey(
            1,
            "graph",
            &[("Entry", 7, 5, 120), ("Entry", 8, 1, 24), ("Gone", 9, 2, 48)],
            240,
        );
        let after = survey(1, "graph", &[("Entry", 7, 15, 360), ("Entry", 8, 1, 24)], 720);
        let found = diff(&before, &after);
        assert_eq!(found.len(), 3, "{found:?}");
        let entry = found.iter().find(|one| one.r#type.as_deref() == Some("Entry")).unwrap();
        assert_eq!((entry.objects, entry.bytes, entry.retained), (10, Some(240), Some(480)));
        let root = found.iter().find(|one| one.root.is_some()).unwrap();
        assert_eq!(
            (root.root.as_deref(), root.objects, root.retained),
            (Some("static entries"), 20, Some(480))
        );
        assert_eq!(found.last().unwrap().objects, -2);

        let other = survey(2, "graph", &[("Entry", 70, 6, 144), ("Gone", 90, 2, 48)], 240);
        assert_eq!(diff(&before, &other), []);

        let plain = survey(1, "histogram", &[("Entry", 7, 15, 360)], 0);
        let found = diff(&before, &plain);
        assert!(
            found.iter().all(|one| one.retained.is_none() && one.root.is_none()),
            "{found:?}"
        );
        assert_eq!(found.len(), 3);
    }
}
