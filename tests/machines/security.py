"""Policies of security modules from Debian's packages: containerd's AppArmor profile, and the SELinux policy."""

import os
import re
import shutil
import subprocess

import packages
from packages import Missing, fetch, only_file

# Packages that `semodule` needs in a separate root.
TOOLS = ("libc-amd64", "libsemanage", "libsemanage-common", "libsepol", "libselinux", "libaudit", "libcap-ng")
TOOLS += ("libbz2", "libpcre2", "policycoreutils", "selinux-utils", "selinux-policy")
# Newer kernels read older policies; 6.12 reads at most this version.
VERSION = 33


def apparmor():
    """Returns the files for a machine that loads the profile."""
    tools = fetch("apparmor")
    found = [("bin/apparmor_parser", only_file(tools, "apparmor_parser"))]
    for part in ("abi", "abstractions", "tunables"):
        folder = tools / "etc/apparmor.d" / part
        files = [path for path in folder.rglob("*") if path.is_file()]
        found += [(f"etc/apparmor.d/{part}/{path.relative_to(folder)}", path) for path in files]
    return found + [("etc/apparmor.d/containers", profile().encode())]


def profile():
    """Returns the profile of containers: the template in containerd's program, filled in like containerd does."""
    program = only_file(fetch("containerd"), "containerd").read_bytes()
    template = re.search(rb"profile \{\{\.Name\}\} flags=.*?\n\}\n", program, re.S)
    if not template:
        raise Missing("containerd's program has no template of a profile")
    text = template[0].decode()
    text = re.sub(r"\{\{if \.RootlessKit\}\}.*?\{\{end\}\}", "", text, flags=re.S)
    imports = r"\{\{range \$value := \.InnerImports\}\}.*?\{\{end\}\}"
    text = re.sub(imports, "#include <abstractions/base>", text, flags=re.S)
    text = text.replace("{{.DaemonProfile}}", "unconfined").replace("{{.Name}}", "cri-containerd.apparmor.d")
    if "{{" in text:
        raise Missing(f"containerd's template has an unknown part: {text[text.index('{{'):][:60]}")
    return "#include <tunables/global>\n" + text


def selinux_policy():
    """Returns Debian's policy with all its modules. The first call compiles the policy, which takes a minute."""
    digests = "".join(packages.pins()[name][-1] for name in TOOLS)
    made = packages.cache() / f"policy-{packages.hashlib.sha256(digests.encode()).hexdigest()[:16]}"
    if made.exists():
        return made
    if os.geteuid():
        raise Missing("root is needed to compile the SELinux policy: semodule runs in a chroot")
    root = packages.cache() / ".selinux"
    shutil.rmtree(root, ignore_errors=True)
    for name in TOOLS:
        shutil.copytree(fetch(name), root, symlinks=True, dirs_exist_ok=True)
    for name in ("lib", "lib64", "bin", "sbin"):
        if not (root / name).exists():
            (root / name).symlink_to(f"usr/{name}")
    (root / "tmp").mkdir(exist_ok=True)
    (root / "etc/selinux/config").write_text("SELINUX=permissive\nSELINUXTYPE=default\n")
    with open(root / "etc/selinux/semanage.conf", "a") as file:
        file.write(f"\npolicy-version = {VERSION}\n")
    modules = sorted((root / "usr/share/selinux/default").glob("*.pp.bz2"))
    command = ["chroot", root, "/usr/sbin/semodule", "-n", "-s", "default", "-X", "100"]
    for module in modules:
        command += ["-i", "/" + str(module.relative_to(root))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    if done.returncode:
        raise Missing(f"semodule cannot compile the policy: {done.stderr.strip().splitlines()[-1:]}")
    shutil.copy(only_file(root / "etc/selinux/default/policy", "policy.*"), made.with_suffix(".part"))
    made.with_suffix(".part").rename(made)
    shutil.rmtree(root)
    return made
