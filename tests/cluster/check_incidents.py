"""Pods in trouble: the incidents that gcwatch reports, and their way to the on-call engineer."""

import json
import re
import shutil
import unittest
import urllib.parse
import urllib.request

import images
import lab
import node
import tools

# The heap limit is 96 MiB; the workload keeps up to 256 MB.
SMALL_HEAP = [("DOTNET_GCHeapHardLimit", "0x6000000"), ("COMPlus_GCHeapHardLimit", "0x6000000")]
# The heap limit of 512 MiB exceeds the container's memory limit, so the kernel kills the process first.
WIDE_HEAP = [("DOTNET_GCHeapHardLimit", "0x20000000"), ("COMPlus_GCHeapHardLimit", "0x20000000")]


def any_runtime():
    return next(name for name in ("net8", "net10", "net9", "core31") if images.is_there(name))


class Incidents(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = lab.cluster()
        cls.cluster.kubectl("apply", "--kustomize", lab.kustomization())
        cls.addClassCleanup(cls.cluster.kubectl, "delete", "--kustomize", lab.kustomization(), "--wait", "--timeout=120s")
        cls.daemon = lab.Daemon()
        lab.until("gcwatch is ready", cls.daemon.ready)
        cls.addClassCleanup(cls.cluster.kubectl, "delete", "--namespace", lab.APPS, "all", "--all", "--grace-period=1")

    def incident(self, pod, rule, patience=lab.PATIENCE):
        """Waits for the incident of a pod that contains this rule, and returns it."""
        def found():
            of = [each for each in self.daemon.incidents(pod) if rule in [member["rule"] for member in each["members"]]]
            return of and of[0]

        return lab.until(f"an incident of {pod} with {rule}", found, patience)

    def check_place(self, incident, pod, container, without=()):
        """Asserts that the Kubernetes and container attributes of an incident equal the attributes of the pod, except
        for the attributes in `without`, which must be absent. Lists are comma-separated text."""
        place = {key: value for key, value in incident["resource"].items() if key.startswith(("k8s.", "container."))}
        expected = lab.expected(pod, container)
        expected = {key: value if isinstance(value, str) else ",".join(value) for key, value in expected.items() if key not in without}
        self.assertEqual(place, expected)

    def test_1_loh_to_pager(self):
        """Scenario: the large object heap of a pod is exhausted. A real Prometheus scrapes gcwatch's pod like the
        ServiceMonitor, with the shipped rules, and a real Alertmanager receives its alerts.
        Guarantee: the incident names pod and container. The target has the node's name and no labels of gcwatch's own
        pod. The alert in the Alertmanager has the symptom, the pod and the namespace, and ends after the pod is
        deleted."""
        self.cluster.apply(lab.pod("hoarder", lab.container("main", any_runtime(), "lohoos", knobs=SMALL_HEAP)), namespace=lab.APPS)
        pod = lab.running("hoarder")
        incident = self.incident("hoarder", "memory.exhausted")
        self.assertIn(incident["severity"], ("error", "critical"))
        self.check_place(incident, pod, "main")
        pager = Pager(self)
        (target,) = lab.until("the target of the ServiceMonitor is scraped", lambda: pager.query('up{job="gcwatch"} == 1'))
        self.assertEqual((target["metric"].get("node"), target["metric"].get("pod")), (node.NODE, None))
        (alert,) = lab.until("the alert at the Alertmanager", lambda: pager.alerts(gcwatch_incident_symptom="memory.exhausted"))
        self.assertEqual(alert["labels"]["alertname"], "DotnetGcIncident")
        self.assertEqual(alert["labels"].get("k8s_pod_name"), "hoarder", alert)
        self.assertEqual(alert["labels"].get("k8s_namespace_name"), lab.APPS, alert)
        self.cluster.kubectl("delete", "--namespace", lab.APPS, "pod/hoarder", "--grace-period=1")
        # The incident ends when the pod is deleted.
        lab.until("the alert ends", lambda: not pager.alerts(gcwatch_incident_symptom="memory.exhausted"), 120)

    def test_2_killed_by_the_kernel(self):
        """Scenario: a pod grows beyond its memory limit until the kernel kills it.
        Guarantee: Kubernetes reports OOMKilled, and gcwatch reports an incident of the service. The incident has the
        namespace, the node and the container but no pod, because a service outlives its pods."""
        container = lab.container("main", any_runtime(), "leak", knobs=WIDE_HEAP)
        container["resources"] = {"requests": {"memory": "64Mi"}, "limits": {"memory": "128Mi"}}
        self.cluster.apply(lab.pod("doomed", container), namespace=lab.APPS)

        def killed():
            pod = self.cluster.ask("GET", f"/api/v1/namespaces/{lab.APPS}/pods/doomed")
            statuses = pod["status"].get("containerStatuses") or [{}]
            return statuses[0].get("state", {}).get("terminated") and pod

        pod = lab.until("the pod's end", killed)
        self.assertEqual(pod["status"]["containerStatuses"][0]["state"]["terminated"]["reason"], "OOMKilled")
        found = lambda: [each for each in self.daemon.ask("incidents")["incidents"] if each["service"] == "doomed" and each["rule"] == "service.oom-killed"]
        (incident,) = lab.until("an incident of the service", found)
        self.check_place(incident, pod, "main", without=("k8s.pod.name", "k8s.pod.uid", "container.id"))


class Pager:
    """Prometheus with the shipped rules, and its Alertmanager, on the node."""

    def __init__(self, test):
        folder = test.cluster.folder / "pager"
        folder.mkdir()
        alertmanager = node.receivers.cache() / "prometheus-alertmanager"
        prometheus = node.receivers.binary("prometheus", "prometheus")
        if not prometheus or not (alertmanager / "alertmanager").exists():
            lab.not_shown("Prometheus and Alertmanager: tests/e2e/build prometheus and tests/alertmanager/fetch have not made them")
            test.skipTest("no Prometheus or no Alertmanager")
        (folder / "alertmanager.yml").write_text("route: {receiver: nobody, group_wait: 1s}\nreceivers: [{name: nobody}]\n")
        # The Alertmanager reads its templates from its working directory.
        shutil.copytree(alertmanager, folder / "run")
        command = [f"--config.file={folder}/alertmanager.yml", f"--storage.path={folder}/alertmanager", "--cluster.listen-address="]
        self.alertmanager = node.receivers.Process("alertmanager", ["./alertmanager", *command, "--web.listen-address=127.0.0.1:9093"], folder / "run")
        rules = tools.DEPLOY / "prometheus" / "gcwatch.rules.yaml"
        (folder / "prometheus.yml").write_text(f"""
global: {{scrape_interval: 2s, evaluation_interval: 2s}}
rule_files: [{rules}]
alerting: {{alertmanagers: [{{static_configs: [{{targets: ['127.0.0.1:9093']}}]}}]}}
scrape_configs: {json.dumps([scrape_config(test.daemon.pod())])}
""")
        command = [f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data", "--web.listen-address=127.0.0.1:9090"]
        self.prometheus = node.receivers.Process("prometheus", [prometheus, *command], folder)
        test.addCleanup(self.prometheus.stop)
        test.addCleanup(self.alertmanager.stop)

    def query(self, expression):
        asked = urllib.parse.urlencode({"query": expression})
        with urllib.request.urlopen(f"http://127.0.0.1:9090/api/v1/query?{asked}", timeout=10) as answer:
            return json.loads(answer.read())["data"]["result"]

    def alerts(self, **labels):
        with urllib.request.urlopen("http://127.0.0.1:9093/api/v2/alerts", timeout=10) as answer:
            found = json.loads(answer.read())
        active = [each for each in found if each["status"]["state"] == "active"]
        return [each for each in active if all(each["labels"].get(key) == value for key, value in labels.items())]


def scrape_config(pod):
    """Returns the scrape configuration that the operator derives from components/servicemonitor, with gcwatch's pod
    instead of service discovery."""
    text = (tools.DEPLOY / "kustomize" / "components" / "servicemonitor" / "servicemonitor.yaml").read_text()
    (monitor,) = tools.documents(text)
    (endpoint,) = monitor["spec"]["endpoints"]
    (port,) = [each["containerPort"] for each in pod["spec"]["containers"][0]["ports"] if each["name"] == endpoint["port"]]
    snake = lambda name: re.sub("[A-Z]", lambda found: f"_{found[0].lower()}", name)
    metadata = pod["metadata"]
    labels = {"__meta_kubernetes_pod_node_name": pod["spec"]["nodeName"]}
    # The operator adds these labels to each target.
    labels |= {"namespace": metadata["namespace"], "pod": metadata["name"], "container": "gcwatch", "endpoint": endpoint["port"], "service": "gcwatch"}
    return {
        "job_name": "gcwatch",
        "honor_labels": endpoint["honorLabels"],
        "static_configs": [{"targets": [f"{pod['status']['podIP']}:{port}"], "labels": labels}],
        "relabel_configs": [{snake(key): value for key, value in each.items()} for each in endpoint["relabelings"]],
    }
