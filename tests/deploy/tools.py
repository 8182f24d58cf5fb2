"""The tools of the checks, and the objects that they build from deploy/."""

import functools
import hashlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import unittest

import yaml

HERE = pathlib.Path(__file__).resolve().parent
PROJECT = HERE.parents[1]
DEPLOY = PROJECT / "deploy"
CHART = DEPLOY / "helm" / "gcwatch"
# The modules of tests/e2e provide receivers, real processes and recordings.
sys.path.insert(0, str(PROJECT / "tests" / "e2e"))
# Timeout for one run of a tool.
PATIENCE = 600


SAID = set()


def left_out(reason):
    """Skips a test that cannot run here, or fails it if every test is required. Each reason is printed once."""
    if os.environ.get("GCWATCH_DEPLOY_ALL"):
        raise AssertionError(reason)
    if reason not in SAID:
        SAID.add(reason)
        print(f"\ntests/deploy: left out: {reason}", file=sys.stderr)
    raise unittest.SkipTest(reason)


def cache():
    base = os.environ.get("GCWATCH_CACHE")
    if not base:
        base = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.join(os.environ["HOME"], ".cache"), "gcwatch")
    return pathlib.Path(base) / "tools"


def pins():
    lines = (HERE / "pins").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def folder(name, pin):
    """Returns the folder of a tool that tests/deploy/build provides. Skips the test if the tool is missing."""
    made = cache() / f"{name}-{pins()[pin]}"
    if not (made / ".complete").exists():
        left_out(f"{name} {pins()[pin]} is missing: tests/deploy/build {name}")
    return made


def program(name):
    """Returns the path of a program on PATH. Skips the test if the program is missing."""
    found = shutil.which(name)
    if not found:
        left_out(f"{name} is not on PATH")
    return found


def gcwatch():
    return os.environ.get("GCWATCH") or str(PROJECT / "target" / "debug" / "gcwatch")


def run(*command, status=0, **more):
    """Returns the standard output of a command, which must exit with this status."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=PATIENCE, **more)
    if done.returncode != status:
        raise AssertionError(f"{command[0]} ended with {done.returncode}, not {status}:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
    return done.stdout if status == 0 else done.stdout + done.stderr


class Strict(yaml.SafeLoader):
    """A YAML loader that rejects duplicate keys."""

    def construct_mapping(self, node, deep=False):
        merge = "tag:yaml.org,2002:merge"
        keys = [self.construct_object(key, deep=True) for key, _ in node.value if key.tag != merge]
        for key in keys:
            if keys.count(key) > 1:
                raise yaml.YAMLError(f"{node.start_mark}: the key {key} is a duplicate")
        return super().construct_mapping(node, deep)


def documents(text):
    return [each for each in yaml.load_all(text, Strict) if each]


@functools.cache
def kustomized(place):
    """Returns the output of `kustomize build` for a folder of deploy/kustomize, or for an overlay with a component:
    `plain+servicemonitor`."""
    kustomize = folder("kustomize", "kustomize") / "kustomize"
    base = DEPLOY / "kustomize"
    overlay, *components = place.split("+")
    if not components:
        return run(kustomize, "build", base / overlay)
    # Build a copy with an overlay and a component, as a user would write it.
    copy = pathlib.Path(os.environ["GCWATCH_DEPLOY_FOLDER"]) / hashlib.sha256(place.encode()).hexdigest()[:12]
    shutil.copytree(base, copy)
    (copy / "own").mkdir()
    lines = ["apiVersion: kustomize.config.k8s.io/v1beta1", "kind: Kustomization", f"resources: [../{overlay}]"]
    lines.append(f"components: [{', '.join('../components/' + name for name in components)}]")
    (copy / "own" / "kustomization.yaml").write_text("\n".join(lines) + "\n")
    return run(kustomize, "build", copy / "own")


KUSTOMIZED = [
    "base",
    "overlays/plain",
    "overlays/with-collector",
    "overlays/sidecar",
    "overlays/plain+servicemonitor",
    "overlays/plain+without-api-server",
    "overlays/plain+host-processes",
    "overlays/plain+state-on-host",
    "overlays/with-collector+servicemonitor+without-api-server+host-processes",
]


def cases():
    """Returns the render cases of the chart: ci/NAME-values.yaml."""
    return sorted(path.name.removesuffix("-values.yaml") for path in (CHART / "ci").glob("*-values.yaml"))


@functools.cache
def rendered(case):
    """Returns the output of `helm template` for a case."""
    helm = folder("helm", "helm") / "helm"
    return run(helm, "template", "gcwatch", CHART, "--namespace", "gcwatch", "--kube-version", "1.34.0", "--values", CHART / "ci" / f"{case}-values.yaml")
