//! Traversal of the fields of a collection, in the same order for writing and for reading.

use super::blank::{NO_ALLOCATED, NO_HEAP_STATS, no_global_history, no_pause};
use super::pass::{Pass, low_32};
use crate::event::{GcType, HeapStats, Phases};
use crate::gc::account::{Account, RawAccount};
use crate::gc::allocated::{Allocated, AllocatedUnknown};
use crate::gc::collection::{Collection, Committed, GenerationSizes, Implausible, Missing, Pause};
use crate::gc::cpu_wait::CpuWait;
use crate::gc::history::GlobalHistory;
use crate::gc::impact::{RequestImpact, WorstRequest};
use crate::gc::stop::{PauseKind, StopEdges};

/// The fields of a collection, each written or read by a [`Pass`].
pub(super) trait Fields: Pass {
    fn collection(&mut self, collection: &mut Collection) {
        let Collection {
            number: _,
            generation,
            clr_instance,
            gc_type,
            became_blocking,
            reason,
            trigger,
            trigger_thread,
            requested_by_tool,
            start,
            end,
            start_thread,
            last_event,
            pauses,
            pause_ns,
            suspend_ns,
            heap_stats,
            heap,
            global,
            per_heap_histories,
            phases,
            committed,
            largest_heap_survived,
            throughput_cost_percent,
            allocated,
            background,
            thread_created,
            missing,
            implausible,
            lossy,
            observed_by_others,
            cpu,
            requests,
        } = collection;
        self.optional_code(generation, |generation| generation);
        self.optional(clr_instance, u128::from, |number| low_32(number) as u16);
        self.optional_code(gc_type, |GcType(code)| code);
        self.flag(became_blocking);
        self.optional_code(reason, |reason| reason.0);
        self.optional_code(trigger, |reason| reason.0);
        self.optional_unsigned(trigger_thread);
        self.optional(requested_by_tool, u128::from, |number| number != 0);
        self.optional_time(start);
        self.optional_time(end);
        self.optional_unsigned(start_thread);
        self.time(last_event);
        self.list(pauses, &no_pause(), Self::pause);
        self.optional_signed(pause_ns);
        self.optional_signed(suspend_ns);
        self.present(heap_stats, NO_HEAP_STATS, Self::heap_stats);
        for sizes in heap {
            self.sizes(sizes);
        }
        self.present(global, no_global_history(), Self::global);
        self.small(per_heap_histories);
        self.phases(phases);
        let Committed {
            before,
            after,
            bookkeeping,
            kept,
            kept_before,
        } = committed;
        for bytes in [before, after, bookkeeping, kept, kept_before] {
            self.optional_unsigned(bytes);
        }
        self.optional_unsigned(largest_heap_survived);
        let bits = |percent: f32| u128::from(percent.to_bits());
        self.optional(throughput_cost_percent, bits, |number| f32::from_bits(low_32(number)));
        self.allocated(allocated);
        self.optional_code(background, |number| number);
        self.flag(thread_created);
        for part in Missing::ALL {
            let mut absent = missing.contains(part);
            self.flag(&mut absent);
            missing.add(part, absent);
        }
        self.as_number(
            implausible,
            |figures| figures.bits().into(),
            |bits| Implausible::from_bits(low_32(bits)),
        );
        self.flag(lossy);
        self.optional(observed_by_others, u128::from, |number| number != 0);
        self.present(cpu, CpuWait::default(), |pass, cpu| {
            let CpuWait {
                throttled_ns,
                page_faults,
            } = cpu;
            pass.optional_signed(throttled_ns);
            pass.optional_unsigned(page_faults);
        });
        self.present(requests, RequestImpact::default(), Self::impact);
    }

    fn allocated(&mut self, allocated: &mut Result<Allocated, AllocatedUnknown>) {
        let why = AllocatedUnknown::ALL;
        let mut code = match allocated {
            Ok(_) => 0,
            Err(unknown) => 1 + why.iter().position(|other| other == unknown).unwrap_or(0) as u32,
        };
        self.small(&mut code);
        match code.checked_sub(1) {
            None => {
                let mut known = allocated.unwrap_or(NO_ALLOCATED);
                self.time(&mut known.since);
                self.time(&mut known.until);
                self.unsigned(&mut known.bytes);
                self.flag(&mut known.at_least);
                *allocated = Ok(known);
            }
            Some(place) => *allocated = Err(*why.get(place as usize).unwrap_or(&AllocatedUnknown::Contradiction)),
        }
    }

    fn impact(&mut self, impact: &mut RequestImpact) {
        let RequestImpact { hit, lost_ns, worst } = impact;
        self.unsigned(hit);
        self.unsigned(lost_ns);
        self.present(worst, WorstRequest::default(), |pass, worst| {
            let WorstRequest {
                lost_ns,
                trace_id,
                span_id,
            } = worst;
            pass.unsigned(lost_ns);
            pass.present(trace_id, [0; 16], |pass, id| {
                id.iter_mut().for_each(|byte| pass.byte(byte))
            });
            pass.present(span_id, [0; 8], |pass, id| {
                id.iter_mut().for_each(|byte| pass.byte(byte))
            });
        });
    }

    fn pause(&mut self, pause: &mut Pause) {
        let Pause {
            start,
            suspend_ns,
            pause_ns,
            spans,
            stopped_ns,
            shared_with,
            kind,
            edges,
            account,
            handles_ns,
        } = pause;
        self.optional_time(start);
        self.optional_signed(suspend_ns);
        self.optional_signed(pause_ns);
        self.list(spans, &(0, 0), |pass, (from, to)| {
            pass.time(from);
            pass.time(to);
        });
        self.optional_signed(stopped_ns);
        self.list(shared_with, &0, Self::small);
        self.as_number(
            kind,
            |kind| kind as u128,
            |number| match number {
                0 => PauseKind::Blocking,
                1 => PauseKind::Initial,
                _ => PauseKind::Final,
            },
        );
        let StopEdges {
            suspend_begin,
            suspend_end,
            restart_begin,
            restart_end,
            thread,
        } = edges;
        for edge in [suspend_begin, suspend_end, restart_begin, restart_end] {
            self.optional_time(edge);
        }
        self.unsigned(thread);
        self.present(account, Account::default(), Self::account);
        self.optional_signed(handles_ns);
    }

    fn account(&mut self, account: &mut Account) {
        let RawAccount {
            ns: parts,
            known,
            estimated,
            less,
            more,
        } = account.raw();
        self.small(known);
        self.small(estimated);
        // Most parts are 0, so one bit per part states whether the part is not 0.
        let mut there = parts
            .iter()
            .enumerate()
            .fold(0, |there, (place, ns)| there | u32::from(*ns != 0) << place);
        self.small(&mut there);
        for (place, ns) in parts.iter_mut().enumerate() {
            if there >> place & 1 != 0 {
                self.as_number(
                    ns,
                    |ns| ns.cast_unsigned().into(),
                    |number| (number as u64).cast_signed(),
                );
            }
        }
        // Most collections have no ranges, so one bit per part states whether the part has a range.
        let mut ranged = less
            .iter()
            .zip(more.iter())
            .enumerate()
            .fold(0, |ranged, (place, (less, more))| {
                ranged | u32::from((*less, *more) != (0, 0)) << place
            });
        self.small(&mut ranged);
        for (place, (less, more)) in less.iter_mut().zip(more).enumerate() {
            if ranged >> place & 1 != 0 {
                for ns in [less, more] {
                    self.as_number(
                        ns,
                        |ns| ns.cast_unsigned().into(),
                        |number| (number as u64).cast_signed(),
                    );
                }
            }
        }
    }

    fn heap_stats(&mut self, stats: &mut HeapStats) {
        let HeapStats {
            generation_size0,
            total_promoted_size0,
            generation_size1,
            total_promoted_size1,
            generation_size2,
            total_promoted_size2,
            generation_size3,
            total_promoted_size3,
            finalization_promoted_size,
            finalization_promoted_count,
            pinned_object_count,
            sink_block_count,
            gc_handle_count,
            clr_instance,
            generation_size4,
            total_promoted_size4,
        } = stats;
        for bytes in [
            generation_size0,
            total_promoted_size0,
            generation_size1,
            total_promoted_size1,
            generation_size2,
            total_promoted_size2,
            generation_size3,
            total_promoted_size3,
            finalization_promoted_size,
            finalization_promoted_count,
        ] {
            self.unsigned(bytes);
        }
        for count in [pinned_object_count, sink_block_count, gc_handle_count] {
            self.small(count);
        }
        self.optional(clr_instance, u128::from, |number| low_32(number) as u16);
        self.optional_unsigned(generation_size4);
        self.optional_unsigned(total_promoted_size4);
    }

    fn sizes(&mut self, sizes: &mut GenerationSizes) {
        let GenerationSizes {
            before,
            after,
            promoted,
            fragmentation,
            budget,
            survived,
        } = sizes;
        for bytes in [before, after, promoted, fragmentation, budget, survived] {
            self.optional_unsigned(bytes);
        }
    }

    fn global(&mut self, global: &mut GlobalHistory) {
        let GlobalHistory {
            heap_count,
            gen0_budget,
            condemned_generation,
            reason,
            mechanisms,
            pause_mode,
            memory_load_percent,
            condemn_reasons0,
            condemn_reasons1,
            phases,
        } = global;
        for number in [
            heap_count,
            condemned_generation,
            &mut reason.0,
            &mut mechanisms.0,
            &mut pause_mode.0,
            memory_load_percent,
        ] {
            self.small(number);
        }
        self.unsigned(gen0_budget);
        self.optional_code(condemn_reasons0, |bits| bits.0);
        self.optional_code(condemn_reasons1, |bits| bits.0);
        self.phases(phases);
    }

    fn phases(&mut self, phases: &mut Phases) {
        for phase in phases.each_mut() {
            self.optional_signed(phase);
        }
    }
}

impl<P: Pass> Fields for P {}
