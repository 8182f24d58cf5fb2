//! Which stacks are one row: those of which a person would read the same.
//!
//! A row says the nearest frame that is not of the framework, and, where that is a library's, the program's own method
//! that called it. Behind it the frames differ from call to call: what the JIT has inlined by then, whether an `await`
//! went on at once, which of two ways through a pipeline was taken, how deep a recursion is. The ways to a row are kept
//! apart as far as the program's and its libraries' methods on them differ.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::module::Owner;
use crate::name::{Frame, Name};

/// Ways to a row that its record has.
const MOST_WAYS: usize = 8;

/// What a row says.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Site<'a> {
    /// The frame that a person looks for: the nearest that is not of the framework, else the nearest with a name.
    pub(crate) site: Option<&'a Name>,
    /// The program's own method that called it, where the site is a library's.
    pub(crate) called_by: Option<&'a Name>,
}

impl<'a> Site<'a> {
    /// Of a stack, innermost frame first.
    pub(crate) fn of(frames: &[&'a Frame]) -> Self {
        let own = frames.iter().position(|frame| frame.is_own());
        let named = || frames.iter().position(|frame| !frame.is_unknown());
        let site = own.or_else(named).and_then(|place| frames.get(place));
        let from_library = own.and_then(|place| frames.get(place..));
        let from_library = from_library.filter(|_| site.is_some_and(|site| site.owner == Some(Owner::Library)));
        let mut behind = from_library.unwrap_or_default().iter();
        Self {
            site: site.map(|frame| &frame.name),
            called_by: behind
                .find(|frame| frame.owner == Some(Owner::Program))
                .map(|frame| &frame.name),
        }
    }
}

/// A row in a line of text: `Acme.Trainer.Fit`, or of a library that the program called
/// `Shop.Program.Learn -> Acme.Trainer.Fit`.
pub fn place(called_by: Option<&str>, site: Option<&str>) -> String {
    let site = site.unwrap_or("[no frame]");
    called_by.map_or_else(|| site.to_owned(), |program| format!("{program} -> {site}"))
}

/// A way to a row: the methods on it that are not the framework's, each once; all, where there are no such.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Way<'a>(Vec<&'a str>);

impl<'a> Way<'a> {
    fn of(frames: &[&'a Frame]) -> Self {
        let mut own = frames.iter().filter(|frame| frame.is_own()).peekable();
        if own.peek().is_none() {
            return Self(frames.iter().map(|frame| &*frame.raw).collect());
        }
        let mut seen = BTreeSet::new();
        Self(
            own.map(|frame| &*frame.name)
                .filter(|name| seen.insert(*name))
                .collect(),
        )
    }
}

/// The ways to a row, each with the stack that stands for it.
#[derive(Debug, Default)]
pub(crate) struct Ways<'a>(BTreeMap<Way<'a>, Reached<'a>>);

#[derive(Debug, Default)]
struct Reached<'a> {
    /// Of the heaviest stack.
    frames: Vec<&'a Frame>,
    heaviest: u64,
    weight: u64,
}

/// A stack by which a site was reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Stack {
    /// Requests, or samples, that came this way.
    pub count: u64,
    /// Readable names, innermost first.
    pub frames: Vec<Name>,
    /// The same as the runtime writes them; an address where nothing names it.
    pub raw_frames: Vec<Name>,
}

impl<'a> Ways<'a> {
    /// Takes a stack in.
    pub(crate) fn see(&mut self, frames: Vec<&'a Frame>, weight: u64) {
        let reached = self.0.entry(Way::of(&frames)).or_default();
        reached.weight += weight;
        if reached.frames.is_empty() || weight > reached.heaviest {
            (reached.frames, reached.heaviest) = (frames, weight);
        }
    }

    /// The most frequent ones, most first.
    pub(crate) fn into_stacks(self) -> Vec<Stack> {
        let mut all: Vec<Reached<'_>> = self.0.into_values().collect();
        all.sort_by_key(|reached| std::cmp::Reverse(reached.weight));
        let stack = |reached: Reached<'_>| Stack {
            count: reached.weight,
            raw_frames: reached.frames.iter().map(|frame| frame.raw.clone()).collect(),
            frames: reached.frames.iter().map(|frame| frame.name.clone()).collect(),
        };
        all.into_iter().take(MOST_WAYS).map(stack).collect()
    }
}

/// The frames of the most frequent one, and their raw names.
pub(crate) fn typical(stacks: &[Stack]) -> (Vec<Name>, Vec<Name>) {
    let first = stacks.first();
    first
        .map(|stack| (stack.frames.clone(), stack.raw_frames.clone()))
        .unwrap_or_default()
}

/// Whether a record need not have its stacks: the first one is in it anyway.
#[expect(clippy::ptr_arg, reason = "serde gives the field")]
pub(crate) fn are_said(stacks: &Vec<Stack>) -> bool {
    stacks.len() < 2
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Frames as long as the test.
    fn frames(of: &[(&str, &str)]) -> Vec<&'static Frame> {
        let frames = of.iter().map(|(namespace, name)| Frame::of(namespace, name));
        frames.map(|frame| &*Box::leak(Box::new(frame))).collect()
    }

    fn way(of: &[(&str, &str)]) -> Way<'static> {
        Way::of(&frames(of))
    }

    /// Scenario: an endpoint behind a pipeline of the framework and a middleware, as the JIT had it at different times;
    /// another endpoint; the same helper called by two methods.
    /// Guarantee: the first are one way, the others are ways of their own; the helper is one site.
    #[test]
    fn what_the_framework_does_between_makes_no_way() {
        let endpoint = ("Program+<>c", "<<Main>$>b__0_3");
        let middleware = ("Program+<>c__DisplayClass0_0+<<<Main>$>b__0>d", "MoveNext");
        let whole = way(&[
            endpoint,
            ("Microsoft.AspNetCore.Routing.EndpointMiddleware", "Invoke"),
            middleware,
            ("System.Runtime.CompilerServices.AsyncMethodBuilderCore", "Start"),
            ("Program+<>c__DisplayClass0_0", "<<Main>$>b__0"),
        ]);
        let inlined = way(&[
            endpoint,
            ("Microsoft.AspNetCore.Routing.EndpointMiddleware", "Invoke"),
            middleware,
        ]);
        assert_eq!(whole, inlined);
        let other = way(&[("Program+<>c", "<<Main>$>b__0_4"), middleware]);
        assert_ne!(whole, other);
        let helper = |caller| {
            [
                ("Shop.Buffers", "Rent"),
                ("Shop.Orders", caller),
                ("Shop.Program", "Main"),
            ]
        };
        assert_ne!(way(&helper("Parse")), way(&helper("Lines")));
        assert_eq!(Site::of(&frames(&helper("Parse"))), Site::of(&frames(&helper("Lines"))));
    }

    /// Scenario: a visitor that calls itself by another method, at several depths.
    /// Guarantee: one way, whose stack is the most frequent one, with all that came.
    #[test]
    fn a_recursion_is_one_way() {
        let mut ways = Ways::default();
        for (depth, weight) in [(1, 2), (5, 9), (60, 4)] {
            let mut stack = [("Shop.Doc", "Print"), ("Shop.Doc", "Group")].repeat(depth);
            stack.push(("Shop.Program", "Main"));
            ways.see(frames(&stack), weight);
        }
        let stacks = ways.into_stacks();
        let counted: Vec<_> = stacks.iter().map(|stack| (stack.count, stack.frames.len())).collect();
        assert_eq!(counted, [(15, 11)]);
    }

    /// Scenario: a library below the program, below another library, below the framework alone; the program itself.
    /// Guarantee: the row says both where it can.
    #[test]
    fn a_row_says_the_library_and_who_called_it() {
        let of = |owner, name: &str| &*Box::leak(Box::new(Frame::in_module("A", name, Some(owner))));
        let (framework, library, program) = (Owner::Framework, Owner::Library, Owner::Program);
        let said = |frames: &[&'static Frame]| {
            let Site { site, called_by } = Site::of(frames);
            let text = |name: Option<&Name>| name.map(ToString::to_string).unwrap_or_default();
            (text(site), text(called_by))
        };
        let text = |site: &str, called_by: &str| (site.to_owned(), called_by.to_owned());
        let below = [
            of(framework, "New"),
            of(library, "Train"),
            of(library, "Fit"),
            of(program, "Learn"),
            of(program, "Main"),
        ];
        assert_eq!(said(&below), text("A.Train", "A.Learn"));
        assert_eq!(said(&below[..3]), text("A.Train", ""));
        assert_eq!(said(&below[3..]), text("A.Learn", ""));
        assert_eq!(said(&below[..1]), text("A.New", ""));
        let called_back = [of(program, "Compare"), of(library, "Sort"), of(program, "Main")];
        assert_eq!(said(&called_back), text("A.Compare", ""));
        assert_eq!(said(&[Box::leak(Box::new(Frame::unknown(7)))]), text("", ""));
    }

    /// Scenario: a site that is reached in more ways than a record has.
    /// Guarantee: the most frequent ones.
    #[test]
    fn the_ways_of_a_record_are_bounded() {
        let mut ways = Ways::default();
        for number in 0..20 {
            ways.see(frames(&[("A", "f"), ("A", &format!("g{number}"))]), number);
        }
        let counts: Vec<u64> = ways.into_stacks().iter().map(|stack| stack.count).collect();
        assert_eq!(counts, [19, 18, 17, 16, 15, 14, 13, 12]);
    }
}
