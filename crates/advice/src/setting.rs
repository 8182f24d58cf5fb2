//! Settings as they are pasted: environment variables with their values as .NET parses them, and a patch in YAML.

use serde::{Deserialize, Serialize};

/// Prefix of the environment variables of .NET.
const PREFIX: &str = "DOTNET_";

/// An environment variable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Variable {
    /// Name.
    pub name: String,
    /// Value. .NET reads numbers in environment variables as hexadecimal. The value has no prefix `0x`, because
    /// NativeAOT before .NET 11 ignores a number with that prefix.
    pub value: String,
    /// The value as a decimal number.
    pub decimal: u64,
}

/// A setting that users can paste.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// Environment variables.
    pub variables: Vec<Variable>,
    /// Memory limit of the container, in bytes; null if the setting does not change it.
    pub memory_limit: Option<u64>,
    /// Patch of a Deployment, for `kubectl patch --patch-file`. The name of the container is a placeholder.
    pub yaml: String,
}

impl Variable {
    /// Creates a variable of the collector, such as `GCgen0size`.
    pub fn new(name: &str, value: u64) -> Self {
        Self {
            name: format!("{PREFIX}{name}"),
            value: format!("{value:X}"),
            decimal: value,
        }
    }
}

impl Setting {
    /// Creates a setting of environment variables.
    pub fn of_variables(variables: Vec<Variable>) -> Self {
        Self::new(variables, None)
    }

    /// Creates a setting of the container's memory limit, rounded up to whole MiB.
    pub fn of_memory_limit(bytes: u64) -> Self {
        Self::new(Vec::new(), Some(bytes.div_ceil(1 << 20) << 20))
    }

    fn new(variables: Vec<Variable>, memory_limit: Option<u64>) -> Self {
        let mut yaml = "spec:\n  template:\n    spec:\n      containers:\n      - name: CONTAINER\n".to_owned();
        if !variables.is_empty() {
            yaml.push_str("        env:\n");
            for variable in &variables {
                yaml.push_str(&format!("        - name: {}\n", variable.name));
                let note = match variable.decimal {
                    0..=9 => String::new(),
                    decimal => format!(" # hexadecimal: {decimal}"),
                };
                yaml.push_str(&format!("          value: \"{}\"{note}\n", variable.value));
            }
        }
        if let Some(bytes) = memory_limit {
            yaml.push_str(&format!(
                "        resources:\n          limits:\n            memory: {}Mi\n",
                bytes >> 20
            ));
        }
        Self {
            variables,
            memory_limit,
            yaml,
        }
    }

    /// Returns the setting in one line: `DOTNET_GCgen0size=4000000 (67108864)`.
    pub fn line(&self) -> String {
        let variables = self.variables.iter().map(|variable| match variable.decimal {
            0..=9 => format!("{}={}", variable.name, variable.value),
            decimal => format!("{}={} (hexadecimal, {decimal})", variable.name, variable.value),
        });
        let limit = self
            .memory_limit
            .map(|bytes| format!("memory limit of the container {} MiB", bytes >> 20));
        variables.chain(limit).collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: a budget of 64 MiB, which as decimal digits would mean 1.6 GB to .NET.
    /// Guarantee: the value is hexadecimal without a prefix, and the decimal number is next to it.
    #[test]
    fn number_is_hexadecimal() {
        let setting = Setting::of_variables(vec![
            Variable::new("GCgen0size", 64 << 20),
            Variable::new("gcServer", 1),
        ]);
        assert_eq!(u64::from_str_radix(&setting.variables[0].value, 16), Ok(64 << 20));
        assert_eq!(
            setting.line(),
            "DOTNET_GCgen0size=4000000 (hexadecimal, 67108864), DOTNET_gcServer=1"
        );
        assert_eq!(
            setting.yaml,
            "spec:\n  template:\n    spec:\n      containers:\n      - name: CONTAINER\n        env:\n        \
             - name: DOTNET_GCgen0size\n          value: \"4000000\" # hexadecimal: 67108864\n        \
             - name: DOTNET_gcServer\n          value: \"1\"\n"
        );
    }

    /// Scenario: a memory limit that is not a multiple of 1 MiB.
    /// Guarantee: the limit is rounded up, never down.
    #[test]
    fn limit_is_rounded_up() {
        let setting = Setting::of_memory_limit((300 << 20) + 1);
        assert_eq!(setting.memory_limit, Some(301 << 20));
        assert!(
            setting
                .yaml
                .ends_with("        resources:\n          limits:\n            memory: 301Mi\n")
        );
        assert_eq!(setting.line(), "memory limit of the container 301 MiB");
    }
}
