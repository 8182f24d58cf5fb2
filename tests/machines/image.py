"""Builds the file systems of machines: an initramfs with packages, a runtime, a program and gcwatch."""

import os
import pathlib
import re
import shutil
import stat
import subprocess

import packages
from packages import NotPublic, fetch, only_file

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
LIBRARIES = {
    "libc": ("libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "libresolv.so.2"),
    "libgcc": ("libgcc_s.so.1",),
    "libstdc++": ("libstdc++.so.6",),
    "zlib": ("libz.so.1",),
}
LOADERS = {"amd64": "lib64/ld-linux-x86-64.so.2", "arm64": "lib/ld-linux-aarch64.so.1"}
# Number of stripped programs in the cache that remain when another one is added.
KEPT_PROGRAMS = 3
TRIPLES = {"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu"}


class Archive:
    """A cpio archive (newc) that the kernel unpacks."""

    def __init__(self, path):
        self.file = open(path, "wb")
        self.folders = set()
        self.number = 0

    def entry(self, name, mode, content):
        self.number += 1
        fields = (self.number, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0)
        head = b"070701" + b"".join(b"%08X" % field for field in fields) + name.encode() + b"\0"
        self.file.write(head + b"\0" * (-len(head) % 4) + content + b"\0" * (-len(content) % 4))

    def folder(self, name):
        parent = os.path.dirname(name)
        if name and name not in self.folders:
            self.folder(parent)
            self.folders.add(name)
            self.entry(name, stat.S_IFDIR | 0o755, b"")

    def add(self, name, content, mode=0o644):
        """Adds a file with these bytes, or with the content of a path."""
        self.folder(os.path.dirname(name))
        if isinstance(content, pathlib.Path):
            mode = 0o755 if os.access(content, os.X_OK) else mode
            content = content.read_bytes()
        self.entry(name, stat.S_IFREG | mode, content)

    def tree(self, name, folder):
        for path in sorted(folder.rglob("*")):
            inside = f"{name}/{path.relative_to(folder)}"
            if path.is_symlink():
                self.folder(os.path.dirname(inside))
                self.entry(inside, stat.S_IFLNK | 0o777, os.readlink(path).encode())
            elif path.is_file() and path.name != ".complete":
                self.add(inside, path)

    def close(self):
        # The console of the first process must exist before it starts.
        self.folder("dev")
        self.number += 1
        fields = (self.number, stat.S_IFCHR | 0o600, 0, 0, 1, 0, 0, 0, 0, 5, 1, len("dev/console") + 1, 0)
        head = b"070701" + b"".join(b"%08X" % field for field in fields) + b"dev/console\0"
        self.file.write(head + b"\0" * (-len(head) % 4))
        self.entry("TRAILER!!!", 0, b"")
        self.file.close()


def runtime(name):
    """Returns the folder of a runtime in the cache of tests/runtimes/fetch."""
    folder = packages.cache().parent / "runtimes" / name
    if not (folder / ".complete").exists():
        raise NotPublic(
            f"{folder} does not exist: run tests/runtimes/fetch, with the pack in GCWATCH_RUNTIMES if no public package "
            "has the runtime"
        )
    return folder


def modified(path):
    """Returns the time of the last change of a file, or 0 if another run has removed the file."""
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0


def stripped(program):
    """Returns the program without its debug sections, which take 100 MB of a machine's memory."""
    kind = subprocess.run(["file", "-b", program], capture_output=True, text=True).stdout
    if not shutil.which("strip") or "x86-64" not in kind:
        return program
    small = packages.cache() / f"gcwatch-{packages.digest(program)[:16]}"
    if not small.exists():
        # Another run can use the newest programs, or can write the same program now.
        by_age = sorted(packages.cache().glob("gcwatch-*"), key=modified)
        for old in by_age[:-KEPT_PROGRAMS]:
            old.unlink(missing_ok=True)
        part = small.with_suffix(f".{os.getpid()}.part")
        subprocess.run(["strip", "-o", part, program], check=True)
        part.rename(small)
    return small


def kernel(row):
    """Returns the kernel of a row, and its modules in the order in which they are loaded."""
    if row.kernel == "linux-64k":
        built = list(packages.cache().glob("linux-64k-????????????????"))
        if not built:
            raise NotPublic("Debian has no kernel with pages of 64 KiB: run tests/machines/build-kernel-64k")
        return max(built, key=modified), []
    folder = fetch(row.kernel)
    image = next(path for path in folder.rglob("vmlinu*") if path.is_file())
    modules = []

    def add(name):
        path = only_file(folder, f"{name}.ko")
        for needed in re.findall(rb"depends=([^\0]+)\0", path.read_bytes()):
            for other in needed.decode().split(","):
                add(other)
        if path not in modules:
            modules.append(path)

    for name in row.modules:
        add(name)
    return image, modules


def make(row, gcwatch, path, broken=False):
    """Writes the initramfs of a row. If `broken`, it has no runtime."""
    archive = Archive(path)
    architecture = row.architecture
    archive.add("bin/busybox", next(fetch(f"busybox-{architecture}").rglob("bin/busybox")))
    for name, libraries in LIBRARIES.items():
        folder = fetch(f"{name}-{architecture}")
        for library in libraries:
            found = [one for one in folder.rglob(library) if TRIPLES[architecture] in str(one)]
            archive.add(f"lib/{TRIPLES[architecture]}/{library}", found[0].resolve())
    loader = os.path.basename(LOADERS[architecture])
    archive.add(LOADERS[architecture], next(fetch(f"libc-{architecture}").rglob(loader)).resolve(), 0o755)
    archive.add("init", HERE / "init")
    archive.add("www/cgi-bin/receive", HERE / "receive")
    archive.add("bin/resolve", HERE / "resolve")
    archive.add("etc/gcwatch.yaml", HERE / "gcwatch.yaml")
    archive.add("row", row.script.encode())
    archive.add("bin/gcwatch", gcwatch)
    archive.add("w/workload.dll", ROOT / "tests/workload/workload.dll")
    if not broken:
        archive.tree(row.place + "runtime", runtime(row.runtime))
    _, modules = kernel(row)
    for number, module in enumerate(modules):
        archive.add(f"modules/{number:02}-{module.name}", module)
    for name, content in row.files():
        if isinstance(content, pathlib.Path) and content.is_dir():
            archive.tree(name, content)
        else:
            archive.add(name, content)
    archive.close()
