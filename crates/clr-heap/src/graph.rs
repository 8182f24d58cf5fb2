//! The graph of live objects: objects and roots as numbers, references as one array.
//!
//! Objects are numbered from 0 in the order of the stream. The roots follow, and then the super root, which refers to
//! all roots. Each static variable is a root, and each method whose stack frame holds an object is a root. All other
//! roots of one kind, such as strong handles, are merged into one root. Objects that no root reaches belong to a root
//! of the kind [`Holder::Unrooted`]. A dependent handle (`ConditionalWeakTable`) is a reference from its key to its
//! value.
//!
//! # Statics
//!
//! A static variable is stored inside an array of the runtime, which a handle holds. The graph replaces the array's
//! reference to the object with a reference from the variable. Without this replacement, the array would also hold
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
    /// Name of the field or method; empty if roots of this kind have no name, or if the name is unknown.
    pub name: String,
    /// Number of roots in the dump that this root stands for.
    pub count: u64,
}

/// The graph of live objects and their references.
#[derive(Debug)]
pub struct Graph {
    pub(crate) types: Vec<Type>,
    pub(crate) type_of: Vec<u32>,
    /// Sizes in units of eight bytes.
    pub(crate) sizes: Vec<u32>,
    /// Index in `targets` of the first reference of each object, each root and the super root, followed by the length
    /// of `targets`.
    pub(crate) starts: Vec<u32>,
    pub(crate) targets: Vec<u32>,
    pub(crate) roots: Vec<Root>,
    /// Number of references to addresses without an object; 0 in a real dump.
    pub dangling: u64,
}

impl Graph {
    /// Builds the graph of a dump. Returns `None` if the dump is only a histogram, or if a graph was already built.
    /// Moves the types and the raw graph out of the dump.
    pub fn from_dump(dump: &mut Dump) -> Option<Self> {
        let raw = dump.raw.take()?;
        Some(build(std::mem::take(&mut dump.types), raw, &dump.methods))
    }

    /// Returns the number of objects.
    pub fn objects(&self) -> u32 {
        self.type_of.len() as u32
    }

    /// Returns the node number of the super root.
    pub fn super_root(&self) -> u32 {
        self.objects() + self.roots.len() as u32
    }

    /// Returns the nodes that a node refers to; empty if there is no such node.
    pub fn targets(&self, node: u32) -> &[u32] {
        let bound = |node: u32| self.starts.get(node as usize).map(|start| *start as usize);
        let row = bound(node).zip(bound(node.saturating_add(1)));
        row.and_then(|(start, end)| self.targets.get(start..end))
            .unwrap_or_default()
    }

    /// Returns the own size of a node in bytes, rounded up to 8 bytes as on the heap; 0 for roots.
    pub fn bytes(&self, node: u32) -> u64 {
        self.sizes.get(node as usize).map_or(0, |steps| u64::from(*steps) * 8)
    }

    /// Returns the root at a node, or `None` if the node is not a root.
    pub fn root(&self, node: u32) -> Option<&Root> {
        self.roots.get(node.checked_sub(self.objects())? as usize)
    }

    /// Returns all roots. The root at index `i` is the node `objects() + i`.
    pub fn roots(&self) -> &[Root] {
        &self.roots
    }

    /// Returns the index of an object's type, or `None` if the node is not an object.
    pub fn type_of(&self, node: u32) -> Option<u32> {
        self.type_of.get(node as usize).copied()
    }

    /// Returns a type by its index, or `None` if the index is out of range.
    pub(crate) fn type_at(&self, place: u32) -> Option<&Type> {
        self.types.get(place as usize)
    }
}

/// Returns a pair for each static variable inside an array of the runtime: the array and the object that the variable
/// holds. The pairs are sorted.
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
        // The edges are consumed piece by piece, so that the addresses of all edges and the numbers of all targets are
        // not in memory at the same time.
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
                // The pairs of an array are sorted, but the references of the array are not, so a table counts the
                // remaining pairs.
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
    // A separate root refers to all objects that no other root reaches.
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

/// Adds a reference unless the target is [`NONE`]. The vector grows in small steps, because doubling would temporarily
/// need twice the memory.
fn push(targets: &mut Vec<u32>, target: u32) {
    if target == NONE {
        return;
    }
    if targets.len() == targets.capacity() {
        targets.reserve_exact((targets.len() / 4).max(1 << 12));
    }
    targets.push(target);
}

/// Removes the pairs of a node from the front of the list. Returns the number of references that must be removed from
/// the node, by target, or `None` if the list contains no pair of the node.
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
