"""A network namespace with a registry and a Docker engine, so that ports, bridges and filters of this machine are not
changed."""

import contextlib
import http.server
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import threading
import time
import unittest
import warnings

PROJECT = pathlib.Path(__file__).resolve().parents[2]
# Timeout for one command.
PATIENCE = 600
USER, PASSWORD = "publisher", "not a secret"
SAID = set()


def left_out(reason):
    """Skips a test that cannot run here, or fails it if every test is required. Each reason is printed once."""
    if os.environ.get("GCWATCH_RELEASE_ALL"):
        raise AssertionError(reason)
    if reason not in SAID:
        SAID.add(reason)
        print(f"\ntests/release: left out: {reason}", file=sys.stderr)
    raise unittest.SkipTest(reason)


# Programs that tests/deploy/build provides, by name.
BUILT = {"helm": "helm", "cosign": "cosign", "docker-compose": "compose"}


def program(name):
    """Returns the tests' own version of a program, or the machine's."""
    base = os.environ.get("GCWATCH_CACHE") or os.path.join(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache", "gcwatch")
    cached = sorted(pathlib.Path(base, "tools").glob(f"{BUILT[name]}-*/.complete")) if name in BUILT else []
    found = str(cached[-1].with_name(name)) if cached else shutil.which(name)
    if not found:
        left_out(f"{name} is missing" + (f": tests/deploy/build {BUILT[name]}" if name in BUILT else ""))
    return found


def on_path(path):
    """Returns an environment in which a program is found by its name."""
    return {"PATH": f"{os.path.dirname(path)}:{os.environ['PATH']}"}


def eventually(what, seconds=60):
    """Polls until the first true result, and returns it."""
    until = time.monotonic() + seconds
    while True:
        answer = what()
        if answer:
            return answer
        if time.monotonic() > until:
            raise AssertionError(f"not within {seconds} s: {what}")
        time.sleep(0.2)


class Room:
    """A network namespace, if the user is root. All programs that are started in it are stopped with it."""

    def __init__(self, top):
        self.top, self.ends = top, contextlib.ExitStack()
        self.is_root = os.geteuid() == 0 and bool(shutil.which("ip"))
        self.inside, self.name = [], f"gcw-release-{os.getpid()}"
        self.environment = {**os.environ, "HOME": str(top / "home"), "DOCKER_CONFIG": str(top / "docker-config")}
        (top / "home").mkdir()
        (top / "docker-config").mkdir()
        if self.is_root:
            subprocess.run(["ip", "netns", "add", self.name], check=True)
            self.ends.callback(subprocess.run, ["ip", "netns", "delete", self.name], check=True)
            subprocess.run(["ip", "-netns", self.name, "link", "set", "lo", "up"], check=True)
            self.inside = ["nsenter", f"--net=/var/run/netns/{self.name}"]

    def close(self):
        self.ends.close()

    def run(self, *command, status=0, **more):
        """Runs a command in the room and returns its standard output. The command must exit with this status."""
        environment = self.environment | more.pop("env", {})
        words = [*self.inside, *(str(word) for word in command)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE, env=environment, **more)
        if done.returncode != status:
            raise AssertionError(f"{command} ended with {done.returncode}:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
        return done.stdout if status == 0 else done.stdout + done.stderr

    def start(self, name, *command, alone=False):
        """Starts a program that runs until the room ends. With `alone`, the program is in its own pid namespace and sees
        no process of this machine."""
        log = open(self.top / f"{name}.log", "wb")
        around = ["unshare", "--pid", "--mount-proc", "--fork", "--kill-child"] if alone else []
        words = [*self.inside, *around, *(str(word) for word in command)]
        process = subprocess.Popen(words, stdout=log, stderr=subprocess.STDOUT, env=self.environment, start_new_session=True)

        def end():
            # `unshare` only waits for its child, so signal the child.
            children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children")
            ended = children.read_text().split() if alone and process.poll() is None else [process.pid]
            for pid in ended:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGTERM)
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            log.close()

        self.ends.callback(end)
        return process

    def get(self, url, user=None):
        """Returns the body of an answer, or None if there is no answer."""
        words = ["curl", "--silent", "--fail", "--max-time", "5", *(["--user", user] if user else []), url]
        done = subprocess.run([*self.inside, *words], capture_output=True, text=True, timeout=30)
        return done.stdout if done.returncode == 0 else None

    def registry(self, port):
        """Starts a registry with a password, like the registries of releases. Returns HOST:PORT."""
        server = program("docker-registry")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            try:
                import crypt  # With the C library's bcrypt; until Python 3.12.
            except ImportError:
                left_out("this Python has no crypt, for the registry's password")
        password = crypt.crypt(PASSWORD, crypt.mksalt(crypt.METHOD_BLOWFISH, rounds=16)).replace("$2b$", "$2y$")
        (self.top / "htpasswd").write_text(f"{USER}:{password}\n")
        (self.top / "registry.yml").write_text(
            "version: 0.1\n"
            "log: {level: warn}\n"
            f"storage: {{filesystem: {{rootdirectory: {self.top}/registry}}}}\n"
            f"http: {{addr: '127.0.0.1:{port}'}}\n"
            f"auth: {{htpasswd: {{realm: release, path: {self.top}/htpasswd}}}}\n"
        )
        self.start("registry", server, "serve", self.top / "registry.yml")
        eventually(lambda: self.get(f"http://127.0.0.1:{port}/v2/", f"{USER}:{PASSWORD}") is not None)
        return f"127.0.0.1:{port}"

    def engine(self):
        """Returns `docker` with an engine that has its own networks and processes. Skips the test if no engine runs."""
        if not self.is_root:
            left_out("a Docker engine takes root")
        docker, daemon = program("docker"), program("dockerd")
        socket = f"unix://{self.top}/docker.sock"
        folders = ["--data-root", self.top / "docker-data", "--exec-root", self.top / "docker-exec", "--pidfile", self.top / "docker.pid"]
        process = self.start("dockerd", daemon, *folders, "--host", socket, alone=True)

        def ready():
            if process.poll() is not None:
                left_out(f"no Docker engine runs here: {(self.top / 'dockerd.log').read_text()[-300:].strip()}")
            return subprocess.run([docker, "--host", socket, "info"], capture_output=True).returncode == 0

        eventually(ready)
        self.environment["DOCKER_HOST"] = socket
        return docker


def serve(folder):
    """Serves files over HTTP on loopback. Returns the server and its address."""
    handler = lambda *given: Quiet(*given, directory=str(folder))  # noqa: E731
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server, f"http://127.0.0.1:{server.server_address[1]}"


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass
