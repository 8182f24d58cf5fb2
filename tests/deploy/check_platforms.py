"""Renders the files of deploy/platforms, validates them with the best available schema, and compares them with the
pods."""

import gzip
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

import tools

PLATFORMS = tools.DEPLOY / "platforms"
DOC = tools.PROJECT / "docs" / "platforms.md"
VALIDATED = "1.34"


def end_namespace(child):
    """Kills the first process of a pid namespace that `unshare` created; the kernel then kills the other processes in
    it. `--kill-child` does not suffice, because a change of the user clears it."""
    children = pathlib.Path(f"/proc/{child.pid}/task/{child.pid}/children")
    for pid in children.read_text().split() if children.exists() else []:
        os.kill(int(pid), signal.SIGKILL)
    child.wait(timeout=30)


def rendered(platform, *words):
    """Renders the chart with the values of a platform."""
    helm = tools.folder("helm", "helm") / "helm"
    words = ["gcwatch", tools.CHART, "--namespace", "gcwatch", "--kube-version", "1.34.0", "--set", "image.registry=images.example", *words]
    return tools.documents(tools.run(helm, "template", *words, "--values", PLATFORMS / platform / "values.yaml"))


def of_kind(documents, kind):
    (found,) = [each for each in documents if each["kind"] == kind]
    return found


def pod_of(documents):
    return of_kind(documents, "DaemonSet")["spec"]["template"]["spec"]


def strict(schema):
    """Returns a copy of a schema that rejects unknown keys."""
    if isinstance(schema, dict):
        made = {key: strict(value) for key, value in schema.items()}
        if "properties" in schema and "additionalProperties" not in schema and not schema.get("x-kubernetes-preserve-unknown-fields"):
            made["additionalProperties"] = False
        if schema.get("nullable") is True and isinstance(schema.get("type"), str):
            made["type"] = [schema["type"], "null"]
        return made
    return [strict(each) for each in schema] if isinstance(schema, list) else schema


def validate_custom(document, definition):
    """Validates a custom resource with its definition."""
    import jsonschema

    (definition,) = tools.documents(definition.read_text())
    version = document["apiVersion"].split("/")[1]
    (found,) = [each for each in definition["spec"]["versions"] if each["name"] == version]
    schema = strict(found["schema"]["openAPIV3Schema"])
    schema["properties"]["metadata"] = {"type": "object"}
    jsonschema.Draft7Validator(schema).validate(document)


class Chart(unittest.TestCase):
    def test_valid(self):
        """Scenario: the chart is rendered with the values of each platform.
        Guarantee: the objects are strictly valid for Kubernetes."""
        try:
            import kubernetes_validate
        except ImportError:
            tools.left_out("kubernetes-validate is not installed: tests/deploy/build python")
        for values in sorted(PLATFORMS.glob("*/values.yaml")):
            for document in rendered(values.parent.name):
                if document["apiVersion"].startswith("security.openshift.io/"):
                    continue
                with self.subTest(platform=values.parent.name, kind=document["kind"]):
                    kubernetes_validate.validate(document, VALIDATED, strict=True)

    def test_constraints_of_openshift(self):
        """Scenario: the SCC is compared with the pod, with the state in an emptyDir and on the host.
        Guarantee: the SCC is valid and allows exactly the needs of the pod."""
        for words in ((), ("--set", "state.volume=hostPath")):
            documents = rendered("openshift", *words)
            scc, pod = of_kind(documents, "SecurityContextConstraints"), pod_of(documents)
            validate_custom(scc, tools.folder("openshift", "openshift") / "scc.yaml")
            (container,) = pod["containers"]
            self.assertEqual(scc["users"], [f"system:serviceaccount:gcwatch:{pod['serviceAccountName']}"])
            self.assertEqual(scc["allowedCapabilities"], container["securityContext"]["capabilities"]["add"])
            self.assertEqual(scc["requiredDropCapabilities"], container["securityContext"]["capabilities"]["drop"])
            self.assertIs(scc["allowHostPID"], pod["hostPID"])
            used = {key for volume in pod["volumes"] for key in volume if key != "name"}
            # The token is a projected volume. Secrets contain the certificates from the values.
            self.assertEqual(set(scc["volumes"]), used | {"projected", "secret"})
            self.assertIs(scc["allowHostDirVolumePlugin"], "hostPath" in used)
            refused = ("allowPrivilegedContainer", "allowHostNetwork", "allowHostIPC", "allowHostPorts", "allowPrivilegeEscalation")
            self.assertFalse([key for key in refused if scc[key]])
            self.assertEqual(pod["securityContext"]["seLinuxOptions"], {"type": "spc_t"})

    def test_allowlist_of_autopilot(self):
        """Scenario: the WorkloadAllowlist is compared with the chart's pod for Autopilot.
        Guarantee: the allowlist matches the pod field by field, as the documentation of the resource requires, and has
        one exemption."""
        (allowlist,) = tools.documents((PLATFORMS / "gke-autopilot/workload-allowlist.yaml").read_text())
        pod = pod_of(rendered("gke-autopilot"))
        criteria = allowlist["matchingCriteria"]
        self.assertEqual(allowlist["exemptions"], ["autogke-disallow-hostnamespaces"])
        for key in ("hostPID", "hostUsers", "hostNetwork", "hostIPC"):
            self.assertEqual(criteria.get(key), pod.get(key), key)
        (wanted,), (container,) = criteria["containers"], pod["containers"]
        self.assertEqual(wanted["name"], container["name"])
        self.assertEqual(wanted["image"], container["image"].rpartition(":")[0])
        self.assertEqual(wanted["args"], container["args"])
        self.assertEqual([each["name"] for each in wanted["env"]], [each["name"] for each in container["env"]])
        self.assertEqual(wanted["securityContext"]["capabilities"], container["securityContext"]["capabilities"])
        self.assertEqual(wanted["volumeMounts"], container["volumeMounts"])
        self.assertEqual([each["name"] for each in criteria["volumes"]], [each["name"] for each in pod["volumes"]])
        for digests in allowlist["containerImageDigests"]:
            self.assertTrue(all(re.fullmatch("[0-9a-f]{64}", each) for each in digests["imageDigests"]))
        # Without bursting, limits equal requests.
        self.assertNotIn("affinity", pod)
        self.assertEqual(container["resources"]["requests"]["memory"], container["resources"]["limits"]["memory"])
        self.assertEqual(container["resources"]["requests"]["ephemeral-storage"], container["resources"]["limits"]["ephemeral-storage"])

    def test_configurations(self):
        """Scenario: gcwatch reads the gcwatch.yaml of each rendering.
        Guarantee: gcwatch accepts each file."""
        for values in sorted(PLATFORMS.glob("*/values.yaml")):
            with self.subTest(platform=values.parent.name), tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
                file.write(of_kind(rendered(values.parent.name), "ConfigMap")["data"]["gcwatch.yaml"])
                file.flush()
                tools.run(tools.gcwatch(), "run", "--check-config", "--config", file.name)


class Sidecars(unittest.TestCase):
    def test_eks_fargate(self):
        """Scenario: kustomize builds the application for EKS Fargate.
        Guarantee: every object is valid; the pod has no host namespace, host port, capability or host path."""
        kustomize = tools.folder("kustomize", "kustomize") / "kustomize"
        documents = tools.documents(tools.run(kustomize, "build", PLATFORMS / "eks-fargate"))
        try:
            import kubernetes_validate
        except ImportError:
            tools.left_out("kubernetes-validate is not installed: tests/deploy/build python")
        for document in documents:
            kubernetes_validate.validate(document, VALIDATED, strict=True)
        pod = of_kind(documents, "Deployment")["spec"]["template"]["spec"]
        self.assertFalse({"hostPID", "hostNetwork", "hostIPC"} & pod.keys())
        self.assertEqual([key for volume in pod["volumes"] for key in volume if key != "name"], ["configMap", "emptyDir"])
        for container in pod["containers"] + pod["initContainers"]:
            self.assertEqual(container["securityContext"]["capabilities"], {"drop": ["ALL"]})
            self.assertFalse([port for port in container.get("ports", []) if "hostPort" in port])

    def test_ecs(self):
        """Scenario: the task definitions are compared with the model of RegisterTaskDefinition in botocore.
        Guarantee: no key is unknown and no type is wrong; the sidecar has no capability and the user of the
        application; the daemon has the two capabilities. No port is published, and gcwatch listens on loopback only."""
        try:
            import botocore
            import botocore.model
            import botocore.validate
        except ImportError:
            tools.left_out("botocore is not installed: tests/deploy/build python")
        (model,) = pathlib.Path(botocore.__file__).parent.glob("data/ecs/*/service-2.json.gz")
        service = botocore.model.ServiceModel(json.loads(gzip.decompress(model.read_bytes())), "ecs")
        shape = service.operation_model("RegisterTaskDefinition").input_shape
        for name in ("sidecar", "daemon"):
            definition = json.loads((PLATFORMS / f"ecs/{name}.json").read_text())
            report = botocore.validate.ParamValidator().validate(definition, shape)
            self.assertFalse(report.has_errors(), report.generate_report())
            spoiled = definition | {"pidmode": "task"}
            self.assertIn("pidmode", botocore.validate.ParamValidator().validate(spoiled, shape).generate_report())
            containers = {each["name"]: each for each in definition["containerDefinitions"]}
            gcwatch = containers["gcwatch"]
            self.assertIs(gcwatch["readonlyRootFilesystem"], True)
            self.assertNotIn("portMappings", gcwatch)
            variables = os.environ | {each["name"]: each["value"] for each in gcwatch["environment"]}
            self.assertRegex(tools.run(tools.gcwatch(), *gcwatch["command"], "--print-config", env=variables), r"(?m)^listen: 127\.0\.0\.1:9464\b")
            if name == "sidecar":
                self.assertEqual(definition["pidMode"], "task")
                self.assertEqual(gcwatch["user"], containers["shop"]["user"])
                self.assertEqual(gcwatch["linuxParameters"], {"capabilities": {"drop": ["ALL"]}})
                self.assertEqual(gcwatch["mountPoints"], containers["shop"]["mountPoints"])
            else:
                values = tools.documents((tools.CHART / "values.yaml").read_text())[0]["securityContext"]["capabilities"]
                self.assertEqual(definition["pidMode"], "host")
                self.assertEqual(gcwatch["linuxParameters"]["capabilities"], values)
            tools.run(tools.gcwatch(), *gcwatch["command"], "--check-config", env=variables)

    def test_container_apps(self):
        """Scenario: the Container App is inspected.
        Guarantee: both containers mount the shared volume at one path, gcwatch reads this path, and its arguments are
        valid."""
        (app,) = tools.documents((PLATFORMS / "container-apps/app.yaml").read_text())
        template = app["properties"]["template"]
        shop, gcwatch = template["containers"]
        self.assertEqual(shop["volumeMounts"], gcwatch["volumeMounts"])
        (mount,) = gcwatch["volumeMounts"]
        self.assertEqual([each["name"] for each in template["volumes"]], [mount["volumeName"]])
        self.assertIn(f"--sockets={mount['mountPath']}", gcwatch["args"])
        self.assertIn({"name": "TMPDIR", "value": mount["mountPath"]}, shop["env"])
        # Pairs of processor and memory that the platform accepts: 2 GiB per core.
        for container in (shop, gcwatch):
            self.assertEqual(float(container["resources"]["memory"].removesuffix("Gi")), 2 * container["resources"]["cpu"])
        tools.run(tools.gcwatch(), *gcwatch["args"], "--check-config")

    def test_other_process_namespace(self):
        """Scenario: an application and gcwatch run in separate mount and process namespaces with one shared directory,
        as in a Container App: first as one user without capabilities, then with gcwatch as root with only DAC_OVERRIDE.
        Guarantee: gcwatch attaches and reports collections in both cases."""
        import process
        import receivers

        if os.geteuid() != 0 or subprocess.run(["unshare", "--mount", "--pid", "--fork", "true"], capture_output=True).returncode:
            tools.left_out("namespaces need root")
        setpriv = tools.program("setpriv")
        host = process.fetched(f"{process.RUNTIME}/dosai")
        apart = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
        user = ["--reuid", "1654", "--regid", "1654", "--clear-groups"]
        nothing = ["--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"]
        with tempfile.TemporaryDirectory(prefix="gcw-apart.") as place:
            shared = pathlib.Path(place, "diagnostics")
            shared.mkdir()
            os.chmod(place, 0o755)
            os.chmod(shared, 0o777)
            # The user can read neither the cache of runtimes nor the work tree.
            program = shutil.copy(host, place)
            hook = shutil.copy(tools.PROJECT / "tests/workload/workload.dll", place)
            gcwatch = shutil.copy(tools.gcwatch(), place)
            variables = {"TMPDIR": shared, "DOTNET_STARTUP_HOOKS": hook, "DOTNET_SYSTEM_GLOBALIZATION_INVARIANT": "1", "WMODE": "steady", "WSECS": "120"}
            variables |= {"DOTNET_GCgen0size": "400000", "DOTNET_BUNDLE_EXTRACT_BASE_DIR": f"{place}/diagnostics"}
            words = [*apart, setpriv, *user, "env", *(f"{name}={value}" for name, value in variables.items()), program, "--help"]
            application = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            try:
                until = time.monotonic() + 60
                while not list(shared.glob("dotnet-diagnostic-*")):
                    self.assertLess(time.monotonic(), until, "the runtime creates its socket")
                    time.sleep(0.1)
                for who in ([*user, *nothing], ["--bounding-set=-all,+dac_override", "--inh-caps=-all", "--no-new-privs"]):
                    (web,) = receivers.free_ports(1)
                    words = [*apart, setpriv, *who, "env", "OTEL_SDK_DISABLED=true", gcwatch, "run", "--sockets", shared]
                    words += ["--lease-folder", f"{shared}/gcwatch-{len(who)}", "--listen", f"127.0.0.1:{web}"]
                    daemon = receivers.Process("gcwatch", words, pathlib.Path(place), {"PATH": os.environ["PATH"], "HOME": place})
                    try:
                        targets = lambda: json.loads(receivers.get(f"http://127.0.0.1:{web}/api/v1/targets")[1])["targets"]
                        daemon.await_true("it listens", lambda: receivers.get(f"http://127.0.0.1:{web}/livez")[0] == 200)
                        daemon.await_true("it has collections", lambda: [each for each in targets() if each["state"] == "attached" and each["collections"]])
                    finally:
                        end_namespace(daemon.child)
            finally:
                application.stdin.close()
                end_namespace(application)


class Page(unittest.TestCase):
    def test_page(self):
        """Scenario: docs/platforms.md is read.
        Guarantee: the page names each folder of deploy/platforms, and each row of its table states its proof."""
        text = DOC.read_text()
        for folder in PLATFORMS.iterdir():
            if folder.is_dir():
                self.assertIn(f"deploy/platforms/{folder.name}", text)
        rows = [line for line in text.partition("## Where it runs")[2].partition("\n## ")[0].splitlines() if line.startswith("| ") and "---" not in line][1:]
        self.assertGreater(len(rows), 12)
        for row in rows:
            self.assertRegex(row, r"\b(run|rendered and validated|deduced)\b", row)


if __name__ == "__main__":
    unittest.main()
