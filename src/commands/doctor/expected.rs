//! Verdicts on missing expectations of the configuration: filters without a process, directories without a socket.

use std::collections::BTreeSet;
use std::path::Path;

use base::text::shown;

use super::verdict::nothing_there;
use report::doctor::Diagnosis;
use targets::options::{Filter, TargetOptions};

/// Returns the verdict on a directory of `targets.sockets` without a socket.
pub(super) fn no_socket_in(path: &Path) -> Diagnosis {
    nothing_there(
        "targets.sockets".to_owned(),
        format!("no diagnostics socket in {}", shown(&path.display().to_string())),
        "share the application's /tmp or TMPDIR with gcwatch (Kubernetes: one emptyDir, mounted in both), readable for \
         gcwatch's user",
    )
}

/// Returns the verdict on a path of `targets.sockets` that cannot be read in time.
pub(super) fn does_not_respond(path: &Path) -> Diagnosis {
    nothing_there(
        "targets.sockets".to_owned(),
        format!("{} does not respond", shown(&path.display().to_string())),
        "check its file system: it may be mounted from a server that does not respond",
    )
}

/// Returns a verdict for each filter of `include` that matches no process.
pub(super) fn unmet(options: &TargetOptions, found: &BTreeSet<usize>) -> Vec<Diagnosis> {
    let unmet = (0..).zip(&options.include).filter(|(place, _)| !found.contains(place));
    unmet
        .map(|(place, filter)| {
            nothing_there(
                format!("targets.include[{place}]"),
                format!("no visible process matches {}", described(filter)),
                "check that it runs on this host, and its name (gcwatch ps); patterns match the whole name",
            )
        })
        .collect()
}

/// Formats the conditions of a filter, as in the configuration.
fn described(filter: &Filter) -> String {
    let text = |name: &str, value: Option<&String>| Some(format!("{name} {}", shown(value?)));
    let mut conditions: Vec<String> = [
        text("name", filter.name.as_ref().map(|pattern| &pattern.0)),
        text("command_line", filter.command_line.as_ref().map(|pattern| &pattern.0)),
        text("user", filter.user.as_ref()),
    ]
    .into_iter()
    .flatten()
    .collect();
    conditions.extend(
        filter
            .environment
            .iter()
            .map(|(name, pattern)| format!("{}={}", shown(name), shown(&pattern.0))),
    );
    conditions.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: a filter has two conditions, one of them with an escape character; another filter matches a process.
    /// Guarantee: the conditions are shown as in the configuration, without control characters. Only the filter without
    /// a process gets a verdict.
    #[test]
    fn filters_are_described() {
        use base::pattern::Pattern;
        let filter = Filter {
            name: Some(Pattern("Shop\x1b*".to_owned())),
            environment: vec![("ROLE".to_owned(), Pattern("web".to_owned()))],
            ..Filter::default()
        };
        assert_eq!(described(&filter), "name Shop\u{fffd}*, ROLE=web");
        let options = TargetOptions {
            include: vec![Filter::default(), filter],
            ..TargetOptions::default()
        };
        assert_eq!(unmet(&options, &BTreeSet::from([0])).len(), 1);
    }
}
