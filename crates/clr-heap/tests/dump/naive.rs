//! A second implementation that follows the definitions: a holder retains the objects that become unreachable without
//! the holder.

use std::collections::{BTreeMap, BTreeSet};

use clr_heap::reading::Holder;
use clr_heap::survey::root_shown;

use crate::made::GeneratedHeap;

/// A root with the objects that it refers to.
#[derive(Debug)]
pub(crate) struct Root {
    pub(crate) holder: Holder,
    pub(crate) name: String,
    targets: BTreeSet<u64>,
}

pub(crate) struct Naive {
    /// Size, type and references of each object, by address.
    objects: BTreeMap<u64, (u64, u64, Vec<u64>)>,
    roots: Vec<Root>,
}

impl Naive {
    pub(crate) fn from_heap(made: &GeneratedHeap) -> Self {
        let mut objects: BTreeMap<u64, (u64, u64, Vec<u64>)> = BTreeMap::new();
        for object in &made.objects {
            let edges = object.edges.clone();
            objects.insert(object.address, (object.size.div_ceil(8) * 8, object.of, edges));
        }
        let mut roots: Vec<Root> = Vec::new();
        for (variable, target, name) in &made.statics {
            let array = objects.range_mut(..=*variable).next_back();
            if let Some((address, (size, _, edges))) = array
                && *variable < address + *size
                && let Some(place) = edges.iter().position(|edge| edge == target)
            {
                edges.remove(place);
            }
            roots.push(Root {
                holder: Holder::Static,
                name: (*name).to_owned(),
                targets: [*target].into(),
            });
        }
        for (key, value) in &made.dependents {
            objects.get_mut(key).unwrap().2.push(*value);
        }
        for (object, kind, flags, id) in &made.roots {
            if flags & 2 != 0 {
                continue;
            }
            let (holder, name) = match (kind, id) {
                (0, 0) => (Holder::ThreadStatic, ""),
                (0, 1) => (Holder::Stack, "P.one"),
                (0, _) => (Holder::Stack, "P.two"),
                (1, _) => (Holder::Finalizer, ""),
                (2, _) if flags & 1 != 0 => (Holder::Pinned, ""),
                (2, _) => (Holder::Handle, ""),
                _ => (Holder::Other, ""),
            };
            match roots.iter_mut().find(|root| root.holder == holder && root.name == name) {
                Some(root) => drop(root.targets.insert(*object)),
                None => roots.push(Root {
                    holder,
                    name: name.to_owned(),
                    targets: [*object].into(),
                }),
            }
        }
        let mut naive = Self { objects, roots };
        let reached = naive.reached(&|_| false, None);
        let rest: BTreeSet<u64> = naive
            .objects
            .keys()
            .copied()
            .filter(|one| !reached.contains(one))
            .collect();
        if !rest.is_empty() {
            naive.roots.push(Root {
                holder: Holder::Unrooted,
                name: String::new(),
                targets: rest,
            });
        }
        naive
    }

    /// Returns the objects that the roots reach if the root `without_root` and all objects for which `without` returns
    /// true are removed.
    fn reached(&self, without: &dyn Fn(u64) -> bool, without_root: Option<usize>) -> BTreeSet<u64> {
        let roots = self
            .roots
            .iter()
            .enumerate()
            .filter(|(place, _)| Some(*place) != without_root);
        self.from(
            roots.flat_map(|(_, root)| root.targets.iter().copied()).collect(),
            without,
        )
    }

    fn from(&self, mut left: Vec<u64>, without: &dyn Fn(u64) -> bool) -> BTreeSet<u64> {
        let mut reached = BTreeSet::new();
        while let Some(address) = left.pop() {
            let Some((_, _, edges)) = self.objects.get(&address) else {
                continue;
            };
            if !without(address) && reached.insert(address) {
                left.extend(edges);
            }
        }
        reached
    }

    fn size(&self, of: &BTreeSet<u64>) -> u64 {
        of.iter().map(|one| self.objects[one].0).sum()
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.objects.values().map(|(size, _, _)| size).sum()
    }

    /// Returns the objects that become unreachable without the given object.
    fn goes(&self, address: u64) -> BTreeSet<u64> {
        let left = self.reached(&|one| one == address, None);
        self.objects.keys().copied().filter(|one| !left.contains(one)).collect()
    }

    /// Returns the number of objects of a type, their bytes and their retained bytes. The retained bytes are the bytes
    /// of the union of the objects that each object of the type retains.
    pub(crate) fn measure_type(&self, of: u64) -> (u64, u64, u64) {
        let own: BTreeSet<u64> = self
            .objects
            .iter()
            .filter(|(_, one)| one.1 == of)
            .map(|(at, _)| *at)
            .collect();
        let goes: BTreeSet<u64> = own.iter().flat_map(|one| self.goes(*one)).collect();
        (own.len() as u64, self.size(&own), self.size(&goes))
    }

    pub(crate) fn roots(&self) -> &[Root] {
        &self.roots
    }

    /// Returns the bytes and objects that a root retains.
    pub(crate) fn measure_root(&self, root: usize) -> (u64, u64) {
        let left = self.reached(&|_| false, Some(root));
        let goes: BTreeSet<u64> = self.objects.keys().copied().filter(|one| !left.contains(one)).collect();
        (self.size(&goes), goes.len() as u64)
    }

    /// Returns, for each kind with a single root, the root as shown and the number of objects that this root reaches
    /// and no root of a preferred kind reaches.
    pub(crate) fn preferred(&self) -> Vec<(String, u64)> {
        let mut kinds: Vec<Holder> = self.roots.iter().map(|root| root.holder).collect();
        kinds.sort();
        kinds.dedup();
        let mut seen = BTreeSet::new();
        let mut found = Vec::new();
        for kind in kinds {
            let of_kind: Vec<&Root> = self.roots.iter().filter(|root| root.holder == kind).collect();
            let targets = of_kind.iter().flat_map(|root| root.targets.iter().copied()).collect();
            let reached = self.from(targets, &|_| false);
            let new = reached.difference(&seen).count() as u64;
            seen.extend(reached);
            if let [root] = of_kind[..] {
                found.push((root_shown(root.holder, &root.name), new));
            }
        }
        found
    }
}
