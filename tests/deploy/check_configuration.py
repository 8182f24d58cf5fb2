"""Each gcwatch.yaml and each Collector configuration in deploy/, checked by the program that reads it."""

import os
import pathlib
import re
import tempfile
import unittest

import tools


def setUpModule():
    global _folder
    _folder = tempfile.TemporaryDirectory(prefix="gcw-deploy.")
    os.environ["GCWATCH_DEPLOY_FOLDER"] = _folder.name


def tearDownModule():
    _folder.cleanup()


def checked(text):
    """Returns the exit code and the output of `gcwatch run --check-config` for a configuration."""
    path = pathlib.Path(_folder.name) / "gcwatch.yaml"
    path.write_text(text)
    # Remove the caller's variables that gcwatch reads.
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "GCWATCH_"))}
    environment["COLLECTOR_AUTHORIZATION"] = "Bearer x"
    done = tools.subprocess.run(
        [tools.gcwatch(), "run", "--check-config", "--config", path], capture_output=True, text=True, timeout=tools.PATIENCE, env=environment
    )
    return done.returncode, done.stdout + done.stderr


class Configuration(unittest.TestCase):
    def test_of_gcwatch(self):
        """Scenario: gcwatch reads the ConfigMaps of kustomize and helm, and the file of the host package.
        Guarantee: gcwatch accepts each file."""
        found = {"systemd": (tools.DEPLOY / "systemd" / "gcwatch.yaml").read_text()}
        for name in tools.KUSTOMIZED + tools.cases():
            text = tools.rendered(name) if name in tools.cases() else tools.kustomized(name)
            for each in tools.documents(text):
                if each["kind"] == "ConfigMap" and "gcwatch.yaml" in each.get("data", {}):
                    found[name] = each["data"]["gcwatch.yaml"]
        self.assertEqual(len(found), 1 + len(tools.KUSTOMIZED) + len(tools.cases()) - 1)
        for name, text in found.items():
            # The container mounts this file, but it does not exist here.
            text = re.sub(" *certificate: /etc/collector-ca/ca.crt\n", "", text)
            with self.subTest(name=name):
                status, said = checked(text)
                self.assertEqual(status, 0, said)
                self.assertIn("the configuration is valid", said)
        self.assertNotEqual(checked("oltp: {}\n")[0], 0)

    def test_rules(self):
        """Scenario: the rule file of a case passes through the chart.
        Guarantee: the file is unchanged, and gcwatch accepts it."""
        for each in tools.documents(tools.rendered("collector")):
            if each["kind"] == "ConfigMap" and each["metadata"]["name"].endswith("-rules"):
                (text,) = each["data"].values()
        path = pathlib.Path(_folder.name) / "shop.yaml"
        path.write_text(text)
        tools.run(tools.gcwatch(), "rules", "check", path)

    def test_of_collectors(self):
        """Scenario: a real Collector reads each of its configurations.
        Guarantee: the Collector accepts each configuration, without exporters that the Collector of tests/e2e does not
        have."""
        import receivers

        collector = receivers.binary("collector", "otelcol")
        if collector is None:
            tools.left_out("the Collector is not built: tests/e2e/build collector")
        texts = [tools.DEPLOY / "kustomize" / "overlays" / "with-collector" / "collector.yaml", *(tools.DEPLOY / "collector").glob("*.yaml")]
        for path in texts:
            with self.subTest(path=path.name):
                (text,) = tools.documents(path.read_text())
                # The Collector here has no otlp_grpc exporter, so `debug` replaces it, and the exporter's settings are
                # not checked.
                for old in [name for name in text["exporters"] if name != "debug"]:
                    text["exporters"].pop(old)
                    text["exporters"]["debug"] = {}
                    for pipeline in text["service"]["pipelines"].values():
                        pipeline["exporters"] = ["debug"]
                copy = pathlib.Path(_folder.name) / "collector.yaml"
                copy.write_text(tools.yaml.safe_dump(text))
                tools.run(collector, "validate", "--config", copy)

    def test_of_jaeger(self):
        """Scenario: a real Jaeger reads its configuration.
        Guarantee: Jaeger accepts the configuration."""
        import receivers

        jaeger = receivers.binary("jaeger", "jaeger")
        if jaeger is None:
            tools.left_out("Jaeger is not built: tests/e2e/build jaeger")
        tools.run(jaeger, "validate", "--config", tools.DEPLOY / "jaeger" / "jaeger.yaml")

    def test_of_others(self):
        """Scenario: every other YAML file of deploy/ that is not a template is parsed.
        Guarantee: each file is valid YAML without duplicate keys."""
        for path in tools.DEPLOY.rglob("*.yaml"):
            if "templates" not in path.parts and "examples" not in path.parts:
                with self.subTest(path=path):
                    self.assertTrue(tools.documents(path.read_text()) or path.name == "default-values.yaml")


if __name__ == "__main__":
    unittest.main()
