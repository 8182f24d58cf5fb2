"""Tempo: traces by their ids, as returned by its own API."""

import json
import unittest

import agreement
import gcwatch
import otlp
import receivers
import victims


class Tempo(unittest.TestCase):
    def check(self, protocol, name):
        recording = gcwatch.Recording(name)
        with receivers.tempo() as tempo:
            grpc, http, query, *_ = tempo.ports
            port = grpc if protocol == "grpc" else http
            gcwatch.replay(
                tempo.folder,
                recording,
                *("--now", "--endpoint", f"http://127.0.0.1:{port}", "--protocol", protocol, "--no-metrics", "--no-logs"),
            )

            def search():
                found = f"http://127.0.0.1:{query}/api/search?tags=service.name%3D{name}&limit=10000"
                status, body = receivers.get(found)
                traces = json.loads(body).get("traces") or [] if status == 200 else []
                return traces if len(traces) >= len(recording.gcs) else None

            traces = tempo.await_true("all traces were found", search)
            spans = []
            for trace in traces:
                # Tempo omits leading zeros.
                status, body = receivers.get(f"http://127.0.0.1:{query}/api/traces/{trace['traceID'].zfill(32)}")
                self.assertEqual(status, 200, body)
                spans += otlp.spans(json.loads(body)["batches"])
            agreement.check_spans(self, recording, spans)
            self.assertEqual({span["resource"]["service.name"] for span in spans}, {name})

    def test_grpc(self):
        """Scenario: a recording that is moved to end now is sent to Tempo over gRPC.
        Guarantee: Tempo returns every trace by its id, with the times (all moved by the same amount), names, attributes
        and links."""
        self.check("grpc", "net10-threads-server-datas")

    def test_http(self):
        """Scenario: another recording is sent over HTTP.
        Guarantee: Tempo returns every trace as over gRPC."""
        self.check("http/protobuf", "net10-steady")

    def test_pause_is_in_trace_of_victim(self):
        """Scenario: a web service with the OpenTelemetry SDK, whose requests collect, and gcwatch, which reads the
        service, export to Tempo.
        Guarantee: in the trace of a delayed request, the pause is a child of the request's own span, inside its time,
        and linked to the collection's trace, which Tempo has as well."""
        with receivers.tempo() as tempo:
            grpc, _, query, *_ = tempo.ports

            def trace(trace_id):
                status, body = receivers.get(f"http://127.0.0.1:{query}/api/traces/{trace_id.zfill(32)}")
                return list(otlp.spans(json.loads(body)["batches"])) if status == 200 else []

            def trace_ids():
                url = f"http://127.0.0.1:{query}/api/search?tags=service.name%3Dshop&limit=500"
                status, body = receivers.get(url)
                traces = json.loads(body).get("traces") or [] if status == 200 else []
                # The root span of a slow request belongs to the service.
                slow = [one for one in traces if one.get("durationMs", 0) >= 20 and not one.get("rootTraceName", "GC ").startswith("GC ")]
                return [one["traceID"] for one in slow[:50]]

            with victims.service(tempo.folder, f"http://127.0.0.1:{grpc}"):
                whole = tempo.await_true("a pause was in its victim's trace", lambda: victims.found(trace_ids(), trace))
            victims.check(self, *whole)


if __name__ == "__main__":
    unittest.main()
