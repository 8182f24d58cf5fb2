"""The dashboards and alert rules against the real thing: a Prometheus that scrapes gcwatch while it watches real .NET processes."""

import contextlib
import json
import os
import pathlib
import re
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.parse
import urllib.request

import tools

DASHBOARDS = sorted((tools.DEPLOY / "grafana" / "dashboards").glob("*.json"))
RULES = [tools.DEPLOY / "prometheus" / f"gcwatch.{name}" for name in ("rules.yaml", "fleet.rules.yaml")]
PATIENCE = 120

# What happens to no healthy gcwatch: the metric, and why it has no data here. Each is a metric of docs/telemetry.md all the same.
WITHOUT_DATA = {
    "gcwatch_export_dropped_total": "nothing is dropped: begins with the first item that no receiver had",
    "gcwatch_collections_untold_total": "begins with the first collection that does not become a span",
    "gcwatch_export_unsupported_ratio": "the receiver takes all signals",
    "gcwatch_rules_failures_total": "no rule fails: the panel shows only what is above 0",
}
# Depends on the control groups of the machine that runs the test.
WITHOUT_DATA |= {
    name: "no container, no limit or no quota here"
    for name in (
        "gcwatch_container_memory_usage_bytes",
        "gcwatch_container_memory_working_set_bytes",
        "gcwatch_container_memory_limit_bytes",
        "gcwatch_container_memory_oom_kills_total",
        "gcwatch_container_memory_limit_hits_total",
        "gcwatch_container_cpu_periods_total",
        "gcwatch_container_cpu_throttled_periods_total",
    )
} | {"gcwatch_targets_not_attached": "every process is attached to"}
# Depends on web services, whose requests sent no spans here.
WITHOUT_DATA |= {
    name: "nobody sends spans of requests"
    for name in (
        "gcwatch_request_gc_pause_duration_seconds_bucket",
        "gcwatch_request_gc_pause_duration_seconds_count",
        "gcwatch_requests_total",
        "gcwatch_requests_unjudged_total",
        "gcwatch_requests_unexported_total",
    )
}
# Recorded series that nothing here has: they take minutes to hours, or a gcwatch that is away.
RECORDED_LATER = {f"gcwatch:{name}" for name in ("process:gc_heap_live_bytes:min2h", "service:gc_heap_live_bytes:min2h")} | {
    "gcwatch:service:gc_heap_live_bytes:delta2h",
    "gcwatch:service:gc_heap_live_bytes:growth1d",
    "gcwatch:service:gc_heap_live_bytes:leak1d",
    "gcwatch:node:absent",
    "gcwatch:node:unwatched",
}
# What a variable stands for here. Grafana itself makes the regular expressions and the intervals.
VARIABLES = {
    "$__rate_interval": "20s",
    "$__range": "1m",
    "$cluster": "blue",
    "$node": "node-1",
    "$namespace": "shop-namespace",
    "$service": "shop-.*",
    "$pod": ".*",
    "$generation": ".*",
    "$type": ".*",
    "$reason": ".*",
}


def queries():
    """Every query of Prometheus, by dashboard and panel."""
    for path in DASHBOARDS:
        for panel in json.loads(path.read_text())["panels"]:
            for target in panel.get("targets", []):
                if target["datasource"]["type"] == "prometheus":
                    yield f"{path.stem}: {panel['title']}: {target['refId']}", target["expr"]


def filled(query):
    for name, value in sorted(VARIABLES.items(), key=lambda pair: -len(pair[0])):
        query = query.replace(name, value)
    assert "$" not in query, query
    return query


def exported():
    """Every name that docs/telemetry.md says, in Prometheus's form."""
    names = {"up", "target_info"}
    units = {"s": "_seconds", "By": "_bytes"}
    for line in (tools.PROJECT / "docs" / "telemetry.md").read_text().splitlines():
        found = re.match(r"\| `([a-z0-9_.]+)` \| (Counter|UpDownCounter|Gauge|Histogram) \| `([^`]*)` \|", line)
        if found:
            name, kind, unit = found.groups()
            # Names that others own in Prometheus.
            if name.startswith("container."):
                name = "gcwatch." + name
            name = {"process.thread.count": "process.threads", "process.unix.file_descriptor.count": "process.open_fds"}.get(name, name)
            name = name.replace(".", "_") + units.get(unit, "_ratio" if unit == "1" and kind != "Counter" else "")
            if kind == "Histogram":
                names |= {name + end for end in ("_bucket", "_count", "_sum")}
            else:
                names.add(name + ("_total" if kind == "Counter" else ""))
    return names


def metrics(expression):
    """The metrics in an expression of PromQL."""
    bare = re.sub(r'"(\\.|[^"\\])*"', '""', expression)
    bare = re.sub(r"\{[^}]*\}|\[[^\]]*\]", "", bare)
    bare = re.sub(r"\b(by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)", " ", bare)
    words = set(re.findall(r"[a-z][a-z0-9_:]*(?![\w:]|\s*\()", bare))
    return {word for word in words if "_" in word or ":" in word or word == "up"} - {"group_left"}


class Written(unittest.TestCase):
    def test_as_made(self):
        """Scenario: the dashboards beside the script that writes them. Guarantee: they are the same."""
        tools.run(tools.DEPLOY / "grafana" / "build", "--check")

    def test_names(self):
        """Scenario: every metric in dashboards and alert rules. Guarantee: docs/telemetry.md has it."""
        known = exported()
        self.assertGreater(len(known), 60)
        rules = [rule for path in RULES for group in tools.documents(path.read_text())[0]["groups"] for rule in group["rules"]]
        found = dict(queries()) | {rule.get("alert") or rule["record"]: rule["expr"] for rule in rules}
        recorded = {rule["record"] for rule in rules if "record" in rule}
        for place, expression in found.items():
            with self.subTest(place=place):
                self.assertTrue(metrics(expression))
                self.assertEqual(metrics(expression) - known - recorded, set())
        # The other way round: what is shown nowhere is named.
        shown = set().union(*(metrics(expression) for expression in found.values()))
        families = lambda names: {re.sub("_(bucket|count|sum)$", "", name) for name in names}
        # The allocated bytes of the conventions are those of gcwatch.gc.allocated, which the dashboards show.
        hidden = {
            "target_info",
            "dotnet_gc_heap_total_allocated_bytes_total",
            "gcwatch_rules_loaded_seconds",
        } & (families(known) - families(shown))
        # Details of control groups, of what the API server is asked, and of the guard.
        detail = ("gcwatch_container_", "gcwatch_kubernetes_", "gcwatch_guard_")
        self.assertEqual({name for name in families(known) - families(shown) if not name.startswith(detail)}, hidden)

    def test_form(self):
        """Scenario: each dashboard. Guarantee: ids and places are unique, each panel says what it shows, nothing overlaps."""
        uids = set()
        for path in DASHBOARDS:
            dashboard = json.loads(path.read_text())
            uids.add(dashboard["uid"])
            cells = set()
            for panel in dashboard["panels"]:
                place = panel["gridPos"]
                self.assertTrue(panel["title"])
                self.assertLessEqual(place["x"] + place["w"], 24)
                own = {(x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])}
                self.assertFalse(own & cells, (path.name, panel["title"]))
                cells |= own
            ids = [panel["id"] for panel in dashboard["panels"]]
            self.assertEqual(len(ids), len(set(ids)))
            used = set(re.findall(r"\$\{?([a-z]+)\}?", json.dumps([panel.get("targets") for panel in dashboard["panels"]])))
            self.assertEqual(used - {variable["name"] for variable in dashboard["templating"]["list"]}, set(), path.name)
        self.assertEqual(len(uids), len(DASHBOARDS))


class Shown(unittest.TestCase):
    maxDiff = None

    def test_data(self):
        """Scenario: real processes (background collections, no-GC regions, pinning, a heap at its limit) are watched; Prometheus scrapes.
        Guarantee: every query of every dashboard is answered with a number, but for those named above; every alert rule can be evaluated;
        every variable has values."""
        import receivers

        program = receivers.binary("prometheus", "prometheus")
        if program is None or receivers.binary("collector", "otelcol") is None:
            tools.left_out("Prometheus and the Collector are not built: tests/e2e/build prometheus collector")
        fetched = subprocess.run([tools.PROJECT / "tests/runtimes/fetch"], capture_output=True, text=True, timeout=900)
        host = pathlib.Path(fetched.stdout.strip()) / "net10.0.0" / "dosai"
        if not host.exists():
            tools.left_out("there is no .NET runtime: tests/runtimes/fetch")
        with contextlib.ExitStack() as stack:
            folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gcw-shown.")))
            collector = stack.enter_context(receivers.collector())
            web, port = receivers.free_ports(2)
            for mode in ("bgcstorm", "nogc", "pinned", "lohoos"):
                self.process(stack, folder, host, mode)
            daemon = self.daemon(folder, web, collector.ports[0])
            stack.callback(daemon.stop)
            prometheus = self.prometheus(folder, program, web, port)
            stack.callback(prometheus.stop)
            ask = lambda path, **parameters: self.ask(port, path, **parameters)
            prometheus.await_true("it is ready", lambda: receivers.get(f"http://127.0.0.1:{port}/-/ready")[0] == 200)
            all_there = lambda: len(ask("query", query='group by (service_name) (dotnet_gc_pause_time_seconds_total)')["result"]) == 4
            prometheus.await_true("all four processes were scraped", all_there, PATIENCE)

            waiting = {place: filled(expression) for place, expression in queries()}
            self.assertGreater(len(waiting), 100)
            until = time.monotonic() + PATIENCE
            expected = set()
            for place, expression in waiting.items():
                # One of them is enough: an expression with one metric that has no data has none.
                if metrics(expression) & WITHOUT_DATA.keys():
                    expected.add(place)
            while set(waiting) - expected and time.monotonic() < until:
                for place, expression in list(waiting.items()):
                    answer = ask("query", query=expression)
                    if any(series["value"][1] != "NaN" for series in answer["result"]):
                        del waiting[place]
                time.sleep(1)
            self.assertEqual({place: waiting[place] for place in set(waiting) - expected}, {}, daemon.tail())
            self.assertLessEqual(set(waiting), expected)
            for name in sorted({name for place in waiting for name in metrics(waiting[place]) & WITHOUT_DATA.keys()}):
                print(f"tests/deploy: no data, as expected: {name}: {WITHOUT_DATA[name]}")

            self.variables(ask)
            rules = lambda: [rule for group in ask("rules")["groups"] for rule in group["rules"]]
            recorded = {rule["name"] for rule in rules() if rule["type"] == "recording"} - RECORDED_LATER
            has_value = lambda name: any(series["value"][1] != "NaN" for series in ask("query", query=name)["result"])
            until = time.monotonic() + PATIENCE
            while recorded and time.monotonic() < until:
                recorded = {name for name in recorded if not has_value(name)}
                time.sleep(1)
            self.assertEqual(recorded, set(), "recorded series without a value")
            firing = lambda: {rule["name"] for rule in rules() if rule.get("state") == "firing"}
            # The heap at its limit is what these two are for; of gcwatch itself nothing may be said.
            wanted = {"DotnetGcAnomaly", "DotnetGcMemoryShort"}
            prometheus.await_true(f"{wanted} fire", lambda: wanted <= firing(), PATIENCE)
            firing = firing()
            self.assertEqual([rule["name"] for rule in rules() if rule["health"] != "ok"], [])
            self.assertEqual({name for name in firing if name.startswith("Gcwatch")} - {"GcwatchNotificationsDropped"}, set())

    def variables(self, ask):
        for path in DASHBOARDS:
            for variable in json.loads(path.read_text())["templating"]["list"]:
                if variable["type"] == "query":
                    metric, label = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["definition"]).groups()
                    values = ask("query", query=f"group by ({label}) ({filled(metric)})")["result"]
                    self.assertTrue([each for each in values if each["metric"].get(label)], (path.name, variable["name"]))

    def ask(self, port, path, **parameters):
        address = f"http://127.0.0.1:{port}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        import receivers

        status, body = receivers.get(address)
        self.assertEqual(status, 200, f"{parameters}: {body[:1000]!r}")
        return json.loads(body)["data"]

    def process(self, stack, folder, host, mode):
        environment = {
            **os.environ,
            "TMPDIR": str(folder),
            "DOTNET_STARTUP_HOOKS": str(tools.PROJECT / "tests/workload/workload.dll"),
            "DOTNET_SYSTEM_GLOBALIZATION_INVARIANT": "1",
            "WMODE": mode,
            "WSECS": "300",
            "GCWATCH_E2E": str(folder),
            "OTEL_SERVICE_NAME": f"shop-{mode}",
            "OTEL_RESOURCE_ATTRIBUTES": f"k8s.namespace.name=shop-namespace,k8s.pod.name={mode}-0,k8s.container.name=shop",
        }
        if mode == "lohoos":
            environment["DOTNET_GCHeapHardLimit"] = "0x6000000"
        child = subprocess.Popen([host, "--help"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment)

        def end():
            child.kill()
            child.wait()
            child.stdin.close()
            child.stdout.close()

        stack.callback(end)
        self.assertTrue(child.stdout.readline().startswith(b"ready"), mode)
        # It ticks four times a second: nobody else reads.
        threading.Thread(target=lambda: [None for _ in iter(lambda: os.read(child.stdout.fileno(), 4096), b"")], daemon=True).start()

    def daemon(self, folder, web, otlp):
        import receivers

        config = folder / "gcwatch.yaml"
        config.write_text(f"""
otlp: {{endpoint: "http://127.0.0.1:{otlp}"}}
metrics: {{interval: 1s}}
# All parts that have metrics of their own.
state: {{directory: {folder}/state}}
evidence: {{bursts: on}}
requests: {{mode: diagnosticsource}}
targets:
  include: [{{environment: {{GCWATCH_E2E: '{folder}'}}}}]
  lease_folder: {folder}/leases
alerts:
  stdout: true
  # Nobody listens there: what fails and waits is seen, too.
  webhooks: [{{url: "http://127.0.0.1:1/"}}]
""")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "GCWATCH_CONFIG"))}
        return receivers.Process("gcwatch", [tools.gcwatch(), "run", "--config", config, "--listen", f"127.0.0.1:{web}"], folder, kept)

    def prometheus(self, folder, program, web, port):
        import receivers

        for path in RULES:
            # Groups have intervals of minutes.
            (folder / path.name).write_text(re.sub(r"\binterval: \w+", "interval: 2s", path.read_text()))
        (folder / "prometheus.yml").write_text(f"""
global: {{scrape_interval: 1s, evaluation_interval: 2s}}
rule_files: [{", ".join(path.name for path in RULES)}]
scrape_configs:
  - job_name: gcwatch
    honor_labels: true
    static_configs: [{{targets: ['127.0.0.1:{web}'], labels: {{node: node-1, cluster: blue}}}}]
""")
        words = [f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data", f"--web.listen-address=127.0.0.1:{port}"]
        return receivers.Process("prometheus", [program, *words], folder)


if __name__ == "__main__":
    unittest.main()
