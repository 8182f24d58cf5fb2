"""deploy/compose with a Docker engine: the processes, incidents and series after one minute.

The images of Prometheus and of the services are built here, from Debian's Prometheus and a runtime of the tests' cache,
under the names in compose.yaml. Images of Tempo and Grafana cannot be built here; tests/e2e and tests/deploy check
their files.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import room
from room import PROJECT, left_out

sys.path.insert(0, str(PROJECT / "tests" / "cluster"))
import images  # noqa: E402

FILE = PROJECT / "deploy/compose/compose.yaml"
X86 = pathlib.Path(os.environ["GCWATCH_X86_64"])
VERSION = re.search(r'\[workspace.package\]\nversion = "(.*)"', (PROJECT / "Cargo.toml").read_text())[1]
RUNTIME = "asp8.0.33"


class Compose(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="gcw-compose.")
        self.addCleanup(folder.cleanup)
        self.top = pathlib.Path(folder.name)
        self.room = room.Room(self.top)
        self.addCleanup(self.room.close)

    def gcwatch(self):
        """Returns gcwatch's image as released, or with the libraries of this machine if the program is not static."""
        if b"ld-linux" in X86.read_bytes()[:4096]:
            at = self.top / "gcwatch.tar"
            images.program(at, f"localhost/gcwatch:{VERSION}", X86)
            return at
        dist = self.top / "dist"
        xtask = [os.environ["GCWATCH_XTASK"]] if os.environ.get("GCWATCH_XTASK") else ["cargo", "xtask"]
        subprocess.run([*xtask, "dist", "--allow-dirty", "--binary", X86, "--out", dist], cwd=PROJECT, check=True, capture_output=True)
        return next(dist.glob("*-oci-amd64.tar"))

    def service(self):
        """Builds `gcwatch-shop`: the program of shop.Containerfile on a runtime of the cache."""
        source = images.runtimes() / RUNTIME
        if not (source / ".complete").exists():
            left_out(f"the runtime {RUNTIME} is not in the cache: tests/runtimes/fetch")
        images.RUNTIMES = {**images.RUNTIMES, "shop": (RUNTIME, [])}
        files = {f"app/{path.relative_to(source)}": path for path in source.rglob("*") if path.is_file()}
        files["shop/clinic.dll"] = PROJECT / "tests/workload/clinic.dll"
        base = images.layer({**images.libraries(), "etc/passwd": b"app:x:1000:1000:app:/:/nologin\n"}, [("tmp", 0o1777), ("etc", 0o755)])
        at = self.top / "shop.tar"
        environment = {"DOTNET_SYSTEM_GLOBALIZATION_INVARIANT": "1"}
        images.archive(at, "gcwatch-shop:latest", [base, images.layer(files)], ["/app/run", "/shop/clinic.dll"], environment)
        return at

    def prometheus(self, name):
        """Builds the image that compose.yaml names from this machine's Prometheus."""
        path = shutil.which("prometheus")
        if not path:
            left_out("Debian's prometheus is missing")
        at = self.top / "prometheus.tar"
        images.program(at, name, pathlib.Path(path))
        return at

    def test_within_a_minute(self):
        """Scenario: `up` starts gcwatch, Prometheus and both services.
        Guarantee: gcwatch attaches to both services under their names, `search` has an incident, and Prometheus has the
        collections of both services with their own labels."""
        docker = self.room.engine()
        plugin = subprocess.run([docker, "compose", "version"], capture_output=True, env=self.room.environment).returncode == 0
        compose = [docker, "compose"] if plugin else [room.program("docker-compose")]
        (prometheus,) = re.findall(r"image: (prom/prometheus:\S+)", FILE.read_text())
        for archive in (self.gcwatch(), self.service(), self.prometheus(prometheus)):
            self.room.run(docker, "load", "--input", archive)
        environment = {"GCWATCH_IMAGE": f"localhost/gcwatch:{VERSION}"}

        def composed(*words):
            return self.room.run(*compose, "--file", FILE, "--project-name", "gcw", *words, env=environment, cwd=PROJECT)

        composed("up", "--detach", "--no-build", "gcwatch", "search", "shop", "prometheus")
        self.addCleanup(composed, "down", "--timeout", "5", "--volumes")

        def answer(path):
            return json.loads(self.room.get(f"http://127.0.0.1:9464/api/v1/{path}") or "{}")

        def attached():
            return {each.get("service_name") or each.get("name") for each in answer("targets").get("targets", []) if each.get("state") == "attached"}

        try:
            room.eventually(lambda: {"search", "shop"} <= attached(), 60)
            incident = room.eventually(lambda: [each for each in answer("incidents").get("incidents", []) if "search" in json.dumps(each)], 90)
            self.assertTrue(incident)
            query = "http://127.0.0.1:9090/api/v1/query?query=dotnet_gc_collections_total"

            def services():
                return {each["metric"].get("job") for each in json.loads(self.room.get(query) or '{"data": {"result": []}}')["data"]["result"]}

            room.eventually(lambda: {"search", "shop"} <= services(), 90)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{answer('targets')}\n{composed('logs', '--tail', '30')}") from None


if __name__ == "__main__":
    unittest.main()
