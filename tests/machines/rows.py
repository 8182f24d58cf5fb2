"""The rows: each a machine, the place of its processes, and what must be true of its answers."""

import dataclasses
import pathlib

import checks
import packages
from image import ROOT, runtime
from packages import Missing, fetch, only_file

LIMITED = """
limit() {
    echo 300M >"$1/memory.max"
    echo 280M >"$1/memory.high"
    echo "150000 100000" >"$1/cpu.max"
}
"""
GROUPS = """
for folder in /sys/fs/cgroup /sys/fs/cgroup/system.slice; do
    mkdir -p $folder
    echo "+memory +cpu +pids" >$folder/cgroup.subtree_control
done
"""


@dataclasses.dataclass
class Row:
    name: str
    kernel: str
    architecture: str = "amd64"
    runtime: str = "net10.0.0"
    # What is in the table of docs/compatibility.md.
    library: str = "glibc"
    pages: str = "4 KiB"
    also: str = ""
    cpus: int = 2
    memory: int = 2048
    boot: str = ""
    # Shell commands before the steps, and functions in the place of init's.
    script: str = ""
    # Where the runtime is in the image.
    place: str = ""
    modules: tuple = ()
    check: callable = checks.whole
    extra: callable = lambda row: []
    limit: int = 300
    # Without them it cannot run here.
    packs: bool = False

    def __post_init__(self):
        self.script = LIMITED + GROUPS + self.script

    def files(self):
        return self.extra(self)


def musl(row):
    """Files of a root with musl: the loader, and the libraries that a wheel brings."""
    return [("musl/lib", runtime("musl-" + {"amd64": "x64", "arm64": "arm64"}[row.architecture]))]


CHROOT = """
place() {
    mount --bind /proc /musl/proc; mount --bind /dev /musl/dev; mount --bind /tmp /musl/tmp; mount --bind /w /musl/w
    exec chroot /musl "$@"
}
mkdir -p /musl/proc /musl/dev /musl/tmp /musl/w
"""

ROWS = [
    Row("linux-5.10", "linux-5.10"),
    Row("linux-6.1", "linux-6.1"),
    Row("linux-6.12", "linux-6.12"),
    Row("linux-newest", "linux-newest"),
    Row("arm64", "linux-6.12-arm64", "arm64", "net10.0.0-arm64", memory=3072),
]
