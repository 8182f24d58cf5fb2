//! Matches processes against the filters of the configuration. Pure.

use base::pattern::Pattern;

use crate::facts::Facts;
use crate::options::{Filter, TargetOptions};

/// A process that filters are matched against.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Subject<'a> {
    /// Name of the program. A `.dll` suffix is optional in patterns. The value of `OTEL_SERVICE_NAME` matches, too,
    /// because `gcwatch ps` shows it.
    pub(crate) name: &'a str,
    pub(crate) facts: &'a Facts,
}

impl Subject<'_> {
    /// Returns whether all conditions hold. A condition on an unreadable value does not hold.
    pub(crate) fn is_meant_by(&self, filter: &Filter) -> bool {
        let holds = |pattern: &Option<Pattern>, fits: &dyn Fn(&Pattern) -> bool| pattern.as_ref().is_none_or(fits);
        let name = |pattern: &Pattern| {
            let short = self.name.strip_suffix(".dll").unwrap_or(self.name);
            let service = || self.facts.variable("OTEL_SERVICE_NAME");
            pattern.fits(self.name) || pattern.fits(short) || service().is_some_and(|name| pattern.fits(&name))
        };
        let command_line = |pattern: &Pattern| self.facts.command_line.as_ref().is_some_and(|text| pattern.fits(text));
        let user = |wanted: &String| {
            let number = self.facts.uid.map(|uid| uid.to_string());
            self.facts.user.as_ref() == Some(wanted) || number.as_ref() == Some(wanted)
        };
        holds(&filter.name, &name)
            && holds(&filter.command_line, &command_line)
            && filter.user.as_ref().is_none_or(user)
            && filter.environment.iter().all(|(variable, pattern)| {
                let value = self.facts.variable(variable);
                value.is_some_and(|value| pattern.fits(&value))
            })
    }

    /// Returns whether one of `include` matches, or `include` is empty, and none of `exclude` matches.
    pub(crate) fn is_wanted(&self, include: &[Filter], exclude: &[Filter]) -> bool {
        let means = |filter: &Filter| self.is_meant_by(filter);
        (include.is_empty() || include.iter().any(means)) && !exclude.iter().any(means)
    }
}

/// Returns whether the configuration has a condition on the environment. Such a condition does not hold if the
/// environment is unreadable, which must be logged.
pub(crate) fn asks_for_environment(options: &TargetOptions) -> bool {
    let mut filters = options.include.iter().chain(&options.exclude);
    filters.any(|filter| !filter.environment.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> Pattern {
        Pattern(text.to_owned())
    }

    /// Scenario: processes are matched against includes, excludes and several conditions; one environment is
    /// unreadable.
    /// Guarantee: an empty include list matches all processes; all conditions of a filter must hold; excludes take
    /// precedence; a condition on an unreadable environment does not hold.
    #[test]
    fn filters_combine_includes_and_excludes() {
        let facts = Facts {
            environ: Some(b"ROLE=web\0OTEL_SERVICE_NAME=checkout\0".to_vec()),
            command_line: Some("dotnet Shop.dll --port 1".to_owned()),
            uid: Some(33),
            user: Some("web".to_owned()),
            ..Facts::default()
        };
        let subject = Subject {
            name: "Shop.dll",
            facts: &facts,
        };
        let by_name = |text: &str| Filter {
            name: Some(pattern(text)),
            ..Filter::default()
        };
        let by_role = |text: &str| Filter {
            environment: vec![("ROLE".to_owned(), pattern(text))],
            ..Filter::default()
        };
        let by_user = |text: &str| Filter {
            user: Some(text.to_owned()),
            ..Filter::default()
        };
        assert!(subject.is_wanted(&[], &[]));
        assert!(subject.is_wanted(&[by_name("Shop")], &[]));
        assert!(subject.is_wanted(&[by_name("Shop.*")], &[]));
        assert!(!subject.is_wanted(&[by_name("Sho")], &[]));
        assert!(
            subject.is_wanted(&[by_name("checkout")], &[]),
            "the service name matches"
        );
        assert!(subject.is_wanted(&[by_name("no"), by_role("w*")], &[]));
        assert!(!subject.is_wanted(&[by_role("w*")], &[by_user("33")]));
        assert!(!subject.is_wanted(&[], &[by_user("web")]));
        let both = Filter {
            name: Some(pattern("Shop")),
            user: Some("root".to_owned()),
            ..Filter::default()
        };
        assert!(subject.is_wanted(&[], &[both]), "one condition does not hold");
        let blind = Facts {
            environ: None,
            ..facts.clone()
        };
        let blind = Subject {
            name: "Shop.dll",
            facts: &blind,
        };
        assert!(!blind.is_wanted(&[by_role("*")], &[]));
        assert!(blind.is_wanted(&[], &[by_role("*")]));
    }
}
