//! Trees of types: equal ways are one, neighbours of one type are one (a list of a million nodes is one step), and
//! depth and size are bounded.

use std::collections::HashMap;

/// Steps from the root that are kept apart.
const MAX_DEPTH: u16 = 24;
/// Steps altogether.
const MAX_STEPS: usize = 100_000;

/// What a step stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Label {
    /// The beginning of all ways.
    Top,
    /// A root, by its place.
    Root(u32),
    /// Objects of a type, by its place.
    Type(u32),
    /// All that is deeper than is kept apart, or has no room.
    Rest,
}

/// A step: all that came the same way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathStep {
    /// The step before it; that of the first is itself.
    pub parent: u32,
    /// What it is.
    pub label: Label,
    depth: u16,
    /// Objects here.
    pub objects: u64,
    /// Their own bytes.
    pub bytes: u64,
}

/// Steps that were taken lately are remembered in so many places: a power of two.
const RECENT: usize = 1 << 12;

/// A tree of steps; 0 is the beginning.
#[derive(Debug)]
pub struct Merged {
    steps: Vec<PathStep>,
    children: HashMap<(u32, Label), u32>,
    /// Objects of one kind come together: most find their step here.
    recent: Vec<(u32, Label, u32)>,
}

impl Default for Merged {
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
            // The beginning is no step of anything.
            recent: vec![(0, Label::Top, 0); RECENT],
        }
    }
}

impl Merged {
    /// The step from `parent` to `label`.
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

    /// Counts an object at a step.
    pub fn add(&mut self, step: u32, bytes: u64) {
        if let Some(step) = self.steps.get_mut(step as usize) {
            step.objects += 1;
            step.bytes = step.bytes.saturating_add(bytes);
        }
    }

    /// All steps.
    pub fn steps(&self) -> &[PathStep] {
        &self.steps
    }

    /// The labels from the first step to this one, without the beginning.
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

/// Where a step is remembered.
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

    /// Scenario: a list of a million nodes behind a root, a way that is too deep, more ways than there is room for.
    /// Guarantee: the list is one step; what is too much is in one step behind where it left; every object is counted
    /// once.
    #[test]
    fn ways_are_merged_and_bounded() {
        let mut merged = Merged::default();
        let mut added = 0;
        let mut add = |merged: &mut Merged, step| {
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
