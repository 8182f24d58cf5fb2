#!/usr/bin/env python3
"""Runs the daemon and its commands under the seccomp profile, with real .NET processes and a third-party OTLP receiver.

  tests/deploy/load_under_seccomp.py [--minutes N] [--log FILE]

Fails if a call was refused, gcwatch exited, a command failed, or no data was delivered. A call that the profile answers with ENOSYS
(clone3) is not a refusal. GCWATCH: the program. The processes need less than half a core together."""

import argparse
import collections
import http.server
import json
import os
import pathlib
import re
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time

import tools

# tools adds tests/e2e, the folder of these two, to the path.
import process
import receivers

PROFILE = tools.DEPLOY / "seccomp" / "gcwatch.json"
UNDER = [sys.executable, str(tools.HERE / "under_seccomp.py"), str(PROFILE)]
# Name, runtime and mode of tests/workload. The idle ones collect when the script tells them to.
PROCESSES = [
    ("idle-8", "net8.0.33", "idle"),
    ("idle-11", "net11.0.0", "idle"),
    ("refresh-10", "net10.0.14", "refresh"),
    ("refresh-3", "net3.1.3", "refresh"),
    ("induced-9", "net9.0.22", "induced"),
    ("induced-aot-9", "aot9.0.22", "induced"),
]
# These run one after the other for the given seconds. Their incidents cause bursts, a census and recordings.
PASSING = [("storm-10", "net10.0.14", "storm", 80), ("slowleak-10", "net10.0.14", "slowleak", 400), ("quietbgc-8", "net8.0.33", "quietbgc", 60), ("leak-3", "net3.1.3", "leak", 20)]
COMMANDS = [
    (["ps"], "{}"),
    (["ps", "--format", "ndjson"], "{}"),
    (["top", "--once", "--connect", "{web}"], "idle-8"),
    (["incidents", "--connect", "{web}"], ""),
    (["doctor", "--pid", "{}"], "{}"),
    (["heap", "{}", "--lease-folder", "{folder}/commands"], "heap"),
    (["stacks", "{}", "--for", "1s", "--lease-folder", "{folder}/commands"], "Workload"),
    (["callers", "{}", "--for", "1s", "--lease-folder", "{folder}/commands"], "callers"),
    (["allocations", "{}", "--for", "1s", "--lease-folder", "{folder}/commands"], "allocations"),
    (["record", "--pid", "{}", "--duration", "1s", "--force", "-o", "{folder}/a.nettrace"], ""),
    (["analyze", "{folder}/a.nettrace"], ""),
    (["rules", "check"], ""),
]
PATHS = ["/", "/rules", "/self", "/livez", "/metrics", "/processes/{}", "/api/v1/overview", "/api/v1/processes/{}", "/api/v1/incidents", "/api/v1/evidence/", "/api/v1/gcs"]


class Program:
    """A process of tests/workload or a NativeAOT one. `collected`: its own count of collections."""

    def __init__(self, folder, name, runtime, mode, seconds):
        self.name, self.collected = name, 0
        home = process.fetched(runtime)
        words = [home / "work-aot"] if runtime.startswith("aot") else [home / "run", tools.PROJECT / "tests/workload/workload.dll"]
        variables = {"TMPDIR": folder, "DOTNET_SYSTEM_GLOBALIZATION_INVARIANT": "1", "DOTNET_gcServer": "0", "GCWATCH_E2E": folder}
        variables |= {"OTEL_SERVICE_NAME": name, "WMODE": mode, "WSECS": str(int(seconds)), "WPACE": "3"}
        self.child = subprocess.Popen(
            [str(word) for word in words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, **variables},
        )
        self.pid = self.child.pid
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.child.stdout:
            words = line.split()
            if words and words[0] in ("tick", "did") and len(words) > 2:
                self.collected = int(words[2])

    def say(self, line):
        try:
            self.child.stdin.write(line + "\n")
            self.child.stdin.flush()
        except BrokenPipeError:
            pass

    def end(self):
        self.child.kill()
        self.child.wait()
        self.child.stdin.close()


class Receiver:
    """tests/receivers/mock.js. Counts its requests, spans and data points."""

    def __init__(self):
        fetched = subprocess.run([tools.PROJECT / "tests/receivers/fetch"], capture_output=True, text=True, check=True).stdout.strip()
        words = ["node", tools.PROJECT / "tests/receivers/mock.js", fetched]
        self.child = subprocess.Popen([str(word) for word in words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.url = json.loads(self.child.stdout.readline())["grpc"].rstrip("/")
        self.counts = collections.Counter()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.child.stdout:
            signal_name = line.split('"', 4)[3]
            self.counts[f"requests with {signal_name}"] += 1
            self.counts["spans"] += line.count('"spanId"') if signal_name == "traces" else 0
            self.counts["data points"] += line.count('"timeUnixNano"') if signal_name == "metrics" else 0

    def end(self):
        self.child.stdin.close()
        self.child.wait(30)
        self.reader.join(10)


class Webhook(http.server.BaseHTTPRequestHandler):
    count = 0

    def do_POST(self):
        self.rfile.read(int(self.headers.get("content-length", 0)))
        Webhook.count += 1
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass


class Load:
    def __init__(self, folder, minutes, log):
        self.folder, self.minutes, self.log = folder, minutes, log
        self.counts, self.faults = collections.Counter(), []
        self.refused = pathlib.Path(folder) / "refused"
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "GCWATCH_"))}
        self.environment["GCWATCH_SECCOMP_REFUSED"] = str(self.refused)

    def fault(self, text):
        self.faults.append(text)
        self.say(f"FAILED: {text}")

    def say(self, text):
        print(time.strftime("%H:%M:%S ", time.gmtime()) + text, file=self.log, flush=True)

    def configure(self, number):
        """Writes the configuration, which differs each time."""
        text = f"targets:\n  include: [{{environment: {{GCWATCH_E2E: '{self.folder}'}}}}]\n  lease_folder: {self.folder}/leases\n"
        text += f"state: {{directory: '{self.folder}/state'}}\n"
        text += f"evidence: {{bursts: 'on', census: 'on', census_apart: 1m, burst_every: 5m, store: {{url: 'file://{self.folder}/store'}}}}\n"
        text += f"otlp: {{endpoint: '{self.receiver.url}'}}\nspans: {{min_pause: {number % 2 + 1}ms}}\n"
        text += f"alerts: {{webhooks: [{{url: 'http://127.0.0.1:{self.webhook.server_address[1]}/hook', min_severity: info}}]}}\n"
        new = pathlib.Path(self.folder) / "new"
        new.write_text(text)
        new.rename(self.config)

    def command(self, words, expected, pid):
        words = [word.replace("{folder}", self.folder).replace("{web}", self.web).replace("{}", str(pid)) for word in words]
        done = subprocess.run([*UNDER, tools.gcwatch(), *words], capture_output=True, text=True, timeout=120, env=self.environment)
        self.counts["commands"] += 1
        if done.returncode != 0 or expected.replace("{}", str(pid)) not in done.stdout + done.stderr:
            self.fault(f"{' '.join(words)}: {done.returncode}: {done.stderr[-400:]} {done.stdout[-200:]}")

    def run(self):
        self.config = pathlib.Path(self.folder) / "etc" / "gcwatch.yaml"
        self.config.parent.mkdir()
        self.receiver = Receiver()
        self.webhook = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Webhook)
        threading.Thread(target=self.webhook.serve_forever, daemon=True).start()
        (port,) = receivers.free_ports(1)
        self.web = f"http://127.0.0.1:{port}"
        self.configure(0)
        seconds = self.minutes * 60
        lasting = [Program(self.folder, *each, seconds + 300) for each in PROCESSES]
        passing = None
        daemon = subprocess.Popen(
            [*UNDER, str(tools.gcwatch()), "run", "--config", str(self.config), "--listen", f"127.0.0.1:{port}"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=open(pathlib.Path(self.folder) / "gcwatch.log", "ab"),
            env=self.environment,
        )
        begin, turn = time.monotonic(), 0
        try:
            while receivers.get(self.web + "/readyz")[0] != 200:
                if daemon.poll() is not None or time.monotonic() - begin > 60:
                    return self.fault("gcwatch did not become ready")
                time.sleep(0.2)
            self.say(f"ready, pid {daemon.pid}")
            begin = time.monotonic()
            while time.monotonic() - begin < seconds:
                turn += 1
                if daemon.poll() is not None:
                    return self.fault(f"gcwatch exited with {daemon.returncode}")
                for each in lasting[:2]:
                    each.say(f"collect {turn % 3}")
                path = PATHS[turn % len(PATHS)].replace("{}", str(lasting[turn // len(PATHS) % len(lasting)].pid))
                status, _ = receivers.get(self.web + path)
                self.counts["requests"] += 1
                if status != 200:
                    self.fault(f"{path}: status {status}")
                if turn % 15 == 5:
                    words, expected = COMMANDS[turn // 15 % len(COMMANDS)]
                    # Both runtimes can sample allocations.
                    self.command(words, expected, lasting[1 + turn // 180 % 2].pid)
                if turn % 60 == 30:
                    self.configure(turn // 60)
                    self.counts["changed configurations"] += 1
                if turn % 120 == 60:
                    daemon.send_signal(signal.SIGHUP)
                    self.counts["SIGHUP"] += 1
                if passing is None or passing.child.poll() is not None:
                    passing = Program(self.folder, *PASSING[self.counts["processes started later"] % len(PASSING)])
                    self.counts["processes started later"] += 1
                if turn % 300 == 0:
                    self.say(f"{dict(self.counts)} {dict(self.receiver.counts)} webhooks {Webhook.count} refused {self.refusals()}")
                time.sleep(1)
            self.finish(daemon, lasting)
        finally:
            if daemon.poll() is None:
                daemon.kill()
                daemon.wait()
            for each in [*lasting, *([passing] if passing else [])]:
                each.end()
            self.receiver.end()
            self.webhook.shutdown()
            used = resource.getrusage(resource.RUSAGE_CHILDREN)
            self.say(f"CPU of all programs: {used.ru_utime + used.ru_stime:.0f} s in {time.monotonic() - begin:.0f} s")

    def refusals(self):
        lines = self.refused.read_text().splitlines() if self.refused.exists() else []
        return dict(collections.Counter(" ".join(line.split()[::2]) for line in lines))

    def finish(self, daemon, lasting):
        """Compares gcwatch's counts with those of the processes, and stops gcwatch."""
        # The first two processes collect only on request, so gcwatch has seen all of their collections.
        deadline = time.monotonic() + 60
        while True:
            listed = {each["pid"]: each for each in json.loads(receivers.get(self.web + "/api/v1/targets")[1])["targets"]}
            counts = [listed.get(each.pid, {}).get("collections") or 0 for each in lasting]
            if all(counts) and all(count >= each.collected for count, each in zip(counts, lasting[:2])) or time.monotonic() > deadline:
                break
            time.sleep(0.2)
        for each in lasting:
            state = listed.get(each.pid, {})
            self.say(f"{each.name}: {state.get('state')}, {state.get('collections')} collections, of itself {each.collected}")
            if state.get("state") != "attached" or not state.get("collections"):
                self.fault(f"{each.name} is {state.get('state')} with {state.get('collections')} collections")
        metrics = receivers.get(self.web + "/metrics")[1].decode()
        for line in metrics.splitlines():
            if line.startswith(("gcwatch_config_reloads", "gcwatch_evidence")) and not line.endswith(" 0"):
                self.say(re.sub(r'(job|instance|service_name|process_pid)="[^"]*",?', "", line))
        with open(f"/proc/{daemon.pid}/stat") as file:
            words = file.read().rpartition(")")[2].split()
        self.say(f"CPU of gcwatch: {(int(words[11]) + int(words[12])) / os.sysconf('SC_CLK_TCK'):.0f} s")
        daemon.send_signal(signal.SIGTERM)
        if (code := daemon.wait(60)) != 0:
            self.fault(f"gcwatch ended with {code}")

    def judge(self):
        """Returns whether every guarantee holds. A refused call is recorded before its caller gets the answer, so the record is
        complete when gcwatch has ended."""
        if refused := self.refusals():
            self.fault(f"refused calls: {refused}")
        for name in ("requests with metrics", "requests with traces", "requests with logs", "data points", "spans"):
            if not self.receiver.counts[name]:
                self.fault(f"the receiver got no {name}")
        stored = sum(1 for path in (pathlib.Path(self.folder) / "store").rglob("*") if path.is_file())
        self.say(f"{dict(self.counts)} {dict(self.receiver.counts)} webhooks {Webhook.count} stored files {stored}")
        if self.faults:
            lines = (pathlib.Path(self.folder) / "gcwatch.log").read_text(errors="replace").splitlines()
            self.say("\n".join(["last lines of gcwatch:", *lines[-20:]]))
        self.say(f"{len(self.faults)} failures")
        return not self.faults


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=2, help="duration (default: 2)")
    parser.add_argument("--log", help="file for the report (default: standard output)")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="gcw-load.") as folder, (open(given.log, "a") if given.log else open(os.dup(1), "w")) as log:
        load = Load(folder, given.minutes, log)
        load.run()
        sys.exit(0 if load.judge() else 1)


if __name__ == "__main__":
    main()
