"""The metadata of pods from a real API server: a real .NET process in the control group of a pod's container, and gcwatch as in a pod."""

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
# Pods of the node that have no .NET process: with them a list has more than one page.
FILLERS = 230
# Waits for a connection that broke, with pauses of up to a minute in between.
PATIENCE = 180
# Where the token, the certificates and the namespace of a pod's account are. Nothing of it may be left on the machine: a file system
# over it that only gcwatch sees.
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
    """The control groups of a container as containerd and systemd name them, of version 1 or 2; removed at the end."""

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
                        # A process that has just ended may still be in it.
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
        """A deployment's pod with two containers on the node, others beside it, and one on another node."""
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
        """A real .NET process in the control group of the container `web`."""
        self.container = secrets.token_hex(32)
        self.groups = Groups(self.pod["metadata"]["uid"], self.container)
        self.stack.callback(self.groups.remove)
        # Who it is comes from Kubernetes: an empty variable is none.
        self.workload = self.stack.enter_context(process.Workload(self.folder, OTEL_SERVICE_NAME=""))
        self.groups.take(self.workload.pid)

    def start_gcwatch(self, endpoint=None, token=None, events=False, **more):
        """As the manifests have it: a service account's token, the node's name, the API server's address."""
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
        """A metric of gcwatch's own that has no attributes; None before it is there."""
        found = re.search(rf"^gcwatch_kubernetes_{name}(?:_ratio)?(?:\{{[^}}]*\}})? (\S+)$", self.metrics(), re.MULTILINE)
        return found and float(found[1])

    def told(self):
        """The process's whole resource, as Prometheus gets it."""
        for line in self.metrics().splitlines():
            labels = dict(re.findall(r'(\w+)="([^"]*)"', line)) if line.startswith("target_info{") else {}
            if labels.get("process_pid") == str(self.workload.pid):
                return labels
        return {}

    def await_told(self, **expected):
        """Waits until the process is told with these; None: without."""
        try:
            return self.gcwatch.await_true(
                f"{expected} was told",
                lambda: (told := self.told()) and {name: told.get(name) for name in expected} == expected and told,
                PATIENCE,
            )
        except AssertionError as error:
            raise AssertionError(f"{error}\ntold is {self.told()}") from None

    def await_own(self, name, value):
        self.gcwatch.await_true(f"gcwatch_kubernetes_{name} was {value}", lambda: self.own(name) == value, PATIENCE)

    def label(self, team):
        self.cluster.patch(self.path, {"metadata": {"labels": {"team": team}}})

    def test_the_whole_life(self):
        """Scenario: a pod that gets its status late, and another label; the API server is killed, ended in order, and comes back having
        forgotten the version that gcwatch knew; the pod goes. Guarantee: what is told is what the API server says, what was known last stays while
        it is away, every change reaches what is told from then on, and nothing was asked for but the pods of the node."""
        collector = None
        if receivers.binary("collector", "otelcol"):
            collector = self.stack.enter_context(receivers.collector())
        self.make_pods()
        self.start_process()
        self.start_gcwatch(collector and f"http://127.0.0.1:{collector.ports[0]}")
        said = lambda text: print(text, end="; ", flush=True)

        # Before the kubelet wrote a status the pod is known by its uid alone: which of two containers it is, is not.
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
        said("the pod is told")

        state = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
        status = {"restartCount": 0, "ready": True, "state": state, "imageID": "sha256:0"}
        statuses = [
            {"name": "proxy", "image": "proxy:7", "containerID": f"containerd://{secrets.token_hex(32)}", **status},
            {"name": "web", "image": "web:1.2.3", "containerID": f"containerd://{self.container}", **status},
        ]
        self.cluster.patch(f"{self.path}/status", {"status": {"phase": "Running", "containerStatuses": statuses}})
        image = {"k8s_container_name": "web", "container_image_name": "registry.example:5000/shop/web", "service_version": "1.2.3"}
        self.await_told(**known, **image)
        said("its container, once there is a status")

        self.label("green")
        known["k8s_pod_label_team"] = "green"
        self.await_told(**known, **image)
        targets = json.loads(receivers.get(f"{self.url}/api/v1/targets")[1])["targets"]
        (target,) = (each for each in targets if each["pid"] == self.workload.pid)
        self.assertEqual((target["service_name"], target["state"]), ("web", "attached"), target)
        self.workload.work()
        if collector:
            self.check_spans(collector, known | image)
            said("a changed label, in spans too")

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

        # gcwatch stands still while the pod changes, without a connection that would hold the changes for it, and its version is forgotten.
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
        said("a version that was forgotten is listed anew")

        self.cluster.ask("DELETE", f"{self.path}?gracePeriodSeconds=0")
        self.await_own("pods", FILLERS)
        self.assertEqual(self.own("left_out_total"), 0)
        # Failures are logged once per change.
        log = self.gcwatch.log.read_text()
        self.assertNotIn(" ERROR ", log)
        self.assertLessEqual(log.count("is not current"), 2 * 3, log)
        said("the pod is gone")
        self.check_requests(int(lists) + 1, said)

    def check_spans(self, collector, known):
        """The spans of collections after the change have all of it in their resource."""
        names = {name: name.replace("_", ".") for name in known}
        # Two names of Prometheus are not to be read back so simply.
        names.update(k8s_pod_label_team="k8s.pod.label.team", k8s_pod_annotation_example_com_change="k8s.pod.annotation.example.com/change")
        expected = {names[name]: value for name, value in known.items() if name != "job"} | {"service.namespace": "shop"}

        def newest():
            file = collector.folder / "traces.json"
            lines = file.read_text().splitlines() if file.exists() else []
            with contextlib.suppress(ValueError):
                found = [span["resource"] for line in lines for span in otlp.spans(json.loads(line)["resourceSpans"])]
                return found[-1] if found else None

        resource = collector.await_true("it had spans", newest)
        self.assertEqual({name: resource.get(name) for name in expected}, expected)
        self.assertEqual(resource.get("container.image.tags"), ["1.2.3"])

    def check_requests(self, lists, said):
        """What the API server's audit log has of gcwatch."""
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
        """Scenario: events are on, first without the right to create them, then with the right that the manifests' component has; the process of a
        pod has an incident, and ends. Another process has an incident before the right is there.
        Guarantee: without the right nothing is created, the log says which right is missing, and the event is counted as dropped; with it, `kubectl
        describe pod` has what it needs: the pod's UID, a reason, the figures, a source; gcwatch asked for nothing else."""
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
        self.gcwatch.await_true("an event was dropped", counted("dropped", 1), PATIENCE)
        self.assertIn("the service account needs `create` of `events`", self.gcwatch.log.read_text())
        listed = lambda: api.ask("GET", "/api/v1/namespaces/shop/events")["items"]
        self.assertEqual(listed(), [])

        with unittest.mock.patch.dict(os.environ, {"GCWATCH_DEPLOY_FOLDER": str(self.folder)}):
            with_events = tools.documents(tools.kustomized("overlays/plain+events"))
        (role,) = [each for each in with_events if each["kind"] == "ClusterRole"]
        self.assertIn({"apiGroups": [""], "resources": ["events"], "verbs": ["create"]}, role["rules"])
        api.patch("/apis/rbac.authorization.k8s.io/v1/clusterroles/gcwatch", {"rules": role["rules"]})
        self.workload.end()
        self.gcwatch.await_true("an event was created", counted("created", 1), PATIENCE)
        (event,) = listed()
        uid = self.pod["metadata"]["uid"]
        self.assertEqual((event["involvedObject"]["kind"], event["involvedObject"]["uid"]), ("Pod", uid))
        self.assertEqual((event["reason"], event["type"], event["source"]), ("GcIncidentEnded", "Normal", {"component": "gcwatch", "host": NODE}))
        self.assertIn("Any (test.any): A collection", event["message"])
        # As `kubectl describe pod` asks.
        described = api.ask("GET", f"/api/v1/namespaces/shop/events?fieldSelector=involvedObject.uid%3D{uid}")["items"]
        self.assertEqual([each["metadata"]["name"] for each in described], [event["metadata"]["name"]])

        second = self.stack.enter_context(process.Workload(self.folder, OTEL_SERVICE_NAME=""))
        self.groups.take(second.pid)
        self.workload = second
        self.await_told(k8s_pod_name="web-6b7f9c8d5-x2x4z")
        second.work()
        self.gcwatch.await_true("another event was created", counted("created", 2), PATIENCE)
        (began,) = [each for each in listed() if each["reason"] == "GcIncident"]
        self.assertEqual((began["type"], began["involvedObject"]["name"]), ("Warning", "web-6b7f9c8d5-x2x4z"))
        asked = {(request["verb"], request["objectRef"]["resource"]) for request in api.requests_of(ACCOUNT)}
        self.assertEqual(asked, {("list", "pods"), ("watch", "pods"), ("create", "events")})

    def test_a_token_that_is_replaced(self):
        """Scenario: the API server no longer takes the token that gcwatch began with, and the kubelet puts a new one into its place.
        Guarantee: what is known stays; the new token is used without a restart."""
        api = self.cluster
        self.make_pods()
        self.start_process()
        # A token is good for as long as what it is bound to is there.
        secret = api.create("/api/v1/namespaces/gcwatch/secrets", {"metadata": {"name": "bound"}})
        bound = {"apiVersion": "v1", "kind": "Secret", "name": "bound", "uid": secret["metadata"]["uid"]}
        self.start_gcwatch(token=api.token("gcwatch", "gcwatch", boundObjectRef=bound))
        known = {"k8s_pod_name": "web-6b7f9c8d5-x2x4z", "k8s_deployment_name": "web"}
        self.await_told(**known, k8s_pod_label_team="blue")
        api.ask("DELETE", "/api/v1/namespaces/gcwatch/secrets/bound")
        # A watch that has begun goes on: who asks is looked at when it begins.
        api.stop_api()
        api.start_api()
        self.label("green")
        self.await_own("current", 0)
        self.gcwatch.await_true("it said why", lambda: "401" in self.gcwatch.log.read_text(), PATIENCE)
        self.await_told(**known, k8s_pod_label_team="blue")
        new = self.account / "new"
        new.write_text(api.token("gcwatch", "gcwatch"))
        new.rename(self.account / "token")
        # The token is read before each request; the pause after failures may have grown to a minute.
        self.await_told(**known, k8s_pod_label_team="green")
        self.await_own("current", 1)


if __name__ == "__main__":
    os.environ.setdefault("GCWATCH_DEPLOY_ALL", "1")
    unittest.main(verbosity=2)
