"""The rows: each has a machine, the placement of its processes, and the checks of its answers."""

import dataclasses
import pathlib

import checks
import security
import packages
from image import HERE, runtime
from packages import Missing, fetch, only_file

GROUPS = """
for folder in /sys/fs/cgroup /sys/fs/cgroup/system.slice; do
    mkdir -p $folder
    echo "+memory +cpu +pids" >$folder/cgroup.subtree_control
done
"""


@dataclasses.dataclass
class Row:
    name: str
    kernel: str
    architecture: str = "amd64"
    runtime: str = "net10.0.0"
    library: str = "glibc"
    pages: str = "4 KiB"
    # Purpose of the row, for the table of docs/compatibility.md.
    what: str = ""
    cpus: int = 2
    memory: int = 2048
    boot: str = ""
    # Shell commands before the steps, and functions that replace functions of init.
    script: str = ""
    # Path of the runtime in the image.
    place: str = ""
    modules: tuple = ()
    check: callable = checks.whole
    extra: callable = lambda row: []
    # Limits of the control group, in MiB and CPUs.
    memory_limit: int = 300
    memory_high: int = 280
    cpu_limit: float = 1.5
    # Timeout for the whole row, in seconds.
    limit: int = 900
    # Whether the row needs parts without a public package: a pack of a runtime, or a kernel that is built here.
    optional: bool = False
    # Whether the image lacks its runtime. The row passes if the missing runtime makes the machine fail.
    broken: bool = False

    def __post_init__(self):
        limits = [f"echo {self.memory_limit}M >$1/memory.max", f"echo {self.memory_high}M >$1/memory.high"]
        if self.cpu_limit:
            limits.append(f'echo "{self.cpu_limit * 100_000:.0f} 100000" >$1/cpu.max')
        self.script = GROUPS + "limit() {\n" + "\n".join(limits) + "\n}\n" + self.script

    def files(self):
        return self.extra(self)


def musl(row):
    """Returns the files of a root with musl: the loader, and the libraries of a wheel."""
    return [("musl/lib", runtime("musl-" + {"amd64": "x64", "arm64": "arm64"}[row.architecture]))]


CHROOT = """
mkdir -p /musl/proc /musl/dev /musl/tmp /musl/w
place() {
    for folder in proc dev tmp w; do mount --bind /$folder /musl/$folder; done
    exec chroot /musl "$@"
}
"""

# Runs the process like a pod with `hostUsers: false`: the users of its namespace are mapped to 65,536 other users of
# the host.
USERS = """
place() {
    unshare -U -m -p -f sleep 3600 &
    while [ "$(readlink /proc/$!/ns/user)" = "$(readlink /proc/self/ns/user)" ]; do usleep 50000; done
    echo "0 100000 65536" >/proc/$!/uid_map
    echo "0 100000 65536" >/proc/$!/gid_map
    until first=$(cat /proc/$!/task/$!/children) && [ -n "$first" ]; do usleep 50000; done
    exec nsenter -t ${first% } -U -m -p -S 0 -G 0 sh -c '
        mount -t proc proc /proc
        mount -t tmpfs -o mode=1777 tmp /tmp
        exec "$@"' sh "$@"
}
"""

# Runs the process like a pod with `readOnlyRootFilesystem`, `runAsUser` and an emptyDir at /tmp.
CONTAINER = """
place() {
    exec unshare -m -p -f sh -c '
        mkdir -p /run/root
        mount --bind / /run/root
        mount --bind /dev /run/root/dev
        mount -t proc proc /run/root/proc
        mount -t tmpfs -o mode=1777 tmp /run/root/tmp
        mount -o remount,bind,ro /run/root
        exec chroot /run/root nsenter -t 1 -S 1654 -G 1654 "$@"' sh "$@"
}
steps() {
    whole
    answer readonly sh -c "touch /proc/$(cat /run/pid.recorded)/root/file 2>&1; true"
}
"""

SWAP = """
prepare() {
    for module in /modules/*; do insmod $module; done
    echo 512M >/sys/block/zram0/disksize
    mkswap /dev/zram0 >/dev/null
    swapon /dev/zram0
}
steps() {
    described
    start leak leak WWAIT=1 DOTNET_GCHeapHardLimit=0x10000000
    answer ps gcwatch ps --format ndjson
    answer doctor gcwatch doctor --pid "$pid" --format json
    daemon
    await 60 /run/daemon.err "attached.*pid=$pid" "$daemon"
    echo go >/run/leak.in
    i=0
    until [ "$(cat $group/memory.swap.current)" -gt 20000000 ]; do
        i=$((i + 1))
        [ $i -le 500 ] || stop_with "nothing is swapped out: $(cat $group/memory.current $group/memory.events)"
        usleep 200000
    done
    wait_for_exports
    answer process wget -q -O - http://127.0.0.1:9464/api/v1/processes/$pid
    ended leak
}
"""

# The group is throttled only between the first and the last reading of the daemon, so that the daemon and the kernel
# count the same time: the limit is low only while the process works, and then the group is frozen until the daemon,
# which reads every 15 s, has read it again. The checks fail if it has not within 60 s.
THROTTLED = """
group_periods() { sed -n 's/^nr_throttled //p' $group/cpu.stat; }
throttled_periods() {
    wget -q -O - http://127.0.0.1:9464/metrics |
        sed -n 's/^gcwatch_container_cpu_throttled_periods_total{.*} \\([0-9]*\\).*/\\1/p' | grep . || echo 0
}
steps() {
    described
    start busy threads WWAIT=1
    echo "400000 100000" >$group/cpu.max
    answer ps gcwatch ps --format ndjson
    answer doctor gcwatch doctor --pid "$pid" --format json
    printf 'rules:\n  files: [/etc/rules]\n' >>/etc/gcwatch.yaml
    daemon
    await 60 /run/daemon.err "attached.*pid=$pid" "$daemon"
    wait_for_exports
    answer before cat $group/cpu.stat
    before=$(group_periods)
    limit $group
    echo go >/run/busy.in
    i=0
    until wget -q -O - http://127.0.0.1:9464/api/v1/incidents | grep -q '"rule":"cpu.throttled"'; do
        i=$((i + 1))
        [ $i -le 150 ] || break
        sleep 1
    done
    echo 1 >$group/cgroup.freeze
    frozen=$group
    i=0
    until [ "$(throttled_periods)" -ge "$(($(group_periods) - before))" ] || [ $i -ge 60 ]; do
        i=$((i + 1))
        sleep 1
    done
    ended busy
}
"""


# Without these, the work of the kernel for each CPU takes longer than the time between two ticks of the emulated timers.
MANY_BOOT = "nowatchdog lpj=4000000 tsc=reliable mitigations=off lsm= init_on_alloc=0 audit=0"
MANY = """
export DOTNET_gcServer=1 DOTNET_GCDynamicAdaptationMode=0 DOTNET_GCgen0size=0x100000
rounds=400
# A process with as many heaps that collects all the time does not answer in an emulator.
steps() {
    described
    start fixed fixed WROUNDS="$rounds"
    answer ps gcwatch ps --format ndjson
    answer doctor gcwatch doctor --pid "$pid" --format json
    recorded fixed
    pictured
    kill -KILL "$pid"
    served
}
"""

# A NativeAOT program does not count its collections, and supports neither stacks nor heap dumps.
NATIVE = """
program=/runtime/work-aot
steps() {
    described
    start steady steady
    answer ps gcwatch ps --format ndjson
    answer doctor gcwatch doctor --pid "$pid" --format json
    gcwatch record --pid "$pid" -o /tmp/a.nettrace --duration 10s 2>/run/record.err || stop_with "cannot record the process"
    answer recording gcwatch analyze --no-rules --format ndjson /tmp/a.nettrace
    daemon
    await 60 /run/daemon.err "attached.*pid=$pid" "$daemon"
    wait_for_exports
    ended steady
}
"""

# Loads the profile that containerd loads for containers; the profile comes from containerd's program.
APPARMOR = """
profile=cri-containerd.apparmor.d
prepare() {
    mount -t securityfs securityfs /sys/kernel/security
    apparmor_parser --replace --skip-cache --base /etc/apparmor.d /etc/apparmor.d/containers ||
        stop_with "cannot load the profile"
}
place() {
    [ -z "$confined" ] || echo "exec $profile" >/proc/self/attr/apparmor/exec
    exec "$@"
}
steps() {
    confined=1
    whole
    start open idle
    closed=$pid
    confined=
    start free idle
    answer labels cat /proc/$closed/attr/apparmor/current /proc/$pid/attr/apparmor/current
    for under in unconfined $profile; do
        # Like a pod: gcwatch has another /tmp, so it finds sockets only in /proc/PID/root.
        answer $under unshare -m sh -c "mount -t tmpfs tmp /tmp
            ([ $under = unconfined ] || echo exec $under >/proc/self/attr/apparmor/exec
            exec gcwatch doctor --pid $closed --pid $pid --format json) || true"
    done
    answer denied sh -c 'dmesg | grep -o "apparmor=.DENIED.*" | tail -n 20'
}
"""

# Enforces Debian's policy. Programs are started before the policy is enforced, because the policy has no domain of a
# container engine for transitions.
SELINUX = """
as() { # TYPE LEVEL
    printf "system_u:system_r:$1:$2" >/proc/self/attr/current || stop_with "no context $1:$2"
}
enforce() {
    echo $1 >/sys/fs/selinux/enforce || stop_with "cannot set enforce to $1"
}
prepare() {
    mount -t selinuxfs selinuxfs /sys/fs/selinux
    dd if=/etc/policy of=/sys/fs/selinux/load bs=16M count=1 2>/run/policy.err ||
        stop_with "cannot load the policy"
    # Containers may use the files of a container engine, which are in /run here.
    mount -t tmpfs -o "context=system_u:object_r:container_file_t:s0" run /run
    for one in one two; do
        mkdir -p /$one
        # Quoted, because categories contain a comma.
        mount -t tmpfs -o "context=\\"system_u:object_r:container_file_t:s0:$(level $one)\\"" root /$one ||
            stop_with "cannot mount a file system of containers"
        mkdir -p /$one/tmp /$one/proc /$one/dev /$one/bin /$one/run /$one/sys
        chmod 1777 /$one/tmp
        cp -a /lib /$one/
        [ ! -d /lib64 ] || cp -a /lib64 /$one/
        cp /bin/gcwatch /bin/busybox /$one/bin/
        mount -t proc proc /$one/proc
        # Nodes of a container have its type.
        for node in null:3 zero:5 random:8 urandom:9; do mknod -m 666 /$one/dev/${node%:*} c 1 ${node#*:}; done
    done
    cp -a /runtime /w /one/
}
level() { case $1 in one) echo c1,c2 ;; two) echo c3,c4 ;; esac; }
place() {
    as container_t s0:c1,c2
    # Opened by this type, because the policy refuses descriptors of the first process.
    exec chroot /one "$@" <>/run/$name.in >/run/$name.out 2>/run/$name.err
}
before_start() { enforce 0; }
after_start() { enforce 1; }
# Runs gcwatch under a context in a root. It enters the context before the policy is enforced and works afterwards, because
# the check is about its rights, not about the programs that may start it.
under() { # NAME TYPE LEVEL ROOT
    name=$1 type=$2 level=$3 root=$4
    rm -f $root/go $root/ready
    enforce 0
    (
        as $type $level
        exec chroot $root /bin/busybox sh -c ">/ready; until [ -e /go ]; do usleep 50000; done
            exec /bin/gcwatch doctor --pid $pid --format json" >$root/$name.out 2>$root/$name.err
    ) &
    until [ -e $root/ready ]; do lives $! || stop_with "$name cannot start"; usleep 50000; done
    enforce 1
    touch $root/go
    i=0
    while lives $! && [ $i -le 300 ]; do i=$((i + 1)); usleep 200000; done
    answer $name cat $root/$name.out $root/$name.err
}
steps() {
    described
    start fixed fixed WROUNDS=$rounds
    answer labels sh -c "cat /proc/$pid/attr/current; cat /sys/fs/selinux/enforce"
    under spc spc_t s0 /
    under other container_t s0:c3,c4 /two
    under same container_t s0:c1,c2 /one
    answer denied sh -c 'dmesg | grep -o "avc: *denied.*" | tail -n 40'
    enforce 0
    (
        as spc_t s0
        enforce 1
        answer ps gcwatch ps --format ndjson
        answer doctor gcwatch doctor --pid $pid --format json
        recorded fixed
        start induced induced
        asked
        kill -KILL $pid
        served
    )
}
"""

# A runtime of a pack starts programs with its own host, `run`.
RUN = """
program="/runtime/run /w/workload.dll"
"""


def throttled_rules(row):
    return [("etc/rules/throttled.yaml", HERE / "throttled.yaml")]


def apparmor(row):
    return security.apparmor()


def selinux(row):
    return [("etc/policy", security.selinux_policy())]


MUSL_ARM64 = {"runtime": "net10.0.0-musl-arm64", "library": "musl", "script": CHROOT, "place": "musl/", "extra": musl}
AOT = {"script": NATIVE, "check": checks.native, "optional": True, "what": "NativeAOT"}


def x64(name, kernel="linux-6.12", **rest):
    return Row(name, kernel, **rest)


def arm64(name, kernel="linux-6.12-arm64", **rest):
    return Row(name, kernel, "arm64", **({"runtime": "net10.0.0-arm64", "memory": 3072} | rest))


ROWS = [
    x64("without-runtime", broken=True),
    x64("linux-5.10", "linux-5.10"),
    x64("linux-6.1", "linux-6.1"),
    x64("linux-6.12"),
    x64("linux-newest", "linux-newest"),
    x64("swap", what="over `memory.high`, swapped out", script=SWAP, modules=("zram",), check=checks.swapped,
        memory_limit=160, memory_high=100),
    x64("throttled", what="throttled by `cpu.max`", script=THROTTLED, check=checks.throttled, cpu_limit=0.25,
        extra=throttled_rules),
    x64("user-namespace", what="user namespace with mapped ids", script=USERS, check=checks.in_user_namespace),
    x64("container", what="read-only root, private `/tmp`, own pids, user 1654", script=CONTAINER,
        check=checks.in_container),
    x64("many-cpus", what="96 CPUs, server GC with 96 heaps", cpus=96, memory=6144, script=MANY, boot=MANY_BOOT,
        check=checks.many_cpus, cpu_limit=None, memory_limit=3000, memory_high=2800, limit=1200),
    x64("apparmor", what="AppArmor, containerd's profile", boot="security=apparmor", script=APPARMOR,
        check=checks.apparmor, extra=apparmor),
    x64("selinux", what="SELinux enforcing, `container_t`", boot="security=selinux selinux=1 enforcing=0",
        script=SELINUX, check=checks.selinux, extra=selinux, memory=3072),
    arm64("arm64"),
    arm64("arm64-16k", "linux-6.12-arm64-16k", pages="16 KiB"),
    arm64("arm64-64k", "linux-64k", pages="64 KiB", optional=True),
    arm64("arm64-musl", **MUSL_ARM64),
    arm64("arm64-net11", runtime="arm64-11.0.0", script=RUN, optional=True),
    arm64("arm64-aot9", runtime="aot-arm64-9.0.23", **AOT),
    arm64("arm64-aot10", runtime="aot-arm64-10.0.15", **AOT),
]
