"""Tempo: traces by their ids, as its own API gives them back."""

import json
import unittest

import agreement
import gcwatch
import otlp
import receivers


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
                # It leaves zeros out in front.
                status, body = receivers.get(f"http://127.0.0.1:{query}/api/traces/{trace['traceID'].zfill(32)}")
                self.assertEqual(status, 200, body)
                spans += otlp.spans(json.loads(body)["batches"])
            agreement.check_spans(self, recording, spans)
            self.assertEqual({span["resource"]["service.name"] for span in spans}, {name})

    def test_grpc(self):
        """Scenario: a recording as if it ended now goes to Tempo over gRPC.
        Guarantee: every trace comes back by its id with the times (all moved alike), names, attributes and links."""
        self.check("grpc", "net10-threads-server-datas")

    def test_http(self):
        """Scenario: another over HTTP. Guarantee: the same."""
        self.check("http/protobuf", "net10-steady")


if __name__ == "__main__":
    unittest.main()
