"""Checks dashboards and alert rules: their form and names, and their results in a real Prometheus, which scrapes two
gcwatch instances that watch real .NET processes."""

import contextlib
import json
import os
import pathlib
import re
import shutil
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
PATIENCE = 300

# Metrics without data in this test, with the reason. docs/telemetry.md documents each of these metrics.
WITHOUT_DATA = {
    "gcwatch_export_dropped_total": "nothing is dropped: the metric starts with the first lost item",
    "gcwatch_collections_unexported_total": "the metric starts with the first collection that does not become a span",
    "gcwatch_export_unsupported": "the receiver accepts all signals",
    "gcwatch_collections_implausible_total": "the metric starts with the first implausible figure of a runtime",
    "gcwatch_rules_failures_total": "no rule fails: the panel shows only what is above 0",
}
# These metrics depend on the control groups of the machine that runs the test.
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
} | {
    "gcwatch_targets_not_attached": "every process is attached to",
    "gcwatch_memory_limit_bytes": "no process here has a memory limit",
} | {
    f"gcwatch:{level}:memory_limit_never_reached_bytes:sum": "no process here has a memory limit"
    for level in ("process", "service_version", "service", "namespace", "cluster")
}
# These metrics need spans of requests, which the services in this test do not send.
WITHOUT_DATA |= {
    name: "no service sends spans of requests"
    for name in (
        "gcwatch_request_gc_pause_duration_seconds_bucket",
        "gcwatch_request_gc_pause_duration_seconds_count",
        "gcwatch_requests_total",
        "gcwatch_requests_unknown_total",
        "gcwatch_requests_unexported_total",
        "gcwatch_request_gc_pause_duration_seconds_sum",
        *(f"gcwatch:{level}:requests_lost_seconds:rate5m" for level in ("service_version", "service", "namespace", "cluster")),
    )
}
# Recorded series without data in this test, because they need minutes to hours, or an unavailable gcwatch instance.
RECORDED_LATER = {f"gcwatch:{name}" for name in ("process:gc_heap_live_bytes:min2h", "service:gc_heap_live_bytes:min2h")} | {
    "gcwatch:service:gc_heap_live_bytes:delta2h",
    "gcwatch:service:gc_heap_live_bytes:growth1d",
    "gcwatch:service:gc_heap_live_bytes:leak1d",
    "gcwatch:node:absent",
    "gcwatch:node:unwatched",
} | {name for name in WITHOUT_DATA if ":" in name}
# The processes of each node: background collections, no-GC regions, pinning, a heap at its limit.
NODES = {"node-1": ["bgcstorm", "nogc", "lohoos"], "node-2": ["pinned", "lohoos"]}
# Values of the dashboards' variables. In production, Grafana generates the regular expressions and the intervals.
VARIABLES = {
    "$__rate_interval": "20s",
    "$__range": "1m",
    "$cluster": "blue",
    "$node": "node-.*",
    "$namespace": "shop-namespace",
    "$service": "shop-.*",
    "$pod": ".*",
    "$pid": ".*",
    "$generation": ".*",
    "$type": ".*",
    "$reason": ".*",
}


def queries():
    """Returns every Prometheus query, by dashboard and panel or annotation."""
    for path in DASHBOARDS:
        dashboard = json.loads(path.read_text())
        for each in dashboard["annotations"]["list"]:
            yield f"{path.stem}: annotation {each['name']}", each["expr"]
        for panel in dashboard["panels"]:
            for target in panel.get("targets", []):
                if target["datasource"]["type"] == "prometheus":
                    yield f"{path.stem}: {panel['title']}: {target['refId']}", target["expr"]


def filled(query):
    for name, value in sorted(VARIABLES.items(), key=lambda pair: -len(pair[0])):
        query = query.replace(name, value)
    assert "$" not in query, query
    return query


def exported():
    """Returns every metric name in docs/telemetry.md, in the notation of Prometheus."""
    names = {"up", "target_info"}
    units = {"s": "_seconds", "By": "_bytes"}
    for line in (tools.PROJECT / "docs" / "telemetry.md").read_text().splitlines():
        found = re.match(r"\| `([a-z0-9_.]+)` \| (Counter|UpDownCounter|Gauge|Histogram) \| `([^`]*)` \|", line)
        if found:
            name, kind, unit = found.groups()
            # gcwatch renames these metrics, because other exporters of Prometheus use the names.
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
    """Returns the metrics in a PromQL expression."""
    bare = re.sub(r'"(\\.|[^"\\])*"', '""', expression)
    bare = re.sub(r"\{[^}]*\}|\[[^\]]*\]", "", bare)
    bare = re.sub(r"\b(by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)", " ", bare)
    words = set(re.findall(r"[a-z][a-z0-9_:]*(?![\w:]|\s*\()", bare))
    return {word for word in words if "_" in word or ":" in word or word == "up"} - {"group_left"}


class Written(unittest.TestCase):
    def test_generated(self):
        """Scenario: the dashboards are generated again.
        Guarantee: the committed files match."""
        tools.run(tools.DEPLOY / "grafana" / "build", "--check")

    def test_names(self):
        """Scenario: the metrics in dashboards and alert rules are compared with docs/telemetry.md.
        Guarantee: each metric is documented, and each documented metric is used, except for the metrics that the test
        names."""
        known = exported()
        self.assertGreater(len(known), 60)
        rules = [rule for path in RULES for group in tools.documents(path.read_text())[0]["groups"] for rule in group["rules"]]
        found = dict(queries()) | {rule.get("alert") or rule["record"]: rule["expr"] for rule in rules}
        recorded = {rule["record"] for rule in rules if "record" in rule}
        for place, expression in found.items():
            with self.subTest(place=place):
                self.assertTrue(metrics(expression))
                self.assertEqual(metrics(expression) - known - recorded, set())
        # Conversely, the test names the documented metrics that neither dashboards nor rules use.
        shown = set().union(*(metrics(expression) for expression in found.values()))
        families = lambda names: {re.sub("_(bucket|count|sum)$", "", name) for name in names}
        # A process can export the metrics of the conventions itself, so dashboards show gcwatch's own metrics.
        self.assertEqual({name for name in shown if name.startswith("dotnet_gc_")}, set())
        conventions = {name for name in families(known) if name.startswith("dotnet_gc_")}
        self.assertEqual(len(conventions), 6)
        hidden = ({"target_info", "gcwatch_rules_loaded_seconds"} | conventions) & (families(known) - families(shown))
        # Dashboards and rules need not use each detail of control groups, of requests to the API server, and of the
        # guard.
        detail = ("gcwatch_container_", "gcwatch_kubernetes_", "gcwatch_guard_")
        self.assertEqual({name for name in families(known) - families(shown) if not name.startswith(detail)}, hidden)

    def test_form(self):
        """Scenario: each dashboard is read.
        Guarantee: ids are unique, each panel has a title, panels do not overlap, every used variable is defined, and
        links lead to existing dashboards."""
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
            asked = [dashboard["annotations"], *(panel.get("targets") for panel in dashboard["panels"])]
            used = set(re.findall(r"\$\{?([a-z]+)\}?", json.dumps(asked)))
            self.assertEqual(used - {variable["name"] for variable in dashboard["templating"]["list"]}, set(), path.name)
        self.assertEqual(len(uids), len(DASHBOARDS))
        # Links lead to existing dashboards, also in alerts.
        texts = [path.read_text() for path in [*DASHBOARDS, *RULES]]
        linked = {uid for text in texts for uid in re.findall(r"/d/([a-z-]+)", text)}
        self.assertLessEqual({"gcwatch-service", "gcwatch-process"}, linked)
        self.assertLessEqual(linked, uids)


class Shown(unittest.TestCase):
    maxDiff = None

    def test_data(self):
        """Scenario: real processes (background collections, no-GC regions, pinning, a heap at its limit) run on two nodes, each with its own
        gcwatch instance; Prometheus scrapes both.
        Guarantee: every query of every dashboard returns a number, except for queries of metrics in WITHOUT_DATA. The
        sums match the daemons' own API. Every alert rule can be evaluated, one rule pages for the incident on the node
        whose gcwatch has no receiver of alerts, and every variable has values."""
        import receivers

        # Use the Prometheus of tests/e2e, or the Prometheus of the machine: both have the API that the test uses.
        program = receivers.binary("prometheus", "prometheus") or shutil.which("prometheus")
        if program is None:
            tools.left_out("there is no Prometheus: tests/e2e/build prometheus, or Debian's")
        fetched = subprocess.run([tools.PROJECT / "tests/runtimes/fetch"], capture_output=True, text=True, timeout=900)
        host = pathlib.Path(fetched.stdout.strip()) / "net10.0.0" / "dosai"
        if not host.exists():
            tools.left_out("there is no .NET runtime: tests/runtimes/fetch")
        with contextlib.ExitStack() as stack:
            folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gcw-shown.")))
            otlp = self.receiver(stack)
            *webs, port = receivers.free_ports(3)
            for node, modes in NODES.items():
                for mode in modes:
                    self.process(stack, folder, host, mode, node)
            daemons = [self.daemon(folder, web, otlp, node) for node, web in zip(NODES, webs)]
            for daemon in daemons:
                stack.callback(daemon.stop)
            prometheus = self.prometheus(folder, program, webs, port)
            stack.callback(prometheus.stop)
            ask = lambda path, **parameters: self.ask(port, path, **parameters)
            prometheus.await_true("Prometheus is ready", lambda: receivers.get(f"http://127.0.0.1:{port}/-/ready")[0] == 200)
            count = sum(len(modes) for modes in NODES.values())
            all_there = lambda: len(ask("query", query="group by (service_name) (gcwatch_gc_pause_time_seconds_total)")["result"]) == count
            prometheus.await_true("all processes are scraped", all_there, PATIENCE)

            waiting = {place: filled(expression) for place, expression in queries()}
            self.assertGreater(len(waiting), 150)
            until = time.monotonic() + PATIENCE
            expected = set()
            for place, expression in waiting.items():
                # An expression has no data if one of its metrics has no data.
                if metrics(expression) & WITHOUT_DATA.keys():
                    expected.add(place)
            while set(waiting) - expected and time.monotonic() < until:
                for place, expression in list(waiting.items()):
                    answer = ask("query", query=expression)
                    if any(series["value"][1] != "NaN" for series in answer["result"]):
                        del waiting[place]
                time.sleep(1)
            self.assertEqual({place: waiting[place] for place in set(waiting) - expected}, {}, daemons[0].tail())
            self.assertLessEqual(set(waiting), expected)
            for name in sorted({name for place in waiting for name in metrics(waiting[place]) & WITHOUT_DATA.keys()}):
                print(f"tests/deploy: no data, as expected: {name}: {WITHOUT_DATA[name]}")

            self.variables(ask)
            self.agrees(ask, webs, prometheus)
            rules = lambda: [rule for group in ask("rules")["groups"] for rule in group["rules"]]
            recorded = {rule["name"] for rule in rules() if rule["type"] == "recording"} - RECORDED_LATER
            has_value = lambda name: any(series["value"][1] != "NaN" for series in ask("query", query=name)["result"])
            until = time.monotonic() + PATIENCE
            while recorded and time.monotonic() < until:
                recorded = {name for name in recorded if not has_value(name)}
                time.sleep(1)
            self.assertEqual(recorded, set(), "recorded series without a value")
            # Both nodes have an incident of the heap at its limit, but the gcwatch instance of node-1 has its own
            # receiver of alerts, so Prometheus pages only for node-2.
            firing = lambda: [alert for rule in rules() for alert in rule.get("alerts", []) if alert["state"] == "firing"]
            paged = lambda: {alert["labels"]["node"] for alert in firing() if alert["labels"]["alertname"] == "DotnetGcIncident"}
            prometheus.await_true("the incident pages", lambda: paged() == {"node-2"}, PATIENCE)
            self.assertTrue(ask("query", query='sum(gcwatch_incidents_open{node="node-1",gcwatch_incident_severity=~"error|critical"}) > 0')["result"])
            self.assertEqual([rule["name"] for rule in rules() if rule["health"] != "ok"], [])
            # No alert about gcwatch itself may fire, except the alert about dropped notifications, which have no
            # receiver.
            own = {alert["labels"]["alertname"] for alert in firing() if alert["labels"]["alertname"].startswith("Gcwatch")}
            self.assertEqual(own - {"GcwatchNotificationsDropped"}, set())

    def agrees(self, ask, webs, prometheus):
        """Checks that the scraped counts of collections are between the totals of the daemons' API before and after the
        query, because totals only increase. Checks that recorded incidents and processes with native memory match the
        API, too."""
        import receivers

        def api(path):
            return [json.loads(receivers.get(f"http://127.0.0.1:{web}/api/v1/{path}")[1]) for web in webs]

        def collections():
            targets = [target for answer in api("targets") for target in answer["targets"]]
            return {target["service_name"]: target["collections"] for target in targets if target["state"] == "attached"}

        def scraped():
            answer = ask("query", query="sum by (service_name) (gcwatch_gc_collections_total) - sum by (service_name) (gcwatch_collections_missed_total)")
            return {series["metric"]["service_name"]: float(series["value"][1]) for series in answer["result"]}

        before = collections()
        self.assertEqual(len(before), sum(len(modes) for modes in NODES.values()))
        reached = lambda: all(scraped().get(service, 0) >= count for service, count in before.items())
        prometheus.await_true("the counts are scraped", reached, PATIENCE)
        now, after = scraped(), collections()
        for service in before:
            self.assertLessEqual(now[service], after[service], service)

        def severe():
            incidents = [incident for answer in api("incidents") for incident in answer["incidents"]]
            return sorted((incident["service"], incident["symptom"]) for incident in incidents if incident["state"] == "firing" and incident["pid"])

        def recorded():
            answer = ask("query", query="gcwatch:service:incidents_open:count > 0")
            rows = [(series["metric"]["service_name"], series["metric"]["gcwatch_incident_symptom"]) for series in answer["result"] for _ in range(int(float(series["value"][1])))]
            return sorted(rows)

        prometheus.await_true("the fleet's incidents are those of the daemons", lambda: severe() == recorded() != [], PATIENCE)

        # Memory changes over time, so compare only the processes whose native memory is known.
        answer = ask("query", query='sum by (process_pid) (gcwatch_memory_usage_bytes{gcwatch_memory_line="native"})')
        pids = {series["metric"]["process_pid"] for series in answer["result"]}
        rows = [row for answer in api("processes") for row in answer["processes"] if row["memory"]]
        self.assertTrue(rows)
        self.assertLessEqual({str(row["pid"]) for row in rows if row["memory"]["native"] is not None}, pids)

    def receiver(self, stack):
        """Starts a third-party OTLP receiver and returns its address."""
        fetched = subprocess.run([tools.PROJECT / "tests/receivers/fetch"], capture_output=True, text=True, timeout=600)
        if fetched.returncode or not shutil.which("node"):
            tools.left_out("there is no OTLP receiver: tests/receivers/fetch, and node")
        words = ["node", tools.PROJECT / "tests/receivers/mock.js", fetched.stdout.strip()]
        child = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

        def end():
            child.stdin.close()
            child.wait(20)
            child.stdout.close()

        address = json.loads(child.stdout.readline())["grpc"].replace("localhost", "127.0.0.1")
        threading.Thread(target=lambda: [None for _ in iter(lambda: os.read(child.stdout.fileno(), 1 << 16), b"")], daemon=True).start()
        stack.callback(end)
        return address

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

    def process(self, stack, folder, host, mode, node):
        environment = {
            **os.environ,
            "TMPDIR": str(folder),
            "DOTNET_STARTUP_HOOKS": str(tools.PROJECT / "tests/workload/workload.dll"),
            "DOTNET_SYSTEM_GLOBALIZATION_INVARIANT": "1",
            "WMODE": mode,
            "WSECS": "1500",
            "GCWATCH_E2E": f"{folder} {node}",
            "OTEL_SERVICE_NAME": f"shop-{mode}-{node}",
            "OTEL_RESOURCE_ATTRIBUTES": f"k8s.namespace.name=shop-namespace,k8s.pod.name={mode}-0,k8s.container.name=shop,service.version=1",
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
        # Drain the output, because the process prints four lines per second.
        threading.Thread(target=lambda: [None for _ in iter(lambda: os.read(child.stdout.fileno(), 4096), b"")], daemon=True).start()

    def daemon(self, folder, web, otlp, node):
        import receivers

        config = folder / f"{node}.yaml"
        # No receiver listens at this address, so the metrics of failed and waiting notifications have data, too.
        webhooks = '  webhooks: [{url: "http://127.0.0.1:1/"}]' if node == "node-1" else ""
        config.write_text(f"""
otlp: {{endpoint: "{otlp}"}}
metrics: {{interval: 1s}}
# All parts with separate metrics.
state: {{directory: {folder}/{node}-state}}
evidence: {{bursts: on, store: {{url: 'file://{folder}/{node}-store'}}}}
requests: {{mode: diagnosticsource}}
targets:
  include: [{{environment: {{GCWATCH_E2E: '{folder} {node}'}}}}]
  lease_folder: {folder}/leases
  # On a busy machine, a heap can reach its limit before gcwatch reads the process.
  attach_at_heap_limit: true
alerts:
  stdout: true
{webhooks}
""")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "GCWATCH_CONFIG"))}
        return receivers.Process(f"gcwatch-{node}", [tools.gcwatch(), "run", "--config", config, "--listen", f"127.0.0.1:{web}"], folder, kept)

    def prometheus(self, folder, program, webs, port):
        import receivers

        for path in RULES:
            # Shorten the intervals of the groups, which are minutes in the committed files.
            (folder / path.name).write_text(re.sub(r"\binterval: \w+", "interval: 2s", path.read_text()))
        targets = [f"{{targets: ['127.0.0.1:{web}'], labels: {{node: {node}, cluster: blue}}}}" for node, web in zip(NODES, webs)]
        (folder / "prometheus.yml").write_text(f"""
global: {{scrape_interval: 1s, evaluation_interval: 2s}}
rule_files: [{", ".join(path.name for path in RULES)}]
scrape_configs:
  - job_name: gcwatch
    honor_labels: true
    static_configs: [{", ".join(targets)}]
""")
        words = [f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data", f"--web.listen-address=127.0.0.1:{port}"]
        return receivers.Process("prometheus", [program, *words], folder)


if __name__ == "__main__":
    unittest.main()
