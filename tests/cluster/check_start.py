"""Executes the section of docs/kubernetes.md that leads from an empty cluster to a first alert, line by line."""

import os
import pathlib
import re
import shlex
import subprocess
import time
import unittest

import images
import lab
import tools

SECTION = "## From nothing to a first alert"


def any_runtime():
    return next(name for name in ("net8", "net10", "net9", "core31") if images.is_there(name))


def steps():
    """Returns the lines of the section's shell blocks without comments."""
    text = (lab.PROJECT / "docs" / "kubernetes.md").read_text()
    section = text[text.index(SECTION) :].split("\n## ")[1 if text.startswith(SECTION) else 0]
    blocks = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)
    lines = "".join(blocks).replace("\\\n", " ").splitlines()
    return [re.sub(r"\s+#.*$", "", line).strip() for line in lines if line.strip()]


class Start(unittest.TestCase):
    def test_each_step(self):
        """Scenario: a .NET service runs in a trial namespace, and every command of the section except `cargo xtask
        dist` runs in order; `cargo xtask dist` has built the image and the chart before.
        Guarantee: the commands succeed within 5 min in total, `curl` shows the incident with its pod, and no object
        remains after the removal."""
        cluster = lab.cluster()
        before = cluster.objects()
        self.addCleanup(cluster.kubectl, "delete", "namespace", "gcwatch", "trial", "--ignore-not-found")
        cluster.kubectl("create", "namespace", "trial")
        container = lab.container("shop", any_runtime(), "lohoos")
        # The objects that the workload keeps fit into this limit if no heap limit is set.
        container["resources"]["limits"]["memory"] = "512Mi"
        cluster.apply(lab.workload("Deployment", "shop", container), namespace="trial")
        cluster.kubectl("rollout", "status", "--namespace", "trial", "deployment/shop", "--timeout=60s")
        helm = tools.folder("helm", "helm")
        path = f"{cluster.bin}:{cluster.parts / 'bin'}:{helm}:{os.environ['PATH']}"
        kubeconfig = str(cluster._kubeconfig("administrator"))
        environment = {**os.environ, "PATH": path, "KUBECONFIG": kubeconfig, "HOME": str(cluster.folder), "CONTAINERD_ADDRESS": "/run/containerd/containerd.sock"}
        done, behind = [], []
        began = time.monotonic()
        try:
            for line in steps():
                if line.startswith("cargo xtask dist"):
                    continue
                # Replace the paths of the documentation with the paths of this run.
                line = re.sub(r"target/dist/gcwatch-\S+-oci-amd64\.tar", shlex.quote(str(lab.archive())), line)
                line = re.sub(r"target/dist/gcwatch-chart-\S+\.tgz", shlex.quote(str(lab.chart())), line)
                line = line.removeprefix("sudo ")
                if line.endswith("&"):
                    behind.append(subprocess.Popen(["bash", "-c", f"exec {line[:-1]}"], env=environment, stdout=subprocess.DEVNULL))
                    continue

                def run():
                    return subprocess.run(["bash", "-c", line], env=environment, capture_output=True, text=True, timeout=150, cwd=lab.PROJECT)

                if line.startswith("curl"):
                    said = lab.until(line, lambda: (out := run()).returncode == 0 and "memory.exhausted" in out.stdout and out.stdout)
                    self.assertRegex(said, r'"k8s\.pod\.name": ?"shop-')
                else:
                    out = run()
                    self.assertIn(out.returncode, (0, 1) if "doctor" in line else (0,), f"{line}\n{out.stdout}\n{out.stderr}")
                done.append(line)
        finally:
            for each in behind:
                each.terminate()
                each.wait()
        self.assertGreater(len(done), 7)
        took = time.monotonic() - began
        self.assertLess(took, 300)
        print(f"{len(done)} steps in {took:.0f} s", end=" ", flush=True)
        cluster.helm("uninstall", "gcwatch", "--namespace", "gcwatch")
        cluster.kubectl("delete", "namespace", "gcwatch", "trial")
        lab.until("nothing is left", lambda: cluster.objects() == before, 60)
