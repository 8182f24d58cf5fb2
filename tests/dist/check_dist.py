"""Opens each artifact of `cargo xtask dist`, and installs the artifact if this host can install it.

GCWATCH names the packed program, which can be a debug build. The checks accept static and dynamic programs.
"""

import gzip
import hashlib
import io
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest
import zipfile
from xml.etree import ElementTree

PROJECT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = pathlib.Path(os.environ.get("GCWATCH") or PROJECT / "target" / "debug" / "gcwatch")
VERSION = re.search(r'\[workspace.package\]\nversion = "(.*)"', (PROJECT / "Cargo.toml").read_text())[1]
# GCWATCH_XTASK names a program that is already built.
XTASK = [os.environ["GCWATCH_XTASK"]] if os.environ.get("GCWATCH_XTASK") else ["cargo", "xtask"]
PATIENCE = 600
LICENSES = "THIRD-PARTY-LICENSES.txt"
NUSPEC = "{http://schemas.microsoft.com/packaging/2010/07/nuspec.xsd}"


def left_out(reason):
    if os.environ.get("GCWATCH_DIST_ALL"):
        raise AssertionError(reason)
    print(f"\ntests/dist: left out: {reason}", file=sys.stderr)
    raise unittest.SkipTest(reason)


def run(*command, status=0, **more):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=PATIENCE, **more)
    if done.returncode != status:
        raise AssertionError(f"{command} ended with {done.returncode}:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
    return done.stdout


def make(out, *more, **environment):
    words = [*XTASK, "dist", "--allow-dirty", "--binary", PROGRAM, "--out", out, *more]
    return run(*words, cwd=PROJECT, env={**os.environ, **environment})


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def is_static():
    return "INTERP" not in run("readelf", "--program-headers", PROGRAM)


class Dist(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="gcw-dist.")
        cls.addClassCleanup(cls.folder.cleanup)
        cls.top = pathlib.Path(cls.folder.name)
        cls.out = cls.top / "one"
        cls.said = make(cls.out)

    def one(self, pattern):
        (found,) = self.out.glob(pattern)
        return found

    def built(self, ending, tool):
        """Returns the package that a tool built. Skips the test without the tool."""
        if not shutil.which(tool):
            self.assertIn(f"left out: package.{ending}: {tool} is missing", self.said)
            left_out(f"{tool} is missing: .ci/tools packages")
        return self.one(f"*.{ending}")

    def of_commit(self):
        return int(os.environ.get("SOURCE_DATE_EPOCH") or run("git", "log", "-1", "--format=%ct", cwd=PROJECT))

    def check_entries(self, archive):
        """Asserts that entries are sorted, belong to root, and have the date of the commit."""
        names = [entry.name for entry in archive.getmembers()]
        self.assertEqual(names, sorted(names))
        epoch = self.of_commit()
        for entry in archive.getmembers():
            self.assertEqual((entry.uid, entry.gid, entry.mtime), (0, 0, epoch), entry.name)
            self.assertFalse(entry.mode & 0o022, f"{entry.name}: no write permission for others")
        return names

    def test_twice(self):
        """Scenario: the artifacts are built twice from one program at different times.
        Guarantee: all files are identical."""
        two = self.top / "two"
        make(two)
        for path in self.out.iterdir():
            self.assertEqual(sha256(path.read_bytes()), sha256((two / path.name).read_bytes()), path.name)
        self.assertEqual({path.name for path in self.out.iterdir()}, {path.name for path in two.iterdir()})

    def test_date(self):
        """Scenario: SOURCE_DATE_EPOCH is set.
        Guarantee: the entries have this date."""
        dated = self.top / "dated"
        make(dated, SOURCE_DATE_EPOCH="86400")
        with tarfile.open(next(dated.glob("*-linux.tar.gz"))) as archive:
            self.assertEqual({entry.mtime for entry in archive}, {86400})

    def test_checksums(self):
        """Scenario: sha256sum reads SHA256SUMS.
        Guarantee: the file lists every artifact with the right checksum."""
        run("sha256sum", "--check", "--strict", "SHA256SUMS", cwd=self.out)
        named = {line.split()[1] for line in (self.out / "SHA256SUMS").read_text().splitlines()}
        self.assertEqual(named, {path.name for path in self.out.iterdir()} - {"SHA256SUMS"})

    def test_says_how_it_is_linked(self):
        """Scenario: a program that is static or needs libraries is packed.
        Guarantee: the task reports whether the program is static."""
        self.assertIn("static" if is_static() else "DYNAMIC", self.said)

    def test_not_a_program(self):
        """Scenario: --binary names a text file.
        Guarantee: the file is refused, and no artifact is built."""
        out = self.top / "none"
        words = [*XTASK, "dist", "--allow-dirty", "--binary", __file__, "--out", out]
        done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=PATIENCE, cwd=PROJECT)
        self.assertEqual(done.returncode, 1)
        self.assertIn("is not a 64-bit Linux program", done.stderr)
        self.assertFalse(out.exists())

    def test_tar(self):
        """Scenario: the tar archive is unpacked.
        Guarantee: its program runs; pages, completions, configuration and rules exist and are usable."""
        with tarfile.open(self.one("*-linux.tar.gz")) as archive:
            names = self.check_entries(archive)
            archive.extractall(self.top / "tar")
        (top,) = (self.top / "tar").iterdir()
        for name in ("LICENSE", "README.md", "rules-catalogue.md", "systemd/gcwatch.service", "prometheus/gcwatch.rules.yaml", "prometheus/gcwatch.fleet.rules.yaml"):
            self.assertTrue((top / name).is_file(), name)
        self.assertEqual(run(top / "bin/gcwatch", "--version"), run(PROGRAM, "--version"))
        run(top / "bin/gcwatch", "run", "--check-config", "--config", top / "systemd/gcwatch.yaml")
        self.assertEqual({path.name for path in (top / "rules").iterdir()}, {path.name for path in (PROJECT / "rules").iterdir()})
        commands = {path.name for path in (top / "share/man/man1").iterdir()}
        self.assertLessEqual({"gcwatch.1", "gcwatch-run.1", "gcwatch-ps.1", "gcwatch-rules-check.1"}, commands)
        self.assertNotIn("gcwatch-man.1", commands)
        self.assertIn(".TH gcwatch", (top / "share/man/man1/gcwatch.1").read_text())
        run("bash", "-n", top / "share/bash-completion/completions/gcwatch")
        self.assertIn("#compdef gcwatch", (top / "share/zsh/vendor-completions/_gcwatch").read_text())
        self.assertIn("complete -c gcwatch", (top / "share/fish/vendor_completions.d/gcwatch.fish").read_text())
        self.assertGreater(len(names), 30)

    def test_deb(self):
        """Scenario: dpkg-deb opens the package.
        Guarantee: the fields are right, the configuration is a conffile, and the unit starts the packaged program."""
        package = self.built("deb", "cargo-deb")
        if not shutil.which("dpkg-deb"):
            left_out("dpkg-deb is missing")
        info = run("dpkg-deb", "--info", package)
        for field in ("Package: gcwatch", f"Version: {VERSION}", "Architecture: amd64", "conffiles", "postinst", "prerm", "postrm"):
            self.assertIn(field, info)
        self.assertEqual("Depends:" in info, not is_static())
        for line in run("dpkg-deb", "--contents", package).splitlines():
            self.assertRegex(line, " (root/root|0/0) ")
        root = self.top / "deb"
        run("dpkg-deb", "--raw-extract", package, root)
        unit = (root / "usr/lib/systemd/system/gcwatch.service").read_text()
        self.assertIn("ExecStart=/usr/bin/gcwatch run --config /etc/gcwatch/gcwatch.yaml", unit)
        self.assertNotIn("/usr/local", unit)
        self.assertEqual((root / "DEBIAN/conffiles").read_text(), "/etc/gcwatch/gcwatch.yaml\n")
        for script in ("postinst", "prerm", "postrm"):
            run("sh", "-n", root / "DEBIAN" / script)
        gzip.decompress((root / "usr/share/man/man1/gcwatch.1.gz").read_bytes())

    def test_deb_installs(self):
        """Scenario: the package is installed in an empty root, its configuration is changed, and the package is
        upgraded, removed and purged.
        Guarantee: the changed configuration survives the upgrade and the removal; after a purge, no file remains."""
        package = self.built("deb", "cargo-deb")
        if not shutil.which("dpkg") or os.geteuid() != 0:
            left_out("installing takes dpkg and root")
        root = self.top / "root"
        for folder in ("var/lib/dpkg/updates", "var/lib/dpkg/info", "etc", "usr/bin"):
            (root / folder).mkdir(parents=True)
        (root / "var/lib/dpkg/status").touch()
        # The root has no systemd, so the test only covers the scripts' behaviour without systemd.
        newer = self.top / "newer"
        run("dpkg-deb", "--raw-extract", package, newer)
        control = newer / "DEBIAN/control"
        control.write_text(control.read_text().replace(f"Version: {VERSION}", "Version: 0.2.0"))
        (newer / "etc/gcwatch/gcwatch.yaml").write_text("# The next version's.\n")
        run("dpkg-deb", "--root-owner-group", "-Znone", "--build", newer, self.top / "newer.deb")

        def dpkg(*words):
            forced = ["--force-depends", "--force-confold", "--force-not-root", "--force-bad-path"]
            return run("dpkg", *forced, f"--root={root}", *words)

        self.provide_shell(root)
        dpkg("--install", package)
        status = (root / "var/lib/dpkg/status").read_text()
        self.assertIn("Status: install ok installed", status)
        self.assertEqual(sha256((root / "usr/bin/gcwatch").read_bytes()), sha256(PROGRAM.read_bytes()))
        configuration = root / "etc/gcwatch/gcwatch.yaml"
        configuration.write_text("# Mine.\n")
        state = root / "var/lib/private/gcwatch"
        state.mkdir(parents=True)
        (state / "waiting").touch()
        dpkg("--install", self.top / "newer.deb")
        self.assertIn("Version: 0.2.0", (root / "var/lib/dpkg/status").read_text())
        self.assertEqual(configuration.read_text(), "# Mine.\n")
        self.assertTrue((state / "waiting").exists())
        dpkg("--remove", "gcwatch")
        self.assertFalse((root / "usr/bin/gcwatch").exists())
        self.assertEqual(configuration.read_text(), "# Mine.\n")
        dpkg("--purge", "gcwatch")
        left = [path for path in root.rglob("*gcwatch*") if "var/log" not in str(path)]
        self.assertEqual(left, [])

    def provide_shell(self, root):
        """Provides a shell and the few programs that the package scripts call, with their libraries, because dpkg runs
        the scripts inside the root."""
        for name in ("sh", "rm", "rmdir"):
            program = shutil.which(name)
            libraries = [word for word in run("ldd", program).split() if word.startswith("/")]
            for path in (os.path.realpath(program), *libraries):
                to = root / ("bin/" + name if path == os.path.realpath(program) else path.lstrip("/"))
                to.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, to)

    def test_rpm(self):
        """Scenario: rpm reads the package.
        Guarantee: digests and fields are right, the configuration is kept, and the files match the .deb package."""
        package = self.built("rpm", "cargo-generate-rpm")
        if not shutil.which("rpm"):
            left_out("rpm is missing")
        database = ["rpm", "--dbpath", self.top / "rpm-read"]
        self.assertRegex(run(*database, "--checksig", "--verbose", package), r"(?s)Header SHA256 digest: OK\n.*Payload SHA256 digest: OK")
        query = [*database, "--query", "--package", package]
        said = run(*query, "--queryformat", "%{NAME} %{VERSION} %{RELEASE} %{ARCH} %{LICENSE} %{BUILDTIME} %{SOURCEPACKAGE}")
        self.assertEqual(said, f"gcwatch {VERSION} 1 x86_64 Apache-2.0 {self.of_commit()} (none)")
        self.assertEqual(run(*query, "--configfiles"), "/etc/gcwatch/gcwatch.yaml\n")
        self.assertEqual("libc.so.6" in run(*query, "--requires"), not is_static())
        self.assertEqual(run(*query, "--recommends"), "ca-certificates\n")
        self.assertIn("systemctl try-restart gcwatch.service", run(*query, "--scripts"))
        files = run("dpkg-deb", "--contents", self.one("*.deb")).splitlines() if shutil.which("dpkg-deb") else []
        of_deb = {line.split()[-1].lstrip(".") for line in files if not line.startswith("d")}
        lines = run(*query, "--queryformat", "[%{FILEMODES:perms} %{FILEUSERNAME} %{FILENAMES}\n]").splitlines()
        self.assertLessEqual({line.split()[1] for line in lines}, {"root"})
        of_rpm = {line.split()[2] for line in lines if not line.startswith("d")}
        if of_deb:
            self.assertEqual(of_rpm, {path.replace("zsh/vendor-completions", "zsh/site-functions") for path in of_deb})

    def test_rpm_installs(self):
        """Scenario: the package is installed in an empty root, its configuration is changed, and the package is
        upgraded to itself and removed.
        Guarantee: the program exists with its mode, rpm verifies every file, and the changed configuration is kept as a
        backup."""
        package = self.built("rpm", "cargo-generate-rpm")
        if not shutil.which("rpm") or os.geteuid() != 0:
            left_out("installing takes rpm and root")
        root = self.top / "rpm-root"
        root.mkdir()
        # Debian's rpm does not know a package with a shell; the scripts run if a shell exists.
        words = ["rpm", "--root", root, "--nodeps", "--noscripts"]
        run(*words, "--install", package)
        program = root / "usr/bin/gcwatch"
        self.assertEqual((sha256(program.read_bytes()), program.stat().st_mode & 0o777), (sha256(PROGRAM.read_bytes()), 0o755))
        run("rpm", "--root", root, "--verify", "--nodeps", "gcwatch")
        configuration = root / "etc/gcwatch/gcwatch.yaml"
        configuration.write_text("# Mine.\n")
        run(*words, "--upgrade", "--replacepkgs", package)
        self.assertEqual(configuration.read_text(), "# Mine.\n")
        run("rpm", "--root", root, "--erase", "--noscripts", "gcwatch")
        left = [path for folder in ("etc", "usr") for path in (root / folder).rglob("*")]
        self.assertEqual([str(path) for path in left if path.is_file()], [f"{configuration}.rpmsave"])
        script = (PROJECT / "deploy/packages/rpm/postun").read_text()
        run("sh", "-euc", script.replace("/usr/share/", f"{root}/usr/share/").replace("/etc/", f"{root}/etc/"), "postun", "0")
        self.assertEqual([str(path) for path in root.rglob("*gcwatch*")], [str(root / "etc/gcwatch"), f"{configuration}.rpmsave"])

    def test_rpm_scripts(self):
        """Scenario: the scripts run at installation, upgrade and removal, with a systemctl that records its arguments.
        Guarantee: the preset decides at the first installation; an upgrade restarts only a running service; a removal
        stops it."""
        package = self.built("rpm", "cargo-generate-rpm")
        if not shutil.which("rpm"):
            left_out("rpm is missing")
        scripts = PROJECT / "deploy/packages/rpm"
        (self.top / "asked").mkdir()
        (self.top / "asked/systemctl").write_text(f'#!/bin/sh\necho "$@" >>{self.top}/asked/log\nexit 1\n')
        (self.top / "asked/systemctl").chmod(0o755)
        (self.top / "asked/system").mkdir()

        def asked(name, number):
            log = self.top / "asked/log"
            log.write_text("")
            # Simulate a host that runs systemd.
            text = (scripts / name).read_text().replace("/run/systemd/system", str(self.top / "asked/system"))
            text = text.replace("rmdir", "true")
            run("sh", "-euc", text, name, number, env={**os.environ, "PATH": f"{self.top}/asked:{os.environ['PATH']}"})
            return log.read_text().splitlines()

        self.assertEqual(asked("post", 1), ["daemon-reload", "preset gcwatch.service"])
        self.assertEqual(asked("post", 2), ["daemon-reload"])
        self.assertEqual(asked("preun", 1), [])
        self.assertEqual(asked("preun", 0), ["disable --now gcwatch.service"])
        self.assertEqual(asked("postun", 1), ["daemon-reload", "try-restart gcwatch.service"])
        self.assertEqual(asked("postun", 0), ["daemon-reload"])
        said = run("rpm", "--dbpath", self.top / "rpm-read", "--query", "--package", package, "--scripts")
        for name in ("post", "preun", "postun"):
            self.assertIn((scripts / name).read_text().strip(), said)

    def test_image_of_all_machines(self):
        """Scenario: the archive for pushing is opened.
        Guarantee: its single name leads to an index, and the index to the images of the archives that engines load."""
        def opened(pattern):
            with tarfile.open(self.one(pattern)) as archive:
                return {entry.name: archive.extractfile(entry).read() for entry in archive if entry.isfile()}

        both, one = opened(f"gcwatch-{VERSION}-oci.tar"), opened("*-oci-amd64.tar")
        (listed,) = json.loads(both["index.json"])["manifests"]
        self.assertEqual(listed["annotations"], {"org.opencontainers.image.ref.name": VERSION})
        index = json.loads(both["blobs/" + listed["digest"].replace(":", "/")])
        self.assertEqual(index["mediaType"], listed["mediaType"])
        (image,) = index["manifests"]
        (alone,) = json.loads(one["index.json"])["manifests"]
        self.assertEqual((image["digest"], image["platform"]), (alone["digest"], alone["platform"]))
        self.assertLessEqual({name for name in one if name.startswith("blobs/")}, set(both))

    def test_addresses(self):
        """Scenario: artifacts are packed with addresses, and with the placeholders of the sources.
        Guarantee: packages, image, chart and list name the repository, and the chart names the registry; with
        placeholders, no artifact contains an address."""
        out = self.top / "addressed"
        make(out, GCWATCH_REPOSITORY="https://git.test/team/gcwatch", GCWATCH_REGISTRY="registry.test/team")

        def named(folder):
            texts = {}
            with tarfile.open(next(folder.glob("gcwatch-chart-*"))) as chart:
                texts["chart"] = chart.extractfile("gcwatch/Chart.yaml").read().decode()
                texts["values"] = chart.extractfile("gcwatch/values.yaml").read().decode()
            with zipfile.ZipFile(folder / f"gcwatch.{VERSION}.nupkg") as package:
                texts["tool"] = package.read("gcwatch.nuspec").decode()
            with tarfile.open(folder / f"gcwatch-{VERSION}-oci.tar") as image:
                texts["image"] = "".join(image.extractfile(each).read().decode("utf-8", "replace") for each in image if each.size < 9999 and each.isfile())
            texts["list"] = next(folder.glob("*.cdx.json")).read_text()
            if shutil.which("dpkg-deb"):
                texts["deb"] = run("dpkg-deb", "--field", next(folder.glob("*.deb")))
            if shutil.which("rpm"):
                texts["rpm"] = run("rpm", "--dbpath", self.top / "rpm-read", "--query", "--package", next(folder.glob("*.rpm")), "--info")
            return texts

        for name, text in named(out).items():
            self.assertIn('registry: "registry.test/team"' if name == "values" else "https://git.test/team/gcwatch", text, name)
        for name, text in named(self.out).items():
            self.assertNotRegex(text, r"(git|registry|packages)\.example/", name)

    def test_image(self):
        """Scenario: Docker and an OCI reader open the image archive.
        Guarantee: both find the same configuration and the same single layer; digests and sizes are right; entry point,
        user and labels match the Containerfile; no file is writable."""
        with tarfile.open(self.one("*-oci-amd64.tar")) as archive:
            self.check_entries(archive)
            files = {entry.name: archive.extractfile(entry).read() for entry in archive if entry.isfile()}
        for name, data in files.items():
            if name.startswith("blobs/"):
                self.assertEqual(name, f"blobs/sha256/{sha256(data)}")
        self.assertEqual(json.loads(files["oci-layout"]), {"imageLayoutVersion": "1.0.0"})

        def followed(one):
            data = files["blobs/" + one["digest"].replace(":", "/")]
            self.assertEqual(len(data), one["size"])
            return data

        (listed,) = json.loads(files["index.json"])["manifests"]
        manifest = json.loads(followed(listed))
        (layer,) = manifest["layers"]
        (docker,) = json.loads(files["manifest.json"])
        self.assertEqual(docker["Config"], "blobs/" + manifest["config"]["digest"].replace(":", "/"))
        self.assertEqual(docker["Layers"], ["blobs/" + layer["digest"].replace(":", "/")])
        self.assertEqual(docker["RepoTags"], [listed["annotations"]["io.containerd.image.name"]])
        config = json.loads(followed(manifest["config"]))
        unpacked = gzip.decompress(followed(layer))
        self.assertEqual(config["rootfs"]["diff_ids"], [f"sha256:{sha256(unpacked)}"])
        text = (PROJECT / "deploy/container/Containerfile").read_text()
        last = text[text.rindex("\nFROM ") :]
        runs = config["config"]
        self.assertIn(f"ENTRYPOINT {json.dumps(runs['Entrypoint'])}", last)
        self.assertIn(f"CMD {json.dumps(runs['Cmd'])}", last)
        self.assertIn(f"USER {runs['User']}", last)
        self.assertIn(f"ENV {' '.join(runs['Env'])}\n", last)
        for label in ("title", "description", "licenses"):
            key = f"org.opencontainers.image.{label}"
            self.assertIn(f'{key}="{runs["Labels"][key]}"', last)
        self.assertEqual(runs["Labels"]["org.opencontainers.image.version"], VERSION)
        with tarfile.open(fileobj=io.BytesIO(unpacked)) as root:
            self.check_entries(root)
            modes = {entry.name: entry.mode for entry in root if entry.isfile()}
        self.assertEqual(modes.pop("gcwatch"), 0o555)
        licenses = {LICENSES} if shutil.which("cargo-about") else set()
        self.assertEqual(set(modes), {"LICENSE", "etc/passwd", "etc/group", "etc/ssl/certs/ca-certificates.crt"} | licenses)
        self.assertEqual(set(modes.values()), {0o444})

    def test_licenses(self):
        """Scenario: the licences of the tar archive are compared with the crates that cargo links for each static target.
        Guarantee: each crate is listed with its version and above a text. Every artifact that contains the program has the same
        file."""
        if not shutil.which("cargo-about"):
            self.assertIn(f"left out: {LICENSES}: cargo-about is missing", self.said)
            left_out("cargo-about is missing: .ci/tools packages")
        with tarfile.open(self.one("*-linux.tar.gz")) as archive:
            (name,) = [name for name in archive.getnames() if name.endswith(f"/{LICENSES}")]
            text = archive.extractfile(name).read()
        listed = set()
        for part in text.decode().split("\n" + "=" * 80 + "\n")[1:]:
            head, _, license_text = part.partition("\n\n")[2].partition("\n\n")
            self.assertGreater(len(license_text), 200, head)
            listed |= {tuple(line.split()) for line in head.splitlines()}
        for machine in ("x86_64", "aarch64"):
            tree = run("cargo", "tree", "--locked", "--package", "gcwatch", "--edges", "normal", "--target", f"{machine}-unknown-linux-musl", "--prefix", "none", cwd=PROJECT)
            # A crate of the workspace has its path in the line, and the licence of gcwatch.
            linked = {tuple(line.replace(" v", " ", 1).split()[:2]) for line in tree.splitlines() if line and "(/" not in line}
            self.assertGreater(len(linked), 100)
            self.assertEqual(linked - listed, set(), machine)
        with zipfile.ZipFile(self.one(f"gcwatch.linux-*.{VERSION}.nupkg")) as package:
            self.assertEqual(package.read(LICENSES), text)
        with tarfile.open(self.one("*-oci-amd64.tar")) as archive:
            blobs = [archive.extractfile(entry).read() for entry in archive if entry.isfile() and entry.name.startswith("blobs/")]
        (layer,) = [blob for blob in blobs if blob.startswith(b"\x1f\x8b")]
        with tarfile.open(fileobj=io.BytesIO(layer)) as root:
            self.assertEqual(root.extractfile(LICENSES).read(), text)
        # The files of the RPM package are those of the Debian package (test_rpm).
        if shutil.which("dpkg-deb"):
            words = ["dpkg-deb", "--fsys-tarfile", self.one("*.deb")]
            unpacked = subprocess.run(words, capture_output=True, timeout=PATIENCE, check=True).stdout
            with tarfile.open(fileobj=io.BytesIO(unpacked)) as archive:
                self.assertEqual(archive.extractfile(f"./usr/share/doc/gcwatch/{LICENSES}").read(), text)

    def test_krew_installs(self):
        """Scenario: krew installs the archive of `kubectl gcwatch` with its manifest, and with the manifest of the tree.
        Guarantee: the installed plugin runs. The manifest of the tree is refused, because its digest is a placeholder."""
        krew = shutil.which("krew") or left_out("krew is missing: go install sigs.k8s.io/krew/cmd/krew@v0.4.3")
        home = self.top / "krew"
        home.mkdir()
        environment = {**os.environ, "KREW_ROOT": str(home), "HOME": str(home)}
        words = [krew, "install", f"--archive={self.one('kubectl-gcwatch-*.tar.gz')}"]
        refused = subprocess.run([*words, f"--manifest={PROJECT}/deploy/kubectl/gcwatch.yaml"], capture_output=True, text=True, timeout=PATIENCE, env=environment)
        self.assertIn("checksum does not match", refused.stderr)
        run(*words, f"--manifest={self.out}/kubectl-gcwatch.yaml", env=environment)
        self.assertIn("kubectl gcwatch top POD", run(home / "bin" / "kubectl-gcwatch", "--help"))

    def test_chart(self):
        """Scenario: helm lints and renders the packed chart.
        Guarantee: the result equals the rendering of the chart's folder."""
        package = self.one("gcwatch-chart-*.tgz")
        with tarfile.open(package) as archive:
            names = self.check_entries(archive)
            self.assertFalse([entry.name for entry in archive if entry.issym()])
        self.assertIn("gcwatch/files/dashboards/gcwatch.json", names)
        cache = os.environ.get("GCWATCH_CACHE") or os.path.join(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache", "gcwatch")
        found = sorted(pathlib.Path(cache, "tools").glob("helm-*/helm"))
        if not found:
            left_out("helm is missing: tests/deploy/build helm")
        chart = PROJECT / "deploy/helm/gcwatch"
        words = ["--kube-version", "1.34.0", "--values", chart / "ci/collector-values.yaml"]
        run(found[-1], "lint", "--strict", package, *words)
        packed = run(found[-1], "template", "gcwatch", package, *words)
        self.assertEqual(packed, run(found[-1], "template", "gcwatch", chart, *words))

    def package(self, name):
        with zipfile.ZipFile(self.one(f"{name}.{VERSION}.nupkg")) as archive:
            self.assertIsNone(archive.testzip())
            return {entry: archive.read(entry) for entry in archive.namelist()}

    def check_package(self, name, kind):
        files = self.package(name)
        metadata = ElementTree.fromstring(files[f"{name}.nuspec"])[0]
        said = {each.tag.removeprefix(NUSPEC): each.text for each in metadata}
        self.assertEqual((said["id"], said["version"], said["license"]), (name, VERSION, "Apache-2.0"))
        self.assertIn(said["readme"], files)
        self.assertEqual([each.get("name") for each in metadata.iter(f"{NUSPEC}packageType")], [kind])
        (relation,) = ElementTree.fromstring(files["_rels/.rels"])
        self.assertEqual(relation.get("Target"), f"/{name}.nuspec")
        types = list(ElementTree.fromstring(files["[Content_Types].xml"]))
        known = {each.get("Extension") for each in types} | {each.get("PartName") for each in types}
        for path in files:
            if path != "[Content_Types].xml":
                self.assertTrue(path.rpartition(".")[2] in known or f"/{path}" in known, f"{path} has no content type")
        return files

    def test_nuget(self):
        """Scenario: both packages are opened.
        Guarantee: the pointer package names the other package, which contains the program as an executable command."""
        files = self.check_package("gcwatch", "DotnetTool")
        settings = ElementTree.fromstring(files["tools/any/any/DotnetToolSettings.xml"])
        self.assertEqual(settings.get("Version"), "2")
        (pointed,) = settings.iter("RuntimeIdentifierPackage")
        self.assertEqual(pointed.attrib, {"RuntimeIdentifier": "linux-x64", "Id": "gcwatch.linux-x64"})
        files = self.check_package("gcwatch.linux-x64", "DotnetToolRidPackage")
        settings = ElementTree.fromstring(files["tools/any/linux-x64/DotnetToolSettings.xml"])
        (command,) = settings.iter("Command")
        self.assertEqual(command.attrib, {"Name": "gcwatch", "EntryPoint": "gcwatch", "Runner": "executable"})
        self.assertEqual(sha256(files["tools/any/linux-x64/gcwatch"]), sha256(PROGRAM.read_bytes()))

    def test_nuget_installs(self):
        """Scenario: `dotnet tool install` installs from the folder.
        Guarantee: the tool runs."""
        dotnet = shutil.which("dotnet")
        sdks = run(dotnet, "--list-sdks") if dotnet else ""
        if not any(int(line.split(".")[0]) >= 10 for line in sdks.splitlines()):
            left_out("there is no .NET SDK 10: nothing shows here that the tool installs")
        home = {**os.environ, "DOTNET_CLI_HOME": str(self.top), "NUGET_PACKAGES": str(self.top / "nuget")}
        run(dotnet, "tool", "install", "gcwatch", "--tool-path", self.top / "tool", "--source", self.out, env=home)
        self.assertEqual(run(self.top / "tool/gcwatch", "--version"), run(PROGRAM, "--version"))

    def test_sbom(self):
        """Scenario: the SBOM is compared with Cargo.lock.
        Guarantee: each of its dependencies is in Cargo.lock; it contains the crates that gcwatch links and no test
        dependencies; every reference is valid."""
        listed = json.loads(self.one("*.cdx.json").read_text())
        self.assertEqual((listed["bomFormat"], listed["specVersion"]), ("CycloneDX", "1.5"))
        locked = (PROJECT / "Cargo.lock").read_text()
        names = set()
        for component in listed["components"]:
            self.assertIn(f'name = "{component["name"]}"\nversion = "{component["version"]}"\n', locked)
            names.add(component["name"])
        self.assertLessEqual({"tokio", "rustls", "nettrace", "clr-gc"}, names)
        self.assertFalse({"proptest", "divan", "xtask", "gcwatch-test-support"} & names)
        known = {component["bom-ref"] for component in listed["components"]} | {listed["metadata"]["component"]["bom-ref"]}
        for dependency in listed["dependencies"]:
            self.assertLessEqual({dependency["ref"], *dependency["dependsOn"]}, known)

    def test_source_archive(self):
        """Scenario: build.rs runs in a source archive without .git and outside a repository.
        Guarantee: the version names the commit; GCWATCH_COMMIT overrides it."""
        if subprocess.run(["git", "cat-file", "-e", "HEAD:.source-commit"], cwd=PROJECT, capture_output=True).returncode:
            left_out("HEAD is without .source-commit")
        source = self.top / "source"
        source.mkdir()
        archive = subprocess.run(["git", "archive", "HEAD", ".source-commit", "build.rs"], cwd=PROJECT, capture_output=True, check=True).stdout
        with tarfile.open(fileobj=io.BytesIO(archive)) as files:
            files.extractall(source)
        run("rustc", "--edition", "2024", "build.rs", "-o", "script", cwd=source, env={**os.environ, "CARGO_PKG_VERSION": VERSION})
        commit = run("git", "rev-parse", "HEAD", cwd=PROJECT)[:12]
        environment = {key: value for key, value in os.environ.items() if key != "GCWATCH_COMMIT"}
        self.assertIn(f"GCWATCH_VERSION={VERSION} ({commit})\n", run("./script", cwd=source, env=environment))
        said = run("./script", cwd=source, env={**environment, "GCWATCH_COMMIT": "given"})
        self.assertIn(f"GCWATCH_VERSION={VERSION} (given)\n", said)
        (source / ".source-commit").unlink()
        self.assertIn(f"GCWATCH_VERSION={VERSION}\n", run("./script", cwd=source, env=environment))

    def test_built_twice(self):
        """Scenario: the released program is built in two folders.
        Guarantee: the artifacts of both builds have the same digests."""
        if not os.environ.get("GCWATCH_DIST_BUILD"):
            left_out("that two builds of the program are equal takes two full builds: GCWATCH_DIST_BUILD=1")
        made = []
        # Check out the commit, so that changes of the work tree do not affect the test.
        commit = run("git", "rev-parse", "HEAD", cwd=PROJECT).strip()
        for name in ("here", "elsewhere/deeper"):
            copy = self.top / name
            run("git", "clone", "--quiet", PROJECT, copy)
            run("git", "checkout", "--quiet", commit, cwd=copy)
            environment = {**os.environ, "CARGO_TARGET_DIR": str(copy / "target")}
            done = subprocess.run(["cargo", "xtask", "dist"], cwd=copy, env=environment, capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr[-3000:])
            sums = (copy / "target/dist/SHA256SUMS").read_text()
            made.append(sums)
        self.assertEqual(*made)


if __name__ == "__main__":
    unittest.main()
