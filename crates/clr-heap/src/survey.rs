//! The results of a dump: types, roots, paths and suspects.
//!
//! The bytes *retained* by an object are its own bytes and the own bytes of all objects that only this object keeps
//! alive. If two objects hold a third object together, neither of the two retains the third. The bytes retained by a
//! type are the bytes that its topmost objects in the dominator tree retain, so that no byte is counted twice.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use clr_evidence::name::{clean, type_name};
use serde::{Deserialize, Serialize};

use crate::dominators::{Dominators, NONE};
use crate::graph::{Graph, Root};
use crate::merged::{Label, PathTree};
use crate::reading::{Dump, Holder, Type};

/// Maximum numbers of types, roots and paths in a survey.
const MAX_TYPES: usize = 20_000;
const MAX_ROOTS: usize = 5_000;
const MAX_PATHS: usize = 2_000;
/// Maximum numbers of rows in a survey that the daemon keeps.
const BRIEF_TYPES: usize = 2_000;
const BRIEF_ROOTS: usize = 500;
const BRIEF_PATHS: usize = 200;
const BRIEF_TOPS: usize = 50;
/// Maximum number of suspects.
const MAX_SUSPECTS: usize = 5;
/// Minimum share of all bytes that a suspect retains.
const MIN_SHARE: f64 = 0.1;
/// Minimum share of the parent's retained bytes that a child must retain. The search for a suspect descends only to
/// such a child.
const ONE_KEEPS: f64 = 0.7;

/// The dump itself: the first record. [`survey()`] does not set [`pid`](Self::pid), [`process`](Self::process),
/// [`runtime`](Self::runtime) and [`at`](Self::at); the caller sets these fields.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Heap {
    /// Process id in the pid namespace of the host; `None` for a recording.
    pub pid: Option<u32>,
    /// Name of the process or of the file; `None` if unknown.
    pub process: Option<String>,
    /// Version of the runtime; `None` if unknown.
    pub runtime: Option<String>,
    /// Start of the collection, in RFC 3339; `None` if unknown. See [`Dump::at_unix_ns`].
    pub at: Option<String>,
    /// Durations of the suspensions of all threads in which a collection started, in nanoseconds. A suspension without
    /// an observed start or end is not included.
    pub stopped_ns: Vec<i64>,
    /// Number of live objects.
    pub objects: u64,
    /// Bytes of the live objects.
    pub bytes: u64,
    /// Number of references between the live objects; `None` in a histogram.
    pub references: Option<u64>,
    /// `graph`, or `histogram` if the holders of objects are unknown.
    pub method: String,
    /// Reason why there is no graph, as a sentence; `None` if there is a graph or if no graph was requested.
    pub reason: Option<String>,
    /// Whether the dump is complete. The value is always true, because incomplete dumps are refused.
    pub complete: bool,
    /// Number of types without a name in the stream.
    pub unnamed_types: u64,
    /// Size of the stream, in bytes. The process needed this memory until the stream was read.
    pub stream_bytes: u64,
}

/// The live objects of a type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TypeRow {
    /// Name for display.
    pub r#type: String,
    /// Name in the runtime.
    pub raw_type: String,
    /// Id of the type in the runtime. A name is not sufficient, because two nested types can have the same name.
    pub type_id: u64,
    /// Id of the type's module in the runtime.
    pub module: u64,
    /// Number of objects.
    pub objects: u64,
    /// Own bytes of the objects.
    pub bytes: u64,
    /// Bytes retained by the objects; `None` in a histogram.
    pub retained: Option<u64>,
}

/// The objects held by a root.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RootRow {
    /// Kind of root.
    pub root_kind: Holder,
    /// Name of the field or the method; `None` if roots of this kind have no name, or if the name is unknown.
    pub name: Option<String>,
    /// Number of roots in this row.
    pub roots: u64,
    /// Number of objects that only this root keeps alive.
    pub objects: u64,
    /// Bytes that only this root keeps alive.
    pub retained: u64,
    /// Bytes of the objects whose preferred path starts at this root. Other roots can hold these objects, too.
    pub reached: u64,
}

/// A path from a root to objects of a type. Each object has one path: the shortest path from the preferred kind of
/// root. Statics are preferred to handles, and handles to stacks; [`Holder`] has the complete order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathRow {
    /// Name for display.
    pub r#type: String,
    /// Root at which the path starts.
    pub root: String,
    /// Types from the root to the object. Adjacent objects of one type are one step.
    pub path: Vec<String>,
    /// Number of objects with this path.
    pub objects: u64,
    /// Own bytes of the objects.
    pub bytes: u64,
}

/// An object or root where retained bytes accumulate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SuspectRow {
    /// Description, as a sentence.
    pub text: String,
    /// Type of the accumulated objects.
    pub r#type: String,
    /// Root that holds the objects; `None` for several roots.
    pub root: Option<String>,
    /// Types from the root to the point of accumulation. If several roots hold the objects, the path starts with the
    /// name of one of these roots.
    pub path: Vec<String>,
    /// Number of objects of the type at the point of accumulation.
    pub objects: u64,
    /// Bytes that the object or root retains.
    pub retained: u64,
    /// Share of all live bytes, from 0 to 1.
    pub share: f64,
}

/// One record of a survey.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind")]
pub enum Record {
    /// The dump.
    #[serde(rename = "heap")]
    Heap(Heap),
    /// A type.
    #[serde(rename = "heap_type")]
    Type(TypeRow),
    /// A root.
    #[serde(rename = "heap_root")]
    Root(RootRow),
    /// A path.
    #[serde(rename = "heap_path")]
    Path(PathRow),
    /// A suspect.
    #[serde(rename = "heap_suspect")]
    Suspect(SuspectRow),
}

/// The results of a dump: at most 20,000 types, 5,000 roots, 2,000 paths and 5 suspects. Roots, paths and suspects are
/// empty in a histogram.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Survey {
    /// The dump.
    pub heap: Heap,
    /// Types by retained bytes, or by own bytes in a histogram, largest first.
    pub types: Vec<TypeRow>,
    /// Roots by retained bytes, largest first.
    pub roots: Vec<RootRow>,
    /// Paths by bytes, largest first.
    pub paths: Vec<PathRow>,
    /// Suspects by retained bytes, largest first.
    pub suspects: Vec<SuspectRow>,
}

impl Survey {
    /// Keeps only the largest rows (2,000 types, 500 roots, about 200 paths) and removes the names in the runtime, so
    /// that the survey takes a few megabytes. The rows must be sorted by size, largest first.
    pub fn shorten(&mut self) {
        self.types.truncate(BRIEF_TYPES);
        self.roots.truncate(BRIEF_ROOTS);
        // The first path of each of the largest types is kept, even if the objects of the path have few own bytes.
        let tops: BTreeSet<String> = self
            .types
            .iter()
            .take(BRIEF_TOPS)
            .map(|row| row.r#type.clone())
            .collect();
        let (mut place, mut seen) = (0, BTreeSet::new());
        self.paths.retain(|row| {
            place += 1;
            let is_first = tops.contains(&row.r#type) && seen.insert(row.r#type.clone());
            is_first || place <= BRIEF_PATHS
        });
        for row in &mut self.types {
            row.raw_type.clear();
        }
    }

    /// Converts the survey to records, in this order: the dump, types, roots, suspects, paths.
    pub fn records(self) -> impl Iterator<Item = Record> {
        std::iter::once(Record::Heap(self.heap))
            .chain(self.types.into_iter().map(Record::Type))
            .chain(self.roots.into_iter().map(Record::Root))
            .chain(self.suspects.into_iter().map(Record::Suspect))
            .chain(self.paths.into_iter().map(Record::Path))
    }

    /// Adds a record that was written by [`records`](Self::records).
    pub fn add(&mut self, record: Record) {
        match record {
            Record::Heap(heap) => self.heap = heap,
            Record::Type(row) => self.types.push(row),
            Record::Root(row) => self.roots.push(row),
            Record::Path(row) => self.paths.push(row),
            Record::Suspect(row) => self.suspects.push(row),
        }
    }
}

impl Root {
    /// Returns the name for display, for example `static entries` or `stack of Program.Main`.
    pub fn shown(&self) -> String {
        root_shown(self.holder, &self.name)
    }
}

/// Returns the name of a root for display, without control characters of terminals. An empty name means that the root
/// has no name.
pub fn root_shown(holder: Holder, name: &str) -> String {
    let name = clean(name);
    match (holder, &*name) {
        (Holder::Static, "") => "static field".to_owned(),
        (Holder::Static, name) => format!("static {name}"),
        (Holder::ThreadStatic, "") => "thread statics".to_owned(),
        (Holder::ThreadStatic, name) => format!("thread static {name}"),
        (Holder::Handle, _) => "strong handles".to_owned(),
        (Holder::Pinned, _) => "pinned handles".to_owned(),
        (Holder::Finalizer, _) => "finalizer queue".to_owned(),
        (Holder::Other, _) => "other roots".to_owned(),
        (Holder::Stack, "") => "stack of an unnamed method".to_owned(),
        (Holder::Stack, name) => format!("stack of {name}"),
        (Holder::Unrooted, _) => "literals and types".to_owned(),
    }
}

/// An amount of bytes in a sentence.
struct Amount(u64);

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            bytes if bytes < 1 << 10 => write!(f, "{bytes} B"),
            bytes if bytes < 1 << 20 => write!(f, "{:.1} KiB", bytes as f64 / 1024.0),
            bytes => write!(f, "{:.1} MiB", bytes as f64 / f64::from(1 << 20)),
        }
    }
}

/// A graph with its paths and dominators.
#[derive(Debug)]
pub struct AnalyzedGraph {
    /// The live objects and their references.
    pub graph: Graph,
    /// The dominator of each object.
    pub dominators: Dominators,
    /// Retained bytes of each object and root, by its number in [`AnalyzedGraph::dominators`].
    pub retained: Vec<u64>,
    /// The shortest paths to all objects, by type.
    pub held: PathTree,
    /// The dominator tree by type. A step retains its own objects and bytes, and the objects and bytes of all steps
    /// below it.
    pub kept: PathTree,
    /// Step of each object in [`AnalyzedGraph::held`].
    way_of: Vec<u32>,
    tree: Tree,
}

/// First child and next sibling of each number in the dominator tree; 0 if there is no such number.
#[derive(Debug)]
struct Tree {
    first: Vec<u32>,
    next: Vec<u32>,
}

impl Tree {
    fn from_dominators(by: &[u32]) -> Self {
        let mut first = vec![0; by.len()];
        let mut next = vec![0; by.len()];
        for (child, parent) in by.iter().enumerate().skip(1).rev() {
            if let (Some(first), Some(next)) = (first.get_mut(*parent as usize), next.get_mut(child)) {
                *next = std::mem::replace(first, child as u32);
            }
        }
        Self { first, next }
    }

    fn children(&self, of: u32) -> impl Iterator<Item = u32> {
        let some = |place: Option<&u32>| place.copied().filter(|child| *child != 0);
        let first = some(self.first.get(of as usize));
        std::iter::successors(first, move |child| some(self.next.get(*child as usize)))
    }

    fn first(&self, of: u32) -> Option<u32> {
        self.children(of).next()
    }

    fn next(&self, of: u32) -> Option<u32> {
        self.next.get(of as usize).copied().filter(|child| *child != 0)
    }
}

impl AnalyzedGraph {
    /// Computes paths and dominators of a graph.
    pub fn new(graph: Graph) -> Self {
        let dominators = Dominators::compute(&graph.starts, &graph.targets, graph.super_root());
        let mut retained: Vec<u64> = dominators.nodes.iter().map(|node| graph.bytes(*node)).collect();
        for (number, by) in dominators.by.iter().enumerate().skip(1).rev() {
            let own = retained.get(number).copied().unwrap_or(0);
            if let Some(sum) = retained.get_mut(*by as usize) {
                *sum = sum.saturating_add(own);
            }
        }
        let kept = kept(&graph, &dominators);
        let (held, way_of) = ways(&graph);
        let tree = Tree::from_dominators(&dominators.by);
        Self {
            graph,
            dominators,
            retained,
            held,
            kept,
            way_of,
            tree,
        }
    }

    fn retained(&self, number: u32) -> u64 {
        self.retained.get(number as usize).copied().unwrap_or(0)
    }

    fn node(&self, number: u32) -> u32 {
        self.dominators.nodes.get(number as usize).copied().unwrap_or(NONE)
    }

    fn label(&self, number: u32) -> Label {
        label(&self.graph, self.node(number))
    }

    /// Returns a label for display.
    pub fn shown(&self, label: Label) -> String {
        match label {
            Label::Top => "all".to_owned(),
            Label::Rest => "...".to_owned(),
            Label::Root(place) => self
                .graph
                .roots
                .get(place as usize)
                .map(Root::shown)
                .unwrap_or_default(),
            Label::Type(place) => self.type_shown(place),
        }
    }

    fn type_shown(&self, place: u32) -> String {
        self.graph
            .type_at(place)
            .map(|one| type_name(&one.name))
            .unwrap_or_default()
    }

    /// Returns the retained bytes of each type, and the retained bytes and objects of each root.
    fn sums(&self) -> (Vec<u64>, Vec<(u64, u64)>) {
        let mut by_type = vec![0_u64; self.graph.types.len()];
        let mut above = vec![0_u32; self.graph.types.len()];
        let mut by_root = vec![(0, 0); self.graph.roots.len()];
        let mut objects = 0_u64;
        let mut number = 0;
        let mut is_entering = true;
        while (number as usize) < self.dominators.by.len() {
            let label = self.label(number);
            if is_entering {
                match label {
                    Label::Type(place) => {
                        objects += 1;
                        if let (Some(above), Some(sum)) =
                            (above.get_mut(place as usize), by_type.get_mut(place as usize))
                        {
                            if *above == 0 {
                                *sum = sum.saturating_add(self.retained(number));
                            }
                            *above += 1;
                        }
                    }
                    Label::Root(place) => {
                        if let Some((bytes, before)) = by_root.get_mut(place as usize) {
                            (*bytes, *before) = (self.retained(number), objects);
                        }
                    }
                    _ => {}
                }
                if let Some(child) = self.tree.first(number) {
                    number = child;
                    continue;
                }
            }
            match label {
                Label::Type(place) => {
                    if let Some(above) = above.get_mut(place as usize) {
                        *above = above.saturating_sub(1);
                    }
                }
                Label::Root(place) => {
                    if let Some((_, count)) = by_root.get_mut(place as usize) {
                        *count = objects - *count;
                    }
                }
                _ => {}
            }
            if number == 0 {
                break;
            }
            if let Some(sibling) = self.tree.next(number) {
                (number, is_entering) = (sibling, true);
            } else {
                number = self.dominators.by.get(number as usize).copied().unwrap_or(0);
                is_entering = false;
            }
        }
        (by_type, by_root)
    }

    /// Returns the bytes of the paths that start at each root.
    fn reached(&self) -> Vec<u64> {
        let mut by_root = vec![0_u64; self.graph.roots.len()];
        let steps = self.held.steps();
        // In the list, each step comes after its parent.
        let mut root_of: Vec<Option<u32>> = Vec::with_capacity(steps.len());
        for step in steps {
            let root = match step.label {
                Label::Root(root) => Some(root),
                _ => root_of.get(step.parent as usize).copied().flatten(),
            };
            root_of.push(root);
            if let Some(sum) = root.and_then(|root| by_root.get_mut(root as usize)) {
                *sum = sum.saturating_add(step.bytes);
            }
        }
        by_root
    }

    fn suspects(&self, total: u64) -> Vec<SuspectRow> {
        let least = (total as f64 * MIN_SHARE) as u64;
        let is_root_of_nothing = |number: u32| {
            let root = self.graph.root(self.node(number));
            root.is_some_and(|root| root.holder == Holder::Unrooted)
        };
        let mut tops: Vec<u32> = self.tree.children(0).collect();
        tops.retain(|number| self.retained(*number) >= least.max(1) && !is_root_of_nothing(*number));
        tops.sort_by_key(|number| std::cmp::Reverse(self.retained(*number)));
        tops.truncate(MAX_SUSPECTS);
        tops.into_iter().filter_map(|top| self.suspect(top, total)).collect()
    }

    /// Returns the suspect below a number of the dominator tree, or `None` if no type accumulates there.
    ///
    /// The search descends while one child retains at least 70 % of its parent's bytes and has a type other than the
    /// type of the parent.
    fn suspect(&self, top: u32, total: u64) -> Option<SuspectRow> {
        let mut at = top;
        let mut way = Vec::new();
        let mut root = None;
        match self.label(top) {
            Label::Root(place) => root = self.graph.roots.get(place as usize).map(Root::shown),
            label => way.push(label),
        }
        while let Some(child) = self.tree.children(at).max_by_key(|child| self.retained(*child)) {
            let keeps = self.retained(child) as f64 >= ONE_KEEPS * self.retained(at) as f64;
            // A list is a chain of objects of one type, so the search stops at its first object.
            if !keeps || (self.label(child) == self.label(at)) {
                break;
            }
            at = child;
            way.push(self.label(at));
        }
        let mut groups: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
        for child in self.tree.children(at) {
            if let Label::Type(place) = self.label(child) {
                let (objects, bytes) = groups.entry(place).or_default();
                *objects += 1;
                *bytes += self.retained(child);
            }
        }
        let most = groups.into_iter().max_by_key(|(_, (_, bytes))| *bytes);
        let retained = self.retained(top);
        let (place, objects, bytes) = match (most, self.label(at)) {
            (Some((place, (objects, bytes))), _) => (place, objects, bytes),
            (None, Label::Type(place)) => (place, 1, self.retained(at)),
            _ => return None,
        };
        let is_chain = self.label(at) == Label::Type(place);
        let share = retained as f64 / total.max(1) as f64;
        let r#type = self.type_shown(place);
        let holder = root.clone().unwrap_or_else(|| "several roots together".to_owned());
        let verb = if root.is_some() { "holds" } else { "hold" };
        let what = if is_chain {
            format!("linked objects that begin with one {type}")
        } else {
            format!("{objects} {type} with {}", Amount(bytes))
        };
        let within = match self.label(at) {
            Label::Type(at) if !is_chain && at != place => format!(" in {}", self.type_shown(at)),
            _ => String::new(),
        };
        let text = format!(
            "{holder} {verb} {}, {:.0} % of all live bytes: {what}{within}",
            Amount(retained),
            share * 100.0
        );
        let mut path: Vec<String> = way.into_iter().map(|label| self.shown(label)).collect();
        if !is_chain {
            path.push(r#type.clone());
        }
        if root.is_none()
            && let Some(way) = self.way_of.get(self.node(top) as usize)
        {
            // Several roots hold the object, so the path of the suspect starts with one of the paths to the object.
            let before = self.held.way(*way);
            let before = before.iter().take(before.len().saturating_sub(1));
            path = before.map(|label| self.shown(*label)).chain(path).collect();
        }
        Some(SuspectRow {
            text,
            r#type,
            root,
            path,
            objects,
            retained,
            share,
        })
    }

    fn paths(&self, only: Option<&str>) -> Vec<PathRow> {
        let steps = self.held.steps();
        let is_wanted =
            |place: u32| only.is_none_or(|only| self.graph.type_at(place).is_some_and(|one| matches(one, only)));
        let wanted = |step: &u32| match steps.get(*step as usize) {
            Some(step) => step.objects > 0 && matches!(step.label, Label::Type(place) if is_wanted(place)),
            None => false,
        };
        let mut places: Vec<u32> = (0..steps.len() as u32).filter(wanted).collect();
        places.sort_by_key(|place| std::cmp::Reverse(steps.get(*place as usize).map(|step| step.bytes)));
        places.truncate(MAX_PATHS);
        let row = |place: u32| {
            let step = steps.get(place as usize)?;
            let way = self.held.way(place);
            let (root, path) = way.split_first()?;
            let path: Vec<String> = path.iter().map(|label| self.shown(*label)).collect();
            Some(PathRow {
                r#type: path.last()?.clone(),
                root: self.shown(*root),
                path,
                objects: step.objects,
                bytes: step.bytes,
            })
        };
        places.into_iter().filter_map(row).collect()
    }

    /// Returns a survey without the record of the dump. `only` limits the paths to types with this text in their name.
    fn rows(&self, total: u64, only: Option<&str>) -> Survey {
        let (by_type, by_root) = self.sums();
        let types = self.graph.types.iter().zip(by_type).filter(|(one, _)| one.objects > 0);
        let types = types.map(|(one, retained)| type_row(one, Some(retained))).collect();
        let roots = self.graph.roots.iter().zip(by_root).zip(self.reached());
        let roots = roots
            .map(|((root, (retained, objects)), reached)| RootRow {
                root_kind: root.holder,
                name: (!root.name.is_empty()).then(|| root.name.clone()),
                roots: root.count,
                objects,
                retained,
                reached,
            })
            .collect();
        Survey {
            types,
            roots,
            paths: self.paths(only),
            suspects: self.suspects(total),
            ..Survey::default()
        }
    }
}

fn type_row(one: &Type, retained: Option<u64>) -> TypeRow {
    TypeRow {
        r#type: type_name(&one.name),
        raw_type: one.name.clone(),
        type_id: one.id,
        module: one.module,
        objects: one.objects,
        bytes: one.bytes,
        retained,
    }
}

/// Returns whether the name of a type, in the runtime or for display, contains a text. Ignores case.
fn matches(one: &Type, only: &str) -> bool {
    let only = only.to_lowercase();
    one.name.to_lowercase().contains(&only) || type_name(&one.name).to_lowercase().contains(&only)
}

fn label(graph: &Graph, node: u32) -> Label {
    match graph.type_of(node) {
        Some(place) => Label::Type(place),
        None => match node.checked_sub(graph.objects()) {
            Some(root) if (root as usize) < graph.roots.len() => Label::Root(root),
            _ => Label::Top,
        },
    }
}

/// Returns the dominator tree by type.
fn kept(graph: &Graph, dominators: &Dominators) -> PathTree {
    let mut kept = PathTree::default();
    let mut steps = vec![0_u32; dominators.nodes.len()];
    for (number, (node, by)) in dominators.nodes.iter().zip(&dominators.by).enumerate().skip(1) {
        let parent = steps.get(*by as usize).copied().unwrap_or(0);
        let step = kept.step(parent, label(graph, *node));
        if *node < graph.objects() {
            kept.add(step, graph.bytes(*node));
        }
        if let Some(place) = steps.get_mut(number) {
            *place = step;
        }
    }
    kept
}

/// Returns the tree of shortest paths, and the step of each object. An object that several kinds of roots reach has a
/// path from the preferred kind.
fn ways(graph: &Graph) -> (PathTree, Vec<u32>) {
    let mut held = PathTree::default();
    let objects = graph.objects();
    let mut way_of = vec![NONE; objects as usize];
    let mut queue: Vec<u32> = Vec::new();
    let mut roots: Vec<u32> = (0..graph.roots.len() as u32).collect();
    let holder = |root: u32| graph.roots.get(root as usize).map(|root| root.holder);
    roots.sort_by_key(|root| holder(*root));
    for of_kind in roots.chunk_by(|a, b| holder(*a) == holder(*b)) {
        queue.clear();
        for root in of_kind {
            let step = held.step(0, Label::Root(*root));
            visit(graph, objects + root, step, &mut held, &mut way_of, &mut queue);
        }
        let mut next = 0;
        while let Some(node) = queue.get(next).copied() {
            next += 1;
            let step = way_of.get(node as usize).copied().unwrap_or(0);
            visit(graph, node, step, &mut held, &mut way_of, &mut queue);
        }
    }
    (held, way_of)
}

fn visit(graph: &Graph, node: u32, step: u32, held: &mut PathTree, way_of: &mut [u32], queue: &mut Vec<u32>) {
    for target in graph.targets(node) {
        let Some(way) = way_of.get_mut(*target as usize).filter(|way| **way == NONE) else {
            continue;
        };
        *way = held.step(step, label(graph, *target));
        held.add(*way, graph.bytes(*target));
        queue.push(*target);
    }
}

/// Returns the results of a dump and the analyzed graph, or `None` instead of the graph if the dump is only a
/// histogram. `only` limits the paths to types with this text in their name, in any case; `None` includes all types.
pub fn survey(mut dump: Dump, only: Option<&str>) -> (Survey, Option<AnalyzedGraph>) {
    let solved = Graph::from_dump(&mut dump).map(AnalyzedGraph::new);
    let mut survey = match &solved {
        Some(solved) => solved.rows(dump.bytes, only),
        None => {
            let types = dump.types.iter().filter(|one| one.objects > 0);
            Survey {
                types: types.map(|one| type_row(one, None)).collect(),
                ..Survey::default()
            }
        }
    };
    survey.types.sort_by(|a, b| {
        let key = |row: &TypeRow| std::cmp::Reverse((row.retained.unwrap_or(row.bytes), row.bytes));
        key(a).cmp(&key(b)).then_with(|| a.raw_type.cmp(&b.raw_type))
    });
    survey.types.truncate(MAX_TYPES);
    survey.roots.sort_by(|a, b| {
        let key = |row: &RootRow| (std::cmp::Reverse((row.retained, row.reached)), row.root_kind);
        key(a).cmp(&key(b)).then_with(|| a.name.cmp(&b.name))
    });
    survey.roots.truncate(MAX_ROOTS);
    survey.heap = Heap {
        stopped_ns: dump.stopped_ns.clone(),
        objects: dump.objects,
        bytes: dump.bytes,
        references: solved.is_some().then_some(dump.edges),
        method: if solved.is_some() { "graph" } else { "histogram" }.to_owned(),
        reason: dump.graph_needs.map(|needs| {
            format!(
                "the graph of {} objects needs {} MiB, more than its limit",
                dump.objects,
                needs >> 20
            )
        }),
        complete: true,
        unnamed_types: dump.unnamed_types,
        stream_bytes: dump.stream_bytes,
        ..Heap::default()
    };
    (survey, solved)
}
