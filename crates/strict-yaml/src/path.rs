//! The path of a key: `otlp.traces.endpoint`, `targets.include[0].name`.

use std::fmt;

/// A step from a value to a value in it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PathStep {
    /// The value of a key.
    Key(String),
    /// An element of a list, counted from 0.
    Index(usize),
}

/// The path from the root of a document to a value in it. An empty path is the whole document.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyPath(Vec<PathStep>);

impl KeyPath {
    /// Creates a path from keys without dots in their names: `otlp.traces.endpoint`.
    pub fn from_dotted(dotted: &str) -> Self {
        Self(dotted.split('.').map(|key| PathStep::Key(key.to_owned())).collect())
    }

    /// Returns the path of `key` in the mapping at this path.
    #[must_use]
    pub fn key(&self, key: &str) -> Self {
        self.with(PathStep::Key(key.to_owned()))
    }

    /// Returns the path of the element `index` in the list at this path.
    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        self.with(PathStep::Index(index))
    }

    /// Returns the steps from the root.
    pub fn steps(&self) -> &[PathStep] {
        &self.0
    }

    fn with(&self, step: PathStep) -> Self {
        let mut steps = self.0.clone();
        steps.push(step);
        Self(steps)
    }
}

impl From<&[PathStep]> for KeyPath {
    fn from(steps: &[PathStep]) -> Self {
        Self(steps.to_vec())
    }
}

impl fmt::Display for KeyPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, step) in self.0.iter().enumerate() {
            match step {
                PathStep::Index(index) => write!(f, "[{index}]")?,
                PathStep::Key(key) => {
                    if place > 0 {
                        f.write_str(".")?;
                    }
                    // Names come from files and can have any length.
                    let short = key.char_indices().nth(80).and_then(|(cut, _)| key.get(..cut));
                    let (key, more) = short.map_or((key.as_str(), ""), |short| (short, "…"));
                    // A name that contains a dot (`deployment.environment.name`) is one step.
                    if key.contains(['.', '[', ' ']) {
                        write!(f, "\"{key}{more}\"")?;
                    } else {
                        write!(f, "{key}{more}")?;
                    }
                }
            }
        }
        Ok(())
    }
}
