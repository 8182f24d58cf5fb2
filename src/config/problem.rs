//! What is wrong with a configuration, where each value of it comes from, and how both are told.

use std::fmt;
use std::sync::Arc;

use strict_yaml::path::KeyPath;
use strict_yaml::yaml::Position;

/// Where a value comes from; a later one goes over an earlier one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// gcwatch's own.
    Default,
    /// The file.
    File {
        /// As it was named to gcwatch.
        name: Arc<str>,
        /// Where in it; `None`: the file as a whole (it cannot be read).
        at: Option<Position>,
    },
    /// This variable of the environment.
    Environment(String),
    /// This flag.
    Flag(&'static str),
}

impl Origin {
    /// Which layer it is, from the lowest.
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

/// One thing that is wrong or odd: `gcwatch.yaml:4:3: otlp: unknown key ...`. Never quotes a secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Problem {
    /// Where the value comes from.
    pub origin: Origin,
    /// The key; empty where it is about no single one.
    pub path: KeyPath,
    /// What is wrong, and what to do.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.origin != Origin::Default {
            write!(f, "{}: ", self.origin)?;
        }
        // Who set a variable or a flag knows it by that name.
        let named = matches!(self.origin, Origin::Environment(_) | Origin::Flag(_));
        if !named && !self.path.steps().is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.message)
    }
}

/// Everything that is wrong with a configuration, a line each; never empty.
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
