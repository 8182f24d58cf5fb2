"""Installs the chart and every overlay on the cluster, uses gcwatch, and removes the installation."""

import json
import unittest
import urllib.request

import images
import lab
import node
import policy
import tools

HTTP = "app.kubernetes.io/name=gcwatch,app.kubernetes.io/component=daemon"


class Install(unittest.TestCase):
    def setUp(self):
        self.cluster = lab.cluster()
        self.before = self.cluster.objects()
        self.daemon = lab.Daemon(selector=HTTP)

    def no_trace(self):
        """Asserts that the API server contains the same objects as before the installation."""
        gone = lambda: self.cluster.objects() == self.before
        try:
            lab.until("everything is removed", gone, 60, 0.5)
        except AssertionError:
            self.assertEqual(self.cluster.objects() - self.before, set())
            raise

    def works(self):
        """Asserts that gcwatch is Ready and answers, that its container was never restarted and never reached its
        memory limit of 256 MiB, and that `doctor` runs in the container. Returns the peak memory of the container in
        bytes, including `doctor`."""
        said = self.cluster.kubectl("--namespace", "gcwatch", "rollout", "status", "daemonset/gcwatch", "--timeout=100s")
        self.assertIn("successfully rolled out", said)
        pod = lab.until("a ready pod", self.daemon.ready)
        (status,) = pod["status"]["containerStatuses"]
        self.assertEqual(status["restartCount"], 0)
        container = pod["spec"]["containers"][0]
        self.assertEqual(container["resources"]["limits"], {"memory": "256Mi"})
        self.assertEqual(self.daemon.get("/livez").split()[0], "ok")
        doctor = self.cluster.kubectl("--namespace", "gcwatch", "exec", "daemonset/gcwatch", "--", "/gcwatch", "doctor", check=False)
        self.assertIn(doctor.returncode, (0, 1), doctor.stderr)
        usage, hits = self.daemon.memory()
        self.assertEqual(hits, 0)
        return usage

    def test_1_chart(self):
        """Scenario: the packed chart is installed as docs/kubernetes.md describes, with the image that was loaded into
        the node, and then uninstalled.
        Guarantee: gcwatch is Ready and stays below its memory limit, `doctor` runs in its container, the notes contain
        the command for the rollout status, and no object remains."""
        self.cluster.kubectl("create", "namespace", "gcwatch")
        self.cluster.kubectl("label", "namespace", "gcwatch", "pod-security.kubernetes.io/enforce=privileged")
        notes = self.cluster.helm("install", "gcwatch", lab.chart(), "--namespace", "gcwatch", "--set", "image.registry=localhost")
        self.assertIn("rollout status daemonset/gcwatch", notes)
        used = self.works()
        self.cluster.helm("uninstall", "gcwatch", "--namespace", "gcwatch", "--wait")
        self.cluster.kubectl("delete", "namespace", "gcwatch")
        self.no_trace()
        print(f"chart: {used / 2**20:.0f} MiB", end=" ", flush=True)

    def test_2_chart_is_refused_without_the_label(self):
        """Scenario: a namespace enforces `baseline`.
        Guarantee: no pod is created, and the event names the violated rules."""
        self.cluster.kubectl("create", "namespace", "gcwatch")
        self.cluster.kubectl("label", "namespace", "gcwatch", "pod-security.kubernetes.io/enforce=baseline")
        self.cluster.helm("install", "gcwatch", lab.chart(), "--namespace", "gcwatch", "--set", "image.registry=localhost")
        self.addCleanup(self.cluster.kubectl, "delete", "namespace", "gcwatch", "--ignore-not-found")
        refused = lambda: [each["message"] for each in self.cluster.get("events", "--namespace", "gcwatch")["items"] if "PodSecurity" in each["message"]]
        said = lab.until("an event of the refusal", refused)[0]
        self.assertIn("hostPID=true", said)
        self.assertEqual(self.cluster.pods("gcwatch"), [])
        self.cluster.helm("uninstall", "gcwatch", "--namespace", "gcwatch")
        self.cluster.kubectl("delete", "namespace", "gcwatch")
        self.no_trace()

    def overlay(self, folder, check):
        self.cluster.kubectl("apply", "--kustomize", folder)
        try:
            check()
        finally:
            self.cluster.kubectl("delete", "--kustomize", folder, "--wait", "--timeout=120s")
        self.no_trace()

    def test_3_plain(self):
        """Scenario: overlays/plain is installed without components, and with each of three components.
        Guarantee: gcwatch is Ready and stays below its memory limit, `doctor` runs in its container, and no object
        remains."""
        components = [(), ("without-api-server",), ("host-processes",), ("state-on-host",)]
        for chosen in components:
            with self.subTest(components=chosen):
                self.overlay(lab.kustomization(*chosen), self.works)

    def test_4_servicemonitor(self):
        """Scenario: overlays/plain is installed with the ServiceMonitor, and the operator's definitions exist.
        Guarantee: gcwatch works, the API server keeps `honorLabels` of the ServiceMonitor, and no object remains."""
        definitions = tools.folder("operator", "prometheus_operator")
        at = definitions / "servicemonitors.yaml"
        self.cluster.kubectl("apply", "--server-side", "--filename", at)
        self.addCleanup(self.cluster.kubectl, "delete", "--ignore-not-found", "--filename", at)
        lab.until("the definition is served", lambda: self.cluster.kubectl("get", "servicemonitors", "--all-namespaces", check=False).returncode == 0)
        self.before = self.cluster.objects()

        def check():
            self.works()
            (monitor,) = self.cluster.get("servicemonitors", "--namespace", "gcwatch")["items"]
            self.assertTrue(monitor["spec"]["endpoints"][0]["honorLabels"])

        self.overlay(lab.kustomization("servicemonitor"), check)

    def test_5_sidecar(self):
        """Scenario: overlays/sidecar is installed; the image that the overlay names is a .NET 10 application.
        Guarantee: gcwatch reads the process as a non-root user without capabilities, and the process has its pod,
        service and container."""
        if not images.is_there("net10"):
            self.skipTest("no .NET 10")
        self.cluster._ctr("images", "tag", "--force", "localhost/net10:1.0", "docker.io/library/shop:1.0.0")
        folder = lab.kustomization(overlay="sidecar")
        text = (folder / "deployment.yaml").read_text()
        # The workload exits when its standard input ends.
        (folder / "deployment.yaml").write_text(text.replace("image: shop:1.0.0", "image: shop:1.0.0\n          stdin: true"))

        def check():
            self.cluster.kubectl("rollout", "status", "deployment/shop", "--timeout=100s")
            daemon = lab.Daemon("default", "app.kubernetes.io/name=shop")
            seen = lambda: [each for each in daemon.targets() if each["state"] == "attached" and each["collections"]]
            (target,) = lab.until("the sidecar reads the application", seen)
            pod = daemon.pod()
            self.assertEqual(target["resource"]["k8s.pod.name"], pod["metadata"]["name"])
            self.assertEqual(target["resource"]["service.name"], "shop")
            self.assertEqual(target["resource"]["k8s.container.name"], "shop")

        self.overlay(folder, check)

    def test_6_with_collector(self):
        """Scenario: overlays/with-collector is installed. A real Collector replaces the Collector image. The backend is
        a real Jaeger with the configuration of deploy/jaeger, and accepts only traces.
        Guarantee: all pods are Ready, and Jaeger finds the traces of a pod's collections with the attributes of that
        pod."""
        programs = {
            "docker.io/otel/opentelemetry-collector:0.161.0": node.receivers.binary("collector", "otelcol"),
            "localhost/jaeger:1.0": node.receivers.binary("jaeger", "jaeger"),
        }
        if not all(programs.values()):
            lab.not_shown("overlays/with-collector with a real Collector and Jaeger: tests/e2e/build collector jaeger has not built them")
            self.skipTest("no Collector or no Jaeger")
        for name, program in programs.items():
            self.cluster.load(lambda at: images.program(at, name, program))
        folder = lab.kustomization(overlay="with-collector")
        # Set the backend as the overlay's comment describes.
        at = folder / "collector-deployment.yaml"
        at.write_text(at.read_text().replace("backend.example:4317", f"jaeger.{lab.APPS}.svc.cluster.local:4317"))
        self.cluster.apply(*jaeger(), lab.pod("seen", lab.container("main", any_runtime())), namespace=lab.APPS)
        self.addCleanup(self.cluster.kubectl, "delete", "pod/seen", "pod/jaeger", "service/jaeger", "configmap/jaeger", "--namespace", lab.APPS, "--ignore-not-found")
        pod, backend = lab.running("seen"), lab.running("jaeger")
        self.before = self.cluster.objects()

        def check():
            self.works()
            self.cluster.kubectl("--namespace", "gcwatch", "rollout", "status", "deployment/collector", "--timeout=100s")
            service = self.daemon.attached("seen")["resource"]["service.name"]
            query = f"http://{backend['status']['podIP']}:16686/api/traces?service={service}&limit=20&lookback=1h"

            def traces():
                with urllib.request.urlopen(query, timeout=10) as answer:
                    return json.loads(answer.read())["data"]

            (trace, *_) = lab.until("traces of the pod in Jaeger", traces)
            (process,) = trace["processes"].values()
            said = {tag["key"]: tag["value"] for tag in process["tags"]}
            for key, value in lab.expected(pod, "main").items():
                self.assertEqual(said.get(key), json.dumps(value, separators=(",", ":")) if isinstance(value, list) else value, key)
            self.assertTrue(any(span["operationName"].startswith("GC gen") for span in trace["spans"]), trace["spans"])

        self.overlay(folder, check)

    def test_7_kubelet(self):
        """Scenario: the chart is installed with the kubelet as the source of metadata; the kubelet asks the API server
        whether gcwatch may read its pods.
        Guarantee: all attributes are the same as with the API server. The account may read nodes/pods and may not list
        pods."""
        self.cluster.kubectl("create", "namespace", "gcwatch")
        self.addCleanup(self.cluster.kubectl, "delete", "namespace", "gcwatch", "--ignore-not-found")
        self.cluster.kubectl("label", "namespace", "gcwatch", "pod-security.kubernetes.io/enforce=privileged")
        source = ["--set", "kubernetes.metadata=kubelet", "--set", "config.data.kubernetes.metadata=kubelet"]
        self.cluster.helm("install", "gcwatch", lab.chart(), "--namespace", "gcwatch", "--set", "image.registry=localhost", *source)
        self.addCleanup(self.cluster.kubectl, "delete", "pod", "seen", "--namespace", lab.APPS, "--ignore-not-found", "--grace-period=1")
        self.cluster.apply(lab.pod("seen", lab.container("main", any_runtime())), namespace=lab.APPS)
        pod = lab.running("seen")
        self.works()
        self.assertEqual(lab.told(self.daemon.attached("seen")), lab.expected(pod, "main"))
        account = "--as=system:serviceaccount:gcwatch:gcwatch"
        self.assertEqual(self.cluster.kubectl("auth", "can-i", "list", "pods", "--all-namespaces", account, check=False).stdout.strip(), "no")
        self.assertEqual(self.cluster.kubectl("auth", "can-i", "get", "nodes", "--subresource=pods", account, check=False).stdout.strip(), "yes")
        self.cluster.kubectl("delete", "pod", "seen", "--namespace", lab.APPS, "--grace-period=1")
        self.cluster.helm("uninstall", "gcwatch", "--namespace", "gcwatch", "--wait")
        self.cluster.kubectl("delete", "namespace", "gcwatch")
        self.no_trace()

    def test_8_network_policy(self):
        """Scenario: overlays/plain is installed, its NetworkPolicy is enforced, and gcwatch is restarted under the
        policy.
        Guarantee: gcwatch is Ready and gets the names of a pod from the API server. Pods in the namespace `monitoring`
        can reach gcwatch's listener, and an application pod cannot. gcwatch can reach the API server but no
        application."""
        if not policy.can_enforce():
            lab.not_shown("a NetworkPolicy that is enforced: nft(8) or filters on bridges are not there")
            self.skipTest("no nft")
        monitoring = {"metadata": {"name": "monitoring"}}
        self.cluster.apply({"apiVersion": "v1", "kind": "Namespace", **monitoring})
        self.addCleanup(self.cluster.kubectl, "delete", "namespace", "monitoring", "--ignore-not-found")
        lab.until("the account of pods", lambda: self.cluster.ask("GET", "/api/v1/namespaces/monitoring/serviceaccounts/default"))
        for namespace in ("monitoring", lab.APPS):
            self.cluster.apply(lab.pod("seen", lab.container("main", any_runtime())), namespace=namespace)
        self.addCleanup(self.cluster.kubectl, "delete", "pod", "seen", "--namespace", lab.APPS, "--ignore-not-found", "--grace-period=1")
        scraper, application = lab.running("seen", "monitoring"), lab.running("seen")
        self.addCleanup(policy.lift)
        self.before = self.cluster.objects()

        def check():
            self.works()
            (enforced,) = self.cluster.get("networkpolicies", "--namespace", "gcwatch")["items"]
            gcwatch = self.daemon.pod()
            policy.enforce(enforced)
            restarts = gcwatch["status"]["containerStatuses"][0]["restartCount"]
            (status,) = gcwatch["status"]["containerStatuses"]
            self.cluster._ctr("tasks", "kill", "--signal", "SIGTERM", status["containerID"].removeprefix("containerd://"))
            again = lambda: self.daemon.pod()["status"]["containerStatuses"][0]["restartCount"] > restarts and self.daemon.ready()
            lab.until("its container was started again", again)
            self.assertEqual(lab.told(self.of_application()), lab.expected(application, "main"))
            listener, own = gcwatch["status"]["podIP"], self.daemon.pod()
            self.assertEqual(policy.connects(scraper, listener, 9464), "open")
            self.assertEqual(policy.connects(scraper, listener, 9465), "dropped")
            self.assertEqual(policy.connects(application, listener, 9464), "dropped")
            self.assertEqual(policy.connects(own, application["status"]["podIP"], 8080), "dropped")
            self.assertEqual(policy.connects(own, node.API, 443), "open")
            policy.lift()
            self.assertEqual(policy.connects(own, application["status"]["podIP"], 8080), "refused")

        self.overlay(lab.kustomization(), check)

    def of_application(self):
        """Waits until the process of the application pod `seen` is read, and returns it."""
        def seen():
            found = [each for each in self.daemon.of("seen") if each["resource"].get("k8s.namespace.name") == lab.APPS]
            return [each for each in found if each["state"] == "attached" and each["collections"]]

        return lab.until("gcwatch attached to seen", seen)[0]


def any_runtime():
    return next(name for name in ("net8", "net10", "net9", "core31") if images.is_there(name))


def jaeger():
    """Returns the objects of Jaeger: its ConfigMap with the configuration of deploy/jaeger, the service `jaeger`, and
    the pod."""
    config = (tools.DEPLOY / "jaeger" / "jaeger.yaml").read_text()
    command = {"name": "jaeger", "image": "localhost/jaeger:1.0", "imagePullPolicy": "Never", "args": ["--config=/etc/jaeger/jaeger.yaml"]}
    command["volumeMounts"] = [{"name": "config", "mountPath": "/etc/jaeger"}, {"name": "tmp", "mountPath": "/tmp"}]
    # By default, Jaeger's query service listens on loopback.
    served = config.replace("  jaeger_query:\n", "  jaeger_query:\n    http:\n      endpoint: 0.0.0.0:16686\n")
    pod = lab.pod("jaeger", command, labels={"app": "jaeger"})
    pod["spec"]["volumes"].append({"name": "config", "configMap": {"name": "jaeger"}})
    return [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "jaeger"}, "data": {"jaeger.yaml": served}},
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "jaeger"}, "spec": {"clusterIP": "None", "selector": {"app": "jaeger"}, "ports": [{"port": 4317}]}},
        pod,
    ]
