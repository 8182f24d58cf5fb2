"""Checks that a pause is in the trace of a request that the pause delayed. A web service with the OpenTelemetry SDK,
whose requests collect, and gcwatch, which reads the service, export to one receiver."""

import contextlib
import threading
import time
import urllib.request

import process
import receivers

CONFIGURATION = "requests: {mode: diagnosticsource}\n"


@contextlib.contextmanager
def service(folder, endpoint):
    """Runs the service, gcwatch, and clients that send requests until the context ends."""
    (port,) = receivers.free_ports(1)
    shop = process.known(
        folder,
        "shop/shop.dll",
        SPORT=str(port),
        SSECS="300",
        OTEL_EXPORTER_OTLP_ENDPOINT=endpoint,
        OTEL_SERVICE_NAME="shop",
        OTEL_TRACES_SAMPLER="always_on",
        OTEL_BSP_SCHEDULE_DELAY="500",
    )
    over = threading.Event()

    def ask(path):
        while not over.is_set():
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30).read()
            time.sleep(0.05)

    clients = [threading.Thread(target=ask, args=(path,)) for path in ("/slow?ms=200", "/gc?generation=2", "/json?n=50")]
    gcwatch = None
    try:
        gcwatch = process.daemon(
            folder, "--listen", "none", "--no-metrics", "--no-logs", "--endpoint", endpoint, more=CONFIGURATION
        )
        gcwatch.await_true("gcwatch was attached", lambda: "attached" in gcwatch.log.read_text())
        for client in clients:
            client.start()
        yield
    finally:
        over.set()
        for client in clients:
            if client.ident:
                client.join()
        if gcwatch:
            gcwatch.stop()
        shop.child.kill()
        shop.child.wait()


def found(trace_ids, trace):
    """Returns a pause, the delayed request, and the collection's trace from the receiver, or None if the receiver does
    not have all three.

    `trace_ids` are the trace ids of the service. `trace` is a function that returns the spans of a trace."""
    for trace_id in trace_ids:
        spans = {span["id"]: span for span in trace(trace_id)}
        for pause in spans.values():
            victim = spans.get(pause["parent"])
            if not pause["name"].startswith("GC pause ") or not victim or victim["scope"] == "gcwatch" or not pause["links"]:
                continue
            collection = trace(pause["links"][0]["trace"])
            if any(span["id"] == pause["links"][0]["id"] for span in collection):
                return pause, victim, collection
    return None


def check(test, pause, victim, collection):
    """Asserts that the trace of the slow request contains the pause, and that the pause is linked to the collection."""
    test.assertEqual(pause["trace"], victim["trace"])
    test.assertEqual(victim["scope"], "Microsoft.AspNetCore")
    test.assertEqual(pause["scope"], "gcwatch")
    test.assertEqual(pause["name"], "GC pause gen2 blocking")
    # The SDK uses wall-clock times in steps of 100 ns.
    test.assertGreaterEqual(pause["start"] + 10**6, victim["start"])
    test.assertLessEqual(pause["end"], victim["end"] + 10**6)
    test.assertGreater(pause["end"] - pause["start"], 10**6)
    root = next(span for span in collection if not span["parent"])
    test.assertEqual(root["id"], pause["links"][0]["id"])
    test.assertTrue(root["name"].startswith("GC gen2"), root["name"])
    test.assertGreater(root["attributes"]["gcwatch.gc.requests.hit"], 0)
    test.assertLess(abs(root["start"] - pause["start"]), 10**9)
