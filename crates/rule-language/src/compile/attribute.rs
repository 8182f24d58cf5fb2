//! Resource attributes that gcwatch sets, and the check for misspelled attribute names.

use strict_yaml::check::nearest;

/// The way to read an attribute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// The name in brackets. The attribute is a string.
    Brackets,
    Field(&'static str),
    /// The attribute cannot be read: it is not a string, and no field contains it.
    Nothing,
}

use Access::{Brackets, Field, Nothing};

/// Attributes of the resource, in the order of their definition.
pub const RESOURCE_ATTRIBUTES: [(&str, Access); 35] = [
    ("service.name", Brackets),
    ("service.namespace", Brackets),
    ("service.instance.id", Brackets),
    ("service.version", Brackets),
    ("deployment.environment.name", Brackets),
    ("process.pid", Field("process.pid")),
    ("process.vpid", Nothing),
    ("process.parent_pid", Nothing),
    ("process.executable.name", Brackets),
    ("process.executable.path", Brackets),
    ("process.creation.time", Brackets),
    ("process.owner", Brackets),
    ("process.runtime.name", Brackets),
    ("process.runtime.version", Brackets),
    ("host.name", Brackets),
    ("host.id", Brackets),
    ("host.arch", Brackets),
    ("os.type", Brackets),
    ("container.id", Brackets),
    ("container.image.name", Brackets),
    ("container.image.tags", Nothing),
    ("k8s.cluster.name", Brackets),
    ("k8s.node.name", Brackets),
    ("k8s.namespace.name", Brackets),
    ("k8s.pod.name", Brackets),
    ("k8s.pod.uid", Brackets),
    ("k8s.container.name", Brackets),
    ("k8s.deployment.name", Brackets),
    ("k8s.replicaset.name", Brackets),
    ("k8s.statefulset.name", Brackets),
    ("k8s.daemonset.name", Brackets),
    ("k8s.job.name", Brackets),
    ("k8s.cronjob.name", Brackets),
    ("telemetry.distro.name", Brackets),
    ("telemetry.distro.version", Brackets),
];

/// Prefixes of attributes whose names end with a configured name, with the option that sets them.
const CHOSEN: [(&str, &str); 2] = [
    ("k8s.pod.label.", "`kubernetes.labels` of the configuration"),
    ("k8s.pod.annotation.", "`kubernetes.annotations` of the configuration"),
];

/// Returns the problem with the name of an attribute. Returns `None` if there is no problem, or if a problem cannot be
/// determined because a process and the configuration can add attributes of any name.
pub(super) fn doubt(name: &str) -> Option<String> {
    if let Some((_, access)) = RESOURCE_ATTRIBUTES.iter().find(|(known, _)| *known == name) {
        return match access {
            Brackets => None,
            Field(field) => Some(format!(
                "'{name}' is not a string, so it is never known here; read `{field}`"
            )),
            Nothing => Some(format!("'{name}' is not a string, so it is never known here")),
        };
    }
    if let Some(setting) = name.strip_prefix("gcwatch.gc.settings.") {
        return Some(format!("settings are fields: `settings.{setting}`"));
    }
    if let Some((prefix, option)) = CHOSEN.iter().find(|(prefix, _)| name.starts_with(prefix)) {
        let empty = name.len() == prefix.len();
        return empty.then(|| format!("a name is missing after '{prefix}'; {option} lists the known names"));
    }
    // `k8s.pod.lable.team`: a prefix, and the name after it.
    let ends = name.match_indices('.').map(|(end, _)| end + 1);
    let begun = ends.filter_map(|end| Some((name.get(..end)?, name.get(end..)?)));
    for (begin, rest) in begun {
        let near = nearest(begin, CHOSEN.iter().map(|(prefix, _)| *prefix));
        let near = near.filter(|prefix| begin.matches('.').count() == prefix.matches('.').count());
        if let Some((prefix, option)) = near.and_then(|near| CHOSEN.iter().find(|(prefix, _)| *prefix == near)) {
            return Some(format!(
                "nothing sets '{name}'; did you mean '{prefix}{rest}'? It exists if {option} contains '{rest}'"
            ));
        }
    }
    let dotted = name.replace('_', ".");
    let known = || RESOURCE_ATTRIBUTES.iter().map(|(known, _)| *known);
    let near = known()
        .find(|known| *known == dotted)
        .or_else(|| nearest(name, known()));
    near.map(|near| format!("nothing sets '{name}'; did you mean '{near}'?"))
}

/// Returns the label that an attribute becomes in alerts. Characters other than letters and digits become `_`.
pub(crate) fn label(name: &str) -> String {
    let legal = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    name.chars().map(legal).collect()
}

/// Returns the attribute that already gives alerts a label with this name, or `None` if no attribute does.
pub(crate) fn attribute_of_label(name: &str) -> Option<&'static str> {
    let name = label(name);
    // These attributes change, are long, or repeat other labels.
    const LEFT_OUT: [&str; 6] = [
        "process.",
        "telemetry.",
        "os.",
        "host.id",
        "host.arch",
        "service.instance.id",
    ];
    let mut known = RESOURCE_ATTRIBUTES.iter().map(|(known, _)| *known);
    known.find(|known| label(known) == name && !LEFT_OUT.iter().any(|start| known.starts_with(start)))
}
