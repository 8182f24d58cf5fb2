"""Checks that the seccomp profile is generated, refuses system calls that access other processes, and is sufficient for
gcwatch."""

import contextlib
import ctypes
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

import tools

FOLDER = tools.DEPLOY / "seccomp"
PROFILE = FOLDER / "gcwatch.json"
UNDER = [sys.executable, tools.HERE / "under_seccomp.py", PROFILE]
# Commands, each with a word that its output must contain. {} is the pid, and {folder} the folder of the test.
COMMANDS = [
    (["ps"], "{}"),
    (["doctor", "--pid", "{}"], "{}"),
    (["stacks", "{}", "--for", "1s", "--lease-folder", "{folder}/leases"], "Workload"),
    (["callers", "{}", "--for", "1s", "--lease-folder", "{folder}/leases"], "callers"),
    (["allocations", "{}", "--for", "1s", "--lease-folder", "{folder}/leases"], "allocations"),
    (["heap", "{}", "--lease-folder", "{folder}/leases"], "heap"),
    (["record", "--pid", "{}", "--duration", "1s", "-o", "{folder}/a.nettrace"], ""),
    (["analyze", "{folder}/a.nettrace"], "gc"),
    (["demo", "--rounds", "1", "--listen", "none"], ""),
]


def sections():
    sys.path.insert(0, str(FOLDER))
    loader = __import__("importlib.machinery").machinery.SourceFileLoader("seccomp_build", str(FOLDER / "build"))
    module = __import__("importlib.util").util.module_from_spec(__import__("importlib.util").util.spec_from_loader("seccomp_build", loader))
    loader.exec_module(module)
    return module.sections()


@contextlib.contextmanager
def workload():
    """Starts a real process that collects every 4 MiB, regardless of the size of the machine's cache. Yields the folder
    of the process and the process."""
    import process

    if not pathlib.Path(subprocess.run([tools.PROJECT / "tests/runtimes/fetch"], capture_output=True, text=True).stdout.strip(), process.RUNTIME).exists():
        tools.left_out("there is no .NET runtime: tests/runtimes/fetch")
    with tempfile.TemporaryDirectory(prefix="gcw-seccomp.") as folder, process.Workload(folder, rounds=100, DOTNET_GCgen0size="400000") as running:
        yield folder, running


def environment():
    return {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "GCWATCH_CONFIG"))}


def daemon(folder, running, before):
    """Runs `gcwatch run` with all optional parts (listener, export, bursts, a census, a store, state on disk). gcwatch
    attaches, reloads its configuration and is stopped by SIGTERM. Returns the exit code."""
    import receivers

    (web,) = receivers.free_ports(1)
    place = pathlib.Path(folder)
    (place / "etc").mkdir()
    config = place / "etc" / "gcwatch.yaml"
    keys = f"targets:\n  include: [{{environment: {{GCWATCH_E2E: '{folder}'}}}}]\n  lease_folder: {folder}/leases\n"
    keys += f"state: {{directory: '{folder}/state'}}\nevidence: {{bursts: 'on', census: 'on', store: {{url: 'file://{folder}/store'}}}}\n"
    config.write_text(keys + "otlp: {endpoint: 'http://127.0.0.1:1'}\n")
    words = [*before, tools.gcwatch(), "run", "--config", config, "--listen", f"127.0.0.1:{web}"]
    child = receivers.Process("gcwatch", words, folder, environment())
    address = f"http://127.0.0.1:{web}"

    def answer(path):
        """Returns the body of an answer, or None if the status is not 200: on a busy host, an answer can take longer
        than the timeout."""
        status, body = receivers.get(address + path)
        return body.decode() if status == 200 else None

    def targets(key, value=None):
        listed = json.loads(answer("/api/v1/targets") or '{"targets": []}')["targets"]
        return [each for each in listed if (each[key] == value if value else each[key])]

    def reloaded():
        """Returns whether at least one reload was accepted. A file can be read twice if it changes while it is read."""
        lines = (answer("/metrics") or "").splitlines()
        counts = [line for line in lines if line.startswith("gcwatch_config_reloads") and 'outcome="accepted"' in line]
        return any(float(line.split()[-1]) >= 1 for line in counts)

    try:
        child.await_true("it was ready", lambda: answer("/readyz") is not None)
        child.await_true("it was attached", lambda: targets("state", "attached"))
        running.work()
        changed = place / "etc" / "changed"
        changed.write_text(keys + "otlp: {endpoint: 'http://127.0.0.1:1'}\nspans: {min_pause: 1ms}\n")
        changed.rename(config)
        child.await_true("the configuration is reloaded", reloaded)
        child.await_true("the process has collections", lambda: targets("collections"))
    finally:
        # strace does not forward SIGTERM, so send the signal to its child. (Without strace, gcwatch has replaced the
        # launcher.)
        if child.child.poll() is None:
            children = pathlib.Path(f"/proc/{child.child.pid}/task/{child.child.pid}/children").read_text().split()
            os.kill(int(children[0]) if "strace" in str(before[0]) else child.child.pid, signal.SIGTERM)
        code = child.child.wait(receivers.PATIENCE)
    return code


def commands(folder, running, before):
    """Yields the words, the finished process and the expected output of each command."""
    for words, expected in COMMANDS:
        words = [word.replace("{folder}", folder).replace("{}", str(running.pid)) for word in words]
        done = subprocess.run([*map(str, before), tools.gcwatch(), *words], capture_output=True, text=True, timeout=tools.PATIENCE, env=environment())
        yield words, done, expected.replace("{}", str(running.pid))


class Seccomp(unittest.TestCase):
    def test_generated(self):
        """Scenario: deploy/seccomp/build runs.
        Guarantee: the output of deploy/seccomp/build equals the committed profile."""
        self.assertEqual(tools.run(FOLDER / "build", "--print"), PROFILE.read_text(), "deploy/seccomp/build")

    def test_no_call_looks_into_processes(self):
        """Scenario: the names in the profile are read.
        Guarantee: the profile allows no system call that reads another process, loads code into the kernel, mounts, or
        enters a namespace."""
        allowed = {name for rule in json.loads(PROFILE.read_text())["syscalls"] if rule["action"] == "SCMP_ACT_ALLOW" for name in rule["names"]}
        refused = {"ptrace", "process_vm_readv", "process_vm_writev", "kcmp", "pidfd_getfd", "process_madvise", "bpf", "perf_event_open"}
        refused |= {"mount", "umount2", "setns", "unshare", "chroot", "pivot_root", "init_module", "finit_module", "kexec_load", "io_uring_setup"}
        refused |= {"userfaultfd", "keyctl", "add_key", "reboot", "swapon", "personality", "open_by_handle_at", "quotactl", "syslog", "mknod", "mknodat"}
        self.assertEqual(allowed & refused, set())

    def test_filter_refuses(self):
        """Scenario: a process under the profile calls ptrace, process_vm_readv, unshare, clone with a new namespace,
        clone3, and opens a packet socket.
        Guarantee: clone3 fails with ENOSYS, and every other call fails with EPERM."""
        if os.uname().machine != "x86_64":
            tools.left_out("the test has the system call numbers of x86_64")
        program = f"""
import ctypes, sys
sys.path.insert(0, {str(tools.HERE)!r})
import json, under_seccomp
under_seccomp.load(json.load(open({str(PROFILE)!r})))
call = ctypes.CDLL(None, use_errno=True).syscall
for words in ((101, 0, 0, 0, 0), (310, 1, 0, 0, 0, 0, 0), (272, 0x10000000), (56, 0x10000011, 0, 0, 0, 0), (435, 0, 0), (41, 17, 3, 0)):
    ctypes.set_errno(0)
    print(call(*words), ctypes.get_errno())
"""
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
        if "libseccomp" in done.stderr:
            tools.left_out("libseccomp.so.2 is not installed")
        self.assertEqual(done.stdout.splitlines(), ["-1 1"] * 4 + ["-1 38", "-1 1"], done.stderr)

    def test_refused_calls_are_recorded(self):
        """Scenario: a program under the profile calls ptrace while GCWATCH_SECCOMP_REFUSED names a file.
        Guarantee: the call fails with EPERM, the file has its name and the pid, and the program keeps its pid."""
        if os.uname().machine != "x86_64":
            tools.left_out("the test has the system call numbers of x86_64")
        program = "import ctypes, os; print(ctypes.CDLL(None, use_errno=True).syscall(101, 0, 0, 0, 0), ctypes.get_errno(), os.getpid())"
        with tempfile.TemporaryDirectory(prefix="gcw-refused.") as folder:
            environment = {**os.environ, "GCWATCH_SECCOMP_REFUSED": f"{folder}/refused"}
            child = subprocess.Popen([*map(str, UNDER), sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
            said, errors = child.communicate(timeout=60)
            if "libseccomp" in errors:
                tools.left_out("libseccomp.so.2 is not installed")
            self.assertEqual(said, f"-1 1 {child.pid}\n", errors)
            lines = (pathlib.Path(folder) / "refused").read_text().splitlines()
        self.assertEqual([line.split()[:2] for line in lines], [["ptrace", str(child.pid)]])

    def test_works_under_the_profile(self):
        """Scenario: the daemon with every optional part and each command run with a real process under the filter.
        Guarantee: the daemon exits with 0, and every command succeeds with the expected output."""
        try:
            ctypes.CDLL("libseccomp.so.2")
        except OSError:
            tools.left_out("libseccomp.so.2 is not installed")
        with workload() as (folder, running):
            self.assertEqual(daemon(folder, running, UNDER), 0)
            for words, done, expected in commands(folder, running, UNDER):
                with self.subTest(command=words[0]):
                    self.assertEqual(done.returncode, 0, done.stderr[-2000:])
                    self.assertIn(expected, done.stdout + done.stderr)
                    self.assertNotIn("Operation not permitted", done.stderr)

    def test_calls_are_listed(self):
        """Scenario: the daemon and the commands run under strace.
        Guarantee: every system call is in the file `calls`."""
        strace = tools.program("strace")
        named = sections()
        listed = named["traced"] | named["equivalents"] | named["no-such-call"]
        with workload() as (folder, running), tempfile.TemporaryDirectory(prefix="gcw-calls.") as output:
            before = [strace, "-f", "-qq", "-o", f"{output}/run"]
            daemon(folder, running, before)
            before = [strace, "-f", "-qq", "--output-append-mode", "-o", f"{output}/commands"]
            for words, done, _ in commands(folder, running, before):
                self.assertEqual(done.returncode, 0, f"{words}: {done.stderr[-500:]}")
            lines = [line for each in pathlib.Path(output).iterdir() for line in each.read_text(errors="replace").splitlines()]
        # A thread that exits before strace has read its system call is written as `???(`.
        used = {line.split()[1].split("(")[0] for line in lines if "(" in line and "<..." not in line and not line.split()[1].startswith(("+", "-"))}
        self.assertGreater(len(used), 50)
        self.assertEqual(used - listed - {"???"}, set())


class Container(unittest.TestCase):
    def test_runc(self):
        """Scenario: runc starts gcwatch with the profile, the chart's two capabilities, no_new_privs and a read-only root in the host's pid
        namespace, then a second command in the same container, like `kubectl exec`.
        Guarantee: the daemon attaches to a real process and exits with 0, and the command lists the process."""
        import receivers

        runc = shutil.which("runc") or tools.left_out("runc is not on PATH")
        if os.geteuid() != 0:
            tools.left_out("runc needs root")
        with workload() as (folder, running), tempfile.TemporaryDirectory(prefix="gcw-runc.") as bundle:
            (web,) = receivers.free_ports(1)
            place = pathlib.Path(bundle)
            for name in ("rootfs/proc", "rootfs/run", "rootfs/tmp", "rootfs/bundle", "rootfs/lib", "rootfs/lib64", "rootfs/usr"):
                (place / name).mkdir(parents=True)
            shutil.copy(tools.gcwatch(), place / "rootfs/gcwatch")
            (place / "gcwatch.yaml").write_text(f"targets:\n  include: [{{environment: {{GCWATCH_E2E: '{folder}'}}}}]\notlp: {{enabled: false}}\n")
            capabilities = ["CAP_SYS_PTRACE", "CAP_DAC_OVERRIDE"]
            read_only = ["rbind", "ro"]
            config = {
                "ociVersion": "1.0.2",
                "process": {
                    "user": {"uid": 0, "gid": 0},
                    "args": ["/gcwatch", "run", "--config", "/bundle/gcwatch.yaml", "--listen", f"127.0.0.1:{web}"],
                    "cwd": "/",
                    "env": ["PATH=/"],
                    "noNewPrivileges": True,
                    "capabilities": {kind: capabilities for kind in ("bounding", "effective", "permitted")},
                },
                "root": {"path": "rootfs", "readonly": True},
                "mounts": [
                    {"destination": "/proc", "type": "proc", "source": "proc"},
                    {"destination": "/run", "type": "tmpfs", "source": "tmpfs"},
                    {"destination": "/bundle", "type": "bind", "source": bundle, "options": read_only},
                    # Required if the program is not static.
                    *({"destination": path, "type": "bind", "source": path, "options": read_only} for path in ("/lib", "/lib64", "/usr") if os.path.exists(path)),
                ],
                "linux": {"namespaces": [{"type": "mount"}, {"type": "ipc"}, {"type": "uts"}], "seccomp": json.loads(PROFILE.read_text())},
            }
            (place / "config.json").write_text(json.dumps(config))
            name = f"gcw-{os.getpid()}"
            words = [runc, "--root", f"{bundle}/state", "run", "--bundle", bundle, name]
            child = receivers.Process("runc", words, folder, environment())
            try:
                targets = lambda: json.loads(receivers.get(f"http://127.0.0.1:{web}/api/v1/targets")[1])["targets"]
                child.await_true("it was ready", lambda: receivers.get(f"http://127.0.0.1:{web}/readyz")[0] == 200)
                child.await_true("it was attached", lambda: [each for each in targets() if each["state"] == "attached"])
                listed = tools.run(runc, "--root", f"{bundle}/state", "exec", name, "/gcwatch", "ps")
                self.assertIn(str(running.pid), listed)
            finally:
                subprocess.run([runc, "--root", f"{bundle}/state", "kill", name, "TERM"], capture_output=True)
                code = child.child.wait(receivers.PATIENCE)
                subprocess.run([runc, "--root", f"{bundle}/state", "delete", "--force", name], capture_output=True)
            self.assertEqual(code, 0, child.tail())


if __name__ == "__main__":
    unittest.main()
