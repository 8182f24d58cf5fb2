"""A room for a complete node: a command in separate process, network, mount, host name and control group namespaces.

    room.py COMMAND...

All processes, mounts and networks end with the room: after the command, after a signal, after GCWATCH_CLUSTER_LIMIT
seconds, and when this process is killed. Control groups and one folder do not end with the namespaces; this script
removes them, and also removes the leftovers of earlier runs that were killed.
"""

import ctypes
import os
import pathlib
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time

GROUPS = pathlib.Path("/sys/fs/cgroup")
NAME = re.compile(r"gcw-cluster\.(\d+)\.[0-9a-f]+$")
# Kernel settings that the kubelet changes for the entire machine when it starts. In the room, files hide these
# settings, so the kubelet changes only the files.
KERNEL = {
    "vm/overcommit_memory": 1,
    "vm/panic_on_oom": 0,
    "kernel/panic": 10,
    "kernel/panic_on_oops": 1,
    "kernel/keys/root_maxkeys": 1000000,
    "kernel/keys/root_maxbytes": 25000000,
}


def say(sentence):
    print(f"tests/cluster: {sentence}", file=sys.stderr, flush=True)


def hierarchies():
    """Returns folder and mount options of every control group hierarchy: one hierarchy for version 2, one per
    controller for version 1."""
    found = []
    for line in pathlib.Path("/proc/self/mounts").read_text().splitlines():
        _, at, kind, options, *_ = line.split()
        if at.startswith(str(GROUPS)) and kind in ("cgroup", "cgroup2"):
            ours = [each for each in options.split(",") if each not in ("rw", "ro", "nosuid", "nodev", "noexec", "relatime")]
            found.append((pathlib.Path(at), kind, ours))
    return found


def die_with_parent():
    """Makes the kernel kill this process when its parent exits."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


class Groups:
    """The control groups of a room, one in each hierarchy."""

    def __init__(self, name):
        self.folders = [at / name for at, _, _ in hierarchies()]

    def make(self):
        for folder in self.folders:
            folder.mkdir()
            # In version 1, a cpuset accepts processes only after these two files are set.
            for each in ("cpuset.cpus", "cpuset.mems"):
                if (folder / each).exists():
                    (folder / each).write_text((folder.parent / each).read_text())
            if (folder / "cgroup.clone_children").exists() and (folder / "cpuset.cpus").exists():
                (folder / "cgroup.clone_children").write_text("1")

    def enter(self):
        for folder in self.folders:
            (folder / "cgroup.procs").write_text(str(os.getpid()))

    def within(self):
        """Returns every group, the innermost groups first."""
        for folder in self.folders:
            yield from (pathlib.Path(at) for at, _, _ in os.walk(folder, topdown=False))

    def processes(self):
        found = set()
        for folder in self.within():
            try:
                found |= {int(pid) for pid in (folder / "cgroup.procs").read_text().split()}
            except OSError:
                pass
        return found - {0}

    def remove(self):
        """Kills the remaining processes in the groups and removes the groups. Returns the groups that still exist after
        10 s."""
        until = time.monotonic() + 10
        while True:
            for folder in self.within():
                try:
                    if (folder / "freezer.state").exists():
                        (folder / "freezer.state").write_text("THAWED")
                except OSError:
                    pass
                try:
                    folder.rmdir()
                except OSError:
                    pass
            left = [folder for folder in self.folders if folder.exists()]
            if not left or time.monotonic() > until:
                return left
            # These processes belong to this room, because no other process enters these groups.
            for pid in self.processes():
                try:
                    os.kill(pid, signal.SIGKILL)
                except OSError:
                    pass
            time.sleep(0.1)


def sweep():
    """Removes the leftovers of rooms whose process was killed."""
    places = [*pathlib.Path(tempfile.gettempdir()).iterdir(), *(each for at, _, _ in hierarchies() for each in at.iterdir())]
    names = {place.name for place in places if NAME.match(place.name)}
    for name in names:
        if pathlib.Path(f"/proc/{NAME.match(name).group(1)}").exists():
            continue
        say(f"{name}: left behind by a run that was killed: removed")
        Groups(name).remove()
        shutil.rmtree(pathlib.Path(tempfile.gettempdir()) / name, ignore_errors=True)


def left_behind(name, groups):
    """Returns descriptions of the leftovers of a room."""
    found = [f"control group {folder}" for folder in groups.folders if folder.exists()]
    for at in pathlib.Path("/proc").iterdir():
        if at.name.isdigit():
            try:
                if name in (at / "cgroup").read_text() or f"/{name}/" in (at / "cmdline").read_bytes().decode(errors="replace"):
                    found.append(f"process {at.name}")
            except OSError:
                pass
    found += [f"mount {line.split()[1]}" for line in pathlib.Path("/proc/self/mounts").read_text().splitlines() if name in line]
    folder = pathlib.Path(tempfile.gettempdir()) / name
    if folder.exists() and not os.environ.get("GCWATCH_KEEP"):
        found.append(f"folder {folder}")
    return found


def outside(command):
    sweep()
    name = f"gcw-cluster.{os.getpid()}.{secrets.token_hex(3)}"
    folder = pathlib.Path(tempfile.gettempdir()) / name
    groups = Groups(name)
    limit = int(os.environ.get("GCWATCH_CLUSTER_LIMIT") or 3600)
    room = None
    code = 1

    def stop(number, _):
        raise SystemExit(128 + number)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop)
    try:
        folder.mkdir(mode=0o755)
        groups.make()

        def prepare():
            die_with_parent()
            groups.enter()

        namespaces = ["--mount", "--net", "--pid", "--uts", "--ipc", "--cgroup", "--fork", "--kill-child=KILL", "--mount-proc"]
        inner = [sys.executable, __file__, "--inside", *command]
        environment = {**os.environ, "GCWATCH_CLUSTER_FOLDER": str(folder)}
        room = subprocess.Popen(["unshare", *namespaces, *inner], preexec_fn=prepare, env=environment)
        try:
            code = room.wait(limit)
        except subprocess.TimeoutExpired:
            say(f"not done in {limit} s (GCWATCH_CLUSTER_LIMIT): stopped")
    finally:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        if room and room.poll() is None:
            room.kill()
            room.wait()
        groups.remove()
        if os.environ.get("GCWATCH_KEEP"):
            say(f"GCWATCH_KEEP: {folder} is kept")
        else:
            for _ in range(50):
                shutil.rmtree(folder, ignore_errors=True)
                if not folder.exists():
                    break
                time.sleep(0.1)
        # A killed process can need up to 10 s to release its memory.
        for _ in range(100):
            left = left_behind(name, groups)
            if not left:
                break
            time.sleep(0.1)
        if left:
            say(f"left behind: {', '.join(left)}")
            code = code or 1
        else:
            say("nothing is left behind: no process, mount, network, control group or folder")
    return code


def run(*command):
    subprocess.run([str(word) for word in command], check=True)


def mount(*arguments):
    run("mount", *arguments)


def furnish(folder):
    """Creates the mounts, the host name and the loopback device of a node, which are visible only in the room."""
    mount("--make-rshared", "/")
    for at, kind, options in hierarchies():
        run("umount", at)
        if kind == "cgroup":
            mount("-t", "cgroup", "-o", ",".join((["none"] if options[0].startswith("name=") else []) + options), "cgroup", at)
        elif at == GROUPS:
            mount("-t", "cgroup2", "cgroup2", at)
            # A group that contains processes cannot pass on controllers.
            (at / "room").mkdir()
            for pid in (at / "cgroup.procs").read_text().split():
                (at / "room" / "cgroup.procs").write_text(pid)
    for name, value in KERNEL.items():
        file = folder / f"sys-{name.replace('/', '-')}"
        file.write_text(f"{value}\n")
        mount("--bind", file, f"/proc/sys/{name}")
    mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", "/run")
    for at in ("/var/log", "/var/lib", "/etc"):
        upper, work = folder / f"over{at.replace('/', '-')}", folder / f"work{at.replace('/', '-')}"
        upper.mkdir()
        work.mkdir()
        mount("-t", "overlay", "-o", f"lowerdir={at},upperdir={upper},workdir={work}", "overlay", at)
    run("hostname", "node-1")
    run("ip", "link", "set", "lo", "up")


def inside(command):
    die_with_parent()
    furnish(pathlib.Path(os.environ["GCWATCH_CLUSTER_FOLDER"]))
    child = os.fork()
    if child == 0:
        os.execvp(command[0], command)
    # As process 1 of the room, reap orphans.
    while True:
        pid, status = os.wait()
        if pid == child:
            # The kernel kills the remaining processes with this process.
            os._exit(os.waitstatus_to_exitcode(status) & 0xFF)


if __name__ == "__main__":
    if sys.argv[1] == "--inside":
        inside(sys.argv[2:])
    sys.exit(outside(sys.argv[1:]))
