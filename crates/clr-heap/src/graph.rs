//! The graph of live objects: objects and roots as numbers, references as one array.
//!
//! Objects are numbered from 0 in the order of the stream. The roots follow, and then the super root, which refers to
//! all roots. Each static variable is a root, and so is each method whose stack frame holds an object. Handles of one
//! kind are one root.
//!
//! # Statics
//!
//! A static variable is stored inside an array of the runtime, which a handle holds. The graph replaces the reference
//! from that array to the object by a reference from the variable. Without this replacement, the array would also hold
//! every static, and statics would retain no bytes.

use std::collections::HashMap;

use crate::dominators::NONE;
use crate::index::Index;
use crate::reading::{Dump, Holder, Raw, RootEdge, Type, Variable};

/// A root, or several roots of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root {
    /// Kind of root.
    pub holder: Holder,
    /// Name of the field or method; empty if there is no name, or if there are several names.
    pub name: String,
    /// Number of roots that are merged here.
    pub count: u64,
}

/// The graph of live objects and their references.
#[derive(Debug)]
pub struct Graph {
    pub(crate) types: Vec<Type>,
    pub(crate) type_of: Vec<u32>,
    /// Sizes in units of eight bytes.
    pub(crate) sizes: Vec<u32>,
    /// Row starts of all objects, all roots and the super root, and the end.
    pub(crate) starts: Vec<u32>,
    pub(crate) targets: Vec<u32>,
    pub(crate) roots: Vec<Root>,
    /// Number of references to addresses without an object; 0 in a real dump.
    pub dangling: u64,
}

impl Graph {
    /// Builds the graph of a dump, if the dump has one. Consumes the dump's types and raw graph.
    pub fn from_dump(dump: &mut Dump) -> Option<Self> {
        let raw = dump.raw.take()?;
        Some(build(std::mem::take(&mut dump.types), raw, &dump.methods))
    }

    /// Returns the number of objects.
    pub fn objects(&self) -> u32 {
        self.type_of.len() as u32
    }

    /// Returns the super root.
    pub fn super_root(&self) -> u32 {
        self.objects() + self.roots.len() as u32
    }

    /// Returns the references of a node.
    pub fn targets(&self, node: u32) -> &[u32] {
        let bound = |node: u32| self.starts.get(node as usize).map(|start| *start as usize);
        let row = bound(node).zip(bound(node.saturating_add(1)));
        row.and_then(|(start, end)| self.targets.get(start..end))
            .unwrap_or_default()
    }

    /// Returns the own bytes of a node; 0 for roots.
    pub fn bytes(&self, node: u32) -> u64 {
        self.sizes.get(node as usize).map_or(0, |steps| u64::from(*steps) * 8)
    }

    /// Returns the root at a node, or `None` if the node is not a root.
    pub fn root(&self, node: u32) -> Option<&Root> {
        self.roots.get(node.checked_sub(self.objects())? as usize)
    }

    /// Returns all roots.
    pub fn roots(&self) -> &[Root] {
        &self.roots
    }

    /// Returns the index of an object's type.
    pub fn type_of(&self, node: u32) -> Option<u32> {
        self.type_of.get(node as usize).copied()
    }

    /// Returns a type by its index, or `None` if the index is out of range.
    pub(crate) fn type_at(&self, place: u32) -> Option<&Type> {
        self.types.get(place as usize)
    }
}

/// Returns sorted pairs of a runtime array and an object that a static variable inside the array holds.
fn variables_in_arrays(
    index: &Index<'_>,
    raw_sizes: &[u32],
    addresses: &[u64],
    variables: &[Variable],
) -> Vec<(u32, u32)> {
    let pair = |variable: &Variable| {
        let array = index.before(variable.address)?;
        let start = *addresses.get(array as usize)?;
        let bytes = u64::from(*raw_sizes.get(array as usize)?) * 8;
        let is_inside = variable.address < start.saturating_add(bytes);
        Some((array, index.at(variable.object)?)).filter(|_| is_inside)
    };
    let mut pairs: Vec<(u32, u32)> = variables.iter().filter_map(pair).collect();
    pairs.sort_unstable();
    pairs
}

/// Returns the roots and the references of each root.
fn roots_of(index: &Index<'_>, raw: &Raw, methods: &HashMap<u64, String>) -> (Vec<Root>, Vec<Vec<u32>>) {
    let mut roots: Vec<Root> = Vec::new();
    let mut targets: Vec<Vec<u32>> = Vec::new();
    for variable in &raw.variables {
        let holder = if variable.is_of_thread {
            Holder::ThreadStatic
        } else {
            Holder::Static
        };
        roots.push(Root {
            holder,
            name: variable.name.clone(),
            count: 1,
        });
        targets.push(index.at(variable.object).into_iter().collect());
    }
    let mut places: HashMap<(Holder, u64), usize> = HashMap::new();
    for RootEdge { object, holder, id } in &raw.roots {
        let id = if *holder == Holder::Stack { *id } else { 0 };
        let place = *places.entry((*holder, id)).or_insert_with(|| {
            let name = match holder {
                Holder::Stack => methods.get(&id).cloned().unwrap_or_default(),
                _ => String::new(),
            };
            roots.push(Root {
                holder: *holder,
                name,
                count: 0,
            });
            targets.push(Vec::new());
            roots.len() - 1
        });
        if let Some(root) = roots.get_mut(place) {
            root.count += 1;
        }
        if let Some(targets) = targets.get_mut(place) {
            targets.extend(index.at(*object));
        }
    }
    (roots, targets)
}

fn build(types: Vec<Type>, raw: Raw, methods: &HashMap<u64, String>) -> Graph {
    let (starts, mut targets, mut roots, root_targets, dangling, sizes, type_of) = {
        let index = Index::build(&raw.addresses);
        let of_variables = variables_in_arrays(&index, &raw.sizes, &raw.addresses, &raw.variables);
        let (roots, root_targets) = roots_of(&index, &raw, methods);
        let keyed = raw.dependents.iter();
        let mut dependents: Vec<(u32, u32)> = keyed
            .filter_map(|(key, value)| Some((index.at(*key)?, index.at(*value)?)))
            .collect();
        dependents.sort_unstable();
        let objects = raw.addresses.len();
        let mut starts: Vec<u32> = Vec::with_capacity(objects + roots.len() + 3);
        let mut targets: Vec<u32> = Vec::new();
        let mut dangling = 0;
        // The edges are consumed piece by piece, so that addresses and numbers are not all in memory at once.
        let mut edges = raw.edges.into_iter().flatten();
        let (mut of_variables, mut dependents) = (of_variables.as_slice(), dependents.as_slice());
        for (node, count) in raw.edge_counts.iter().enumerate() {
            let node = node as u32;
            starts.push(targets.len() as u32);
            let mut taken = take_removals(&mut of_variables, node);
            for address in edges.by_ref().take(*count as usize) {
                let Some(target) = index.at(address) else {
                    dangling += 1;
                    continue;
                };
                // Both lists are sorted, but the references of an array are not, so a table counts the remaining pairs.
                if let Some(left) = taken.as_mut().and_then(|taken| taken.get_mut(&target))
                    && *left > 0
                {
                    *left -= 1;
                    continue;
                }
                push(&mut targets, target);
            }
            while let Some(((_, value), rest)) = dependents.split_first().filter(|((key, _), _)| *key == node) {
                push(&mut targets, *value);
                dependents = rest;
            }
        }
        (starts, targets, roots, root_targets, dangling, raw.sizes, raw.types)
    };
    let mut starts = starts;
    let objects = starts.len() as u32;
    for of_root in &root_targets {
        starts.push(targets.len() as u32);
        for target in of_root {
            push(&mut targets, *target);
        }
    }
    drop(root_targets);
    // Objects that no root reaches get a separate root.
    let mut is_reached = vec![false; objects as usize];
    let mut left: Vec<u32> = Vec::new();
    let from_roots = starts.get(objects as usize).copied().unwrap_or(targets.len() as u32) as usize;
    for target in targets.get(from_roots..).unwrap_or_default() {
        reach(&mut is_reached, &mut left, *target);
    }
    while let Some(node) = left.pop() {
        let (start, end) = (
            starts.get(node as usize).copied().unwrap_or(0) as usize,
            starts.get(node as usize + 1).copied().unwrap_or(targets.len() as u32) as usize,
        );
        for target in targets.get(start..end).unwrap_or_default() {
            reach(&mut is_reached, &mut left, *target);
        }
    }
    let unreached: Vec<u32> = (0..objects)
        .filter(|node| is_reached.get(*node as usize) == Some(&false))
        .collect();
    if !unreached.is_empty() {
        starts.push(targets.len() as u32);
        roots.push(Root {
            holder: Holder::Unrooted,
            name: String::new(),
            count: 1,
        });
        targets.extend(&unreached);
    }
    starts.push(targets.len() as u32);
    targets.extend((0..roots.len() as u32).map(|root| objects + root));
    starts.push(targets.len() as u32);
    Graph {
        types,
        type_of,
        sizes,
        starts,
        targets,
        roots,
        dangling,
    }
}

fn reach(is_reached: &mut [bool], left: &mut Vec<u32>, node: u32) {
    if let Some(is_reached) = is_reached.get_mut(node as usize)
        && !std::mem::replace(is_reached, true)
    {
        left.push(node);
    }
}

/// Adds a reference. The vector grows in small steps, because doubling would temporarily need twice the memory.
fn push(targets: &mut Vec<u32>, target: u32) {
    if target == NONE {
        return;
    }
    if targets.len() == targets.capacity() {
        targets.reserve_exact((targets.len() / 4).max(1 << 12));
    }
    targets.push(target);
}

/// Returns the number of times that each object must be removed from the references of this node, or `None` if no
/// object must be removed. Removes the pairs of the node from the front of the list.
fn take_removals(pairs: &mut &[(u32, u32)], node: u32) -> Option<HashMap<u32, u32>> {
    let count = pairs.iter().take_while(|(array, _)| *array == node).count();
    let (own, rest) = pairs.split_at_checked(count)?;
    *pairs = rest;
    if own.is_empty() {
        return None;
    }
    let mut taken = HashMap::new();
    for (_, target) in own {
        *taken.entry(*target).or_insert(0) += 1;
    }
    Some(taken)
}
