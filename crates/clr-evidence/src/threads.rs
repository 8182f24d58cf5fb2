//! The activity of every managed thread, from the samples of the runtime's sample profiler.
//!
//! The profiler suspends the managed threads about once per millisecond and writes an event with the stack of each
//! thread, whether it runs or waits. The most frequent stack of a thread in a fraction of a second is its activity. A
//! thread without a sample started later, ended earlier, or has no managed frame.
//!
//! At its end, the session lists the live managed threads ([`THREAD_DC`]), including the finalizer thread.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::budget::Budget;
use crate::method::number;
use crate::name::{Frame, Name};
use crate::site::Site;
use crate::stacks::StackId;

/// Provider of the samples.
pub const SAMPLE_PROVIDER: &str = "Microsoft-DotNETCore-SampleProfiler";
/// Event id of `ThreadDC` of the rundown provider, which reports a live managed thread. The event requires the keyword
/// [`THREADING`].
pub const THREAD_DC: u32 = 159;
/// Keyword of the rundown for [`THREAD_DC`].
pub const THREADING: u64 = 0x1_0000;
/// Flag of the finalizer thread.
const FINALIZER: u64 = 2;
/// Type of a sample in which the thread ran managed code. Type 1 is native code, or a waiting thread.
const MANAGED: u64 = 2;
/// Memory per thread, and per stack of a thread, in bytes.
const THREAD_BYTES: usize = 128;
const STACK_BYTES: usize = 64;

/// Threads whose most frequent stack is the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Group {
    /// Always `stack`.
    pub kind: &'static str,
    /// Ids of the threads in the process's own namespace.
    pub threads: Vec<u64>,
    /// Nearest frame outside the framework, or the nearest frame with a name if there is no such frame; `None` if no
    /// frame has a name.
    pub site: Option<Name>,
    /// Readable names, innermost first.
    pub frames: Vec<Name>,
    /// Names of the same frames in the runtime.
    pub raw_frames: Vec<Name>,
    /// Number of samples with this stack.
    pub samples: u64,
    /// Number of samples of these threads.
    pub all_samples: u64,
    /// Number of samples of these threads in which the thread ran managed code, and did not wait or run native code.
    pub managed_samples: u64,
    /// Whether the group contains the finalizer thread; `None` if the finalizer thread is unknown.
    pub finalizer: Option<bool>,
}

/// The activity of every managed thread.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ThreadStacks {
    /// Groups of threads, by number of threads, largest first.
    pub groups: Vec<Group>,
    /// Ids of the managed threads without a sample, in the process's own namespace; `None` if the stream does not list
    /// the managed threads.
    pub without_sample: Option<Vec<u64>>,
    /// Id of the finalizer thread in the process's own namespace; `None` if unknown.
    pub finalizer: Option<u64>,
    /// Number of samples.
    pub samples: u64,
    /// Number of samples that were dropped because of the memory limit.
    pub without_place: u64,
}

impl ThreadStacks {
    /// Sets the finalizer thread by its id in the process's own namespace, for streams that do not identify the
    /// finalizer thread. A caller can find the thread by its name in the operating system.
    pub fn name_finalizer(&mut self, thread: u64) {
        self.finalizer = Some(thread);
        for group in &mut self.groups {
            group.finalizer = Some(group.threads.contains(&thread));
        }
    }
}

/// Samples by thread.
#[derive(Debug, Default)]
pub(crate) struct Threads {
    samples: BTreeMap<u64, BTreeMap<Option<StackId>, u64>>,
    /// Number of samples per thread in which the thread ran managed code.
    ran: BTreeMap<u64, u64>,
    /// Flags of the live managed threads, by OS thread id.
    managed: BTreeMap<u64, u64>,
    total: u64,
    without_place: u64,
}

impl Threads {
    /// Processes a sample of a thread. Payload: u32 type of code.
    pub(crate) fn sampled(&mut self, thread: u64, stack: Option<StackId>, payload: &[u8], budget: &mut Budget) {
        let is_new_thread = !self.samples.contains_key(&thread);
        if is_new_thread && !budget.take(THREAD_BYTES) {
            self.without_place += 1;
            return;
        }
        let of_thread = self.samples.entry(thread).or_default();
        if !of_thread.contains_key(&stack) && !budget.take(STACK_BYTES) {
            self.without_place += 1;
            return;
        }
        *of_thread.entry(stack).or_default() += 1;
        self.total += 1;
        let mut rest = payload;
        if number::<4>(&mut rest, "Type").is_ok_and(|code| code == MANAGED) {
            *self.ran.entry(thread).or_default() += 1;
        }
    }

    /// Processes a live managed thread. Payload: u64 id, u64 AppDomain, u32 flags, u32 index, u32 OS thread.
    pub(crate) fn lives(&mut self, payload: &[u8], budget: &mut Budget) {
        let mut rest = payload;
        let mut fields = || {
            let _id = number::<8>(&mut rest, "ManagedThreadID").ok()?;
            let _domain = number::<8>(&mut rest, "AppDomainID").ok()?;
            let flags = number::<4>(&mut rest, "Flags").ok()?;
            let _index = number::<4>(&mut rest, "ManagedThreadIndex").ok()?;
            Some((number::<4>(&mut rest, "OSThreadID").ok()?, flags))
        };
        // A thread without an OS thread has not started, or has ended.
        if let Some((thread, flags)) = fields().filter(|(thread, _)| *thread != 0)
            && (self.managed.contains_key(&thread) || budget.take(THREAD_BYTES))
        {
            self.managed.insert(thread, flags);
        }
    }

    /// Groups threads with equal stacks.
    pub(crate) fn report<'a>(&self, frames: impl Fn(Option<StackId>) -> Vec<&'a Frame>) -> ThreadStacks {
        let is_finalizer = |flags: &u64| flags & FINALIZER != 0;
        let finalizer = self
            .managed
            .iter()
            .find(|(_, flags)| is_finalizer(flags))
            .map(|(thread, _)| *thread);
        let mut groups: BTreeMap<Vec<&Frame>, Group> = BTreeMap::new();
        for (thread, stacks) in &self.samples {
            let most = stacks.iter().max_by_key(|(_, samples)| **samples);
            let Some((stack, samples)) = most else { continue };
            let frames = frames(*stack);
            let group = groups.entry(frames).or_insert_with_key(|frames| Group {
                kind: "stack",
                threads: Vec::new(),
                site: Site::from_stack(frames).site.cloned(),
                frames: frames.iter().map(|frame| frame.name.clone()).collect(),
                raw_frames: frames.iter().map(|frame| frame.raw.clone()).collect(),
                samples: 0,
                all_samples: 0,
                managed_samples: 0,
                finalizer: finalizer.map(|_| false),
            });
            group.threads.push(*thread);
            group.samples += samples;
            group.all_samples += stacks.values().sum::<u64>();
            group.managed_samples += self.ran.get(thread).copied().unwrap_or(0);
            if finalizer == Some(*thread) {
                group.finalizer = Some(true);
            }
        }
        let mut groups: Vec<Group> = groups.into_values().collect();
        groups.sort_by_key(|group| (std::cmp::Reverse(group.threads.len()), group.threads.first().copied()));
        let without = self.managed.keys().filter(|thread| !self.samples.contains_key(thread));
        ThreadStacks {
            groups,
            without_sample: (!self.managed.is_empty()).then(|| without.copied().collect()),
            finalizer,
            samples: self.total,
            without_place: self.without_place,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stacks::Stacks;

    fn alive(thread: u32, flags: u32) -> Vec<u8> {
        let mut payload = vec![0; 16];
        for number in [flags, 1, thread] {
            payload.extend(number.to_le_bytes());
        }
        payload
    }

    /// Scenario: of three threads, two have the same most frequent stack, with different addresses of the same methods;
    /// the finalizer thread waits; a managed thread has no sample.
    /// Guarantee: the two threads are one group; the finalizer thread and the thread without a sample are identified.
    #[test]
    fn threads_with_equal_stacks_are_grouped() {
        let (mut stacks, mut budget, mut threads) = (Stacks::default(), Budget::default(), Threads::default());
        let one = stacks.intern([10, 20].into_iter(), &mut budget);
        let same = stacks.intern([11, 20].into_iter(), &mut budget);
        let other = stacks.intern([30].into_iter(), &mut budget);
        for (thread, stack) in [(7, one), (7, one), (7, other), (8, same), (9, other), (9, other)] {
            let ran = [if thread == 8 { 2 } else { 1 }, 0, 0, 0];
            threads.sampled(thread, stack, &ran, &mut budget);
        }
        for (thread, flags) in [(7, 0), (8, 4), (9, 2), (10, 0), (0, 0)] {
            threads.lives(&alive(thread, flags), &mut budget);
        }
        threads.lives(&[1, 2, 3], &mut budget);
        let (main, work, wait) = (
            Frame::new("P", "Main"),
            Frame::new("P", "Work"),
            Frame::new("P", "Wait"),
        );
        let frames = |stack: Option<StackId>| match stacks.frames(stack.unwrap()) {
            [30] => vec![&wait],
            _ => vec![&work, &main],
        };
        let report = threads.report(frames);
        assert_eq!(report.groups.len(), 2);
        let [working, waiting] = &report.groups[..] else {
            panic!()
        };
        assert_eq!(
            (working.threads.as_slice(), working.samples, working.all_samples),
            (&[7, 8][..], 3, 4)
        );
        assert_eq!((working.managed_samples, waiting.managed_samples), (1, 0));
        assert_eq!(working.frames, ["P.Work".into(), "P.Main".into()]);
        assert_eq!((waiting.threads.as_slice(), waiting.finalizer), (&[9][..], Some(true)));
        assert_eq!(
            (report.without_sample, report.finalizer, report.samples),
            (Some(vec![10]), Some(9), 6)
        );
    }

    /// Scenario: a stream lists no managed threads.
    /// Guarantee: the threads without samples and the finalizer thread are unknown.
    #[test]
    fn unlisted_threads_are_unknown() {
        let (mut budget, mut threads) = (Budget::default(), Threads::default());
        threads.sampled(7, None, &[], &mut budget);
        let report = threads.report(|_| Vec::new());
        assert_eq!((report.without_sample, report.finalizer), (None, None));
        assert_eq!((report.groups[0].finalizer, report.groups[0].frames.len()), (None, 0));
    }
}
