"""OpenTelemetry Collector: all three signals over each form of OTLP, as its file exporter writes them."""

import json
import unittest

import agreement
import gcwatch
import otlp
import receivers

RECORDINGS = ["net10-steady", "net10-threads-server-datas", "net8-lohcompact"]


def lines(path, key):
    """What a file of the file exporter holds; nothing where no data came."""
    if not path.exists():
        return []
    return [group for line in path.read_text().splitlines() for group in json.loads(line)[key]]


class Collector(unittest.TestCase):
    def replayed(self, protocol, recording, **variables):
        """Spans and metrics that came of a replay."""
        with receivers.collector() as collector:
            grpc, http = collector.ports
            port = grpc if protocol == "grpc" else http
            gcwatch.replay(
                collector.folder, recording, "--endpoint", f"http://127.0.0.1:{port}", "--protocol", protocol, **variables
            )
            # It writes what it holds when it ends.
            self.assertEqual(collector.stop(), 0, collector.tail())
            spans = list(otlp.spans(lines(collector.folder / "traces.json", "resourceSpans")))
            metrics = list(otlp.metrics(lines(collector.folder / "metrics.json", "resourceMetrics")))
            return spans, metrics

    def check(self, protocol, **variables):
        for name in RECORDINGS:
            with self.subTest(recording=name):
                recording = gcwatch.Recording(name)
                spans, metrics = self.replayed(protocol, recording, **variables)
                # Replayed with the times of the recording: every nanosecond is known beforehand.
                agreement.check_spans(self, recording, spans, moved=0)
                self.assertEqual({span["resource"]["service.name"] for span in spans}, {name})
                self.assertEqual({span["scope"] for span in spans}, {"gcwatch"})
                newest = {}
                for _, metric, _, kind, data in metrics:
                    newest[metric] = (kind, data["dataPoints"])
                kind, points = newest["dotnet.gc.collections"]
                counts = {
                    otlp.attributes(point["attributes"])["dotnet.gc.heap.generation"]: int(point["asInt"]) for point in points
                }
                self.assertEqual(kind, "sum")
                agreement.check_counts(self, recording, counts)
                kind, points = newest["dotnet.gc.pause.duration"]
                self.assertEqual(kind, "exponentialHistogram")
                agreement.check_histogram(self, recording, points)

    def test_grpc(self):
        """Scenario: recordings are replayed over gRPC. Guarantee: spans and metrics agree with the recording exactly."""
        self.check("grpc")

    def test_http_protobuf(self):
        """Scenario: the same over HTTP with protobuf, zstd. Guarantee: the same."""
        self.check("http/protobuf", OTEL_EXPORTER_OTLP_COMPRESSION="zstd")

    def test_http_json(self):
        """Scenario: the same over HTTP with JSON, gzip. Guarantee: the same."""
        self.check("http/json", OTEL_EXPORTER_OTLP_COMPRESSION="gzip")


if __name__ == "__main__":
    unittest.main()
