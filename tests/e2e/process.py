"""A real .NET process: tests/workload in its mode `fixed`, which does so much and then says what the runtime counted."""

import os
import pathlib
import select
import subprocess
import time

import gcwatch

RUNTIME = "net10.0.0"
PATIENCE = 120


class Workload:
    """It ends with its standard input. After .work(): .counts {gen0, gen1, gen2} each by itself, and .pause in seconds.

    `variables`: further ones of its environment, or others than here."""

    def __init__(self, folder, rounds=1000, **variables):
        fetched = subprocess.run([gcwatch.PROJECT / "tests/runtimes/fetch"], capture_output=True, text=True, timeout=900)
        host = pathlib.Path(fetched.stdout.strip()) / RUNTIME / "dosai"
        assert host.exists(), f"{host} is not there: {fetched.stderr}"
        self.child = subprocess.Popen(
            [host, "--help"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            env={
                **os.environ,
                "TMPDIR": str(folder),
                "DOTNET_STARTUP_HOOKS": str(gcwatch.PROJECT / "tests/workload/workload.dll"),
                "DOTNET_SYSTEM_GLOBALIZATION_INVARIANT": "1",
                "WMODE": "fixed",
                "WROUNDS": str(rounds),
                "WSECS": "300",
                "GCWATCH_E2E": str(folder),
                "OTEL_SERVICE_NAME": "checked",
                **variables,
            },
        )
        self._read = b""
        self.pid = self.child.pid
        self._await("ready")

    def work(self):
        self.child.stdin.write(b"go\n")
        _, _, gen0, gen1, gen2, pause = self._await("done").split()
        gen0, gen1, gen2 = int(gen0), int(gen1), int(gen2)
        # The runtime counts a collection in its generation and in all younger ones.
        self.counts = {"gen0": gen0 - gen1, "gen1": gen1 - gen2, "gen2": gen2}
        self.pause = int(pause) / 1e6

    def end(self):
        self.child.stdin.close()
        self.child.wait(PATIENCE)

    def _await(self, begin):
        until = time.monotonic() + PATIENCE
        while True:
            line, found, rest = self._read.partition(b"\n")
            if found:
                self._read = rest
                if line.startswith(begin.encode()):
                    return line.decode()
                continue
            ready, _, _ = select.select([self.child.stdout], [], [], max(0, until - time.monotonic()))
            assert ready, f"the workload was not {begin} in {PATIENCE} s"
            piece = os.read(self.child.stdout.fileno(), 4096)
            assert piece, f"the workload ended before it was {begin}"
            self._read += piece

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.child.poll() is None:
            self.child.kill()
            self.child.wait()
        self.child.stdin.close()
        self.child.stdout.close()


def daemon(folder, *arguments, **variables):
    """gcwatch run, which attaches to the workloads of this folder and to no other process."""
    import receivers

    environment = gcwatch.environment(folder, **variables)
    config = pathlib.Path(environment["GCWATCH_CONFIG"])
    with config.open("a") as file:
        file.write(f"targets:\n  include: [{{environment: {{GCWATCH_E2E: '{folder}'}}}}]\n  lease_folder: {folder}/leases\n")
    return receivers.Process("gcwatch", [gcwatch.program(), "run", *arguments], folder, environment)
