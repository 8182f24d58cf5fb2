//! Resource of all telemetry of a process: process, run and location.

use super::attributes;

attributes! {
    SERVICE_NAME "service.name" Text Stable
        "Name of the service."
        from "the first of: the process's OTEL_SERVICE_NAME, its OTEL_RESOURCE_ATTRIBUTES, Kubernetes (annotation resource.opentelemetry.io/service.name; by option, labels app.kubernetes.io/instance and app.kubernetes.io/name; the owner or the pod), its entry assembly (ProcessInfo2), its executable"
    SERVICE_NAMESPACE "service.namespace" Text Stable
        "Namespace of the service."
        from "the process's OTEL_RESOURCE_ATTRIBUTES; otherwise Kubernetes (annotation resource.opentelemetry.io/service.namespace; the pod's namespace)"
    SERVICE_INSTANCE_ID "service.instance.id" Text Stable
        "Instance of the service, unique per run of a process."
        from "the process's OTEL_RESOURCE_ATTRIBUTES; otherwise a UUID (version 5) of machine id, boot id, pid and start time"
    SERVICE_VERSION "service.version" Text Stable
        "Version of the service."
        from "the process's OTEL_RESOURCE_ATTRIBUTES; otherwise Kubernetes (annotation resource.opentelemetry.io/service.version; by option label app.kubernetes.io/version; tag or digest of the image)"
    DEPLOYMENT_ENVIRONMENT_NAME "deployment.environment.name" Text Stable
        "Name of the deployment environment."
        from "the process's OTEL_RESOURCE_ATTRIBUTES; otherwise the configuration"
    PROCESS_PID "process.pid" Int Development
        "Pid of the process in the pid namespace of the host; in a recording, pid in the stream."
        from "/proc; recording: header of the stream"
    PROCESS_VPID "process.vpid" Int Development
        "Pid of the process in its own pid namespace. Absent if equal to the pid on the host."
        from "/proc/PID/status NSpid"
    PROCESS_PARENT_PID "process.parent_pid" Int Development
        "Pid of the parent process."
        from "/proc/PID/stat field 4"
    PROCESS_EXECUTABLE_NAME "process.executable.name" Text Development
        "Name of the executable."
        from "/proc/PID/exe"
    PROCESS_EXECUTABLE_PATH "process.executable.path" Text Development
        "Path of the executable from the process's view."
        from "/proc/PID/exe"
    PROCESS_CREATION_TIME "process.creation.time" Text Development
        "Start time of the process, RFC 3339."
        from "/proc/PID/stat field 22 and the boot time"
    PROCESS_OWNER "process.owner" Text Development
        "User of the process: the name; otherwise the number."
        from "/proc/PID/status Uid"
    PROCESS_RUNTIME_NAME "process.runtime.name" Text Development
        "Name of the runtime: `.NET`."
        from "type of the process"
    PROCESS_RUNTIME_VERSION "process.runtime.version" Text Development
        "Version of the runtime, such as `10.0.1`."
        from "ProcessInfo2 ClrProductVersion; .NET Core 3: the path of its library in /proc/PID/maps"
    HOST_NAME "host.name" Text Development
        "Name of the host."
        from "NODE_NAME in gcwatch's environment; /proc/sys/kernel/hostname"
    HOST_ID "host.id" Text Development
        "Id of the host."
        from "/etc/machine-id"
    HOST_ARCH "host.arch" Text Development
        "Architecture of the host: `amd64`, `arm64`."
        from "the build"
    OS_TYPE "os.type" Text Development
        "Operating system: `linux`."
        from "the build"
    CONTAINER_ID "container.id" Text Stable
        "Id of the process's container."
        from "/proc/PID/cgroup: outermost container of the path; otherwise the process's OTEL_RESOURCE_ATTRIBUTES"
    CONTAINER_IMAGE_NAME "container.image.name" Text Stable
        "Image of the container, without tag and digest."
        from "Kubernetes: container with the same id in the pod's status; spec of the container"
    CONTAINER_IMAGE_TAGS "container.image.tags" Texts Stable
        "Tag of the image. Absent without a tag."
        from "as container.image.name"
    K8S_CLUSTER_NAME "k8s.cluster.name" Text Stable
        "Name of the cluster."
        from "configuration"
    K8S_NODE_NAME "k8s.node.name" Text Stable
        "Name of the node."
        from "Kubernetes: spec.nodeName of the pod"
    K8S_NAMESPACE_NAME "k8s.namespace.name" Text Stable
        "Namespace of the pod."
        from "Kubernetes: metadata of the pod"
    K8S_POD_NAME "k8s.pod.name" Text Stable
        "Name of the pod."
        from "Kubernetes: metadata of the pod"
    K8S_POD_UID "k8s.pod.uid" Text Stable
        "Uid of the pod; for a static pod, hash of its manifest until Kubernetes responds."
        from "/proc/PID/cgroup; Kubernetes: metadata of the pod"
    K8S_CONTAINER_NAME "k8s.container.name" Text Stable
        "Name of the container in its pod."
        from "Kubernetes: container with the same id in the pod's status; only container of the pod"
    K8S_DEPLOYMENT_NAME "k8s.deployment.name" Text Stable
        "Deployment of the pod."
        from "Kubernetes: name of the owning ReplicaSet without the label pod-template-hash"
    K8S_REPLICASET_NAME "k8s.replicaset.name" Text Stable
        "Replica set of the pod."
        from "Kubernetes: controller among the pod's ownerReferences"
    K8S_STATEFULSET_NAME "k8s.statefulset.name" Text Stable
        "Stateful set of the pod."
        from "as k8s.replicaset.name"
    K8S_DAEMONSET_NAME "k8s.daemonset.name" Text Stable
        "Daemon set of the pod."
        from "as k8s.replicaset.name"
    K8S_JOB_NAME "k8s.job.name" Text Stable
        "Job of the pod."
        from "as k8s.replicaset.name"
    K8S_CRONJOB_NAME "k8s.cronjob.name" Text Stable
        "Cron job of the pod."
        from "Kubernetes: name of the owning Job without the scheduled time (minutes since 1970)"
    TELEMETRY_DISTRO_NAME "telemetry.distro.name" Text Stable
        "`gcwatch`, the creator of this telemetry. The SDK of the process sets `telemetry.sdk.*`."
        from "the build"
    TELEMETRY_DISTRO_VERSION "telemetry.distro.version" Text Stable
        "Version of gcwatch."
        from "the build"
    CLR_INSTANCE "gcwatch.clr.instance" Int Own
        "Runtime instance in the process, for a recording of several runtimes."
        from "ClrInstanceID"
    RECORDED "gcwatch.recorded" Bool Own
        "`true` if `gcwatch demo` replays a recording of the process; the process does not run on this host."
        from "gcwatch demo"
}
