"""Real .NET processes: tests/workload in its mode `fixed`, which does a fixed amount of work and then prints the
runtime's counts; a web service with the OpenTelemetry SDK; a program with known allocation sites."""

import os
import pathlib
import select
import subprocess
import time

import gcwatch

RUNTIME = "net10.0.0"
ASP_RUNTIME = "asp10.0.14"
PATIENCE = 120


def fetched(name):
    """Returns a file or folder of the cache of runtimes."""
    done = subprocess.run([gcwatch.PROJECT / "tests/runtimes/fetch"], capture_output=True, text=True, timeout=900)
    path = pathlib.Path(done.stdout.strip().splitlines()[-1]) / name
    assert path.exists(), f"{path} is missing: {done.stderr}"
    return path


class Workload:
    """The workload, which exits when its standard input ends. After .work(): .counts {gen0, gen1, gen2}, each without
    the collections of older generations, and .pause in seconds.

    `variables`: additional or overriding environment variables."""

    def __init__(self, folder, rounds=1000, **variables):
        host = fetched(f"{RUNTIME}/dosai")
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
        # The runtime counts a collection in its own generation and in all younger generations.
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


def known(folder, program, *arguments, **variables):
    """Starts a program of the cache of runtimes, and waits until it is ready. The caller stops the program."""
    import receivers

    command = [fetched(f"{ASP_RUNTIME}/run"), fetched(f"known/{program}"), *arguments]
    environment = {"TMPDIR": str(folder), "DOTNET_SYSTEM_GLOBALIZATION_INVARIANT": "1", "GCWATCH_E2E": str(folder), **variables}
    process = receivers.Process(pathlib.Path(program).stem, command, folder, environment)
    process.await_true("the program was ready", lambda: "ready pid" in process.log.read_text())
    return process


def daemon(folder, *arguments, more="", **variables):
    """Starts gcwatch run, which attaches only to the workloads of this folder. `more`: additional keys of the
    configuration."""
    import receivers

    environment = gcwatch.environment(folder, **variables)
    config = pathlib.Path(environment["GCWATCH_CONFIG"])
    with config.open("a") as file:
        file.write(f"targets:\n  include: [{{environment: {{GCWATCH_E2E: '{folder}'}}}}]\n  lease_folder: {folder}/leases\n{more}")
    return receivers.Process("gcwatch", [gcwatch.program(), "run", *arguments], folder, environment)
