"""The content of the image as the Containerfile defines it, run like Kubernetes runs it: a read-only root with only the
program, as uid 0 with two capabilities and no_new_privs, or as a sidecar without capabilities; the processes are in
other mount, pid and network namespaces and belong to other users.

No container engine is needed: the "node" is a set of namespaces created by `unshare`, in which this file runs itself
again (`inside`). A real Collector listens with TLS, a DNS server resolves the name of the Collector through the search
list of a pod, and the .NET process is real. The test does not cover a container runtime's own AppArmor profile and
seccomp filter, a real cluster, or another architecture.
"""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.request

import tools

TARGET = "x86_64-unknown-linux-musl"
# SYS_PTRACE and DAC_OVERRIDE.
CAPABILITIES = 1 << 19 | 1 << 1
# The search domain in a pod's /etc/resolv.conf, and the name that it resolves.
SEARCH = "gcwatch.svc.cluster.local svc.cluster.local cluster.local"
NAME = "collector.gcwatch.svc.cluster.local"
DNS, COLLECTOR = "127.0.0.53", "127.0.0.10"
WEB = "http://127.0.0.1:9464"
# A user other than gcwatch's.
USER = 12345
PATIENCE = 120


def static():
    """Returns the static program."""
    path = pathlib.Path(os.environ.get("GCWATCH_STATIC") or tools.PROJECT / "target" / TARGET / "release" / "gcwatch")
    if not path.exists():
        tools.left_out(f"there is no static program at {path}: cargo build --release --target {TARGET} (GCWATCH_STATIC)")
    return path


class Image(unittest.TestCase):
    def test_static(self):
        """Scenario: the headers of the program are read.
        Guarantee: the program requests neither an interpreter nor a library."""
        said = tools.run(tools.program("readelf"), "--program-headers", "--dynamic", static())
        self.assertNotIn("INTERP", said)
        self.assertNotIn("NEEDED", said)

    def test_containerfile(self):
        """Scenario: the Containerfile is read.
        Guarantee: the last stage starts from scratch, copies one folder and runs nothing."""
        text = (tools.DEPLOY / "container" / "Containerfile").read_text()
        lines = [line.split()[0] for line in text[text.rindex("\nFROM ") :].replace("\\\n", " ").splitlines() if line and line[0].isalpha()]
        self.assertIn("FROM scratch", text)
        self.assertEqual(set(lines), {"FROM", "ARG", "LABEL", "COPY", "USER", "ENV", "EXPOSE", "ENTRYPOINT", "CMD"})

    def inside(self, case):
        program = static()
        for needed in ("unshare", "capsh", "ip", "setpriv", "openssl"):
            tools.program(needed)
        if os.geteuid() != 0 or subprocess.run(["unshare", "--mount", "--pid", "--fork", "--net", "true"], capture_output=True).returncode:
            tools.left_out("namespaces take root, and the right to make them")
        import receivers

        if receivers.binary("collector", "otelcol") is None:
            tools.left_out("the Collector is not built: tests/e2e/build collector")
        runtimes = subprocess.run([tools.PROJECT / "tests/runtimes/fetch"], capture_output=True, text=True, timeout=900).stdout.strip()
        if not pathlib.Path(runtimes, "net10.0.0", "dosai").exists():
            tools.left_out("there is no .NET runtime: tests/runtimes/fetch")
        with tempfile.TemporaryDirectory(prefix="gcw-image.") as folder:
            os.chmod(folder, 0o755)
            isolated = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--net", "--mount-proc", "--propagation", "private"]
            done = subprocess.run(
                [*isolated, sys.executable, __file__, "inside", case, folder, program, runtimes], capture_output=True, text=True, timeout=PATIENCE * 2
            )
        self.assertEqual(done.returncode, 0, f"{done.stdout[-3000:]}\n{done.stderr[-6000:]}")

    def test_daemonset(self):
        """Scenario: gcwatch runs as in the DaemonSet; the process belongs to another user and has its own namespaces
        and its own /tmp.
        Guarantee: gcwatch attaches and counts every collection; spans arrive over TLS at a host name; SIGTERM ends
        gcwatch gracefully, and no lease remains."""
        self.inside("daemonset")

    def test_sidecar(self):
        """Scenario: gcwatch runs as in the sidecar: as the user of the process, without capabilities.
        Guarantee: the result is the same as for the DaemonSet."""
        self.inside("sidecar")

    def test_without_roots(self):
        """Scenario: the receiver uses https, and the image has no certificates.
        Guarantee: gcwatch reports the missing certificates and does not start."""
        self.inside("without-roots")


# The following functions run inside the namespaces.


def sh(*words, **more):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=PATIENCE, **more)
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    return done.stdout


def serve_names(asked):
    """Runs a DNS server that knows one name."""
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind((DNS, 53))

    def answer():
        while True:
            query, client = server.recvfrom(512)
            place, labels = 12, []
            while query[place]:
                labels.append(query[place + 1 : place + 1 + query[place]].decode())
                place += 1 + query[place]
            (kind,) = struct.unpack(">H", query[place + 1 : place + 3])
            question, known = query[12 : place + 5], ".".join(labels) == NAME
            asked.append(".".join(labels))
            found = known and kind == 1
            header = query[:2] + struct.pack(">HHHHH", 0x8180 if known else 0x8183, 1, int(found), 0, 0)
            record = b"\xc0\x0c" + struct.pack(">HHIH", 1, 1, 30, 4) + socket.inet_aton(COLLECTOR) if found else b""
            server.sendto(header + question + record, client)

    threading.Thread(target=answer, daemon=True).start()


def make_certificates(folder):
    (folder / "names").write_text(f"subjectAltName=DNS:collector,DNS:{NAME}\nbasicConstraints=CA:FALSE\n")
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    sh("openssl", "req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.crt", "-subj", "/CN=test", "-days", "2", cwd=folder)
    sh("openssl", "req", *key, "-keyout", "tls.key", "-out", "tls.csr", "-subj", "/CN=collector", cwd=folder)
    sign = ["-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", "names"]
    sh("openssl", "x509", "-req", "-in", "tls.csr", *sign, "-out", "tls.crt", cwd=folder)


def make_root(folder, program, roots):
    """Creates the image's files, and mounts the same file systems over them as the kubelet."""
    root = folder / "root"
    for place in ("proc", "run", "tmp", "etc/ssl/certs", "etc/gcwatch/config"):
        (root / place).mkdir(parents=True)
    shutil.copy(program, root / "gcwatch")
    (root / "etc/passwd").write_text("root:x:0:0:root:/:/nologin\n")
    if roots:
        shutil.copy(folder / "ca.crt", root / "etc/ssl/certs/ca-certificates.crt")
    (root / "etc/resolv.conf").write_text(f"search {SEARCH}\nnameserver {DNS}\noptions ndots:5\n")
    (root / "etc/hosts").write_text("127.0.0.1 localhost\n")
    (root / "etc/gcwatch/config/gcwatch.yaml").write_text("otlp: {endpoint: 'https://collector:4317', compression: gzip}\nmetrics: {interval: 1s}\n")
    sh("mount", "--bind", root, root)
    sh("mount", "-t", "proc", "proc", root / "proc")
    # Like an emptyDir: every user may write.
    sh("mount", "-t", "tmpfs", "-o", "mode=0777", "tmpfs", root / "run")
    sh("mount", "-o", "remount,bind,ro", root)
    return root


def contained(root, user, *words):
    """Returns the command with which a container runs gcwatch with these credentials."""
    kept = {"cap_sys_ptrace", "cap_dac_override"} if user == 0 else set()
    every = sh("capsh", "--decode=1ffffffffff").strip().partition("=")[2].split(",")
    dropped = ",".join(name for name in every if name not in kept and not name.isdigit())
    who = [f"--gid={user}", "--groups=", f"--uid={user}"] if user else []
    # Capabilities are dropped from the bounding set, which applies from the next program; the user can still be
    # changed.
    return [shutil.which("capsh"), f"--chroot={root}", "--no-new-privs", "--inh=", *who[:2], f"--drop={dropped}", *who[2:], "--shell=/gcwatch", "--", *words]


@contextlib.contextmanager
def started(name, command, folder, **more):
    """Runs a program with its output in a file, and stops the program in any case."""
    log = folder / f"{name}.log"
    with open(log, "wb") as output:
        child = subprocess.Popen([str(word) for word in command], stdout=more.pop("stdout", output), stderr=output, **more)
    child.log = log
    try:
        yield child
    finally:
        if child.poll() is None:
            child.kill()
        child.wait()


def awaited(what, condition, *children):
    until = time.monotonic() + PATIENCE / 2
    while True:
        with contextlib.suppress(OSError):
            value = condition()
            if value:
                return value
        logs = "\n".join(f"--- {child.log}:\n{child.log.read_text()[-2500:]}" for child in children)
        assert all(child.poll() is None for child in children), f"ended before {what}:\n{logs}"
        assert time.monotonic() < until, f"not in time: {what}:\n{logs}"
        time.sleep(0.1)


def got(path):
    with urllib.request.urlopen(WEB + path, timeout=10) as answer:
        return answer.read().decode()


def inside(case, folder, program, runtimes):
    import receivers

    folder, runtimes = pathlib.Path(folder), pathlib.Path(runtimes)
    sh("ip", "link", "set", "lo", "up")
    make_certificates(folder)
    root = make_root(folder, program, roots=case != "without-roots")
    if case == "without-roots":
        done = subprocess.run(contained(root, 0, "run", "--config=/etc/gcwatch/config/gcwatch.yaml"), capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode == 1 and "certificates" in done.stderr and "panicked" not in done.stderr, done
        return

    asked = []
    serve_names(asked)
    (folder / "collector.yaml").write_text(f"""
receivers: {{otlp: {{protocols: {{grpc: {{endpoint: {COLLECTOR}:4317, tls: {{cert_file: {folder}/tls.crt, key_file: {folder}/tls.key}}}}}}}}}}
exporters: {{file/traces: {{path: {folder}/traces.json}}, file/metrics: {{path: {folder}/metrics.json}}}}
service:
  telemetry: {{metrics: {{level: none}}}}
  pipelines:
    traces: {{receivers: [otlp], exporters: [file/traces]}}
    metrics: {{receivers: [otlp], exporters: [file/metrics]}}
""")
    user = 0 if case == "daemonset" else USER
    # Mount the folders of the program and the runtime, readable by the user of the process, and a separate /tmp.
    mounts = f"mount -t tmpfs tmpfs /mnt && mkdir /mnt/run /mnt/work && mount --bind {runtimes}/net10.0.0 /mnt/run && mount --bind {tools.PROJECT}/tests/workload /mnt/work"
    mounts += " && mount -t tmpfs -o mode=1777 tmpfs /tmp"
    pod = ["unshare", "--mount", "--propagation", "private", "--net"]
    if case == "daemonset":
        pod += ["--pid", "--fork", "--kill-child", "--mount-proc"]
    host = f"exec setpriv --reuid {USER} --regid {USER} --clear-groups --bounding-set -all /mnt/run/dosai --help"
    environment = {
        "PATH": os.environ["PATH"],
        "DOTNET_STARTUP_HOOKS": "/mnt/work/workload.dll",
        "DOTNET_SYSTEM_GLOBALIZATION_INVARIANT": "1",
        "WMODE": "fixed",
        "WROUNDS": "300",
        "WSECS": "200",
        "OTEL_SERVICE_NAME": "shop",
    }
    with (
        started("collector", [receivers.binary("collector", "otelcol"), "--config", folder / "collector.yaml"], folder) as collector,
        started("shop", [*pod, "sh", "-c", f"{mounts} && {host}"], folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as shop,
    ):
        assert shop.stdout.readline().startswith(b"ready"), shop.log.read_text()
        awaited("the Collector listens", lambda: socket.create_connection((COLLECTOR, 4317), 1).close() is None, collector)
        arguments = ["run", "--config=/etc/gcwatch/config/gcwatch.yaml", "--listen=0.0.0.0:9464", "--log-format=json"]
        if user:
            # The folder that both containers share acts as the sidecar's /tmp and belongs to the user.
            sh("chown", user, folder / "root" / "run")
        with started("gcwatch", contained(root, user, *arguments), folder, env={"NODE_NAME": "node-1"}) as gcwatch:
            awaited("it is ready", lambda: got("/readyz"), gcwatch)
            status = pathlib.Path(f"/proc/{gcwatch.pid}/status").read_text()
            held = {line.split(":")[0]: line.split()[1] for line in status.splitlines() if line.startswith(("Cap", "NoNewPrivs", "Uid"))}
            expected = CAPABILITIES if user == 0 else 0
            assert int(held["CapEff"], 16) == expected and int(held["CapBnd"], 16) in (expected, 0), held
            assert held["NoNewPrivs"] == "1" and held["Uid"] == str(user), held
            attached = lambda: [target for target in json.loads(got("/api/v1/targets"))["targets"] if target["state"] == "attached"]
            (target,) = awaited("it is attached", attached, gcwatch, shop)
            shop.stdin.write(b"go\n")
            shop.stdin.flush()
            line = b""
            while not line.startswith(b"done"):
                line = shop.stdout.readline()
                assert line, shop.log.read_text()
            _, _, gen0, gen1, gen2, _ = (int(word) if word.isdigit() else word for word in line.decode().split())
            by_generation = {"gen0": gen0 - gen1, "gen1": gen1 - gen2, "gen2": gen2}

            def counted():
                lines = [line for line in got("/metrics").splitlines() if line.startswith("dotnet_gc_collections_total") and 'service_name="shop"' in line]
                values = {name: 0 for name in by_generation}
                for line in lines:
                    values[line.split('generation="')[1][:4]] = float(line.split()[-1])
                return values == by_generation

            awaited(f"all of {by_generation} are counted", counted, gcwatch)
            # `kubectl exec ... -- /gcwatch ps`
            told = subprocess.run(contained(root, user, "ps", "--format", "ndjson"), capture_output=True, text=True, timeout=PATIENCE)
            processes = [json.loads(line) for line in told.stdout.splitlines()]
            assert [each["attachable"] for each in processes] == [True], told
            gcwatch.send_signal(signal.SIGTERM)
            assert gcwatch.wait(PATIENCE) == 0, gcwatch.log.read_text()
            log = gcwatch.log.read_text()
        assert "lease" not in log and "panicked" not in log, log
        assert not list((root / "run").rglob("*.lease")), "no lease remains"
        collector.terminate()
        collector.wait(PATIENCE)
    traces = (folder / "traces.json").read_text()
    assert f'"process.pid","value":{{"intValue":"{target["pid"]}"' in traces.replace(" ", ""), traces[:2000]
    names = [
        span["name"]
        for line in traces.splitlines()
        for resource in json.loads(line)["resourceSpans"]
        for scope in resource["scopeSpans"]
        for span in scope["spans"]
    ]
    roots = sum(name.startswith("GC gen") for name in names)
    assert roots > 0, names[:10]
    assert "dotnet.gc.collections" in (folder / "metrics.json").read_text()
    # The name was resolved through the search list, as in a pod.
    assert NAME in asked, asked


if __name__ == "__main__":
    if sys.argv[1:2] == ["inside"]:
        inside(*sys.argv[2:])
    else:
        unittest.main()
