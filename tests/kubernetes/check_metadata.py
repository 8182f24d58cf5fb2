"""Pod metadata from a real API server: a real .NET process in the control group of a pod's container, and gcwatch as in a pod."""

import contextlib
import functools
import json
import os
import pathlib
import re
import secrets
import shutil
import signal
import tempfile
import time
import unittest
import unittest.mock

import cluster
import gcwatch
import otlp
import process
import receivers
import tools
import yaml

NODE, OTHER = "node-a.example", "node-b.example"
ACCOUNT = "system:serviceaccount:gcwatch:gcwatch"
# Number of pods on the node without a .NET process, so that a list has more than one page.
FILLERS = 230
# Maximum wait for a broken connection, in seconds. The pauses between attempts last up to one minute.
PATIENCE = 180
# Mounts the token, the certificates and the namespace of a pod's account. The mount is in a file system that only gcwatch sees, so that
# no file remains on the machine.
IN_A_POD = """
set -e
run=$(readlink -f /var/run)
mount -t tmpfs none "$run"
mkdir -p "$run/secrets/kubernetes.io/serviceaccount"
mount --bind "$1" "$run/secrets/kubernetes.io/serviceaccount"
shift
exec "$@"
"""


class Groups:
    """Control groups of a container, version 1 or 2, with the names that containerd and systemd give. `remove` deletes
    them."""

    def __init__(self, uid, container):
        root = pathlib.Path("/sys/fs/cgroup")
        roots = [root] if (root / "cgroup.controllers").exists() else [root / "memory", root / "cpu"]
        pod = f"kubepods-burstable-pod{uid.replace('-', '_')}.slice"
        self.paths = [base / "gcwatch-kubernetes.slice" / "kubepods.slice" / pod / f"cri-containerd-{container}.scope" for base in roots]
        for path in self.paths:
            path.mkdir(parents=True)

    def take(self, pid):
        for path in self.paths:
            (path / "cgroup.procs").write_text(str(pid))

    def remove(self):
        for path in self.paths:
            until = time.monotonic() + 10
            for each in (path, *list(path.parents)[:3]):
                while each.exists():
                    try:
                        each.rmdir()
                    except OSError:
                        # A process that has just exited can still be in the group.
                        if time.monotonic() > until:
                            return
                        time.sleep(0.05)


def pod(name, node, containers, **metadata):
    spec = {"nodeName": node, "containers": [{"name": each, "image": image} for each, image in containers.items()]}
    return {"metadata": {"name": name, **metadata}, "spec": {**spec, "automountServiceAccountToken": False}}


def owned_by(owner):
    return [{"apiVersion": "apps/v1", "kind": owner["kind"], "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"], "controller": True}]


class Metadata(unittest.TestCase):
    def setUp(self):
        self.stack = contextlib.ExitStack()
        self.addCleanup(self.stack.close)
        self.cluster = cluster.Cluster()
        self.stack.callback(self.cluster.end)
        cluster.install(self.cluster)
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="gcw-pod."))
        self.stack.callback(functools.partial(shutil.rmtree, self.folder, ignore_errors=True))

    def make_pods(self):
        """Creates a pod of a deployment with two containers on the node, other pods on the same node, and one on another node."""
        api = self.cluster
        api.namespace("shop")
        labels = {"app": "web", "team": "blue"}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "web", "image": "registry.example:5000/shop/web:1.2.3"}]}}
        spec = {"selector": {"matchLabels": labels}, "template": template}
        deployment = api.create("/apis/apps/v1/namespaces/shop/deployments", {"metadata": {"name": "web"}, "spec": spec})
        hashed = {**labels, "pod-template-hash": "6b7f9c8d5"}
        owner = {"metadata": {"name": "web-6b7f9c8d5", "labels": hashed, "ownerReferences": owned_by({**deployment, "kind": "Deployment"})}, "spec": spec}
        owner = api.create("/apis/apps/v1/namespaces/shop/replicasets", owner)
        self.path = "/api/v1/namespaces/shop/pods/web-6b7f9c8d5-x2x4z"
        containers = {"web": "registry.example:5000/shop/web:1.2.3", "proxy": "registry.example:5000/shop/proxy:7"}
        metadata = {"labels": hashed, "annotations": {"example.com/change": "4711"}, "ownerReferences": owned_by({**owner, "kind": "ReplicaSet"})}
        self.pod = api.create("/api/v1/namespaces/shop/pods", pod("web-6b7f9c8d5-x2x4z", NODE, containers, **metadata))
        for number in range(FILLERS):
            api.create("/api/v1/namespaces/shop/pods", pod(f"filler-{number}", NODE, {"main": "filler"}))
        api.create("/api/v1/namespaces/shop/pods", pod("elsewhere", OTHER, {"main": "filler"}))

    def start_process(self):
        """Starts a real .NET process in the control group of the container `web`."""
        self.container = secrets.token_hex(32)
        self.groups = Groups(self.pod["metadata"]["uid"], self.container)
        self.stack.callback(self.groups.remove)
        # The service name comes from Kubernetes, because an empty variable does not count.
        self.workload = self.stack.enter_context(process.Workload(self.folder, OTEL_SERVICE_NAME=""))
        self.groups.take(self.workload.pid)

    def start_gcwatch(self, endpoint=None, token=None, events=False, **more):
        """Starts gcwatch as the manifests do: with a service account's token, the node's name, and the API server's address."""
        self.account = self.folder / "account"
        self.account.mkdir()
        (self.account / "token").write_text(token or self.cluster.token("gcwatch", "gcwatch"))
        (self.account / "namespace").write_text("gcwatch")
        shutil.copy(self.cluster.folder / "ca.crt", self.account)
        config = {
            "kubernetes": {"labels": ["team"], "annotations": ["example.com/change"], "events": "on" if events else "off"},
            "spans": {"max_per_second": 100000},
            "targets": {"include": [{"environment": {"GCWATCH_E2E": str(self.folder)}}], "lease_folder": str(self.folder / "leases")},
            "otlp": {"enabled": True, "endpoint": endpoint} if endpoint else {"enabled": False},
            **more,
        }
        (self.folder / "gcwatch.yaml").write_text(yaml.safe_dump(config))
        (port,) = receivers.free_ports(1)
        self.url = f"http://127.0.0.1:{port}"
        command = [*cluster.WITH_US, "unshare", "--mount", "--propagation", "private", "sh", "-c", IN_A_POD, "pod", self.account]
        command += [gcwatch.program(), "run", "--config", self.folder / "gcwatch.yaml", f"--listen=127.0.0.1:{port}"]
        address = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(self.cluster.port)}
        self.gcwatch = receivers.Process("gcwatch", command, self.folder, {**address, "NODE_NAME": NODE, "RUST_BACKTRACE": "1"})
        self.stack.callback(self.end_gcwatch)

    def end_gcwatch(self):
        with contextlib.suppress(ProcessLookupError):
            self.gcwatch.child.send_signal(signal.SIGCONT)
        self.gcwatch.child.kill()
        self.gcwatch.child.wait()

    def metrics(self):
        return receivers.get(f"{self.url}/metrics")[1].decode()

    def own(self, name):
        """Returns the value of one of gcwatch's own metrics without attributes, or None if it does not exist yet."""
        found = re.search(rf"^gcwatch_kubernetes_{name}(?:_ratio)?(?:\{{[^}}]*\}})? (\S+)$", self.metrics(), re.MULTILINE)
        return found and float(found[1])

    def told(self):
        """Returns the complete resource of the process, as Prometheus gets it."""
        for line in self.metrics().splitlines():
            labels = dict(re.findall(r'(\w+)="([^"]*)"', line)) if line.startswith("target_info{") else {}
            if labels.get("process_pid") == str(self.workload.pid):
                return labels
        return {}

    def await_told(self, **expected):
        """Waits until the resource has these attributes; None means that the attribute is absent."""
        try:
            return self.gcwatch.await_true(
                f"the resource has {expected}",
                lambda: (told := self.told()) and {name: told.get(name) for name in expected} == expected and told,
                PATIENCE,
            )
        except AssertionError as error:
            raise AssertionError(f"{error}\nthe resource is {self.told()}") from None

    def await_own(self, name, value):
        self.gcwatch.await_true(f"gcwatch_kubernetes_{name} is {value}", lambda: self.own(name) == value, PATIENCE)

    def label(self, team):
        self.cluster.patch(self.path, {"metadata": {"labels": {"team": team}}})

    def test_pod_life_cycle(self):
        """Scenario: a pod gets its status late, and its label changes. The API server is killed, then shut down, then returns without the
        resource version that gcwatch knows. Finally the pod is deleted.
        Guarantee: the resource matches the API server. The last known attributes stay while the server is unavailable, later exports contain
        every change, and gcwatch requests nothing except the pods of the node."""
        collector = None
        if receivers.binary("collector", "otelcol"):
            collector = self.stack.enter_context(receivers.collector())
        self.make_pods()
        self.start_process()
        self.start_gcwatch(collector and f"http://127.0.0.1:{collector.ports[0]}")
        said = lambda text: print(text, end="; ", flush=True)

        # Before the kubelet writes a status, the pod is only known by its uid, and its container is unknown.
        uid = self.pod["metadata"]["uid"]
        known = {
            "container_id": self.container,
            "job": "shop/web",
            "service_name": "web",
            "k8s_namespace_name": "shop",
            "k8s_pod_name": "web-6b7f9c8d5-x2x4z",
            "k8s_pod_uid": uid,
            "k8s_node_name": NODE,
            "k8s_deployment_name": "web",
            "k8s_replicaset_name": "web-6b7f9c8d5",
            "k8s_pod_label_team": "blue",
            "k8s_pod_annotation_example_com_change": "4711",
        }
        told = self.await_told(**known)
        self.assertNotIn("k8s_container_name", told)
        self.await_own("pods", FILLERS + 1)
        said("the resource has the pod")

        state = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
        status = {"restartCount": 0, "ready": True, "state": state, "imageID": "sha256:0"}
        statuses = [
            {"name": "proxy", "image": "proxy:7", "containerID": f"containerd://{secrets.token_hex(32)}", **status},
            {"name": "web", "image": "web:1.2.3", "containerID": f"containerd://{self.container}", **status},
        ]
        self.cluster.patch(f"{self.path}/status", {"status": {"phase": "Running", "containerStatuses": statuses}})
        image = {"k8s_container_name": "web", "container_image_name": "registry.example:5000/shop/web", "service_version": "1.2.3"}
        self.await_told(**known, **image)
        said("the container is known after the status")

        self.label("green")
        known["k8s_pod_label_team"] = "green"
        self.await_told(**known, **image)
        targets = json.loads(receivers.get(f"{self.url}/api/v1/targets")[1])["targets"]
        (target,) = (each for each in targets if each["pid"] == self.workload.pid)
        self.assertEqual((target["service_name"], target["state"]), ("web", "attached"), target)
        self.workload.work()
        if collector:
            self.check_spans(collector, known | image)
            said("a changed label is in spans, too")

        for away, how in ((self.cluster.kill_api, "killed"), (self.cluster.stop_api, "ended")):
            away()
            self.await_own("current", 0)
            self.assertEqual(self.await_told(**known, **image)["k8s_pod_name"], "web-6b7f9c8d5-x2x4z")
            self.cluster.start_api()
            known["k8s_pod_label_team"] = f"after-{how}"
            self.label(known["k8s_pod_label_team"])
            self.await_told(**known, **image)
            self.await_own("current", 1)
            said(f"the API server {how} and started again")

        # gcwatch is suspended while the pod changes. No connection buffers the changes, and the server forgets the resource version.
        lists = self.own("lists_total")
        self.gcwatch.child.send_signal(signal.SIGSTOP)
        self.cluster.kill_api()
        self.cluster.start_api()
        for team in ("grey", "white"):
            self.label(team)
        self.cluster.kill_api()
        self.cluster.forget()
        self.cluster.start_api()
        self.gcwatch.child.send_signal(signal.SIGCONT)
        known["k8s_pod_label_team"] = "white"
        self.await_told(**known, **image)
        self.await_own("current", 1)
        self.assertEqual(self.own("lists_total"), lists + 1)
        said("pods are listed again after a forgotten version")

        self.cluster.ask("DELETE", f"{self.path}?gracePeriodSeconds=0")
        self.await_own("pods", FILLERS)
        self.assertEqual(self.own("left_out_total"), 0)
        # Failures are logged once per change.
        log = self.gcwatch.log.read_text()
        self.assertNotIn(" ERROR ", log)
        self.assertLessEqual(log.count("is not current"), 2 * 3, log)
        said("the pod is deleted")
        self.check_requests(int(lists) + 1, said)

    def check_spans(self, collector, known):
        """Asserts that spans of collections after the change have the complete metadata in their resource."""
        names = {name: name.replace("_", ".") for name in known}
        # Two names cannot be converted back from Prometheus in this way.
        names.update(k8s_pod_label_team="k8s.pod.label.team", k8s_pod_annotation_example_com_change="k8s.pod.annotation.example.com/change")
        expected = {names[name]: value for name, value in known.items() if name != "job"} | {"service.namespace": "shop"}

        def newest():
            file = collector.folder / "traces.json"
            lines = file.read_text().splitlines() if file.exists() else []
            with contextlib.suppress(ValueError):
                found = [span["resource"] for line in lines for span in otlp.spans(json.loads(line)["resourceSpans"])]
                return found[-1] if found else None

        resource = collector.await_true("the collector has spans", newest)
        self.assertEqual({name: resource.get(name) for name in expected}, expected)
        self.assertEqual(resource.get("container.image.tags"), ["1.2.3"])

    def check_requests(self, lists, said):
        """Checks gcwatch's requests in the audit log of the API server."""
        requests = self.cluster.requests_of(ACCOUNT)
        self.assertGreater(len(requests), 5)
        for request in requests:
            self.assertIn(request["verb"], ("list", "watch"), request)
            self.assertTrue(request["requestURI"].startswith(f"/api/v1/pods?fieldSelector=spec.nodeName%3D{NODE}&"), request)
        pages = [request for request in requests if "continue=" in request["requestURI"]]
        # Each list has three pages.
        self.assertEqual(len(pages), 2 * lists, [request["requestURI"] for request in requests])
        said(f"{len(requests)} requests, all of them lists and watches of the node's pods")

    def test_events_on_the_pod(self):
        """Scenario: events are enabled, first without the right to create them, then with the right of the manifests' component. The process of
        a pod has an incident before the right is granted, and exits afterwards. Another process then has an incident.
        Guarantee: without the right, no event is created, the log names the missing right, and the event is counted as dropped. With the right,
        the event has the fields for `kubectl describe pod`: the pod's UID, a reason, the figures, a source. gcwatch requests nothing else."""
        api = self.cluster
        self.make_pods()
        self.start_process()
        rule = "id: test.any, title: Any, on: gc, when: gc.number > 0, summary: A collection, description: A collection., remedy: None."
        (self.folder / "rules.yaml").write_text(f"apiVersion: gcwatch/v1\nrules:\n  - {{{rule}, source: none, keep_firing_for: 10m, severity: error}}\n")
        self.start_gcwatch(events=True, rules={"shipped": False, "files": [str(self.folder / "rules.yaml")]})
        self.await_told(k8s_pod_name="web-6b7f9c8d5-x2x4z")
        self.workload.work()
        outcome = lambda name: re.search(rf'^gcwatch_kubernetes_events_total{{[^}}]*"{name}"}} (\S+)$', self.metrics(), re.MULTILINE)
        counted = lambda name, value: lambda: (found := outcome(name)) and float(found[1]) == value
        self.gcwatch.await_true("an event is dropped", counted("dropped", 1), PATIENCE)
        self.assertIn("the service account needs `create` of `events`", self.gcwatch.log.read_text())
        listed = lambda: api.ask("GET", "/api/v1/namespaces/shop/events")["items"]
        self.assertEqual(listed(), [])

        with unittest.mock.patch.dict(os.environ, {"GCWATCH_DEPLOY_FOLDER": str(self.folder)}):
            with_events = tools.documents(tools.kustomized("overlays/plain+events"))
        (role,) = [each for each in with_events if each["kind"] == "ClusterRole"]
        self.assertIn({"apiGroups": [""], "resources": ["events"], "verbs": ["create"]}, role["rules"])
        api.patch("/apis/rbac.authorization.k8s.io/v1/clusterroles/gcwatch", {"rules": role["rules"]})
        self.workload.end()
        self.gcwatch.await_true("an event is created", counted("created", 1), PATIENCE)
        (event,) = listed()
        uid = self.pod["metadata"]["uid"]
        self.assertEqual((event["involvedObject"]["kind"], event["involvedObject"]["uid"]), ("Pod", uid))
        self.assertEqual((event["reason"], event["type"], event["source"]), ("GcIncidentEnded", "Normal", {"component": "gcwatch", "host": NODE}))
        self.assertIn("Any (test.any): A collection", event["message"])
        # The query of `kubectl describe pod`.
        described = api.ask("GET", f"/api/v1/namespaces/shop/events?fieldSelector=involvedObject.uid%3D{uid}")["items"]
        self.assertEqual([each["metadata"]["name"] for each in described], [event["metadata"]["name"]])

        second = self.stack.enter_context(process.Workload(self.folder, OTEL_SERVICE_NAME=""))
        self.groups.take(second.pid)
        self.workload = second
        self.await_told(k8s_pod_name="web-6b7f9c8d5-x2x4z")
        second.work()
        self.gcwatch.await_true("another event is created", counted("created", 2), PATIENCE)
        (began,) = [each for each in listed() if each["reason"] == "GcIncident"]
        self.assertEqual((began["type"], began["involvedObject"]["name"]), ("Warning", "web-6b7f9c8d5-x2x4z"))
        asked = {(request["verb"], request["objectRef"]["resource"]) for request in api.requests_of(ACCOUNT)}
        self.assertEqual(asked, {("list", "pods"), ("watch", "pods"), ("create", "events")})

    def test_replaced_token(self):
        """Scenario: the API server no longer accepts gcwatch's first token, and the kubelet replaces the token.
        Guarantee: the known metadata stays, and gcwatch uses the new token without a restart."""
        api = self.cluster
        self.make_pods()
        self.start_process()
        # A token is valid as long as its bound object exists.
        secret = api.create("/api/v1/namespaces/gcwatch/secrets", {"metadata": {"name": "bound"}})
        bound = {"apiVersion": "v1", "kind": "Secret", "name": "bound", "uid": secret["metadata"]["uid"]}
        self.start_gcwatch(token=api.token("gcwatch", "gcwatch", boundObjectRef=bound))
        known = {"k8s_pod_name": "web-6b7f9c8d5-x2x4z", "k8s_deployment_name": "web"}
        self.await_told(**known, k8s_pod_label_team="blue")
        api.ask("DELETE", "/api/v1/namespaces/gcwatch/secrets/bound")
        # An existing watch continues, because the token is only checked when a watch starts.
        api.stop_api()
        api.start_api()
        self.label("green")
        self.await_own("current", 0)
        self.gcwatch.await_true("the log states the reason", lambda: "401" in self.gcwatch.log.read_text(), PATIENCE)
        self.await_told(**known, k8s_pod_label_team="blue")
        new = self.account / "new"
        new.write_text(api.token("gcwatch", "gcwatch"))
        new.rename(self.account / "token")
        # The token is read before each request; the pause after failures can have grown to a minute.
        self.await_told(**known, k8s_pod_label_team="green")
        self.await_own("current", 1)


if __name__ == "__main__":
    os.environ.setdefault("GCWATCH_DEPLOY_ALL", "1")
    unittest.main(verbosity=2)
