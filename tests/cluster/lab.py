"""Shared parts of the checks: the cluster, gcwatch installations, .NET pods, and the list of skipped checks."""

import functools
import json
import os
import pathlib
import re
import shutil
import threading
import time
import urllib.request

import images
import node
import tools

PROJECT = images.PROJECT
DIST = pathlib.Path(os.environ.get("GCWATCH_DIST") or PROJECT / "target" / "dist")
IMAGE = "localhost/gcwatch"
APPS = "shop"
PATIENCE = 120
# Checks that this machine cannot run, each listed once.
NOT_SHOWN = []


def not_shown(what):
    """Records a skipped check, which counts as neither passed nor failed."""
    if what not in NOT_SHOWN:
        NOT_SHOWN.append(what)


def until(what, condition, patience=PATIENCE, every=0.25):
    """Waits until a condition returns a true value, and returns this value. Raises AssertionError after `patience`
    seconds; the error contains the last exception of the condition, if any."""
    end = time.monotonic() + patience
    last = None
    while True:
        try:
            value = condition()
            if value:
                return value
        except (OSError, node.Refused, LookupError, json.JSONDecodeError) as error:
            last = error
        if time.monotonic() > end:
            raise AssertionError(f"not in {patience} s: {what}" + (f" ({last})" if last else ""))
        time.sleep(every)


def archive():
    """Returns the path of the image archive: GCWATCH_IMAGE, or the archive that `cargo xtask dist` built if
    GCWATCH_IMAGE is unset."""
    if os.environ.get("GCWATCH_IMAGE"):
        return pathlib.Path(os.environ["GCWATCH_IMAGE"])
    found = sorted(DIST.glob("gcwatch-*-oci-amd64.tar"))
    assert len(found) == 1, f"{DIST} has {len(found)} images: cargo xtask dist makes one, or set GCWATCH_IMAGE"
    return found[0]


def chart():
    """Returns the path of the chart that `cargo xtask dist` built, or the chart's folder in the repository if no chart
    was built."""
    found = sorted(DIST.glob("gcwatch-chart-*.tgz"))
    return found[0] if found else tools.CHART


@functools.cache
def cluster():
    """Returns the cluster of this run. The first call starts the cluster and loads the images; the cluster ends with
    its room."""
    began = time.monotonic()
    made = node.Cluster()
    made.start()
    made.load(archive())
    for name in images.RUNTIMES:
        if images.is_there(name):
            made.load(lambda at: images.dotnet(at, name))
        else:
            not_shown(f"pods on {images.RUNTIMES[name][0]}: tests/runtimes/fetch has no such runtime here")
    made.create("/api/v1/namespaces", {"metadata": {"name": APPS}})
    until("the account of pods", lambda: made.ask("GET", f"/api/v1/namespaces/{APPS}/serviceaccounts/default"))
    (node_object,) = made.ask("GET", "/api/v1/nodes")["items"]
    info = node_object["status"]["nodeInfo"]
    print(
        f"\ntests/cluster: Kubernetes {info['kubeletVersion']}, {info['containerRuntimeVersion']}, kernel {info['kernelVersion']}, "
        f"up with its images in {time.monotonic() - began:.0f} s; {archive().name}, {chart().name}",
        flush=True,
    )
    if not pathlib.Path("/sys/fs/cgroup/cgroup.controllers").exists():
        not_shown("control groups of version 2: this machine has version 1")
    if not pathlib.Path("/sys/kernel/security/apparmor").exists():
        not_shown("AppArmor: this kernel has none, so components/host-processes is installed and changes nothing")
    not_shown("user namespaces of pods (hostUsers: false): containerd 1.6 has none")
    not_shown("a second node: maxUnavailable and the nodes of others")
    not_shown("services by their address: there is no kube-proxy; a name is the address of a ready pod")
    return made


def kustomization(*components, overlay="plain"):
    """Copies deploy/kustomize, sets the image name as a user would, and adds the components to the overlay. Returns the
    folder of the overlay."""
    copy = cluster().folder / "kustomize"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(tools.DEPLOY / "kustomize", copy)
    for at in copy.rglob("kustomization.yaml"):
        at.write_text(at.read_text().replace("newName: gcwatch # REGISTRY/gcwatch", f"newName: {IMAGE}"))
    folder = copy / "overlays" / overlay
    if components:
        # Users add this line as the comment in each component describes.
        with open(folder / "kustomization.yaml", "a") as file:
            file.write(f"components: [{', '.join(f'../../components/{name}' for name in components)}]\n")
    return folder


class Daemon:
    """A gcwatch installation, which is queried at the address of its pod."""

    # Timeout for one answer, in seconds.
    patience = 10

    def __init__(self, namespace="gcwatch", selector="app.kubernetes.io/name=gcwatch,app.kubernetes.io/component=daemon"):
        self.namespace, self.selector = namespace, selector

    def pod(self):
        """Returns the newest pod that is not terminating."""
        pods = cluster().pods(self.namespace, self.selector)
        pods = [pod for pod in pods if "deletionTimestamp" not in pod["metadata"] and pod["status"].get("podIP")]
        if not pods:
            raise LookupError(f"no pod of gcwatch in {self.namespace}")
        return max(pods, key=lambda pod: pod["metadata"]["creationTimestamp"])

    def ready(self):
        pod = self.pod()
        return any(each["type"] == "Ready" and each["status"] == "True" for each in pod["status"].get("conditions", [])) and pod

    def url(self, path):
        return f"http://{self.pod()['status']['podIP']}:9464{path}"

    def get(self, path):
        with urllib.request.urlopen(self.url(path), timeout=self.patience) as answer:
            return answer.read().decode()

    def ask(self, path):
        return json.loads(self.get(f"/api/v1/{path}"))

    def targets(self):
        return self.ask("targets")["targets"]

    def of(self, pod, container=None):
        """Returns the processes that gcwatch reports for a pod, or only for one of its containers if `container` is
        set."""
        named = lambda target, key, value: value is None or target["resource"].get(key) == value
        return [each for each in self.targets() if named(each, "k8s.pod.name", pod) and named(each, "k8s.container.name", container)]

    def attached(self, pod, container=None, patience=PATIENCE):
        """Waits until a process of a pod is attached and has a collection, and returns the record of this process."""
        def seen():
            found = [each for each in self.of(pod, container) if each["state"] == "attached" and each["collections"]]
            return found and found[0]

        return until(f"gcwatch attached to {pod}", seen, patience)

    def metrics(self, name=""):
        """Returns the samples whose names start with `name`, each as a tuple of name, labels and value."""
        found = []
        for line in self.get("/metrics").splitlines():
            if line.startswith(name) and not line.startswith("#"):
                match = re.match(r"([a-zA-Z0-9_:]+)(?:\{(.*)\})? (\S+)", line)
                labels = dict(re.findall(r'([a-zA-Z0-9_]+)="((?:[^"\\]|\\.)*)"', match[2] or ""))
                found.append((match[1], labels, float(match[3])))
        return found

    def incidents(self, pod):
        return [each for each in self.ask("incidents")["incidents"] if each["resource"].get("k8s.pod.name") == pod]

    def group(self):
        """Returns the folder of the memory control group of gcwatch's container."""
        (status,) = self.pod()["status"]["containerStatuses"]
        name = status["containerID"].removeprefix("containerd://")
        for at, _, _ in os.walk("/sys/fs/cgroup"):
            at = pathlib.Path(at)
            if name in at.name and any((at / each).exists() for each in ("memory.max_usage_in_bytes", "memory.peak")):
                return at
        raise LookupError(f"no control group of {name}")

    def memory(self):
        """Returns the peak memory of the control group of gcwatch's container, in bytes, and the number of times that
        the group reached its limit."""
        at = self.group()
        if (at / "memory.max_usage_in_bytes").exists():
            return int((at / "memory.max_usage_in_bytes").read_text()), int((at / "memory.failcnt").read_text())
        (hits,) = re.findall(r"^max (\d+)$", (at / "memory.events").read_text(), re.MULTILINE)
        return int((at / "memory.peak").read_text()), int(hits)

    def logs(self):
        lines = cluster().kubectl("logs", "--namespace", self.namespace, self.pod()["metadata"]["name"]).splitlines()
        return [json.loads(line) for line in lines if line.startswith("{")]


class Watch(threading.Thread):
    """Polls gcwatch's list of processes five times per second, and keeps the newest complete record of each process,
    also after the process has exited."""

    def __init__(self, daemon):
        super().__init__(daemon=True)
        self.daemon_, self.seen, self.over = daemon, {}, threading.Event()

    def run(self):
        while not self.over.wait(0.2):
            try:
                targets = self.daemon_.targets()
            except (OSError, ValueError, LookupError, node.Refused):
                continue
            for target in targets:
                key = target["pid"], target["resource"].get("container.id")
                known = self.seen.get(key)
                # Keep the earlier record if it has more attributes, because the last record of an exiting process can
                # have fewer.
                if not known or len(target["resource"]) >= len(known["resource"]):
                    self.seen[key] = target


def container(name, image, mode="steady", seconds=3000, uid=1654, tmp=True, knobs=(), **more):
    """Returns a container of an application that satisfies Kubernetes' profile `restricted`."""
    environment = {"WMODE": mode, "WSECS": str(seconds), **dict(knobs)}
    made = {
        "name": name,
        "image": f"localhost/{image}:1.0",
        "imagePullPolicy": "Never",
        # The workload exits when its standard input ends.
        "stdin": True,
        "env": [{"name": key, "value": value} for key, value in environment.items()],
        "resources": {"requests": {"cpu": "10m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}},
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": uid,
            "runAsGroup": uid,
            "readOnlyRootFilesystem": True,
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        **more,
    }
    if tmp:
        made["volumeMounts"] = [{"name": "tmp", "mountPath": "/tmp"}]
    return made


def spec(*containers, init=(), **more):
    made = {"containers": list(containers), "automountServiceAccountToken": False, "terminationGracePeriodSeconds": 1}
    # Every user may write to these volumes, because the containers of one pod may have different users.
    made["volumes"] = [{"name": "tmp", "emptyDir": {}}]
    made["securityContext"] = {"fsGroup": 2000}
    if init:
        made["initContainers"] = list(init)
    return made | more


def pod(name, *containers, labels=None, **more):
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels or {}}, "spec": spec(*containers, **{"restartPolicy": "Never", **more})}


def workload(kind, name, *containers, replicas=1, **more):
    """Returns a Deployment, StatefulSet or DaemonSet."""
    labels = {"app": name}
    made = {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": spec(*containers, **more)}}
    if kind != "DaemonSet":
        made["replicas"] = replicas
    if kind == "StatefulSet":
        made["serviceName"] = name
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": made}


def running(name, namespace=APPS):
    """Waits until all containers of a pod run, and returns the pod."""
    def all_run():
        found = cluster().ask("GET", f"/api/v1/namespaces/{namespace}/pods/{name}")
        statuses = found["status"].get("containerStatuses", [])
        return found if statuses and all("running" in each["state"] for each in statuses) else None

    return until(f"{name} runs", all_run)


def expected(pod, name, owners=()):
    """Returns the attributes that a process in a container must have: the values of the pod's own object (`kubectl get
    pod -o json`), and `owners`."""
    kinds = {"containerStatuses": "containers", "initContainerStatuses": "initContainers"}
    for statuses, specs in kinds.items():
        for status in pod["status"].get(statuses) or []:
            if status["name"] == name:
                (of,) = [each for each in pod["spec"][specs] if each["name"] == name]
                image, _, tag = of["image"].rpartition(":")
                container_id = status["containerID"].removeprefix("containerd://")
    return {
        "container.id": container_id,
        "container.image.name": image,
        "container.image.tags": [tag],
        "k8s.container.name": name,
        "k8s.pod.name": pod["metadata"]["name"],
        "k8s.pod.uid": pod["metadata"]["uid"],
        "k8s.namespace.name": pod["metadata"]["namespace"],
        "k8s.node.name": pod["spec"]["nodeName"],
        **dict(owners),
    }


def told(target):
    """Returns the Kubernetes and container attributes that gcwatch reports for a process."""
    return {key: value for key, value in target["resource"].items() if key.startswith(("k8s.", "container."))}
