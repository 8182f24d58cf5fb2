"""Checks the listener without a login on an address that other machines can reach, as the chart configures the
listener."""

import functools
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import urllib.error
import urllib.request

import tools


# An address that is not loopback, in a separate network namespace: no other program reaches the listener there.
ADDRESS = "192.0.2.1"
INSIDE = "GCWATCH_LISTENER_INSIDE"


def alone(test):
    """Runs a test in a network namespace that has only its own addresses."""

    @functools.wraps(test)
    def run(self):
        if INSIDE in os.environ:
            return test(self)
        if os.geteuid() != 0:
            tools.left_out("a network namespace needs root")
        up = f'{tools.program("ip")} link set lo up && {tools.program("ip")} address add {ADDRESS}/32 dev lo && exec "$0" -m unittest "$1"'
        words = [tools.program("unshare"), "--net", "sh", "-c", up, sys.executable, f"check_listener.Listener.{test.__name__}"]
        done = subprocess.run(words, cwd=tools.HERE, env={**os.environ, INSIDE: "1"}, capture_output=True, text=True, timeout=tools.PATIENCE)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    return run


def ask(url, method="GET"):
    try:
        with urllib.request.urlopen(urllib.request.Request(url, method=method), timeout=20) as answer:
            return answer.status, answer.read().decode(errors="replace")
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode(errors="replace")
    except OSError:
        return 0, "{}"


class Listener(unittest.TestCase):
    @alone
    def test_nothing_private_without_a_login(self):
        """Scenario: `demo` with incidents listens on all addresses without logins; a client outside loopback requests
        every documented path, and paths of evidence, with each method.
        Guarantee: the listener refuses evidence (recordings, flame graphs, requests), also on loopback; `/mcp` does not
        exist; methods other than GET are refused."""
        import receivers

        (port,) = receivers.free_ports(1)
        with tempfile.TemporaryDirectory(prefix="gcw-listener.") as folder:
            words = [tools.gcwatch(), "demo", "--listen", f"0.0.0.0:{port}"]
            environment = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "GCWATCH_"))}
            demo = receivers.Process("demo", words, pathlib.Path(folder), environment)
            base = f"http://{ADDRESS}:{port}"
            try:
                demo.await_true("it listens", lambda: ask(f"{base}/livez")[0] == 200)
                demo.await_true("incidents exist", lambda: json.loads(ask(f"{base}/api/v1/incidents")[1])["incidents"])
                incident = json.loads(ask(f"{base}/api/v1/incidents")[1])["incidents"][0]
                for path in (f"/api/v1/evidence/{incident['id']}", f"/api/v1/evidence/{incident['id']}.html", f"/api/v1/evidence/requests/{incident['pid']}"):
                    self.assertEqual(ask(base + path)[0], 403, path)
                    self.assertEqual(ask(f"http://127.0.0.1:{port}{path}")[0], 403, path)
                self.assertEqual(ask(f"{base}/mcp")[0], 404)
                for method in ("POST", "PUT", "PATCH", "DELETE"):
                    for path in ("/api/v1/incidents", "/metrics", "/", "/api/v1/rules"):
                        self.assertEqual(ask(base + path, method)[0], 405, f"{method} {path}")
                paths = json.loads(ask(f"{base}/api/v1/openapi.json")[1])["paths"]
                self.assertGreater(len(paths), 5)
                self.assertFalse([path for path, methods in paths.items() if set(methods) - {"get", "parameters"}])
                for path in paths:
                    if path == "/api/v1/events":
                        continue
                    status, _ = ask(base + re.sub(r"\{\w+\}", str(incident["pid"]), path))
                    self.assertIn(status, (403,) if path.startswith("/api/v1/evidence/") else (200, 404), path)
            finally:
                demo.stop()


if __name__ == "__main__":
    unittest.main()
