"""Jaeger: traces as returned by its own API."""

import datetime
import json
import time
import unittest
import urllib.parse

import agreement
import gcwatch
import otlp
import receivers
import victims


def moment(ns):
    return datetime.datetime.fromtimestamp(ns // 10**9, datetime.timezone.utc).isoformat().replace("+00:00", "Z")


def asked(query, path, **parameters):
    """Returns spans from Jaeger's API 3: OTLP as JSON with full nanoseconds."""
    text = urllib.parse.urlencode(parameters)
    status, body = receivers.get(f"http://127.0.0.1:{query}/api/v3/{path}?{text}", timeout=60)
    if status != 200:
        return []
    return list(otlp.spans(json.loads(body)["result"]["resourceSpans"]))


class Jaeger(unittest.TestCase):
    def check(self, protocol, name, *arguments):
        recording = gcwatch.Recording(name)
        with receivers.jaeger() as jaeger:
            grpc, http, query, _ = jaeger.ports
            port = grpc if protocol == "grpc" else http
            said = gcwatch.replay(
                jaeger.folder,
                recording,
                *("--endpoint", f"http://127.0.0.1:{port}", "--protocol", protocol, *arguments),
            )
            window = {
                "query.service_name": name,
                "query.start_time_min": moment(recording.sync - 60 * 10**9),
                "query.start_time_max": moment(recording.sync + 3600 * 10**9),
                "query.num_traces": 10_000,
            }
            found = jaeger.await_true("all traces were found", lambda: self.all_of(recording, asked(query, "traces", **window)))
            roots = agreement.check_spans(self, recording, found, moved=0)
            self.assertEqual({span["resource"]["service.name"] for span in found}, {name})
            # Query the traces one by one by their ids, like a user who follows a link.
            for root in list(roots.values())[:20]:
                trace = asked(query, f"traces/{root['trace']}")
                wanted = {span["id"]: span for span in found if span["trace"] == root["trace"]}
                self.assertEqual({span["id"]: span for span in trace}, wanted)
            return said

    def all_of(self, recording, spans):
        return spans if len({span["trace"] for span in spans}) >= len(recording.gcs) else None

    def test_grpc(self):
        """Scenario: a recording with foreground collections during background collections is sent to Jaeger over gRPC.
        Guarantee: Jaeger returns every trace by its id, with the times, names, attributes and links of the
        recording."""
        self.check("grpc", "net10-threads-server-datas", "--no-metrics", "--no-logs")

    def test_http(self):
        """Scenario: another recording is sent over HTTP, together with metrics, which Jaeger does not accept.
        Guarantee: Jaeger returns every trace, and gcwatch reports the rejected metrics."""
        said = self.check("http/protobuf", "svc8-workstation")
        self.assertIn("the receiver does not support metrics", said)

    def test_pause_is_in_trace_of_victim(self):
        """Scenario: a web service with the OpenTelemetry SDK, whose requests collect, and gcwatch, which reads the
        service, export to Jaeger.
        Guarantee: in the trace of a delayed request, the pause is a child of the request's own span, inside its time,
        and linked to the collection's trace, which Jaeger has as well."""
        with receivers.jaeger() as jaeger:
            grpc, _, query, _ = jaeger.ports
            begun = time.time_ns()

            def trace(trace_id):
                return asked(query, f"traces/{trace_id}")

            def trace_ids():
                window = {
                    "query.service_name": "shop",
                    "query.start_time_min": moment(begun - 60 * 10**9),
                    "query.start_time_max": moment(time.time_ns() + 60 * 10**9),
                    "query.num_traces": 500,
                }
                spans = asked(query, "traces", **window)
                return {span["trace"] for span in spans if span["name"].startswith("GC pause ") and span["links"]}

            with victims.service(jaeger.folder, f"http://127.0.0.1:{grpc}"):
                whole = jaeger.await_true("a pause was in its victim's trace", lambda: victims.found(trace_ids(), trace))
            victims.check(self, *whole)


if __name__ == "__main__":
    unittest.main()
