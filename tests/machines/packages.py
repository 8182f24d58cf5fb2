"""Debian packages for building machines: apt downloads them and checks signatures, and `pins` has their digests."""

import fcntl
import hashlib
import lzma
import os
import pathlib
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
PINS = HERE / "pins"
# Names of kernel packages. --update-pins pins the newest version of a suite.
KERNEL = re.compile(r"linux-image-\d[\w.+-]*")
PATIENCE = 600


class Missing(Exception):
    """Error raised if a part of a machine is not available."""


class NotPublic(Missing):
    """Error raised if a part that no public package has is not available. Optional rows are ignored without it."""


def cache():
    base = os.environ.get("GCWATCH_CACHE")
    if not base:
        home = os.environ.get("XDG_CACHE_HOME") or os.environ.get("HOME") and os.environ["HOME"] + "/.cache"
        if not home:
            raise Missing("HOME is not set: set GCWATCH_CACHE to a folder")
        base = home + "/gcwatch"
    folder = pathlib.Path(base).absolute() / "machines"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def pins():
    """Returns NAME -> (suite, architecture, package, version, sha256)."""
    lines = (line.split() for line in PINS.read_text().splitlines() if line and not line.startswith("#"))
    return {name: tuple(rest) for name, *rest in lines}


def debian():
    """Returns the URL of Debian's mirror: GCWATCH_DEBIAN_MIRROR, the value of an earlier run, or the source of the
    host's own packages, which also has the other suites."""
    mirror, kept = os.environ.get("GCWATCH_DEBIAN_MIRROR"), cache() / "mirror"
    if mirror:
        # A later run as another user does not have this variable.
        kept.write_text(mirror)
    elif kept.exists():
        mirror = kept.read_text()
    else:
        targets = run("apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages").split()
        mirror = next((uri for uri in targets if re.search(r"/debian/?$", uri)), None)
    if not mirror:
        raise Missing("apt has no source of Debian here: set GCWATCH_DEBIAN_MIRROR")
    return mirror


class Apt:
    """apt with separate sources in the cache. The host's packages stay unchanged."""

    def __init__(self):
        for program in ("apt-get", "apt-cache", "dpkg-deb"):
            if not shutil.which(program):
                raise Missing(f"{program} is not on PATH: Debian's packages are needed")
        self.folder = cache() / "apt"
        for name in ("lists/partial", "cache/archives/partial", "parts"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        mirror = debian()
        keys = "/usr/share/keyrings/debian-archive-keyring.gpg"
        if not os.path.exists(keys):
            raise Missing(f"{keys} does not exist: install debian-archive-keyring")
        security = re.sub(r"/debian/?$", "/debian-security/", mirror)
        suites = [(mirror, name) for name in ("bookworm", "trixie", "sid")] + [(security, "bullseye-security")]
        head = f"deb [arch=amd64,arm64 signed-by={keys}]"
        sources = "".join(f"{head} {uri} {suite} main\n" for uri, suite in suites)
        (self.folder / "sources.list").write_text(sources)
        settings = {
            "Dir::Etc::sourcelist": self.folder / "sources.list",
            "Dir::Etc::sourceparts": self.folder / "parts",
            "Dir::Etc::preferencesparts": self.folder / "parts",
            "Dir::State::lists": self.folder / "lists",
            "Dir::State::status": "/dev/null",
            "Dir::Cache": self.folder / "cache",
            "Acquire::Languages": "none",
            # A mirror can be some days behind. Signatures are still checked.
            "Acquire::Check-Valid-Until": "false",
        }
        options = [f"-o{key}={value}" for key, value in settings.items()]
        self.options = options + ["-oAPT::Architectures::=amd64", "-oAPT::Architectures::=arm64"]

    def get(self, *arguments, **kwargs):
        return run("apt-get", *self.options, "--quiet=2", *arguments, **kwargs)

    def show(self, *arguments):
        return run("apt-cache", *self.options, "show", "--no-all-versions", *arguments)

    def update(self):
        self.get("update")


def run(*command, **kwargs):
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, **kwargs)
    except subprocess.TimeoutExpired:
        raise Missing(f"{command[0]} took more than {PATIENCE} s") from None
    if done.returncode:
        last = (done.stderr.strip() or done.stdout.strip() or "no message").splitlines()[-1]
        raise Missing(f"{command[0]} {command[-1]}: {last}")
    return done.stdout


def digest(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


class locked:
    """Limits fetching to one process at a time. The lock ends with this process."""

    def __enter__(self):
        self.file = open(cache() / ".lock", "w")
        fcntl.flock(self.file, fcntl.LOCK_EX)

    def __exit__(self, *_):
        self.file.close()


def folder_of(name):
    return cache() / "packages" / pins()[name][-1][:16]


def fetch(name):
    """Returns the folder with the unpacked files of a pinned package. The first call downloads all missing packages."""
    if name not in pins():
        raise Missing(f"{PINS.name} has no package {name}")
    if not (folder_of(name) / ".complete").exists():
        with locked():
            # The kernel source is only needed to build a kernel.
            wanted = [one for one in pins() if one == name or one != "linux-source"]
            missing = [one for one in wanted if not (folder_of(one) / ".complete").exists()]
            if missing:
                download(missing)
    if not (folder_of(name) / ".complete").exists():
        newer = "if its suite has a newer version, run tests/machines/run --update-pins"
        raise Missing(f"cannot download the package {name}: {newer}")
    return folder_of(name)


def download(names):
    apt = Apt()
    work = cache() / "packages" / ".work"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    wanted = {name: "{1}:{0}={2}".format(*pins()[name][1:4]) for name in names}
    apt.update()
    try:
        apt.get("download", *wanted.values(), cwd=work)
    except Missing:
        # A package that no longer exists makes the command fail, so download them one by one.
        for name in names:
            try:
                apt.get("download", wanted[name], cwd=work)
            except Missing:
                pass
    found = {digest(file): file for file in work.glob("*.deb")}
    for name in names:
        file = found.get(pins()[name][-1])
        if file is None:
            continue
        unpack(file, work / "files")
        (work / "files" / ".complete").touch()
        shutil.rmtree(folder_of(name), ignore_errors=True)
        (work / "files").rename(folder_of(name))
    shutil.rmtree(work)


def unpack(file, folder):
    """Unpacks a package and its compressed kernel modules."""
    run("dpkg-deb", "-x", str(file), str(folder))
    # Documentation and most modules are not used.
    for unused in ("usr/share/doc", "usr/share/man", "usr/share/locale"):
        shutil.rmtree(folder / unused, ignore_errors=True)
    for module in folder.rglob("*.ko.xz"):
        if module.stem.removesuffix(".ko") in MODULES:
            module.with_suffix("").write_bytes(lzma.decompress(module.read_bytes()))
        module.unlink()


# The modules of kernels that machines load, in any order.
MODULES = ("zram", "zsmalloc", "lz4_compress", "lz4hc_compress", "lzo", "lzo-rle", "842_compress", "842_decompress")


def update():
    """Writes the newest version of each package into `pins`."""
    with locked():
        apt = Apt()
        apt.update()
        lines = [line for line in PINS.read_text().splitlines() if line.startswith("#")]
        for name, (suite, architecture, package, *_) in pins().items():
            if re.match(r"linux-(image|binary)-\d", package):
                flavour = re.search(r"-(cloud-amd64|cloud-arm64|arm64-16k|amd64|arm64)$", package)[1]
                meta = f"linux-image-{flavour}:{architecture}/{suite}"
                package = KERNEL.search(re.search(r"^Depends: (.*)$", apt.show(meta), re.M)[1])[0]
                try:
                    binary = package.replace("linux-image", "linux-binary")
                    apt.show(f"{binary}:{architecture}/{suite}")
                    package = binary
                except Missing:
                    pass
            text = apt.show(f"{package}:{architecture}/{suite}")
            field = lambda key, text=text: re.search(rf"^{key}: (.*)$", text, re.M)[1]
            lines.append(" ".join((name, suite, architecture, package, field("Version"), field("SHA256"))))
            print(lines[-1])
        PINS.write_text("\n".join(lines) + "\n")


def only_file(folder, pattern):
    """Returns the path of the only matching file below a folder."""
    found = [path for path in folder.rglob(pattern) if path.is_file()]
    if len(found) != 1:
        raise Missing(f"{folder.name}: {len(found)} files are called {pattern}")
    return found[0]


if __name__ == "__main__":
    try:
        print(debian() if sys.argv[1:] == ["--mirror"] else fetch(sys.argv[1]))
    except Missing as error:
        sys.exit(str(error))
