""".NET pods as users deploy them. gcwatch reads the process of each pod, or reports the reason for not reading the
process; the attributes equal `kubectl get pod -o json`."""

import unittest

import images
import lab


# Returns an available runtime for tests that do not depend on the runtime.
def any_runtime():
    return next(name for name in ("net8", "net10", "net9", "core31") if images.is_there(name))


class Pods(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = lab.cluster()
        cls.cluster.kubectl("apply", "--kustomize", lab.kustomization())
        cls.addClassCleanup(cls.cluster.kubectl, "delete", "--kustomize", lab.kustomization(), "--wait", "--timeout=120s")
        cls.daemon = lab.Daemon()
        lab.until("gcwatch is ready", cls.daemon.ready)
        cls.watch = lab.Watch(cls.daemon)
        cls.watch.start()
        cls.addClassCleanup(cls.watch.over.set)
        short = lab.spec(lab.container("tick", any_runtime(), "small", 2), restartPolicy="Never")
        job = {"spec": {"template": {"spec": short}, "backoffLimit": 0}}
        metadata = {"name": "clock"}
        # The job starts at the next full minute, so other tests run first.
        cron = {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": metadata, "spec": {"schedule": "* * * * *", "jobTemplate": job}}
        cls.cluster.apply(cron, namespace=lab.APPS)
        cls.addClassCleanup(cls.cluster.kubectl, "delete", "--namespace", lab.APPS, "all", "--all", "--grace-period=1")

    def check(self, target, pod, container, owners=()):
        self.assertEqual(lab.told(target), lab.expected(pod, container, owners))

    def start(self, *documents):
        self.cluster.apply(*documents, namespace=lab.APPS)

    def remove(self, *names):
        self.cluster.kubectl("delete", "--namespace", lab.APPS, *names, "--grace-period=1", "--wait=false")

    def test_1_runtimes(self):
        """Scenario: pods of each runtime and of NativeAOT run as different users, with a read-only root, no capability
        and an emptyDir at /tmp.
        Guarantee: gcwatch reads each process without lost events. Its Kubernetes and container attributes equal the
        pod's own object, and its runtime version is known, except for .NET Core 3.1."""
        names = [name for name in images.RUNTIMES if images.is_there(name)]
        self.start(*(lab.pod(f"app-{name}", lab.container("main", name, uid=10001 + at)) for at, name in enumerate(names)))
        for at, name in enumerate(names):
            with self.subTest(runtime=name):
                pod = lab.running(f"app-{name}")
                target = self.daemon.attached(f"app-{name}")
                self.check(target, pod, "main")
                self.assertEqual(target["resource"]["service.name"], f"app-{name}")
                self.assertEqual(target["ns_pid"], 1)
                self.assertEqual(target["lost_events"] or 0, 0)
                version = images.RUNTIMES[name][0].lstrip("abcdefghijklmnopqrstuvwxyz")
                # .NET Core 3.1 does not report its version.
                if name != "core31":
                    self.assertEqual(target["runtime"], version)
        self.remove(*(f"pod/app-{name}" for name in names))

    def test_2_containers(self):
        """Scenario: one pod has an init container that runs .NET for two seconds, then two containers in a shared pid
        namespace; another pod has two containers in separate pid namespaces.
        Guarantee: each process has the attributes of its container."""
        image = any_runtime()
        two = [lab.container("front", image, uid=1001), lab.container("back", image, uid=1002)]
        init = [lab.container("prepare", image, "small", 2, uid=1003)]
        self.start(lab.pod("shared", *two, init=init, shareProcessNamespace=True), lab.pod("apart", *two))
        for name in ("shared", "apart"):
            pod = lab.running(name)
            for container in ("front", "back"):
                with self.subTest(pod=name, container=container):
                    target = self.daemon.attached(name, container)
                    self.check(target, pod, container)
                    # In a shared namespace, the first process belongs to the pod itself.
                    self.assertEqual(target["ns_pid"] == 1, name == "apart")
        pod = self.cluster.get("pod", "shared", "--namespace", lab.APPS)
        seen = [each for each in self.watch.seen.values() if each["resource"].get("k8s.container.name") == "prepare"]
        self.assertEqual(len(seen), 1)
        self.check(seen[0], pod, "prepare")
        self.assertGreater(seen[0]["collections"], 0)
        self.remove("pod/shared", "pod/apart")

    def test_3_owners(self):
        """Scenario: pods belong to a Deployment, a StatefulSet and a DaemonSet; the Deployment is updated.
        Guarantee: each process has the owners of its pod. After the update, the process of the new pod has the new
        replica set, and the process of the old pod is no longer listed."""
        image = any_runtime()
        kinds = {"Deployment": "web", "StatefulSet": "store", "DaemonSet": "agent"}
        self.start(*(lab.workload(kind, name, lab.container("main", image)) for kind, name in kinds.items()))

        def one(name, other_than=None):
            def found():
                pods = [pod for pod in self.cluster.pods(lab.APPS, f"app={name}") if "deletionTimestamp" not in pod["metadata"]]
                pods = [pod for pod in pods if pod["metadata"]["name"] != other_than]
                return pods and lab.running(pods[0]["metadata"]["name"])

            return lab.until(f"a pod of {name}", found)

        pods = {}
        for kind, name in kinds.items():
            with self.subTest(kind=kind):
                pods[name] = pod = one(name)
                owner = pod["metadata"]["ownerReferences"][0]["name"]
                owners = {"k8s.deployment.name": "web", "k8s.replicaset.name": owner} if kind == "Deployment" else {f"k8s.{kind.lower()}.name": name}
                target = self.daemon.attached(pod["metadata"]["name"])
                self.check(target, pod, "main", owners)
                self.assertEqual(target["resource"]["service.name"], name)
        self.cluster.kubectl("--namespace", lab.APPS, "set", "env", "deployment/web", "RELEASE=2")
        before = pods["web"]["metadata"]["name"]
        pod = one("web", other_than=before)
        owners = {"k8s.deployment.name": "web", "k8s.replicaset.name": pod["metadata"]["ownerReferences"][0]["name"]}
        self.assertNotEqual(owners["k8s.replicaset.name"], pods["web"]["metadata"]["ownerReferences"][0]["name"])
        self.check(self.daemon.attached(pod["metadata"]["name"]), pod, "main", owners)
        lab.until("the pod of the old replica set is forgotten", lambda: not self.daemon.of(before))
        self.remove(*(f"{kind.lower()}/{name}" for kind, name in kinds.items()))

    def test_4_reasons(self):
        """Scenario: one pod has diagnostics switched off, another has a read-only root and no volume at /tmp.
        Guarantee: the API, the metric and `doctor` report each process with its reason. The process has the attributes
        of its pod, although gcwatch cannot read it."""
        image = any_runtime()
        off = lab.container("main", image, knobs=[("DOTNET_EnableDiagnostics", "0"), ("COMPlus_EnableDiagnostics", "0")])
        pods = {"silent": ("diagnostics-off", off), "sealed": ("unwritable-directory", lab.container("main", image, tmp=False))}
        self.start(*(lab.pod(name, container) for name, (_, container) in pods.items()))
        for name, (reason, _) in pods.items():
            with self.subTest(pod=name):
                pod = lab.running(name)
                found = lambda: [each for each in self.daemon.of(name) if each["reason"] == reason]
                (target,) = lab.until(f"{name}: {reason}", found)
                self.assertEqual(target["state"], "unattachable")
                self.assertTrue(target["detail"])
                self.check(target, pod, "main")
                counted = {labels["gcwatch_target_reason"]: value for _, labels, value in self.daemon.metrics("gcwatch_targets_not_attached")}
                self.assertEqual(counted.get(reason), 1)
        doctor = self.cluster.kubectl("--namespace", "gcwatch", "exec", "daemonset/gcwatch", "--", "/gcwatch", "doctor", check=False).stdout
        for reason, _ in pods.values():
            self.assertIn(reason, doctor)
        self.remove(*(f"pod/{name}" for name in pods))

    def test_5_two_seconds(self):
        """Scenario: a CronJob starts every minute, and its process works for two seconds.
        Guarantee: gcwatch reads the process, whose attributes name the pod, the container, the job and the cron job."""
        def finished():
            pods = [pod for pod in self.cluster.get("pods", "--namespace", lab.APPS)["items"] if pod["metadata"]["name"].startswith("clock-")]
            return [pod for pod in pods if pod["status"]["phase"] == "Succeeded"]

        pod = lab.until("a pod of the cron job is done", finished, 100)[0]
        seen = lambda: [each for each in self.watch.seen.values() if each["resource"].get("k8s.pod.name") == pod["metadata"]["name"]]
        targets = lab.until("it was seen", seen, 5)
        self.assertEqual(len(targets), 1)
        job = pod["metadata"]["ownerReferences"][0]["name"]
        self.check(targets[0], pod, "tick", {"k8s.cronjob.name": "clock", "k8s.job.name": job})
        self.assertGreater(targets[0]["collections"], 0)
        self.assertEqual(targets[0]["resource"]["service.name"], "clock")
        self.cluster.kubectl("delete", "--namespace", lab.APPS, "cronjob/clock")

    def test_6_resized(self):
        """Scenario: the memory limit of a running pod is raised in place.
        Guarantee: the exported limit of the container changes; the process and its session stay the same."""
        self.start(lab.pod("grows", lab.container("main", any_runtime())))
        lab.running("grows")
        first = self.daemon.attached("grows")

        def limit():
            found = [value for _, labels, value in self.daemon.metrics("gcwatch_container_memory_limit_bytes") if labels["process_pid"] == str(first["pid"])]
            return found and found[0]

        lab.until("the limit at the start", lambda: limit() == 256 << 20)
        patch = '{"spec":{"containers":[{"name":"main","resources":{"limits":{"memory":"384Mi"}}}]}}'
        self.cluster.kubectl("patch", "--namespace", lab.APPS, "pod/grows", "--subresource=resize", "--patch", patch)
        lab.until("the limit as it was resized", lambda: limit() == 384 << 20)
        again = self.daemon.attached("grows")
        self.assertEqual((again["pid"], again["sessions"]), (first["pid"], 1))
        self.remove("pod/grows")

    def test_7_rights(self):
        """Scenario: `kubectl auth can-i --list` runs with gcwatch's account.
        Guarantee: in addition to the rights of every account, gcwatch's account may only list and watch pods."""
        listed = lambda account: set(self.cluster.kubectl("auth", "can-i", "--list", "--namespace", "gcwatch", f"--as=system:serviceaccount:gcwatch:{account}").splitlines())
        more = listed("gcwatch") - listed("nobody")
        self.assertEqual([line.split() for line in more], [["pods", "[]", "[]", "[list", "watch]"]])
