//! From a draft to a rule.

mod condition;
mod exception;
mod params;
pub(super) mod role;
mod sample;
mod wording;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gc_rules::field::{Field, Root};
use gc_rules::rule::{Emit, On, Role, Rule, Severity, Status, Template, TemplatePart, Texts};
use serde_json::{Map, Value};
use strict_yaml::check::nearest;
use strict_yaml::path::KeyPath;
use strict_yaml::quote::quoted;
use strict_yaml::units::HumanDuration;

use super::draft::Draft;
use super::file::Words;
use super::groups::Groups;
use super::memory::Origin;
use super::partial_rule::PartialRule;
use super::report::Report;
use super::text::{entries, scalar};
use super::window::{Windows, digest, move_rule, moved};
use super::{Problem, lint};
use crate::document;
use crate::document::schema::schema;

/// Keys whose values are neither expressions nor templates.
const PLAIN: [&str; 21] = [
    "id",
    "title",
    "status",
    "role",
    "of",
    "consequence_of",
    "on",
    "for",
    "keep_firing_for",
    "cooldown",
    "group",
    "severity",
    "description",
    "remedy",
    "source",
    "runbook_url",
    "emit",
    "evidence",
    "expect",
    "by",
    "enabled",
];
/// The annotation with the page of a rule.
const RUNBOOK: &str = "runbook_url";
/// The default of `keep_firing_for`.
const KEEP_FIRING_NS: u64 = 60_000_000_000;

/// Builds rules from drafts.
pub(super) struct RuleBuilder<'c, 'f> {
    /// Macros and lists by file.
    pub(super) words: &'c mut [Words],
    pub(super) groups: &'c Groups,
    pub(super) used_groups: BTreeSet<usize>,
    /// Windows of the rules so far.
    pub(super) windows: Windows,
    pub(super) report: &'c mut Report<'f>,
    /// No file was refused.
    pub(super) complete: bool,
    /// When exceptions expire, and what is reported long after it.
    pub(super) expiries: Vec<(u64, Problem)>,
}

/// The expressions of a rule as they are written.
fn texts_of(draft: &Draft<'_>) -> Texts {
    let text = |key: &str| -> Arc<str> {
        let scalar = draft.keys.get(key).and_then(|placed| scalar(placed.node));
        scalar.map_or("", |scalar| scalar.text.trim()).into()
    };
    let mut windows = Vec::new();
    for window in draft
        .keys
        .get("let")
        .map(|placed| entries(placed.node))
        .unwrap_or_default()
    {
        let keys = entries(&window.value).iter();
        let keys = keys.filter_map(|own| Some(format!("{}: {}", own.key, scalar(&own.value)?.text.trim())));
        windows.push((window.key.as_str().into(), keys.collect::<Vec<_>>().join(", ").into()));
    }
    let worse = draft
        .keys
        .get("worse")
        .map(|placed| entries(placed.node))
        .unwrap_or_default()
        .iter();
    let worse = worse.filter_map(|own| Some((own.key.as_str().into(), scalar(&own.value)?.text.trim().into())));
    let worse = worse.collect();
    Texts {
        select: text("select"),
        when: text("when"),
        clear: text("clear"),
        harm: text("harm"),
        explains: text("explains"),
        lasting: text("lasting"),
        worse,
        windows,
    }
}

impl RuleBuilder<'_, '_> {
    /// The rule; `None` if it is invalid, which is reported.
    pub(super) fn rule(&mut self, draft: &Draft<'_>) -> Option<Rule> {
        let errors = self.report.errors();
        let keys = self.plain(draft);
        let on = keys.on;
        let mut partial = PartialRule {
            id: &draft.id,
            on,
            places: BTreeMap::new(),
            windows: Vec::new(),
            measures: Vec::new(),
            params: BTreeMap::new(),
            params_at: BTreeMap::new(),
            named: BTreeSet::new(),
        };
        let params = self.params_of(draft, &mut partial);
        self.windows_of(draft, &mut partial);

        let roots: &[Root] = match on {
            Some(On::Process) => &[Root::Process, Root::Stream],
            Some(On::Service) => &[Root::Service, Root::Process],
            Some(On::Watcher) => &[Root::Watcher, Root::Process],
            Some(On::Gc) | None => &[Root::Gc, Root::Process, Root::Stream],
        };
        let select = self.of_key(draft, &mut partial, "select", &[Root::Process]);
        let select = self.expected(draft, &partial, &keys).or(select);
        if let Some(placed) = draft.keys.get("by").filter(|_| keys.by.is_some()) {
            let fault = match keys.on {
                Some(On::Service) if keys.expect.is_empty() => None,
                Some(On::Service) => Some("a service that is expected has no version; remove `by` or `expect`"),
                _ => Some("only rules `on: service` divide services; remove it"),
            };
            if let Some(fault) = fault {
                let message = format!("{}: by: {fault}", draft.id);
                self.report.error(placed.file, placed.node.at, message);
            }
        }
        let when = self.of_key(draft, &mut partial, "when", roots);
        let clear = self.of_key(draft, &mut partial, "clear", roots);
        let worse = self.worse(draft, &mut partial, &keys, roots);
        let role = self.role(draft, &mut partial, &keys, roots);
        let exceptions = self.exceptions(draft, &mut partial, roots);
        let summary = draft.keys.get("summary").copied();
        let summary = summary.and_then(|placed| self.template(placed, &mut partial, "summary", roots));
        let labels = self.texts(draft, &mut partial, "labels", roots);
        let mut annotations = self.texts(draft, &mut partial, "annotations", roots);
        let runbook_url = keys.runbook_url.as_deref();
        let runbook_url = runbook_url.map(|url| Arc::from(url.trim().replace("{id}", &draft.id)));
        if let Some(url) = &runbook_url
            && !annotations.iter().any(|(name, _)| **name == *RUNBOOK)
        {
            let parts = vec![TemplatePart::Text(Arc::<str>::as_ref(url).into())];
            annotations.push((RUNBOOK.into(), Template { parts }));
        }
        self.timing(draft, &keys, on);
        // Causes and notes are in no group: that of the defaults is for the other rules of the file.
        let is_harm = matches!(keys.role, None | Some(Role::Symptom));
        let group = self.group(draft, &keys).filter(|_| is_harm);
        if self.report.errors() > errors {
            return None;
        }

        let ns = |duration: Option<HumanDuration>, usual: u64| {
            duration.map_or(usual, |duration| {
                u64::try_from(duration.0.as_nanos()).unwrap_or(u64::MAX)
            })
        };
        let text = |text: Option<String>| -> Arc<str> { text.as_deref().unwrap_or_default().trim().into() };
        let when = when?;
        let mut rule = Rule {
            id: draft.id.as_str().into(),
            title: text(keys.title),
            description: text(keys.description),
            remedy: text(keys.remedy),
            source: text(keys.source),
            status: keys.status.unwrap_or(Status::Experimental),
            role: keys.role,
            of: keys.of.iter().map(|id| id.0.as_str().into()).collect(),
            amount: role.amount,
            unit: role.unit,
            lasting: role.lasting,
            consequence_of: keys.consequence_of.iter().map(|id| id.0.as_str().into()).collect(),
            severity: keys.severity.unwrap_or(Severity::Info),
            on: on?,
            select: select.map(|compiled| compiled.expression),
            expect: keys.expect.iter().map(|name| name.trim().into()).collect(),
            by: keys.by,
            when: when.expression,
            clear: clear.map(|compiled| compiled.expression),
            worse,
            params,
            texts: texts_of(draft),
            runbook_url,
            windows: Vec::new(),
            hold_ns: ns(keys.hold, 0),
            keep_firing_ns: ns(keys.keep_firing_for, KEEP_FIRING_NS),
            cooldown_ns: ns(keys.cooldown, 0),
            group,
            labels,
            summary: summary?.template,
            annotations,
            exceptions,
            emit: keys.emit.map_or_else(Emit::default, Emit::from_iter),
            evidence: keys.evidence.into_iter().flatten().map(|name| name.0).collect(),
            enabled: keys.enabled.unwrap_or(true),
            location: format!("{}:{}", self.report.name(draft.file), draft.at).into(),
            meaning: 0,
        };
        if let Some(select) = &rule.select {
            lint::selected(draft, select, &rule, &partial, self.report);
        }
        lint::rule(draft, &rule, &when.fields, &partial, self.report);
        self.settle(&mut rule, &partial);
        Some(rule)
    }

    /// The keys that are neither expressions nor templates. Their faults were reported when the file was checked.
    fn plain(&mut self, draft: &Draft<'_>) -> document::Rule {
        let mut values = Map::new();
        for key in PLAIN {
            let value = draft.keys.get(key).and_then(|placed| {
                let path = KeyPath::of("rules").index(0).key(key);
                schema().check(placed.node, &path).0
            });
            values.extend(value.map(|value| (key.to_owned(), value)));
        }
        serde_json::from_value(Value::Object(values)).unwrap_or_else(|error| {
            // What the check accepts, the types accept.
            let message = format!("{}: the keys are inconsistent: {error}", draft.id);
            self.report.error(draft.file, draft.at, message);
            document::Rule::default()
        })
    }

    /// Keys that do not apply to the kind of rule.
    fn timing(&mut self, draft: &Draft<'_>, keys: &document::Rule, on: Option<On>) {
        if on != Some(On::Gc) {
            return;
        }
        let held = keys.hold.is_some_and(|hold| !hold.0.is_zero());
        let faults = [
            (
                "for",
                held,
                "a rule `on: gc` fires at once; use `on: process` with a window",
            ),
            (
                "clear",
                true,
                "the alert of a rule `on: gc` ends `keep_firing_for` after the last matching collection; use that",
            ),
        ];
        for (key, applies, why) in faults {
            if let Some(placed) = draft.keys.get(key).filter(|_| applies) {
                let message = format!("{}: {key}: {why}", draft.id);
                self.report.error(placed.file, placed.node.at, message);
            }
        }
    }

    fn group(&mut self, draft: &Draft<'_>, keys: &document::Rule) -> Option<usize> {
        let name = &keys.group.as_ref()?.0;
        let place = self.groups.places.get(name).copied();
        match place {
            Some(place) => {
                self.used_groups.insert(place);
            }
            // It may be in a file that was refused.
            None if !self.complete => {}
            None => {
                let near = nearest(name, self.groups.places.keys().map(String::as_str));
                let hint = near.map_or_else(
                    || "add it to `groups`".to_owned(),
                    |near| format!("did you mean `{near}`?"),
                );
                let message = format!("{}: group: there is no group {}; {hint}", draft.id, quoted(name));
                let placed = draft.keys.get("group");
                let (file, at) = placed.map_or((draft.file, draft.at), |placed| (placed.file, placed.node.at));
                self.report.error(file, at, message);
            }
        }
        place
    }

    /// Adds the windows that the rule uses to the set, and computes its digest.
    fn settle(&mut self, rule: &mut Rule, partial: &PartialRule<'_>) {
        if !rule.enabled {
            // It is never evaluated: no process has to keep samples for it, and none of its windows is one of the set.
            move_rule(rule, &|_| usize::MAX);
            return;
        }
        let mut places = vec![usize::MAX; partial.windows.len()];
        for (local, place) in partial.windows.iter().zip(&mut places) {
            if let Some(window) = local.window.as_ref().filter(|_| local.used) {
                *place = self.windows.place(window, || Origin {
                    rule: partial.id.into(),
                    name: local.name.into(),
                    file: local.file,
                    at: local.at,
                });
                rule.windows.push((local.name.into(), *place));
            }
        }
        move_rule(rule, &|local| places.get(local).copied().unwrap_or(usize::MAX));
        // The place of a window says nothing of what it is.
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a digest; half of it tells windows apart, too"
        )]
        let meaning = |place: usize| self.windows.meaning(place) as usize;
        let canonical = |expression| moved(expression, &meaning);
        rule.meaning = digest(&(
            (rule.on, rule.by),
            rule.select.as_ref().map(canonical),
            canonical(&rule.when),
            rule.clear.as_ref().map(canonical),
            rule.hold_ns,
            rule.keep_firing_ns,
            rule.cooldown_ns,
        ));
    }
}

/// The fields in an expression that determine when a window is sampled.
fn roots_of(fields: &[&'static Field]) -> BTreeSet<&'static str> {
    fields
        .iter()
        .filter_map(|field| match field.root {
            Root::Gc => Some("gc"),
            Root::Suspension => Some("suspension"),
            Root::Process | Root::Stream | Root::Service | Root::Watcher => None,
        })
        .collect()
}
