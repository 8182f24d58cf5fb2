//! Tests for the identity of processes with different environments.

use std::path::PathBuf;

use dotnet_diagnostics::discovery::Scan;

use super::*;
use processes::container::ContainerIdentity;

/// Returns a process based on this test's own, with fixed ids and name.
fn process(name: &str) -> Process {
    let mut process = Scan::host().inspect(std::process::id()).unwrap();
    (process.pid, process.ns_pid, process.start_time) = (4321, 7, 100_050);
    process.name = name.to_owned();
    process
}

fn host() -> Host {
    Host {
        name: Some("node".to_owned()),
        id: Some("0123".to_owned()),
        boot_id: Some("b00t".to_owned()),
        arch: "amd64",
        booted_unix_ns: 1_767_323_045_678_000_000,
    }
}

fn facts(environ: &[u8]) -> Facts {
    Facts {
        environ: Some(environ.to_vec()),
        executable: Some(PathBuf::from("/usr/bin/dotnet")),
        uid: Some(33),
        parent: Some(1),
        ..Facts::default()
    }
}

fn shown(identity: &Identity, key: &str) -> Option<String> {
    match gc_telemetry::value::value(&identity.resource, key)? {
        Value::StringValue(text) => Some(text.clone()),
        Value::IntValue(number) => Some(number.to_string()),
        other => panic!("{other:?}"),
    }
}

/// Scenario: a custom host runs an assembly from its command line and names itself as the entry assembly; another
/// program has an assembly as its argument and its own entry assembly.
/// Guarantee: the first is named after the assembly that it runs, the second after its entry assembly.
#[test]
fn custom_host_is_named_after_its_program() {
    let host_process = Facts {
        executable: Some(PathBuf::from("/srv/run")),
        ..facts(b"")
    };
    let named = |assembly: &str| program_name(Some(assembly.to_owned()), "shop.dll", &host_process);
    assert_eq!(named("run"), "shop");
    assert_eq!(named("Runner"), "Runner");
}

/// Scenario: SDK commands run with and without a known verb; another program has a verb as its argument.
/// Guarantee: SDK commands are named with their verb, and no other argument is part of a name.
#[test]
fn sdk_commands_are_named_with_verb() {
    let named = |name: &str, command_line: &str| {
        let facts = Facts {
            command_line: Some(command_line.to_owned()),
            ..facts(b"")
        };
        program_name(Some(name.to_owned()), "dotnet", &facts)
    };
    assert_eq!(named("dotnet", "/usr/bin/dotnet build -p:Key=secret"), "dotnet build");
    assert_eq!(named("dotnet", "dotnet secret"), "dotnet");
    assert_eq!(named("dotnet", "dotnet"), "dotnet");
    assert_eq!(named("Shop", "dotnet build"), "Shop");
}

/// Scenario: a process in a pod's container cannot be queried and has attributes in its environment.
/// Guarantee: its container is known, so that its pod can be found. No attribute is taken from the environment.
#[test]
fn unqueried_process_has_container() {
    let container = ContainerIdentity {
        container_id: Some("c0ffee".to_owned()),
        pod_uid: Some("0b5e".to_owned()),
    };
    let facts = Facts {
        container: container.clone(),
        ..facts(b"OTEL_RESOURCE_ATTRIBUTES=team=blue\0")
    };
    let placed = placed(&process("Shop.dll"), &facts);
    assert_eq!(placed.key, key_of(&process("Shop.dll")));
    assert_eq!(shown(&placed, "container.id").as_deref(), Some("c0ffee"));
    assert_eq!(shown(&placed, "k8s.pod.uid").as_deref(), Some("0b5e"));
    assert_eq!(placed.resource.len(), 2);
    assert_eq!(placed.provenance.container, container);
}

/// Scenario: processes are listed without being queried; their environments have the service variable, attributes with
/// a service name, both, or neither.
/// Guarantee: each process is named after its service if it has one; the variable takes precedence over the attributes.
#[test]
fn unqueried_process_is_named_after_service() {
    for (environ, name) in [
        (&b"OTEL_SERVICE_NAME=checkout\0"[..], "checkout"),
        (
            b"OTEL_RESOURCE_ATTRIBUTES=team=blue,service.name=check%20out\0",
            "check out",
        ),
        (
            b"OTEL_RESOURCE_ATTRIBUTES=service.name=other\0OTEL_SERVICE_NAME=checkout\0",
            "checkout",
        ),
        (b"OTEL_SERVICE_NAME=\0", "Shop"),
    ] {
        let facts = facts(environ);
        let process = process("Shop.dll");
        assert_eq!(sketch(&process, service_of(&facts)).one_name(), name);
        assert_eq!(placed(&process, &facts).one_name(), name);
        let (asked, _bad) = identity(&process, &facts, None, &host());
        assert_eq!(asked.one_name(), name);
    }
}

/// Scenario: a process has no attributes in its environment.
/// Guarantee: each attribute is defined in the table and has the observed value; unknown attributes are absent.
#[test]
fn observed_attributes_are_exported() {
    let (identity, bad) = identity(&process("Shop.dll"), &facts(b""), None, &host());
    assert_eq!(bad, None);
    let is = |key: &str, value: &str| assert_eq!(shown(&identity, key).as_deref(), Some(value), "{key}");
    is("service.name", "Shop");
    is("process.pid", "4321");
    is("process.vpid", "7");
    is("process.parent_pid", "1");
    is("process.executable.name", "dotnet");
    is("process.executable.path", "/usr/bin/dotnet");
    is("process.creation.time", "2026-01-02T03:20:46.170Z");
    is("process.owner", "33");
    is("host.name", "node");
    is("telemetry.distro.name", "gcwatch");
    assert_eq!(shown(&identity, "process.runtime.version"), None);
    for attribute in &identity.resource {
        assert!(
            row::ALL.iter().any(|known| known.attribute.name == attribute.key),
            "{}",
            attribute.key
        );
    }
}

/// Scenario: the same run is identified twice, then with another start time and another boot.
/// Guarantee: the instance id is the same only for the same run.
#[test]
fn instance_id_is_unique_per_run() {
    let id = instance_id(key_of(&process("a")), &host());
    assert_eq!(id, instance_id(key_of(&process("b")), &host()));
    let mut other = process("a");
    other.start_time += 1;
    assert_ne!(id, instance_id(key_of(&other), &host()));
    let rebooted = Host {
        boot_id: None,
        ..host()
    };
    assert_ne!(id, instance_id(key_of(&process("a")), &rebooted));
    assert_eq!(Uuid::parse_str(&id).unwrap().get_version_num(), 5);
}

/// Scenario: a target has both OpenTelemetry variables. The variables also contain the pid of the parent process from
/// which they were inherited, another host, and another producer of the data.
/// Guarantee: the variables name the service, with precedence for the service variable; observed values are kept;
/// unobserved values are taken from the environment until Kubernetes provides them.
#[test]
fn environment_attributes_name_service() {
    let environ = b"OTEL_RESOURCE_ATTRIBUTES=service.name=by%20attribute,service.instance.id=i-1, host.name = n ,\
        process.pid=1,k8s.pod.name=web-1,team=a%2Cb,telemetry.distro.name=other\0OTEL_SERVICE_NAME=by-variable\0";
    let (identity, bad) = identity(&process("Shop.dll"), &facts(environ), None, &host());
    assert_eq!(bad, None);
    let is = |key: &str, value: &str| assert_eq!(shown(&identity, key).as_deref(), Some(value), "{key}");
    is("service.name", "by-variable");
    is("service.instance.id", "i-1");
    is("host.name", "node");
    is("process.pid", "4321");
    is("k8s.pod.name", "web-1");
    is("team", "a,b");
    let own = &identity.provenance.own_names;
    assert!(own.iter().any(|name| name == "team") && !own.iter().any(|name| name == "k8s.pod.name"));
    is("telemetry.distro.name", "gcwatch");
    assert_eq!(identity.name, "Shop", "the name of the process is unchanged");
}

/// Scenario: one entry of the attributes is malformed.
/// Guarantee: no attribute is used, and the error is returned.
#[test]
fn malformed_attributes_are_not_used() {
    let (identity, bad) = identity(
        &process("a"),
        &facts(b"OTEL_RESOURCE_ATTRIBUTES=team=x,b\0"),
        None,
        &host(),
    );
    assert_eq!((shown(&identity, "team"), bad), (None, Some(BadAttributes::Form(2))));
}
