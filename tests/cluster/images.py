"""Builds container images from folders without a container engine or a registry, as archives for `ctr images
import`."""

import functools
import hashlib
import io
import json
import os
import pathlib
import re
import shutil
import subprocess
import tarfile

PROJECT = pathlib.Path(__file__).resolve().parents[2]
WORKLOAD = PROJECT / "tests" / "workload" / "workload.dll"
# The folder of each runtime that tests/runtimes/fetch provides, and the command that starts the workload in the
# image.
RUNTIMES = {
    "core31": ("core3.1.23", ["/app/dotnet", "exec", "--runtimeconfig", "/w/w.runtimeconfig.json", "/w/workload.dll"]),
    "net8": ("net8.0.33", ["/app/run", "/w/workload.dll"]),
    "net9": ("net9.0.22", ["/app/run", "/w/workload.dll"]),
    "net10": ("net10.0.14", ["/app/run", "/w/workload.dll"]),
    "single10": ("net10.0.0", ["/app/dosai", "--help"]),
    "aot9": ("aot9.0.22", ["/app/work-aot"]),
}
CONFIG = {"runtimeOptions": {"framework": {"name": "Microsoft.NETCore.App", "version": "3.1.0"}}}


def runtimes():
    """Returns the folder in which tests/runtimes/fetch stores the runtimes."""
    base = os.environ.get("GCWATCH_CACHE") or os.path.join(os.environ.get("XDG_CACHE_HOME") or f"{os.environ['HOME']}/.cache", "gcwatch")
    return pathlib.Path(base) / "runtimes"


def is_there(name):
    return (runtimes() / RUNTIMES[name][0] / ".complete").exists()


@functools.cache
def libraries():
    """Returns the loader and the C and C++ libraries of this machine that .NET needs, by the paths at which programs
    search for them."""
    found = {}
    programs = [path for name in RUNTIMES if is_there(name) for path in (runtimes() / RUNTIMES[name][0]).rglob("*")]
    programs = [path for path in programs if path.suffix == ".so" or path.name in ("run", "dotnet", "dosai", "work-aot") and path.is_file()]
    for program in programs:
        said = subprocess.run(["ldd", program], capture_output=True, text=True, timeout=60).stdout
        for at in re.findall(r"(/lib\S*/(?:ld-linux|lib)\S+)", said):
            # Libraries in the runtime's own folder are part of the runtime.
            if not at.startswith(str(runtimes())):
                found[at] = pathlib.Path(os.path.realpath(at))
    return found


def layer(files, folders=()):
    """Builds a tar archive from a mapping of paths to files of this machine, or to bytes."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, mode in folders:
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, mode
            tar.addfile(entry)
        for name, source in sorted(files.items()):
            content = source if isinstance(source, bytes) else pathlib.Path(source).read_bytes()
            entry = tarfile.TarInfo(name.lstrip("/"))
            entry.size = len(content)
            entry.mode = 0o644 if isinstance(source, bytes) or not os.access(source, os.X_OK) else 0o755
            tar.addfile(entry, io.BytesIO(content))
    return out.getvalue()


def archive(at, name, layers, entrypoint, environment=None):
    """Writes an archive in the format of `docker save`."""
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Entrypoint": entrypoint, "Env": [f"{key}={value}" for key, value in (environment or {}).items()], "WorkingDir": "/"},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(each).hexdigest()}" for each in layers]},
    }
    names = [f"{hashlib.sha256(each).hexdigest()}.tar" for each in layers]
    with tarfile.open(at, "w") as tar:
        def add(path, content):
            entry = tarfile.TarInfo(path)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))

        for path, each in zip(names, layers):
            add(path, each)
        add("config.json", json.dumps(config).encode())
        add("manifest.json", json.dumps([{"Config": "config.json", "RepoTags": [name], "Layers": names}]).encode())


def pause(at, program):
    archive(at, "localhost/pause:1", [layer({"pause": program})], ["/pause"])


def dotnet(at, name):
    """Builds an image of the workload on one of the runtimes. Like a distroless image, it contains the application and
    the libraries but no shell."""
    folder, command = RUNTIMES[name]
    source = runtimes() / folder
    passwd = b"root:x:0:0:root:/:/nologin\napp:x:1654:1654:app:/:/nologin\n"
    base = layer({**libraries(), "etc/passwd": passwd}, [("tmp", 0o1777), ("etc", 0o755)])
    files = {f"app/{path.relative_to(source)}": path for path in source.rglob("*") if path.is_file()}
    files |= {"w/workload.dll": WORKLOAD, "w/w.runtimeconfig.json": json.dumps(CONFIG).encode()}
    environment = {"DOTNET_SYSTEM_GLOBALIZATION_INVARIANT": "1"}
    if name == "single10":
        environment["DOTNET_STARTUP_HOOKS"] = "/w/workload.dll"
    archive(at, f"localhost/{name}:1.0", [base, layer(files)], command, environment)


def program(at, name, path):
    """Builds an image of one program of this machine and of the libraries that the program needs."""
    said = subprocess.run(["ldd", path], capture_output=True, text=True, timeout=60).stdout
    needed = {found: pathlib.Path(os.path.realpath(found)) for found in re.findall(r"(/lib\S*/(?:ld-linux|lib)\S+)", said)}
    archive(at, name, [layer({**needed, path.name: path}, [("tmp", 0o1777)])], [f"/{path.name}"])
