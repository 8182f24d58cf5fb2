//! Trees of types. A tree merges equal paths, and adjacent objects of one type are one step: a list of a million nodes
//! is one step. A tree has at most 24 levels below its start, and at most 200,000 steps.

use std::collections::HashMap;

/// Depth at which objects are merged into [`Label::Rest`]. The start of all paths has depth 0.
const MAX_DEPTH: u16 = 24;
/// Number of steps in a tree at which new steps are merged into [`Label::Rest`]. Each existing step can still receive
/// one child with this label.
const MAX_STEPS: usize = 100_000;

/// The meaning of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Label {
    /// The start of all paths.
    Top,
    /// A root, by its index in [`Graph::roots`](crate::graph::Graph::roots()).
    Root(u32),
    /// Objects of a type, by its index; see [`Graph::type_of`](crate::graph::Graph::type_of()).
    Type(u32),
    /// All objects that exceed the maximum depth or the maximum number of steps.
    Rest,
}

/// A step, which merges all objects with the same path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathStep {
    /// Index of the previous step. The first step is its own parent.
    pub parent: u32,
    /// Meaning of the step.
    pub label: Label,
    depth: u16,
    /// Number of objects.
    pub objects: u64,
    /// Own bytes of the objects.
    pub bytes: u64,
}

/// Number of recent steps in the cache; a power of two.
const RECENT: usize = 1 << 12;

/// A tree of steps. Step 0 is the start.
#[derive(Debug)]
pub struct PathTree {
    steps: Vec<PathStep>,
    children: HashMap<(u32, Label), u32>,
    /// Cache of recent steps. Objects of one kind are adjacent, so most lookups hit the cache.
    recent: Vec<(u32, Label, u32)>,
}

impl Default for PathTree {
    fn default() -> Self {
        let top = PathStep {
            parent: 0,
            label: Label::Top,
            depth: 0,
            objects: 0,
            bytes: 0,
        };
        Self {
            steps: vec![top],
            children: HashMap::new(),
            // No step has a child with this label, so the initial entries never match.
            recent: vec![(0, Label::Top, 0); RECENT],
        }
    }
}

impl PathTree {
    /// Returns the child of `parent` with the given label, and creates the child if necessary.
    ///
    /// Returns `parent` itself if it has the same label or is a [`Label::Rest`], and 0 if `parent` does not exist. If
    /// the tree has reached its maximum depth or size, a new child has the label [`Label::Rest`].
    pub fn step(&mut self, parent: u32, label: Label) -> u32 {
        let Some(before) = self.steps.get(parent as usize) else {
            return 0;
        };
        if before.label == label || before.label == Label::Rest {
            return parent;
        }
        let depth = before.depth + 1;
        let recent = place_of(parent, label);
        if let Some((of, known, step)) = self.recent.get(recent)
            && (*of, *known) == (parent, label)
        {
            return *step;
        }
        let step = self.searched(parent, label, depth);
        if let Some(recent) = self.recent.get_mut(recent) {
            *recent = (parent, label, step);
        }
        step
    }

    fn searched(&mut self, parent: u32, label: Label, depth: u16) -> u32 {
        if let Some(known) = self.children.get(&(parent, label)) {
            return *known;
        }
        let label = if depth >= MAX_DEPTH || self.steps.len() >= MAX_STEPS {
            Label::Rest
        } else {
            label
        };
        let next = self.steps.len() as u32;
        let place = *self.children.entry((parent, label)).or_insert(next);
        if place == next {
            self.steps.push(PathStep {
                parent,
                label,
                depth,
                objects: 0,
                bytes: 0,
            });
        }
        place
    }

    /// Counts an object of `bytes` bytes at a step.
    pub fn add(&mut self, step: u32, bytes: u64) {
        if let Some(step) = self.steps.get_mut(step as usize) {
            step.objects += 1;
            step.bytes = step.bytes.saturating_add(bytes);
        }
    }

    /// Returns all steps.
    pub fn steps(&self) -> &[PathStep] {
        &self.steps
    }

    /// Returns the labels from the first step to the given step, without the start.
    pub fn way(&self, step: u32) -> Vec<Label> {
        let mut way = Vec::new();
        let mut at = step;
        while let Some(step) = self.steps.get(at as usize).filter(|step| step.label != Label::Top) {
            way.push(step.label);
            at = step.parent;
        }
        way.reverse();
        way
    }
}

/// Returns the cache position of a step.
fn place_of(parent: u32, label: Label) -> usize {
    let label = match label {
        Label::Top => 0,
        Label::Rest => 1,
        Label::Root(place) => u64::from(place) << 1,
        Label::Type(place) => u64::from(place) << 1 | 1,
    };
    let mixed = (u64::from(parent) << 33 ^ label).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 52) as usize % RECENT
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: a root holds a list of a million nodes, a path that is too deep, and more paths than the tree can
    /// hold.
    /// Guarantee: the list is one step; objects beyond the limits are in a step with the label `Rest`; the tree has
    /// fewer than twice the maximum number of steps; every object is counted once.
    #[test]
    fn paths_are_merged_and_bounded() {
        let mut merged = PathTree::default();
        let mut added = 0;
        let mut add = |merged: &mut PathTree, step| {
            merged.add(step, 8);
            added += 1;
        };
        let mut at = merged.step(0, Label::Root(0));
        for _ in 0..1_000_000 {
            at = merged.step(at, Label::Type(1));
            add(&mut merged, at);
        }
        assert_eq!(merged.steps().len(), 3);
        for depth in 0..100 {
            at = merged.step(at, Label::Type(2 + depth));
            add(&mut merged, at);
        }
        assert_eq!(merged.steps()[at as usize].label, Label::Rest);
        for root in 0..200_000 {
            let root = merged.step(0, Label::Root(root));
            let at = merged.step(root, Label::Type(1));
            add(&mut merged, at);
        }
        assert!(merged.steps().len() < 2 * MAX_STEPS, "{}", merged.steps().len());
        assert_eq!(merged.steps().iter().map(|step| step.objects).sum::<u64>(), added);
        assert_eq!(merged.way(2), [Label::Root(0), Label::Type(1)]);
    }
}
