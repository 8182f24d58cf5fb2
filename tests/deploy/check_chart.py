"""The Helm chart: lint, comparison with the committed renderings, rejection of invalid values."""

import json
import pathlib
import sys
import unittest

import tools


def example(case):
    return tools.CHART / "examples" / f"{case}.yaml"


def sections():
    """Returns the keys of gcwatch.yaml from its own schema; web.host and web.port replace `listen`."""
    schema = json.loads((tools.PROJECT / "docs" / "gcwatch.schema.json").read_text())
    return [key for key in schema["properties"] if key != "listen"]


def schema():
    """Returns values.schema.json with the current keys of gcwatch.yaml."""
    values = json.loads((tools.CHART / "values.schema.json").read_text())
    data = values["properties"]["config"]["properties"]["data"]
    data["properties"] = {key: {"type": ["object", "null"]} for key in sections()}
    return json.dumps(values, indent=2) + "\n"


def without_bodies(text):
    """Replaces the texts of dashboards and rules, which are committed elsewhere, by a line with the name of the
    file."""
    lines, skipped, fleet = [], None, False
    for line in text.splitlines():
        indent = len(line) - len(line.lstrip())
        if skipped is not None and (not line.strip() or indent > skipped):
            continue
        skipped = None
        lines.append(line)
        if line.strip().endswith(".json: |"):
            lines.append(" " * (indent + 2) + f"(deploy/grafana/dashboards/{line.strip().removesuffix(': |')})")
            skipped = indent
        if line.startswith("  name: "):
            fleet = line.endswith("-fleet")
        if line == "  groups:":
            lines.append(f"    # (deploy/prometheus/gcwatch.{'fleet.' if fleet else ''}rules.yaml)")
            skipped = 2
    return "\n".join(lines) + "\n"


class Chart(unittest.TestCase):
    def helm(self, *words, **more):
        return tools.run(tools.folder("helm", "helm") / "helm", *words, **more)

    def templated(self, *words, **more):
        """Renders the chart with values that are not one of the cases."""
        words = ["gcwatch", tools.CHART, "--kube-version", "1.34.0", "--set", "image.registry=localhost", *words]
        return self.helm("template", *words, **more)

    def test_lint(self):
        """Scenario: helm lint runs strictly with each case.
        Guarantee: helm reports no fault."""
        for case in tools.cases():
            with self.subTest(case=case):
                self.helm("lint", "--strict", tools.CHART, "--kube-version", "1.34.0", "--values", tools.CHART / "ci" / f"{case}-values.yaml")

    def test_examples(self):
        """Scenario: each case is rendered.
        Guarantee: the result equals examples/ (tests/deploy/run --update writes it)."""
        for case in tools.cases():
            with self.subTest(case=case):
                self.assertEqual(without_bodies(tools.rendered(case)), example(case).read_text(), "tests/deploy/run --update")
        self.assertEqual({path.stem for path in (tools.CHART / "examples").glob("*.yaml")}, set(tools.cases()))

    def test_packaged(self):
        """Scenario: the chart is packed, and the package is rendered.
        Guarantee: the result is the same as from the folder."""
        import os
        import tempfile

        with tempfile.TemporaryDirectory(prefix="gcw-chart.") as folder:
            self.helm("package", tools.CHART, "--destination", folder)
            (pack,) = pathlib.Path(folder).iterdir()
            case = "collector"
            values = tools.CHART / "ci" / f"{case}-values.yaml"
            made = self.helm("template", "gcwatch", pack, "--namespace", "gcwatch", "--kube-version", "1.34.0", "--values", values)
            self.assertEqual(made, tools.rendered(case))

    def test_schema_knows_the_configuration(self):
        """Scenario: values.schema.json is compared with gcwatch's own schema.
        Guarantee: both have the same keys (tests/deploy/run --update)."""
        self.assertEqual(schema(), (tools.CHART / "values.schema.json").read_text(), "tests/deploy/run --update")

    def test_values_are_in_the_schema(self):
        """Scenario: the keys of values.yaml are compared with its schema.
        Guarantee: both have the same keys, so that every value is checked."""
        (values,) = tools.documents((tools.CHART / "values.yaml").read_text())
        known = json.loads((tools.CHART / "values.schema.json").read_text())["properties"]
        self.assertEqual(set(values), set(known) - {"global"})
        for key, part in known.items():
            if part.get("additionalProperties") is False:
                self.assertEqual(set(values[key]), set(part["properties"]), key)

    def test_wrong_values(self):
        """Scenario: a value is misspelt, a type is wrong, the configuration contains `listen`, or a section is
        misspelt.
        Guarantee: helm rejects each value and names it."""
        for wrong, named in (
            ("hostPid=true", "hostPid"),
            ("web.port=99999", "port"),
            ("image.tagg=1", "tagg"),
            ("config.data.listen=none", "listen"),
            ("config.data.oltp.endpoint=x", "oltp"),
            ("image.digest=abc", "digest"),
            ("state.volume=disk", "volume"),
            ("serviceMonitor.enabled=1", "enabled"),
        ):
            with self.subTest(wrong=wrong):
                said = self.templated("--set", wrong, status=1)
                self.assertIn(named, said)

    def test_registry(self):
        """Scenario: the registry is missing, is only on the node, or has a port and a path.
        Guarantee: helm prints a remedy if the registry is missing; otherwise the image name is right."""
        said = self.helm("template", "gcwatch", tools.CHART, "--kube-version", "1.34.0", status=1)
        self.assertIn("--set image.registry=localhost", said)
        self.assertIn("image: localhost/gcwatch:", self.templated())
        self.assertIn("image: host:5000/team/gcwatch:", self.templated("--set", "image.registry=host:5000/team"))

    def test_state(self):
        """Scenario: the queue's volume is on the node, or there is no volume.
        Guarantee: the directory in the values is mounted, or no directory is mounted."""
        on_host = self.templated("--set", "state.volume=hostPath,state.path=/data/gcwatch")
        (pod,) = [each["spec"]["template"]["spec"] for each in tools.documents(on_host) if each["kind"] == "DaemonSet"]
        (volume,) = [each for each in pod["volumes"] if each["name"] == "state"]
        self.assertEqual(volume["hostPath"], {"path": "/data/gcwatch", "type": "DirectoryOrCreate"})
        none = self.templated("--set", "state.volume=none")
        for word in ("name: state", "GCWATCH_STATE_DIRECTORY", "/var/lib/gcwatch"):
            self.assertIn(word, on_host)
            self.assertNotIn(word, none)

    def test_https(self):
        """Scenario: the listener has a certificate.
        Guarantee: every probe and the ServiceMonitor use https."""
        text = self.templated("--set", "web.scheme=https,serviceMonitor.enabled=true")
        self.assertEqual((text.count("scheme: HTTPS"), text.count("scheme: https")), (3, 1))

    def test_old_cluster(self):
        """Scenario: a cluster is older than the tested versions.
        Guarantee: helm refuses the cluster."""
        said = self.helm("template", "gcwatch", tools.CHART, "--kube-version", "1.28.0", status=1)
        self.assertIn("kubeVersion", said)

    def test_same_as_kustomize(self):
        """Scenario: the chart's default is compared with kustomize's base.
        Guarantee: both have the same pod, except for the differences named here."""
        by_helm, by_kustomize = (
            next(each for each in tools.documents(text) if each["kind"] == "DaemonSet")["spec"]
            for text in (tools.rendered("default"), tools.kustomized("base"))
        )
        helm, kustomize = by_helm["template"]["spec"], by_kustomize["template"]["spec"]
        # The chart has this volume if there are rules.
        kustomize["volumes"] = [each for each in kustomize["volumes"] if each["name"] != "rules"]
        mounts = kustomize["containers"][0]["volumeMounts"]
        mounts[:] = [each for each in mounts if each["name"] != "rules"]
        self.assertEqual(helm["containers"][0].pop("imagePullPolicy"), "IfNotPresent")
        # Users of kustomize set their image name with `images:`.
        self.assertEqual(helm["containers"][0].pop("image"), "localhost/" + kustomize["containers"][0].pop("image"))
        self.assertEqual(helm, kustomize)
        self.assertEqual(by_helm["updateStrategy"], by_kustomize["updateStrategy"])


def update():
    (tools.CHART / "values.schema.json").write_text(schema())
    # Render all cases before writing one, so that the old files stay if helm is missing.
    examples = {example(case): without_bodies(tools.rendered(case)) for case in tools.cases()}
    for path in (tools.CHART / "examples").glob("*.yaml"):
        path.unlink()
    for path, text in examples.items():
        path.write_text(text)


if __name__ == "__main__":
    if sys.argv[1:] == ["--update"]:
        update()
    else:
        unittest.main()
