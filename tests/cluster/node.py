"""A cluster with one node, which runs the programs of tests/kubernetes/build and tests/cluster/build in the room that
room.py creates."""

import functools
import http.client
import json
import os
import pathlib
import shutil
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path += [str(HERE.parent / each) for each in ("kubernetes", "deploy", "e2e")]
import cluster as without_nodes  # noqa: E402  (its folder is only now on the path)
import images  # noqa: E402
import receivers  # noqa: E402
import tools  # noqa: E402

Refused = without_nodes.Refused
NODE = "node-1"
# Addresses of the node, of the API server in pods and of the name server in pods, and the network of the pods.
ADDRESS, API, NAMES, PODS = "192.168.77.1", "10.0.0.1", "10.0.0.10", "10.244.0.0/24"
SERVICES = "10.0.0.0/24"
# Timeout for the start of the node, in seconds. Only a hanging component reaches it.
PATIENCE = 120
USERS = {
    "administrator": "system:masters",
    "system:kube-controller-manager": "",
    "system:kube-scheduler": "",
    f"system:node:{NODE}": "system:nodes",
}


class Cluster(without_nodes.Cluster):
    """The processes of a cluster: etcd, API server, controllers, scheduler, containerd and kubelet. They end with their
    room."""

    def __init__(self, room=None):
        self.folder = pathlib.Path(room or os.environ["GCWATCH_CLUSTER_FOLDER"])
        self.port = 443
        self.bin = without_nodes.folder()
        self.parts = pathlib.Path(os.environ["GCWATCH_CLUSTER_NODE"])

    def start(self):
        self._network()
        self._certificates()
        self._configs()
        etcd = ["--unsafe-no-fsync", "--log-level=warn", f"--data-dir={self.folder}/etcd"]
        self.etcd_port = 2379
        self.etcd = receivers.Process("etcd", [self.bin / "etcd", *etcd], self.folder)
        self.etcd.await_true("it was healthy", lambda: receivers.get("http://127.0.0.1:2379/health")[0] == 200)
        self.start_containerd()
        self.start_api()
        common = ["--leader-elect=false", "--bind-address=127.0.0.1"]
        named = lambda user: [f"--{each}={self._kubeconfig(user)}" for each in ("kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig")]
        manager = [f"--root-ca-file={self.folder}/ca.crt", f"--service-account-private-key-file={self.folder}/accounts.key"]
        # The configuration of CNI contains the pod network of the only node, so no controller assigns pod networks.
        manager += ["--use-service-account-credentials", "--controllers=*,-nodeipam,-node-ipam-controller,-cloud-node-lifecycle-controller"]
        manager += ["--concurrent-gc-syncs=5", *named("system:kube-controller-manager")]
        self.manager = receivers.Process("kube-controller-manager", [self.bin / "kube-controller-manager", *common, *manager], self.folder)
        scheduler = [*common, *named("system:kube-scheduler")]
        self.scheduler = receivers.Process("kube-scheduler", [self.bin / "kube-scheduler", *scheduler], self.folder)
        self.load(lambda at: images.pause(at, self.parts / "pause"))
        self.names = Names(self)
        self.kubelet = receivers.Process("kubelet", [self.bin / "kubelet", *self._kubelet()], self.folder)
        self.kubelet.await_true("the node was ready", self._node_is_ready, PATIENCE)

    def _node_is_ready(self):
        try:
            status = self.ask("GET", f"/api/v1/nodes/{NODE}")["status"]
            self.ask("GET", "/api/v1/namespaces/default/serviceaccounts/default")
        except (Refused, OSError):
            return False
        return any(each["type"] == "Ready" and each["status"] == "True" for each in status["conditions"])

    def _network(self):
        ip = lambda *words: tools.run("ip", *words)
        # The address of the API server's service is an address of the node itself, so no component has to translate
        # it.
        ip("address", "add", f"{API}/32", "dev", "lo")
        ip("address", "add", f"{NAMES}/32", "dev", "lo")
        # This device replaces a network card, because the kubelet looks up the address of the default route.
        ip("link", "add", "node0", "type", "bridge")
        ip("address", "add", f"{ADDRESS}/24", "dev", "node0")
        ip("link", "set", "node0", "up")
        ip("route", "add", "default", "via", ADDRESS)
        pathlib.Path("/proc/sys/net/ipv4/ip_forward").write_text("1")

    def _certificates(self):
        super()._certificates()
        at = lambda name: self.folder / name
        key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
        signed = ["-CA", at("ca.crt"), "-CAkey", at("ca.key"), "-CAcreateserial", "-days", "2"]
        made = {
            "api": ("/CN=kube-apiserver", f"subjectAltName=IP:127.0.0.1,IP:{API},IP:{ADDRESS}\nextendedKeyUsage=serverAuth\n"),
            "kubelet": (f"/CN={NODE}", f"subjectAltName=IP:{ADDRESS},DNS:{NODE}\nextendedKeyUsage=serverAuth\n"),
            "client": ("/CN=kube-apiserver-kubelet-client/O=system:masters", "extendedKeyUsage=clientAuth\n"),
        }
        for name, (subject, extensions) in made.items():
            tools.run("openssl", "req", *key, "-subj", subject, "-keyout", at(f"{name}.key"), "-out", at(f"{name}.csr"))
            at(f"{name}.ext").write_text(f"{extensions}basicConstraints=CA:FALSE\n")
            tools.run("openssl", "x509", "-req", "-in", at(f"{name}.csr"), *signed, "-extfile", at(f"{name}.ext"), "-out", at(f"{name}.crt"))
        self.tls = ssl.create_default_context(cafile=at("ca.crt"))

    def _configs(self):
        at = lambda name: self.folder / name
        at("tokens.csv").write_text("".join(f'{user},{user},{user},"{groups}"\n' for user, groups in USERS.items()))
        at("audit.yaml").write_text(json.dumps(without_nodes.AUDIT))
        for user in USERS:
            self._kubeconfig(user)
        at("cni").mkdir()
        bridge = {"type": "bridge", "bridge": "pods0", "isGateway": True, "hairpinMode": True}
        bridge["ipam"] = {"type": "host-local", "dataDir": str(at("addresses")), "ranges": [[{"subnet": PODS}]], "routes": [{"dst": "0.0.0.0/0"}]}
        at("cni/10-pods.conflist").write_text(json.dumps({"cniVersion": "0.4.0", "name": "pods", "plugins": [bridge]}))
        at("containerd.toml").write_text(f"""
version = 2
root = "{at('containerd')}"
state = "/run/containerd"
oom_score = 0
disabled_plugins = ["io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.aufs"]
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/pause:1"
  # runc cannot lower the value without CAP_SYS_RESOURCE.
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{self.parts / 'cni'}"
    conf_dir = "{at('cni')}"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
""")
        at("resolv.conf").write_text("nameserver 127.0.0.1\n")
        kubelet = {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "failCgroupV1": False,
            "cgroupDriver": "cgroupfs",
            "failSwapOn": False,
            # Not every file system can report its usage by quotas.
            "localStorageCapacityIsolation": False,
            "oomScoreAdj": 0,
            "makeIPTablesUtilChains": False,
            "authentication": {"anonymous": {"enabled": False}, "webhook": {"enabled": True}, "x509": {"clientCAFile": str(at("ca.crt"))}},
            "authorization": {"mode": "Webhook"},
            "tlsCertFile": str(at("kubelet.crt")),
            "tlsPrivateKeyFile": str(at("kubelet.key")),
            "clusterDNS": [NAMES],
            "clusterDomain": "cluster.local",
            "resolvConf": str(at("resolv.conf")),
            "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
            "volumePluginDir": str(at("plugins")),
            "address": ADDRESS,
            "maxPods": 60,
            # A disk that other programs fill must not evict pods.
            "evictionHard": {"memory.available": "50Mi", "nodefs.available": "1%", "imagefs.available": "1%", "nodefs.inodesFree": "1%"},
            "imageGCHighThresholdPercent": 100,
            # Changes of a ConfigMap become visible within seconds.
            "syncFrequency": "5s",
            "fileCheckFrequency": "5s",
            "nodeStatusUpdateFrequency": "5s",
        }
        at("kubelet.json").write_text(json.dumps(kubelet))

    def _kubeconfig(self, user):
        at = self.folder / f"{user.replace(':', '-')}.kubeconfig"
        if not at.exists():
            server = {"server": f"https://127.0.0.1:{self.port}", "certificate-authority": str(self.folder / "ca.crt")}
            context = {"cluster": "here", "user": user}
            config = {"apiVersion": "v1", "kind": "Config", "current-context": "here", "clusters": [{"name": "here", "cluster": server}]}
            config |= {"users": [{"name": user, "user": {"token": user}}], "contexts": [{"name": "here", "context": context}]}
            at.write_text(json.dumps(config))
        return at

    def _kubelet(self):
        return [
            f"--config={self.folder}/kubelet.json",
            f"--kubeconfig={self._kubeconfig(f'system:node:{NODE}')}",
            f"--root-dir={self.folder}/kubelet",
            f"--node-ip={ADDRESS}",
            f"--hostname-override={NODE}",
            "--v=2",
        ]

    def start_containerd(self):
        path = f"{self.parts / 'bin'}:{os.environ['PATH']}"
        command = [self.parts / "bin" / "containerd", "--config", self.folder / "containerd.toml"]
        self.containerd = receivers.Process("containerd", command, self.folder, {"PATH": path})
        self.containerd.await_true("it was there", lambda: self._ctr("version", check=False).returncode == 0)

    def _ctr(self, *words, check=True):
        command = [self.parts / "bin" / "ctr", "--address", "/run/containerd/containerd.sock", "--namespace", "k8s.io", *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=300, check=check)

    def load(self, write):
        """Loads an image. `write` is the path of an archive, or a function that writes an archive to a path."""
        at = self.folder / "image.tar"
        if callable(write):
            write(at)
            self._ctr("images", "import", at)
            at.unlink()
        else:
            self._ctr("images", "import", write)

    def start_api(self):
        at = lambda name: self.folder / name
        command = [
            self.bin / "kube-apiserver",
            "--etcd-servers=http://127.0.0.1:2379",
            f"--advertise-address={ADDRESS}",
            f"--secure-port={self.port}",
            f"--tls-cert-file={at('api.crt')}",
            f"--tls-private-key-file={at('api.key')}",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            "--allow-privileged=true",
            f"--token-auth-file={at('tokens.csv')}",
            f"--client-ca-file={at('ca.crt')}",
            f"--kubelet-client-certificate={at('client.crt')}",
            f"--kubelet-client-key={at('client.key')}",
            f"--kubelet-certificate-authority={at('ca.crt')}",
            "--kubelet-preferred-address-types=InternalIP",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={at('accounts.key')}",
            f"--service-account-signing-key-file={at('accounts.key')}",
            f"--service-cluster-ip-range={SERVICES}",
            # Pods reach the API server at the node's own address.
            "--endpoint-reconciler-type=none",
            "--shutdown-watch-termination-grace-period=10s",
            f"--audit-policy-file={at('audit.yaml')}",
            f"--audit-log-path={at('audit.log')}",
        ]
        self.api = receivers.Process("kube-apiserver", command, self.folder)
        self.api.await_true("it was ready", self._ready)

    def kubectl(self, *words, check=True, **more):
        """Returns the standard output of kubectl."""
        environment = {**os.environ, "KUBECONFIG": str(self._kubeconfig("administrator")), "HOME": str(self.folder)}
        done = subprocess.run(
            [str(self.bin / "kubectl"), *map(str, words)], capture_output=True, text=True, timeout=300, env=environment, **more
        )
        if check and done.returncode:
            raise AssertionError(f"kubectl {' '.join(map(str, words))}: {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
        return done.stdout if check else done

    def get(self, *words):
        return json.loads(self.kubectl("get", *words, "--output=json"))

    def helm(self, *words):
        helm = tools.folder("helm", "helm") / "helm"
        environment = {**os.environ, "KUBECONFIG": str(self._kubeconfig("administrator")), "HOME": str(self.folder)}
        return tools.run(helm, *words, env=environment)

    def apply(self, *documents, namespace="default"):
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(documents)})
        return self.kubectl("apply", "--namespace", namespace, "--filename=-", input=text)

    def pods(self, namespace, selector=""):
        return self.ask("GET", f"/api/v1/namespaces/{namespace}/pods?labelSelector={selector}")["items"]

    def objects(self):
        """Returns kind, namespace and name of each object of the API server, except events, leases and component
        statuses, which change by themselves."""
        found = set()
        for group in ["v1", *(each["preferredVersion"]["groupVersion"] for each in self.ask("GET", "/apis")["groups"])]:
            base = f"/apis/{group}" if "/" in group else f"/api/{group}"
            for resource in self.ask("GET", base)["resources"]:
                if "list" not in resource["verbs"] or resource["name"] in ("events", "leases", "componentstatuses"):
                    continue
                for item in self.ask("GET", f"{base}/{resource['name']}")["items"]:
                    found.add((resource["kind"], item["metadata"].get("namespace"), item["metadata"]["name"]))
        return found


class Names:
    """The name server of pods: the name of a service resolves to the address of a ready pod, as for a headless
    service."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind((NAMES, 53))
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            question, asker = self.socket.recvfrom(4096)
            try:
                self.socket.sendto(self._answer(question), asker)
            except (OSError, IndexError, struct.error):
                continue

    def _answer(self, question):
        labels, at = [], 12
        while question[at]:
            labels.append(question[at + 1 : at + 1 + question[at]].decode(errors="replace"))
            at += 1 + question[at]
        (kind,) = struct.unpack_from(">H", question, at + 1)
        asked = question[12 : at + 5]
        found = self._addresses(labels)
        # Response code 3: the name does not exist.
        flags = 0x8180 | (3 if found is None else 0)
        found = found if found and kind == 1 else []
        out = question[:2] + struct.pack(">HHHHH", flags, 1, len(found), 0, 0) + asked
        for address in found:
            out += struct.pack(">HHHIH", 0xC00C, 1, 1, 1, 4) + socket.inet_aton(address)
        return out

    def _addresses(self, labels):
        if len(labels) != 5 or labels[2:] != ["svc", "cluster", "local"]:
            return None
        try:
            slices = self.cluster.ask("GET", f"/apis/discovery.k8s.io/v1/namespaces/{labels[1]}/endpointslices?labelSelector=kubernetes.io/service-name={labels[0]}")
        except (Refused, OSError):
            return None
        ready = [each for every in slices["items"] for each in every.get("endpoints") or [] if (each.get("conditions") or {}).get("ready")]
        return [address for each in ready for address in each["addresses"]] or None


def main():
    """Starts a cluster and runs a command in it, for `tests/cluster/run --shell`."""
    cluster = Cluster()
    began = time.monotonic()
    cluster.start()
    print(f"tests/cluster: up in {time.monotonic() - began:.0f} s, in {cluster.folder}", file=sys.stderr, flush=True)
    environment = {**os.environ, "KUBECONFIG": str(cluster._kubeconfig("administrator")), "PATH": f"{cluster.bin}:{cluster.parts / 'bin'}:{os.environ['PATH']}"}
    sys.exit(subprocess.run(sys.argv[1:] or ["bash"], env=environment).returncode)


if __name__ == "__main__":
    main()
