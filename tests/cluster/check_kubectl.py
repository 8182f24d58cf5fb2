"""`kubectl gcwatch`, found by the real kubectl on PATH: its commands and its failures."""

import json
import os
import subprocess
import unittest

import images
import lab
import node
import tools

PLUGIN = tools.DEPLOY / "kubectl"
LABELS = {"app.kubernetes.io/name": "gcwatch", "app.kubernetes.io/component": "daemon"}
# A container without .NET.
PAUSE = {"image": "localhost/pause:1"}
# 100 MB; the workload keeps up to 256 MB.
SMALL_HEAP = [("DOTNET_GCHeapHardLimit", "0x6000000")]


class Kubectl(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.runtime = next((name for name in ("net8", "net10", "net9") if images.is_there(name)), None)
        if not cls.runtime:
            raise unittest.SkipTest("no .NET 8 or later")
        cls.cluster = lab.cluster()
        cls.cluster.kubectl("apply", "--kustomize", lab.kustomization())
        cls.addClassCleanup(cls.cluster.kubectl, "delete", "--kustomize", lab.kustomization(), "--wait", "--timeout=120s")
        cls.daemon = lab.Daemon()
        lab.until("gcwatch is ready", cls.daemon.ready)
        cls.addClassCleanup(cls.cluster.kubectl, "delete", "--namespace", lab.APPS, "all", "--all", "--grace-period=1")
        calm = lambda name: lab.container(name, cls.runtime, "induced")
        cls.cluster.apply(
            lab.pod("shop-1", calm("main")),
            lab.pod("shop-10", calm("main")),
            lab.pod("twins", calm("one"), calm("two")),
            lab.pod("plain", lab.container("main", "") | PAUSE),
            lab.pod("nowhere", calm("main"), nodeSelector={"no": "node"}),
            namespace=lab.APPS,
        )
        # The context of kubectl has the namespace `default`.
        cls.cluster.apply(lab.pod("shop-10", lab.container("main", "") | PAUSE), namespace="default")
        cls.addClassCleanup(cls.cluster.kubectl, "delete", "--namespace", "default", "pod/shop-10", "--grace-period=1")
        lab.running("plain")
        for name in ("shop-1", "shop-10"):
            lab.running(name)
            cls.daemon.attached(name)
        lab.running("twins")
        lab.until("both processes are known", lambda: len([each for each in cls.daemon.of("twins") if each["state"] == "attached"]) == 2)

    def plugin(self, *words, status=0):
        environment = {**os.environ, "KUBECONFIG": str(self.cluster._kubeconfig("administrator")), "HOME": str(self.cluster.folder)}
        environment["PATH"] = f"{PLUGIN}:{self.cluster.bin}:{os.environ['PATH']}"
        done = subprocess.run(["kubectl", "gcwatch", *words], capture_output=True, text=True, timeout=300, env=environment, stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, status, done.stdout[-1000:] + done.stderr[-2000:])
        return done.stdout if status == 0 else done.stderr

    def pids(self, pod):
        return [str(each["pid"]) for each in self.daemon.of(pod)]

    def listed(self, text):
        """Returns the first words of lines that start with a number."""
        return [line.split()[0] for line in text.splitlines() if line[:8].strip() and line.split()[0].isdigit()]

    def test_1_ps(self):
        """Scenario: the processes of a pod are listed; the name of another pod starts with the name of this pod.
        Guarantee: only the process of the pod is listed, and for the node, the processes of all pods."""
        said = self.plugin("ps", "shop-1", "--namespace", lab.APPS)
        self.assertEqual(self.listed(said), self.pids("shop-1"), said)
        self.assertEqual(sorted(self.listed(self.plugin("ps", "pod/twins", "-n", lab.APPS))), sorted(self.pids("twins")))
        every = self.listed(self.plugin("ps", "--node", node.NODE))
        self.assertLessEqual({*self.pids("shop-1"), *self.pids("shop-10"), *self.pids("twins")}, set(every))

    def test_2_top(self):
        """Scenario: `top` runs for a pod. Guarantee: its table has the processes of the node."""
        said = self.plugin("top", "shop-1", "-n", lab.APPS, "--once")
        for pid in (*self.pids("shop-1"), *self.pids("twins")):
            self.assertIn(pid, said)

    def test_3_doctor(self):
        """Scenario: `doctor` runs for a pod, and for one process. Guarantee: the output names the process."""
        (pid,) = self.pids("shop-1")
        self.assertIn(pid, self.plugin("doctor", "shop-1", "-n", lab.APPS))
        self.assertIn(pid, self.plugin("doctor", "shop-1", "-n", lab.APPS, "--pid", pid))

    def test_4_heap(self):
        """Scenario: `heap` runs for a pod with one process, for a pod with two, and for one of these two.
        Guarantee: the types of the process are listed. The pod with two processes is refused, with their pids."""
        self.assertIn("objects live", self.plugin("heap", "shop-1", "-n", lab.APPS, "--histogram", "--format", "table"))
        said = self.plugin("heap", "twins", "-n", lab.APPS, status=1)
        self.assertIn("several .NET processes", said)
        pids = self.pids("twins")
        for pid in pids:
            self.assertIn(pid, said)
        self.assertIn("objects live", self.plugin("heap", "twins", "-n", lab.APPS, "--pid", pids[0], "--histogram", "--format", "table"))

    def test_5_incidents(self):
        """Scenario: a pod has an incident. Guarantee: the incident is listed for this pod only, and in full by its id."""
        self.cluster.apply(lab.pod("hoarder", lab.container("main", self.runtime, "lohoos", knobs=SMALL_HEAP)), namespace=lab.APPS)
        lab.running("hoarder")
        incident = lab.until("an incident of the pod", lambda: self.daemon.incidents("hoarder"))[0]
        of = lambda text: [json.loads(line)["id"] for line in text.splitlines()]
        self.assertIn(incident["id"], of(self.plugin("incidents", "hoarder", "-n", lab.APPS)))
        self.assertNotIn(incident["id"], of(self.plugin("incidents", "shop-1", "-n", lab.APPS)))
        self.assertEqual(of(self.plugin("incidents", "hoarder", incident["id"], "-n", lab.APPS)), [incident["id"]])
        self.cluster.kubectl("delete", "--namespace", lab.APPS, "pod/hoarder", "--grace-period=1")

    def test_6_refusals(self):
        """Scenario: the pod does not exist, is in another namespace, has no node, or has no .NET process (one such pod has the
        name of a .NET pod of another namespace); the namespace of gcwatch is wrong; the node is unknown.
        Guarantee: each error is a sentence that names the reason."""
        self.assertIn('pods "missing" not found', self.plugin("ps", "missing", "-n", lab.APPS, status=1))
        self.assertIn('pods "shop-1" not found', self.plugin("ps", "shop-1", "-n", "default", status=1))
        self.assertIn("pod nowhere has no node yet", self.plugin("ps", "nowhere", "-n", lab.APPS, status=1))
        self.assertIn("gcwatch knows no .NET process of pod plain", self.plugin("ps", "plain", "-n", lab.APPS, status=1))
        self.assertIn("gcwatch knows no .NET process of pod shop-10", self.plugin("heap", "shop-10", status=1))
        self.assertIn(f"no pod of gcwatch runs on node {node.NODE} in namespace default", self.plugin("top", "shop-1", "-n", lab.APPS, "--gcwatch", "default", status=1))
        self.assertIn("no pod of gcwatch runs on node node-2", self.plugin("top", "--node", "node-2", status=1))

    def test_7_two_daemonsets(self):
        """Scenario: a second DaemonSet with the labels of gcwatch runs in another namespace.
        Guarantee: the plugin names both namespaces and runs nothing. With the namespace of gcwatch, it works."""
        second = lab.workload("DaemonSet", "second", lab.container("gcwatch", "") | PAUSE)
        second["spec"]["selector"]["matchLabels"] = LABELS
        second["spec"]["template"]["metadata"]["labels"] = LABELS
        self.cluster.apply(second, namespace=lab.APPS)
        lab.until("the second pod runs", lab.Daemon(lab.APPS).ready)
        said = self.plugin("ps", "shop-1", "-n", lab.APPS, status=1)
        self.assertIn(f"in several namespaces (gcwatch {lab.APPS}); use --gcwatch", said)
        self.assertEqual(self.listed(self.plugin("ps", "shop-1", "-n", lab.APPS, "--gcwatch", "gcwatch")), self.pids("shop-1"))
        self.cluster.kubectl("delete", "--namespace", lab.APPS, "daemonset/second", "--wait")

    def test_8_no_pod_on_the_node(self):
        """Scenario: the DaemonSet no longer selects the node. Guarantee: the plugin names the node."""
        patch = {"spec": {"template": {"spec": {"nodeSelector": {"no": "node"}}}}}
        self.cluster.kubectl("patch", "--namespace", "gcwatch", "daemonset/gcwatch", "--patch", json.dumps(patch))
        lab.until("the pod is deleted", lambda: not self.cluster.pods("gcwatch", self.daemon.selector))
        self.assertIn(f"no pod of gcwatch runs on node {node.NODE}", self.plugin("ps", "shop-1", "-n", lab.APPS, status=1))


if __name__ == "__main__":
    unittest.main()
