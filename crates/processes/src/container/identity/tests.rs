use proptest::prelude::*;

use super::*;

const ID: &str = "8f3a51c07d0b2f0b4a51f04a7e2a9d5c6be1d1d8d3b0a4f7c9e2f6a1b3c5d7e9";
const OTHER: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
const UID: &str = "2c48913c-b29f-11e7-9350-020968147796";
const TASK: &str = "44e61a4cd06a4f0ab3a3d6c0a9e3a0b7";

/// Contents of `/proc/PID/cgroup` by creator of the group, below the ids of the container and the pod (`-` for none).
/// `ID`, `OTHER`, `UID`, `U_I_D` and `TASK` stand for the ids.
const LINES: &str = "\
= - -
# a service of the host, version 2
0::/system.slice/sshd.service
# a session of a user
0::/user.slice/user-1000.slice/session-3.scope
# the reader's own container
0::/
# the process with which Podman watches a container
0::/machine.slice/libpod-conmon-ID.scope
# an id of upper case, a short one
0::/docker/ABCDEF
3:memory:/docker/0123456789ab
# no lines
= ID UID
# kubelet with systemd, containerd, version 2, burstable
0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podU_I_D.slice/cri-containerd-ID.scope
# kubelet with systemd, containerd, version 2, guaranteed
0::/kubepods.slice/kubepods-podU_I_D.slice/cri-containerd-ID.scope
# kubelet with systemd, CRI-O, version 2
0::/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-podU_I_D.slice/crio-ID.scope
# CRI-O with crun, which makes a group of its own inside
0::/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-podU_I_D.slice/crio-ID.scope/container
# kubelet with cgroupfs, containerd, version 2
0::/kubepods/burstable/podUID/ID
# kubelet with cgroupfs, containerd, version 1 and both
12:cpuset:/kubepods/podUID/ID
9:memory:/kubepods/podUID/ID
4:cpu,cpuacct:/kubepods/podUID/ID
1:name=systemd:/kubepods/podUID/ID
0::/system.slice/containerd.service
# kubelet with systemd, Docker, version 1
11:memory:/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podU_I_D.slice/docker-ID.scope
1:name=systemd:/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podU_I_D.slice/docker-ID.scope
# kubelet with systemd, containerd without
0::/system.slice/containerd.service/kubepods-burstable-podU_I_D.slice:cri-containerd:ID
# another pod, seen from a container with a group namespace of its own
0::/../../kubepods-besteffort-podU_I_D.slice/cri-containerd-ID.scope
# another pod with cgroupfs
0::/../../../besteffort/podUID/ID/nested
# a node in a container (kind), seen from the node
0::/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-podU_I_D.slice/cri-containerd-ID.scope
# a group in a container that is named as another pod's
0::/kubepods/podUID/ID/kubepods/pod00000000-0000-0000-0000-000000000000/OTHER
= - UID
# the process with which CRI-O watches a container
0::/kubepods.slice/kubepods-podU_I_D.slice/crio-conmon-ID.scope
= ID TASK
# a static pod, whose uid is a hash
0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podTASK.slice/cri-containerd-ID.scope
= ID -
# another container of the reader's pod
0::/../cri-containerd-ID.scope
# a node in a container, seen from the host
0::/system.slice/docker-ID.scope/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-podU_I_D.slice/cri-containerd-OTHER.scope
# Docker with systemd
0::/system.slice/docker-ID.scope
# an init in Docker
0::/system.slice/docker-ID.scope/init.scope
# Docker with cgroupfs, version 1
3:memory:/docker/ID
# Docker in Docker
3:memory:/docker/ID/docker/OTHER
# Docker with a parent group
0::/limits.slice/docker-ID.scope
# Docker without root
0::/user.slice/user-1000.slice/user@1000.service/user.slice/docker-ID.scope
# nerdctl
0::/system.slice/nerdctl-ID.scope
# ctr with a namespace
0::/default/ID
# Podman
0::/machine.slice/libpod-ID.scope/container
# Podman without root
0::/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-ID.scope/container
# a pod of Podman
0::/machine.slice/machine-libpod_pod_OTHER.slice/libpod-ID.scope
# a pod of Podman with cgroupfs
0::/libpod_parent/OTHER/libpod-ID
# ECS on EC2, version 1
9:memory:/ecs/TASK/ID
1:name=systemd:/ecs/TASK/ID
# ECS on EC2, version 2
0::/ecstasks.slice/ecstasks-TASK.slice/docker-ID.scope
# a group that was removed
0::/system.slice/docker-ID.scope (deleted)
= TASK-2447317857 -
# ECS on Fargate
9:memory:/ecs/TASK/TASK-2447317857
";

fn filled(text: &str) -> String {
    text.replace("U_I_D", &UID.replace('-', "_"))
        .replace("UID", UID)
        .replace("TASK", TASK)
        .replace("OTHER", "@")
        .replace("ID", ID)
        .replace('@', OTHER)
}

/// Scenario: the file is as the kernel writes it under each runtime, driver and version, including groups with
/// deceptive names.
/// Guarantee: the ids of the outermost container are returned, and a path without ids yields no ids.
#[test]
fn runtimes_are_recognized() {
    let known = |id: &str| (id != "-").then(|| filled(id));
    for group in LINES.split("= ").skip(1) {
        let (ids, cases) = group.split_once('\n').unwrap();
        let (container_id, pod_uid) = ids.split_once(' ').unwrap();
        for case in cases.split("# ").skip(1) {
            let (name, lines) = case.split_once('\n').unwrap();
            let expected = ContainerIdentity {
                container_id: known(container_id),
                pod_uid: known(pod_uid),
            };
            assert_eq!(identity(&filled(lines)), expected, "{name}");
        }
    }
}

/// Scenario: groups are inside a container or outside all containers.
/// Guarantee: groups created inside are distinguished from the container's own group.
#[test]
fn own_group_of_container_is_known() {
    assert_eq!(container_depth(&filled("/docker/ID/init.scope/x")), Some(2));
    assert_eq!(container_depth(&filled("/../../podUID/ID")), Some(4));
    assert_eq!(container_depth("/system.slice/sshd.service"), None);
}

/// Scenario: a pod, a container, a user's process, and a user who creates groups with names of containers are seen from
/// the host's namespace and from another namespace.
/// Guarantee: each process has its true owner, and a name that a user chooses does not change the owner.
#[test]
fn process_cannot_choose_its_owner() {
    let of = |groups: &str| tenant(groups, &identity(groups), Some(1000));
    let pod = format!("0::/kubepods/burstable/pod{UID}/{ID}/inside/user.slice/user-7.slice");
    assert_eq!(of(&pod), format!("pod {UID}"));
    assert_eq!(
        of(&format!("4:memory:/docker/{ID}\n1:name=systemd:/docker/{ID}\n")),
        format!("container {ID}")
    );
    assert_eq!(of("0::/system.slice/shop.service"), "user 1000");
    assert_eq!(tenant("", &ContainerIdentity::default(), None), "");
    for above in ["", "/../.."] {
        let rootless = format!("0::{above}/user.slice/user-7.slice/user@7.service/docker-{ID}.scope\n");
        assert_eq!(of(&rootless), "user 7");
    }
}

proptest! {
    /// Scenario: any container of any pod uses any driver and has groups inside with arbitrary names.
    /// Guarantee: the ids are read unchanged.
    #[test]
    fn ids_round_trip(
        id in "[0-9a-f]{64}",
        uid in "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
        runtime in "(cri-containerd|crio|docker|[a-z]{1,9})",
        above in "(/[.][.]){0,3}",
        inside in "(/(pod)?[0-9a-f.-]{1,70}){0,3}",
        systemd: bool,
    ) {
        prop_assume!(!runtime.ends_with("conmon"));
        let group = if systemd {
            format!("kubepods-burstable-pod{}.slice/{runtime}-{id}.scope", uid.replace('-', "_"))
        } else {
            format!("pod{uid}/{id}")
        };
        let found = identity(&format!("0::{above}/{group}{inside}\n"));
        prop_assert_eq!(found, ContainerIdentity { container_id: Some(id), pod_uid: Some(uid) });
    }

    /// Scenario: the text is arbitrary.
    /// Guarantee: there is no panic, and every returned id is valid.
    #[test]
    fn arbitrary_text_is_handled(text in "([0-9a-z:/.=_-]|\n){0,200}") {
        let found = identity(&text);
        if let Some(id) = found.container_id {
            prop_assert!(id.len() == 64 || id.contains('-'), "{}", id);
        }
    }
}
