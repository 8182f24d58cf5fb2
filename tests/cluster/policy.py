"""Enforces a NetworkPolicy with nftables on the bridge of the pods, because the CNI plugin of this cluster does not
enforce policies."""

import shutil
import subprocess

import lab
import node
import tools

TABLE = "gcwatch-policy"


def can_enforce():
    """Returns whether this kernel filters on bridges and nft(8) exists."""
    if not shutil.which("nft"):
        return False
    done = subprocess.run(["nft", "--check", "add table bridge gcwatch-check"], capture_output=True, timeout=30)
    return done.returncode == 0


def _matches(labels, selector):
    return all(labels.get(key) == value for key, value in selector.get("matchLabels", {}).items())


def _addresses(peers, namespace):
    """Returns the addresses of the pods that one of the peers selects, or None if all addresses are allowed."""
    if not peers:
        return None
    namespaces = {each["metadata"]["name"]: each["metadata"].get("labels", {}) for each in lab.cluster().ask("GET", "/api/v1/namespaces")["items"]}
    found = set()
    for peer in peers:
        assert set(peer) <= {"podSelector", "namespaceSelector"}, f"unsupported peer: {peer}"
        of_namespace = lambda name: _matches(namespaces[name], peer["namespaceSelector"]) if "namespaceSelector" in peer else name == namespace
        for pod in lab.cluster().ask("GET", "/api/v1/pods")["items"]:
            metadata = pod["metadata"]
            if of_namespace(metadata["namespace"]) and _matches(metadata.get("labels", {}), peer.get("podSelector", {})) and pod["status"].get("podIP"):
                found.add(pod["status"]["podIP"])
    return found


def _accepted(rules, peers, namespace, address, other, own):
    """Yields the rules of nftables that accept the allowed connections. `own` is the expression for the pod's address,
    and `other` the expression for the address of its peer."""
    for rule in rules or []:
        addresses = _addresses(rule.get(peers), namespace)
        if addresses == set():
            continue
        peer = "" if addresses is None else f"{other} {{ {', '.join(sorted(addresses))} }} "
        for port in rule.get("ports") or [None]:
            yield f"{own} {address} {peer}" + (f"{port.get('protocol', 'TCP').lower()} dport {port['port']} " if port else "") + "accept"


def enforce(policy):
    """Enforces a policy for the pods that it currently selects, until `lift` is called. Only the packets that open a
    connection are filtered, because there is no connection tracking."""
    namespace, spec = policy["metadata"]["namespace"], policy["spec"]
    lines = []
    for pod in lab.cluster().pods(namespace):
        address = pod["status"].get("podIP")
        if not address or not _matches(pod["metadata"].get("labels", {}), spec["podSelector"]):
            continue
        opens = ("tcp flags & (syn | ack) == syn drop", "meta l4proto udp drop")
        if "Egress" in spec["policyTypes"]:
            lines += _accepted(spec.get("egress"), "to", namespace, address, "ip daddr", "ip saddr")
            lines += [f"ip saddr {address} {each}" for each in opens]
        if "Ingress" in spec["policyTypes"]:
            # A NetworkPolicy does not block the node, which sends the probes. Answers of a name server come from port
            # 53.
            lines += [f"ip daddr {address} ip saddr {{ {node.ADDRESS}, {node.PODS.replace('.0/24', '.1')} }} accept", f"ip daddr {address} udp sport 53 accept"]
            lines += _accepted(spec.get("ingress"), "from", namespace, address, "ip saddr", "ip daddr")
            lines += [f"ip daddr {address} {each}" for each in opens]
    assert lines, f"{policy['metadata']['name']} selects no pod that runs"
    chains = "".join(f"chain {hook} {{ type filter hook {hook} priority 0; policy accept; jump of; }}\n" for hook in ("input", "forward", "output"))
    rules = "\n".join(lines)
    lift()
    tools.run("nft", "--file", "-", input=f"table bridge {TABLE} {{\nchain of {{\n{rules}\n}}\n{chains}}}\n")


def lift():
    subprocess.run(["nft", "delete", "table", "bridge", TABLE], capture_output=True, timeout=30)


CONNECT = """
import socket, sys
try:
    socket.create_connection((sys.argv[1], int(sys.argv[2])), 3).close()
    print("open")
except ConnectionRefusedError:
    print("refused")
except OSError:
    print("dropped")
"""


def connects(pod, address, port):
    """Returns the result of a connection from a pod: `open`, `refused` (the packet arrived, but there is no listener)
    or `dropped`."""
    (status, *_) = pod["status"]["containerStatuses"]
    info = lab.cluster()._ctr("tasks", "list").stdout
    (line,) = [line for line in info.splitlines() if line.startswith(status["containerID"].removeprefix("containerd://"))]
    return tools.run("nsenter", f"--net=/proc/{line.split()[1]}/ns/net", "python3", "-c", CONNECT, address, str(port)).strip()
