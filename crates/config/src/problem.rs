//! Errors and warnings of a configuration, and the origins of its values.

use std::fmt;
use std::sync::Arc;

use strict_yaml::path::KeyPath;
use strict_yaml::yaml::{Node, Position};

/// The origin of a value. Later variants override earlier variants.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    Default,
    /// The configuration file.
    File {
        /// Path of the file, as given.
        name: Arc<str>,
        /// Position in the file; `None` if the file as a whole has a problem (it cannot be read).
        at: Option<Position>,
    },
    /// An environment variable.
    Environment(String),
    Flag(&'static str),
}

impl Origin {
    /// Returns the rank of the layer, 0 for the lowest.
    pub(crate) fn rank(&self) -> u8 {
        match self {
            Self::Default => 0,
            Self::File { .. } => 1,
            Self::Environment(_) => 2,
            Self::Flag(_) => 3,
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { name, at: None } => f.write_str(name),
            Self::File { name, at: Some(at) } => write!(f, "{name}:{at}"),
            Self::Environment(name) => write!(f, "environment {name}"),
            Self::Flag(flag) => f.write_str(flag),
        }
    }
}

/// A setting of one variable or flag.
pub(crate) struct Setting<V = Node> {
    pub(crate) origin: Origin,
    pub(crate) path: KeyPath,
    /// The value; `None` removes the values of lower layers.
    pub(crate) value: Option<V>,
}

/// An error or a warning: `gcwatch.yaml:4:3: otlp: unknown key ...`. A problem never quotes a secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Problem {
    /// Origin of the value.
    pub origin: Origin,
    /// The key; empty if the problem concerns several keys.
    pub path: KeyPath,
    /// The fault and its remedy.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.origin != Origin::Default {
            write!(f, "{}: ", self.origin)?;
        }
        // The name of a variable or a flag identifies the key.
        let named = matches!(self.origin, Origin::Environment(_) | Origin::Flag(_));
        if !named && !self.path.steps().is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.message)
    }
}

/// All errors of a configuration, one per line; never empty.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Problems(pub Vec<Problem>);

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, problem) in self.0.iter().enumerate() {
            if place > 0 {
                f.write_str("\n")?;
            }
            problem.fmt(f)?;
        }
        Ok(())
    }
}
