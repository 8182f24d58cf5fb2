"""etcd and kube-apiserver on loopback ports with TLS, tokens, RBAC and an audit log, as built by
tests/kubernetes/build."""

import json
import os
import pathlib
import shutil
import signal
import ssl
import sys
import tempfile
import urllib.error
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
sys.path += [str(HERE.parent / "deploy"), str(HERE.parent / "e2e")]
import receivers  # noqa: E402  (its folder is only now on the path)
import tools  # noqa: E402

ADMIN = "administrator"
# All started processes end with the check, regardless of its outcome.
WITH_US = ["setpriv", "--pdeathsig", "KILL"]
# The audit log has the user and the response code of every request, but no content.
AUDIT = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"], "rules": [{"level": "Metadata"}]}


def folder():
    pins = (line.split("=", 1) for line in (HERE / "pins").read_text().splitlines() if "=" in line and not line.startswith("#"))
    made = tools.cache() / f"kubernetes-{dict(pins)['kubernetes']}"
    assert (made / ".complete").exists(), f"{made} is missing: tests/kubernetes/build"
    return made


class Refused(Exception):
    def __init__(self, status, body):
        super().__init__(f"{status}: {body}")
        self.status, self.body = status, body


class Cluster:
    """An API server without controllers, scheduler or kubelet, so that it contains only the objects that a check
    creates."""

    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="gcw-kubernetes."))
        self.etcd = self.api = None
        try:
            self._start()
        except BaseException:
            self.end()
            raise

    def _start(self):
        self.etcd_port, peer, self.port = receivers.free_ports(3)
        self._certificates()
        (self.folder / "tokens.csv").write_text(f'{ADMIN},{ADMIN},{ADMIN},"system:masters"\n')
        (self.folder / "audit.yaml").write_text(json.dumps(AUDIT))
        etcd, at = f"http://127.0.0.1:{self.etcd_port}", f"http://127.0.0.1:{peer}"
        command = [*WITH_US, folder() / "etcd", f"--data-dir={self.folder}/etcd", "--unsafe-no-fsync", "--log-level=warn"]
        command += [f"--listen-client-urls={etcd}", f"--advertise-client-urls={etcd}", f"--listen-peer-urls={at}"]
        command += [f"--initial-advertise-peer-urls={at}", f"--initial-cluster=default={at}"]
        self.etcd = receivers.Process("etcd", command, self.folder)
        self.etcd.await_true("it was healthy", lambda: receivers.get(f"{etcd}/health")[0] == 200)
        self.tls = ssl.create_default_context(cafile=self.folder / "ca.crt")
        self.start_api()

    def _certificates(self):
        """Creates an authority, the server's certificate for 127.0.0.1, and the key that signs tokens of service
        accounts."""
        at = lambda name: self.folder / name
        key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
        ca = ["-subj", "/CN=gcwatch tests", "-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=critical,keyCertSign"]
        tools.run("openssl", "req", "-x509", *key, *ca, "-days", "2", "-keyout", at("ca.key"), "-out", at("ca.crt"))
        tools.run("openssl", "req", *key, "-subj", "/CN=kube-apiserver", "-keyout", at("api.key"), "-out", at("api.csr"))
        at("api.ext").write_text("subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth\nbasicConstraints=CA:FALSE\n")
        signed = ["-CA", at("ca.crt"), "-CAkey", at("ca.key"), "-CAcreateserial", "-days", "2", "-extfile", at("api.ext")]
        tools.run("openssl", "x509", "-req", "-in", at("api.csr"), *signed, "-out", at("api.crt"))
        tools.run("openssl", "genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out", at("accounts.key"))

    def start_api(self):
        at = lambda name: self.folder / name
        self.api = receivers.Process(
            "kube-apiserver",
            [
                *WITH_US,
                folder() / "kube-apiserver",
                f"--etcd-servers=http://127.0.0.1:{self.etcd_port}",
                "--bind-address=127.0.0.1",
                f"--secure-port={self.port}",
                f"--tls-cert-file={at('api.crt')}",
                f"--tls-private-key-file={at('api.key')}",
                "--anonymous-auth=false",
                "--authorization-mode=RBAC",
                f"--token-auth-file={at('tokens.csv')}",
                "--service-account-issuer=https://kubernetes.default.svc",
                f"--service-account-key-file={at('accounts.key')}",
                f"--service-account-signing-key-file={at('accounts.key')}",
                "--service-cluster-ip-range=10.0.0.0/24",
                # No client finds this server by its endpoints, and no controller repairs them.
                "--endpoint-reconciler-type=none",
                # Without this option, watches do not end gracefully, but with the process after one minute.
                "--shutdown-watch-termination-grace-period=10s",
                "--request-timeout=20s",
                f"--audit-policy-file={at('audit.yaml')}",
                f"--audit-log-path={at('audit.log')}",
            ],
            self.folder,
        )
        self.api.await_true("it was ready", self._ready)

    def _ready(self):
        try:
            # The server is ready only after it has created its own objects, including roles.
            return self.ask("GET", "/readyz") == "ok"
        except (Refused, OSError):
            return False

    def kill_api(self):
        """Kills the server like a node that loses power: connections break."""
        self.api.child.kill()
        self.api.child.wait()

    def stop_api(self):
        """Stops the server gracefully: watches end."""
        self.api.stop()

    def ask(self, method, path, body=None, token=ADMIN, kind="application/json"):
        """Sends a request. Returns the answer, parsed if it is JSON. Raises Refused if the server refuses the
        request."""
        request = urllib.request.Request(f"https://127.0.0.1:{self.port}{path}", method=method)
        request.add_header("Authorization", f"Bearer {token}")
        if body is not None:
            request.data = json.dumps(body).encode()
            request.add_header("Content-Type", kind)
        try:
            with urllib.request.urlopen(request, timeout=30, context=self.tls) as answer:
                text = answer.read().decode()
        except urllib.error.HTTPError as error:
            raise Refused(error.code, error.read().decode(errors="replace")) from None
        return json.loads(text) if text.startswith("{") else text

    def create(self, path, body):
        return self.ask("POST", f"{path}?fieldValidation=Strict", body)

    def patch(self, path, body):
        return self.ask("PATCH", path, body, kind="application/merge-patch+json")

    def place(self, document, namespace=None):
        """Returns the path at which objects of this kind are created."""
        version, kind = document["apiVersion"], document["kind"]
        base = f"/api/{version}" if "/" not in version else f"/apis/{version}"
        resources = {each["kind"]: each for each in self.ask("GET", base)["resources"] if "/" not in each["name"]}
        namespace = document["metadata"].get("namespace") or namespace
        within = f"/namespaces/{namespace}" if resources[kind]["namespaced"] else ""
        return f"{base}{within}/{resources[kind]['name']}"

    def namespace(self, name):
        """Creates a namespace with the service account that every pod has, because no controller creates it."""
        self.create("/api/v1/namespaces", {"metadata": {"name": name}})
        self.create(f"/api/v1/namespaces/{name}/serviceaccounts", {"metadata": {"name": "default"}, "automountServiceAccountToken": False})

    def token(self, namespace, account, **spec):
        """Returns a token like the kubelet's token for a pod."""
        request = {"spec": {"expirationSeconds": 3600, **spec}}
        return self.create(f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token", request)["status"]["token"]

    def forget(self):
        """Compacts etcd to the newest versions, which otherwise happens every five minutes."""
        status = json.loads(self._etcd("/v3/maintenance/status", {}))
        self._etcd("/v3/kv/compaction", {"revision": status["header"]["revision"], "physical": True})

    def _etcd(self, path, body):
        url = f"http://127.0.0.1:{self.etcd_port}{path}"
        with urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode()), timeout=30) as answer:
            return answer.read()

    def requests_of(self, user):
        """Returns the requests of a user in the audit log."""
        # The last line can be incomplete.
        lines = [line for line in (self.folder / "audit.log").read_text().splitlines(keepends=True) if line.endswith("\n")]
        events = map(json.loads, lines)
        return [event for event in events if event["user"].get("username") == user]

    def end(self):
        for process in (self.api, self.etcd):
            if process and process.child.poll() is None:
                process.child.send_signal(signal.SIGKILL)
                process.child.wait()
        if not os.environ.get("GCWATCH_KEEP"):
            shutil.rmtree(self.folder, ignore_errors=True)


def install(cluster):
    """Sends the objects of `kubectl apply -k deploy/kustomize/overlays/plain`."""
    for document in tools.documents(tools.kustomized("overlays/plain")):
        cluster.create(cluster.place(document), document)
