"""Faults of gcwatch itself: an update under load, a kill, a suspension, an unavailable API server. Pods must not be
affected."""

import http.client
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
import unittest
import urllib.request

import images
import lab
import node

AWAY = 300 if os.environ.get("GCWATCH_CLUSTER_LONG") else 30
LOAD = 6
HOG = """
import os, sys, time
with open(sys.argv[1], "w") as procs:
    procs.write(str(os.getpid()))
kept = []
while True:
    kept.append(b"x" * (1 << 20))
    time.sleep(0.005)
"""


def any_runtime():
    return next(name for name in ("net8", "net10", "net9", "core31") if images.is_there(name))


class Scrape(threading.Thread):
    """Polls the processes and counters of all gcwatch pods five times per second."""

    def __init__(self, daemon):
        super().__init__(daemon=True)
        self.daemon_, self.over, self.pages = daemon, threading.Event(), []

    def run(self):
        while not self.over.wait(0.2):
            try:
                pods = lab.cluster().pods(self.daemon_.namespace, self.daemon_.selector)
            except (OSError, node.Refused):
                continue
            for pod in pods:
                address = pod["status"].get("podIP")
                try:
                    one = lab.Daemon()
                    # The timeout is short, because a terminated pod does not answer at its address.
                    one.pod, one.patience = lambda pod=pod: pod, 2
                    page = address and (time.monotonic(), pod["metadata"]["name"], one.targets(), one.metrics())
                except (OSError, ValueError, http.client.HTTPException):
                    # The pod is terminating.
                    continue
                if page:
                    self.pages.append(page)


class Update(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.cluster = lab.cluster()
        cls.cluster.kubectl("apply", "--kustomize", lab.kustomization())
        cls.addClassCleanup(cls.cluster.kubectl, "delete", "--kustomize", lab.kustomization(), "--wait", "--timeout=120s")
        cls.daemon = lab.Daemon()
        lab.until("gcwatch is ready", cls.daemon.ready)
        cls.cluster.apply(lab.workload("Deployment", "load", lab.container("main", any_runtime()), replicas=LOAD), namespace=lab.APPS)
        cls.addClassCleanup(cls.cluster.kubectl, "delete", "--namespace", lab.APPS, "all", "--all", "--grace-period=1")
        cls.cluster.kubectl("rollout", "status", "--namespace", lab.APPS, "deployment/load", "--timeout=100s")
        cls.all_read()

    @classmethod
    def all_read(cls, patience=lab.PATIENCE):
        """Waits until all processes of the load in the current pods are read, and returns them."""
        def read():
            pods = {pod["metadata"]["name"] for pod in cls.cluster.pods(lab.APPS, "app=load") if "deletionTimestamp" not in pod["metadata"]}
            found = [each for each in cls.daemon.targets() if each["resource"].get("k8s.deployment.name") == "load"]
            whole = len(pods) == LOAD and {each["resource"]["k8s.pod.name"] for each in found} == pods
            return whole and all(each["state"] == "attached" and each["collections"] for each in found) and found

        return lab.until(f"all {LOAD} processes are read", read, patience)

    def restarts(self):
        """Returns the number of restarts of the load's containers."""
        return sum(each["restartCount"] for pod in self.cluster.pods(lab.APPS, "app=load") for each in pod["status"]["containerStatuses"])

    def own(self):
        """Returns the pid of gcwatch's process inside the room."""
        found = []
        for at in pathlib.Path("/proc").iterdir():
            if at.name.isdigit():
                try:
                    words = (at / "cmdline").read_bytes().split(b"\0")
                except OSError:
                    continue
                if words[0].endswith(b"gcwatch") and b"run" in words:
                    found.append(int(at.name))
        (pid,) = found
        return pid

    def test_1_rolling_update(self):
        """Scenario: the DaemonSet is restarted with `kubectl rollout restart` while six processes are under load.
        Guarantee: the two gcwatch instances never read at the same time; no counter of an instance decreases; the new
        instance reads all processes without lost events, and reports the time at which it attached; no process was
        restarted."""
        scrape = Scrape(self.daemon)
        scrape.start()
        old = self.daemon.pod()["metadata"]["name"]
        time.sleep(3)
        self.cluster.kubectl("--namespace", "gcwatch", "rollout", "restart", "daemonset/gcwatch")
        self.cluster.kubectl("--namespace", "gcwatch", "rollout", "status", "daemonset/gcwatch", "--timeout=100s")
        lab.until("the new pod", lambda: self.daemon.ready() and self.daemon.pod()["metadata"]["name"] != old)
        now = self.all_read()
        new = self.daemon.pod()["metadata"]["name"]
        lab.until("five scrapes of the new pod that reads", lambda: sum(pod == new and any(each["collections"] for each in targets) for _, pod, targets, _ in scrape.pages) >= 5)
        scrape.over.set()
        scrape.join()
        self.assertEqual(self.restarts(), 0)
        by_pod = {}
        for at, pod, targets, metrics in scrape.pages:
            by_pod.setdefault(pod, []).append((at, targets, metrics))
        self.assertEqual(set(by_pod), {old, new})
        last = {pod: max(at for at, targets, _ in pages if any(each["state"] == "attached" for each in targets)) for pod, pages in by_pod.items()}
        first = {pod: min(at for at, targets, _ in pages if any(each["state"] == "attached" for each in targets)) for pod, pages in by_pod.items()}
        self.assertLess(last[old], first[new])
        compared = 0
        for pages in by_pod.values():
            known = {}
            for _, _, metrics in pages:
                for name, labels, value in metrics:
                    if name.endswith(("_total", "_count", "_sum", "_bucket")):
                        key = name, *sorted(labels.items())
                        self.assertGreaterEqual(value, known.get(key, 0), key)
                        known[key] = value
                        compared += 1
        self.assertGreater(compared, 1000)
        # Each process keeps its service.instance.id, so its series continue after the update.
        ids = {each["resource"]["service.instance.id"] for each in now}
        before = {each["resource"].get("service.instance.id") for _, targets, _ in by_pod[old] for each in targets}
        self.assertLessEqual(ids, before)
        for each in now:
            record = self.daemon.ask(f"processes/{each['pid']}")
            # The record states the time at which this gcwatch instance attached.
            self.assertIsNotNone(record["history"]["attached_ms"])
            self.assertEqual(each["sessions"], 1)
            self.assertEqual(each["lost_events"] or 0, 0)
        print(f"{first[new] - last[old]:.1f} s without a reader, {compared} samples", end=" ", flush=True)

    def test_2_killed(self):
        """Scenario: gcwatch is killed with SIGKILL.
        Guarantee: its container restarts in the same pod, all processes are read again, and no pod of the load was
        restarted."""
        pod = self.daemon.pod()
        restarts = pod["status"]["containerStatuses"][0]["restartCount"]
        os.kill(self.own(), signal.SIGKILL)
        lab.until("its container was started again", lambda: self.daemon.pod()["status"]["containerStatuses"][0]["restartCount"] == restarts + 1)
        lab.until("it is ready", self.daemon.ready)
        self.all_read()
        self.assertEqual(self.daemon.pod()["metadata"]["name"], pod["metadata"]["name"])
        self.assertEqual(self.restarts(), 0)

    def test_3_out_of_memory(self):
        """Scenario: gcwatch's container reaches its memory limit, and the kernel kills gcwatch.
        Guarantee: Kubernetes reports OOMKilled, gcwatch's container restarts in the same pod, all processes are read
        again, and no pod of the load was restarted."""
        pod = self.daemon.pod()
        restarts = pod["status"]["containerStatuses"][0]["restartCount"]
        # Another process in the group uses the remaining memory. The kernel prefers to kill gcwatch, because its pod
        # requests little memory.
        hog = subprocess.Popen([sys.executable, "-c", HOG, str(self.daemon.group() / "cgroup.procs")])
        self.addCleanup(hog.wait)
        self.addCleanup(hog.kill)
        status = lambda: self.daemon.pod()["status"]["containerStatuses"][0]
        lab.until("its container was started again", lambda: status()["restartCount"] == restarts + 1)
        self.assertEqual(status()["lastState"]["terminated"]["reason"], "OOMKilled")
        hog.kill()
        lab.until("it is ready", self.daemon.ready)
        self.all_read()
        self.assertEqual(self.daemon.pod()["metadata"]["name"], pod["metadata"]["name"])
        self.assertEqual(self.restarts(), 0)

    def test_4_stopped(self):
        """Scenario: gcwatch's process is suspended (SIGSTOP), and a pod of the load is deleted with a grace period of
        40 s.
        Guarantee: the pod exits by itself within 25 s. gcwatch continues or is restarted by the kubelet, and reads all
        processes again. No pod of the load was restarted."""
        victim = self.cluster.pods(lab.APPS, "app=load")[0]["metadata"]["name"]
        own = self.own()
        os.kill(own, signal.SIGSTOP)
        # After 8 s, the socket buffers are full.
        time.sleep(8)
        began = time.monotonic()
        self.cluster.kubectl("delete", "--namespace", lab.APPS, "pod", victim, "--grace-period=40", "--wait", "--timeout=60s")
        took = time.monotonic() - began
        try:
            os.kill(own, signal.SIGCONT)
        except ProcessLookupError:
            pass
        self.assertLess(took, 25)
        self.all_read(180)
        self.assertEqual(self.restarts(), 0)
        print(f"the pod was gone after {took:.1f} s", end=" ", flush=True)

    def test_5_no_api_server(self):
        """Scenario: the API server is killed, is unavailable for 30 s (5 min with GCWATCH_CLUSTER_LONG), and returns;
        then a pod is created.
        Guarantee: gcwatch reports that its metadata is not current, but keeps the known metadata and reads all
        processes. Afterwards, the metadata is current, and the new pod has its attributes. gcwatch is not restarted."""
        pod = self.daemon.pod()
        daemon = lab.Daemon()
        daemon.pod = lambda: pod
        known = {each["pid"]: lab.told(each) for each in daemon.targets() if each["state"] == "attached"}
        self.cluster.kill_api()
        try:
            current = lambda: [value for _, _, value in daemon.metrics("gcwatch_kubernetes_current")]
            lab.until("metadata is reported as not current", lambda: current() == [0.0], 60)
            before = {each["pid"]: each["collections"] for each in daemon.targets()}
            time.sleep(AWAY)
            after = daemon.targets()
            states = {each["pid"]: (each["state"], lab.told(each)) for each in after}
            self.assertEqual({pid: told for pid, (state, told) in states.items() if state == "attached"}, known, states)
            for each in after:
                self.assertGreater(each["collections"], before[each["pid"]])
        finally:
            self.cluster.start_api()
        lab.until("the node is ready", self.cluster._node_is_ready)
        self.cluster.apply(lab.pod("late", lab.container("main", any_runtime())), namespace=lab.APPS)
        late = lab.running("late")
        # gcwatch retries the API server at intervals of up to one minute.
        target = self.daemon.attached("late", patience=150)
        self.assertEqual(lab.told(target), lab.expected(late, "main"))
        lab.until("metadata is reported as current", lambda: current() == [1.0], 90)
        self.assertEqual(self.daemon.pod()["status"]["containerStatuses"][0]["restartCount"], pod["status"]["containerStatuses"][0]["restartCount"])
        self.cluster.kubectl("delete", "--namespace", lab.APPS, "pod/late", "--grace-period=1")
