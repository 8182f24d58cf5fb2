//! The dominators of a graph, after Lengauer and Tarjan (1979, the simple form), in `m log n` steps for `m` edges and
//! `n` nodes. A node dominates another node if every path from the root to the second node contains the first node. The
//! code uses only loops, because lists of millions of nodes are normal.

/// Marks a missing node, for example the target of an edge to an unknown address.
pub const NONE: u32 = u32::MAX;

/// The dominators of all nodes that a root reaches.
///
/// Nodes are numbered in the order of a depth-first search: 0 is the root, and the number of a dominator is less than
/// the numbers of the nodes that it dominates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dominators {
    /// Node of each number.
    pub nodes: Vec<u32>,
    /// Number of the immediate dominator of each number; 0 for the root.
    pub by: Vec<u32>,
}

/// Returns the value at an index. Indices are in range by construction; an index out of range returns [`NONE`].
fn get(of: &[u32], at: u32) -> u32 {
    of.get(at as usize).copied().unwrap_or(NONE)
}

fn set(of: &mut [u32], at: u32, value: u32) {
    if let Some(place) = of.get_mut(at as usize) {
        *place = value;
    }
}

impl Dominators {
    /// Computes the dominators of a graph in compressed rows: node `v` refers to `targets[starts[v]..starts[v + 1]]`;
    /// targets of [`NONE`] are skipped. `starts` has one element more than the graph has nodes. The result is empty if
    /// `root` is not a node.
    ///
    /// The computation takes 24 bytes per node and 4 bytes per edge in addition to the graph, and up to 8 more bytes
    /// per node temporarily.
    pub fn compute(starts: &[u32], targets: &[u32], root: u32) -> Self {
        let (number, nodes, parents) = search(starts, targets, root);
        let (pred_starts, preds) = predecessors(starts, targets, &nodes, &number);
        drop(number);
        let by = lengauer_tarjan(&pred_starts, &preds, parents);
        Self { nodes, by }
    }
}

/// Returns the number of each node, the node of each number, and the number of each number's parent in the search.
fn search(starts: &[u32], targets: &[u32], root: u32) -> (Vec<u32>, Vec<u32>, Vec<u32>) {
    let count = starts.len().saturating_sub(1);
    let mut number = vec![NONE; count];
    let (mut nodes, mut parents) = (Vec::new(), Vec::new());
    if root as usize >= count {
        return (number, nodes, parents);
    }
    // The next edge of each node on the current path.
    let mut next: Vec<u32> = starts.iter().take(count).copied().collect();
    set(&mut number, root, 0);
    nodes.push(root);
    parents.push(0);
    let mut node = root;
    loop {
        let edge = get(&next, node);
        if edge < get(starts, node + 1) {
            set(&mut next, node, edge + 1);
            let target = get(targets, edge);
            if (target as usize) < count && get(&number, target) == NONE {
                set(&mut number, target, nodes.len() as u32);
                nodes.push(target);
                parents.push(get(&number, node));
                node = target;
            }
        } else if node == root {
            return (number, nodes, parents);
        } else {
            let parent = get(&parents, get(&number, node));
            node = get(&nodes, parent);
        }
    }
}

/// Returns the reversed graph of the reached nodes: row starts and predecessors, both as numbers of the search.
fn predecessors(starts: &[u32], targets: &[u32], nodes: &[u32], number: &[u32]) -> (Vec<u32>, Vec<u32>) {
    let edges = |node: u32| {
        let (start, end) = (get(starts, node) as usize, get(starts, node + 1) as usize);
        let found = targets.get(start..end).unwrap_or_default().iter();
        found.filter_map(|target| number.get(*target as usize).copied())
    };
    let mut pred_starts = vec![0_u32; nodes.len() + 1];
    for node in nodes {
        for target in edges(*node) {
            if let Some(count) = pred_starts.get_mut(target as usize + 1) {
                *count += 1;
            }
        }
    }
    let mut sum = 0;
    for start in &mut pred_starts {
        sum += *start;
        *start = sum;
    }
    // Each row is filled from its end, so that `ends` finally contains the starts.
    let mut ends = pred_starts.split_off(1);
    let mut preds = vec![0; sum as usize];
    for (from, node) in nodes.iter().enumerate() {
        for target in edges(*node) {
            let place = get(&ends, target).wrapping_sub(1);
            set(&mut ends, target, place);
            set(&mut preds, place, from as u32);
        }
    }
    ends.push(sum);
    (ends, preds)
}

struct Forest {
    /// Parent of each number in the search. For linked numbers, path compression replaces the parent by a higher
    /// ancestor.
    ancestor: Vec<u32>,
    semi: Vec<u32>,
    label: Vec<u32>,
    /// Path of the current `eval` call. The field exists only to reuse the memory.
    way: Vec<u32>,
}

impl Forest {
    /// Returns the number with the smallest semidominator on the path from `v` to the root of its tree, or `v` if `v`
    /// is not linked. Numbers are linked if they are at least `linked`.
    fn eval(&mut self, v: u32, linked: u32) -> u32 {
        if v < linked {
            return v;
        }
        self.way.clear();
        let mut at = v;
        loop {
            let up = get(&self.ancestor, at);
            if up < linked {
                break;
            }
            self.way.push(at);
            at = up;
        }
        // `at` is the topmost linked number.
        while let Some(below) = self.way.pop() {
            let (best, own) = (get(&self.label, at), get(&self.label, below));
            if get(&self.semi, best) < get(&self.semi, own) {
                set(&mut self.label, below, best);
            }
            let up = get(&self.ancestor, at);
            set(&mut self.ancestor, below, up);
            at = below;
        }
        get(&self.label, v)
    }
}

fn lengauer_tarjan(pred_starts: &[u32], preds: &[u32], parents: Vec<u32>) -> Vec<u32> {
    let count = parents.len() as u32;
    let mut forest = Forest {
        ancestor: parents,
        semi: (0..count).collect(),
        label: (0..count).collect(),
        way: Vec::new(),
    };
    // A slot has three meanings. The slot of an unprocessed number contains the first entry of the number's bucket, or
    // 0 if the bucket is empty (the root is never in a bucket). The slot of a number in a bucket contains the next
    // entry of the bucket. The slot of a number that was taken out of a bucket contains its dominator, or a number with
    // the same dominator. The meanings do not overlap: the loop empties the bucket of a number at the last child of
    // this number, before it processes the number.
    let mut slot = vec![0_u32; count as usize];
    for w in (1..count).rev() {
        let (start, end) = (get(pred_starts, w) as usize, get(pred_starts, w + 1) as usize);
        let mut semi = w;
        for v in preds.get(start..end).unwrap_or_default() {
            let u = forest.eval(*v, w + 1);
            semi = semi.min(get(&forest.semi, u));
        }
        set(&mut forest.semi, w, semi);
        let first = get(&slot, semi);
        set(&mut slot, w, first);
        set(&mut slot, semi, w);
        // `w` is not linked yet, so its ancestor is still its parent in the search.
        let parent = get(&forest.ancestor, w);
        let mut v = get(&slot, parent);
        set(&mut slot, parent, 0);
        while v != 0 && v != NONE {
            let next = get(&slot, v);
            let u = forest.eval(v, w);
            let by = if get(&forest.semi, u) < get(&forest.semi, v) {
                u
            } else {
                parent
            };
            set(&mut slot, v, by);
            v = next;
        }
    }
    for w in 1..count {
        let by = get(&slot, w);
        if by != get(&forest.semi, w) {
            let by = get(&slot, by);
            set(&mut slot, w, by);
        }
    }
    slot
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Builds the row starts and the targets of a graph from the targets of each node.
    pub(crate) fn rows(edges: &[Vec<u32>]) -> (Vec<u32>, Vec<u32>) {
        let mut starts = vec![0];
        let mut targets = Vec::new();
        for of_node in edges {
            targets.extend(of_node);
            starts.push(targets.len() as u32);
        }
        (starts, targets)
    }

    /// Returns the nodes that are reached from a node if another node is removed.
    fn reached(edges: &[Vec<u32>], root: u32, without: Option<u32>) -> Vec<bool> {
        let mut is_reached = vec![false; edges.len()];
        let mut left = vec![root];
        while let Some(node) = left.pop() {
            if Some(node) == without || node == NONE || std::mem::replace(&mut is_reached[node as usize], true) {
                continue;
            }
            left.extend(&edges[node as usize]);
        }
        is_reached
    }

    /// Computes the dominators by the definition: `a` dominates `b` if `b` cannot be reached without `a`. The immediate
    /// dominator of a node is the dominator that all other dominators of the node dominate.
    pub(crate) fn naive(edges: &[Vec<u32>], root: u32) -> Vec<Option<u32>> {
        let all = reached(edges, root, None);
        let without: Vec<Vec<bool>> = (0..edges.len())
            .map(|one| reached(edges, root, Some(one as u32)))
            .collect();
        let dominates = |a: usize, b: usize| a != b && all[a] && all[b] && !without[a][b];
        (0..edges.len())
            .map(|b| {
                let by: Vec<usize> = (0..edges.len()).filter(|a| dominates(*a, b)).collect();
                let nearest = by
                    .iter()
                    .find(|a| by.iter().all(|other| other == *a || dominates(*other, **a)));
                nearest.map(|a| *a as u32)
            })
            .collect()
    }

    pub(crate) fn by_node(dominators: &Dominators, nodes: usize) -> Vec<Option<u32>> {
        let mut by = vec![None; nodes];
        for (number, node) in dominators.nodes.iter().enumerate().skip(1) {
            by[*node as usize] = Some(dominators.nodes[dominators.by[number] as usize]);
        }
        by
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        /// Scenario: graphs have up to 23 nodes with up to 3 edges each, including edges to missing nodes, loops and
        /// unreached nodes.
        /// Guarantee: the dominators equal the dominators by the definition; each dominator has a lower number than its
        /// node.
        #[test]
        fn dominators_match_the_definition(
            edges in (1_u32..24).prop_flat_map(|nodes| {
                let target = prop_oneof![9 => 0..nodes, 1 => Just(NONE)];
                prop::collection::vec(prop::collection::vec(target, 0..4), nodes as usize)
            }),
            root in 0_u32..24,
        ) {
            let root = root % edges.len() as u32;
            let (starts, targets) = rows(&edges);
            let found = Dominators::compute(&starts, &targets, root);
            prop_assert_eq!(by_node(&found, edges.len()), naive(&edges, root));
            prop_assert!(found.by.iter().enumerate().skip(1).all(|(w, by)| (*by as usize) < w));
        }
    }

    /// Scenario: a list has a million nodes, each of which also refers to the previous node.
    /// Guarantee: each node is dominated by the previous node, without recursion.
    #[test]
    fn long_list_does_not_recurse() {
        let count = 1_000_000_u32;
        let mut starts = vec![0];
        let mut targets = Vec::new();
        for node in 0..count {
            targets.extend(node.checked_sub(1));
            targets.extend(Some(node + 1).filter(|next| *next < count));
            starts.push(targets.len() as u32);
        }
        let found = Dominators::compute(&starts, &targets, 0);
        assert!(found.by.iter().enumerate().skip(1).all(|(w, by)| *by as usize == w - 1));
        assert_eq!(found.nodes.len(), count as usize);
    }

    /// Scenario: a graph has no node; a root is not a node of the graph.
    /// Guarantee: no node is reached.
    #[test]
    fn empty_graph_has_no_dominators() {
        assert!(Dominators::compute(&[], &[], 0).nodes.is_empty());
        assert!(Dominators::compute(&[0, 0], &[], 1).nodes.is_empty());
    }
}
