//! Merges file, environment and flags key by key, with the origin of each value.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::environment::{self, Environment, not_used};
use super::flags::{self, ConfigFlags};
use super::problem::{Origin, Problem, Setting};
use super::schema::schema;
use strict_yaml::path::{KeyPath, PathStep};
use strict_yaml::yaml::{self, Bounds, Fault, Kind, Node};

/// The origin of each value that is not a default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Origins(BTreeMap<KeyPath, Origin>);

impl Origins {
    /// Returns the origin of the value of exactly this key; [`Origin::Default`] if the key is not set.
    pub(crate) fn get(&self, path: &KeyPath) -> &Origin {
        self.0.get(path).unwrap_or(&Origin::Default)
    }

    /// Removes the origins of the key and of all keys inside it.
    fn forget(&mut self, path: &KeyPath) {
        self.0.retain(|known, _| !known.steps().starts_with(path.steps()));
    }
}

/// All settings, lowest layer first, each checked against the schema.
pub(crate) struct Layers {
    file: Value,
    positions: BTreeMap<KeyPath, Origin>,
    above: Vec<Setting<Value>>,
}

impl Layers {
    /// Reads all layers. The first list contains errors, the second warnings.
    pub(crate) fn read(
        file: Option<(&str, &str)>,
        environment: &Environment,
        flags: &ConfigFlags,
    ) -> (Self, Vec<Problem>, Vec<Problem>) {
        let mut layers = Self {
            file: Value::Object(Map::new()),
            positions: BTreeMap::new(),
            above: Vec::new(),
        };
        let mut problems = Vec::new();
        if let Some((name, text)) = file {
            problems.extend(layers.read_file(&Arc::from(name), text));
        }
        let (settings, mut warnings) = environment::settings(environment);
        for problem in settings.into_iter().flat_map(|setting| layers.add(setting)) {
            let message = not_used(&problem.message);
            warnings.push(Problem { message, ..problem });
        }
        problems.extend(
            flags::settings(flags)
                .into_iter()
                .flat_map(|setting| layers.add(setting)),
        );
        (layers, problems, warnings)
    }

    fn read_file(&mut self, name: &Arc<str>, text: &str) -> Vec<Problem> {
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
        let (value, findings) = schema().check(&root, &top);
        self.file = value.unwrap_or_else(|| Value::Object(Map::new()));
        self.place(name, &root, &top);
        findings
            .into_iter()
            .map(|finding| problem(finding.path, finding.fault))
            .collect()
    }

    /// Records the position of each value of the file.
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

    /// Adds a setting, unless its value is empty or has faults, which are returned.
    fn add(&mut self, setting: Setting) -> Vec<Problem> {
        let Setting { origin, path, value } = setting;
        let (value, findings) = match value.map(|node| schema().check(&node, &path)) {
            None => (None, Vec::new()),
            // An empty value is not set.
            Some((None, findings)) if findings.is_empty() => return Vec::new(),
            Some(checked) => checked,
        };
        if findings.is_empty() {
            self.above.push(Setting { origin, path, value });
            return Vec::new();
        }
        let problem = |message| Problem {
            origin: origin.clone(),
            path: path.clone(),
            message,
        };
        findings
            .into_iter()
            .map(|finding| problem(finding.fault.message))
            .collect()
    }

    /// Removes the settings of a variable that conflicts with other keys.
    pub(crate) fn drop_variable(&mut self, name: &str) {
        self.above
            .retain(|setting| !matches!(&setting.origin, Origin::Environment(known) if known == name));
    }

    /// Returns the values in effect as one tree, and their origins.
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

/// Sets the value at a path of keys, or removes it if `value` is `None`.
fn put(tree: &mut Value, steps: &[PathStep], value: Option<Value>) {
    let [PathStep::Key(key), below @ ..] = steps else {
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
