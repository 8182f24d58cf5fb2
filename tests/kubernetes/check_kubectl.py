"""`kubectl gcwatch` with the real kubectl and a real API server, up to its requests for `exec`: there is no kubelet.
tests/cluster/check_kubectl.py runs the commands in pods."""

import json
import os
import pathlib
import shutil
import subprocess
import time
import unittest

import cluster
import tools

PLUGIN = tools.DEPLOY / "kubectl"
# Seconds until the audit log must contain a request.
PATIENCE = 30
LABELS = {"app.kubernetes.io/name": "gcwatch", "app.kubernetes.io/component": "daemon"}


class Kubectl(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.kubectl = next((path for path in (cluster.folder() / "kubectl", shutil.which("kubectl")) if path and pathlib.Path(path).exists()), None)
        if not cls.kubectl:
            tools.left_out("there is no kubectl: tests/kubernetes/build cluster, or PATH")
        cls.cluster = cluster.Cluster()
        cls.addClassCleanup(cls.cluster.end)
        config = {"apiVersion": "v1", "kind": "Config", "current-context": "here"}
        config["clusters"] = [{"name": "here", "cluster": {"server": f"https://127.0.0.1:{cls.cluster.port}", "certificate-authority": str(cls.cluster.folder / "ca.crt")}}]
        config["users"] = [{"name": "here", "user": {"token": cluster.ADMIN}}]
        config["contexts"] = [{"name": "here", "context": {"cluster": "here", "user": "here", "namespace": "shop"}}]
        cls.config = cls.cluster.folder / "kubeconfig"
        cls.config.write_text(json.dumps(config))
        # The programs that the plugin finds: kubectl in one folder, the plugin in another.
        (cls.cluster.folder / "bin").mkdir()
        (cls.cluster.folder / "bin" / "kubectl").symlink_to(cls.kubectl)
        for name in ("shop", "other", "gcwatch", "second"):
            cls.cluster.namespace(name)
        cls.pod("shop", "web-1", "node-1")
        cls.pod("other", "web-2", "node-1")
        cls.pod("shop", "web-3", "node-3")
        cls.pod("shop", "web-4", "node-4")
        cls.pod("shop", "pending", None)
        cls.pod("gcwatch", "gcwatch-a", "node-1", LABELS)
        cls.pod("gcwatch", "gcwatch-b", "node-2", LABELS)
        cls.pod("gcwatch", "gcwatch-c", "node-4", LABELS)
        cls.pod("second", "gcwatch-d", "node-4", LABELS)
        # Without a kubelet, a deleted pod terminates until its grace period is set to zero.
        cls.pod("gcwatch", "gcwatch-0", "node-1", LABELS)
        cls.cluster.ask("DELETE", "/api/v1/namespaces/gcwatch/pods/gcwatch-0")

    @classmethod
    def pod(cls, namespace, name, node, labels=None):
        spec = {"containers": [{"name": "gcwatch", "image": "none"}], "automountServiceAccountToken": False}
        spec |= {"nodeName": node} if node else {}
        at = f"/api/v1/namespaces/{namespace}/pods"
        cls.cluster.create(at, {"metadata": {"name": name, "labels": labels or {}}, "spec": spec})
        if node:
            cls.cluster.patch(f"{at}/{name}/status", {"status": {"phase": "Running"}})

    def plugin(self, *words, requests=0):
        """Runs the plugin, which cannot succeed without a kubelet, and waits until the audit log contains this number of its
        requests for `exec` and `portforward`. Returns its output, and the pods of these requests."""
        before = len(self.cluster.requests_of(cluster.ADMIN))
        path = f"{self.cluster.folder / 'bin'}:{PLUGIN}:{os.environ['PATH']}"
        environment = {**os.environ, "KUBECONFIG": str(self.config), "HOME": str(self.cluster.folder), "PATH": path}
        done = subprocess.run(["kubectl", "gcwatch", *words], capture_output=True, text=True, timeout=120, env=environment, stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, 1, done.stderr)
        # The API server logs a request after its answer. A request after those of the plugin marks their end.
        self.cluster.ask("GET", f"/api/v1/namespaces?fieldSelector=metadata.name%3Dend-{before}")
        deadline = time.monotonic() + PATIENCE
        while True:
            events = self.cluster.requests_of(cluster.ADMIN)[before:]
            of = [event["objectRef"] for event in events if event.get("objectRef", {}).get("subresource") in ("exec", "portforward")]
            if len(of) >= requests and any(event["requestURI"].endswith(f"end-{before}") for event in events):
                return done.stderr, {(each["subresource"], each["namespace"], each["name"]) for each in of}
            self.assertLess(time.monotonic(), deadline, f"the audit log has {len(of)} of {requests} requests: {done.stderr}")
            time.sleep(0.05)

    def test_pod_of_the_node(self):
        """Scenario: the commands run for a pod, by its namespace or the namespace of the context, and for a node. A terminating
        pod of gcwatch is on one node.
        Guarantee: `exec` and `portforward` are requested for the pod of gcwatch on the node that does not terminate."""
        for words, subresource, name in (
            (["top", "web-1"], "exec", "gcwatch-a"),
            (["doctor", "web-2", "--namespace", "other"], "exec", "gcwatch-a"),
            (["incidents", "pod/web-1"], "exec", "gcwatch-a"),
            (["ps", "web-1"], "portforward", "gcwatch-a"),
            (["heap", "web-1", "--pid", "7"], "exec", "gcwatch-a"),
            (["top", "--node", "node-2", "--gcwatch", "gcwatch"], "exec", "gcwatch-b"),
        ):
            with self.subTest(words=words):
                said, requested = self.plugin(*words, requests=1)
                self.assertEqual(requested, {(subresource, "gcwatch", name)}, said)

    def test_failures(self):
        """Scenario: the pod does not exist, is in another namespace or has no node; the node has no daemon, or
        daemons of two namespaces; the namespace of gcwatch is wrong.
        Guarantee: each error is a sentence that names the reason, and nothing is requested from a pod."""
        for words, expected in (
            (["top", "missing"], 'pods "missing" not found'),
            (["top", "web-2"], 'pods "web-2" not found'),
            (["top", "pending"], "pod pending has no node yet"),
            (["ps", "web-3"], "no pod of gcwatch runs on node node-3"),
            (["top", "web-1", "--gcwatch", "second"], "no pod of gcwatch runs on node node-1 in namespace second"),
            (["heap", "web-4"], "in several namespaces (gcwatch second); use --gcwatch"),
        ):
            with self.subTest(words=words):
                said, requested = self.plugin(*words)
                self.assertIn(expected, said)
                self.assertEqual(requested, set())
        self.assertEqual(self.plugin("top", "web-4", "--gcwatch", "second", requests=1)[1], {("exec", "second", "gcwatch-d")})


if __name__ == "__main__":
    unittest.main()
