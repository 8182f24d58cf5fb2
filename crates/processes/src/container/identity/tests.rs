use proptest::prelude::*;

use super::*;

const ID: &str = "8f3a51c07d0b2f0b4a51f04a7e2a9d5c6be1d1d8d3b0a4f7c9e2f6a1b3c5d7e9";
const OTHER: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
const UID: &str = "2c48913c-b29f-11e7-9350-020968147796";
const TASK: &str = "44e61a4cd06a4f0ab3a3d6c0a9e3a0b7";

/// What `/proc/PID/cgroup` holds, by who made the group: name, text, container's id, pod's uid. `ID`, `OTHER`, `UID`,
/// `U_I_D` and `TASK` stand for the ids.
const LINES: &[(&str, &str, Option<&str>, Option<&str>)] = &[
    (
        "a service of the host, version 2",
        "0::/system.slice/sshd.service\n",
        None,
        None,
    ),
    (
        "a session of a user",
        "0::/user.slice/user-1000.slice/session-3.scope\n",
        None,
        None,
    ),
    ("the reader's own container", "0::/\n", None, None),
    (
        "kubelet with systemd, containerd, version 2, burstable",
        "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podU_I_D.slice/cri-containerd-ID.scope\n",
        Some(ID),
        Some(UID),
    ),
    (
        "kubelet with systemd, containerd, version 2, guaranteed",
        "0::/kubepods.slice/kubepods-podU_I_D.slice/cri-containerd-ID.scope\n",
        Some(ID),
        Some(UID),
    ),
    (
        "kubelet with systemd, CRI-O, version 2",
        "0::/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-podU_I_D.slice/crio-ID.scope\n",
        Some(ID),
        Some(UID),
    ),
    (
        "CRI-O with crun, which makes a group of its own inside",
        "0::/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-podU_I_D.slice/crio-ID.scope/container\n",
        Some(ID),
        Some(UID),
    ),
    (
        "the process with which CRI-O watches a container",
        "0::/kubepods.slice/kubepods-podU_I_D.slice/crio-conmon-ID.scope\n",
        None,
        Some(UID),
    ),
    (
        "kubelet with cgroupfs, containerd, version 2",
        "0::/kubepods/burstable/podUID/ID\n",
        Some(ID),
        Some(UID),
    ),
    (
        "kubelet with cgroupfs, containerd, version 1 and both",
        "12:cpuset:/kubepods/podUID/ID\n9:memory:/kubepods/podUID/ID\n4:cpu,cpuacct:/kubepods/podUID/ID\n\
         1:name=systemd:/kubepods/podUID/ID\n0::/system.slice/containerd.service\n",
        Some(ID),
        Some(UID),
    ),
    (
        "kubelet with systemd, Docker, version 1",
        "11:memory:/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podU_I_D.slice/docker-ID.scope\n\
         1:name=systemd:/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podU_I_D.slice/docker-ID.scope\n",
        Some(ID),
        Some(UID),
    ),
    (
        "kubelet with systemd, containerd without",
        "0::/system.slice/containerd.service/kubepods-burstable-podU_I_D.slice:cri-containerd:ID\n",
        Some(ID),
        Some(UID),
    ),
    (
        "a static pod, whose uid is a hash",
        "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podTASK.slice/cri-containerd-ID.scope\n",
        Some(ID),
        Some(TASK),
    ),
    (
        "another pod, seen from a container with a group namespace of its own",
        "0::/../../kubepods-besteffort-podU_I_D.slice/cri-containerd-ID.scope\n",
        Some(ID),
        Some(UID),
    ),
    (
        "another container of the reader's pod",
        "0::/../cri-containerd-ID.scope\n",
        Some(ID),
        None,
    ),
    (
        "the same with cgroupfs",
        "0::/../../../besteffort/podUID/ID/nested\n",
        Some(ID),
        Some(UID),
    ),
    (
        "a node in a container (kind), seen from the node",
        "0::/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-podU_I_D.slice/cri-containerd-ID.scope\n",
        Some(ID),
        Some(UID),
    ),
    (
        "a node in a container, seen from the host",
        "0::/system.slice/docker-ID.scope/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-podU_I_D.slice/cri-containerd-OTHER.scope\n",
        Some(ID),
        None,
    ),
    (
        "Docker with systemd",
        "0::/system.slice/docker-ID.scope\n",
        Some(ID),
        None,
    ),
    (
        "an init in Docker",
        "0::/system.slice/docker-ID.scope/init.scope\n",
        Some(ID),
        None,
    ),
    (
        "Docker with cgroupfs, version 1",
        "3:memory:/docker/ID\n",
        Some(ID),
        None,
    ),
    ("Docker in Docker", "3:memory:/docker/ID/docker/OTHER\n", Some(ID), None),
    (
        "Docker with a parent group",
        "0::/limits.slice/docker-ID.scope\n",
        Some(ID),
        None,
    ),
    (
        "Docker without root",
        "0::/user.slice/user-1000.slice/user@1000.service/user.slice/docker-ID.scope\n",
        Some(ID),
        None,
    ),
    ("nerdctl", "0::/system.slice/nerdctl-ID.scope\n", Some(ID), None),
    ("ctr with a namespace", "0::/default/ID\n", Some(ID), None),
    (
        "Podman",
        "0::/machine.slice/libpod-ID.scope/container\n",
        Some(ID),
        None,
    ),
    (
        "Podman without root",
        "0::/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-ID.scope/container\n",
        Some(ID),
        None,
    ),
    (
        "a pod of Podman",
        "0::/machine.slice/machine-libpod_pod_OTHER.slice/libpod-ID.scope\n",
        Some(ID),
        None,
    ),
    (
        "a pod of Podman with cgroupfs",
        "0::/libpod_parent/OTHER/libpod-ID\n",
        Some(ID),
        None,
    ),
    (
        "the process with which Podman watches a container",
        "0::/machine.slice/libpod-conmon-ID.scope\n",
        None,
        None,
    ),
    (
        "ECS on EC2, version 1",
        "9:memory:/ecs/TASK/ID\n1:name=systemd:/ecs/TASK/ID\n",
        Some(ID),
        None,
    ),
    (
        "ECS on EC2, version 2",
        "0::/ecstasks.slice/ecstasks-TASK.slice/docker-ID.scope\n",
        Some(ID),
        None,
    ),
    (
        "ECS on Fargate",
        "9:memory:/ecs/TASK/TASK-2447317857\n",
        Some("44e61a4cd06a4f0ab3a3d6c0a9e3a0b7-2447317857"),
        None,
    ),
    (
        "a group that was removed",
        "0::/system.slice/docker-ID.scope (deleted)\n",
        Some(ID),
        None,
    ),
    (
        "a group in a container that is named as another pod's",
        "0::/kubepods/podUID/ID/kubepods/pod00000000-0000-0000-0000-000000000000/OTHER\n",
        Some(ID),
        Some(UID),
    ),
    (
        "an id of upper case, a short one",
        "0::/docker/ABCDEF\n3:memory:/docker/0123456789ab\n",
        None,
        None,
    ),
    ("no lines", "", None, None),
];

fn filled(text: &str) -> String {
    text.replace("U_I_D", &UID.replace('-', "_"))
        .replace("UID", UID)
        .replace("TASK", TASK)
        .replace("OTHER", "@")
        .replace("ID", ID)
        .replace('@', OTHER)
}

/// Scenario: the file as the kernel writes it under each runtime, driver and version, and groups named to deceive.
/// Guarantee: the container and the pod are those of the outermost container; a path without ids yields none.
#[test]
fn every_runtime_is_recognised() {
    for (name, text, container, pod) in LINES {
        let found = identity(&filled(text));
        assert_eq!(found.container_id.as_deref(), *container, "{name}");
        assert_eq!(found.pod_uid.as_deref(), *pod, "{name}");
    }
}

/// Scenario: groups inside of a container, and outside of any.
/// Guarantee: what was made inside is distinguished from the container's own group.
#[test]
fn the_containers_own_group_is_known() {
    assert_eq!(container_depth(&filled("/docker/ID/init.scope/x")), Some(2));
    assert_eq!(container_depth(&filled("/../../podUID/ID")), Some(4));
    assert_eq!(container_depth("/system.slice/sshd.service"), None);
}

/// Scenario: a pod, a container, a user's process, and a user who makes groups with names of containers, seen from the
/// host's namespace and from another one.
/// Guarantee: each is of whom it is, and no name that a user makes changes that.
#[test]
fn nobody_chooses_whose_it_is() {
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
    /// Scenario: any container of any pod, with any driver, with groups inside that are named by whoever is there.
    /// Guarantee: the ids come back as they were.
    #[test]
    fn ids_come_back(
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

    /// Scenario: any text.
    /// Guarantee: an answer without panic, and an id is one.
    #[test]
    fn any_text_is_answered(text in "([0-9a-z:/.=_-]|\n){0,200}") {
        let found = identity(&text);
        if let Some(id) = found.container_id {
            prop_assert!(id.len() == 64 || id.contains('-'), "{}", id);
        }
    }
}
