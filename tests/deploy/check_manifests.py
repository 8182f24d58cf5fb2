"""Kubernetes manifests: strictly valid for each supported version, with the minimum privileges that work."""

import json
import os
import tempfile
import unittest

import tools

# Versions for which the manifests are made: from the oldest supported version to the newest that kubernetes-validate
# knows.
VERSIONS = ["1.29", "1.30", "1.31", "1.32", "1.33", "1.34", "1.35", "1.36", "1.37"]
# Manifests with fields of later versions, as stated in the comments at these fields.
SINCE = {"overlays/plain+host-processes": "1.30", "overlays/with-collector+servicemonitor+without-api-server+host-processes": "1.30", "collector": "1.30"}
MONITORING = "monitoring.coreos.com/v1"


def setUpModule():
    global _folder
    _folder = tempfile.TemporaryDirectory(prefix="gcw-deploy.")
    os.environ["GCWATCH_DEPLOY_FOLDER"] = _folder.name


def tearDownModule():
    _folder.cleanup()


def everything():
    """Returns all objects that are built from deploy/, by name."""
    made = {place: tools.kustomized(place) for place in tools.KUSTOMIZED}
    return made | {case: tools.rendered(case) for case in tools.cases()}


def strict(schema):
    """Returns a definition that rejects unknown fields."""
    if isinstance(schema, dict):
        made = {key: strict(value) for key, value in schema.items()}
        if "properties" in schema and "additionalProperties" not in schema and not schema.get("x-kubernetes-preserve-unknown-fields"):
            made["additionalProperties"] = False
        return made
    return [strict(each) for each in schema] if isinstance(schema, list) else schema


def daemonsets():
    for name, text in everything().items():
        for each in tools.documents(text):
            if each["kind"] == "DaemonSet":
                yield name, each, tools.documents(text)


class Manifests(unittest.TestCase):
    def test_valid(self):
        """Scenario: all outputs of kustomize and helm are validated for each version.
        Guarantee: no key is unknown, no type is wrong, and no required field is missing."""
        try:
            import kubernetes_validate
        except ImportError:
            tools.left_out("kubernetes-validate is missing: tests/deploy/build python")
        checked = 0
        for name, text in everything().items():
            for version in VERSIONS:
                if [int(part) for part in version.split(".")] < [int(part) for part in SINCE.get(name, "1.0").split(".")]:
                    continue
                for each in tools.documents(text):
                    if each["apiVersion"] == MONITORING:
                        continue
                    with self.subTest(name=name, version=version, kind=each["kind"]):
                        self.assertEqual(kubernetes_validate.validate(each, version, strict=True), version)
                        checked += 1
        self.assertGreater(checked, 300)

    def test_validation_refuses(self):
        """Scenario: a type is wrong, a key is unknown, or a field is from a later version.
        Guarantee: validation fails."""
        try:
            import kubernetes_validate
        except ImportError:
            tools.left_out("kubernetes-validate is missing: tests/deploy/build python")
        _, daemonset, _ = next(daemonsets())
        for spoil in (
            lambda pod: pod.update(hostPID="yes"),
            lambda pod: pod.update(hostPid=True),
            lambda pod: pod["containers"][0]["securityContext"].update(appArmorProfile={"type": "Unconfined"}),
        ):
            spoiled = json.loads(json.dumps(daemonset))
            spoil(spoiled["spec"]["template"]["spec"])
            with self.assertRaises(kubernetes_validate.ValidationError):
                kubernetes_validate.validate(spoiled, "1.29", strict=True)

    def test_operator(self):
        """Scenario: the ServiceMonitors and PrometheusRules are validated.
        Guarantee: the objects match the operator's definitions and have no unknown keys."""
        import jsonschema

        folder = tools.folder("operator", "prometheus_operator")
        schemas = {}
        for path in folder.glob("*.yaml"):
            (definition,) = tools.documents(path.read_text())
            (version,) = [each for each in definition["spec"]["versions"] if each["name"] == "v1"]
            schema = strict(version["schema"]["openAPIV3Schema"])
            schema["properties"]["metadata"] = {"type": "object"}
            schemas[definition["spec"]["names"]["kind"]] = schema
        kinds = set()
        for name, text in everything().items():
            for each in tools.documents(text):
                if each["apiVersion"] == MONITORING:
                    with self.subTest(name=name, kind=each["kind"]):
                        jsonschema.Draft7Validator(schemas[each["kind"]]).validate(each)
                        kinds.add(each["kind"])
        self.assertEqual(kinds, {"ServiceMonitor", "PrometheusRule"})

    def test_least_privilege(self):
        """Scenario: each DaemonSet is compared with an ordinary pod.
        Guarantee: the DaemonSet adds only the two capabilities and hostPID; the only host path is the path that the
        component `state-on-host` names, and the image's file system is read-only."""
        count = 0
        for name, daemonset, _ in daemonsets():
            with self.subTest(name=name):
                count += 1
                pod = daemonset["spec"]["template"]["spec"]
                (container,) = pod["containers"]
                context = container["securityContext"]
                self.assertEqual(context["capabilities"], {"drop": ["ALL"], "add": ["SYS_PTRACE", "DAC_OVERRIDE"]})
                self.assertIs(context["privileged"], False)
                self.assertIs(context["allowPrivilegeEscalation"], False)
                self.assertIs(context["readOnlyRootFilesystem"], True)
                self.assertEqual(pod["securityContext"]["seccompProfile"], {"type": "RuntimeDefault"})
                self.assertIs(pod["hostPID"], True)
                # A pod with `hostUsers: false` must not have hostPID.
                self.assertIs(pod["hostUsers"], True)
                self.assertFalse({"hostNetwork", "hostIPC", "initContainers"} & pod.keys())
                paths = [volume["hostPath"]["path"] for volume in pod["volumes"] if "hostPath" in volume]
                self.assertEqual(paths, ["/var/lib/gcwatch"] if name.endswith("state-on-host") else [])
                for volume in pod["volumes"]:
                    self.assertEqual(len(volume), 2, volume)
                for mount in container["volumeMounts"]:
                    self.assertNotIn("subPath", mount)
                    self.assertTrue(mount.get("readOnly") or mount["mountPath"] in ("/run", "/var/lib/gcwatch"), mount)
                self.assertNotIn("cpu", container["resources"]["limits"])
                for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
                    self.assertEqual(container[probe]["httpGet"]["port"], "http")
                    self.assertIn(container[probe]["httpGet"]["path"], ("/livez", "/readyz"))
        self.assertEqual(count, len(tools.KUSTOMIZED) - 1 + len(tools.cases()))

    def test_sidecar(self):
        """Scenario: the sidecar manifest is inspected.
        Guarantee: the sidecar has no capability and no host namespace; both containers run as one user and share /tmp
        and the processes."""
        (deployment,) = [each for each in tools.documents(tools.kustomized("overlays/sidecar")) if each["kind"] == "Deployment"]
        pod = deployment["spec"]["template"]["spec"]
        self.assertFalse({"hostPID", "hostNetwork", "hostIPC"} & pod.keys())
        self.assertIs(pod["shareProcessNamespace"], True)
        self.assertIs(pod["securityContext"]["runAsNonRoot"], True)
        for container in pod["containers"] + pod["initContainers"]:
            self.assertEqual(container["securityContext"]["capabilities"], {"drop": ["ALL"]})
            self.assertFalse({"runAsUser", "runAsGroup"} & container["securityContext"].keys())
            self.assertIn({"name": "tmp", "mountPath": "/tmp"}, container["volumeMounts"])

    def test_rights(self):
        """Scenario: gcwatch's rights at the API server are inspected.
        Guarantee: the rights allow listing and watching pods, and nothing if metadata is off. The token is mounted only
        with metadata."""
        for name, daemonset, all_of_it in daemonsets():
            with self.subTest(name=name):
                roles = [each for each in all_of_it if each["kind"] in ("ClusterRole", "Role")]
                asks = "without-api-server" not in name and name != "node-collector"
                rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]}]
                self.assertEqual([role["rules"] for role in roles], [rules] if asks else [])
                self.assertIs(daemonset["spec"]["template"]["spec"]["automountServiceAccountToken"], asks)

    def test_kubelet(self):
        """Scenario: metadata comes from the kubelet instead of the API server.
        Guarantee: the rights allow reading nodes/pods and nothing else."""
        helm = tools.folder("helm", "helm") / "helm"
        text = tools.run(helm, "template", "g", tools.CHART, "--kube-version", "1.34.0", "--set", "image.registry=localhost,kubernetes.metadata=kubelet,networkPolicy.egress[0].ports[0].port=4317")
        (role,) = [each for each in tools.documents(text) if each["kind"] == "ClusterRole"]
        self.assertEqual(role["rules"], [{"apiGroups": [""], "resources": ["nodes/pods"], "verbs": ["get"]}])
        self.assertIn("value: https://$(HOST_IP):10250", text)
        self.assertNotIn("6443", text)

    def test_network(self):
        """Scenario: the chart's NetworkPolicy is rendered by default, with an empty list of destinations, and with one
        destination.
        Guarantee: the policy exists; it allows ingress to the port from the named clients; egress is open by default
        and restricted by a list."""
        helm = tools.folder("helm", "helm") / "helm"

        def policy(*words):
            text = tools.run(helm, "template", "g", tools.CHART, "--kube-version", "1.34.0", "--set", "image.registry=localhost", *words)
            (found,) = [each["spec"] for each in tools.documents(text) if each["kind"] == "NetworkPolicy"]
            return found

        spec = policy()
        self.assertEqual(spec["policyTypes"], ["Ingress"])
        self.assertNotIn("egress", spec)
        (rule,) = spec["ingress"]
        self.assertEqual(rule["ports"], [{"port": 9464, "protocol": "TCP"}])
        self.assertEqual(rule["from"], [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}])
        spec = policy("--set", "networkPolicy.egress[0].ports[0].port=4317")
        self.assertEqual(spec["policyTypes"], ["Ingress", "Egress"])
        self.assertEqual([[port["port"] for port in rule["ports"]] for rule in spec["egress"]], [[53, 53], [443, 6443], [4317]])
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as values:
            values.write("networkPolicy: {egress: []}\n")
            values.flush()
            self.assertEqual(len(policy("--values", values.name)["egress"]), 2)

    def test_nodes(self):
        """Scenario: the node selection of each DaemonSet is inspected.
        Guarantee: each DaemonSet selects Linux nodes only, and no node of a serverless or sandboxed pool."""
        for name, daemonset, _ in daemonsets():
            with self.subTest(name=name):
                pod = daemonset["spec"]["template"]["spec"]
                self.assertEqual(pod["nodeSelector"], {"kubernetes.io/os": "linux"})
                (term,) = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
                refused = {each["key"]: each["values"] for each in term["matchExpressions"] if each["operator"] == "NotIn"}
                self.assertEqual(refused, {"eks.amazonaws.com/compute-type": ["fargate"], "type": ["virtual-kubelet"], "sandbox.gke.io/runtime": ["gvisor"]})

    def test_selected(self):
        """Scenario: services, policies and monitors are compared with the pods.
        Guarantee: each of them selects exactly its pods or services."""
        for name, text in everything().items():
            made = tools.documents(text)
            pods = [each["spec"]["template"]["metadata"]["labels"] for each in made if each["kind"] in ("DaemonSet", "Deployment")]
            services = [each["metadata"]["labels"] for each in made if each["kind"] == "Service" and "labels" in each["metadata"]]
            for each in made:
                spec = each.get("spec", {})
                selector = spec.get("selector") or spec.get("podSelector")
                if each["kind"] == "ServiceMonitor":
                    candidates, selector = services, selector["matchLabels"]
                elif each["kind"] in ("Service", "NetworkPolicy", "DaemonSet", "Deployment"):
                    candidates, selector = pods, selector.get("matchLabels", selector)
                else:
                    continue
                with self.subTest(name=name, kind=each["kind"]):
                    chosen = [labels for labels in candidates if selector.items() <= labels.items()]
                    self.assertEqual(len(chosen), 1)

    def test_monitors_keep_the_labels_of_processes(self):
        """Scenario: each ServiceMonitor and the scrape configuration are inspected.
        Guarantee: honor_labels is on, as docs/telemetry.md requires."""
        for name, text in everything().items():
            for each in tools.documents(text):
                if each["kind"] == "ServiceMonitor":
                    self.assertTrue(all(endpoint["honorLabels"] for endpoint in each["spec"]["endpoints"]), name)
        (scrape,) = tools.documents((tools.DEPLOY / "prometheus" / "prometheus.yaml").read_text())
        self.assertTrue(all(job["honor_labels"] for job in scrape["scrape_configs"]))


if __name__ == "__main__":
    unittest.main()
