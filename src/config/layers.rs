//! File, environment and flags laid over each other, key by key, with the origin of each value.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::environment::{self, Environment, not_used};
use super::flags::{self, ConfigFlags};
use super::problem::{Origin, Problem};
use strict_yaml::check::Schema;
use strict_yaml::path::{KeyPath, Step};
use strict_yaml::yaml::{self, Bounds, Fault, Kind, Node};

/// Where each value comes from; what is not in it is a default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Origins(BTreeMap<KeyPath, Origin>);

impl Origins {
    /// Where the value of exactly this key comes from.
    pub(crate) fn of(&self, path: &KeyPath) -> &Origin {
        self.0.get(path).unwrap_or(&Origin::Default)
    }

    /// Takes away what is known of the key and all in it.
    fn forget(&mut self, path: &KeyPath) {
        self.0.retain(|known, _| !known.steps().starts_with(path.steps()));
    }
}

/// What one variable or flag sets.
struct Setting {
    path: KeyPath,
    /// `None`: what is below it is taken away.
    value: Option<Value>,
    origin: Origin,
}

/// All that is set, lowest first, each checked against the schema.
pub(crate) struct Layers {
    file: Value,
    positions: BTreeMap<KeyPath, Origin>,
    above: Vec<Setting>,
}

impl Layers {
    /// Reads the three. The first list is what is wrong, the second what is odd or left out.
    pub(crate) fn read(
        file: Option<(&str, &str)>,
        environment: &Environment,
        flags: &ConfigFlags,
        schema: Schema<'_>,
    ) -> (Self, Vec<Problem>, Vec<Problem>) {
        let mut layers = Self {
            file: Value::Object(Map::new()),
            positions: BTreeMap::new(),
            above: Vec::new(),
        };
        let mut problems = Vec::new();
        if let Some((name, text)) = file {
            problems.extend(layers.read_file(&Arc::from(name), text, schema));
        }
        let (settings, mut warnings) = environment::settings(environment);
        for setting in settings {
            let origin = Origin::Environment(setting.name);
            if let Err(wrong) = layers.add(origin, setting.path, Some(&setting.value), schema) {
                warnings.extend(wrong.into_iter().map(|problem| Problem {
                    message: not_used(&problem.message),
                    ..problem
                }));
            }
        }
        for setting in flags::settings(flags) {
            let origin = Origin::Flag(setting.flag);
            if let Err(wrong) = layers.add(origin, setting.path, setting.value.as_ref(), schema) {
                problems.extend(wrong);
            }
        }
        (layers, problems, warnings)
    }

    fn read_file(&mut self, name: &Arc<str>, text: &str, schema: Schema<'_>) -> Vec<Problem> {
        let problem = |path: KeyPath, fault: Fault| Problem {
            origin: Origin::File {
                name: Arc::clone(name),
                at: Some(fault.at),
            },
            path,
            message: fault.message,
        };
        let root = match yaml::parse(text, Bounds::default()) {
            Ok(Some(root)) => root,
            Ok(None) => return Vec::new(),
            Err(faults) => {
                let problem = |fault| problem(KeyPath::default(), fault);
                return faults.into_iter().map(problem).collect();
            }
        };
        let top = KeyPath::default();
        let (value, findings) = schema.check(&root, &top);
        self.file = value.unwrap_or_else(|| Value::Object(Map::new()));
        self.place(name, &root, &top);
        findings
            .into_iter()
            .map(|finding| problem(finding.path, finding.fault))
            .collect()
    }

    /// Remembers where each value of the file stands.
    fn place(&mut self, name: &Arc<str>, node: &Node, path: &KeyPath) {
        if node.is_null() {
            return;
        }
        let origin = Origin::File {
            name: Arc::clone(name),
            at: Some(node.at),
        };
        self.positions.insert(path.clone(), origin);
        match &node.kind {
            Kind::Scalar(_) => {}
            Kind::Sequence(items) => {
                for (index, item) in items.iter().enumerate() {
                    self.place(name, item, &path.index(index));
                }
            }
            Kind::Mapping(entries) => {
                for entry in entries {
                    self.place(name, &entry.value, &path.key(&entry.key));
                }
            }
        }
    }

    fn add(
        &mut self,
        origin: Origin,
        path: KeyPath,
        node: Option<&Node>,
        schema: Schema<'_>,
    ) -> Result<(), Vec<Problem>> {
        let value = match node.map(|node| schema.check(node, &path)) {
            None => None,
            Some((Some(value), findings)) if findings.is_empty() => Some(value),
            // Empty: as if it were not there.
            Some((None, findings)) if findings.is_empty() => return Ok(()),
            Some((_, findings)) => {
                let problem = |message| Problem {
                    origin: origin.clone(),
                    path: path.clone(),
                    message,
                };
                return Err(findings
                    .into_iter()
                    .map(|finding| problem(finding.fault.message))
                    .collect());
            }
        };
        self.above.push(Setting { path, value, origin });
        Ok(())
    }

    /// Takes away what a variable sets: it does not go with the rest.
    pub(crate) fn drop_variable(&mut self, name: &str) {
        self.above
            .retain(|setting| !matches!(&setting.origin, Origin::Environment(known) if known == name));
    }

    /// The values that count, as one tree, and where each comes from.
    pub(crate) fn merged(&self) -> (Value, Origins) {
        let mut merged = self.file.clone();
        let mut origins = Origins(self.positions.clone());
        for setting in &self.above {
            origins.forget(&setting.path);
            put(&mut merged, setting.path.steps(), setting.value.clone());
            if setting.value.is_some() {
                origins.0.insert(setting.path.clone(), setting.origin.clone());
            }
        }
        (merged, origins)
    }
}

/// Sets (`None`: takes away) the value at a path of keys.
fn put(tree: &mut Value, steps: &[Step], value: Option<Value>) {
    let [Step::Key(key), below @ ..] = steps else {
        return;
    };
    let Value::Object(map) = tree else {
        return;
    };
    match (below.is_empty(), value) {
        (true, Some(value)) => {
            map.insert(key.clone(), value);
        }
        (true, None) => {
            map.shift_remove(key);
        }
        (false, value) => put(
            map.entry(key.clone()).or_insert_with(|| Value::Object(Map::new())),
            below,
            value,
        ),
    }
}
