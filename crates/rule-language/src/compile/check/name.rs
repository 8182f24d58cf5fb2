//! What a name means, and what is said of one that means nothing.

use gc_rules::expression::Node;
use gc_rules::field::{ALL, Field, Root};
use gc_rules::value::Type;
use strict_yaml::check::nearest;

use super::{Checker, Typed};

/// The attributes of the resource, by name.
pub(super) const ATTRIBUTES: &str = "process.attributes";

/// On how many processes of a service a rule fires, by its id.
pub(super) const FIRING: &str = "service.firing";

/// The name of a root in rule files.
fn prefixes(root: Root) -> &'static [&'static str] {
    match root {
        Root::Gc => &["gc.*"],
        Root::Suspension => &["suspension.*"],
        Root::Process => &["process.*", "settings.*", "container.*"],
        Root::Stream => &["stream.*", "open.*"],
        Root::Service => &["service.*"],
        Root::Watcher => &["watcher.*"],
    }
}

impl<'a> Checker<'a> {
    /// A name as an operand.
    pub(super) fn name(&mut self, at: usize, name: &'a str) -> Option<Typed> {
        let (names, plain) = (self.names, Typed::new);
        if let Some(place) = names.windows.get(name) {
            if !self.windows.contains(place) {
                self.windows.push(*place);
            }
            return Some(plain(Node::Window(*place), Type::Double));
        }
        if let Some((name, known)) = names.macros.get_key_value(name) {
            self.used(name);
            return self.expand(at, name, known);
        }
        if let Some((name, list)) = names.lists.get_key_value(name) {
            self.used(name);
            return Some(plain(Node::Texts(list.as_slice().into()), Type::Texts));
        }
        if let Some((name, value)) = names.params.get_key_value(name) {
            self.used(name);
            return Some(plain(value.node.clone(), value.kind));
        }
        if let Some(field) = Field::of(name) {
            self.root(at, field.name, field.root);
            if !self.fields.contains(&field) {
                self.fields.push(field);
            }
            return Some(plain(Node::Field(field), field.kind));
        }
        let message = self.unknown(name);
        self.refuse(at, message)
    }

    fn used(&mut self, name: &str) {
        if !self.used.iter().any(|used| used == name) {
            self.used.push(name.to_owned());
        }
    }

    /// Whether what belongs to a root may stand here. One that may not is a mistake, and checked on.
    pub(super) fn root(&mut self, at: usize, name: &str, root: Root) {
        if self.names.roots.contains(&root) {
            return;
        }
        let here: Vec<&str> = self
            .names
            .roots
            .iter()
            .flat_map(|root| prefixes(*root))
            .copied()
            .collect();
        let here = here.join(", ");
        let of_many = here.contains("service.*") || here.contains("watcher.*");
        let message = match root {
            Root::Gc | Root::Suspension | Root::Stream if of_many => format!(
                "`{name}` belongs to one process, and this rule is about none (here: {here}); count the processes on \
                 which a rule fires: `service.firing['time.stopped']`"
            ),
            Root::Gc => format!(
                "`{name}` belongs to one collection, and here is none (here: {here}); use a window over it, or a rule `on: gc`"
            ),
            Root::Suspension => format!(
                "`{name}` belongs to a stop without a collection and is read in windows only (here: {here}); use a window over it"
            ),
            Root::Service => {
                format!("`{name}` belongs to a service, and here is none (here: {here}); use a rule `on: service`")
            }
            Root::Watcher => {
                format!("`{name}` belongs to gcwatch itself (here: {here}); use a rule `on: watcher`")
            }
            Root::Process | Root::Stream => {
                format!("`{name}` is not read here (here: {here}); put it into the rule's condition")
            }
        };
        self.mistake(at, message);
    }

    /// What is said of a name that is not known.
    fn unknown(&self, name: &str) -> String {
        if name == ATTRIBUTES {
            return "which attribute? `process.attributes['k8s.namespace.name']`".to_owned();
        }
        if name == FIRING {
            return "which rule? `service.firing['time.stopped']`".to_owned();
        }
        if let Some(key) = name.strip_prefix(ATTRIBUTES).and_then(|rest| rest.strip_prefix('.')) {
            return format!("attributes are named in brackets: `{ATTRIBUTES}['{key}']`");
        }
        let fields = || ALL.iter().map(|field| field.name);
        let below: Vec<&str> = fields()
            .filter(|field| field.strip_prefix(name).is_some_and(|rest| rest.starts_with('.')))
            .take(4)
            .collect();
        if let [first, rest @ ..] = below.as_slice() {
            let more = rest
                .iter()
                .take(2)
                .map(|field| format!(", `{field}`"))
                .collect::<String>();
            let dots = if rest.len() > 2 { ", ..." } else { "" };
            return format!("`{name}` is a group of fields: `{first}`{more}{dots}");
        }
        let root = name.split('.').next().unwrap_or(name);
        if name.contains('.') && self.is_own(root) {
            return format!("`{root}` has no fields: it stands alone");
        }
        let tail = format!(".{name}");
        let allowed = |field: &&&'static Field| self.names.roots.contains(&field.root);
        let by_tail = ALL
            .iter()
            .filter(allowed)
            .map(|field| field.name)
            .find(|field| field.ends_with(&tail));
        let own = self
            .names
            .windows
            .keys()
            .chain(self.names.macros.keys())
            .chain(self.names.lists.keys())
            .chain(self.names.params.keys());
        let near = nearest(name, fields().chain(own.map(String::as_str)));
        match near.or(by_tail) {
            Some(near) => format!("unknown name `{name}`; did you mean `{near}`?"),
            None if name.contains('.') => format!("unknown field `{name}`"),
            None => format!(
                "unknown name `{name}`: no window, parameter, macro or list is called so, and fields have a dot (`gc.pause_ms`)"
            ),
        }
    }

    fn is_own(&self, name: &str) -> bool {
        let names = self.names;
        names.windows.contains_key(name)
            || names.macros.contains_key(name)
            || names.lists.contains_key(name)
            || names.params.contains_key(name)
    }
}
