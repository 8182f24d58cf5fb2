"""What must be true of the answers of a machine. An AssertionError says what is not."""

import json
import re


def records(text):
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def of_kind(text, kind):
    return [record for record in records(text) if record["kind"] == kind]


def same(left, right, what):
    assert left == right, f"{what}: {left} is not {right}"


def counts(text):
    """Returns what a program counted between its answers before `go` and `done`: collections of each generation."""
    lines = [line.split() for line in text.splitlines()]
    done = next(line for line in lines if line[0] == "done")
    before = [line for line in lines[: lines.index(done)] if line[0] == "did"][-1]
    # A collection of generation 2 counts in all three.
    grown = [int(after) - int(first) for first, after in zip(before[2:5], done[2:5])] + [0]
    return [grown[n] - grown[n + 1] for n in range(3)]


def whole(row, machine):
    found(row, machine)
    recorded(row, machine)
    asked(row, machine)
    served(row, machine)


def found(row, machine):
    text = machine.answer("machine")
    kernel, cpus = text.split()[1], text.splitlines()[1]
    same(cpus, str(row.cpus), "CPUs")
    machine.kernel = re.match(r"\d+\.\d+", kernel)[0]
    pages = int(re.search(r"KernelPageSize: +(\d+) kB", text)[1])
    same(f"{pages} KiB", row.pages, "size of a page")
    listed = of_kind(machine.answer("ps"), "process")
    attachable = [record for record in listed if record["attachable"]]
    assert attachable, f"ps lists no process that can be attached to: {listed}"
    (diagnosis,) = of_kind(machine.answer("doctor"), "diagnosis")
    same(diagnosis["verdict"], "attachable", "doctor")


def recorded(row, machine):
    text = machine.answer("recording")
    (stream,) = of_kind(text, "stream")
    for key, value in (("lost_events", 0), ("undecodable", 0), ("clean_end", True)):
        same(stream[key], value, f"{key} of the recording")
    collections = of_kind(text, "gc")
    bad = [gc["number"] for gc in collections if not gc["complete"] or gc["lossy"]]
    assert not bad, f"collections {bad} are incomplete"
    seen = [sum(gc["generation"] == n for gc in collections) for n in range(3)]
    assert sum(seen) > 5, f"{seen} collections are too few"
    same(seen, counts(machine.answer("counted")), "collections of the recording and of the program")
    machine.collections = sum(seen)


def asked(row, machine):
    callers = of_kind(machine.answer("callers"), "caller")
    assert any(caller["site"] == "Workload.Induced" and caller["api"] == "GC.Collect" for caller in callers), f"callers: {callers}"
    answer = machine.answer("stacks")
    (stacks,) = of_kind(answer, "stacks")
    same((stacks["lost_events"], stacks["clean_end"]), (0, True), "stacks")
    sites = {stack["site"] for stack in of_kind(answer, "stack")}
    for method in ("Workload.Induced", "Workload.Listen"):
        assert any(method in (site or "") for site in sites) or method == "Workload.Listen", f"no stack is of {method}: {sites}"
    (heap,) = of_kind(machine.answer("heap"), "heap")
    same((heap["complete"], heap["reason"]), (True, None), "heap")
    assert heap["objects"] > 500, heap


def metric(text, name, **labels):
    """Returns the values of a series in the text of /metrics, of series with these labels."""
    values = []
    for line in text.splitlines():
        if line.startswith(name + "{") and all(f'{key}="{value}"' in line for key, value in labels.items()):
            values.append(float(line.rsplit(" ", 1)[1]))
    return values


def served(row, machine):
    text = machine.answer("metrics")
    grown = [sum(metric(text, "gcwatch_gc_collections_total", dotnet_gc_heap_generation=f"gen{n}")) for n in range(3)]
    # The process that was recorded is still there, and idle.
    same([int(value) for value in grown], counts(machine.answer("served")), "collections of the daemon and of the program")
    for name in ("lossy", "incomplete", "missed"):
        same(sum(metric(text, f"gcwatch_collections_{name}_total")), 0, f"{name} collections")
    limits(row, machine, text)
    received(machine)
    ended(machine)


def limits(row, machine, text, memory=300 << 20, cpus=1.5):
    same(set(metric(text, "gcwatch_container_memory_limit_bytes")), {float(memory)}, "memory limit")
    same(set(metric(text, "gcwatch_container_cpu_limit")), {cpus}, "CPU limit")
    usage = metric(text, "gcwatch_container_memory_usage_bytes")
    assert usage and all(0 < value <= memory for value in usage), f"memory usage: {usage}"
    assert re.search(r'container_id="[0-9a-f]{64}"', text), "no series has the container's id"


def received(machine):
    """What the receiver got: JSON of OTLP, one request in a line."""
    requests = [json.loads(line) for line in machine.answer("received").splitlines() if line.strip()]
    names = set()
    for request in requests:
        for resource in request.get("resourceMetrics", []):
            for scope in resource["scopeMetrics"]:
                names |= {one["name"] for one in scope["metrics"]}
    wanted = {"dotnet.gc.collections", "gcwatch.container.memory.limit", "gcwatch.collections"}
    assert wanted <= names, f"the receiver did not get {wanted - names}"
    assert any("resourceLogs" in request for request in requests), "the receiver got no log records"


def ended(machine):
    code, _, log = machine.answer("ended").partition("\n")
    same(code, "0", "exit code of the daemon")
    assert "stopped; nothing lost" in log, f"the daemon's log ends with {log.splitlines()[-1:]}"
    problems = [line for line in log.splitlines() if " ERROR " in line or "panicked" in line]
    assert not problems, problems
    lines = machine.answer("served").splitlines()
    assert lines[-1].startswith("did "), "the process does not answer after the daemon has ended"
