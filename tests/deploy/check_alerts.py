"""The alert rules of Prometheus: they are valid, each rule is tested, and each test can fail."""

import concurrent.futures
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

import tools

FOLDER = tools.DEPLOY / "prometheus"
FLEET_DAYS = FOLDER / "gcwatch.fleet-days.rules.test.yaml"
# The rule files with their tests, fast ones first.
FILES = {
    FOLDER / "gcwatch.rules.yaml": [FOLDER / "gcwatch.rules.test.yaml"],
    FOLDER / "gcwatch.fleet.rules.yaml": [FOLDER / "gcwatch.fleet.rules.test.yaml", FLEET_DAYS],
}


def name(rule):
    return rule.get("alert") or rule["record"]


class Alerts(unittest.TestCase):
    def test_rules(self):
        """Scenario: promtool runs its own checks and the tests of the rules.
        Guarantee: the checks and the tests pass. (Tests over days pass in test_each_is_tested with only the rules that
        they need, because promtool takes twice as long with all rules.)"""
        promtool = tools.program("promtool")
        for rules, tests in FILES.items():
            tools.run(promtool, "check", "rules", rules)
            for each in tests:
                if each == FLEET_DAYS:
                    continue
                tools.run(promtool, "test", "rules", each.name, cwd=FOLDER)

    def test_each_is_tested(self):
        """Scenario: the tests run with all rules, then once for each rule, which is replaced by a rule without results.
        Guarantee: the tests pass only in the first run."""
        promtool = tools.program("promtool")
        for path, files in FILES.items():
            (document,) = tools.documents(path.read_text())
            rules = {name(rule): rule for group in document["groups"] for rule in group["rules"]}
            self.assertEqual(len(rules), sum(len(group["rules"]) for group in document["groups"]))
            # Split the file as text, because in YAML 1.1 the series `0x10` is a number.
            tests = []
            for file in files:
                head, *each = re.split(r"(?m)^(?=  - name: )", file.read_text())
                tests += [(head + test, self.needed(rules, test)) for test in each]
            with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
                noticed = pool.map(lambda spoilt: self.notice(promtool, path, document, tests, spoilt), [None, *rules])
                unnoticed = [each for each, is_noticed in zip([None, *rules], noticed) if not is_noticed]
            self.assertEqual(unnoticed, [None])

    def needed(self, rules, test):
        """Returns the rules that a test names, and the rules on which these depend."""
        found, needed = {each for each in rules if each in test}, set()
        while found:
            needed |= found
            found = {each for each in rules if any(each in rules[needing]["expr"] for needing in found)} - needed
        return needed

    def notice(self, promtool, path, document, tests, spoilt):
        """Returns whether a test fails without this rule. promtool takes minutes for days of all rules, so each test
        has only the rules that it needs; tests that do not need this rule are skipped."""
        with tempfile.TemporaryDirectory(prefix="gcw-alerts.") as folder:
            folder = pathlib.Path(folder)
            for test, needed in tests:
                if spoilt is not None and spoilt not in needed:
                    continue
                groups = []
                for group in document["groups"]:
                    rules = [rule for rule in group["rules"] if name(rule) in needed]
                    rules = [rule | {"expr": "vector(0) > 1"} if name(rule) == spoilt else rule for rule in rules]
                    groups += [group | {"rules": rules}] if rules else []
                (folder / path.name).write_text(tools.yaml.safe_dump({"groups": groups}))
                (folder / "tests.yaml").write_text(test)
                if self.fails(promtool, "tests.yaml", folder):
                    return True
        return False

    def fails(self, promtool, tests, folder):
        done = subprocess.run([promtool, "test", "rules", tests], cwd=folder, capture_output=True, text=True, timeout=tools.PATIENCE)
        self.assertIn(done.returncode, (0, 1), done.stderr)
        return done.returncode == 1

    def test_links(self):
        """Scenario: each alert is compared with docs/prometheus-alerts.md.
        Guarantee: the runbook of each alert is a section of the page, the page has no other sections, and each alert
        has a dashboard. (check_dashboards checks that the dashboard exists.)"""
        page = (tools.PROJECT / "docs" / "prometheus-alerts.md").read_text()
        headings = [line.removeprefix("## ") for line in page.splitlines() if line.startswith("## ")]
        alerts = [rule for path in FILES for group in tools.documents(path.read_text())[0]["groups"] for rule in group["rules"] if "alert" in rule]
        self.assertEqual(sorted(headings), sorted(rule["alert"] for rule in alerts))
        for rule in alerts:
            self.assertEqual(rule["annotations"]["runbook_url"], f"docs/prometheus-alerts.md#{rule['alert'].lower()}")
            self.assertTrue(rule["annotations"]["dashboard"].startswith("/d/gcwatch-"), rule["alert"])

    def test_scrape_configuration(self):
        """Scenario: the example configuration of Prometheus is checked.
        Guarantee: promtool accepts it with its rules; service discovery is left out, because Debian's promtool does not
        know it."""
        promtool = tools.program("promtool")
        (scrape,) = tools.documents((FOLDER / "prometheus.yaml").read_text())
        for job in scrape["scrape_configs"]:
            job.pop("kubernetes_sd_configs", None)
        with tempfile.TemporaryDirectory(prefix="gcw-alerts.") as folder:
            folder = pathlib.Path(folder)
            for rules in FILES:
                (folder / rules.name).write_text(rules.read_text())
            (folder / "prometheus.yaml").write_text(tools.yaml.safe_dump(scrape))
            tools.run(promtool, "check", "config", "prometheus.yaml", cwd=folder)


if __name__ == "__main__":
    unittest.main()
