"""The files of deploy/policies and deploy/vex: valid for their engines, and consistent with gcwatch's pod."""

import datetime
import json
import os
import re
import tempfile
import unittest

import check_platforms
import tools

POLICIES = tools.DEPLOY / "policies"
DIGEST = "ab" * 32


def read(name):
    return tools.documents((POLICIES / name).read_text())


class Admission(unittest.TestCase):
    def setUp(self):
        self.parameter, self.policy, self.binding = read("admission/only-listed-images.yaml")

    def test_valid(self):
        """Scenario: the policy, its binding and its parameter are validated.
        Guarantee: the objects are strictly valid for Kubernetes 1.30, 1.33 and 1.36."""
        try:
            import kubernetes_validate
        except ImportError:
            tools.left_out("kubernetes-validate is not installed: tests/deploy/build python")
        for version in ("1.30", "1.33", "1.36"):
            for document in (self.parameter, self.policy, self.binding):
                kubernetes_validate.validate(document, version, strict=True)
        self.assertEqual(self.binding["spec"]["paramRef"]["name"], self.parameter["metadata"]["name"])
        self.assertEqual(self.binding["spec"]["policyName"], self.policy["metadata"]["name"])

    def test_expression(self):
        """Scenario: pods have a listed digest, a tag, an unknown digest, or a listed image with an unknown init or
        debug container; one parameter has a key that is not a digest.
        Guarantee: a pod is admitted only if all its images are listed."""
        try:
            import cel
        except ImportError:
            tools.left_out("python-cel is not installed: tests/deploy/build python")

        def admitted(pod, listed):
            context = {"object": {"spec": pod}, "params": {"data": {key: "0.1.0" for key in listed}}, "variables": {}}
            for variable in self.policy["spec"]["variables"]:
                context["variables"][variable["name"]] = cel.evaluate_expression(variable["expression"], context)
            (validation,) = self.policy["spec"]["validations"]
            return cel.evaluate_expression(validation["expression"], context)

        good, other, tag = (f"images.example/gcwatch@sha256:{DIGEST}", f"images.example/gcwatch@sha256:{'cd' * 32}", "images.example/gcwatch:0.1.0")
        self.assertTrue(admitted({"containers": [{"image": good}]}, [DIGEST]))
        self.assertTrue(admitted({"containers": [{"image": good.replace("registry", "mirror")}]}, ["12" * 32, DIGEST]))
        for pod in (
            {"containers": [{"image": tag}]},
            {"containers": [{"image": other}]},
            {"containers": [{"image": good}, {"image": other}]},
            {"containers": [{"image": good}], "initContainers": [{"image": other}]},
            {"containers": [{"image": good}], "ephemeralContainers": [{"image": "busybox"}]},
        ):
            self.assertFalse(admitted(pod, [DIGEST]), pod)
        self.assertFalse(admitted({"containers": [{"image": good}]}, ["ab"]))


class Kyverno(unittest.TestCase):
    def test_valid(self):
        """Scenario: the exception and the two policies are validated.
        Guarantee: Kyverno's definitions accept them without unknown keys."""
        folder = tools.folder("kyverno", "kyverno")
        kinds = {"ClusterPolicy": "clusterpolicies", "PolicyException": "policyexceptions"}
        found = []
        for path in sorted((POLICIES / "kyverno").glob("*.yaml")):
            for document in tools.documents(path.read_text()):
                check_platforms.validate_custom(document, folder / f"{kinds[document['kind']]}.yaml")
                found.append(document["kind"])
        self.assertEqual(sorted(found), ["ClusterPolicy", "ClusterPolicy", "PolicyException"])

    def test_exception_matches_the_pod(self):
        """Scenario: the exception is compared with the DaemonSet of the chart.
        Guarantee: the names, the namespace and the labels of the exception match the DaemonSet."""
        (exception,) = read("kyverno/exception.yaml")
        ((resources,),) = [[each["resources"] for each in exception["spec"]["match"]["any"]]]
        daemonset = check_platforms.of_kind(tools.documents(tools.rendered("default")), "DaemonSet")
        self.assertIn(daemonset["metadata"]["name"], resources["names"])
        self.assertIn(daemonset["metadata"]["namespace"], resources["namespaces"])
        labels = daemonset["spec"]["template"]["metadata"]["labels"]
        self.assertLessEqual(resources["selector"]["matchLabels"].items(), labels.items())

    def test_exception_names_rules(self):
        """Scenario: the exception is compared with the Pod Security policies of Kyverno's chart.
        Guarantee: each policy and each rule exists, including the derived rules of controllers."""
        (exception,) = read("kyverno/exception.yaml")
        for each in exception["spec"]["exceptions"]:
            text = (tools.folder("kyverno", "kyverno") / "policies" / f"{each['policyName']}.yaml").read_text()
            rules = set(re.findall(r"^    - name: (\S+)$", text, re.MULTILINE))
            own = [name for name in each["ruleNames"] if not name.startswith("autogen-")]
            self.assertLessEqual(set(own), rules, each["policyName"])
            self.assertEqual(each["ruleNames"], own + [f"autogen-{name}" for name in own])

    def test_repair_conditions(self):
        """Scenario: the conditions of the repair are evaluated for pods with and without /tmp, and with each form of
        the switch.
        Guarantee: only containers that need the repair get it. (jmespath evaluates the conditions; Kyverno itself does
        not run here.)"""
        try:
            import jmespath
        except ImportError:
            tools.left_out("jmespath is not installed: tests/deploy/build python")
        (policy,) = read("kyverno/repair-diagnostics.yaml")
        tmp, switches = policy["spec"]["rules"]

        def value(text, context):
            found = re.fullmatch(r"\{\{ (.*) \}\}", text)
            return jmespath.search(found[1], context) if found else text

        def holds(condition, context):
            key, other = value(condition["key"], context), value(condition["value"], context)
            return key == other if condition["operator"] == "Equals" else key not in other

        def applies(rule, pod, container, labels):
            context = {"request": {"object": {"spec": pod, "metadata": {"labels": labels}}}, "element": container}
            (each,) = rule["mutate"]["foreach"]
            conditions = [rule.get("preconditions", {}), each["preconditions"]]
            return all(all(holds(one, context) for one in group.get("all", [])) and any([holds(one, context) for one in group.get("any", [])] or [True]) for group in conditions)

        bare = {"name": "shop"}
        mounted = {"name": "shop", "volumeMounts": [{"name": "x", "mountPath": "/tmp"}]}
        elsewhere = {"name": "shop", "volumeMounts": [{"name": "x", "mountPath": "/data"}]}
        self.assertTrue(applies(tmp, {"containers": [bare]}, bare, {}))
        self.assertTrue(applies(tmp, {"containers": [elsewhere], "volumes": [{"name": "x"}]}, elsewhere, {}))
        self.assertFalse(applies(tmp, {"containers": [mounted], "volumes": [{"name": "x"}]}, mounted, {}))
        self.assertFalse(applies(tmp, {"containers": [bare], "volumes": [{"name": "gcwatch-tmp"}]}, bare, {}))
        label = "gcwatch.example/diagnostics"
        for name, setting, expected in (("DOTNET_EnableDiagnostics", "0", True), ("COMPlus_EnableDiagnostics", "0", True), ("DOTNET_EnableDiagnostics", "1", False), ("OTHER", "0", False)):
            container = {"name": "shop", "env": [{"name": name, "value": setting}]}
            self.assertEqual(applies(switches, {"containers": [container]}, container, {label: "net8"}), expected, name)
        self.assertFalse(applies(switches, {"containers": [bare]}, bare, {label: "net8"}))
        self.assertTrue(applies(switches, {"containers": [bare]}, bare, {label: "net8-image"}))

    def test_narrower_switches_open_the_port_only(self):
        """Scenario: a real runtime runs with the general switch, and with the variables of the repair.
        Guarantee: with the switch, there is no socket; with the variables, there is a diagnostics socket and no pipe of
        the debugger."""
        import process

        (policy,) = read("kyverno/repair-diagnostics.yaml")
        ((container,),) = [each["mutate"]["foreach"][0]["patchStrategicMerge"]["spec"]["containers"] for each in policy["spec"]["rules"][1:]]
        repaired = {each["name"]: each["value"] for each in container["env"]}
        for variables, expected in (({"DOTNET_EnableDiagnostics": "0"}, set()), (repaired, {"dotnet-diagnostic"}), ({"COMPlus_EnableDiagnostics": "0"} | repaired, {"dotnet-diagnostic"})):
            with tempfile.TemporaryDirectory(prefix="gcw-switch.") as folder, process.Workload(folder, rounds=1, **variables):
                # The program runs, and its runtime opens the port before the program starts.
                found = {name.rpartition("-")[0].split("-", 2)[0] + "-" + name.split("-")[1] for name in os.listdir(folder)}
                self.assertEqual({name for name in found if name.startswith(("dotnet-diagnostic", "clr-debug"))}, expected, variables)


class Gatekeeper(unittest.TestCase):
    def test_matches(self):
        """Scenario: the `match` of each constraint is validated with Gatekeeper's definition.
        Guarantee: each `match` is valid, and gcwatch's namespace may have exactly the capabilities of the chart. (The
        parameters come from Gatekeeper's library, which has no schema here.)"""
        import jsonschema

        (definition,) = tools.documents((tools.folder("gatekeeper", "gatekeeper") / "match.yaml").read_text())
        schema = check_platforms.strict(definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["embeddedMatch"])
        documents = read("gatekeeper/constraints.yaml")
        for document in documents:
            jsonschema.Draft7Validator(schema).validate(document["spec"]["match"])
        own = documents[-1]["spec"]
        values = tools.documents((tools.CHART / "values.yaml").read_text())[0]["securityContext"]["capabilities"]
        self.assertEqual(own["match"]["namespaces"], ["gcwatch"])
        self.assertEqual(own["parameters"], {"allowedCapabilities": values["add"], "requiredDropCapabilities": values["drop"]})


class Vex(unittest.TestCase):
    def test_document(self):
        """Scenario: the OpenVEX document is read.
        Guarantee: the document has the fields that version 0.2.0 of the specification requires, and its reasons hold:
        Cargo.lock contains none of the crates that the document calls absent."""
        document = json.loads((tools.DEPLOY / "vex/gcwatch.openvex.json").read_text())
        self.assertEqual(document["@context"], "https://openvex.dev/ns/v0.2.0")
        for key in ("@id", "author", "timestamp", "version"):
            self.assertTrue(document[key])
        datetime.datetime.fromisoformat(document["timestamp"].replace("Z", "+00:00"))
        statuses = {"not_affected", "affected", "fixed", "under_investigation"}
        reasons = {"component_not_present", "vulnerable_code_not_present", "vulnerable_code_not_in_execute_path"}
        reasons |= {"vulnerable_code_cannot_be_controlled_by_adversary", "inline_mitigations_already_exist"}
        for statement in document["statements"]:
            self.assertRegex(statement["vulnerability"]["name"], r"^(CVE|RUSTSEC|GHSA)-")
            self.assertTrue(all(product["@id"].startswith("pkg:") for product in statement["products"]))
            self.assertIn(statement["status"], statuses)
            if statement["status"] == "not_affected":
                self.assertIn(statement["justification"], reasons)
        locked = re.findall(r'^name = "(.*)"$', (tools.PROJECT / "Cargo.lock").read_text(), re.MULTILINE)
        self.assertFalse({"openssl", "openssl-sys", "openssl-src", "native-tls", "aws-lc-sys"} & set(locked))


if __name__ == "__main__":
    unittest.main()
