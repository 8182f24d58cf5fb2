//! Collections requested by a tool for a heap dump.

use clr_gc::event::GcReason;
use clr_gc::gc::{Machine, ReportTiming};
use clr_gc::stream::Scope;

use crate::recordings::{self, Recording};

/// Scenario: during a plain session, another tool takes a heap dump of a program that requests no collection; the
/// stream of such a dump itself is read; other programs request collections without any tool.
/// Guarantee: the dump's collection is attributed to the tool, through the requesting thread or the dump; no other
/// collection is attributed to a tool, and the attribute of a collection that was not requested is `None`.
#[test]
fn heap_dump_is_attributed_to_tool() {
    for name in recordings::present(&["net11-dump-beside", "net11-dump"]) {
        let recording = Recording::read(name);
        let of_tool = recording
            .collections()
            .iter()
            .filter(|gc| gc.requested_by_tool == Some(true));
        let of_tool: Vec<_> = of_tool.map(|gc| (gc.reason, gc.generation)).collect();
        assert_eq!(of_tool, [(Some(GcReason::INDUCED), Some(2))], "{name}");
        let others = recording
            .collections()
            .iter()
            .filter(|gc| gc.reason != Some(GcReason::INDUCED));
        assert!(
            others.map(|gc| gc.requested_by_tool).all(|known| known.is_none()),
            "{name}"
        );
    }
    for name in recordings::names() {
        if name.starts_with("net11-dump") {
            continue;
        }
        let recording = Recording::read(&name);
        assert!(
            recording
                .collections()
                .iter()
                .all(|gc| gc.requested_by_tool != Some(true)),
            "{name}"
        );
    }
}

/// Scenario: the plain session during a dump is read event by event.
/// Guarantee: from the start of the dump's stop to the end of its collection, the requesting thread is known, and no
/// earlier or later stop names that thread.
#[test]
fn requester_is_known_during_collection() {
    for name in recordings::present(&["net11-dump-beside"]) {
        let whole = Recording::read(name);
        let dump = whole
            .collections()
            .iter()
            .find(|gc| gc.requested_by_tool == Some(true))
            .unwrap();
        let mut machine = Machine::new(None, ReportTiming::AtTheEnd);
        let mut named = Vec::new();
        Recording::read_bytes(&recordings::bytes(name), Scope::Collections, |observed| {
            let Ok(event) = &observed.decoded else { return };
            machine.observe(observed.at, observed.event.thread, event);
            let open = machine.open();
            if open.stop.is_some() && open.requester == dump.trigger_thread {
                named.push(observed.at);
            }
        });
        assert_eq!(named.first(), dump.pauses[0].edges.suspend_begin.as_ref(), "{name}");
        assert!(
            named.last() >= dump.end.as_ref() && named.last() <= Some(&dump.last_event),
            "{name}"
        );
    }
}
