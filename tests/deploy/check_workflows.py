"""The files that GitHub reads: workflows, forms and the configuration of Dependabot; also the compose file of the quick
start.

A workflow is a list of commands of the repository, so these tests check that each step is an action pinned by commit,
or a program of the tree."""

import json
import os
import pathlib
import re
import shutil
import tempfile
import unittest

import yaml

import tools
from tools import PROJECT

GITHUB = PROJECT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
# Commands with which a step may start. Each command also runs on a laptop.
COMMANDS = ("cargo xtask ", "cargo test ", 'cargo "+$(.ci/tools --oldest-rust)" check ', ".ci/", "tests/", "fuzz/", "chmod ")
AS_ROOT = 'sudo env PATH="$PATH" HOME="$HOME" '


class Workflows(unittest.TestCase):
    def steps(self):
        for path in WORKFLOWS:
            (workflow,) = tools.documents(path.read_text())
            for name, job in workflow["jobs"].items():
                for step in job["steps"]:
                    yield f"{path.name}: {name}", step

    def test_release_tools(self):
        """Scenario: .ci/tools installs the programs that xtask runs (xtask/src/tool.rs).
        Guarantee: xtask names these programs with the same versions, and no other programs."""
        sources = "".join(path.read_text() for path in sorted((PROJECT / "xtask/src").glob("*.rs")))
        named = re.findall(r'Tool = Tool \{\s*name: "(.+)",\s*version: "(.+)",', sources)
        packages = (PROJECT / ".ci/tools").read_text().partition("    packages)")[2].partition(";;")[0]
        self.assertEqual(sorted(re.findall(r"cargo install (\S+) --version (\S+)", packages)), sorted(named))
        self.assertEqual(len(named), 3)

    def test_actionlint(self):
        """Scenario: actionlint reads the workflows.
        Guarantee: syntax, expressions, types, names of contexts and permissions have no faults."""
        lint = tools.folder("actionlint", "actionlint") / "actionlint"
        tools.run(lint, "-shellcheck=", "-pyflakes=", *WORKFLOWS)

    def test_actions_are_pinned(self):
        """Scenario: every action is inspected.
        Guarantee: each action is pinned by a full commit id followed by its version, with one version per action."""
        found = {}
        for path in WORKFLOWS:
            for line in path.read_text().splitlines():
                if "uses:" in line:
                    pinned = re.fullmatch(r"\s*(?:- )?uses: ([\w.-]+/[\w./-]+)@([0-9a-f]{40}) # (v\d+\.\d+\.\d+)", line)
                    self.assertTrue(pinned, f"{path.name}: {line.strip()}")
                    self.assertEqual(found.setdefault(pinned[1], pinned[0].split("@")[1]), pinned[0].split("@")[1])
        self.assertIn("actions/checkout", found)

    def test_steps_are_commands(self):
        """Scenario: every step is inspected.
        Guarantee: each step is a single command of an executable program of the tree, and does not insert an expression
        of GitHub's contexts into the command."""
        for where, step in self.steps():
            if "run" not in step:
                continue
            command = step["run"]
            self.assertEqual(len(command.strip().splitlines()), 1, where)
            plain = command.removeprefix(AS_ROOT).lstrip('"')
            self.assertTrue(plain.startswith(COMMANDS), f"{where}: {command}")
            self.assertFalse(re.search(r"\$\{\{ *(github|steps|inputs|secrets)", command), f"{where}: {command}: use env")
            program = plain.split()[0]
            if program.startswith((".ci/", "tests/", "fuzz/")) and "$" not in program:
                self.assertTrue(os.access(PROJECT / program, os.X_OK), f"{where}: {program}")

    def test_suites_are_there(self):
        """Scenario: the matrices of the nightly run are read.
        Guarantee: each suite has its script."""
        (nightly,) = tools.documents((GITHUB / "workflows/nightly.yml").read_text())
        for suite in nightly["jobs"]["suites"]["strategy"]["matrix"]["suite"]:
            self.assertTrue(os.access(PROJECT / "tests" / suite / "run", os.X_OK), suite)

    def test_rights_are_few(self):
        """Scenario: the permissions of each workflow are read.
        Guarantee: the permissions allow only reading, and more only in the job that publishes; no checkout stores
        credentials; every job has a time limit."""
        for path in WORKFLOWS:
            (workflow,) = tools.documents(path.read_text())
            self.assertEqual(workflow["permissions"], {"contents": "read"}, path.name)
            for name, job in workflow["jobs"].items():
                self.assertIn("timeout-minutes", job, f"{path.name}: {name}")
                if "permissions" in job:
                    self.assertEqual((path.name, name), ("release.yml", "publish"))
        for where, step in self.steps():
            if step.get("uses", "").startswith("actions/checkout@"):
                self.assertIs(step["with"]["persist-credentials"], False, where)

    def test_release_has_every_step(self):
        """Scenario: docs/releasing.md is compared with the workflow.
        Guarantee: the workflow has the expected commands in order, and the page names each command."""
        (release,) = tools.documents((GITHUB / "workflows/release.yml").read_text())
        runs = [step["run"] for job in release["jobs"].values() for step in job["steps"] if "run" in step]
        done = [" ".join(run.split()[2:4]) for run in runs if run.startswith("cargo xtask")]
        done = [word.removesuffix(" --binary").removesuffix(" --tag").removesuffix(' "$IMAGE"') for word in done]
        self.assertEqual(done, ["check", "build", "dist", "sign", "login", "publish image", "publish chart", "sign", "publish release", "publish tool", "publish crates"])
        text = (PROJECT / "docs/releasing.md").read_text()
        for command in done:
            self.assertRegex(text, f"`(cargo xtask )?{command}", command)


    def test_image_is_scanned_and_attested(self):
        """Scenario: the release workflow is read.
        Guarantee: the image is scanned before publication; provenance, SBOM and VEX document are attested to the image
        and pushed next to it."""
        (release,) = tools.documents((GITHUB / "workflows/release.yml").read_text())
        steps = release["jobs"]["publish"]["steps"]
        runs = [step.get("run", "") for step in steps]
        self.assertLess(runs.index(".ci/scan"), runs.index("cargo xtask sign"))
        image = [step["with"] for step in steps if "actions/attest@" in step.get("uses", "") and "steps.image" in step["with"].get("subject-name", "")]
        self.assertEqual([each.get("predicate-type") for each in image], [None, "https://cyclonedx.org/bom", "https://openvex.dev/ns/v0.2.0"])
        self.assertTrue(all(each["push-to-registry"] is True and "steps.image.outputs.digest" in each["subject-digest"] for each in image))


class Forms(unittest.TestCase):
    def test_issue_forms(self):
        """Scenario: the issue forms are read.
        Guarantee: each form has the parts that GitHub requires: a name, a description, questions with distinct ids, and
        at least one required question."""
        forms = sorted(path for path in (GITHUB / "ISSUE_TEMPLATE").glob("*.yml") if path.name != "config.yml")
        self.assertGreaterEqual(len(forms), 3)
        for path in forms:
            (form,) = tools.documents(path.read_text())
            self.assertLessEqual({"name", "description", "body"}, set(form), path.name)
            ids = [each["id"] for each in form["body"] if each["type"] != "markdown"]
            self.assertEqual(len(ids), len(set(ids)), path.name)
            for each in form["body"]:
                self.assertIn(each["type"], {"markdown", "input", "textarea", "dropdown", "checkboxes"})
                self.assertIn("label", each["attributes"], path.name)
            self.assertTrue(any(each.get("validations", {}).get("required") for each in form["body"]), path.name)

    def test_dependabot(self):
        """Scenario: the folders of the Dependabot configuration are inspected.
        Guarantee: each folder contains files of its ecosystem."""
        (document,) = tools.documents((GITHUB / "dependabot.yml").read_text())
        files = {"cargo": "Cargo.toml", "github-actions": ".github/workflows/*.yml", "docker": "*Containerfile", "docker-compose": "compose.yaml", "pip": "requirements.txt"}
        for update in document["updates"]:
            for folder in update.get("directories", [update.get("directory")]):
                self.assertTrue(list((PROJECT / folder.strip("/")).glob(files[update["package-ecosystem"]])), folder)


class Compose(unittest.TestCase):
    FILE = PROJECT / "deploy/compose/compose.yaml"

    def test_files(self):
        """Scenario: the mounts and build files of the compose file are inspected.
        Guarantee: the files exist, and mounts are read-only; ports are published on loopback only; images have a
        version."""
        # Merge keys are part of the compose format.
        document = yaml.safe_load(self.FILE.read_text())
        for name, service in document["services"].items():
            for volume in service.get("volumes", []):
                source, _, mode = volume.split(":")
                self.assertTrue((self.FILE.parent / source).exists(), f"{name}: {source}")
                self.assertEqual(mode, "ro")
            for port in service.get("ports", []):
                self.assertTrue(port.startswith("127.0.0.1:"), f"{name}: {port}")
            if "build" in service:
                self.assertTrue((self.FILE.parent / service["build"]["context"] / service["build"]["dockerfile"]).is_file(), name)
            else:
                self.assertRegex(service["image"], r"^[\w/-]+:v?\d+\.\d+\.\d+$", name)

    def test_gcwatch(self):
        """Scenario: the service of gcwatch is inspected.
        Guarantee: its rights equal the rights of the chart, and its configuration is valid."""
        service = yaml.safe_load(self.FILE.read_text())["services"]["gcwatch"]
        values = yaml.safe_load((tools.CHART / "values.yaml").read_text())["securityContext"]["capabilities"]
        self.assertEqual((service["cap_drop"], service["cap_add"]), (values["drop"], values["add"]))
        self.assertIs(service["read_only"], True)
        self.assertNotIn("privileged", service)
        configuration = self.FILE.parent / "gcwatch.yaml"
        tools.run(tools.gcwatch(), "run", "--check-config", "--config", configuration)

    def test_prometheus(self):
        """Scenario: the Prometheus configuration is placed next to the rules, as in the mount.
        Guarantee: promtool accepts the configuration."""
        promtool = tools.program("promtool")
        held = tempfile.TemporaryDirectory(prefix="gcw-compose.")
        self.addCleanup(held.cleanup)
        folder = pathlib.Path(held.name)
        shutil.copy(self.FILE.parent / "prometheus.yaml", folder)
        shutil.copy(PROJECT / "deploy/prometheus/gcwatch.rules.yaml", folder)
        tools.run(promtool, "check", "config", folder / "prometheus.yaml")

    def test_datasources(self):
        """Scenario: the data sources of Grafana are read.
        Guarantee: their hosts are services of the compose file, and the file of dashboards names the mounted folder."""
        services = yaml.safe_load(self.FILE.read_text())["services"]
        provisioning = PROJECT / "deploy/grafana/provisioning"
        for source in yaml.safe_load((provisioning / "datasources.yaml").read_text())["datasources"]:
            self.assertIn(source["url"].split("//")[1].split(":")[0], services)
        (provider,) = yaml.safe_load((provisioning / "dashboards.yaml").read_text())["providers"]
        mounted = [volume.split(":")[1] for volume in services["grafana"]["volumes"]]
        self.assertIn(provider["options"]["path"], mounted)
        for path in (PROJECT / "deploy/grafana/dashboards").glob("*.json"):
            json.loads(path.read_text())


if __name__ == "__main__":
    unittest.main()
