"""The alert rules of Prometheus: they parse, each is tested, and each test can fail."""

import pathlib
import tempfile
import unittest

import tools

FOLDER = tools.DEPLOY / "prometheus"
RULES = FOLDER / "gcwatch.rules.yaml"
TESTS = FOLDER / "gcwatch.rules.test.yaml"


class Alerts(unittest.TestCase):
    def test_rules(self):
        """Scenario: promtool's own checks and the tests beside the rules. Guarantee: they pass."""
        promtool = tools.program("promtool")
        tools.run(promtool, "check", "rules", RULES)
        tools.run(promtool, "test", "rules", TESTS.name, cwd=FOLDER)

    def test_each_is_tested(self):
        """Scenario: each rule in turn never fires. Guarantee: the tests fail each time."""
        promtool = tools.program("promtool")
        (rules,) = tools.documents(RULES.read_text())
        alerts = [rule["alert"] for group in rules["groups"] for rule in group["rules"]]
        self.assertEqual(len(alerts), len(set(alerts)))
        with tempfile.TemporaryDirectory(prefix="gcw-alerts.") as folder:
            folder = pathlib.Path(folder)
            (folder / TESTS.name).write_text(TESTS.read_text())
            for alert in alerts:
                (spoiled,) = tools.documents(RULES.read_text())
                for group in spoiled["groups"]:
                    for rule in group["rules"]:
                        if rule["alert"] == alert:
                            rule["expr"] = "vector(0) > 1"
                (folder / RULES.name).write_text(tools.yaml.safe_dump(spoiled))
                with self.subTest(alert=alert):
                    tools.run(promtool, "test", "rules", TESTS.name, cwd=folder, status=1)

    def test_scrape_configuration(self):
        """Scenario: the example for Prometheus. Guarantee: promtool takes it, with its rules; the discovery itself is left out, which
        Debian's promtool does not know."""
        promtool = tools.program("promtool")
        (scrape,) = tools.documents((FOLDER / "prometheus.yaml").read_text())
        for job in scrape["scrape_configs"]:
            job.pop("kubernetes_sd_configs", None)
        with tempfile.TemporaryDirectory(prefix="gcw-alerts.") as folder:
            folder = pathlib.Path(folder)
            (folder / RULES.name).write_text(RULES.read_text())
            (folder / "prometheus.yaml").write_text(tools.yaml.safe_dump(scrape))
            tools.run(promtool, "check", "config", "prometheus.yaml", cwd=folder)


if __name__ == "__main__":
    unittest.main()
