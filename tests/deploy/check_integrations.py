"""Checks the integrations: templates with a real Alertmanager, configurations of the recipes, `kubectl gcwatch`, and
dashboards for grafana.com."""

import contextlib
import http.server
import json
import os
import pathlib
import re
import socket
import struct
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.request

import yaml

import tools

ALERTMANAGER = tools.DEPLOY / "integrations" / "alertmanager"
PLUGIN = tools.DEPLOY / "kubectl" / "kubectl-gcwatch"
RECIPES = tools.PROJECT / "docs" / "integrations.md"


def alertmanager():
    """Returns the folder of a real Alertmanager and amtool."""
    done = subprocess.run([tools.PROJECT / "tests/alertmanager/fetch"], capture_output=True, text=True, timeout=300)
    if done.returncode:
        tools.left_out(done.stderr.strip())
    return pathlib.Path(done.stdout.strip())


class Recorder(http.server.BaseHTTPRequestHandler):
    """Records requests. The path of a request names the replaced service."""

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append((self.path, body))
        self.send_response(202)
        self.end_headers()
        self.wfile.write(b'{"status": "success"}')

    def do_GET(self):
        body = self.server.answers.get(self.path, "").encode()
        self.send_response(200 if body else 404)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def recorder(answers=None):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Recorder)
    server.requests, server.answers = [], answers or {}
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


def alert(severity):
    """Returns an alert with the labels and annotations that gcwatch sends (docs/alerts.md)."""
    labels = {"alertname": "time.stopped", "severity": severity, "incident": f"abc-{severity}", "process": "shop", "pid": "4711", "service_name": "shop"}
    labels |= {"k8s_namespace_name": "trial", "k8s_pod_name": "shop-7d9f"}
    annotations = {
        "title": "GC pauses take a large share of the time",
        "summary": "The GC stopped the process for 58.2 % of the last 34 s, in 412 collections",
        "cause": "stopped.stacks",
        "cause_title": "Stack scanning dominates pauses (95 %)",
        "remedy": "Reduce the depth of the stacks.",
        "command": "gcwatch stacks 4711",
        "report": "https://gcwatch.example/n1/api/v1/evidence/abc.html",
        "grafana_url": "https://grafana.example/d/gcwatch-service?var-service=shop",
    }
    return {"labels": labels, "annotations": annotations, "generatorURL": "https://gcwatch.example/n1/#/process/4711"}


class Alertmanager(unittest.TestCase):
    def test_amtool(self):
        """Scenario: amtool reads the configuration with its templates.
        Guarantee: amtool reports success and three receivers."""
        said = tools.run(alertmanager() / "amtool", "check-config", ALERTMANAGER / "alertmanager.yaml")
        self.assertIn("SUCCESS", said)
        self.assertIn("3 receivers", said)

    def test_teams(self):
        """Scenario: the receiver for Microsoft Teams, which Debian's Alertmanager does not know, is checked with its template.
        Guarantee: the keys match MSTeamsV2Config, and amtool renders the text with links in Markdown."""
        (document,) = tools.documents((ALERTMANAGER / "teams.yaml").read_text())
        ((config,),) = [receiver["msteamsv2_configs"] for receiver in document["receivers"]]
        self.assertLessEqual(set(config), {"webhook_url", "webhook_url_file", "title", "text", "send_resolved", "http_config"})
        one = alert("error")
        data = {"Status": "firing", "Alerts": [{"Status": "firing", "Labels": one["labels"], "Annotations": one["annotations"], "GeneratorURL": one["generatorURL"]}]}
        data |= {"CommonLabels": one["labels"], "CommonAnnotations": one["annotations"], "GroupLabels": {}, "ExternalURL": "http://a"}
        data = {key[0].lower() + key[1:]: value for key, value in data.items()} | {
            "alerts": [{"status": "firing", "labels": one["labels"], "annotations": one["annotations"], "generatorURL": one["generatorURL"]}]
        }
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(data, file)
            file.flush()
            words = ["template", "render", f"--template.glob={ALERTMANAGER}/*.tmpl", f"--template.data={file.name}"]
            text = tools.run(alertmanager() / "amtool", *words, f"--template.text={config['text']}")
            title = tools.run(alertmanager() / "amtool", *words, f"--template.text={config['title']}")
        self.assertEqual(title.strip(), "[FIRING] error: GC pauses take a large share of the time - shop (trial/shop-7d9f)")
        self.assertIn("Cause: Stack scanning dominates pauses (95 %)\n", text)
        self.assertIn("[Report](https://gcwatch.example/n1/api/v1/evidence/abc.html)", text)

    def test_messages(self):
        """Scenario: a real Alertmanager with this configuration gets three incidents; a server on loopback replaces the services.
        Guarantee: Slack gets every incident, PagerDuty the critical incident, and Opsgenie the error, with severity,
        cause, remedy, command and links."""
        import receivers

        program = alertmanager()
        with tempfile.TemporaryDirectory(prefix="gcw-am.") as folder, recorder() as server:
            base = f"http://127.0.0.1:{server.server_address[1]}"
            place = pathlib.Path(folder)
            (place / "gcwatch.tmpl").write_text((ALERTMANAGER / "gcwatch.tmpl").read_text())
            for name, text in (("slack-url", f"{base}/slack"), ("pagerduty-key", "key"), ("opsgenie-key", "key")):
                (place / name).write_text(text)
            (document,) = tools.documents((ALERTMANAGER / "alertmanager.yaml").read_text().replace("/etc/alertmanager/", f"{folder}/"))
            # Change only the addresses of the services and the intervals of the groups.
            document["global"] = {"pagerduty_url": f"{base}/pagerduty", "opsgenie_api_url": f"{base}/opsgenie/"}
            document["route"] |= {"group_wait": "100ms", "group_interval": "1s"}
            (place / "alertmanager.yaml").write_text(yaml.safe_dump(document))
            (web,) = receivers.free_ports(1)
            words = ["./alertmanager", f"--config.file={folder}/alertmanager.yaml", f"--storage.path={folder}/state", f"--web.listen-address=127.0.0.1:{web}", "--cluster.listen-address="]
            words = ["env", "--chdir", program, *words]
            child = receivers.Process("alertmanager", words, folder)
            try:
                child.await_true("the Alertmanager is ready", lambda: receivers.get(f"http://127.0.0.1:{web}/-/ready")[0] == 200)
                body = json.dumps([alert(severity) for severity in ("warning", "error", "critical")]).encode()
                urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{web}/api/v2/alerts", body, {"Content-Type": "application/json"}), timeout=20).close()
                child.await_true("the Alertmanager has sent five messages", lambda: len(server.requests) >= 5)
            finally:
                child.stop()
            self.assertNotIn("level=error", child.log.read_text())
        slack = [body["attachments"][0] for path, body in server.requests if path == "/slack"]
        self.assertEqual(sorted(each["color"] for each in slack), ["danger", "danger", "warning"])
        for each in slack:
            self.assertRegex(each["title"], r"^\[FIRING\] \w+: GC pauses take a large share of the time - shop \(trial/shop-7d9f\)$")
            self.assertEqual(each["title_link"], "https://gcwatch.example/n1/api/v1/evidence/abc.html")
            lines = each["text"].splitlines()
            self.assertEqual(lines[:3], ["The GC stopped the process for 58.2 % of the last 34 s, in 412 collections", "Cause: Stack scanning dominates pauses (95 %)", "What to do: Reduce the depth of the stacks."])
            self.assertIn("`gcwatch stacks 4711`", lines)
            self.assertIn("<https://grafana.example/d/gcwatch-service?var-service=shop|Dashboard>", each["text"])
        ((event),) = [body for path, body in server.requests if path == "/pagerduty"]
        self.assertEqual(event["payload"]["severity"], "critical")
        self.assertEqual((event["payload"]["class"], event["payload"]["component"], event["payload"]["group"]), ("time.stopped", "shop", "trial"))
        self.assertEqual(event["payload"]["custom_details"]["command"], "gcwatch stacks 4711")
        self.assertEqual(event["links"][0]["href"], "https://grafana.example/d/gcwatch-service?var-service=shop")
        ((issue),) = [body for path, body in server.requests if path.startswith("/opsgenie")]
        self.assertEqual((issue["priority"], issue["tags"]), ("P2", ["dotnet", "time.stopped"]))
        self.assertIn("What to do: Reduce the depth of the stacks.", issue["description"])


class Recipes(unittest.TestCase):
    def blocks(self):
        return re.findall(r"```yaml\n(# gcwatch\.yaml\n.*?)```", RECIPES.read_text(), re.DOTALL)

    def test_configurations(self):
        """Scenario: gcwatch reads each gcwatch.yaml in docs/integrations.md.
        Guarantee: gcwatch accepts each file."""
        self.assertGreaterEqual(len(self.blocks()), 8)
        for block in self.blocks():
            with self.subTest(block=block.splitlines()[1]), tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
                file.write(block)
                file.flush()
                variables = {name: "x" for name in re.findall(r"env: (\w+)", block)}
                tools.run(tools.gcwatch(), "run", "--check-config", "--config", file.name, env={**os.environ, **variables})


    def test_recipes_with_third_party_receiver(self):
        """Scenario: a recording is sent with the configuration of each recipe to a third-party OTLP receiver on loopback, which replaces the
        backend.
        Guarantee: the receiver decodes every request. Temporality, type of histogram and key of the generation match the recipe, and metrics of
        the conventions are absent if the recipe disables them."""
        node = tools.program("node")
        modules = subprocess.run([tools.PROJECT / "tests/receivers/fetch"], capture_output=True, text=True, timeout=600)
        if modules.returncode:
            tools.left_out(modules.stderr.strip())
        recording = tools.PROJECT / "tests/recordings/svc8-workstation.nettrace.gz"
        kinds = set()
        for block in self.blocks():
            # The receiver does not decompress requests over HTTP.
            if "protocol: http" in block:
                block = block.replace("compression: gzip", "compression: none")
            recipe = yaml.safe_load(block)
            otlp, metrics = recipe.get("otlp", {}), recipe.get("metrics", {})
            with self.subTest(recipe=otlp.get("endpoint", "OBI")), tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
                file.write(block)
                file.flush()
                mock = subprocess.Popen([node, tools.PROJECT / "tests/receivers/mock.js", modules.stdout.strip()], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
                addresses = json.loads(mock.stdout.readline())
                protocol = otlp.get("protocol", "grpc")
                lines = []
                reader = threading.Thread(target=lambda: lines.extend(mock.stdout))
                reader.start()
                try:
                    words = ["replay", "--config", file.name, "--endpoint", addresses["grpc" if protocol == "grpc" else "http"], "--now", recording]
                    tools.run(tools.gcwatch(), *words, env={**os.environ, **{name: "x" for name in re.findall(r"env: (\w+)", block)}})
                finally:
                    mock.stdin.close()
                    reader.join(60)
                    mock.wait(60)
                    mock.stdout.close()
                received = [json.loads(line) for line in lines]
                self.assertIn("traces", {each["signal"] for each in received})
                found = {}
                for each in received:
                    for resource in each["body"].get("resourceMetrics", []) if each["signal"] == "metrics" else []:
                        for scope in resource["scopeMetrics"]:
                            found |= {metric["name"]: metric for metric in scope["metrics"]}
                self.assertGreater(len(found), 20)
                self.assertEqual("dotnet.gc.collections" in found, metrics.get("runtime_metrics") != "off")
                pause = found["gcwatch.gc.pause.duration"]
                self.assertIn("histogram" if metrics.get("histogram") == "explicit" else "exponentialHistogram", pause)
                text = json.dumps(found)
                expected = "DELTA" if metrics.get("temporality") == "delta" else "CUMULATIVE"
                temporalities = set(re.findall(r'"aggregationTemporality": "AGGREGATION_TEMPORALITY_(\w+)"', text)) or set(re.findall(r'"aggregationTemporality": (\d)', text))
                # Sums that can decrease are always cumulative.
                self.assertIn({"DELTA": "1", "CUMULATIVE": "2"}[expected] if temporalities <= {"1", "2"} else expected, temporalities)
                if expected == "CUMULATIVE":
                    self.assertEqual(len(temporalities), 1)
                if metrics.get("runtime_metrics") != "off":
                    self.assertIn('"gc.heap.generation"' if metrics.get("generation_key") == "runtime" else '"dotnet.gc.heap.generation"', json.dumps(found["dotnet.gc.collections"]))
                kinds.add((protocol, expected))
        self.assertEqual(kinds, {("grpc", "DELTA"), ("grpc", "CUMULATIVE"), ("http/protobuf", "CUMULATIVE")})


# A stand-in for kubectl. It records its arguments, answers for one pod and one node, and runs gcwatch directly instead
# of `exec`.
KUBECTL = """#!/bin/sh
printf '%s\\n' "$*" >>"$STAND_IN/calls"
case "$*" in
*port-forward*) echo "Forwarding from 127.0.0.1:$STAND_IN_PORT -> 9464"; exec sleep 60 ;;
*exec*) while [ "$1" != -- ]; do shift; done; shift 2; exec "$GCWATCH" "$@" ;;
*"get pod missing"*) echo 'Error from server (NotFound): pods "missing" not found' >&2; exit 1 ;;
*"get pod "*) printf 'trial node-7' ;;
*"get pods "*spec.nodeName=node-7*) printf 'gcwatch gcwatch-x1 2026-11-29T12:00:00Z\\ngcwatch gcwatch-x2 \\n' ;;
*"get pods "*spec.nodeName=node-8*) printf 'gcwatch gcwatch-x3 \\nother gcwatch-x4 \\n' ;;
*"get pods "*) ;;
esac
"""


class Kubectl(unittest.TestCase):
    def run_plugin(self, folder, server, *words, status=0):
        place = pathlib.Path(folder)
        (place / "kubectl").write_text(KUBECTL)
        (place / "kubectl").chmod(0o755)
        (place / "calls").write_text("")
        environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "STAND_IN": folder, "STAND_IN_PORT": str(server.server_address[1]), "GCWATCH": tools.gcwatch()}
        done = subprocess.run([*os.environ.get("GCWATCH_SH", "sh").split(), PLUGIN, *words], capture_output=True, text=True, timeout=120, env=environment, stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stdout + done.stderr, (place / "calls").read_text().splitlines()

    def test_commands(self):
        """Scenario: each command runs for a pod with one real process, through a stand-in for kubectl.
        Guarantee: the plugin queries the node of the pod, executes in gcwatch's pod on that node, and forwards pid and
        arguments. Without --namespace, only the process of the pod in the context's namespace is selected."""
        import process

        with tempfile.TemporaryDirectory(prefix="gcw-kubectl.") as folder, process.Workload(folder, rounds=1) as running:
            target = {"pid": running.pid, "name": "shop", "resource": {"k8s.namespace.name": "trial", "k8s.pod.name": "shop-1"}}
            others = [{"pid": 1, "resource": {"k8s.namespace.name": "other", "k8s.pod.name": "shop-1"}}, {"pid": 2, "resource": {"k8s.namespace.name": "trial", "k8s.pod.name": "shop-10"}}]
            targets = json.dumps({"targets": [others[0], target, others[1]]}, separators=(",", ":"))
            with recorder({"/api/v1/targets": targets}) as server:
                said, calls = self.run_plugin(folder, server, "ps", "shop-1", "-n", "trial")
                self.assertIn("get pod shop-1 --namespace trial --output jsonpath={.metadata.namespace} {.spec.nodeName}", calls)
                self.assertIn("--field-selector spec.nodeName=node-7,status.phase=Running", calls[1])
                self.assertIn("port-forward --namespace gcwatch pod/gcwatch-x2 :9464", calls)
                self.assertIn("exec --namespace gcwatch gcwatch-x2 --container gcwatch -- /gcwatch ps --format table", calls[-1])
                self.assertEqual([line.split()[0] for line in said.splitlines() if line.split()[0].isdigit()], [str(running.pid)], said)
                said, calls = self.run_plugin(folder, server, "ps", "shop-1")
                self.assertEqual([line.split()[0] for line in said.splitlines() if line.split()[0].isdigit()], [str(running.pid)], said)
                said, calls = self.run_plugin(folder, server, "heap", "shop-1", "--histogram", "--format", "table")
                self.assertIn(f"/gcwatch heap {running.pid} --histogram --format table", calls[-1])
                self.assertIn("objects live", said)
                said, calls = self.run_plugin(folder, server, "doctor", "--node", "node-7", "--pid", str(running.pid))
                self.assertIn(f"/gcwatch doctor --pid {running.pid}", calls[-1])
                said, calls = self.run_plugin(folder, server, "--context", "blue", "top", "pod/shop-1", "--gcwatch", "gcwatch", "--once")
                self.assertTrue(all(call.startswith("--context blue ") for call in calls), calls)
                self.assertIn("/gcwatch top --once", calls[-1])

    def test_incidents(self):
        """Scenario: the incidents of a pod, one incident by its id, and the incidents of a node are requested through a
        stand-in for kubectl. The API has an incident of the pod and an incident of another pod.
        Guarantee: for the pod, only its incident is listed; an id selects an incident regardless of the pod; for the
        node, both incidents are listed. The records match the API."""
        mine = {"kind": "incident", "id": "aaaa1111bbbb2222", "state": "firing", "title": "Mine", "resource": {"k8s.pod.name": "shop-1", "k8s.namespace.name": "trial"}}
        other = {**mine, "id": "cccc1111bbbb2222", "title": "Other", "resource": {"k8s.pod.name": "shop-2", "k8s.namespace.name": "trial"}}
        overview = json.dumps({"at_ms": 0, "incidents": [mine, other]})
        with tempfile.TemporaryDirectory(prefix="gcw-kubectl.") as folder, recorder({"/api/v1/overview": overview}) as server:
            at = ["--connect", f"http://127.0.0.1:{server.server_address[1]}"]
            said, calls = self.run_plugin(folder, server, "incidents", "shop-1", "-n", "trial", *at)
            self.assertIn("/gcwatch incidents --pod shop-1 --namespace trial --connect", calls[-1])
            self.assertEqual([json.loads(line) for line in said.splitlines()], [mine])
            said, _ = self.run_plugin(folder, server, "incidents", "shop-1", "cccc", *at)
            self.assertEqual([json.loads(line) for line in said.splitlines()], [other])
            said, _ = self.run_plugin(folder, server, "incidents", "--node", "node-7", "--state", "open", "--format", "table", *at)
            self.assertIn("Mine", said)
            self.assertIn("Other", said)

    def test_refusals(self):
        """Scenario: the plugin is called without arguments, with an unknown command, a missing pod, a node without gcwatch or with two of
        them, a pod with two processes.
        Guarantee: each error is a sentence that names the reason; wrong usage has the exit code 2."""
        two = json.dumps({"targets": [{"pid": pid, "resource": {"k8s.namespace.name": "trial", "k8s.pod.name": "shop-1"}} for pid in (7, 8)]}, separators=(",", ":"))
        with tempfile.TemporaryDirectory(prefix="gcw-kubectl.") as folder, recorder({"/api/v1/targets": two}) as server:
            self.assertIn("Usage", self.run_plugin(folder, server, status=2)[0])
            self.assertIn("no command is called problems", self.run_plugin(folder, server, "problems", status=2)[0])
            self.assertIn("a pod or --node is missing", self.run_plugin(folder, server, "top", status=2)[0])
            self.assertIn("not found", self.run_plugin(folder, server, "top", "missing", status=1)[0])
            self.assertIn("no pod of gcwatch runs on node other", self.run_plugin(folder, server, "top", "--node", "other", status=1)[0])
            self.assertIn("in several namespaces (gcwatch other); use --gcwatch", self.run_plugin(folder, server, "top", "--node", "node-8", status=1)[0])
            self.assertIn("several .NET processes (7 8); use --pid", self.run_plugin(folder, server, "heap", "shop-1", status=1)[0])
            self.assertIn("no .NET process of pod web-1", self.run_plugin(folder, server, "ps", "web-1", status=1)[0])

    def test_manifest(self):
        """Scenario: the manifest for krew is read.
        Guarantee: the manifest has the required fields and names the program in the tree."""
        (manifest,) = tools.documents((PLUGIN.parent / "gcwatch.yaml").read_text())
        self.assertEqual((manifest["apiVersion"], manifest["kind"], manifest["metadata"]["name"]), ("krew.googlecontainertools.github.com/v1alpha2", "Plugin", "gcwatch"))
        spec = manifest["spec"]
        self.assertRegex(spec["version"], r"^v\d+\.\d+\.\d+$")
        self.assertLessEqual(len(spec["shortDescription"]), 50)
        for platform in spec["platforms"]:
            self.assertRegex(platform["sha256"], "^[0-9a-f]{64}$")
            self.assertEqual(platform["bin"], PLUGIN.name)
            self.assertIn(PLUGIN.name, [each["from"] for each in platform["files"]])
        self.assertTrue(os.access(PLUGIN, os.X_OK))


class CounterSession(threading.Thread):
    """A session of a process's event counters over its diagnostics socket, like the sessions of OBI and dotnet-counters."""

    def __init__(self, folder, pid):
        super().__init__(daemon=True)
        (path,) = pathlib.Path(folder).glob(f"dotnet-diagnostic-{pid}-*-socket")
        text = lambda words: struct.pack("<I", len(words) + 1) + (words + "\0").encode("utf-16-le")
        # CollectTracing2: a buffer of 1 MB, nettrace, no rundown, one provider at level Informational.
        payload = struct.pack("<IIBI", 1, 1, 0, 1) + struct.pack("<QI", 0xFFFFFFFF, 4) + text("System.Runtime") + text("EventCounterIntervalSec=1")
        self.connection = socket.socket(socket.AF_UNIX)
        self.connection.connect(str(path))
        self.connection.sendall(struct.pack("<14sHBBH", b"DOTNET_IPC_V1\0", 20 + len(payload), 2, 3, 0) + payload)
        answer = self.connection.recv(28, socket.MSG_WAITALL)
        assert answer[16:18] == b"\xff\x00", answer
        self.read = b""

    def run(self):
        # The test closes the connection, so a read can fail.
        with contextlib.suppress(OSError):
            while piece := self.connection.recv(65536):
                self.read += piece

    def has(self, counter):
        return counter.encode("utf-16-le") in self.read


class BesideObi(unittest.TestCase):
    def test_both_in_one_collector(self):
        """Scenario: a real Collector has the configuration of docs/integrations.md. gcwatch sends no `dotnet.*`. A
        session of event counters in the same process replaces the session of OBI, and the test sends the metric of OBI
        to the other receiver.
        Guarantee: `dotnet.gc.collections` arrives only at the receiver of OBI, and gcwatch's own metric counts at least
        the collections of the workload. gcwatch loses no events while both sessions are open, and resources arrive
        unchanged."""
        import process
        import receivers

        program = receivers.binary("collector", "otelcol") or tools.left_out("there is no Collector: tests/e2e/build collector")
        section = RECIPES.read_text().split("## Next to OBI's receiver")[1]
        ours, theirs = (yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", section, re.DOTALL))
        grpc, http, web = receivers.free_ports(3)
        with tempfile.TemporaryDirectory(prefix="gcw-obi.") as folder, process.Workload(folder, rounds=100, DOTNET_GCgen0size="400000") as running:
            theirs["receivers"]["otlp/gcwatch"]["protocols"]["grpc"]["endpoint"] = f"127.0.0.1:{grpc}"
            theirs["receivers"]["otlp/obi"]["protocols"]["http"]["endpoint"] = f"127.0.0.1:{http}"
            # A file for each pipeline replaces the backend.
            theirs["exporters"] = {f"file/{name.replace('/', '-')}": {"path": f"{folder}/{name.replace('/', '-')}.json"} for name in theirs["service"]["pipelines"]}
            for name, pipeline in theirs["service"]["pipelines"].items():
                pipeline["exporters"] = [f"file/{name.replace('/', '-')}"]
            theirs["service"]["telemetry"] = {"metrics": {"level": "none"}}
            (pathlib.Path(folder) / "collector.yaml").write_text(yaml.safe_dump(theirs))
            collector = receivers.Process("collector", [program, "--config", f"{folder}/collector.yaml"], folder)
            try:
                collector.await_true("it listens", lambda: receivers._listens(grpc) and receivers._listens(http))
                more = f"listen: 127.0.0.1:{web}\notlp: {{endpoint: 'http://127.0.0.1:{grpc}'}}\n"
                more += yaml.safe_dump({"metrics": {**ours["metrics"], "interval": "1s"}})
                gcwatch = process.daemon(folder, more=more)
                try:
                    target = lambda: [each for each in json.loads(receivers.get(f"http://127.0.0.1:{web}/api/v1/targets")[1] or b"{}").get("targets", []) if each["pid"] == running.pid and each["state"] == "attached"]
                    gcwatch.await_true("the process is attached", lambda: receivers.get(f"http://127.0.0.1:{web}/readyz")[0] == 200 and target())
                    counters = CounterSession(folder, running.pid)
                    counters.start()
                    running.work()
                    gcwatch.await_true("the counters have arrived", lambda: counters.has("gen-0-gc-count"))
                    done = sum(running.counts.values())
                    gcwatch.await_true("every collection is read", lambda: target()[0]["collections"] >= done)
                    self.assertEqual(target()[0]["lost_events"], 0)
                    counters.connection.shutdown(socket.SHUT_RDWR)
                    counters.join(60)
                    counters.connection.close()
                    self.send(http, running)
                finally:
                    self.assertEqual(gcwatch.stop(), 0)
            finally:
                collector.stop()
            own, other = (self.metrics(pathlib.Path(folder) / f"metrics-{name}.json") for name in ("gcwatch", "obi"))
        self.assertEqual([name for name in own if name.startswith("dotnet.")], [])
        self.assertEqual(set(other), {"dotnet.gc.collections"})
        resources, points = own["gcwatch.gc.pause.duration"]
        self.assertIn("checked", [each.get("service.name") for each in resources])
        self.assertEqual(other["dotnet.gc.collections"][0], [{"service.name": "checked", "telemetry.sdk.name": "obi"}])
        counted = {}
        for point in points:
            generation = point.get("gcwatch.gc.generation") or point.get("dotnet.gc.heap.generation") or point.get("gc.heap.generation")
            counted[generation] = counted.get(generation, 0) + point["count"]
        self.assertGreaterEqual(sum(counted.values()), done)

    @staticmethod
    def send(port, running):
        """Sends the metric that OBI would send from the counters: the collections by generation."""
        key = lambda name, value: {"key": name, "value": {"stringValue": value}}
        points = [
            {"attributes": [key("dotnet.gc.heap.generation", name)], "startTimeUnixNano": "1", "timeUnixNano": str(time.time_ns()), "asInt": str(count)}
            for name, count in running.counts.items()
        ]
        metric = {"name": "dotnet.gc.collections", "sum": {"dataPoints": points, "aggregationTemporality": 2, "isMonotonic": True}}
        resource = {"attributes": [key("service.name", "checked"), key("telemetry.sdk.name", "obi")]}
        body = json.dumps({"resourceMetrics": [{"resource": resource, "scopeMetrics": [{"metrics": [metric]}]}]}).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/metrics", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=20) as answer:
            assert answer.status == 200

    @staticmethod
    def metrics(file):
        """Returns, by name of the metric, the resources and the newest points that the Collector wrote. A point has
        attributes and a count."""
        import otlp

        found = {}
        for line in file.read_text().splitlines():
            for group in json.loads(line)["resourceMetrics"]:
                resource = otlp.attributes(group["resource"].get("attributes"))
                for scope in group["scopeMetrics"]:
                    for metric in scope["metrics"]:
                        kind = next(value for name, value in metric.items() if isinstance(value, dict))
                        points = [{**otlp.attributes(point.get("attributes")), "count": int(point.get("count", 0))} for point in kind["dataPoints"]]
                        resources, newest = found.setdefault(metric["name"], ([], []))
                        if resource not in resources:
                            resources.append(resource)
                        newest[:] = points
        return found


class Dashboards(unittest.TestCase):
    def test_export(self):
        """Scenario: `deploy/grafana/build --export` runs.
        Guarantee: each exported dashboard names its plugins and equals the committed file, without an instance id and
        without fixed data sources."""
        with tempfile.TemporaryDirectory(prefix="gcw-grafana.") as folder:
            tools.run(tools.DEPLOY / "grafana" / "build", "--export", folder)
            names = {path.stem for path in (tools.DEPLOY / "grafana/dashboards").glob("*.json")}
            exported = {path.stem.removeprefix("gcwatch-"): json.loads(path.read_text()) for path in pathlib.Path(folder).iterdir()}
        self.assertEqual(set(exported), names)
        for name, made in exported.items():
            committed = json.loads((tools.DEPLOY / f"grafana/dashboards/{name}.json").read_text())
            self.assertEqual({key: value for key, value in made.items() if key in committed}, committed)
            self.assertIsNone(made["id"])
            self.assertTrue(made["title"] and made["description"] and made["tags"])
            needed = {(each["type"], each["id"]) for each in made["__requires"]}
            self.assertIn(("datasource", "prometheus"), needed)
            used = set(re.findall(r'"datasource": ?\{"type": ?"(\w+)", ?"uid": ?"([^"]*)"', json.dumps(made)))
            self.assertTrue(all(uid.startswith("${") or kind in ("datasource", "grafana") for kind, uid in used), used)
            self.assertLessEqual({("datasource", kind) for kind, uid in used if uid.startswith("${")}, needed)


if __name__ == "__main__":
    unittest.main()
