"""Starts and stops real receivers, each on free loopback ports and in its own folder."""

import contextlib
import os
import pathlib
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
# Timeout for starting or stopping a receiver, in seconds. Only a hanging receiver takes this long.
PATIENCE = 60


def cache():
    """Returns the folder into which tests/e2e/build puts the receivers."""
    base = os.environ.get("GCWATCH_CACHE")
    if not base:
        base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.environ["HOME"], ".cache")
        base = os.path.join(base, "gcwatch")
    return pathlib.Path(base) / "receivers"


def pins():
    """Returns the versions of the receivers by name."""
    lines = (HERE / "pins").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def binary(name, program):
    """Returns the path of a program of a receiver, or None if the receiver was not built."""
    folder = cache() / f"{name}-{pins()[name]}"
    return folder / program if (folder / ".complete").exists() else None


def free_ports(count):
    """Returns ports without a listener. If another program takes a port before the receiver does, the receiver exits,
    and its log states the reason."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def get(url, timeout=10):
    """Returns the status and the body of a response, or the status 0 and the error if there is no response."""
    try:
        with urllib.request.urlopen(url, timeout=timeout) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()
    except (urllib.error.URLError, OSError) as error:
        return 0, str(error).encode()


class Process:
    """A running program that writes its output to a file."""

    def __init__(self, name, command, folder, environment=None):
        self.name, self.folder = name, pathlib.Path(folder)
        self.log = self.folder / f"{name}.log"
        with open(self.log, "ab") as log:
            self.child = subprocess.Popen(
                [str(word) for word in command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env={**os.environ, **(environment or {})},
            )

    def await_true(self, what, condition, patience=PATIENCE):
        """Waits until a condition holds, and returns the value of the condition. Raises AssertionError if the program exits
        first, or after `patience` seconds."""
        until = time.monotonic() + patience
        while True:
            value = condition()
            if value:
                return value
            if self.child.poll() is not None:
                raise AssertionError(f"{self.name} ended with {self.child.returncode} before {what}:\n{self.tail()}")
            if time.monotonic() > until:
                raise AssertionError(f"{self.name}: {what}: not in {patience} s:\n{self.tail()}")
            time.sleep(0.1)

    def tail(self):
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-15:])

    def stop(self):
        """Stops the program, waits for its exit, and returns its exit code."""
        if self.child.poll() is None:
            self.child.terminate()
            try:
                self.child.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self.child.kill()
                self.child.wait()
                raise AssertionError(f"{self.name} did not end on SIGTERM:\n{self.tail()}")
        return self.child.returncode


@contextlib.contextmanager
def _running(name, program, write_config, ready, ports, gently=True):
    path = binary(name, program)
    if path is None:
        raise FileNotFoundError(f"{name} {pins()[name]} is not built: tests/e2e/build {name}")
    folder = pathlib.Path(tempfile.mkdtemp(prefix=f"gcw-{name}."))
    process = None
    try:
        process = Process(name, [path, *write_config(folder)], folder)
        process.ports = ports
        process.await_true("it was ready", ready)
        yield process
    finally:
        if process:
            if not gently:
                process.child.kill()
                process.child.wait()
            process.stop()
        shutil.rmtree(folder, ignore_errors=True)


def _listens(port):
    with contextlib.suppress(OSError):
        socket.create_connection(("127.0.0.1", port), 1).close()
        return True


def collector():
    """Starts an OpenTelemetry Collector with the ports grpc and http. The Collector writes a file for each signal into
    .folder. The files are complete after the Collector has exited."""
    grpc, http = ports = free_ports(2)

    def write_config(folder):
        (folder / "config.yaml").write_text(f"""
receivers:
  otlp:
    protocols:
      grpc: {{endpoint: 127.0.0.1:{grpc}}}
      http: {{endpoint: 127.0.0.1:{http}}}
exporters:
  debug: {{verbosity: detailed, sampling_initial: 1000000}}
  file/traces: {{path: {folder}/traces.json}}
  file/metrics: {{path: {folder}/metrics.json}}
  file/logs: {{path: {folder}/logs.json}}
service:
  telemetry: {{metrics: {{level: none}}}}
  pipelines:
    traces: {{receivers: [otlp], exporters: [debug, file/traces]}}
    metrics: {{receivers: [otlp], exporters: [debug, file/metrics]}}
    logs: {{receivers: [otlp], exporters: [debug, file/logs]}}
""")
        return ["--config", folder / "config.yaml"]

    return _running("collector", "otelcol", write_config, lambda: _listens(grpc) and _listens(http), ports)


def jaeger():
    """Starts Jaeger 2 with its storage in memory. Its ports are grpc, http, query, and query over gRPC."""
    grpc, http, query, query_grpc = ports = free_ports(4)

    def write_config(folder):
        (folder / "config.yaml").write_text(f"""
receivers:
  otlp:
    protocols:
      grpc: {{endpoint: 127.0.0.1:{grpc}}}
      http: {{endpoint: 127.0.0.1:{http}}}
exporters:
  jaeger_storage_exporter: {{trace_storage: memory}}
extensions:
  jaeger_storage: {{backends: {{memory: {{memory: {{max_traces: 100000}}}}}}}}
  jaeger_query:
    storage: {{traces: memory}}
    enable_tracing: false
    http: {{endpoint: 127.0.0.1:{query}}}
    grpc: {{endpoint: 127.0.0.1:{query_grpc}}}
service:
  extensions: [jaeger_storage, jaeger_query]
  telemetry: {{metrics: {{level: none}}}}
  pipelines:
    traces: {{receivers: [otlp], exporters: [jaeger_storage_exporter]}}
""")
        return ["--config", folder / "config.yaml"]

    ready = lambda: _listens(grpc) and get(f"http://127.0.0.1:{query}/api/v3/services")[0] == 200
    return _running("jaeger", "jaeger", write_config, ready, ports)


def prometheus(scrape=None):
    """Starts Prometheus 3 with its OTLP receiver and one port. Prometheus scrapes the address `scrape` every second, if
    given."""
    (port,) = ports = free_ports(1)

    def write_config(folder):
        target = f"""
scrape_configs:
  - job_name: gcwatch
    honor_labels: true
    static_configs: [{{targets: ['{scrape}']}}]
"""
        (folder / "prometheus.yml").write_text(f"""
global: {{scrape_interval: 1s}}
storage: {{tsdb: {{out_of_order_time_window: 1h}}}}
otlp: {{promote_resource_attributes: [service.name, process.pid]}}
{target if scrape else ''}""")
        return [
            f"--config.file={folder}/prometheus.yml",
            f"--storage.tsdb.path={folder}/data",
            f"--web.listen-address=127.0.0.1:{port}",
            "--web.enable-otlp-receiver",
        ]

    ready = lambda: get(f"http://127.0.0.1:{port}/-/ready")[0] == 200
    return _running("prometheus", "prometheus", write_config, ready, ports)


def tempo():
    """Starts Tempo with its storage in a folder. Its ports are grpc, http, query, and two internal ports."""
    grpc, http, query, internal, gossip = ports = free_ports(5)

    def write_config(folder):
        (folder / "tempo.yaml").write_text(f"""
search_enabled: true
usage_report: {{reporting_enabled: false}}
server: {{graceful_shutdown_timeout: 1s, http_listen_address: 127.0.0.1, http_listen_port: {query}, grpc_listen_address: 127.0.0.1, grpc_listen_port: {internal}}}
distributor:
  receivers:
    otlp:
      protocols:
        grpc: {{endpoint: 127.0.0.1:{grpc}}}
        http: {{endpoint: 127.0.0.1:{http}}}
memberlist: {{bind_addr: [127.0.0.1], bind_port: {gossip}}}
ingester: {{lifecycler: {{address: 127.0.0.1, min_ready_duration: 0s, final_sleep: 0s, ring: {{kvstore: {{store: inmemory}}, replication_factor: 1}}}}}}
storage: {{trace: {{backend: local, local: {{path: {folder}/blocks}}, wal: {{path: {folder}/wal}}}}}}
""")
        return [f"-config.file={folder}/tempo.yaml", "-target=all"]

    ready = lambda: _listens(grpc) and get(f"http://127.0.0.1:{query}/ready")[0] == 200
    # A graceful shutdown takes 30 s, and the stored data is not needed.
    return _running("tempo", "tempo", write_config, ready, ports, gently=False)
