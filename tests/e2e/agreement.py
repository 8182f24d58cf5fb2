"""Compares spans and points with the recording."""

import math


def check_spans(test, recording, spans, moved=None):
    """Asserts that every collection is one trace and that each span matches `gcwatch analyze`.

    moved: nanoseconds by which all times are later than recorded; None if any amount is allowed, as long as it is the
    same for all.
    """
    by_id = {span["id"]: span for span in spans}
    test.assertEqual(len(by_id), len(spans), "span ids are unique")
    roots = {span["attributes"]["gcwatch.gc.number"]: span for span in spans if not span["parent"]}
    test.assertEqual(sorted(roots), sorted(recording.gcs), "one root span for each collection")
    test.assertEqual(len({root["trace"] for root in roots.values()}), len(roots), "a trace for each collection")
    children = {}
    for span in spans:
        if span["parent"]:
            parent = by_id[span["parent"]]
            test.assertEqual(span["trace"], parent["trace"], span)
            test.assertTrue(parent["start"] <= span["start"] <= span["end"] <= parent["end"], (span, parent))
            children.setdefault(span["parent"], []).append(span)
    for number, gc in recording.gcs.items():
        root, context = roots[number], f"{recording.name}, collection {number}"
        moved = check_times(test, recording, gc, root, children.get(root["id"], []), moved, context)
        check_attributes(test, gc, root, context)
        check_links(test, recording, gc, root, roots, context)
    return roots


def check_times(test, recording, gc, root, children, moved, context):
    pauses = [span for span in children if span["name"].startswith("GC pause")]
    test.assertLessEqual(root["start"], root["end"], context)
    if not gc["complete"]:
        return moved
    # A part of a stop that was divided among several collections can be in pieces, whose durations add up.
    test.assertEqual(sum(span["end"] - span["start"] for span in pauses), gc["pause_ns"], context)
    if any(pause["shared_with"] for pause in gc["pauses"]):
        return moved
    ends = [pause["start_offset_ns"] + pause["pause_ns"] for pause in gc["pauses"]]
    first = min(gc["start_offset_ns"], gc["pauses"][0]["start_offset_ns"])
    last = max(gc["start_offset_ns"] + gc["duration_ns"], *ends)
    if moved is None:
        moved = root["start"] - recording.sync - first
    base = recording.sync + moved
    test.assertEqual((root["start"], root["end"]), (base + first, base + last), context)
    told = sorted((span["start"], span["end"]) for span in pauses)
    known = sorted((base + pause["start_offset_ns"], base + end) for pause, end in zip(gc["pauses"], ends))
    test.assertEqual(told, known, context)
    return moved


def check_attributes(test, gc, root, context):
    kind = "blocking" if gc["became_blocking"] else gc["type"]
    generation = None if gc["generation"] is None else f"gen{gc['generation']}"
    test.assertEqual(root["name"], " ".join(["GC", *filter(None, [generation, kind])]), context)
    expected = {
        "dotnet.gc.heap.generation": generation,
        "gcwatch.gc.type": kind,
        "gcwatch.gc.reason": gc["reason"],
        "gcwatch.gc.trigger": gc["trigger"],
        "gcwatch.gc.pause_mode": gc["pause_mode"],
        "gcwatch.gc.heap_count": gc["heap_count"],
        "gcwatch.gc.pinned_objects": gc["pinned_objects"],
        "gcwatch.gc.heap.size_before": gc["heap_before"],
        "gcwatch.gc.heap.size_after": gc["heap_after"],
        "gcwatch.gc.heap.promoted": gc["promoted"],
        "gcwatch.gc.compacting": gc["compacting"],
        "gcwatch.gc.complete": gc["complete"],
        "gcwatch.gc.allocated_since_last": gc["allocated_since_last"],
    }
    for name, wanted in expected.items():
        # Unknown values are omitted, never 0.
        test.assertEqual(root["attributes"].get(name), wanted, f"{context}: {name}")
    load = gc["memory_load_percent"]
    for name, wanted in {"pause_time": (gc["pause_ns"], 1e9), "memory_load": (load, 100)}.items():
        reported = root["attributes"].get(f"gcwatch.gc.{name}")
        if wanted[0] is None:
            test.assertIsNone(reported, f"{context}: {name}")
        else:
            test.assertAlmostEqual(reported, wanted[0] / wanted[1], places=9, msg=f"{context}: {name}")


def check_links(test, recording, gc, root, roots, context):
    backgrounds = [link for link in root["links"] if link.get("gcwatch.gc.link") == "background"]
    if gc["type"] == "foreground" and gc["complete"]:
        test.assertEqual(len(backgrounds), 1, f"{context}: a foreground collection is linked to its background one")
    for link in backgrounds:
        number = link["gcwatch.gc.number"]
        test.assertIn(number, recording.gcs, context)
        test.assertEqual(recording.gcs[number]["type"], "background", context)
        test.assertEqual((link["trace"], link["id"]), (roots[number]["trace"], roots[number]["id"]), context)


def check_counts(test, recording, points):
    """Compares the newest points of dotnet.gc.collections: {generation: count}. A generation without collections can be
    absent."""
    test.assertEqual({name: count for name, count in points.items() if count}, recording.by_generation(), recording.name)


def check_histogram(test, recording, points):
    """Compares the points of the exponential histogram of pauses: its buckets contain exactly the recording's
    pauses."""
    pauses = sorted(recording.pauses())
    test.assertEqual(sum(int(point["count"]) for point in points), len(pauses), recording.name)
    total = sum(point["sum"] for point in points)
    test.assertAlmostEqual(total, sum(pauses) / 1e9, places=6, msg=recording.name)
    test.assertAlmostEqual(min(point["min"] for point in points), pauses[0] / 1e9, places=9)
    test.assertAlmostEqual(max(point["max"] for point in points), pauses[-1] / 1e9, places=9)
    # Series have different scales. At the coarsest scale, each of its buckets consists of complete finer buckets.
    coarsest = min(point.get("scale", 0) for point in points)
    buckets = {}
    for point in points:
        positive = point.get("positive", {})
        for place, count in enumerate(positive.get("bucketCounts", [])):
            index = int(positive.get("offset", 0)) + place >> point.get("scale", 0) - coarsest
            buckets[index] = buckets.get(index, 0) + int(count)
    wanted = {}
    for pause in pauses:
        index = math.ceil(math.log2(pause / 1e9) * 2**coarsest) - 1
        wanted[index] = wanted.get(index, 0) + 1
    test.assertEqual({index: count for index, count in buckets.items() if count}, wanted, recording.name)
