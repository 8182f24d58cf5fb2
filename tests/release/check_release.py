"""A release, from the programs to the artifacts that a user pulls: the commands of .github/workflows/release.yml and
docs/install.md."""

import gzip
import hashlib
import http.server
import io
import json
import os
import pathlib
import re
import subprocess
import tarfile
import tempfile
import threading
import unittest

import room
from room import PROJECT, left_out

XTASK = [os.environ["GCWATCH_XTASK"]] if os.environ.get("GCWATCH_XTASK") else ["cargo", "xtask"]
X86 = pathlib.Path(os.environ["GCWATCH_X86_64"])
VERSION = re.search(r'\[workspace.package\]\nversion = "(.*)"', (PROJECT / "Cargo.toml").read_text())[1]
PORT = 5000


def other_machine(top):
    """Returns the program for aarch64 and True, or this machine's program with the machine number of aarch64 and
    False."""
    if os.environ.get("GCWATCH_AARCH64"):
        return pathlib.Path(os.environ["GCWATCH_AARCH64"]), True
    data = bytearray(X86.read_bytes())
    data[18:20] = (183).to_bytes(2, "little")
    path = top / "gcwatch-aarch64"
    path.write_bytes(data)
    return path, False


class Release(unittest.TestCase):
    """Creates one release for all tests, which read the published artifacts."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="gcw-release.")
        cls.addClassCleanup(folder.cleanup)
        cls.top = pathlib.Path(folder.name)
        cls.room = room.Room(cls.top)
        cls.addClassCleanup(cls.room.close)
        cls.registry = cls.room.registry(PORT) + "/team/gcwatch"
        cls.environment = {"GCWATCH_REGISTRY": cls.registry, "GCWATCH_REPOSITORY": "https://git.test/team/gcwatch", "GCWATCH_PACKAGES": "http://127.0.0.1:5001/feed"}
        # Use the compilers and caches of the user.
        cls.environment |= {"CARGO_HOME": os.environ.get("CARGO_HOME") or f"{os.environ['HOME']}/.cargo", "RUSTUP_HOME": os.environ.get("RUSTUP_HOME") or f"{os.environ['HOME']}/.rustup"}
        cls.arm, cls.arm_runs = other_machine(cls.top)
        cls.out = cls.top / "dist"
        cls.xtask("dist", "--allow-dirty", "--binary", X86, "--binary", cls.arm, "--out", cls.out)
        refused = cls.xtask("publish", "image", "--out", cls.out, status=1)
        assert "unauthorized" in refused or "authentication required" in refused, refused
        cls.xtask("login", env={"REGISTRY_USER": room.USER, "REGISTRY_PASSWORD": room.PASSWORD})
        cls.image = cls.outputs(cls.xtask("publish", "image", "--out", cls.out))

    @classmethod
    def xtask(cls, *words, status=0, env=()):
        return cls.room.run(*XTASK, *words, status=status, cwd=PROJECT, env={**cls.environment, **dict(env)})

    @staticmethod
    def outputs(text):
        """Parses outputs like GitHub."""
        return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)

    def skopeo(self, *words):
        return self.room.run("skopeo", *words)

    def documented(self, name):
        """Returns the block of commands of docs/install.md that contains this word, for a shell with the release's
        variables."""
        blocks = re.findall(r"```sh\n(.*?)```", (PROJECT / "docs/install.md").read_text(), re.DOTALL)
        (block,) = [block for block in blocks if name in block]
        return block

    def shell(self, script, **more):
        variables = {"VERSION": VERSION, "REGISTRY": self.registry, **more.pop("env", {})}
        return self.room.run("bash", "-euo", "pipefail", "-c", script, env=variables, **more)

    def test_image_in_registry(self):
        """Scenario: the image is pushed.
        Guarantee: one name leads to the images of both machines under the printed digest, and each image has its
        program."""
        self.assertEqual(self.image["name"], f"{self.registry}/gcwatch")
        name = f"docker://{self.registry}/gcwatch"
        for tag in (VERSION, "latest"):
            raw = self.skopeo("inspect", "--tls-verify=false", "--raw", f"{name}:{tag}")
            self.assertEqual("sha256:" + hashlib.sha256(raw.encode()).hexdigest(), self.image["digest"])
        machines = {each["platform"]["architecture"]: each for each in json.loads(raw)["manifests"]}
        self.assertEqual(set(machines), {"amd64", "arm64"})
        for machine, path in (("amd64", X86), ("arm64", self.arm)):
            to = self.top / f"pulled-{machine}"
            self.skopeo("--override-arch", machine, "copy", "--src-tls-verify=false", f"{name}:{VERSION}", f"dir:{to}")
            manifest = json.loads((to / "manifest.json").read_text())
            (layer,) = manifest["layers"]
            data = gzip.decompress((to / layer["digest"].removeprefix("sha256:")).read_bytes())
            with tarfile.open(fileobj=io.BytesIO(data)) as files:
                self.assertEqual(files.extractfile("gcwatch").read(), path.read_bytes())
            config = json.loads((to / manifest["config"]["digest"].removeprefix("sha256:")).read_text())
            self.assertEqual(config["architecture"], machine)
            self.assertEqual(config["config"]["Labels"]["org.opencontainers.image.source"], "https://git.test/team/gcwatch")

    def test_aarch64_runs(self):
        """Scenario: the program for aarch64 reads a recording under qemu.
        Guarantee: the report equals the report of the program for x86_64."""
        if not self.arm_runs:
            left_out("there is no program for aarch64: cargo xtask build with zig, or GCWATCH_AARCH64")
        emulator = room.program("qemu-aarch64-static")
        self.assertEqual(self.room.run(emulator, self.arm, "--version"), self.room.run(X86, "--version"))
        recording = PROJECT / "tests/recordings/svc8-workstation.nettrace.gz"
        words = ["analyze", "--format", "ndjson", recording]
        self.assertEqual(self.room.run(emulator, self.arm, *words), self.room.run(X86, *words))

    def test_image_runs(self):
        """Scenario: the commands of docs/install.md run with a Docker engine that pulls from the registry.
        Guarantee: the demo shows incidents at the published port; the daemon becomes ready and logs no error; `doctor`
        runs in the container."""
        if b"ld-linux" in X86.read_bytes()[:4096]:
            left_out("the program is not static, and the image has no libraries")
        docker = self.room.engine()
        demo = self.documented(" demo ").replace("--rm ", "--rm --detach --name demo ")
        self.shell(demo)
        self.addCleanup(self.room.run, docker, "rm", "--force", "demo")
        found = room.eventually(lambda: json.loads(self.room.get("http://127.0.0.1:9464/api/v1/incidents") or "{}").get("incidents"), 120)
        self.assertTrue(found)
        self.room.run(docker, "rm", "--force", "demo")
        said = self.shell(self.documented("--pid=host"))
        self.addCleanup(self.room.run, docker, "rm", "--force", "gcwatch")
        self.assertIn("gcwatch", said)
        room.eventually(lambda: self.room.get("http://127.0.0.1:9464/readyz"))
        self.room.run(docker, "stop", "gcwatch")
        log = subprocess.run([docker, "logs", "gcwatch"], capture_output=True, text=True, env=self.room.environment)
        self.assertNotIn("ERROR", log.stdout + log.stderr)

    def test_chart(self):
        """Scenario: the chart is pushed, pulled, and installed as docs/install.md describes, with an API that answers
        discovery.
        Guarantee: without any setting, the chart uses the pushed image; the chart names the repository; a dry run
        renders the DaemonSet."""
        helm = room.program("helm")
        chart = self.outputs(self.xtask("publish", "chart", "--out", self.out, env=room.on_path(helm)))
        self.assertEqual(chart["name"], f"{self.registry}/charts/gcwatch")
        raw = self.skopeo("inspect", "--tls-verify=false", "--raw", f"docker://{chart['name']}@{chart['digest']}")
        self.assertIn("application/vnd.cncf.helm.chart.content.v1.tar+gzip", raw)
        self.room.run(helm, "pull", f"oci://{chart['name']}", "--version", VERSION, "--plain-http", "--destination", self.top)
        pulled = self.top / f"gcwatch-{VERSION}.tgz"
        self.assertEqual(pulled.read_bytes(), (self.out / f"gcwatch-chart-{VERSION}.tgz").read_bytes())
        self.assertIn("home: https://git.test/team/gcwatch", self.room.run(helm, "show", "chart", pulled))

        line = next(line for line in self.documented("helm install").splitlines() if line.startswith("helm install"))
        with Discovery() as api:
            line = line.replace("helm ", f"{helm} ") + f" --dry-run=client --kubeconfig {api.configuration(self.top)}"
            # The API is on the machine's own loopback, the registry in the room, so the pulled chart is installed. The
            # API has no schemas of objects; tests/deploy and tests/kubernetes validate them.
            line = line.replace("oci://$REGISTRY/charts/gcwatch --version $VERSION", str(pulled)) + " --disable-openapi-validation"
            variables = {**self.room.environment, "VERSION": VERSION, "REGISTRY": self.registry}
            done = subprocess.run(["bash", "-euc", line], capture_output=True, text=True, env=variables, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("kind: DaemonSet", done.stdout)
        self.assertIn(f"image: {self.registry}/gcwatch:{VERSION}\n", done.stdout)
        with_registry = self.room.run(helm, "template", "gcwatch", f"oci://{chart['name']}", "--version", VERSION, "--plain-http", "--kube-version", "1.34.0")
        self.assertIn(f"image: {self.registry}/gcwatch:{VERSION}\n", with_registry)

    def test_archive_installs(self):
        """Scenario: `curl | tar` of docs/install.md downloads from a server with the files of the release.
        Guarantee: the program runs, and the digests match."""
        top = self.top / "download"
        release = top / f"team/gcwatch/releases/download/v{VERSION}"
        release.parent.mkdir(parents=True)
        release.symlink_to(self.out)
        server, address = room.serve(top)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        curl = self.documented("curl ").splitlines()[0]
        at = self.top / "unpacked"
        at.mkdir()
        variables = {**os.environ, "VERSION": VERSION, "REPOSITORY": f"{address}/team/gcwatch"}
        script = f"{curl}\ngcwatch-$VERSION-$(uname -m)-linux/bin/gcwatch --version"
        done = subprocess.run(["bash", "-euo", "pipefail", "-c", script], cwd=at, env=variables, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(done.stdout.startswith(f"gcwatch {VERSION}"), done.stdout)
        self.room.run("sha256sum", "--check", "--strict", "SHA256SUMS", cwd=self.out)

    def test_signatures(self):
        """Scenario: digests and image are signed with a key.
        Guarantee: cosign verifies the digests and the image, and rejects modified files."""
        cosign = room.program("cosign")
        room_ = self.top / "keys"
        room_.mkdir()
        quiet = {"COSIGN_PASSWORD": "", **room.on_path(cosign)}
        self.room.run(cosign, "generate-key-pair", cwd=room_, env=quiet)
        self.xtask("sign", "--out", self.out, "--key", room_ / "cosign.key", env=quiet)
        self.addCleanup((self.out / "SHA256SUMS.sigstore.json").unlink)
        words = [cosign, "verify-blob", "--key", room_ / "cosign.pub", "--insecure-ignore-tlog", "--bundle", self.out / "SHA256SUMS.sigstore.json"]
        self.room.run(*words, self.out / "SHA256SUMS")
        changed = self.top / "changed"
        changed.write_text((self.out / "SHA256SUMS").read_text() + "\n")
        self.room.run(*words, changed, status=1)
        image = f"{self.image['name']}@{self.image['digest']}"
        self.xtask("sign", image, "--key", room_ / "cosign.key", env=quiet)
        self.room.run(cosign, "verify", "--key", room_ / "cosign.pub", "--insecure-ignore-tlog", "--allow-http-registry", image)
        self.assertIn("has no digest", self.xtask("sign", f"{self.image['name']}:{VERSION}", status=1))

    def test_dry_run(self):
        """Scenario: packages of the tool and crates are released in a dry run to a feed and a registry.
        Guarantee: the tool's pointer package comes after the packages to which it points; crates come after their
        dependencies; no key is printed."""
        def printed(*words):
            command = [*XTASK, "publish", *words, "--dry-run", "--out", str(self.out)]
            environment = {**self.room.environment, **self.environment, "NUGET_API_KEY": "key-of-the-feed"}
            done = subprocess.run(command, cwd=PROJECT, env=environment, capture_output=True, text=True, timeout=room.PATIENCE)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertNotIn("key-of-the-feed", done.stdout + done.stderr)
            return [line for line in done.stderr.splitlines() if re.match("(dotnet|gh|cargo) ", line)]

        packages = [re.search(r"/(gcwatch\S*)\.nupkg", line)[1] for line in printed("tool")]
        self.assertEqual(packages, [f"gcwatch.linux-arm64.{VERSION}", f"gcwatch.linux-x64.{VERSION}", f"gcwatch.{VERSION}"])
        (crates,) = printed("crates")
        order = ["nettrace", "dotnet-diagnostics", "clr-gc", "clr-evidence", "clr-heap"]
        self.assertEqual(crates, " ".join(["cargo publish --locked", *(f"--package={name}" for name in order)]))
        manifests = [path.read_text() for path in PROJECT.glob("crates/*/Cargo.toml")]
        published = {re.search('name = "(.*)"', text)[1] for text in manifests if "publish.workspace" not in text}
        self.assertEqual(set(order), published)

    def test_refused(self):
        """Scenario: tags and addresses are not ready for a release.
        Guarantee: each release is refused with a reason."""
        self.assertIn("is not v", self.xtask("check", "--tag", "v99.0.0", status=1))
        placeholder = {"GCWATCH_REGISTRY": "host.example/team", "GCWATCH_PACKAGES": "https://host.example/feed"}
        self.assertIn("no registry", self.xtask("publish", "image", "--out", self.out, status=1, env=placeholder))
        # Optional parts of a project are skipped.
        self.assertEqual(self.xtask("publish", "tool", "--out", self.out, env=placeholder), "")
        self.assertEqual(self.xtask("publish", "crates", "--out", self.out, env={"CARGO_REGISTRY_TOKEN": ""}), "")


class Discovery:
    """Answers helm's requests to an API server before a dry run: version, groups, and resource kinds. This server has
    no objects."""

    KINDS = {
        "v1": [("serviceaccounts", "ServiceAccount", True), ("configmaps", "ConfigMap", True), ("services", "Service", True)],
        "apps/v1": [("daemonsets", "DaemonSet", True)],
        "rbac.authorization.k8s.io/v1": [("clusterroles", "ClusterRole", False), ("clusterrolebindings", "ClusterRoleBinding", False)],
    }

    @classmethod
    def answers(cls):
        def resources(version):
            kinds = [{"name": name, "kind": kind, "namespaced": inside, "singularName": "", "verbs": ["get", "create"]} for name, kind, inside in cls.KINDS[version]]
            return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": kinds}

        groups = [version for version in cls.KINDS if "/" in version]
        preferred = [{"groupVersion": version, "version": "v1"} for version in groups]
        named = [{"name": version.split("/")[0], "versions": [each], "preferredVersion": each} for version, each in zip(groups, preferred)]
        return {
            "/version": {"major": "1", "minor": "34", "gitVersion": "v1.34.0"},
            "/api": {"kind": "APIVersions", "versions": ["v1"]},
            "/api/v1": resources("v1"),
            "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": named},
            **{f"/apis/{version}": resources(version) for version in groups},
        }

    def __enter__(self):
        answers = self.answers()

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                found = answers.get(self.path.split("?")[0])
                body = json.dumps(found or {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}).encode()
                self.send_response(200 if found else 404)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    def configuration(self, top):
        path = top / "kubeconfig"
        address = f"http://127.0.0.1:{self.server.server_address[1]}"
        named = {"clusters": [{"name": "a", "cluster": {"server": address}}], "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}]}
        path.write_text(json.dumps({"apiVersion": "v1", "kind": "Config", "current-context": "a", "users": [{"name": "a", "user": {}}], **named}))
        return path


if __name__ == "__main__":
    unittest.main()
