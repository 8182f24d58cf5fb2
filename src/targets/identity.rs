//! Who a run is, in the words of OpenTelemetry's semantic conventions (1.44): pure.
//!
//! `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES` of the target name the service, so that its collections appear
//! beside its own traces. They do not override what gcwatch observes itself ([`OBSERVED`]): an environment is copied to
//! child processes and between hosts. `telemetry.*` is not taken from there: it names who made the data, which is
//! gcwatch. The command line is not exported: it may hold secrets.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use dotnet_diagnostics::discovery::Process;
use dotnet_diagnostics::message::ProcessInfo;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use uuid::Uuid;

use crate::process::text::bounded;
use crate::process::{Identity, Provenance, RunKey};
use crate::targets::facts::Facts;
use crate::targets::host::Host;
use gc_telemetry::definition::{Attribute, resource as row};
use gc_telemetry::value::key_value;

/// Most attributes that are taken from the target's environment.
pub(crate) const MAX_OWN_ATTRIBUTES: usize = 64;

/// Namespaces of attributes that gcwatch observes itself, as far as it can: in `/proc`, from the host, the runtime and
/// Kubernetes. The environment's value counts only where nothing else is known.
const OBSERVED: [&str; 5] = ["process.", "host.", "os.", "container.", "k8s."];

/// Clock ticks per second in `/proc`, fixed in Linux's interface.
const TICK_NS: i128 = 10_000_000;

/// The namespace for ids of service instances that the semantic conventions give.
const INSTANCE_NAMESPACE: Uuid = Uuid::from_u128(0x4d63_009a_8d0f_11ee_aad7_4c79_6ed8_e320);

/// The run of a process that was found.
pub(crate) fn key_of(process: &Process) -> RunKey {
    RunKey {
        pid: process.pid,
        start_time: process.start_time,
    }
}

/// Who a process is before it was asked: enough to be listed. `service`: of [`service_of`].
pub(crate) fn sketch(process: &Process, service: Option<String>) -> Identity {
    let mut resource = Resource::default();
    resource.text(&row::SERVICE_NAME, service);
    Identity {
        key: key_of(process),
        ns_pid: Some(process.ns_pid),
        name: short_name(&process.name).to_owned(),
        runtime: None,
        resource: resource.0,
        provenance: Provenance::default(),
    }
}

/// What the environment of a process calls its service.
pub(crate) fn service_of(facts: &Facts) -> Option<String> {
    let attributes = || own_attributes(&facts.variable("OTEL_RESOURCE_ATTRIBUTES")?).ok();
    let by_attributes = || {
        let named = attributes()?.into_iter().find(|(key, _)| key == row::SERVICE_NAME.name);
        named.map(|(_, name)| name)
    };
    let name = facts.variable("OTEL_SERVICE_NAME").filter(|name| !name.is_empty());
    name.or_else(by_attributes).map(|name| bounded(&name))
}

/// The same with the container that it is in: where to look for a process that cannot be asked.
pub(crate) fn placed(process: &Process, facts: &Facts) -> Identity {
    let sketch = sketch(process, service_of(facts));
    let mut resource = Resource(sketch.resource);
    resource.text(&row::CONTAINER_ID, facts.container.container_id.clone());
    resource.text(&row::K8S_POD_UID, facts.container.pod_uid.clone());
    Identity {
        resource: resource.0,
        provenance: Provenance {
            container: facts.container.clone(),
            ..Provenance::default()
        },
        ..sketch
    }
}

/// What people call a process, as everywhere else: its service where its environment names one, else its entry
/// assembly. `info` is its runtime's answer. Blocking.
pub(crate) fn name_of(process: &Process, info: Option<&ProcessInfo>) -> String {
    let (identity, _bad_attributes) = identity(process, &Facts::of(process), info, &Host::read());
    identity.one_name()
}

/// Who a process is. `info` is its runtime's answer; `None` for .NET Core 3, which has none. The second value is the
/// error in its `OTEL_RESOURCE_ATTRIBUTES`, which then are not used.
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
        resource: resource.0,
        provenance: Provenance {
            own_names,
            container: facts.container.clone(),
            command: facts.command_line.as_ref().map(|command| {
                let mut hasher = DefaultHasher::new();
                command.hash(&mut hasher);
                hasher.finish()
            }),
        },
    };
    (identity, bad)
}

/// Who gcwatch itself is: `key` is its own pid, and something that distinguishes this run of it from the one before.
/// Reads a few files of the system.
pub(crate) fn own_identity(service: &str, key: RunKey) -> Vec<KeyValue> {
    let host = Host::read();
    let mut resource = Resource::default();
    resource.text(&row::SERVICE_NAME, Some(service.to_owned()));
    resource.text(&row::SERVICE_VERSION, Some(env!("CARGO_PKG_VERSION").to_owned()));
    resource.text(&row::SERVICE_INSTANCE_ID, Some(instance_id(key, &host)));
    resource.int(&row::PROCESS_PID, Some(key.pid.into()));
    resource.host(&host);
    resource.0
}

/// The name without the `.dll` of what `dotnet` runs: as its entry assembly is called.
fn short_name(name: &str) -> &str {
    name.strip_suffix(".dll")
        .filter(|short| !short.is_empty())
        .unwrap_or(name)
}

/// The entry assembly, else what the command line has. A host of one's own names itself as the entry assembly: then
/// what it runs is the assembly that its command line has.
fn program_name(entry_assembly: Option<String>, of_command_line: &str, facts: &Facts) -> String {
    let is_host = |assembly: &String| of_command_line.ends_with(".dll") && facts.program().as_deref() == Some(assembly);
    let assembly = entry_assembly.filter(|assembly| !is_host(assembly));
    assembly.unwrap_or_else(|| short_name(of_command_line).to_owned())
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

/// The attributes of a resource as they come together: a later value takes the place of an earlier one.
#[derive(Debug, Default)]
struct Resource(Vec<KeyValue>);

impl Resource {
    fn set(&mut self, key: &str, value: Value) {
        let new = key_value(key, value);
        match self.0.iter_mut().find(|attribute| attribute.key == key) {
            Some(attribute) => *attribute = new,
            None => self.0.push(new),
        }
    }

    fn has(&self, key: &str) -> bool {
        self.0.iter().any(|attribute| attribute.key == key)
    }

    fn host(&mut self, host: &Host) {
        self.text(&row::HOST_NAME, host.name.clone());
        self.text(&row::HOST_ID, host.id.clone());
        self.text(&row::HOST_ARCH, Some(host.arch.to_owned()));
        self.text(&row::OS_TYPE, Some("linux".to_owned()));
    }

    fn text(&mut self, attribute: &Attribute, value: Option<String>) {
        if let Some(value) = value {
            self.set(attribute.name, Value::StringValue(value));
        }
    }

    fn int(&mut self, attribute: &Attribute, value: Option<i64>) {
        if let Some(value) = value {
            self.set(attribute.name, Value::IntValue(value));
        }
    }
}

/// An error in a target's `OTEL_RESOURCE_ATTRIBUTES`. As the specification demands, none of it is used then.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadAttributes {
    #[error("entry {0} of its OTEL_RESOURCE_ATTRIBUTES is not of the form key=value")]
    Form(usize),
    #[error("entry {0} of its OTEL_RESOURCE_ATTRIBUTES is not percent-encoded UTF-8")]
    Encoding(usize),
    #[error("its OTEL_RESOURCE_ATTRIBUTES has more than {MAX_OWN_ATTRIBUTES} entries")]
    Many,
}

/// `key=value,key=value`, percent-encoded; spaces around both are no part of them.
fn own_attributes(text: &str) -> Result<Vec<(String, String)>, BadAttributes> {
    let mut attributes = Vec::new();
    for (place, entry) in text.split(',').enumerate() {
        let number = place + 1;
        if entry.trim().is_empty() {
            continue;
        }
        if attributes.len() >= MAX_OWN_ATTRIBUTES {
            return Err(BadAttributes::Many);
        }
        let (key, value) = entry.split_once('=').ok_or(BadAttributes::Form(number))?;
        let decode = |text: &str| percent_decoded(text.trim()).ok_or(BadAttributes::Encoding(number));
        let key = decode(key)?;
        if key.is_empty() {
            return Err(BadAttributes::Form(number));
        }
        attributes.push((bounded(&key), bounded(&decode(value)?)));
    }
    Ok(attributes)
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        if byte != b'%' {
            bytes.push(byte);
            rest = tail;
            continue;
        }
        let (digits, tail) = tail.split_at_checked(2)?;
        let digit = |digit: &u8| char::from(*digit).to_digit(16);
        let (high, low) = (digits.first().and_then(digit)?, digits.get(1).and_then(digit)?);
        bytes.push(u8::try_from(high * 16 + low).ok()?);
        rest = tail;
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use dotnet_diagnostics::discovery::Scan;
    use proptest::prelude::*;

    use super::*;
    use crate::container::ContainerIdentity;

    /// A process with the pid of this test: its values are put in place of what was found.
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
        let attribute = identity.resource.iter().find(|attribute| attribute.key == key)?;
        match attribute.value.as_ref()?.value.as_ref()? {
            Value::StringValue(text) => Some(text.clone()),
            Value::IntValue(number) => Some(number.to_string()),
            other => panic!("{other:?}"),
        }
    }

    /// Scenario: a host of one's own that runs an assembly of its command line and names itself as the entry assembly;
    /// a program of the same name whose argument is an assembly, with an entry assembly of its own.
    /// Guarantee: the first has the name of what it runs, the second that of its entry assembly.
    #[test]
    fn a_host_is_not_what_it_runs() {
        let host_process = Facts {
            executable: Some(PathBuf::from("/srv/run")),
            ..facts(b"")
        };
        let named = |assembly: &str| program_name(Some(assembly.to_owned()), "shop.dll", &host_process);
        assert_eq!(named("run"), "shop");
        assert_eq!(named("Runner"), "Runner");
    }

    /// Scenario: a process in a pod's container that cannot be asked who it is, with attributes in its environment.
    /// Guarantee: its container is known, to find its pod by; nothing else is taken from it.
    #[test]
    fn what_cannot_be_asked_has_its_place() {
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

    /// Scenario: processes that are listed without being asked: with a service's variable, with attributes that name a
    /// service, with both, with neither.
    /// Guarantee: each is called by its service where it has one, the variable's over the attributes', as everywhere
    /// else.
    #[test]
    fn what_is_not_asked_has_its_services_name() {
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

    /// Scenario: a process without attributes of its own.
    /// Guarantee: each attribute is of the table and has what was found; what is unknown is absent.
    #[test]
    fn what_is_found_is_exported() {
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

    /// Scenario: the same run twice, another pid, another start, another boot.
    /// Guarantee: the instance's id is the same for the same run only.
    #[test]
    fn instance_ids_are_those_of_runs() {
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

    /// Scenario: a target with both variables of OpenTelemetry, which also name the pid of the parent from which it
    /// inherited them, another host, and who made the data.
    /// Guarantee: they name the service, its own variable over both; what gcwatch observes stays what it observed, and
    /// what it does not know is taken, until Kubernetes knows it.
    #[test]
    fn the_targets_own_attributes_name_the_service() {
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
        assert_eq!(identity.name, "Shop", "the process keeps its name");
    }

    /// Scenario: attributes that are no key=value, not encoded, not UTF-8, too many, too long.
    /// Guarantee: what is malformed is not used at all, and the entry is named; lengths are bounded.
    #[test]
    fn malformed_attributes_are_not_used() {
        assert_eq!(own_attributes("a=1,b"), Err(BadAttributes::Form(2)));
        assert_eq!(own_attributes("=1"), Err(BadAttributes::Form(1)));
        assert_eq!(own_attributes("a=%4"), Err(BadAttributes::Encoding(1)));
        assert_eq!(own_attributes("a=%ff"), Err(BadAttributes::Encoding(1)));
        assert_eq!(own_attributes("a=%+1"), Err(BadAttributes::Encoding(1)));
        assert_eq!(own_attributes(&"a=1,".repeat(65)), Err(BadAttributes::Many));
        assert_eq!(own_attributes(""), Ok(vec![]));
        let long = own_attributes(&format!("a={}", "x".repeat(5000))).unwrap();
        assert_eq!(long[0].1.len(), crate::process::text::MAX_VALUE_BYTES);
        let (identity, bad) = identity(
            &process("a"),
            &facts(b"OTEL_RESOURCE_ATTRIBUTES=team=x,b\0"),
            None,
            &host(),
        );
        assert_eq!((shown(&identity, "team"), bad), (None, Some(BadAttributes::Form(2))));
    }

    proptest! {
        /// Scenario: any keys and values, encoded as the specification demands.
        /// Guarantee: they are read back as they were.
        #[test]
        fn encoded_attributes_are_read_back(pairs in proptest::collection::vec(("[a-z.]{1,9}", "[ -~é]{0,9}"), 0..9)) {
            let encoded = |text: &str| text.bytes().map(|byte| format!("%{byte:02X}")).collect::<String>();
            let entries: Vec<_> = pairs.iter().map(|(key, value)| format!("{}={}", encoded(key), encoded(value))).collect();
            prop_assert_eq!(own_attributes(&entries.join(",")), Ok(pairs));
        }

        /// Scenario: any text.
        /// Guarantee: an answer, without panic.
        #[test]
        fn any_text_is_answered(text in ".{0,40}") {
            let _answer = own_attributes(&text);
        }
    }
}
