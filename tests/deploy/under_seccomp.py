"""Runs a program under a seccomp profile of the OCI runtime specification with libseccomp, like a container runtime.

  python3 under_seccomp.py PROFILE PROGRAM [ARGUMENT...]

Rules for other processors are ignored. no_new_privs is set. GCWATCH_SECCOMP_REFUSED=FILE: a separate process answers the calls
that no rule allows, in place of the kernel and with the same error, and appends a line `CALL PID COMMAND` for each to FILE."""

import contextlib
import ctypes
import errno
import fcntl
import json
import os
import select
import signal
import socket
import struct
import sys

ACTIONS = {"SCMP_ACT_ALLOW": lambda rule: 0x7FFF0000, "SCMP_ACT_ERRNO": lambda rule: 0x00050000 | rule.get("errnoRet", errno.EPERM)}
NOTIFY = 0x7FC00000
# The requests SECCOMP_IOCTL_NOTIF_RECV and SECCOMP_IOCTL_NOTIF_SEND.
RECEIVE, SEND = 0xC0502100, 0xC0182101
COMPARISONS = {"SCMP_CMP_EQ": 4, "SCMP_CMP_MASKED_EQ": 7}


class Comparison(ctypes.Structure):
    _fields_ = [("index", ctypes.c_uint), ("op", ctypes.c_int), ("value", ctypes.c_uint64), ("value_two", ctypes.c_uint64)]


def load(profile, notify=False):
    """Installs the profile for this thread and for every program that it starts. Returns the descriptor from which the calls
    can be read that no rule allows, or None if the kernel refuses them."""
    library = ctypes.CDLL("libseccomp.so.2", use_errno=True)
    library.seccomp_init.restype = ctypes.c_void_p
    library.seccomp_init.argtypes = [ctypes.c_uint32]
    library.seccomp_syscall_resolve_name.argtypes = [ctypes.c_char_p]
    library.seccomp_rule_add_array.argtypes = [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_int, ctypes.c_uint, ctypes.POINTER(Comparison)]
    library.seccomp_load.argtypes = [ctypes.c_void_p]
    library.seccomp_notify_fd.argtypes = [ctypes.c_void_p]
    default = ACTIONS[profile["defaultAction"]]({"errnoRet": profile["defaultErrnoRet"]})
    context = library.seccomp_init(NOTIFY if notify else default)
    for rule in profile["syscalls"]:
        arguments = [Comparison(each["index"], COMPARISONS[each["op"]], each["value"], each.get("valueTwo", 0)) for each in rule.get("args", [])]
        for name in rule["names"]:
            number = library.seccomp_syscall_resolve_name(name.encode())
            # -1 means unknown to this libseccomp. Other negative numbers are system calls that this processor does not
            # have.
            if number < 0:
                continue
            failed = library.seccomp_rule_add_array(context, ACTIONS[rule["action"]](rule), number, len(arguments), (Comparison * len(arguments))(*arguments))
            assert failed == 0, f"{name}: {failed}"
    failed = library.seccomp_load(context)
    assert failed == 0, f"seccomp_load: {failed}"
    return library.seccomp_notify_fd(context) if notify else None


def answer(descriptor, error, path):
    """Refuses the calls of a descriptor of `load`, and appends them to a file, until no process is under the filter."""
    library = ctypes.CDLL("libseccomp.so.2")
    library.seccomp_syscall_resolve_num_arch.restype = ctypes.c_char_p
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    while not poll.poll()[0][1] & select.POLLHUP:
        # struct seccomp_notif: id, pid, flags, and struct seccomp_data: number of the call, processor, and more.
        request = bytearray(80)
        # The caller can exit before its call is read.
        with contextlib.suppress(OSError):
            fcntl.ioctl(descriptor, RECEIVE, request)
            ident, pid, _, call, processor = struct.unpack_from("QIIiI", request)
            name = library.seccomp_syscall_resolve_num_arch(ctypes.c_uint32(processor), call) or str(call).encode()
            command = "?"
            with contextlib.suppress(OSError), open(f"/proc/{pid}/comm") as file:
                command = file.read().strip()
            with open(path, "a") as file:
                file.write(f"{name.decode()} {pid} {command}\n")
            # struct seccomp_notif_resp: id, result, error, flags.
            fcntl.ioctl(descriptor, SEND, struct.pack("QqiI", ident, 0, -error, 0))


def answered_elsewhere(profile, path):
    """Installs the profile, and starts the process that answers the calls that no rule allows. The caller keeps its pid and
    gets no child."""
    own, other = socket.socketpair()
    if child := os.fork():
        own.close()
        os.waitpid(child, 0)
        descriptor = load(profile, notify=True)
        socket.send_fds(other, [b"x"], [descriptor])
        os.close(descriptor)
        other.recv(1)
        other.close()
        return
    if os.fork():
        os._exit(0)
    # The process must not hold the descriptors of the caller open, nor receive its signals.
    os.setsid()
    other.close()
    _, descriptors, _, _ = socket.recv_fds(own, 1, 1)
    null = os.open(os.devnull, os.O_RDWR)
    for each in range(3):
        os.dup2(null, each)
    kept = {0, 1, 2, descriptors[0], own.fileno()}
    for each in [int(name) for name in os.listdir("/proc/self/fd")]:
        if each not in kept:
            with contextlib.suppress(OSError):
                os.close(each)
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, signal.SIG_IGN)
    os.chdir("/")
    own.send(b"x")
    own.close()
    answer(descriptors[0], profile["defaultErrnoRet"], path)
    os._exit(0)


if __name__ == "__main__":
    with open(sys.argv[1]) as file:
        profile = json.load(file)
    refused = os.environ.pop("GCWATCH_SECCOMP_REFUSED", None)
    if refused:
        answered_elsewhere(profile, os.path.abspath(refused))
    else:
        load(profile)
    os.execv(sys.argv[2], sys.argv[2:])
