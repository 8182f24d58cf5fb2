"""Checks all three signals over each form of OTLP, in the files that the OpenTelemetry Collector writes."""

import json
import re
import unittest

import agreement
import gcwatch
import otlp
import receivers

RECORDINGS = ["net10-steady", "net10-threads-server-datas", "net8-lohcompact"]
# Recordings with alerts of each severity, with and without a group, and symptoms with causes and notes. The recordings
# start with a complete collection. An incomplete collection would make the results differ: rules that count would wait
# for more collections in the replay, but `analyze` knows from the start that the collection is incomplete.
SICK = ["net10b-pinlimit", "rules/net10-slowleak", "rules/net10-wedged", "rules/net8-lohoos", "rules/net8-many-threads"]
# https://opentelemetry.io/docs/specs/otel/logs/data-model/#field-severitynumber
SEVERITIES = {"info": (9, "INFO"), "warning": (13, "WARN"), "error": (17, "ERROR"), "critical": (20, "ERROR4")}


def lines(path, key):
    """Returns the records in a file of the Collector, or an empty list if the file does not exist."""
    if not path.exists():
        return []
    return [group for line in path.read_text().splitlines() for group in json.loads(line)[key]]


def without_figures(text):
    """Returns the first clause of a text without figures and parentheses. This part does not change while an alert
    fires."""
    first = re.sub(r" \([^)]*\)", "", text).split(";")[0]
    return re.sub(r"\d[\d.,]*( ?(B|KiB|MiB|GiB|s|min|h|ms|µs|ns)\b)?", "#", first)


class Collector(unittest.TestCase):
    def replayed(self, protocol, recording, **variables):
        """Returns the spans, metrics and log records of a replay."""
        with receivers.collector() as collector:
            grpc, http = collector.ports
            port = grpc if protocol == "grpc" else http
            gcwatch.replay(
                collector.folder, recording, "--endpoint", f"http://127.0.0.1:{port}", "--protocol", protocol, **variables
            )
            # The Collector flushes its files when it exits.
            self.assertEqual(collector.stop(), 0, collector.tail())
            spans = list(otlp.spans(lines(collector.folder / "traces.json", "resourceSpans")))
            metrics = list(otlp.metrics(lines(collector.folder / "metrics.json", "resourceMetrics")))
            records = list(otlp.logs(lines(collector.folder / "logs.json", "resourceLogs")))
            return spans, metrics, records

    def check(self, protocol, **variables):
        for name in RECORDINGS:
            with self.subTest(recording=name):
                recording = gcwatch.Recording(name)
                spans, metrics, _ = self.replayed(protocol, recording, **variables)
                # The replay uses the times of the recording, so every nanosecond is known in advance.
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
                kind, points = newest["gcwatch.gc.pause.duration"]
                self.assertEqual(kind, "exponentialHistogram")
                agreement.check_histogram(self, recording, points)

    def test_grpc(self):
        """Scenario: recordings are replayed over gRPC.
        Guarantee: spans and metrics match the recording exactly."""
        self.check("grpc")

    def test_http_protobuf(self):
        """Scenario: recordings are replayed over HTTP with protobuf and zstd.
        Guarantee: spans and metrics match the recording exactly."""
        self.check("http/protobuf", OTEL_EXPORTER_OTLP_COMPRESSION="zstd")

    def test_http_json(self):
        """Scenario: recordings are replayed over HTTP with JSON and gzip.
        Guarantee: spans and metrics match the recording exactly."""
        self.check("http/json", OTEL_EXPORTER_OTLP_COMPRESSION="gzip")

    def test_alerts(self):
        """Scenario: recordings of faulty processes are replayed.
        Guarantee: each alert that `analyze` reports arrives as a log record with its times, texts and severity, on the
        span of the collection that started the alert. All other records are incidents, and an incident starts."""
        for name in SICK:
            with self.subTest(recording=name):
                recording = gcwatch.Recording(name)
                spans, _, records = self.replayed("grpc", recording)
                roots = {(span["trace"], span["id"]): span["attributes"].get("gcwatch.gc.number") for span in spans if not span["parent"]}
                told = {}
                incidents = [record for record in records if record["event"] == "gcwatch.incident"]
                self.assertIn("began", {record["attributes"]["gcwatch.incident.state"] for record in incidents})
                for record in records:
                    if record in incidents:
                        continue
                    said = record["attributes"]
                    self.assertEqual(record["event"], "gcwatch.anomaly")
                    self.assertEqual(record["resource"]["service.name"], recording.name)
                    self.assertGreaterEqual(record["observed"], record["time"])
                    key = said["gcwatch.rule.id"], said["gcwatch.anomaly.started"], said["gcwatch.anomaly.state"]
                    self.assertNotIn(key, told)
                    told[key] = record
                anomalies = recording.anomalies()
                self.assertGreater(len(anomalies), 0)
                began = {(anomaly["rule"], anomaly["started"]): anomaly for anomaly in anomalies}
                self.assertEqual({key[:2] for key in told if key[2] == "firing"}, set(began))
                self.assertLessEqual({key[:2] for key in told if key[2] == "ended"}, set(began))
                for (rule, started), anomaly in began.items():
                    record = told[rule, started, "firing"]
                    said = record["attributes"]
                    self.assertEqual(record["time"], gcwatch.unix_ns(started))
                    # The record describes the alert at its start, and `analyze` describes its last state, so the
                    # figures differ.
                    self.assertEqual(without_figures(record["body"]), without_figures(anomaly["summary"]))
                    self.assertEqual(record["severity"], SEVERITIES[anomaly["severity"]])
                    self.assertEqual(said["gcwatch.rule.title"], anomaly["title"])
                    self.assertEqual(said.get("gcwatch.rule.group"), anomaly["group"])
                    if record["span"]:
                        self.assertEqual(roots[record["trace"], record["span"]], anomaly["gc_number"])


if __name__ == "__main__":
    unittest.main()
