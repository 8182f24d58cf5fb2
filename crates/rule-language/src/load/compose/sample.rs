//! The windows under `let`: what is sampled, and checks of their keys.

use gc_rules::field::Root;
use gc_rules::rule::{By, Extent, Function, On, Window};
use strict_yaml::path::KeyPath;
use strict_yaml::yaml::{Entry, Node, Position};

use super::{RuleBuilder, roots_of};
use crate::compile::{Compiled, Measure, Wanted};
use crate::document::{WindowKeys, is_name};
use crate::load::draft::Draft;
use crate::load::file::typed;
use crate::load::measure::of_window;
use crate::load::partial_rule::{LocalWindow, PartialRule};
use crate::load::report::Placed;
use crate::load::text::{entries, entry};

/// The default of `unknown_share`.
const UNKNOWN_SHARE: f64 = 0.1;
/// The interval of ticks, nanoseconds.
const TICK_NS: u64 = 1_000_000_000;

/// The fields that the expressions of a window of such a rule can use.
fn roots_of_windows(on: Option<On>) -> &'static [Root] {
    match on {
        Some(On::Service) => &[Root::Service, Root::Process],
        Some(On::Watcher) => &[Root::Watcher, Root::Process],
        Some(On::Gc | On::Process) | None => &[Root::Gc, Root::Suspension, Root::Process, Root::Stream],
    }
}

impl RuleBuilder<'_, '_> {
    /// Reads the windows of a rule.
    pub(super) fn windows_of<'d>(&mut self, draft: &Draft<'d>, partial: &mut PartialRule<'d>) {
        let Some(placed) = draft.keys.get("let").copied() else {
            return;
        };
        for own in entries(placed.node) {
            let taken = self
                .words
                .get(placed.file)
                .is_some_and(|words| words.places.contains_key(&own.key));
            let fault = match is_name(&own.key) {
                Err(message) => Some(message),
                Ok(()) if taken => Some(format!("the file has a macro or list `{}`", own.key)),
                Ok(()) if partial.params.contains_key(&own.key) => {
                    Some(format!("the rule has a parameter `{}`", own.key))
                }
                Ok(()) => None,
            };
            if let Some(message) = fault {
                let message = format!("{}: let: {message}", draft.id);
                self.report.error(placed.file, own.at, message);
                continue;
            }
            let window = self.window(placed.file, own, partial);
            let (window, measure) =
                window.map_or((None, Measure::default()), |(window, measure)| (Some(window), measure));
            partial.measures.push(measure);
            partial.places.insert(own.key.clone(), partial.windows.len());
            partial.windows.push(LocalWindow {
                name: &own.key,
                file: placed.file,
                at: own.at,
                window,
                used: false,
            });
        }
    }

    fn window(&mut self, file: usize, own: &Entry, partial: &mut PartialRule<'_>) -> Option<(Window, Measure)> {
        let errors = self.report.errors();
        let path = KeyPath::of("rules").index(0).key("let").key(&own.key);
        let keys: WindowKeys = typed(&own.value, &path)?;
        let node = &own.value;
        let what = format!("let.{}", own.key);
        let spots = Spots { node, at: own.at };

        let roots = roots_of_windows(partial.on);
        // Without windows, which cannot be nested.
        let places = std::mem::take(&mut partial.places);
        let mut expression = |key: &str, wanted| {
            let node = &entry(node, key)?.value;
            let what = format!("{what}.{key}");
            self.expression(Placed { file, node }, partial, &what, roots, wanted)
        };
        let of = expression("of", Wanted::Number);
        let filter = expression("where", Wanted::Bool);
        partial.places = places;

        let mut fault = |at: Position, message: String| {
            let message = format!("{}: {what}: {message}", partial.id);
            self.report.error(file, at, message);
        };
        // An invalid function is reported already; nothing else can be checked.
        let function = keys.function?;
        faults_of_keys(function, &keys, of.as_ref(), spots, &mut fault);
        let sampled = match sampled(partial.on, of.as_ref(), filter.as_ref()) {
            Ok(sampled) => sampled,
            Err(message) => {
                fault(own.at, message);
                Root::Gc
            }
        };
        let by = keys.by.unwrap_or_default();
        if by != By::Nothing && !matches!(partial.on, Some(On::Gc) | None) {
            let on = partial.on.map_or("process", On::name);
            let message =
                format!("a rule `on: {on}` has no current collection to compare with; remove `by`, or use `on: gc`");
            fault(spots.at("by"), message);
        } else if by != By::Nothing && sampled != Root::Gc {
            let message = "`by` distinguishes collections, which are not sampled here; remove it";
            fault(spots.at("by"), message.to_owned());
        }
        let extent = match (keys.over, keys.last) {
            (Some(over), None) => Extent::Over(u64::try_from(over.0.as_nanos()).ok()?),
            (None, Some(last)) => Extent::Last(last),
            _ => return None,
        };
        let ticks = matches!(sampled, Root::Process | Root::Stream);
        if let (Extent::Over(ns), true, Some(least)) = (extent, ticks, keys.min_samples)
            && u64::from(least) > ns / TICK_NS + 1
        {
            let most = ns / TICK_NS + 1;
            let message =
                format!("it never has {least} samples: one is taken each second, at most {most} in this time");
            fault(spots.at("min_samples"), message);
        }
        if self.report.errors() > errors {
            return None;
        }
        let measure = of_window(function, of.as_ref().map(|compiled| compiled.measure), extent);
        let window = Window {
            function,
            of: of.map(|compiled| compiled.expression),
            filter: filter.map(|compiled| compiled.expression),
            sampled,
            extent,
            by,
            min_samples: keys.min_samples.unwrap_or(usual_samples(function, keys.last)),
            min_watched_ns: keys
                .min_watched
                .map_or(0, |watched| u64::try_from(watched.0.as_nanos()).unwrap_or(u64::MAX)),
            unknown_share: keys.unknown_share.unwrap_or(UNKNOWN_SHARE),
        };
        Some((window, measure))
    }
}

/// The default of `min_samples`: at most `last`.
fn usual_samples(function: Function, last: Option<u32>) -> u32 {
    let traits = function.traits();
    let most = last.unwrap_or(u32::MAX).max(traits.least_samples);
    traits.usual_samples.min(most)
}

/// The keys of a window in the file, including invalid ones.
#[derive(Clone, Copy)]
struct Spots<'n> {
    node: &'n Node,
    /// The position of the window's name.
    at: Position,
}

impl Spots<'_> {
    fn has(self, key: &str) -> bool {
        entry(self.node, key).is_some()
    }

    fn at(self, key: &str) -> Position {
        entry(self.node, key).map_or(self.at, |entry| entry.at)
    }
}

/// Reports keys that cannot be combined.
fn faults_of_keys(
    function: Function,
    keys: &WindowKeys,
    of: Option<&Compiled>,
    spots: Spots<'_>,
    fault: &mut dyn FnMut(Position, String),
) {
    let (name, traits) = (function.name(), function.traits());
    match (traits.of, spots.has("of")) {
        (true, false) => fault(spots.at("fn"), format!("`fn: {name}` requires `of`, a number")),
        (false, true) => fault(
            spots.at("of"),
            format!("`fn: {name}` counts samples; select them with `where`, and remove `of`"),
        ),
        _ => {}
    }
    if traits.needs_where && !spots.has("where") {
        fault(
            spots.at("fn"),
            format!("`fn: {name}` requires `where`, else all samples count"),
        );
    }
    match (spots.has("over"), spots.has("last")) {
        (false, false) => {
            let ways = if traits.needs_over {
                "`over`, as in `over: 5m`"
            } else {
                "`over` or `last`, as in `over: 5m`, `last: 20`"
            };
            fault(
                spots.at("fn"),
                format!("the length of the window is missing; set {ways}"),
            );
        }
        (true, true) => fault(spots.at("last"), "only one of `over` and `last` can be set".to_owned()),
        (false, true) if traits.needs_over => {
            fault(
                spots.at("last"),
                format!("`fn: {name}` relates to time; use `over` instead of `last`"),
            );
        }
        _ => {}
    }
    if keys.min_samples.is_some_and(|least| least < traits.least_samples) {
        let message = format!("min_samples: `fn: {name}` requires at least {}", traits.least_samples);
        fault(spots.at("min_samples"), message);
    }
    if let (Some(last), least) = (keys.last, keys.min_samples.unwrap_or(traits.least_samples))
        && last < least
    {
        fault(
            spots.at("last"),
            format!("a window of {last} samples cannot have {least}"),
        );
    }
    if function == Function::Share
        && let Some(of) = of
        && (of.fields.is_empty() || of.fields.iter().any(|field| field.unit != "ns"))
    {
        let message = "`fn: share` is a share of time: `of` must be in nanoseconds, such as gc.pause_ns";
        fault(spots.at("of"), message.to_owned());
    }
}

/// When a window is sampled, from its fields; those of services and of gcwatch at each tick.
fn sampled(on: Option<On>, of: Option<&Compiled>, filter: Option<&Compiled>) -> Result<Root, String> {
    if matches!(on, Some(On::Service | On::Watcher)) {
        return Ok(Root::Process);
    }
    let fields: Vec<_> = of
        .into_iter()
        .chain(filter)
        .flat_map(|compiled| compiled.fields.iter().copied())
        .collect();
    let roots = roots_of(&fields);
    match (roots.contains("gc"), roots.contains("suspension")) {
        (true, true) => Err("a window cannot use both `gc.*` and `suspension.*`".to_owned()),
        (false, true) => Ok(Root::Suspension),
        (false, false) if !fields.is_empty() => Ok(Root::Process),
        (true, false) | (false, false) => Ok(Root::Gc),
    }
}
