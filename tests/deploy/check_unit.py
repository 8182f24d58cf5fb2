"""Checks that the systemd unit is valid, and that it grants gcwatch two capabilities and the necessary system calls."""

import json
import pathlib
import subprocess
import tempfile
import unittest

import tools

UNIT = tools.DEPLOY / "systemd" / "gcwatch.service"


class Unit(unittest.TestCase):
    def test_verified(self):
        """Scenario: systemd-analyze verifies the unit with the path of an existing program.
        Guarantee: systemd-analyze succeeds and prints no message."""
        analyze = tools.program("systemd-analyze")
        with tempfile.TemporaryDirectory(prefix="gcw-unit.") as folder:
            unit = pathlib.Path(folder) / UNIT.name
            unit.write_text(UNIT.read_text().replace("/usr/local/bin/gcwatch", tools.gcwatch()))
            done = tools.subprocess.run([analyze, "verify", unit], capture_output=True, text=True, timeout=tools.PATIENCE)
            self.assertEqual((done.returncode, done.stdout + done.stderr), (0, ""))

    def test_verify_refuses(self):
        """Scenario: the unit has a key that does not exist.
        Guarantee: systemd-analyze reports the key."""
        analyze = tools.program("systemd-analyze")
        with tempfile.TemporaryDirectory(prefix="gcw-unit.") as folder:
            unit = pathlib.Path(folder) / UNIT.name
            unit.write_text(UNIT.read_text().replace("/usr/local/bin/gcwatch", tools.gcwatch()).replace("NoNewPrivileges", "NoNewPrivilege"))
            done = tools.subprocess.run([analyze, "verify", unit], capture_output=True, text=True, timeout=tools.PATIENCE)
            self.assertIn("NoNewPrivilege", done.stdout + done.stderr)

    def test_least_privilege(self):
        """Scenario: the lines of the unit are read.
        Guarantee: the unit grants the same two capabilities as the Helm chart, as ambient capabilities and in the
        bounding set, and sets NoNewPrivileges."""
        lines = [line for line in UNIT.read_text().splitlines() if "=" in line and not line.startswith("#")]
        for key in ("AmbientCapabilities", "CapabilityBoundingSet"):
            self.assertIn(f"{key}=CAP_SYS_PTRACE CAP_DAC_OVERRIDE", lines)
        self.assertIn("NoNewPrivileges=yes", lines)

    def test_system_calls(self):
        """Scenario: gcwatch runs under strace. gcwatch attaches to a real process, serves metrics, tries to export,
        reloads its configuration and exits.
        Guarantee: the unit's SystemCallFilter allows every system call of gcwatch, but neither ptrace nor
        process_vm_readv."""
        analyze, strace = tools.program("systemd-analyze"), tools.program("strace")
        import gcwatch as program
        import process
        import receivers

        if not pathlib.Path(subprocess.run([tools.PROJECT / "tests/runtimes/fetch"], capture_output=True, text=True).stdout.strip(), process.RUNTIME).exists():
            tools.left_out("the .NET runtime is missing: run tests/runtimes/fetch")
        with (
            tempfile.TemporaryDirectory(prefix="gcw-calls.") as calls_of,
            tempfile.TemporaryDirectory(prefix="gcw-unit.") as folder,
            process.Workload(folder, rounds=50) as workload,
        ):
            (web,) = receivers.free_ports(1)
            # The configuration has a separate folder, because gcwatch watches the folder of its configuration.
            (pathlib.Path(folder) / "etc").mkdir()
            config = pathlib.Path(folder) / "etc" / "gcwatch.yaml"
            keys = f"targets:\n  include: [{{environment: {{GCWATCH_E2E: '{folder}'}}}}]\n  lease_folder: {folder}/leases\n"
            config.write_text(keys + "otlp: {endpoint: 'http://127.0.0.1:1'}\n")
            words = [strace, "-f", "-qq", "-o", f"{calls_of}/calls", program.program(), "run", "--config", config, "--listen", f"127.0.0.1:{web}"]
            environment = {name: value for name, value in tools.os.environ.items() if not name.startswith(("OTEL_", "GCWATCH_CONFIG"))}
            daemon = receivers.Process("gcwatch", words, folder, environment)
            try:
                targets = lambda: json.loads(receivers.get(f"http://127.0.0.1:{web}/api/v1/targets")[1])["targets"]
                ready = lambda: receivers.get(f"http://127.0.0.1:{web}/readyz")[0] == 200
                daemon.await_true("it was ready", ready)
                daemon.await_true("it was attached", lambda: [each for each in targets() if each["state"] == "attached"])
                workload.work()
                config.write_text(keys + "otlp: {endpoint: 'http://127.0.0.1:1'}\nspans: {min_pause: 1ms}\n")
                metrics = lambda: receivers.get(f"http://127.0.0.1:{web}/metrics")[1].decode()
                reloaded = lambda: any(line.endswith(" 1") and 'outcome="accepted"' in line for line in metrics().splitlines() if line.startswith("gcwatch_config_reloads"))
                daemon.await_true("it was reloaded", reloaded)
            finally:
                # strace does not forward SIGTERM, so send the signal to its child.
                (child,) = pathlib.Path(f"/proc/{daemon.child.pid}/task/{daemon.child.pid}/children").read_text().split()
                tools.os.kill(int(child), tools.signal.SIGTERM)
                daemon.child.wait(receivers.PATIENCE)
            # If a thread exits before strace has read its system call, strace writes the call as `???(`.
            began = (line.split()[1] for line in pathlib.Path(calls_of, "calls").read_text().splitlines() if "(" in line and "<..." not in line)
            used = {call.split("(")[0] for call in began} - {"???"}
        self.assertGreater(len(used), 40)
        allowed = set()
        for line in UNIT.read_text().splitlines():
            if line.startswith("SystemCallFilter="):
                words = line.partition("=")[2]
                names = set().union(*(calls(analyze, word) for word in words.removeprefix("~").split()))
                allowed = allowed - names if words.startswith("~") else allowed | names
        self.assertEqual(used - allowed, set())
        self.assertFalse({"ptrace", "process_vm_readv"} & allowed)


def calls(analyze, name):
    """Returns the system calls of a group, whose name starts with `@`, or a set with the name of one system call."""
    if not name.startswith("@"):
        return {name}
    lines = [line.strip() for line in tools.run(analyze, "syscall-filter", name).splitlines()[1:]]
    return set().union(*(calls(analyze, line) for line in lines if line and not line.startswith("#")))


if __name__ == "__main__":
    unittest.main()
