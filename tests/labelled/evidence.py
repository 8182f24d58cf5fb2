"""What a recording shows: its figures, and of which anomalies they are evidence."""

import collections
import statistics

MB = 1_000_000
# Reasons to condemn that are news; the others say what every collection says.
NOTABLE = {"BeforeOOM", "LimitBeforeOOM", "AvoidUnproductive", "LimitLOHFragmentation", "LimitLOHReclaim"}


def ms(ns):
    return round(ns / 1e6, 2)


def largest(values, ndigits=2):
    values = [value for value in values if value is not None]
    return round(max(values), ndigits) if values else None


def part(gc, generation, field):
    return gc["heap"][generation][field]


def share(over, under):
    return None if over is None or not under else over / under


def mean_survival(gcs, generation, at_least):
    """Mean share of a generation that a collection of it left alive, and of how many collections."""
    shares = [share(part(gc, generation, "survived"), part(gc, generation, "before")) for gc in gcs if gc["generation"] >= at_least]
    shares = [one for one in shares if one is not None]
    return round(statistics.mean(shares), 2) if shares else None


def turns(counts):
    """How often a sequence changes its direction."""
    steps = [b - a for a, b in zip(counts, counts[1:]) if a != b]
    return sum(1 for a, b in zip(steps, steps[1:]) if (a > 0) != (b > 0))


def limit_of(run):
    text = run.get("knobs", {}).get("GCHeapHardLimit")
    return int(str(text), 16) if text else None


def figures(run, records):
    gcs = [one for one in records if one["kind"] == "gc"]
    summary = next((one for one in records if one["kind"] == "summary"), None)
    stream = next(one for one in records if one["kind"] == "stream")
    out = {"seconds": round(stream["duration_ns"] / 1e9, 1), "gcs": len(gcs), "lost": stream["lost_events"]}
    if summary is None or not gcs:
        return out
    # A background collection that became a blocking one is one.
    kind = lambda gc: "blocking" if gc["became_blocking"] else gc["type"]
    full = [gc for gc in gcs if gc["generation"] == 2 and kind(gc) == "blocking"]
    back = [gc for gc in gcs if kind(gc) == "background"]
    out["stopped_share"] = round(summary["stopped_share"], 4)
    out["max_pause_ms"] = ms(summary["max_ns"] or 0)
    out["p50_pause_ms"] = ms(summary["p50_ns"] or 0)
    out["max_suspend_ms"] = ms(largest([gc["suspend_ns"] for gc in gcs]) or 0)
    out["by_type"] = dict(sorted(collections.Counter(f"gen{gc['generation']} {kind(gc)}" for gc in gcs).items()))
    out["by_reason"] = dict(sorted(collections.Counter(gc["reason"] or "unknown" for gc in gcs).items()))
    notable = collections.Counter(one for gc in gcs for one in gc["condemned_reasons"] or [] if one in NOTABLE)
    if notable:
        out["condemned"] = dict(sorted(notable.items()))
    ephemeral = [gc["pause_ns"] for gc in gcs if gc["generation"] < 2 and gc["pause_ns"] is not None]
    if ephemeral:
        out["ephemeral_ms"] = {"p50": ms(statistics.median(ephemeral)), "max": ms(max(ephemeral))}
    if full:
        out["full_blocking_share"] = round(sum(gc["pause_ns"] or 0 for gc in full) / stream["duration_ns"], 4)
        out["full_blocking_ms"] = {"p50": ms(statistics.median(gc["pause_ns"] or 0 for gc in full)), "max": ms(max(gc["pause_ns"] or 0 for gc in full))}
    if back:
        ends = [(one["kind"], one["pause_ns"]) for gc in back for one in gc["pauses"]]
        out["background"] = {
            "count": len(back),
            "max_duration_ms": ms(largest([gc["duration_ns"] for gc in back]) or 0),
            "max_initial_ms": ms(largest([ns for which, ns in ends if which == "initial"]) or 0),
            "max_final_ms": ms(largest([ns for which, ns in ends if which == "final"]) or 0),
            "most_foreground": max(
                sum(1 for gc in gcs if gc is not one and one["start_offset_ns"] is not None and one["duration_ns"] is not None
                    and gc["start_offset_ns"] is not None
                    and one["start_offset_ns"] < gc["start_offset_ns"] < one["start_offset_ns"] + one["duration_ns"])
                for one in back),
        }
    # Stops that begin less than 10 ms after the end of the one before.
    close, last = 0, None
    for gc in gcs:
        for stop in gc["pauses"]:
            begin, stopped = stop["start_offset_ns"], stop["stopped_ns"]
            if begin is None or stopped is None:
                continue
            close += last is not None and begin - last < 10_000_000
            last = begin + stopped
    out["within_10ms"] = close
    out["survival"] = {name: value for name, value in (
        ("gen0", mean_survival(gcs, "gen0", 0)), ("gen1", mean_survival(gcs, "gen1", 1)), ("gen2", mean_survival(gcs, "gen2", 2)),
        ("loh", mean_survival(gcs, "loh", 2))) if value is not None}
    for name in ("gen0", "gen2", "loh"):
        holes = [(part(gc, name, "fragmentation"), part(gc, name, "after")) for gc in gcs]
        holes = [(free, size) for free, size in holes if free is not None and size]
        if holes:
            free, size = max(holes)
            out[f"{name}_free_mb"] = round(free / MB, 1)
            out[f"{name}_free_share"] = round(free / size, 2)
    out["heap_after_mb"] = {"first": round((next((gc["heap_after"] for gc in gcs if gc["heap_after"] is not None), 0)) / MB, 1),
                            "last": round((next((gc["heap_after"] for gc in reversed(gcs) if gc["heap_after"] is not None), 0)) / MB, 1),
                            "max": round((largest([gc["heap_after"] for gc in gcs]) or 0) / MB, 1)}
    full_promoted = [gc["promoted"] for gc in gcs if gc["generation"] == 2 and gc["promoted"] is not None]
    if len(full_promoted) > 1:
        out["gen2_promoted_mb"] = {"n": len(full_promoted), "first": round(full_promoted[0] / MB, 1), "last": round(full_promoted[-1] / MB, 1),
                                   "steps_up": round(sum(b > a for a, b in zip(full_promoted, full_promoted[1:])) / (len(full_promoted) - 1), 2)}
    committed = largest([gc["committed"]["after"] for gc in gcs])
    if committed:
        out["committed_mb"] = round(committed / MB, 1)
        if limit_of(run):
            out["committed_of_limit"] = round(committed / limit_of(run), 2)
    if limit_of(run):
        out["loh_free_of_limit"] = round((largest([part(gc, "loh", "fragmentation") for gc in gcs]) or 0) / limit_of(run), 2)
        out["heap_of_limit"] = round((largest([gc["heap_after"] for gc in gcs]) or 0) / limit_of(run), 2)
    for name in ("gc_handles", "sync_blocks", "pinned_objects", "finalization_promoted_count"):
        values = [gc[name] for gc in gcs if gc[name] is not None]
        if values:
            out[name] = {"first": values[0], "last": values[-1], "max": max(values)}
    ratios = [share(gc["finalization_promoted_bytes"], gc["promoted"]) for gc in gcs]
    out["max_finalization_share"] = largest(ratios)
    out["memory_load_percent"] = largest([gc["memory_load_percent"] for gc in gcs])
    heaps = [gc["heap_count"] for gc in gcs if gc["heap_count"] is not None]
    if heaps and max(heaps) > 1:
        out["heaps"] = {"min": min(heaps), "max": max(heaps), "turns": turns(heaps)}
    modes = collections.Counter(gc["pause_mode"] for gc in gcs if gc["pause_mode"])
    out["pause_modes"] = dict(sorted(modes.items()))
    seconds = collections.Counter()
    for gc in gcs:
        if gc["start_offset_ns"] is not None:
            seconds[gc["start_offset_ns"] // 1_000_000_000] += gc["allocated_since_last"] or 0
    rates = [seconds[at] / MB for at in range(min(seconds), max(seconds) + 1)] if seconds else []
    if rates:
        out["allocated_mb_s"] = {"p50": round(statistics.median(rates)), "max": round(max(rates))}
    out["became_blocking"] = sum(1 for gc in gcs if gc["became_blocking"])
    # Of the collections with a pause over 20 ms, those that mostly waited for threads.
    long = [gc for gc in gcs if (gc["pause_ns"] or 0) > 20_000_000 and gc["suspend_ns"] is not None]
    out["suspension_dominates"] = {"over_20ms": len(long), "of_them": sum(1 for gc in long if gc["suspend_ns"] > gc["pause_ns"] / 2)}
    out["outlier_pauses"] = outliers(gcs)
    runs = [gc["finalization_promoted_count"] for gc in gcs if gc["finalization_promoted_count"] is not None]
    # The most that five collections in a row each found ready to finalize.
    out["finalization_5_in_a_row"] = max((min(runs[at:at + 5]) for at in range(len(runs) - 4)), default=0)
    out["pauses_over"] = {f"{limit}ms": sum(1 for gc in gcs if (gc["pause_ns"] or 0) > limit * 1_000_000) for limit in (100, 200, 1000)}
    out["suspends_over"] = {f"{limit}ms": sum(1 for gc in gcs if (gc["suspend_ns"] or 0) > limit * 1_000_000) for limit in (10, 100)}
    # A suspension that had not ended when the stream did.
    begun = [one["start_offset_ns"] for one in records if one["kind"] == "suspension" and one["stopped_ns"] is None]
    if begun:
        out["open_at_end_ms"] = ms(summary["observed_ns"] - max(begun))
    out["unclaimed_stops"] = sum(1 for one in records if one["kind"] == "suspension")
    return out


def brief(f):
    """The figures without those that say nothing of this run."""
    if not f["gcs"]:
        return f
    kept = {name: f[name] for name in ("seconds", "gcs", "lost", "stopped_share", "max_pause_ms", "p50_pause_ms", "max_suspend_ms",
                                       "by_type", "by_reason", "condemned", "ephemeral_ms", "full_blocking_ms", "full_blocking_share",
                                       "background", "survival", "committed_of_limit", "loh_free_of_limit", "heaps") if name in f}
    kept["heap_after_mb"] = f["heap_after_mb"]["max"]
    for name in ("gen2", "loh"):
        if got(f, f"{name}_free_mb") > 10:
            kept |= {f"{name}_free_mb": f[f"{name}_free_mb"], f"{name}_free_share": f[f"{name}_free_share"]}
    for name in ("gc_handles", "sync_blocks"):
        if grew(f, name):
            kept[name] = f[name]
    if got(f, "gen2_promoted_mb", "n") >= 5 and got(f, "gen2_promoted_mb", "steps_up") > 0.8:
        kept["gen2_promoted_mb"] = f["gen2_promoted_mb"]
    for name, least in (("pinned_objects", 100), ("finalization_promoted_count", 1000)):
        if got(f, name, "max") >= least:
            kept[name] = f[name]["max"]
    if (f["memory_load_percent"] or 0) >= 50:
        kept["memory_load_percent"] = f["memory_load_percent"]
    for name in ("within_10ms", "outlier_pauses", "became_blocking", "finalization_5_in_a_row", "unclaimed_stops", "open_at_end_ms", "allocated_mb_s"):
        if f.get(name):
            kept[name] = f[name]
    if any(f["pauses_over"].values()):
        kept["pauses_over"] = f["pauses_over"]
    if any(f["suspends_over"].values()):
        kept["suspends_over"] = f["suspends_over"]
    if f["suspension_dominates"]["of_them"]:
        kept["suspension_dominates"] = f["suspension_dominates"]
    return kept


def outliers(gcs):
    """Pauses over 50 ms that are ten times the median of the last twenty of their generation and type, with about as much promoted."""
    past = collections.defaultdict(list)
    found = 0
    for gc in gcs:
        if gc["pause_ns"] is None or gc["promoted"] is None:
            continue
        before = past[gc["generation"], gc["type"]]
        if len(before) >= 10:
            pause, promoted = (statistics.median(one[at] for one in before[-20:]) for at in (0, 1))
            if gc["pause_ns"] > max(10 * pause, 50_000_000) and abs(gc["promoted"] - promoted) <= 0.25 * promoted:
                found += 1
        before.append((gc["pause_ns"], gc["promoted"]))
    return found


def reasons(f, *names):
    return sum(f["by_reason"].get(name, 0) for name in names)


def full_blocking(f):
    return f["by_type"].get("gen2 blocking", 0)


def a_minute(f, count):
    return count * 60 / f["seconds"]


def got(f, *path):
    for name in path:
        f = (f or {}).get(name)
    return f or 0


def grew(f, name):
    return got(f, name, "last") > 1.2 * got(f, name, "first") and got(f, name, "last") - got(f, name, "first") > 10_000


# Slug: what the figures must say. The thresholds are those of README.md: rates are of the whole run, which is shorter than a rule's
# window, and a trend of seconds stands for one of hours.
EVIDENCE = {
    "induced-blocking": lambda f: reasons(f, "Induced", "InducedCompacting", "InducedAggressive") > 0,
    "induced-aggressive": lambda f: reasons(f, "InducedAggressive") > 0,
    "induced-not-forced": lambda f: a_minute(f, reasons(f, "InducedNotForced")) > 60,
    "low-memory": lambda f: reasons(f, "LowMemory", "LowMemoryBlocking", "LowMemoryHost", "LowMemoryHostBlocking") > 0,
    "small-object-out-of-space": lambda f: reasons(f, "OutOfSpaceSOH") > 0,
    "large-object-out-of-space": lambda f: reasons(f, "OutOfSpaceLOH") > 0,
    "before-out-of-memory": lambda f: got(f, "condemned", "BeforeOOM") + got(f, "condemned", "LimitBeforeOOM") > 0,
    "unproductive-full": lambda f: got(f, "condemned", "AvoidUnproductive") > 0,
    "hard-limit-large-objects": lambda f: got(f, "condemned", "LimitLOHFragmentation") + got(f, "condemned", "LimitLOHReclaim") > 0
    or got(f, "loh_free_of_limit") >= 1 / 8,
    "hard-limit-near": lambda f: (f.get("committed_of_limit") or f.get("heap_of_limit") or 0) >= 0.8,
    "memory-load": lambda f: (f["memory_load_percent"] or 0) >= 90,
    "provisional-mode": lambda f: reasons(f, "PMFullGC") > 0,
    "share-stopped": lambda f: f["stopped_share"] > 0.1,
    "long-pause": lambda f: f["pauses_over"]["200ms"] >= 3 or f["max_pause_ms"] > 1000,
    "long-suspension": lambda f: f["suspends_over"]["100ms"] >= 3 or f["max_suspend_ms"] > 1000,
    "suspension-dominates": lambda f: f["suspension_dominates"]["of_them"] >= 3
    and f["suspension_dominates"]["of_them"] > f["suspension_dominates"]["over_20ms"] / 2,
    "outlier-pause": lambda f: f["outlier_pauses"] >= 3,
    "slow-ephemeral": lambda f: got(f, "ephemeral_ms", "p50") > 10 and f["stopped_share"] > 0.1,
    "stuck": lambda f: f["max_pause_ms"] > 10_000 or got(f, "open_at_end_ms") > 10_000,
    "mostly-full-blocking": lambda f: f["gcs"] >= 10 and full_blocking(f) / f["gcs"] > 0.3,
    "full-blocking-rate": lambda f: full_blocking(f) - reasons(f, "Induced", "InducedAggressive", "PMFullGC") >= 10
    and f["full_blocking_share"] > 0.05,
    "back-to-back": lambda f: f["within_10ms"] / f["seconds"] >= 20 and f["stopped_share"] > 0.1,
    "large-object-trigger": lambda f: f["gcs"] >= 10 and reasons(f, "AllocLarge") / f["gcs"] > 0.3,
    "temporary-large-objects": lambda f: reasons(f, "AllocLarge") >= 3 and f["survival"].get("loh", 1) <= 0.25,
    "allocation-spike": lambda f: got(f, "allocated_mb_s", "max") > max(200, 5 * got(f, "allocated_mb_s", "p50")),
    "gen0-survival": lambda f: f["gcs"] >= 20 and f["survival"].get("gen0", 0) > 0.4,
    "mid-life": lambda f: f["survival"].get("gen1", 0) > 0.6 and f["survival"].get("gen2", 1) < 0.8 and f["stopped_share"] > 0.1,
    "long-final-pause": lambda f: got(f, "background", "max_final_ms") > 100,
    "background-with-many": lambda f: got(f, "background", "most_foreground") > 20,
    "handle-growth": lambda f: grew(f, "gc_handles"),
    "sync-block-growth": lambda f: grew(f, "sync_blocks"),
    "promoted-growth": lambda f: got(f, "gen2_promoted_mb", "n") >= 5 and got(f, "gen2_promoted_mb", "steps_up") > 0.8
    and got(f, "gen2_promoted_mb", "last") > 1.1 * got(f, "gen2_promoted_mb", "first"),
    "finalization-backlog": lambda f: f["finalization_5_in_a_row"] > 10_000,
    "pinned-objects": lambda f: got(f, "pinned_objects", "max") > 1000,
    "large-object-holes": lambda f: got(f, "loh_free_mb") > 100 and got(f, "loh_free_share") > 0.5,
    "gen2-holes": lambda f: got(f, "gen2_free_mb") > 50 and got(f, "gen2_free_share") > 0.4,
    "heap-count-turns": lambda f: got(f, "heaps", "turns") >= 6,
}


def shown(found):
    """The slugs of which these figures are evidence."""
    return [slug for slug, holds in EVIDENCE.items() if found["gcs"] and holds(found)]
