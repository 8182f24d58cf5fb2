//! The resource of what is told: which run of which process, where.

use super::attributes;

attributes! {
    SERVICE_NAME "service.name" Text Stable
        "Name of the service."
        from "the process's OTEL_SERVICE_NAME, else its OTEL_RESOURCE_ATTRIBUTES, else Kubernetes metadata, else its entry assembly (ProcessInfo2), else its executable"
    SERVICE_NAMESPACE "service.namespace" Text Stable
        "Namespace of the service."
        from "the process's OTEL_RESOURCE_ATTRIBUTES, else the Kubernetes namespace"
    SERVICE_INSTANCE_ID "service.instance.id" Text Stable
        "Which instance of the service: unique per run of a process."
        from "the process's OTEL_RESOURCE_ATTRIBUTES, else a UUID (version 5) of machine, pid and start time"
    SERVICE_VERSION "service.version" Text Stable
        "Version of the service."
        from "the process's OTEL_RESOURCE_ATTRIBUTES"
    DEPLOYMENT_ENVIRONMENT_NAME "deployment.environment.name" Text Stable
        "Name of the deployment environment."
        from "the process's OTEL_RESOURCE_ATTRIBUTES"
    PROCESS_PID "process.pid" Int Development
        "Pid of the process in the host's pid namespace; in a recording, the pid that the stream names."
        from "/proc; recording: header of the stream"
    PROCESS_VPID "process.vpid" Int Development
        "Pid of the process in its own pid namespace."
        from "/proc/PID/status NSpid"
    PROCESS_EXECUTABLE_NAME "process.executable.name" Text Development
        "Name of the executable."
        from "/proc/PID/exe"
    PROCESS_EXECUTABLE_PATH "process.executable.path" Text Development
        "Path of the executable as the process sees it."
        from "/proc/PID/exe"
    PROCESS_CREATION_TIME "process.creation.time" Text Development
        "When the process started, RFC 3339."
        from "/proc/PID/stat field 22 and the boot time"
    PROCESS_OWNER "process.owner" Text Development
        "User that the process runs as: the name, else the number."
        from "/proc/PID/status Uid"
    PROCESS_COMMAND_ARGS "process.command_args" Texts Development
        "Command line, one entry per argument. Only when asked for: command lines carry secrets."
        from "/proc/PID/cmdline"
    PROCESS_RUNTIME_NAME "process.runtime.name" Text Development
        "Name of the runtime: `.NET`."
        from "ProcessInfo2, ProcessInfo3"
    PROCESS_RUNTIME_VERSION "process.runtime.version" Text Development
        "Version of the runtime, as `10.0.1`."
        from "ProcessInfo2 ClrProductVersion; RuntimeStart (187)"
    PROCESS_RUNTIME_DESCRIPTION "process.runtime.description" Text Development
        "The runtime in words: CoreCLR or NativeAOT, version, architecture."
        from "ProcessInfo2, ProcessInfo3"
    HOST_NAME "host.name" Text Development
        "Name of the host."
        from "uname, or the Kubernetes node's name"
    HOST_ID "host.id" Text Development
        "Id of the host."
        from "/etc/machine-id"
    HOST_ARCH "host.arch" Text Development
        "Architecture of the host: `amd64`, `arm64`."
        from "uname"
    OS_TYPE "os.type" Text Development
        "Operating system: `linux`."
        from "the build"
    CONTAINER_ID "container.id" Text Stable
        "Id of the container that the process runs in."
        from "/proc/PID/cgroup"
    CONTAINER_IMAGE_NAME "container.image.name" Text Stable
        "Image of the container."
        from "Kubernetes API"
    CONTAINER_IMAGE_TAGS "container.image.tags" Texts Stable
        "Tags of the container's image."
        from "Kubernetes API"
    K8S_CLUSTER_NAME "k8s.cluster.name" Text Stable
        "Name of the cluster."
        from "configuration"
    K8S_NODE_NAME "k8s.node.name" Text Stable
        "Name of the node."
        from "Kubernetes API or configuration"
    K8S_NAMESPACE_NAME "k8s.namespace.name" Text Stable
        "Namespace of the pod."
        from "Kubernetes API"
    K8S_POD_NAME "k8s.pod.name" Text Stable
        "Name of the pod."
        from "Kubernetes API"
    K8S_POD_UID "k8s.pod.uid" Text Stable
        "UID of the pod."
        from "/proc/PID/cgroup or Kubernetes API"
    K8S_CONTAINER_NAME "k8s.container.name" Text Stable
        "Name of the container in its pod."
        from "Kubernetes API"
    K8S_DEPLOYMENT_NAME "k8s.deployment.name" Text Stable
        "Name of the deployment that the pod belongs to."
        from "Kubernetes API"
    K8S_REPLICASET_NAME "k8s.replicaset.name" Text Stable
        "Name of the replica set that the pod belongs to."
        from "Kubernetes API"
    K8S_STATEFULSET_NAME "k8s.statefulset.name" Text Stable
        "Name of the stateful set that the pod belongs to."
        from "Kubernetes API"
    K8S_DAEMONSET_NAME "k8s.daemonset.name" Text Stable
        "Name of the daemon set that the pod belongs to."
        from "Kubernetes API"
    K8S_JOB_NAME "k8s.job.name" Text Stable
        "Name of the job that the pod belongs to."
        from "Kubernetes API"
    K8S_CRONJOB_NAME "k8s.cronjob.name" Text Stable
        "Name of the cron job that the pod belongs to."
        from "Kubernetes API"
    TELEMETRY_DISTRO_NAME "telemetry.distro.name" Text Stable
        "`gcwatch`: who made this telemetry. The process's own SDK is not claimed (`telemetry.sdk.*`)."
        from "the build"
    TELEMETRY_DISTRO_VERSION "telemetry.distro.version" Text Stable
        "Version of gcwatch."
        from "the build"
}
