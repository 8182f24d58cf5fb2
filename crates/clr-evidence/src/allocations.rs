//! Allocations: samples, summed by type and by site.
//!
//! A site is the nearest frame that does not belong to the framework. If the site belongs to a library, it is combined
//! with the program's method that called it. .NET 10 samples randomly (`AllocationSampled`), and
//! [`estimate`](crate::estimate) computes the number of bytes that the samples represent. Older runtimes have only
//! `AllocationTick`, about once per 100 KiB that are allocated on a heap. The type that crosses this threshold is
//! credited with all 100 KiB, so the bytes of code that allocates in step with the ticks can be estimated too high or
//! too low. These estimates are biased and have no interval.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::Serialize;

use crate::budget::{Budget, shown_bytes};
use crate::estimate::Sum;
use crate::name::{CONTINUATION, CONTINUATION_SHOWN, Frame, Name, clean, shortened, type_name};
use crate::site::{CallPaths, Site, Stack, are_said, typical};
use crate::stacks::StackId;

/// Memory per type excluding its names, here and in a report, in bytes.
const TYPE_BYTES: usize = 256;
/// Memory per pair of type and stack, excluding the name of the type in the row of the site, in bytes.
const GROUP_BYTES: usize = 128;
/// Method that allocates the objects in which runtime-async stores a suspended method.
const ALLOCATES_CONTINUATION: &str = "System.Runtime.CompilerServices.AsyncHelpers.AllocContinuation";
/// Maximum number of characters of a type name that are retained.
const MAX_TYPE_CHARS: usize = 1024;

/// The method of measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// Random samples, unbiased (.NET 10 and later).
    Sampled,
    /// One event per about 100 KiB, biased.
    Tick,
}

/// The names of a type: the runtime's name, and the human-readable name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TypeNames<'a> {
    pub(crate) raw: &'a str,
    pub(crate) shown: &'a str,
}

/// Index in the list of names; `None` if the type has no name, or if it exceeded the memory limit.
type TypeId = Option<u32>;

/// The allocation samples of one process, which [`Burst`](crate::burst::Burst) collects.
#[derive(Debug, Default)]
pub struct Samples {
    ids: HashMap<String, u32>,
    /// Raw names and displayed names.
    types: Vec<(String, String)>,
    groups: BTreeMap<(TypeId, Option<StackId>), Sum>,
    count: u64,
    ticks: u64,
    other: u64,
}

impl Samples {
    pub(crate) fn sampled(&mut self, type_name: &str, size: u64, stack: Option<StackId>, budget: &mut Budget) {
        self.group(type_name, stack, budget).sample(size);
    }

    pub(crate) fn ticked(&mut self, type_name: &str, bytes: u64, stack: Option<StackId>, budget: &mut Budget) {
        self.ticks += 1;
        self.group(type_name, stack, budget).tick(bytes);
    }

    fn group(&mut self, type_name: &str, stack: Option<StackId>, budget: &mut Budget) -> &mut Sum {
        self.count += 1;
        let type_id = self.type_id(type_name, budget);
        let mut key = (type_id, stack);
        if !self.groups.contains_key(&key) && !budget.take(GROUP_BYTES + shown_bytes(type_name.len())) {
            self.other += 1;
            key = (None, None);
        }
        self.groups.entry(key).or_default()
    }

    fn type_id(&mut self, name: &str, budget: &mut Budget) -> TypeId {
        // NativeAOT does not name types; ticks of NativeAOT contain the name `NULL`.
        if name.is_empty() || name == "NULL" {
            return None;
        }
        // Names are not trusted, so names above the maximum length are truncated.
        let end = name
            .char_indices()
            .nth(MAX_TYPE_CHARS)
            .map_or(name.len(), |(end, _)| end);
        let name = name.get(..end).unwrap_or(name);
        if let Some(id) = self.ids.get(name) {
            return Some(*id);
        }
        // The map stores the name once. The list stores two names in which a harmful character can become three bytes.
        if !budget.take(TYPE_BYTES + 8 * name.len()) {
            self.other += 1;
            return None;
        }
        let id = u32::try_from(self.types.len()).ok()?;
        let name_cut = clean(name);
        let shown = shortened(&type_name(&name_cut)).into_owned();
        self.types.push((shortened(&name_cut).into_owned(), shown));
        self.ids.insert(name.to_owned(), id);
        Some(id)
    }

    /// Returns the number of samples.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the stack, the type and the samples of each group.
    pub(crate) fn by_stack(&self) -> impl Iterator<Item = (Option<StackId>, Option<TypeNames<'_>>, &Sum)> {
        let groups = self.groups.iter();
        groups.map(|(&(type_id, stack), sum)| (stack, self.type_names(type_id), sum))
    }

    fn type_names(&self, id: TypeId) -> Option<TypeNames<'_>> {
        let (raw, shown) = self.types.get(id? as usize)?;
        Some(TypeNames { raw, shown })
    }

    pub(crate) fn report<'a>(&'a self, frames: impl Fn(Option<StackId>) -> Vec<&'a Frame>) -> Allocations {
        let method = if self.ticks > 0 { Method::Tick } else { Method::Sampled };
        let mut all = Sum::default();
        let mut by_type: BTreeMap<Option<TypeNames<'a>>, Sum> = BTreeMap::new();
        let mut by_site: BTreeMap<Site<'a>, (CallPaths<'a>, Sum, BTreeSet<Option<TypeNames<'a>>>)> = BTreeMap::new();
        for (stack, type_name, sum) in self.by_stack() {
            let frames = frames(stack);
            let type_name = allocated(type_name, &frames);
            let frames = from_site(frames);
            all.add(sum);
            by_type.entry(type_name).or_default().add(sum);
            let (ways, of_site, types) = by_site.entry(Site::from_stack(&frames)).or_default();
            ways.see(frames, sum.samples);
            of_site.add(sum);
            types.insert(type_name);
        }
        let mut types: Vec<TypeAllocations> = by_type
            .iter()
            .map(|(names, sum)| TypeAllocations {
                kind: "allocation_type",
                r#type: names.map(|names| names.raw.to_owned()),
                name: names.map(|names| names.shown.to_owned()),
                amount: Amount::from_sum(sum, method),
            })
            .collect();
        let mut sites: Vec<SiteAllocations> = by_site
            .into_iter()
            .map(|(Site { site, called_by }, (ways, sum, types))| {
                let stacks = ways.into_stacks();
                let (frames, raw_frames) = typical(&stacks);
                let only = types.first().copied().flatten().filter(|_| types.len() == 1);
                SiteAllocations {
                    kind: "allocation_site",
                    site: site.cloned(),
                    called_by: called_by.cloned(),
                    r#type: only.map(|names| names.raw.to_owned()),
                    amount: Amount::from_sum(&sum, method),
                    frames,
                    raw_frames,
                    stacks,
                }
            })
            .collect();
        types.sort_by_key(|one| std::cmp::Reverse(one.amount.estimate));
        sites.sort_by_key(|one| std::cmp::Reverse(one.amount.estimate));
        Allocations {
            method,
            total: Amount::from_sum(&all, method),
            types,
            sites,
            without_place: self.other,
        }
    }
}

/// Returns the names of the allocated type, or `None` if unknown. For the objects in which runtime-async stores a
/// suspended method, the samples have an empty name (.NET 11), but the runtime's helper is on the stack between the
/// allocation and the method, and identifies the type.
pub(crate) fn allocated<'a>(names: Option<TypeNames<'a>>, frames: &[&Frame]) -> Option<TypeNames<'a>> {
    names.or_else(|| {
        let mut inner = frames.iter().take_while(|frame| !frame.is_own());
        inner
            .any(|frame| frame.raw.starts_with(ALLOCATES_CONTINUATION))
            .then_some(TypeNames {
                raw: CONTINUATION,
                shown: CONTINUATION_SHOWN,
            })
    })
}

/// Returns the frames from the nearest own frame outwards, or all frames if there is no own frame.
fn from_site(mut frames: Vec<&Frame>) -> Vec<&Frame> {
    match frames.iter().position(|frame| frame.is_own()) {
        Some(own) => frames.split_off(own),
        None => frames,
    }
}

/// An estimated amount of allocated memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Amount {
    /// Estimate, in bytes.
    pub estimate: u64,
    /// Lower limit of the 95 % interval, in bytes; `None` for ticks, whose error is unknown.
    pub low: Option<u64>,
    /// Upper limit of the 95 % interval, in bytes; `None` for ticks, whose error is unknown.
    pub high: Option<u64>,
    /// Number of samples.
    pub samples: u64,
}

impl Amount {
    fn from_sum(sum: &Sum, method: Method) -> Self {
        let limits = (method == Method::Sampled).then(|| sum.estimate());
        Self {
            estimate: sum.bytes.round() as u64,
            low: limits.map(|limits| limits.low.floor() as u64),
            high: limits.map(|limits| limits.high.ceil() as u64),
            samples: sum.samples,
        }
    }
}

/// The allocations of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allocations {
    /// Method of measurement.
    pub method: Method,
    /// Sum of all allocations.
    pub total: Amount,
    /// Allocations by type, largest first.
    pub types: Vec<TypeAllocations>,
    /// Allocations by site, largest first.
    pub sites: Vec<SiteAllocations>,
    /// Number of times that a type, or a pair of type and stack, exceeded the memory limit. The total contains the
    /// samples in question. The tables list these samples without a type, or without type and site.
    pub without_place: u64,
}

impl Allocations {
    /// Returns whether no sample has a type. NativeAOT does not name types.
    pub fn are_types_unknown(&self) -> bool {
        self.types.iter().all(|one| one.r#type.is_none())
    }
}

/// The record of one type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TypeAllocations {
    kind: &'static str,
    /// Name of the type in the runtime; `None` if the runtime does not report the type (NativeAOT), or if the type
    /// exceeded the memory limit. For the objects in which runtime-async stores a suspended method, the name is
    /// [`CONTINUATION`], because the runtime omits the name.
    pub r#type: Option<String>,
    /// Human-readable name; `None` if the type is unknown.
    pub name: Option<String>,
    /// Estimated amount.
    #[serde(flatten)]
    pub amount: Amount,
}

/// The record of one site.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SiteAllocations {
    kind: &'static str,
    /// Nearest frame outside the framework, or the nearest frame with a name if there is no such frame; `None` if no
    /// frame has a name.
    pub site: Option<Name>,
    /// Nearest frame of the program itself, if the site belongs to a library; `None` if there is no such frame.
    pub called_by: Option<Name>,
    /// Name of the objects' type in the runtime; `None` if there are several types, or if the type is unknown.
    pub r#type: Option<String>,
    /// Estimated amount.
    #[serde(flatten)]
    pub amount: Amount,
    /// Readable names, from the site outwards. If the site has several stacks, these are the names of the most frequent
    /// stack.
    pub frames: Vec<Name>,
    /// Names of the same frames in the runtime.
    pub raw_frames: Vec<Name>,
    /// Most frequent call paths to the site, at most 8, with the samples of each. Serialization omits a single path,
    /// because `frames` contains the same names.
    #[serde(skip_serializing_if = "are_said")]
    pub stacks: Vec<Stack>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::{BURST_BYTES, MAX_SHOWN};
    use crate::stacks::Stacks;

    fn frames_of<'a>(stack: Option<StackId>, stacks: &Stacks, [main, ctor, parse]: &'a [Frame; 3]) -> Vec<&'a Frame> {
        let name = |address: &u64| match address {
            1 => ctor,
            2 => parse,
            _ => main,
        };
        stack
            .map(|stack| stacks.frames(stack).iter().map(name).collect())
            .unwrap_or_default()
    }

    /// Scenario: samples of two types are at a site that calls the framework, one sample is at another site, and one
    /// sample has neither stack nor type.
    /// Guarantee: a site starts at the nearest own frame and has a type only if the type is unique; no sample is
    /// omitted.
    #[test]
    fn samples_are_summed_by_type_and_site() {
        let mut stacks = Stacks::default();
        let (mut samples, mut budget) = (Samples::default(), Budget::default());
        let parse = stacks.intern([1, 2, 3].into_iter(), &mut budget);
        let main = stacks.intern([3].into_iter(), &mut budget);
        samples.sampled("System.String", 100, parse, &mut budget);
        samples.sampled("System.Byte[]", 100, parse, &mut budget);
        samples.sampled("System.Byte[]", 100, main, &mut budget);
        samples.sampled("", 100, None, &mut budget);
        let frames = [
            Frame::new("Shop.Program", "Main"),
            Frame::new("System.String", "Ctor"),
            Frame::new("Shop.Orders", "Parse"),
        ];
        let report = samples.report(|stack| frames_of(stack, &stacks, &frames));
        assert_eq!((report.method, report.total.samples), (Method::Sampled, 4));
        let types: Vec<_> = report
            .types
            .iter()
            .map(|one| (one.name.as_deref(), one.amount.samples))
            .collect();
        assert_eq!(types, [(Some("byte[]"), 2), (None, 1), (Some("string"), 1)]);
        let sites: Vec<_> = report
            .sites
            .iter()
            .map(|one| {
                (
                    one.site.as_deref(),
                    one.r#type.as_deref(),
                    one.frames.len(),
                    one.amount.samples,
                )
            })
            .collect();
        assert_eq!(
            sites,
            [
                (Some("Shop.Orders.Parse"), None, 2, 2),
                (None, None, 0, 1),
                (Some("Shop.Program.Main"), Some("System.Byte[]"), 1, 1),
            ]
        );
    }

    /// Scenario: samples have no type, as written by .NET 11 for the objects that store a suspended method, and for
    /// another object.
    /// Guarantee: the samples for suspended methods get the name of their type, and the other sample has no name.
    #[test]
    fn continuation_type_is_named() {
        let of = |frames: &[(&str, &str)]| frames.iter().map(|(of, name)| Frame::new(of, name)).collect::<Vec<_>>();
        let waits = of(&[
            (
                "System.RuntimeTypeHandle",
                "<InternalAllocNoChecks>g__InternalAllocNoChecksWorker|31_0",
            ),
            ("System.Runtime.CompilerServices.AsyncHelpers", "AllocContinuation"),
            ("Cafe.Program", "DeepAsync"),
        ]);
        let of_frames = |names, frames: &[Frame]| allocated(names, &frames.iter().collect::<Vec<_>>());
        let text = TypeNames {
            raw: "System.String",
            shown: "string",
        };
        assert_eq!(of_frames(None, &waits).map(|names| names.raw), Some(CONTINUATION));
        assert_eq!(of_frames(Some(text), &waits), Some(text));
        assert_eq!(of_frames(None, &waits[2..]), None);
        let behind = of(&[
            ("Cafe.Program", "New"),
            ("System.Runtime.CompilerServices.AsyncHelpers", "AllocContinuation"),
        ]);
        assert_eq!(of_frames(None, &behind), None);
    }

    /// Scenario: samples are ticks of .NET 8.
    /// Guarantee: the estimate is the sum of the ticks, without an interval.
    #[test]
    fn tick_has_no_interval() {
        let (mut samples, mut budget) = (Samples::default(), Budget::default());
        samples.ticked("System.String", 106_000, None, &mut budget);
        let report = samples.report(|_| Vec::new());
        assert_eq!(report.method, Method::Tick);
        assert_eq!((report.total.estimate, report.total.low), (106_000, None));
    }

    /// Scenario: names of types have a million characters and differ only at their ends.
    /// Guarantee: the retained names have at most the maximum length.
    #[test]
    fn type_name_is_bounded() {
        let (mut samples, mut budget) = (Samples::default(), Budget::default());
        for end in ["a", "b"] {
            samples.sampled(&format!("{}{end}", "é".repeat(1 << 20)), 100, None, &mut budget);
        }
        let [(raw, shown)] = samples.types.as_slice() else {
            panic!("{:?}", samples.types.len());
        };
        let chars = |text: &str| text.chars().count();
        let longest = samples.ids.keys().map(|name| chars(name)).max();
        assert_eq!(
            (chars(raw), chars(shown), longest),
            (MAX_SHOWN, MAX_SHOWN, Some(MAX_TYPE_CHARS))
        );
    }

    /// Scenario: there are more types than the memory limit allows.
    /// Guarantee: the total contains all samples, and samples beyond the limit are counted.
    #[test]
    fn number_of_types_is_bounded() {
        let (mut samples, mut budget) = (Samples::default(), Budget::default());
        for number in 0..100_000 {
            samples.sampled(&format!("T{number}"), 100, None, &mut budget);
        }
        let report = samples.report(|_| Vec::new());
        let kept = samples.types.len();
        assert!(budget.taken() <= BURST_BYTES && kept > 10_000, "{budget:?} {kept}");
        assert!(report.without_place >= 100_000 - kept as u64);
        assert_eq!(report.total.samples, 100_000);
    }
}
