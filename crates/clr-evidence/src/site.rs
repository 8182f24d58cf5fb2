//! Groups stacks into rows. Stacks that look the same to a reader form one row.
//!
//! A row consists of the nearest frame outside the framework and, if that frame belongs to a library, the program's
//! method that called it. The outer frames differ from call to call: methods that the JIT has inlined in the meantime,
//! an `await` that continues synchronously, the branch taken in a pipeline, the depth of a recursion. The call paths to
//! a row are distinguished only by the methods of the program and its libraries.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::module::Owner;
use crate::name::{Frame, Name};

/// Maximum number of call paths in a record.
const MAX_WAYS: usize = 8;

/// The identity of a row.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Site<'a> {
    /// Nearest frame outside the framework, or the nearest frame with a name if there is no such frame; `None` if no
    /// frame has a name.
    pub(crate) site: Option<&'a Name>,
    /// Program's method that called the site, if the site belongs to a library; `None` otherwise, or if the stack
    /// contains no such method.
    pub(crate) called_by: Option<&'a Name>,
}

impl<'a> Site<'a> {
    /// Determines the site of a stack, innermost frame first.
    pub(crate) fn from_stack(frames: &[&'a Frame]) -> Self {
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

/// Formats a row as text: `Acme.Trainer.Fit` or, for a library that the program called, `Shop.Program.Learn ->
/// Acme.Trainer.Fit`. A site without a name is `[no frame]`.
pub fn place(called_by: Option<&str>, site: Option<&str>) -> String {
    let site = site.unwrap_or("[no frame]");
    called_by.map_or_else(|| site.to_owned(), |program| format!("{program} -> {site}"))
}

/// A call path to a row: its methods outside the framework, each once, or all methods if all belong to the framework.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct CallPath<'a>(Vec<&'a str>);

impl<'a> CallPath<'a> {
    fn from_stack(frames: &[&'a Frame]) -> Self {
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

/// The call paths to a row, each with a representative stack.
#[derive(Debug, Default)]
pub(crate) struct CallPaths<'a>(BTreeMap<CallPath<'a>, PathSamples<'a>>);

#[derive(Debug, Default)]
struct PathSamples<'a> {
    /// Frames of the heaviest stack.
    frames: Vec<&'a Frame>,
    heaviest: u64,
    weight: u64,
}

/// A stack that reached a site.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Stack {
    /// Number of triggers or samples with this call path.
    pub count: u64,
    /// Readable names, innermost first.
    pub frames: Vec<Name>,
    /// Names of the same frames in the runtime, or addresses of frames without a name.
    pub raw_frames: Vec<Name>,
}

impl<'a> CallPaths<'a> {
    /// Adds a stack.
    pub(crate) fn see(&mut self, frames: Vec<&'a Frame>, weight: u64) {
        let reached = self.0.entry(CallPath::from_stack(&frames)).or_default();
        reached.weight += weight;
        if reached.frames.is_empty() || weight > reached.heaviest {
            (reached.frames, reached.heaviest) = (frames, weight);
        }
    }

    /// Returns the stacks of the most frequent call paths, at most [`MAX_WAYS`], in descending order of frequency.
    pub(crate) fn into_stacks(self) -> Vec<Stack> {
        let mut all: Vec<PathSamples<'_>> = self.0.into_values().collect();
        all.sort_by_key(|reached| std::cmp::Reverse(reached.weight));
        let stack = |reached: PathSamples<'_>| Stack {
            count: reached.weight,
            raw_frames: reached.frames.iter().map(|frame| frame.raw.clone()).collect(),
            frames: reached.frames.iter().map(|frame| frame.name.clone()).collect(),
        };
        all.into_iter().take(MAX_WAYS).map(stack).collect()
    }
}

/// Returns the readable and raw names of the frames in the most frequent stack; both are empty if there is no stack.
pub(crate) fn typical(stacks: &[Stack]) -> (Vec<Name>, Vec<Name>) {
    let first = stacks.first();
    first
        .map(|stack| (stack.frames.clone(), stack.raw_frames.clone()))
        .unwrap_or_default()
}

/// Returns whether a record can omit its stacks, because there is at most one stack, whose frames are in the record.
#[expect(clippy::ptr_arg, reason = "serde passes a reference to the field")]
pub(crate) fn are_said(stacks: &Vec<Stack>) -> bool {
    stacks.len() < 2
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns frames with a static lifetime.
    fn frames(of: &[(&str, &str)]) -> Vec<&'static Frame> {
        let frames = of.iter().map(|(namespace, name)| Frame::new(namespace, name));
        frames.map(|frame| &*Box::leak(Box::new(frame))).collect()
    }

    fn way(of: &[(&str, &str)]) -> CallPath<'static> {
        CallPath::from_stack(&frames(of))
    }

    /// Scenario: an endpoint is called through a pipeline of the framework and a middleware, in two states of JIT
    /// inlining; another endpoint is called; a helper is called by two methods.
    /// Guarantee: the two states are one call path; the other endpoint and each caller of the helper have separate call
    /// paths; the helper is one site.
    #[test]
    fn framework_frames_do_not_split_call_path() {
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
        assert_eq!(
            Site::from_stack(&frames(&helper("Parse"))),
            Site::from_stack(&frames(&helper("Lines")))
        );
    }

    /// Scenario: a visitor calls itself through another method, at several depths.
    /// Guarantee: the stacks form one call path with the most frequent stack and the total weight.
    #[test]
    fn recursion_is_one_call_path() {
        let mut ways = CallPaths::default();
        for (depth, weight) in [(1, 2), (5, 9), (60, 4)] {
            let mut stack = [("Shop.Doc", "Print"), ("Shop.Doc", "Group")].repeat(depth);
            stack.push(("Shop.Program", "Main"));
            ways.see(frames(&stack), weight);
        }
        let stacks = ways.into_stacks();
        let counted: Vec<_> = stacks.iter().map(|stack| (stack.count, stack.frames.len())).collect();
        assert_eq!(counted, [(15, 11)]);
    }

    /// Scenario: a library is called by the program, by another library, or only by the framework; the program itself
    /// is at the site.
    /// Guarantee: the row contains the library and the program's method if both are on the stack.
    #[test]
    fn row_contains_library_and_caller() {
        let of = |owner, name: &str| &*Box::leak(Box::new(Frame::in_module("A", name, Some(owner))));
        let (framework, library, program) = (Owner::Framework, Owner::Library, Owner::Program);
        let said = |frames: &[&'static Frame]| {
            let Site { site, called_by } = Site::from_stack(frames);
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

    /// Scenario: a site has more call paths than a record can contain.
    /// Guarantee: the record contains the most frequent call paths.
    #[test]
    fn number_of_call_paths_is_bounded() {
        let mut ways = CallPaths::default();
        for number in 0..20 {
            ways.see(frames(&[("A", "f"), ("A", &format!("g{number}"))]), number);
        }
        let counts: Vec<u64> = ways.into_stacks().iter().map(|stack| stack.count).collect();
        assert_eq!(counts, [19, 18, 17, 16, 15, 14, 13, 12]);
    }
}
