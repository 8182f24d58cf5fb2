//! Builds a rule from a draft.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::sync::Arc;

use base::quote::quoted;
use base::units::HumanDuration;
use jiff::Timestamp;
use rule_engine::expression::{Double, Expression, Node};
use rule_engine::field::{EXPECTED, Root};
use rule_engine::rule::{
    ComparisonKey, EvaluationTrigger, Exception, Extent, Function, HarmUnit, Param, Role, Rule, Severity, Template,
    TemplatePart, Texts, Window,
};
use rule_engine::value::Type;
use serde_json::{Map, Value};
use strict_yaml::check::did_you_mean;
use strict_yaml::path::KeyPath;
use strict_yaml::yaml::{Entry, Position, Scalar};

use super::draft::Draft;
use super::file::{FileDefinitions, typed};
use super::groups::Groups;
use super::memory::Origin;
use super::partial_rule::{LocalWindow, PartialRule};
use super::report::{Place, PlacedValue, Report};
use super::text::{condition_trap, entries, entry, items, scalar, template_trap};
use super::window::{Windows, digest, move_rule, moved};
use super::{Level, Problem, lint};
use crate::compile::{CompiledExpression, RequiredType, Unit, compile};
use crate::document::schema::schema;
use crate::document::{self, ExceptionKeys, Moment, WindowKeys, is_name};
use crate::template;

/// The annotation with the URL of a rule's page.
const RUNBOOK: &str = "runbook_url";
/// The default of `keep_firing_for`.
const KEEP_FIRING_NS: u64 = 60_000_000_000;
/// The default of `unknown_share`.
const UNKNOWN_SHARE: f64 = 0.1;
/// Interval between ticks, in nanoseconds.
const TICK_NS: u64 = 1_000_000_000;
/// Maximum number of labels of a rule, and of annotations.
const MAX_TEXTS: usize = 20;
/// Labels that every alert has, which a rule cannot set.
const TAKEN_LABELS: [&str; 7] = ["alertname", "group", "instance", "pid", "process", "rule", "severity"];
/// Keys of a rule, which cannot be names of annotations.
const TAKEN_ANNOTATIONS: [&str; 5] = ["description", "remedy", "source", "summary", "title"];
/// Keys that require a role, each with this role.
const KEYS_OF_ROLES: [(&str, Role); 5] = [
    ("harm", Role::Symptom),
    ("lasting", Role::Symptom),
    ("of", Role::Cause),
    ("explains", Role::Cause),
    ("consequence_of", Role::Cause),
];

/// State shared by all rules while they are built.
pub(super) struct SharedState<'f> {
    /// Macros by file.
    pub(super) words: Vec<FileDefinitions>,
    pub(super) groups: Groups,
    pub(super) used_groups: BTreeSet<usize>,
    /// Windows of the rules so far.
    pub(super) windows: Windows,
    pub(super) report: Report<'f>,
    /// Whether no file was refused.
    pub(super) complete: bool,
    /// Times at which exceptions expire, in Unix nanoseconds, and the warnings that apply some time afterwards.
    pub(super) expiries: Vec<(u64, Problem)>,
}

/// Builder of one rule from its draft.
struct RuleBuilder<'c, 'f, 'd> {
    common: &'c mut SharedState<'f>,
    partial: PartialRule<'d>,
    /// Values of the keys without layers. Faults in these values were reported when the file was checked.
    keys: document::Rule,
    /// Roots of the fields that its conditions can use.
    roots: &'static [Root],
}

/// Returns the rule of a draft, or `None` if it is invalid or left out, which is reported.
pub(super) fn rule(draft: &Draft<'_>, common: &mut SharedState<'_>) -> Option<Rule> {
    let (problems, errors) = (common.report.problems(), common.report.errors());
    let keys = keys_of(draft, &mut common.report);
    let builder = RuleBuilder {
        common,
        partial: PartialRule::new(draft),
        roots: match keys.on {
            Some(EvaluationTrigger::Process) => &[Root::Process, Root::Stream],
            Some(EvaluationTrigger::Service) => &[Root::Service, Root::Process],
            Some(EvaluationTrigger::Watcher) => &[Root::Watcher, Root::Process],
            Some(EvaluationTrigger::Gc) | None => &[Root::Gc, Root::Process, Root::Stream],
        },
        keys,
    };
    let rule = builder.build(errors);
    common.report.excuse(draft.part, problems, errors);
    rule
}

fn keys_of(draft: &Draft<'_>, report: &mut Report<'_>) -> document::Rule {
    let value = |(key, placed): (&&str, &PlacedValue<'_>)| {
        let path = KeyPath::from_dotted("rules").index(0).key(key);
        Some(((*key).to_owned(), schema().check(placed.node, &path).0?))
    };
    let values: Map<String, Value> = draft.keys.iter().filter_map(value).collect();
    serde_json::from_value(Value::Object(values)).unwrap_or_else(|error| {
        // This error is unexpected, because the types accept everything that the check accepts.
        let message = format!("{}: the keys are inconsistent: {error}", draft.id);
        report.error(draft.begin, message);
        document::Rule::default()
    })
}

/// Returns the expressions of a rule as written.
fn texts_of(draft: &Draft<'_>) -> Texts {
    let text = |key: &str| -> Arc<str> {
        let scalar = draft.keys.get(key).and_then(|placed| scalar(placed.node));
        scalar.map_or("", |scalar| scalar.text.trim()).into()
    };
    let below = |key: &str| draft.keys.get(key).map(|placed| entries(placed.node));
    let windows = below("let").unwrap_or_default().iter().map(|window| {
        let keys = entries(&window.value).iter();
        let keys = keys.filter_map(|own| Some(format!("{}: {}", own.key, scalar(&own.value)?.text.trim())));
        (window.key.as_str().into(), keys.collect::<Vec<_>>().join(", ").into())
    });
    let worse = below("worse").unwrap_or_default().iter();
    let worse = worse.filter_map(|own| Some((own.key.as_str().into(), scalar(&own.value)?.text.trim().into())));
    Texts {
        select: text("select"),
        when: text("when"),
        clear: text("clear"),
        harm: text("harm"),
        explains: text("explains"),
        lasting: text("lasting"),
        worse: worse.collect(),
        windows: windows.collect(),
    }
}

fn ns(duration: HumanDuration) -> u64 {
    u64::try_from(duration.0.as_nanos()).unwrap_or(u64::MAX)
}

impl<'d> RuleBuilder<'_, '_, 'd> {
    /// Builds the rule, or returns `None` if it has errors or is left out. `errors` is the number of errors before this
    /// rule.
    fn build(mut self, errors: usize) -> Option<Rule> {
        let (draft, roots) = (self.partial.draft, self.roots);
        let params = self.params();
        self.windows();
        let select = self.compile_key("select", &[Root::Process], RequiredType::Bool);
        let select = self.expected().or(select);
        self.check_by();
        let when = self.compile_key("when", roots, RequiredType::Bool);
        let clear = self.compile_key("clear", roots, RequiredType::Bool);
        let worse = self.worse();
        self.check_role();
        let (amount, unit) = self.amount().unzip();
        let lasting = self.compile_key("lasting", roots, RequiredType::Number);
        let exceptions = self.exceptions();
        let summary = draft.keys.get("summary").copied();
        let summary = summary.and_then(|placed| self.template(placed, "summary"));
        let labels = self.texts("labels");
        let mut annotations = self.texts("annotations");
        let runbook_url = self.keys.runbook_url.as_deref();
        let runbook_url = runbook_url.map(|url| Arc::from(url.trim().replace("{id}", &draft.id)));
        if let Some(url) = &runbook_url
            && !annotations.iter().any(|(name, _)| **name == *RUNBOOK)
        {
            let parts = vec![TemplatePart::Text(Arc::<str>::as_ref(url).into())];
            annotations.push((RUNBOOK.into(), Template { parts }));
        }
        self.check_timing();
        // Causes and notes have no group. The default group applies only to other rules of the file.
        let is_harm = matches!(self.keys.role, None | Some(Role::Symptom));
        let group = self.group().filter(|_| is_harm);
        if self.common.report.errors() > errors || self.common.report.left_out.parts.contains(&draft.part) {
            return None;
        }

        let text = |text: Option<String>| -> Arc<str> { text.as_deref().unwrap_or_default().trim().into() };
        let keys = std::mem::take(&mut self.keys);
        let when = when?;
        let mut rule = Rule {
            id: draft.id.as_str().into(),
            title: text(keys.title),
            description: text(keys.description),
            remedy: text(keys.remedy),
            source: text(keys.source),
            status: keys.status.unwrap_or_default(),
            role: keys.role,
            of: keys.of.iter().map(|id| id.0.as_str().into()).collect(),
            amount,
            unit,
            lasting: lasting.map(|compiled| compiled.expression),
            consequence_of: keys.consequence_of.iter().map(|id| id.0.as_str().into()).collect(),
            severity: keys.severity.unwrap_or_default(),
            on: keys.on?,
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
            hold_ns: keys.hold.map_or(0, ns),
            keep_firing_ns: keys.keep_firing_for.map_or(KEEP_FIRING_NS, ns),
            cooldown_ns: keys.cooldown.map_or(0, ns),
            group,
            labels,
            summary: summary?.template,
            annotations,
            exceptions,
            evidence: keys.evidence.into_iter().flatten().map(|name| name.0).collect(),
            enabled: keys.enabled.unwrap_or(true),
            location: format!("{}:{}", self.common.report.name(draft.begin.file), draft.begin.at).into(),
            meaning: 0,
        };
        lint::rule(&rule, &when.fields, &self.partial, &mut self.common.report);
        self.settle(&mut rule);
        Some(rule)
    }

    /// Reports an error about a key of the rule.
    fn fault(&mut self, key: &str, message: impl Display) {
        let draft = self.partial.draft;
        let message = format!("{}: {key}: {message}", draft.id);
        self.common.report.error(draft.place(key), message);
    }

    /// Reports an error at the start of the rule, such as a missing key.
    fn missing(&mut self, message: impl Display) {
        let draft = self.partial.draft;
        self.common
            .report
            .error(draft.begin, format!("{}: {message}", draft.id));
    }

    fn has(&self, key: &str) -> bool {
        self.partial.draft.keys.contains_key(key)
    }

    fn check_by(&mut self) {
        match self.keys.on {
            _ if self.keys.by.is_none() => {}
            Some(EvaluationTrigger::Service) if self.keys.expect.is_empty() => {}
            Some(EvaluationTrigger::Service) => {
                self.fault("by", "an expected service has no version; remove `by` or `expect`")
            }
            _ => self.fault("by", "only rules `on: service` divide services; remove it"),
        }
    }

    /// Reports keys that do not apply to rules `on: gc`.
    fn check_timing(&mut self) {
        if self.keys.on != Some(EvaluationTrigger::Gc) {
            return;
        }
        if self.keys.hold.is_some_and(|hold| !hold.0.is_zero()) {
            self.fault("for", "a rule `on: gc` fires at once; use `on: process` with a window");
        }
        if self.has("clear") {
            let why =
                "the alert of a rule `on: gc` ends `keep_firing_for` after the last matching collection; use that";
            self.fault("clear", why);
        }
    }

    fn group(&mut self) -> Option<usize> {
        let name = &self.keys.group.as_ref()?.0;
        let place = self.common.groups.places.get(name).copied();
        match place {
            Some(place) => {
                self.common.used_groups.insert(place);
            }
            // The group can be in a file that was refused.
            None if !self.common.complete => {}
            None => self.fault("group", self.common.groups.unknown(name)),
        }
        place
    }

    /// Adds the windows that the rule uses to the set, and computes the hash of its meaning.
    fn settle(&mut self, rule: &mut Rule) {
        if !rule.enabled {
            // A disabled rule is never evaluated. Its windows are not added to the set, so that no process keeps
            // samples for them.
            move_rule(rule, &|_| usize::MAX);
            return;
        }
        let windows = &mut self.common.windows;
        let mut places = vec![usize::MAX; self.partial.windows.len()];
        for (local, place) in self.partial.windows.iter().zip(&mut places) {
            if let Some(window) = local.window.as_ref().filter(|_| local.used) {
                *place = windows.place(window, || Origin {
                    rule: self.partial.draft.id.as_str().into(),
                    name: local.name.into(),
                    place: local.place,
                });
                rule.windows.push((local.name.into(), *place));
            }
        }
        move_rule(rule, &|local| places.get(local).copied().unwrap_or(usize::MAX));
        // The index of a window is not part of its meaning.
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a digest; half of it tells windows apart, too"
        )]
        let meaning = |place: usize| windows.meaning(place) as usize;
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

    // Expressions and templates, whose faults are reported at their positions.

    /// Compiles the expression of a key of the rule.
    fn compile_key(&mut self, key: &str, roots: &[Root], wanted: RequiredType) -> Option<CompiledExpression> {
        let placed = *self.partial.draft.keys.get(key)?;
        self.expression(placed, key, roots, wanted)
    }

    fn expression(
        &mut self,
        placed: PlacedValue<'_>,
        key: &str,
        roots: &[Root],
        wanted: RequiredType,
    ) -> Option<CompiledExpression> {
        let scalar = scalar(placed.node)?;
        let text = scalar.text.as_str();
        if text.is_empty() {
            // The check reports an empty expression.
            return None;
        }
        let what = format!("{}: {key}", self.partial.draft.id);
        let report = &mut self.common.report;
        if let Some(trap) = condition_trap(report.lines(placed), placed, scalar) {
            report.error(placed.place(), format!("{what}: {trap}"));
            return None;
        }
        let words = self.common.words.get_mut(placed.file)?;
        match compile(text, &self.partial.names(words, roots), wanted) {
            Ok(compiled) => {
                report.mistakes(placed, text, &what, &compiled.warnings, Level::Warning);
                self.partial.uses(&compiled, words);
                Some(compiled)
            }
            Err(mut mistakes) => {
                mistakes.retain(|mistake| !words.is_reported(text, mistake));
                // Only the part that contains the removed word is left out. If this part is an override, the rule that
                // it changes stays in force.
                if mistakes.iter().any(|mistake| mistake.is_removed) {
                    report.left_out.parts.extend(placed.part);
                }
                report.mistakes(placed, text, &what, &mistakes, Level::Error);
                None
            }
        }
    }

    fn template(&mut self, placed: PlacedValue<'_>, key: &str) -> Option<template::CompiledTemplate> {
        let scalar = scalar(placed.node)?;
        let what = format!("{}: {key}", self.partial.draft.id);
        let report = &mut self.common.report;
        if let Some(trap) = template_trap(report.lines(placed), placed, scalar) {
            report.error(placed.place(), format!("{what}: {trap}"));
            return None;
        }
        let words = self.common.words.get_mut(placed.file)?;
        let names = self.partial.names(words, self.roots);
        // A block scalar ends with a line break, which is not part of the string.
        let text = scalar.text.trim_end();
        let mut complete = true;
        let is_value = |text: &str| compile(text, &names, RequiredType::Any).is_ok();
        let mut compile = |text: &str| {
            compile(text, &names, RequiredType::Any).map_err(|mut mistakes| {
                mistakes.retain(|mistake| !words.is_reported(text, mistake));
                complete = false;
                mistakes
            })
        };
        let filling = template::parse(text, &mut compile, &is_value);
        if filling.mistakes.iter().any(|mistake| mistake.is_removed) {
            report.left_out.parts.extend(placed.part);
        }
        report.mistakes(placed, text, &what, &filling.mistakes, Level::Error);
        report.mistakes(placed, text, &what, &filling.warnings, Level::Warning);
        for value in &filling.values {
            self.partial.uses(value, words);
            for warning in &value.warnings {
                report.warning(placed.place(), format!("{what}: {}", warning.message));
            }
        }
        (filling.mistakes.is_empty() && complete).then_some(filling)
    }

    /// Compiles labels or annotations. The last value of each name is used.
    fn texts(&mut self, key: &str) -> Vec<(Arc<str>, Template)> {
        let draft = self.partial.draft;
        let mut last: BTreeMap<&str, (Position, PlacedValue<'_>)> = BTreeMap::new();
        for layer in draft.layers(key) {
            for entry in entries(layer.node) {
                last.insert(&entry.key, (entry.at, layer.with(&entry.value)));
            }
        }
        let mut texts = Vec::new();
        if last.len() > MAX_TEXTS {
            self.missing(format!("{key}: there are {}; at most {MAX_TEXTS}", last.len()));
            return texts;
        }
        for (name, (at, placed)) in last {
            if let Err(message) = text_name(name, key) {
                let message = format!("{}: {key}: {message}", draft.id);
                self.common.report.error(placed.at(at), message);
                continue;
            }
            // An empty value removes the value of the defaults or of the rule.
            let what = format!("{key}.{name}");
            if let Some(filling) = self.template(placed, &what) {
                if key == "labels" {
                    let (what, report) = (format!("{}: {what}", draft.id), &mut self.common.report);
                    lint::label_name(placed.at(at), &draft.id, name, report);
                    lint::label(placed, &what, &filling.values, report);
                }
                texts.push((name.into(), filling.template));
            }
        }
        texts
    }

    /// Returns the condition under which a rule with `expect` applies to a service. Returns `None` if the rule has no
    /// `expect`, or if `expect` is invalid.
    fn expected(&mut self) -> Option<CompiledExpression> {
        let placed = self.partial.draft.keys.get("expect");
        let placed = placed.filter(|_| !self.keys.expect.is_empty())?;
        let bad = |name: &&String| name.trim().is_empty() || name.contains(['\'', '\\']) || name.len() > 200;
        let fault = if self.keys.on != Some(EvaluationTrigger::Service) {
            Some("only rules `on: service` expect services".to_owned())
        } else if self.has("select") {
            Some("the rule applies to the services that it names; remove `select`".to_owned())
        } else {
            let bad = self.keys.expect.iter().find(bad);
            bad.map(|name| format!("{} cannot be the name of a service", quoted(name)))
        };
        if let Some(fault) = fault {
            self.fault("expect", fault);
            return None;
        }
        let names: Vec<String> = self
            .keys
            .expect
            .iter()
            .map(|name| format!("'{}'", name.trim()))
            .collect();
        let text = format!(
            "has(process.attributes['{EXPECTED}']) && process.service in [{}]",
            names.join(", ")
        );
        let words = self.common.words.get(placed.file)?;
        compile(&text, &self.partial.names(words, &[Root::Process]), RequiredType::Bool).ok()
    }

    /// Compiles the conditions of higher severities, in ascending order.
    fn worse(&mut self) -> Vec<(Severity, Expression)> {
        let mut all = Vec::new();
        let Some(placed) = self.partial.draft.keys.get("worse") else {
            return all;
        };
        for severity in Severity::ALL.iter().copied() {
            let Some(own) = entry(placed.node, severity.name()) else {
                continue;
            };
            let key = format!("worse.{}", severity.name());
            if self.keys.severity.is_some_and(|least| severity <= least) {
                let message = format!(
                    "{}: {key}: `severity` already sets at least this severity; set a higher one",
                    self.partial.draft.id
                );
                self.common.report.error(placed.at(own.at), message);
            }
            let condition = self.expression(placed.with(&own.value), &key, self.roots, RequiredType::Bool);
            all.extend(condition.map(|condition| (severity, condition.expression)));
        }
        all
    }

    /// Compiles the conditions under which the rule does not fire.
    fn exceptions(&mut self) -> Vec<Exception> {
        let path = KeyPath::from_dotted("rules").index(0).key("exceptions").index(0);
        let draft = self.partial.draft;
        let mut exceptions = Vec::new();
        for layer in draft.layers("exceptions") {
            for item in items(layer.node) {
                let name = entry(item, "name").and_then(|name| scalar(&name.value));
                let name = name.map_or("", |name| name.text.trim());
                let key = if name.is_empty() {
                    "exceptions".to_owned()
                } else {
                    format!("exceptions.{name}")
                };
                // Invalid keys are reported by the check.
                let keys: ExceptionKeys = typed(item, &path).unwrap_or_default();
                // A missing condition is reported by the check.
                let Some(when) = entry(item, "when") else { continue };
                let compiled = self.expression(layer.with(&when.value), &key, self.roots, RequiredType::Bool);
                let Some(condition) = compiled else { continue };
                if let Some(Moment(until)) = keys.until {
                    let message = format!("{}: {key}: until: it expired on {}; remove it", draft.id, day(until));
                    let at = entry(item, "until").map_or(item.at, |until| until.value.at);
                    let problem = self.common.report.problem(layer.at(at), message, Level::Warning);
                    self.common.expiries.push((until, problem));
                }
                exceptions.push(Exception {
                    name: name.into(),
                    when: condition.expression,
                    until_unix_ns: keys.until.map(|until| until.0),
                });
            }
        }
        exceptions
    }

    // The role of a rule.

    /// Checks the keys that require a role.
    fn check_role(&mut self) {
        for (key, role) in KEYS_OF_ROLES {
            if self.has(key) && self.keys.role != Some(role) {
                self.fault(key, format!("only rules `role: {}` can have it", role.name()));
            }
        }
        match self.keys.role {
            Some(Role::Cause | Role::Note) => {
                for key in ["severity", "worse"] {
                    if self.has(key) {
                        self.fault(key, "a cause or a note is information; remove it");
                    }
                }
            }
            _ if self.keys.severity.is_none() && !self.has("severity") => {
                self.missing("severity is missing; only causes and notes can omit it");
            }
            _ => {}
        }
        if self.keys.role == Some(Role::Cause) {
            for key in ["of", "explains"] {
                if !self.has(key) {
                    self.missing(format!("{key} is missing: a cause explains symptoms"));
                }
            }
        }
    }

    /// Compiles the expression of `harm` or `explains`, and determines its unit. Returns `None` if the rule has no such
    /// key, or if the expression or its unit is invalid.
    fn amount(&mut self) -> Option<(Expression, HarmUnit)> {
        let key = match self.keys.role? {
            Role::Symptom => "harm",
            Role::Cause => "explains",
            Role::Note => return None,
        };
        let compiled = self.compile_key(key, self.roots, RequiredType::Number)?;
        let unit = match compiled.unit {
            Unit::Named("ns") => HarmUnit::Nanoseconds,
            Unit::Named("bytes") => HarmUnit::Bytes,
            Unit::Named("bytes per hour") => HarmUnit::BytesPerMinute,
            other => {
                let message = format!(
                    "it is {}; a harm is measured in ns, bytes, or bytes per hour (a slope)",
                    other.phrase()
                );
                self.fault(key, message);
                return None;
            }
        };
        Some((compiled.expression, unit))
    }

    // Parameters: one expression per name. A parameter with one value is a constant, so conditions with it are checked
    // as if the value were written there. A parameter with other values for some processes is a choice between the
    // values by the `select` of their entries. An unknown `select` counts as false.

    /// Reads the parameters of the rule for its expressions.
    fn params(&mut self) -> Vec<Param> {
        let draft = self.partial.draft;
        let mut own: Values<'_> = BTreeMap::new();
        for layer in draft.layers("params") {
            own.extend(values(*layer));
        }
        for (name, (place, _)) in &own {
            if let Some(fault) = self.name_fault(place.file, name) {
                let message = format!("{}: params: {fault}", draft.id);
                self.common.report.error(*place, message);
            }
            lint::name_of_fields(*place, &format!("{}: params", draft.id), name, &mut self.common.report);
        }
        let special = self.special(&own);
        let mut params = Vec::new();
        for (name, (place, scalar)) in &own {
            let others = special
                .iter()
                .filter_map(|special| Some((special, special.values.get(name)?)));
            let mut kind = constant(scalar).0;
            for (_, (place, scalar)) in others.clone() {
                match (kind, constant(scalar).0) {
                    (before, other) if before == other => {}
                    (before, other) if before.is_number() && other.is_number() => kind = Type::Double,
                    (before, now) => {
                        let message = format!(
                            "{}: params_for: `{name}` is of type {}, but of type {} here",
                            draft.id,
                            before.name(),
                            now.name()
                        );
                        self.common.report.error(*place, message);
                    }
                }
            }
            let node = others
                .clone()
                .rev()
                .fold(value(scalar, kind), |otherwise, (special, (_, scalar))| {
                    let select = special.select.node.clone();
                    let known = Node::Has(Box::new(select.clone()));
                    let applies = Node::And([known, select].into());
                    Node::If(Box::new((applies, value(scalar, kind), otherwise)))
                });
            let shown = |scalar: &Scalar| -> Arc<str> { scalar.text.trim().into() };
            params.push(Param {
                name: (*name).into(),
                value: shown(scalar),
                others: others
                    .map(|(special, (_, scalar))| (special.text.trim().into(), shown(scalar)))
                    .collect(),
            });
            let known = &mut self.partial;
            known.params.insert((*name).to_owned(), Expression { kind, node });
            known.params_at.insert((*name).to_owned(), *place);
        }
        params
    }

    /// Reads the entries of `params_for`, in descending precedence.
    fn special(&mut self, own: &Values<'_>) -> Vec<ProcessValues<'d>> {
        let draft = self.partial.draft;
        let mut all = Vec::new();
        for layer in draft.layers("params_for").iter().rev() {
            for item in items(layer.node) {
                let (Some(select), Some(params)) = (entry(item, "select"), entry(item, "params")) else {
                    continue;
                };
                let values: Values<'d> = values(layer.with(&params.value)).collect();
                for (name, (place, _)) in values.iter().filter(|(name, _)| !own.contains_key(*name)) {
                    let hint = did_you_mean(name, own.keys().copied());
                    let hint =
                        hint.unwrap_or_else(|| "set its value for all other processes under `params`".to_owned());
                    let message = format!(
                        "{}: params_for: the rule has no parameter {}; {hint}",
                        draft.id,
                        quoted(name)
                    );
                    self.common.report.error(*place, message);
                }
                let text = scalar(&select.value).map_or("", |scalar| &scalar.text);
                let of = layer.with(&select.value);
                if let Some(compiled) = self.expression(of, "params_for.select", &[Root::Process], RequiredType::Bool) {
                    all.push(ProcessValues {
                        select: compiled.expression,
                        text,
                        values,
                    });
                }
            }
        }
        all
    }

    /// Returns the fault in the name of a parameter or a window, or `None` if the name is valid.
    fn name_fault(&self, file: usize, name: &str) -> Option<String> {
        let words = self.common.words.get(file);
        let taken = words.is_some_and(|words| words.places.contains_key(name));
        let fault = is_name(name).err();
        fault.or_else(|| taken.then(|| format!("the file has a macro `{name}`")))
    }

    // The windows under `let`, and their samples.

    /// Reads the windows of the rule.
    fn windows(&mut self) {
        let draft = self.partial.draft;
        let Some(placed) = draft.keys.get("let").copied() else {
            return;
        };
        for own in entries(placed.node) {
            let name = &own.key;
            let place = placed.at(own.at);
            let is_param = self.partial.params.contains_key(name);
            let fault = self.name_fault(placed.file, name);
            if let Some(fault) = fault.or_else(|| is_param.then(|| format!("the rule has a parameter `{name}`"))) {
                self.common.report.error(place, format!("{}: let: {fault}", draft.id));
                continue;
            }
            lint::name_of_fields(place, &format!("{}: let", draft.id), name, &mut self.common.report);
            let (window, unit) = self.window(placed, own).unzip();
            self.partial.units.push(unit.unwrap_or_default());
            self.partial.places.insert(name.clone(), self.partial.windows.len());
            self.partial.windows.push(LocalWindow {
                name,
                place,
                window,
                used: false,
            });
        }
    }

    fn window(&mut self, placed: PlacedValue<'_>, own: &Entry) -> Option<(Window, Unit)> {
        let errors = self.common.report.errors();
        let keys = self.keys.windows.remove(&own.key)?;
        let on = self.keys.on;
        let what = format!("let.{}", own.key);
        let roots: &[Root] = match on {
            Some(EvaluationTrigger::Service) => &[Root::Service, Root::Process],
            Some(EvaluationTrigger::Watcher) => &[Root::Watcher, Root::Process],
            Some(EvaluationTrigger::Gc | EvaluationTrigger::Process) | None => {
                &[Root::Gc, Root::Suspension, Root::Process, Root::Stream]
            }
        };
        // Compile without windows because windows cannot be nested.
        let places = std::mem::take(&mut self.partial.places);
        let mut expression = |key: &str, wanted| {
            let of = placed.with(&entry(&own.value, key)?.value);
            self.expression(of, &format!("{what}.{key}"), roots, wanted)
        };
        let of = expression("of", RequiredType::Number);
        let filter = expression("where", RequiredType::Bool);
        self.partial.places = places;

        // An invalid function has been reported, and the other keys cannot be checked without a function.
        let function = keys.function?;
        let mut faults = faults_of_keys(function, &keys, of.as_ref(), own);
        let sampled = sampled(on, of.as_ref(), filter.as_ref()).unwrap_or_else(|message| {
            faults.push(("", message));
            Root::Gc
        });
        let by = keys.by.unwrap_or_default();
        if by != ComparisonKey::Nothing && !matches!(on, Some(EvaluationTrigger::Gc) | None) {
            let on = on.map_or("process", EvaluationTrigger::name);
            let message =
                format!("a rule `on: {on}` has no current collection to compare with; remove `by`, or use `on: gc`");
            faults.push(("by", message));
        } else if by != ComparisonKey::Nothing && sampled != Root::Gc {
            let message = "`by` distinguishes collections, which are not sampled here; remove it";
            faults.push(("by", message.to_owned()));
        }
        let extent = match (keys.over, keys.last) {
            (Some(over), None) => Some(Extent::Over(ns(over))),
            (None, Some(last)) => Some(Extent::Last(last)),
            _ => None,
        };
        let ticks = matches!(sampled, Root::Process | Root::Stream);
        if let (Some(Extent::Over(ns)), true, Some(least)) = (extent, ticks, keys.min_samples)
            && u64::from(least) > ns / TICK_NS + 1
        {
            let most = ns / TICK_NS + 1;
            let message =
                format!("it never has {least} samples: one sample is taken per second, so at most {most} in this time");
            faults.push(("min_samples", message));
        }
        for (key, message) in faults {
            let at = entry(&own.value, key).map_or(own.at, |entry| entry.at);
            let message = format!("{}: {what}: {message}", self.partial.draft.id);
            self.common.report.error(placed.at(at), message);
        }
        if self.common.report.errors() > errors {
            return None;
        }
        let extent = extent?;
        let unit = Unit::for_window(function, of.as_ref().map(|compiled| compiled.unit));
        let window = Window {
            function,
            of: of.map(|compiled| compiled.expression),
            filter: filter.map(|compiled| compiled.expression),
            sampled,
            extent,
            by,
            min_samples: keys.min_samples.unwrap_or(usual_samples(function, keys.last)),
            min_watched_ns: keys.min_watched.map_or(0, ns),
            unknown_share: Double(keys.unknown_share.unwrap_or(UNKNOWN_SHARE)),
        };
        Some((window, unit))
    }
}

/// Checks the name of a label or an annotation.
fn text_name(name: &str, key: &str) -> Result<(), String> {
    let first = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let rest = name
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"_.".contains(&byte));
    if !first || !rest || name.len() > 60 {
        return Err(format!(
            "{} is not a valid name; write letters, digits, `_` and `.`, at most 60",
            quoted(name)
        ));
    }
    match key {
        "labels" if TAKEN_LABELS.contains(&name) => {
            Err(format!("every alert has the label {}; use another name", quoted(name)))
        }
        "annotations" if TAKEN_ANNOTATIONS.contains(&name) => {
            Err(format!("{} is a key of rules; use another name", quoted(name)))
        }
        _ => Ok(()),
    }
}

/// Returns the last day of an exception, in UTC.
fn day(until_unix_ns: u64) -> String {
    let last = Timestamp::from_nanosecond(i128::from(until_unix_ns) - 1);
    last.map_or_else(|_| String::new(), |last| last.strftime("%Y-%m-%d").to_string())
}

/// Values of parameters by name, each with the position of the name.
type Values<'d> = BTreeMap<&'d str, (Place, &'d Scalar)>;

/// An entry of `params_for`: values of parameters for some processes.
struct ProcessValues<'d> {
    select: Expression,
    text: &'d str,
    values: Values<'d>,
}

fn values<'d>(placed: PlacedValue<'d>) -> impl Iterator<Item = (&'d str, (Place, &'d Scalar))> {
    entries(placed.node).iter().filter_map(move |entry| {
        let value = (placed.at(entry.at), scalar(&entry.value)?);
        Some((entry.key.as_str(), value))
    })
}

/// Returns the type and the value of a parameter. Unquoted numbers and booleans keep their type; all other values are
/// strings.
fn constant(scalar: &Scalar) -> (Type, Node) {
    let text = scalar.text.trim();
    let number = || text.parse::<f64>().ok().filter(|number| number.is_finite());
    let digit = text.contains(|c: char| c.is_ascii_digit());
    match text {
        _ if !scalar.plain => {}
        "true" | "false" => return (Type::Bool, Node::Bool(text == "true")),
        _ => {
            if let Ok(number) = text.parse() {
                return (Type::Int, Node::Int(number));
            }
            if let Some(number) = number().filter(|_| digit) {
                return (Type::Double, Node::Double(Double(number)));
            }
        }
    }
    (Type::Text, Node::Text(text.into()))
}

/// Like [`constant`], but converts an integer to a double if the parameter is a double.
fn value(scalar: &Scalar, kind: Type) -> Node {
    match constant(scalar).1 {
        Node::Int(number) if kind == Type::Double => Node::Double(Double(number as f64)),
        node => node,
    }
}

/// Returns the default of `min_samples`: at most `last`, but at least the minimum of the function.
fn usual_samples(function: Function, last: Option<u32>) -> u32 {
    let traits = function.traits();
    let most = last.unwrap_or(u32::MAX).max(traits.least_samples);
    traits.usual_samples.min(most)
}

/// Returns faults in the combination of the keys of a window, each with the key at which it is reported.
fn faults_of_keys(
    function: Function,
    keys: &WindowKeys,
    of: Option<&CompiledExpression>,
    own: &Entry,
) -> Vec<(&'static str, String)> {
    let (name, traits) = (function.name(), function.traits());
    // A key with an invalid value counts as present.
    let has = |key: &str| entry(&own.value, key).is_some();
    let mut faults = Vec::new();
    match (traits.of, has("of")) {
        (true, false) => faults.push(("fn", format!("`fn: {name}` requires `of`, a number"))),
        (false, true) => {
            let message = format!("`fn: {name}` counts samples; select them with `where`, and remove `of`");
            faults.push(("of", message));
        }
        _ => {}
    }
    if traits.needs_where && !has("where") {
        faults.push((
            "fn",
            format!("`fn: {name}` requires `where`, otherwise all samples count"),
        ));
    }
    match (has("over"), has("last")) {
        (false, false) => {
            let ways = if traits.needs_over {
                "`over`, as in `over: 5m`"
            } else {
                "`over` or `last`, as in `over: 5m`, `last: 20`"
            };
            faults.push(("fn", format!("the length of the window is missing; set {ways}")));
        }
        (true, true) => faults.push(("last", "only one of `over` and `last` can be set".to_owned())),
        (false, true) if traits.needs_over => {
            let message = format!("`fn: {name}` relates to time; use `over` instead of `last`");
            faults.push(("last", message));
        }
        _ => {}
    }
    let least = keys.min_samples.unwrap_or(traits.least_samples);
    if least < traits.least_samples {
        let message = format!("min_samples: `fn: {name}` requires at least {}", traits.least_samples);
        faults.push(("min_samples", message));
    }
    if let Some(last) = keys.last.filter(|last| *last < least) {
        faults.push(("last", format!("a window of {last} samples cannot have {least}")));
    }
    if function == Function::Share
        && let Some(of) = of
        && (of.fields.is_empty() || of.fields.iter().any(|field| field.unit != "ns"))
    {
        let message = "`fn: share` is a share of time: `of` must be in nanoseconds, such as gc.pause_ns";
        faults.push(("of", message.to_owned()));
    }
    faults
}

/// Returns the time of sampling of a window, which depends on its fields. Windows of services and of gcwatch are
/// sampled at each tick.
fn sampled(
    on: Option<EvaluationTrigger>,
    of: Option<&CompiledExpression>,
    filter: Option<&CompiledExpression>,
) -> Result<Root, String> {
    if matches!(on, Some(EvaluationTrigger::Service | EvaluationTrigger::Watcher)) {
        return Ok(Root::Process);
    }
    let mut fields = of.into_iter().chain(filter).flat_map(|compiled| &compiled.fields);
    let uses = |root| fields.clone().any(|field| field.root == root);
    match (uses(Root::Gc), uses(Root::Suspension)) {
        (true, true) => Err("a window cannot use both `gc.*` and `suspension.*`".to_owned()),
        (false, true) => Ok(Root::Suspension),
        (false, false) if fields.next().is_some() => Ok(Root::Process),
        (true, false) | (false, false) => Ok(Root::Gc),
    }
}

/// Checks that the ids in causes refer to symptoms, and that a cause has the subject and the unit of the symptoms that
/// it explains. Unknown ids are reported only if `complete`, which states that no file was refused.
pub(super) fn check_causes(drafts: &[Draft<'_>], rules: &[Arc<Rule>], complete: bool, report: &mut Report<'_>) {
    let symptoms = || rules.iter().filter(|rule| rule.role == Some(Role::Symptom));
    for rule in rules.iter().filter(|rule| rule.role == Some(Role::Cause)) {
        let Some(draft) = drafts.iter().find(|draft| *draft.id == *rule.id) else {
            continue;
        };
        let named = rule.of.iter().map(|id| ("of", id));
        for (key, id) in named.chain(rule.consequence_of.iter().map(|id| ("consequence_of", id))) {
            let Some(symptom) = symptoms().find(|symptom| symptom.id == *id) else {
                if complete && !report.left_out.ids.contains(&**id) {
                    let hint = did_you_mean(id, symptoms().map(|symptom| &*symptom.id));
                    let hint = hint.map(|hint| format!("; {hint}")).unwrap_or_default();
                    let message = format!("{}: {key}: there is no symptom `{id}`{hint}", rule.id);
                    report.error(draft.place(key), message);
                }
                continue;
            };
            if key == "of" && symptom.on.subject() != rule.on.subject() {
                let message = format!("{}: of: `{id}` has another subject than this cause", rule.id);
                report.error(draft.place(key), message);
            }
            if key == "of"
                && let (Some(unit), Some(wanted)) = (rule.unit, symptom.unit)
                && unit != wanted
            {
                let message = format!(
                    "{}: explains: it is in {}, but the harm of `{id}` is in {}",
                    rule.id,
                    unit.name(),
                    wanted.name()
                );
                report.error(draft.place("explains"), message);
            }
        }
    }
}
