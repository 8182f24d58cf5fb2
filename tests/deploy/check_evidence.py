"""Evidence stored outside the host on an S3 server on loopback (moto): outages, cut requests and a kill of gcwatch."""

import contextlib
import hashlib
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.error
import urllib.request

import tools

sys.path.append(str(tools.PROJECT / "tests" / "e2e"))
import process  # noqa: E402  (its folder is only now on the path)
import receivers  # noqa: E402

BUCKET, PREFIX, NODE = "evidence", "clusters/trial", "node-7"
# An example key, which moto does not check.
KEYS = {"AWS_ACCESS_KEY_ID": "AKIAEXAMPLE", "AWS_SECRET_ACCESS_KEY": "example", "AWS_REGION": "eu-central-1"}
RULES = """apiVersion: gcwatch/v1
rules:
  - {id: test.any, title: Any, on: gc, when: gc.number > 0, summary: A collection, description: A collection., remedy: None., source: none,
     keep_firing_for: 10m, severity: error, evidence: [black-box, allocations]}
"""


def until(what, condition, patience=120):
    end = time.monotonic() + patience
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < end, f"not within {patience} s: {what}"
        time.sleep(0.1)


class Gate:
    """A proxy for a server that is open, shut, or cuts each connection after some bytes of the request."""

    def __init__(self, port):
        self.target, self.mode, self.seen = port, "shut", []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self.seen.append(self.mode)
            threading.Thread(target=self._serve, args=(connection, self.mode), daemon=True).start()

    def _serve(self, connection, mode):
        with connection:
            if mode == "shut":
                return
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.target)) as onwards:
                back = threading.Thread(target=self._copy, args=(onwards, connection, None), daemon=True)
                if mode == "open":
                    back.start()
                self._copy(connection, onwards, 1000 if mode == "cut" else None)

    @staticmethod
    def _copy(source, to, limit):
        with contextlib.suppress(OSError):
            while limit is None or limit > 0:
                piece = source.recv(65536 if limit is None else min(limit, 65536))
                if not piece:
                    break
                to.sendall(piece)
                limit = limit if limit is None else limit - len(piece)
            to.shutdown(socket.SHUT_WR)

    def close(self):
        self.listener.close()


class Evidence(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        python = tools.cache() / f"store-{hashlib.sha256((tools.HERE / 'requirements.store.txt').read_bytes()).hexdigest()[:16]}"
        if not (python / ".complete").exists():
            tools.left_out("moto is not installed: tests/deploy/build store")
        cls.python = python / "bin" / "python"
        cls.folder = tempfile.TemporaryDirectory(prefix="gcw-evidence.")
        cls.addClassCleanup(cls.folder.cleanup)
        cls.top = pathlib.Path(cls.folder.name)
        (port,) = receivers.free_ports(1)
        command = [cls.python, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
        cls.server = receivers.Process("moto", command, cls.top)
        cls.addClassCleanup(cls.server.stop)
        cls.s3 = f"http://127.0.0.1:{port}"
        cls.server.await_true("moto answers", lambda: receivers.get(f"{cls.s3}/moto-api/")[0] == 200)
        cls.boto(f"s3.create_bucket(Bucket={BUCKET!r}, CreateBucketConfiguration=dict(LocationConstraint='eu-central-1'))")
        cls.gate = Gate(port)
        cls.addClassCleanup(cls.gate.close)

    @classmethod
    def boto(cls, expression):
        """Returns the value of an expression with a client `s3` of Amazon's own library."""
        program = f"import boto3, json; s3 = boto3.client('s3', endpoint_url={cls.s3!r}); print(json.dumps({expression}, default=str))"
        done = subprocess.run([cls.python, "-c", program], capture_output=True, text=True, timeout=60, env={**os.environ, **KEYS})
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def objects(self):
        """Returns the names and MD5 sums of the objects in the bucket."""
        found = self.boto(f"s3.list_objects_v2(Bucket={BUCKET!r})").get("Contents", [])
        return {each["Key"]: each["ETag"].strip('"') for each in found}

    def daemon(self):
        """Starts a daemon that only reads one folder of sockets."""
        (self.port,) = receivers.free_ports(1)
        (self.top / "rules.yaml").write_text(RULES)
        more = (
            f"listen: 127.0.0.1:{self.port}\notlp: {{enabled: false}}\nstate: {{directory: {self.top}/state}}\n"
            f"rules: {{shipped: false, files: [{self.top}/rules.yaml]}}\n"
            f"alerts: {{webhooks: [{{url: 'http://127.0.0.1:{self.webhook.server_address[1]}/hook'}}]}}\n"
            "evidence:\n  bursts: on\n  burst_for: 1s\n"
            f"  store: {{url: 's3://{BUCKET}/{PREFIX}', endpoint: 'http://127.0.0.1:{self.gate.port}'}}\n"
        )
        started = process.daemon(self.top, more=more, NODE_NAME=NODE, **KEYS)
        self.addCleanup(started.stop)
        started.await_true("the daemon listens", lambda: receivers.get(f"http://127.0.0.1:{self.port}/readyz")[0] == 200)
        return started

    def get(self, path):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=20) as answer:
            return answer.read()

    def metric(self, name, outcome=""):
        (line,) = [line for line in self.get("/metrics").decode().splitlines() if line.startswith(name) and f'"{outcome}' in line]
        return float(line.split()[-1])

    def incident(self, pid):
        found = [each for each in json.loads(self.get("/api/v1/incidents"))["incidents"] if each["pid"] == pid and each["allocations"]]
        return found and found[0]

    def test_arrives_complete(self):
        """Scenario: an incident is recorded and has a burst while the store is unavailable, and gcwatch is killed. The next instance meets a store
        that cuts each request in the middle, then a working store. A webhook is notified.
        Guarantee: the bucket has the recording with the bytes that gcwatch serves, the record with the finding, the graph, and nothing else. No
        object exists before its request is complete. The webhook's message has the addresses without a signature. No file waits on disk."""
        import check_integrations

        with check_integrations.recorder() as self.webhook, process.Workload(self.top, rounds=100000) as running:
            first = self.daemon()
            running.child.stdin.write(b"go\n")
            incident = until("the incident has its finding", lambda: self.incident(running.pid))
            evidence = {each["name"]: each for each in incident["evidence"]}
            place = evidence["black-box"]["where"]

            def recording():
                with contextlib.suppress(urllib.error.HTTPError):
                    return self.get(place)

            served = until("the recording is written", recording)
            until("three objects wait", lambda: self.metric("gcwatch_evidence_store_files") >= 3)
            until("requests fail", lambda: self.metric("gcwatch_evidence_store_objects_total", "failed") >= 1)
            self.assertEqual(self.objects(), {})
            first.child.send_signal(signal.SIGKILL)
            first.child.wait()

            self.gate.mode = "cut"
            second = self.daemon()
            until("a request is cut", lambda: "cut" in self.gate.seen)
            until("requests fail", lambda: self.metric("gcwatch_evidence_store_objects_total", "failed") >= 1)
            base = f"{PREFIX}/{NODE}"
            key = f"{base}/{place.rsplit('/', 1)[1]}"
            self.assertNotIn(key, self.objects())
            self.gate.mode = "open"
            until("no object waits", lambda: self.metric("gcwatch_evidence_store_files") == 0)
            found = self.objects()
            self.assertEqual(evidence["black-box"]["stored"], f"s3://{BUCKET}/{key}")
            self.assertEqual(found.get(key), hashlib.md5(served).hexdigest(), found)
            record = f"{base}/{incident['id']}/incident.json"
            self.assertEqual(evidence["allocations"]["stored"], f"s3://{BUCKET}/{record}")
            stored = json.loads(self.boto(f"s3.get_object(Bucket={BUCKET!r}, Key={record!r})['Body'].read().decode()"))
            self.assertEqual(stored["allocations"]["total"], incident["allocations"]["total"])
            graph = f"{base}/{incident['id']}/allocations.svg"
            self.assertLessEqual({key, record, graph}, set(found))
            # A killed gcwatch instance leaves at most one more incident of the same process.
            self.assertFalse([name for name in found if not re.search(r"\.nettrace$|/incident\.json$|/allocations\.svg$", name)], found)
            self.assertEqual(list((self.top / "state" / "outgoing").iterdir()), [])

            bodies = [body for path, body in self.webhook.requests if path == "/hook"]
            annotations = [alert["annotations"] for body in bodies for alert in body["alerts"]]
            self.assertIn(f"s3://{BUCKET}/{key}", [each.get("black_box_stored") for each in annotations])
            self.assertIn(f"s3://{BUCKET}/{record}", [each.get("evidence_stored") for each in annotations])
            text = json.dumps(bodies) + json.dumps(incident)
            self.assertNotRegex(text, "(?i)x-amz|signature|AKIAEXAMPLE")
            second.stop()
            self.assertNotRegex(second.log.read_text(), "(?i)x-amz|signature|AKIAEXAMPLE")


if __name__ == "__main__":
    unittest.main()
