"""Checks of the answers of a machine. An AssertionError names the failed check."""

import json
import re


def records(text):
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def of_kind(text, kind):
    return [record for record in records(text) if record["kind"] == kind]


def same(left, right, what):
    assert left == right, f"{what}: {left} is not {right}"


def counts(text):
    """Returns the collections of each generation that a program counted: from its answer before `go` to `done`, and to
    its last answer."""
    lines = [line.split() for line in text.splitlines()]
    done = next(line for line in lines if line[0] == "done")
    before = [line for line in lines[: lines.index(done)] if line[0] == "did"][-1]

    def grown(last):
        # A collection of generation 2 counts in all three values.
        grown = [int(after) - int(first) for first, after in zip(before[2:5], last[2:5])] + [0]
        return [grown[n] - grown[n + 1] for n in range(3)]

    return grown(done), grown(lines[-1])


def compare(observer, seen, counted):
    """Checks the collections that gcwatch saw. The runtime can collect after the program has counted them at the end of
    its work, so the program counts again later: in most machines, both counts are the same."""
    least, most = counted
    in_order = all(low <= value <= high for low, value, high in zip(least, seen, most))
    assert in_order, f"collections of the {observer}: {seen}; of the program: {least} at first, {most} later"


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
    assert attachable, f"ps lists an attachable process: {listed}"
    (diagnosis,) = of_kind(machine.answer("doctor"), "diagnosis")
    same(diagnosis["verdict"], "attachable", "doctor")


def complete(text, idle=True):
    """Checks that a recording is complete. Returns its number of collections of each generation. If the program is not
    idle at the ends of the recording, the first and the last collection can be in progress there."""
    (stream,) = of_kind(text, "stream")
    for key, value in (("lost_events", 0), ("undecodable", 0), ("clean_end", True)):
        same(stream[key], value, f"{key} of the recording")
    collections = of_kind(text, "gc")
    bad = [gc["number"] for gc in (collections if idle else collections[1:-1]) if not gc["complete"] or gc["lossy"]]
    assert not bad, f"collections {bad} are incomplete"
    seen = [sum(gc["generation"] == n for gc in collections) for n in range(3)]
    assert sum(seen) > 5, f"more than 5 collections: {seen}"
    return seen


def recorded(row, machine):
    seen = complete(machine.answer("recording"))
    compare("recording", seen, counts(machine.answer("counted")))


def asked(row, machine):
    callers = of_kind(machine.answer("callers"), "caller")
    sites = {(caller["site"], caller["api"]) for caller in callers}
    assert ("Workload.Induced", "GC.Collect") in sites, f"callers: {sites}"
    # Main works in the first method, and a thread waits for the end in the second.
    pictured(machine, "Workload.Induced", "Workload.<Main>")


def pictured(machine, *methods):
    """Checks stacks and heap. Each method must be in a stack."""
    answer = machine.answer("stacks")
    (stacks,) = of_kind(answer, "stacks")
    same((stacks["lost_events"], stacks["clean_end"]), (0, True), "stacks")
    sites = {stack["site"] for stack in of_kind(answer, "stack")}
    for method in methods:
        assert any(method in (site or "") for site in sites), f"a stack contains {method}: {sites}"
    (heap,) = of_kind(machine.answer("heap"), "heap")
    same((heap["complete"], heap["reason"]), (True, None), "heap")
    assert heap["objects"] > 500, heap


def metric(text, name, **labels):
    """Returns the values of the series with these labels in the text of /metrics."""
    values = []
    for line in text.splitlines():
        if line.startswith(name + "{") and all(f'{key}="{value}"' in line for key, value in labels.items()):
            values.append(float(line.rsplit(" ", 1)[1]))
    return values


def served(row, machine, last="stopped; nothing lost"):
    text = machine.answer("metrics")
    # The recorded process still exists, and can collect.
    labels = lambda n: {"process_pid": machine.answer("pid").strip(), "dotnet_gc_heap_generation": f"gen{n}"}
    of = lambda n: int(sum(metric(text, "gcwatch_gc_collections_total", **labels(n))))
    compare("daemon", [of(n) for n in range(3)], counts(machine.answer("served")))
    for name in ("lossy", "incomplete", "missed"):
        same(sum(metric(text, f"gcwatch_collections_{name}_total")), 0, f"{name} collections")
    limits(row, machine, text)
    received(machine)
    ended(machine, last)


def limits(row, machine, text):
    memory = row.memory_limit << 20
    same(set(metric(text, "gcwatch_container_memory_limit_bytes")), {float(memory)}, "memory limit")
    same(set(metric(text, "gcwatch_container_cpu_limit")), {row.cpu_limit} - {None}, "CPU limit")
    usage = metric(text, "gcwatch_container_memory_usage_bytes")
    assert usage and all(0 < value <= memory for value in usage), f"memory usage: {usage}"
    assert re.search(r'container_id="[0-9a-f]{64}"', text), "no series has the container's id"


def received(machine):
    """Checks the requests of the receiver: OTLP as JSON, one request per line."""
    requests = [json.loads(line) for line in machine.answer("received").splitlines() if line.strip()]
    names = set()
    for request in requests:
        for resource in request.get("resourceMetrics", []):
            for scope in resource["scopeMetrics"]:
                names |= {one["name"] for one in scope["metrics"]}
    wanted = {"dotnet.gc.collections", "gcwatch.container.memory.limit", "gcwatch.collections"}
    assert wanted <= names, f"the receiver did not get {wanted - names}"
    assert any("resourceSpans" in request for request in requests), "the receiver got no spans"


def ended(machine, last="stopped; nothing lost"):
    """Checks the end of the daemon. `last` is the last line of its log."""
    code, _, log = machine.answer("ended").partition("\n")
    same(code, "0", "exit code of the daemon")
    assert last in log, f"the daemon's log ends with {log.splitlines()[-1:]}"
    # An incident is not an error of gcwatch, but of the process, whose pauses are long in the emulator.
    for line in log.splitlines():
        is_incident = "ERROR incident" in line or "ERROR cause of incident" in line
        assert "panicked" not in line and (" ERROR " not in line or is_incident), line
    lines = machine.answer("served").splitlines()
    assert lines[-1].startswith(("did ", "work-aot")), "the process answers after the daemon has exited"


def group(machine, file):
    """Returns a file of the control group of the only process: a number, or a mapping of keys to numbers."""
    (line,) = [line for line in machine.answer("groups").splitlines() if f"/{file} " in line]
    words = line.split()[1:]
    return dict(zip(words[::2], map(int, words[1::2]))) if len(words) > 1 else words[0]


def swapped(row, machine):
    """Checks a process above memory.high that is partly swapped out."""
    found(row, machine)
    text = machine.answer("metrics")
    limits(row, machine, text)
    high = sum(metric(text, "gcwatch_container_memory_high_events_total"))
    events = group(machine, "memory.events")
    assert 0 < high <= events["high"], f"{high} events of memory.high, the kernel has {events}"
    swap = int(group(machine, "memory.swap.current"))
    assert swap > 10 << 20, f"only {swap} bytes are swapped out"
    usage = max(metric(text, "gcwatch_container_memory_usage_bytes"))
    private = json.loads(machine.answer("process"))["memory"]["private"]
    assert private > usage, f"the process has {private} private bytes, less than the {usage} that are not swapped out"
    received(machine)
    ended(machine)


def throttled(row, machine):
    """Checks a process that is throttled by its CPU limit: the figures match the kernel."""
    found(row, machine)
    text = machine.answer("metrics")
    limits(row, machine, text)
    before = dict(zip(*[iter(machine.answer("before").split())] * 2))
    after = group(machine, "cpu.stat")
    grown = (after["throttled_usec"] - int(before["throttled_usec"])) / 1e6
    (seen,) = metric(text, "gcwatch_container_cpu_throttled_time_seconds_total")
    assert grown > 1, f"the kernel throttles the process for more than 1 s: {grown} s"
    assert abs(seen - grown) <= 0.1 * grown, f"throttled for {seen} s, by the kernel {grown} s"
    periods = after["nr_throttled"] - int(before["nr_throttled"])
    (seen_periods,) = metric(text, "gcwatch_container_cpu_throttled_periods_total")
    near = abs(seen_periods - periods) <= 0.1 * periods + 1
    assert near, f"{seen_periods} throttled periods, by the kernel {periods}"
    fired = lambda rule: sum(metric(text, "gcwatch_anomalies_total", gcwatch_rule_id=rule))
    assert fired("machines.throttled") > 0, "gc.throttled_ns is positive in no collection"
    same(fired("machines.throttled-too-long"), 0, "collections that were throttled longer than they paused")
    incidents = json.loads(machine.answer("incidents"))["incidents"]
    causes = {cause["rule"] for incident in incidents for cause in incident["causes"]}
    assert "cpu.throttled" in causes, f"causes of the incidents: {causes}"
    received(machine)
    ended(machine)


def many_cpus(row, machine):
    found(row, machine)
    recorded(row, machine)
    pictured(machine, "Workload.Fixed", "Workload.<Main>")
    # 96 CPUs of one emulator thread are slow, so the last metrics can exceed the 12 s that an export has at the end.
    served(row, machine, last="stopped; ")
    heaps = {gc["heap_count"] for gc in of_kind(machine.answer("recording"), "gc")}
    same(heaps, {row.cpus}, "heaps")


def in_user_namespace(row, machine):
    whole(row, machine)
    (diagnosis,) = of_kind(machine.answer("doctor"), "diagnosis")
    same(diagnosis["uid"], 100_000, "user of the process")
    assert diagnosis["ns_pid"] != diagnosis["pid"], "the process has another pid in its namespace"


def in_container(row, machine):
    whole(row, machine)
    (diagnosis,) = of_kind(machine.answer("doctor"), "diagnosis")
    same(diagnosis["uid"], 1654, "user of the process")
    assert "Read-only file system" in machine.answer("readonly"), "the root is read-only"


def verdicts(text):
    """Returns the verdict and remedy of each process, in the order of their pids."""
    diagnoses = sorted(of_kind(text, "diagnosis"), key=lambda record: record["pid"])
    return [(record["verdict"], record["remedy"] or "") for record in diagnoses]


def apparmor(row, machine):
    """Checks the default AppArmor profile of containers, on the process and on gcwatch."""
    whole(row, machine)
    profile = "cri-containerd.apparmor.d"
    closed, free = machine.answer("labels").splitlines()
    same((closed, free), (f"{profile} (enforce)", "unconfined"), "labels of the processes")
    without = [verdict for verdict, _ in verdicts(machine.answer("unconfined"))]
    same(without, ["attachable"] * 2, "gcwatch without a profile")
    (closed, _), (free, remedy) = verdicts(machine.answer(profile))
    same(closed, "attachable", "gcwatch under the profile, of a process under it")
    same(free, "permission", "gcwatch under the profile, of a process without one")
    assert "AppArmor" in remedy, remedy
    denied = machine.answer("denied")
    assert 'operation="ptrace"' in denied and 'requested_mask="read"' in denied, f"the kernel denied: {denied}"


def selinux(row, machine):
    """Checks a process with the type of containers while Debian's policy is enforced."""
    label, enforcing = machine.answer("labels").replace("\0", "\n").split()
    same(label, "system_u:system_r:container_t:s0:c1,c2", "label of the process")
    same(enforcing, "1", "whether the policy is enforced")
    ((spc, _),) = verdicts(machine.answer("spc"))
    same(spc, "attachable", "gcwatch as spc_t")
    ((other, remedy),) = verdicts(machine.answer("other"))
    same(other, "permission", "gcwatch as container_t with other categories")
    assert "SELinux" in remedy, remedy
    denied = machine.answer("denied")
    search = r"denied +{ search } .*s0:c3,c4 .*s0:c1,c2 tclass=dir permissive=0"
    assert re.search(search, denied), f"the kernel denied: {denied}"
    ((sidecar, _),) = verdicts(machine.answer("same"))
    same(sidecar, "attachable", "gcwatch as container_t with the categories of the process")
    whole(row, machine)


def native(row, machine):
    """Checks a NativeAOT program, which does not count its collections."""
    found(row, machine)
    complete(machine.answer("recording"), idle=False)
    text = machine.answer("metrics")
    limits(row, machine, text)
    assert sum(metric(text, "gcwatch_gc_collections_total")) > 0, "the daemon has read a collection"
    received(machine)
    ended(machine)
