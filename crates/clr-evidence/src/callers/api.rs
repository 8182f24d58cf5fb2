//! Determines the method that a caller called, from the collector's frames on its stack or, if the call was inlined,
//! from the runtime's reason.

use clr_gc::event::GcReason;

use crate::callers::Sum;
use crate::callers::record::Evidence;
use crate::name::Frame;

/// Returns the called method, the evidence for this method (both `None` if unknown), and the frames from its caller
/// outwards.
pub(super) fn asked<'a>(
    reason: u32,
    sum: &Sum,
    mut frames: Vec<&'a Frame>,
) -> (Option<&'static str>, Option<Evidence>, Vec<&'a Frame>) {
    let reason = GcReason(reason);
    let is_allocation = matches!(
        reason,
        GcReason::ALLOC_SMALL | GcReason::ALLOC_LARGE | GcReason::OUT_OF_SPACE_SOH | GcReason::OUT_OF_SPACE_LOH
    );
    if is_allocation {
        return (Some("allocation"), Some(Evidence::Reason), frames);
    }
    // A stub between the call and the collector can be unnamed.
    let is_collectors = |frame: &Frame| {
        frame.is_unknown() || frame.raw.starts_with("System.GC.") || frame.raw.starts_with("dynamicClass.IL_STUB")
    };
    let of_collector = frames.iter().take_while(|frame| is_collectors(frame)).count();
    if of_collector < frames.len() || frames.iter().any(|frame| !frame.is_unknown()) {
        let rest = frames.split_off(of_collector);
        let called = frames
            .iter()
            .rev()
            .find_map(|frame| frame.raw.strip_prefix("System.GC."));
        if let Some(called) = called {
            return (Some(api(called)), Some(Evidence::Frame), rest);
        }
        frames = rest;
    }
    if frames.iter().all(|frame| frame.is_unknown()) {
        return (None, None, frames);
    }
    // The call was inlined into the calling method. In managed code, only one method has these reasons.
    match reason {
        GcReason::INDUCED_COMPACTING | GcReason::INDUCED_AGGRESSIVE => {
            (Some("GC.Collect"), Some(Evidence::Reason), frames)
        }
        GcReason::INDUCED if sum.without_collection == 0 => (Some("GC.Collect"), Some(Evidence::Reason), frames),
        GcReason::INDUCED if sum.collections == 0 => (Some("TryStartNoGCRegion"), Some(Evidence::Reason), frames),
        _ => (None, None, frames),
    }
}

/// Returns the public method for a frame of `System.GC`, which is the method itself or an internal method: `_Collect`
/// or, since .NET 11, a local function of it, `<_Collect>g____PInvoke|8_0`.
fn api(called: &str) -> &'static str {
    let outer = called.strip_prefix('<').and_then(|called| called.split('>').next());
    match outer.unwrap_or(called).trim_matches('_') {
        name if name.starts_with("Collect") => "GC.Collect",
        "AddMemoryPressure" => "AddMemoryPressure",
        "RemoveMemoryPressure" => "RemoveMemoryPressure",
        "EndNoGCRegion" => "EndNoGCRegion",
        name if name.contains("NoGCRegion") => "TryStartNoGCRegion",
        "RefreshMemoryLimit" => "RefreshMemoryLimit",
        "GetTotalMemory" => "GC.GetTotalMemory",
        _ => "System.GC",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::site::Site;

    /// Returns frames with a static lifetime.
    fn frames(raw: &[(&str, &str)]) -> Vec<&'static Frame> {
        let frames = raw.iter().map(|(namespace, name)| Frame::new(namespace, name));
        frames.map(leak).collect()
    }

    fn leak(frame: Frame) -> &'static Frame {
        Box::leak(Box::new(frame))
    }

    /// Scenario: stacks of triggers are in the format of runtimes.
    /// Guarantee: the called method and the nearest own method are determined.
    #[test]
    fn called_method_and_caller_are_found() {
        let collected = Sum {
            collections: 1,
            ..Sum::default()
        };
        // Reason, frames, and the expected result: the called method and its caller.
        let table = "
1 / System.GC _Collect, System.GC Collect, A.Cache Trim, A.P Main / GC.Collect / A.Cache.Trim
1 / dynamicClass IL_STUB_PInvoke, System.GC Collect, System.Reflection.MethodBaseInvoker InvokeWithNoArgs, A.P ByReflection / GC.Collect / A.P.ByReflection
7 / System.GC AddMemoryPressure, A.Bitmap .ctor / AddMemoryPressure / A.Bitmap..ctor
1 / System.GC _StartNoGCRegion, System.GC TryStartNoGCRegion, A.Low Enter / TryStartNoGCRegion / A.Low.Enter
1 / System.GC <_Collect>g____PInvoke|8_0, A.Cache Trim / GC.Collect / A.Cache.Trim
7 / System.GC <_AddMemoryPressure>g____PInvoke|54_0, A.Bitmap .ctor / AddMemoryPressure / A.Bitmap..ctor
1 / System.GC <_StartNoGCRegion>g____PInvoke|26_0, A.Low Enter / TryStartNoGCRegion / A.Low.Enter
0 / System.String Ctor, A.R Line / allocation / A.R.Line
1 / A.Cache Trim, A.P Main / GC.Collect / A.Cache.Trim
7 / A.Cache Trim / - / A.Cache.Trim
1 /  / - / -
";
        for row in table.trim().lines() {
            let [reason, raw, api, by] = row.split(" / ").collect::<Vec<_>>()[..] else {
                panic!("{row}")
            };
            let raw: Vec<_> = raw.split(", ").filter_map(|frame| frame.split_once(' ')).collect();
            let (called, _, rest) = asked(reason.parse().unwrap(), &collected, frames(&raw));
            assert_eq!(called.unwrap_or("-"), api, "{row}");
            assert_eq!(Site::from_stack(&rest).site.map_or("-", |name| &**name), by, "{row}");
        }
    }

    /// Scenario: the call of a trigger without a collection was inlined; another call is behind an unnamed stub.
    /// Guarantee: the first call is reported as a no-GC region; the unnamed stub is not reported as the caller.
    #[test]
    fn inlined_call_is_known_by_its_reason() {
        let none = Sum {
            without_collection: 1,
            ..Sum::default()
        };
        let (api, from, _) = asked(1, &none, frames(&[("A.Low", "Enter")]));
        assert_eq!((api, from), (Some("TryStartNoGCRegion"), Some(Evidence::Reason)));
        let behind = [
            Frame::unknown(7),
            Frame::new("System.GC", "Collect"),
            Frame::new("A.Cache", "Trim"),
        ];
        let (api, from, rest) = asked(1, &none, behind.map(leak).to_vec());
        assert_eq!((api, from, rest.len()), (Some("GC.Collect"), Some(Evidence::Frame), 1));
        let (api, _, rest) = asked(1, &none, vec![leak(Frame::unknown(7))]);
        assert_eq!((api, rest.len()), (None, 1));
    }
}
