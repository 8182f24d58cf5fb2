"""One machine: QEMU with an emulated processor, and the output on its console."""

import base64
import gzip
import os
import selectors
import shutil
import subprocess
import threading
import time
import zlib

from packages import Missing

COMMANDS = {
    "amd64": ["qemu-system-x86_64", "-machine", "q35", "-cpu", "max"],
    # With `max`, processes of .NET 9 and 11 crashed with access violations, probably because of the emulator.
    "arm64": ["qemu-system-aarch64", "-machine", "virt", "-cpu", "cortex-a76"],
}
# Processes of machines that run now.
RUNNING = set()
# Is set when no further machine may start.
STOPPING = threading.Event()
CONSOLES = {"amd64": "ttyS0", "arm64": "ttyAMA0"}


class Interrupted(Exception):
    """Error raised if the run is stopped before the machine has ended."""


class Machine:
    """The results of a machine: its answers, and the reason if it stopped early."""

    def __init__(self):
        self.answers = {}
        self.failure = None
        # Lines of the console for readers.
        self.lines = []

    def answer(self, name):
        """Returns the text of an answer. Raises AssertionError if it is missing or failed."""
        code, text = self.answers.get(name, (None, ""))
        if code is None:
            raise AssertionError(f"the machine does not answer `{name}`")
        if code:
            raise AssertionError(f"`{name}` exited with {code}: {text.strip()[-300:]}")
        return text


def boot(row, kernel, initramfs, console, limit):
    """Runs a machine to its end, for at most `limit` seconds, and writes its console to a file. Raises Missing, or
    Interrupted."""
    command = list(COMMANDS[row.architecture])
    if not shutil.which(command[0]):
        raise Missing(f"{command[0]} is not on PATH: install qemu-system-x86 and qemu-system-arm")
    # On a busy host, an emulated timer is late, and a kernel would consider it broken.
    timer = "no_timer_check " if row.architecture == "amd64" else ""
    append = f"console={CONSOLES[row.architecture]} quiet panic=-1 {timer}{row.boot}".strip()
    # With a thread per CPU, many CPUs wait for each other's locks, and the kernel does not boot.
    threads = "multi" if row.cpus <= os.cpu_count() else "single"
    command += ["-accel", f"tcg,thread={threads}", "-smp", str(row.cpus), "-m", str(row.memory)]
    command += ["-nographic", "-no-reboot", "-nic", "none"]
    command += ["-kernel", str(kernel), "-initrd", str(initramfs), "-append", append]
    machine = Machine()
    until = time.monotonic() + limit
    with open(console, "wb") as log:
        if STOPPING.is_set():
            raise Interrupted
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        RUNNING.add(process)
        try:
            # A signal in the meantime did not find this process.
            if not STOPPING.is_set():
                read(process, until, log, machine)
        finally:
            process.kill()
            process.wait()
            RUNNING.discard(process)
    if STOPPING.is_set():
        raise Interrupted
    if machine.failure is None and "all" not in machine.answers:
        over = time.monotonic() >= until
        late = f"the machine did not end within {limit} s"
        machine.failure = late if over else "the machine ended before its row was complete"
    return machine


def read(process, until, log, machine):
    rest, name, code, encoded = b"", None, 0, []
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while (left := until - time.monotonic()) > 0:
            if not selector.select(left):
                break
            chunk = os.read(process.stdout.fileno(), 1 << 16)
            if not chunk:
                break
            log.write(chunk)
            log.flush()
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                text = line.decode(errors="replace").strip("\r")
                if text.startswith("@@ "):
                    _, name, code = text.split()
                    encoded = []
                elif text == "@@" and name:
                    machine.answers[name] = (int(code), decode(encoded))
                    name = None
                elif name:
                    encoded.append(text)
                elif text.startswith("!! "):
                    machine.failure = text[3:]
                elif text.strip():
                    machine.lines.append(text)


def decode(encoded):
    try:
        return gzip.decompress(base64.b64decode("".join(encoded))).decode(errors="replace") if encoded else ""
    except (ValueError, EOFError, OSError, zlib.error) as error:
        return f"the answer is garbled: {error}"
