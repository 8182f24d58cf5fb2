"""Runs a program under a seccomp profile of the OCI runtime specification with libseccomp, like a container runtime.

  python3 under_seccomp.py PROFILE PROGRAM [ARGUMENT...]

Rules for other processors are ignored. no_new_privs is set."""

import ctypes
import errno
import json
import os
import sys

ACTIONS = {"SCMP_ACT_ALLOW": lambda rule: 0x7FFF0000, "SCMP_ACT_ERRNO": lambda rule: 0x00050000 | rule.get("errnoRet", errno.EPERM)}
COMPARISONS = {"SCMP_CMP_EQ": 4, "SCMP_CMP_MASKED_EQ": 7}


class Comparison(ctypes.Structure):
    _fields_ = [("index", ctypes.c_uint), ("op", ctypes.c_int), ("value", ctypes.c_uint64), ("value_two", ctypes.c_uint64)]


def load(profile):
    """Installs the profile for this thread and for every program that it starts."""
    library = ctypes.CDLL("libseccomp.so.2", use_errno=True)
    library.seccomp_init.restype = ctypes.c_void_p
    library.seccomp_init.argtypes = [ctypes.c_uint32]
    library.seccomp_syscall_resolve_name.argtypes = [ctypes.c_char_p]
    library.seccomp_rule_add_array.argtypes = [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_int, ctypes.c_uint, ctypes.POINTER(Comparison)]
    library.seccomp_load.argtypes = [ctypes.c_void_p]
    context = library.seccomp_init(ACTIONS[profile["defaultAction"]]({"errnoRet": profile["defaultErrnoRet"]}))
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


if __name__ == "__main__":
    with open(sys.argv[1]) as file:
        load(json.load(file))
    os.execv(sys.argv[2], sys.argv[2:])
