//! Identity of a run, in the attributes of OpenTelemetry's semantic conventions (1.44). Pure.
//!
//! `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES` of the target name the service, so that its collections appear
//! next to its own traces. The variables do not override attributes that gcwatch observes itself ([`OBSERVED`]),
//! because an environment is copied to child processes and between hosts. `telemetry.*` is not taken from the
//! environment, because it names the producer of the data, which is gcwatch. The command line is not exported because
//! it can contain secrets.

mod own_attributes;
mod resource;

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use dotnet_diagnostics::discovery::Process;
use dotnet_diagnostics::message::ProcessInfo;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use uuid::Uuid;

use crate::facts::Facts;
use crate::host::{Host, TICK_NS};
use crate::identity::own_attributes::{BadAttributes, own_attributes};
use crate::identity::resource::Resource;
use base::run_key::RunKey;
use gc_telemetry::definition::resource as row;
use processes::text::bounded;
use processes::{Identity, Provenance};

/// Namespaces of attributes that gcwatch observes itself where it can: in `/proc`, from the host, the runtime and
/// Kubernetes. The value from the environment is used only if no observed value exists.
const OBSERVED: [&str; 5] = ["process.", "host.", "os.", "container.", "k8s."];

/// Namespace for ids of service instances, as specified by the semantic conventions.
const INSTANCE_NAMESPACE: Uuid = Uuid::from_u128(0x4d63_009a_8d0f_11ee_aad7_4c79_6ed8_e320);

/// Returns the key of the run of a process.
pub(crate) fn key_of(process: &Process) -> RunKey {
    RunKey {
        pid: process.pid,
        start_time: process.start_time,
    }
}

/// Returns the identity of a process that has not been queried yet, sufficient for lists. `service` comes from
/// [`service_of`].
pub(crate) fn sketch(process: &Process, service: Option<String>) -> Identity {
    let mut resource = Resource::default();
    resource.text(&row::SERVICE_NAME, service);
    Identity {
        ns_pid: Some(process.ns_pid),
        resource: resource.0,
        ..Identity::new(key_of(process), short_name(&process.name))
    }
}

/// Returns the service name in the environment of a process, or `None` if the environment sets no name or is
/// unreadable.
pub(crate) fn service_of(facts: &Facts) -> Option<String> {
    let attributes = || own_attributes(&facts.variable("OTEL_RESOURCE_ATTRIBUTES")?).ok();
    let by_attributes = || {
        let named = attributes()?.into_iter().find(|(key, _)| key == row::SERVICE_NAME.name);
        named.map(|(_, name)| name)
    };
    let name = facts.variable("OTEL_SERVICE_NAME").filter(|name| !name.is_empty());
    name.or_else(by_attributes).map(|name| bounded(&name))
}

/// Like [`sketch`], but with the container, the pod and the tenant, which help to find a process that cannot be
/// queried.
pub(crate) fn placed(process: &Process, facts: &Facts) -> Identity {
    let sketch = sketch(process, service_of(facts));
    let mut resource = Resource(sketch.resource);
    resource.text(&row::CONTAINER_ID, facts.container.container_id.clone());
    resource.text(&row::K8S_POD_UID, facts.container.pod_uid.clone());
    Identity {
        resource: resource.0,
        provenance: Provenance {
            container: facts.container.clone(),
            tenant: facts.tenant.clone(),
            ..Provenance::default()
        },
        ..sketch
    }
}

/// Returns the display name of a process, as used everywhere: the service name in its environment, or its entry
/// assembly if the environment sets no service name. `info` is the answer of the runtime.
///
/// Blocks the calling thread.
pub fn name_of(process: &Process, info: Option<&ProcessInfo>) -> String {
    let (identity, _bad_attributes) = identity(process, &Facts::for_process(process), info, &Host::read());
    identity.one_name()
}

/// Returns the identity of a process. `info` is the answer of the runtime; `None` for .NET Core 3, which has no such
/// answer. The second returned value is the error in `OTEL_RESOURCE_ATTRIBUTES`, or `None` if the variable is valid or
/// not set. An invalid variable is ignored.
pub(crate) fn identity(
    process: &Process,
    facts: &Facts,
    info: Option<&ProcessInfo>,
    host: &Host,
) -> (Identity, Option<BadAttributes>) {
    let known = |text: Option<&String>| text.map(|text| bounded(text)).filter(|text| !text.is_empty());
    let assembly = known(info.and_then(|info| info.entry_assembly.as_ref()));
    let name = program_name(assembly, &process.name, facts);
    let library = || process.evidence.as_ref()?.version().map(bounded);
    let runtime = known(info.and_then(|info| info.runtime_version.as_ref())).or_else(library);

    let mut resource = Resource::default();
    resource.text(&row::SERVICE_NAME, Some(name.clone()));
    resource.text(&row::SERVICE_INSTANCE_ID, Some(instance_id(key_of(process), host)));
    resource.int(&row::PROCESS_PID, Some(process.pid.into()));
    let vpid = Some(process.ns_pid).filter(|pid| *pid != process.pid);
    resource.int(&row::PROCESS_VPID, vpid.map(i64::from));
    resource.int(&row::PROCESS_PARENT_PID, facts.parent.map(i64::from));
    let path = facts.executable.as_ref();
    let file_name = path
        .and_then(|path| path.file_name())
        .map(|name| bounded(&name.to_string_lossy()));
    resource.text(&row::PROCESS_EXECUTABLE_NAME, file_name);
    resource.text(
        &row::PROCESS_EXECUTABLE_PATH,
        path.map(|path| bounded(&path.to_string_lossy())),
    );
    resource.text(&row::PROCESS_CREATION_TIME, creation_time(process.start_time, host));
    let owner = facts.user.clone().or_else(|| facts.uid.map(|uid| uid.to_string()));
    resource.text(&row::PROCESS_OWNER, owner.map(|owner| bounded(&owner)));
    resource.text(&row::PROCESS_RUNTIME_NAME, Some(".NET".to_owned()));
    resource.text(&row::PROCESS_RUNTIME_VERSION, runtime.clone());
    resource.text(&row::CONTAINER_ID, facts.container.container_id.clone());
    resource.text(&row::K8S_POD_UID, facts.container.pod_uid.clone());
    resource.host(host);

    let (own, bad) = match facts.variable("OTEL_RESOURCE_ATTRIBUTES") {
        None => (Vec::new(), None),
        Some(text) => match own_attributes(&text) {
            Ok(attributes) => (attributes, None),
            Err(bad) => (Vec::new(), Some(bad)),
        },
    };
    let mut own_names = Vec::new();
    for (key, value) in own {
        let is_observed = OBSERVED.iter().any(|start| key.starts_with(start));
        if key.starts_with("telemetry.") || is_observed && resource.has(&key) {
            continue;
        }
        resource.set(&key, Value::StringValue(value));
        if !is_observed {
            own_names.push(key);
        }
    }
    let service = facts.variable("OTEL_SERVICE_NAME").filter(|name| !name.is_empty());
    own_names.extend(service.is_some().then(|| row::SERVICE_NAME.name.to_owned()));
    resource.text(&row::SERVICE_NAME, service.map(|name| bounded(&name)));
    resource.text(&row::TELEMETRY_DISTRO_NAME, Some("gcwatch".to_owned()));
    resource.text(
        &row::TELEMETRY_DISTRO_VERSION,
        Some(env!("CARGO_PKG_VERSION").to_owned()),
    );

    let identity = Identity {
        key: key_of(process),
        ns_pid: Some(process.ns_pid),
        name,
        runtime,
        native_aot: facts.native_aot,
        resource: resource.0,
        provenance: Provenance {
            own_names,
            container: facts.container.clone(),
            tenant: facts.tenant.clone(),
            command: facts.command_line.as_ref().map(|command| {
                let mut hasher = DefaultHasher::new();
                command.hash(&mut hasher);
                hasher.finish()
            }),
        },
    };
    (identity, bad)
}

/// Returns the identity of gcwatch itself. `key` contains its pid and a value that distinguishes this run from the
/// previous one. Reads a few system files.
pub fn own_identity(service: &str, key: RunKey) -> Vec<KeyValue> {
    let host = Host::read();
    let mut resource = Resource::default();
    resource.text(&row::SERVICE_NAME, Some(service.to_owned()));
    resource.text(&row::SERVICE_VERSION, Some(env!("CARGO_PKG_VERSION").to_owned()));
    resource.text(&row::SERVICE_INSTANCE_ID, Some(instance_id(key, &host)));
    resource.int(&row::PROCESS_PID, Some(key.pid.into()));
    resource.host(&host);
    resource.0
}

/// Removes the `.dll` suffix from the file that `dotnet` runs, to match the name of the entry assembly.
fn short_name(name: &str) -> &str {
    name.strip_suffix(".dll")
        .filter(|short| !short.is_empty())
        .unwrap_or(name)
}

/// Returns the entry assembly, or the program on the command line if the entry assembly is unknown. A custom host names
/// itself as the entry assembly; in that case, the program is the assembly on its command line.
fn program_name(entry_assembly: Option<String>, of_command_line: &str, facts: &Facts) -> String {
    let is_host = |assembly: &String| of_command_line.ends_with(".dll") && facts.program().as_deref() == Some(assembly);
    let assembly = entry_assembly.filter(|assembly| !is_host(assembly));
    let name = assembly.unwrap_or_else(|| short_name(of_command_line).to_owned());
    let verb = (name == "dotnet")
        .then(|| facts.command_line.as_deref().and_then(verb))
        .flatten();
    verb.map_or(name, |verb| format!("dotnet {verb}"))
}

/// SDK commands that are part of the name. Other arguments can contain secrets or are names of programs.
const VERBS: [&str; 14] = [
    "build", "clean", "format", "msbuild", "new", "nuget", "pack", "publish", "restore", "run", "test", "tool",
    "vstest", "watch",
];

/// Returns the SDK command on a command line, or `None` if the first argument is not in [`VERBS`].
fn verb(command_line: &str) -> Option<&'static str> {
    let word = command_line.split(' ').nth(1)?;
    VERBS.into_iter().find(|verb| *verb == word)
}

fn instance_id(key: RunKey, host: &Host) -> String {
    let machine = host.id.as_deref().unwrap_or_default();
    let boot = host.boot_id.as_deref().unwrap_or_default();
    let run = format!("{machine}/{boot}/{}/{}", key.pid, key.start_time);
    Uuid::new_v5(&INSTANCE_NAMESPACE, run.as_bytes()).to_string()
}

fn creation_time(start_time: u64, host: &Host) -> Option<String> {
    let unix_ns = host
        .booted_unix_ns
        .checked_add(i128::from(start_time).checked_mul(TICK_NS)?)?;
    let unix_ms = i64::try_from(unix_ns / (TICK_NS) * (TICK_NS / 1_000_000)).ok()?;
    let time = jiff::Timestamp::from_millisecond(unix_ms).ok()?;
    Some(format!("{time:.3}"))
}

#[cfg(test)]
mod tests;
