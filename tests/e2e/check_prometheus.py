"""Prometheus 3: the histogram of pauses and the counters, pushed over OTLP and scraped, then queried with PromQL."""

import json
import pathlib
import time
import unittest
import urllib.parse

import gcwatch
import process
import receivers

PAUSES = "gcwatch_gc_pause_duration_seconds"
COLLECTIONS = "dotnet_gc_collections_total"


def query(port, expression, at=None):
    """Returns the values of an instant query with their labels."""
    parameters = {"query": expression, **({"time": at} if at else {})}
    status, body = receivers.get(f"http://127.0.0.1:{port}/api/v1/query?{urllib.parse.urlencode(parameters)}")
    answer = json.loads(body) if status == 200 else {}
    return [(series["metric"], float(series["value"][1])) for series in answer.get("data", {}).get("result", [])]


def number(port, expression):
    """Returns the value of a query with a single result; None if there is no result."""
    values = query(port, expression)
    return values[0][1] if values else None


class Prometheus(unittest.TestCase):
    def test_otlp(self):
        """Scenario: a recording that is moved to end now is pushed to Prometheus's OTLP receiver.
        Guarantee: PromQL returns the number, sum and quantile of its pauses, and its collections by generation."""
        recording = gcwatch.Recording("net10-threads-server-datas")
        with receivers.prometheus() as prometheus:
            (port,) = prometheus.ports
            gcwatch.replay(
                prometheus.folder,
                recording,
                *("--now", "--no-traces", "--no-logs", "--protocol", "http/protobuf"),
                OTEL_EXPORTER_OTLP_METRICS_ENDPOINT=f"http://127.0.0.1:{port}/api/v1/otlp/v1/metrics",
            )
            pauses = sorted(recording.pauses())
            # The last points are slightly in the past, and the process of the recording has exited, so look back 5
            # minutes.
            of = lambda expression: f"sum({expression.replace('X', f'last_over_time({PAUSES}[5m])')})"
            count = prometheus.await_true("pauses were there", lambda: number(port, of("histogram_count(X)")))
            self.assertEqual(count, len(pauses))
            self.assertAlmostEqual(number(port, of("histogram_sum(X)")), sum(pauses) / 1e9, places=6)
            median = number(port, f"histogram_quantile(0.5, sum(last_over_time({PAUSES}[5m])))")
            true = pauses[(len(pauses) - 1) // 2] / 1e9
            # The bound is one bucket of the coarsest scale that Prometheus keeps for 160 buckets.
            self.assertTrue(true / 1.1 <= median <= true * 1.1, (median, true))
            counts = query(port, f"last_over_time({COLLECTIONS}[5m])")
            by_generation = {labels["dotnet_gc_heap_generation"]: value for labels, value in counts if value}
            self.assertEqual(by_generation, recording.by_generation())

    def test_scrape(self):
        """Scenario: Prometheus scrapes gcwatch run, which is attached to a real process at work.
        Guarantee: PromQL returns the runtime's own counts, and the sum of the pauses is near the pause time that the
        runtime measured."""
        with receivers_folder() as folder, process.Workload(folder) as workload:
            (web,) = receivers.free_ports(1)
            with receivers.prometheus(scrape=f"127.0.0.1:{web}") as prometheus:
                (port,) = prometheus.ports
                daemon = process.daemon(folder, "--listen", f"127.0.0.1:{web}", "--no-traces", "--no-metrics", "--no-logs")
                try:
                    targets = f"http://127.0.0.1:{web}/api/v1/targets"
                    states = lambda: {each["pid"]: each["state"] for each in json.loads(receivers.get(targets)[1])["targets"]}
                    daemon.await_true("it was attached", lambda: receivers.get(targets)[0] == 200 and states().get(workload.pid) == "attached")
                    workload.work()
                    of = f'{{process_pid="{workload.pid}"}}'
                    total = sum(workload.counts.values())
                    prometheus.await_true("all collections were scraped", lambda: number(port, f"sum({COLLECTIONS}{of})") == total)
                    told = query(port, f"{COLLECTIONS}{of}")
                    told = {labels["dotnet_gc_heap_generation"]: value for labels, value in told}
                    self.assertEqual({name: told.get(name, 0) for name in workload.counts}, workload.counts)
                    pauses = number(port, f"sum({PAUSES}_sum{of})")
                    # The runtime's clock stops at the start of the restart.
                    self.assertTrue(0.9 * workload.pause <= pauses <= 1.6 * workload.pause, (pauses, workload.pause))
                    largest = number(port, f'sum({PAUSES}_bucket{{le="+Inf",process_pid="{workload.pid}"}})')
                    self.assertEqual(largest, number(port, f"sum({PAUSES}_count{of})"))
                    workload.end()
                    # The process has exited, so its series end as well.
                    gone = lambda: not query(port, f"{COLLECTIONS}{of}")
                    prometheus.await_true("its series ended", gone)
                finally:
                    self.assertEqual(daemon.stop(), 0, daemon.tail())


def receivers_folder():
    import tempfile

    return tempfile.TemporaryDirectory(prefix="gcw-run.")


if __name__ == "__main__":
    unittest.main()
