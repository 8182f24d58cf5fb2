"""The names that gcwatch exports, compared with the registry of OpenTelemetry's semantic conventions in the version of
its schema.

These tests compare the table of docs/telemetry.md; tests/suite ensures that gcwatch exports nothing else.
GCWATCH_CONVENTIONS: a checkout of the conventions (default: the checkout of tests/deploy/build conventions).
"""

import functools
import os
import pathlib
import re
import unittest

import tools
import yaml

# Use the C loader if it exists, because there are 250 files.
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
# Attribute of the runtime's own meter in .NET 9 and later. gcwatch uses the attribute only by option.
OF_RUNTIME = {"gc.heap.generation"}
# Names of the metrics specification, which the registry does not contain.
OF_SPECIFICATION = {"otel.metric.overflow"}
# Instruments, with their names in the conventions.
INSTRUMENTS = {"Counter": "counter", "UpDownCounter": "updowncounter", "Gauge": "gauge", "Histogram": "histogram"}


@functools.cache
def registry():
    """Returns the attributes and metrics of the conventions by name."""
    given = os.environ.get("GCWATCH_CONVENTIONS")
    folder = pathlib.Path(given) if given else tools.folder("conventions", "conventions")
    attributes, metrics = {}, {}
    for path in sorted((folder / "model").rglob("*.yaml")):
        for group in (yaml.load(path.read_text(), LOADER) or {}).get("groups", []):
            if group["type"] == "metric":
                metrics[group["metric_name"]] = group
            for attribute in group.get("attributes", []):
                if "id" in attribute:
                    attributes[attribute["id"]] = attribute
    return attributes, metrics


def rows():
    """Returns the rows of docs/telemetry.md: attributes as name, type, stability; metrics as name, kind, unit,
    attributes, stability."""
    attributes, metrics = [], []
    for line in (tools.PROJECT / "docs" / "telemetry.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if not line.startswith("| `") or cells[-1] not in ("stable", "development", "gcwatch"):
            continue
        name = cells[0].strip("`")
        if cells[1] in INSTRUMENTS:
            metrics.append((name, cells[1], cells[2].strip("`"), re.findall("`([^`]*)`", cells[4]), cells[-1]))
        else:
            attributes.append((name, cells[1], cells[-1]))
    return attributes, metrics


def type_of(attribute):
    """Returns the type of an attribute. Enumerations are strings; a template (`k8s.pod.label.KEY`) has the type of its
    values."""
    kind = attribute["type"]
    if isinstance(kind, dict):
        return "string"
    return re.sub(r"^template\[(.*)\]$", r"\1", kind)


class Conventions(unittest.TestCase):
    maxDiff = None

    def check_name(self, name, stability, known):
        """Asserts that names of the conventions are declared as such with the same stability, and that other names have
        gcwatch's prefix."""
        if stability == "gcwatch":
            self.assertFalse(name in known, "the conventions have it")
            self.assertTrue(name.startswith("gcwatch.") or name in OF_RUNTIME)
            return None
        if name in OF_SPECIFICATION:
            return None
        self.assertTrue(name in known, "the conventions do not have it")
        self.assertNotIn("deprecated", known[name])
        self.assertEqual(stability == "stable", known[name]["stability"] == "stable", known[name]["stability"])
        return known[name]

    def test_version(self):
        """Scenario: the version of the schema in the telemetry is read.
        Guarantee: the version equals the version of the compared conventions."""
        source = (tools.PROJECT / "crates/delivery/src/otlp/batch.rs").read_text()
        (version,) = re.findall(r"schemas/([0-9.]+)\"", source)
        self.assertEqual(f"v{version}", tools.pins()["conventions"])

    def test_attributes(self):
        """Scenario: every attribute of the table is compared with the conventions.
        Guarantee: name, type and stability match, or the name has gcwatch's prefix."""
        known = registry()[0]
        attributes, _ = rows()
        self.assertGreater(len(attributes), 150)
        for name, kind, stability in attributes:
            with self.subTest(attribute=name):
                # The conventions call k8s.pod.label.KEY `k8s.pod.label`.
                found = self.check_name(re.sub(r"\.[A-Z]+$", "", name), stability, known)
                if found:
                    self.assertEqual(kind, type_of(found))

    def test_metrics(self):
        """Scenario: every metric of the table is compared with the conventions.
        Guarantee: name, instrument, unit and attributes match, or the name has gcwatch's prefix and its attributes are
        gcwatch's or the conventions'."""
        known_attributes, known = registry()
        _, metrics = rows()
        self.assertGreater(len(metrics), 80)
        self.assertEqual(len(metrics), len({name for name, *_ in metrics}), "every name is unique")
        for name, instrument, unit, attributes, stability in metrics:
            with self.subTest(metric=name):
                found = self.check_name(name, stability, known)
                if found:
                    self.assertEqual((INSTRUMENTS[instrument], unit), (found["instrument"], found["unit"]))
                    of_metric = {each.get("ref") or each.get("id") for each in found.get("attributes", [])}
                    self.assertLessEqual({each for each in attributes if not each.startswith("gcwatch.")}, of_metric)
                else:
                    self.assertEqual({each for each in attributes if not each.startswith("gcwatch.")} - known_attributes.keys(), set())


if __name__ == "__main__":
    unittest.main()
