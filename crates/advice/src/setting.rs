//! Settings in the form in which users paste them: environment variables in the notation that .NET parses, a memory
//! limit, and a patch in YAML.

use serde::{Deserialize, Serialize};

/// Prefix of the environment variables of .NET.
const PREFIX: &str = "DOTNET_";

/// An environment variable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Variable {
    /// Name, with the prefix `DOTNET_`.
    pub name: String,
    /// Value in hexadecimal digits, because .NET parses numbers in environment variables as hexadecimal. The value has
    /// no prefix `0x`: NativeAOT before .NET 11 ignores numbers with this prefix.
    pub value: String,
    /// The value as a decimal number.
    pub decimal: u64,
}

/// A setting that users can paste.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// Environment variables; empty if the setting is a memory limit.
    pub variables: Vec<Variable>,
    /// Memory limit of the container, in bytes; null if the setting does not change the limit.
    pub memory_limit: Option<u64>,
    /// Patch of a Deployment, for `kubectl patch --patch-file`. `CONTAINER` is a placeholder for the name of the
    /// container.
    pub yaml: String,
}

impl Variable {
    /// Creates a variable from the name of a GC setting without prefix, such as `GCgen0size`.
    pub fn new(name: &str, value: u64) -> Self {
        Self {
            name: format!("{PREFIX}{name}"),
            value: format!("{value:X}"),
            decimal: value,
        }
    }
}

impl Setting {
    /// Creates a setting that consists of environment variables.
    pub fn from_variables(variables: Vec<Variable>) -> Self {
        Self::new(variables, None)
    }

    /// Creates a setting that changes the memory limit of the container, rounded up to a multiple of 1 MiB.
    pub fn from_memory_limit(bytes: u64) -> Self {
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

    /// Returns the setting in one line, for example `DOTNET_GCgen0size=4000000 (hexadecimal, 67108864)`.
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

    /// Scenario: a setting has a budget of 64 MiB. .NET would parse its decimal digits as 1.6 GiB.
    /// Guarantee: the value is hexadecimal without a prefix, and the line and the patch contain the decimal number next
    /// to the value.
    #[test]
    fn number_is_hexadecimal() {
        let setting = Setting::from_variables(vec![
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

    /// Scenario: a setting has a memory limit that is not a multiple of 1 MiB.
    /// Guarantee: the limit is rounded up to the next multiple in the setting, the patch and the line.
    #[test]
    fn limit_is_rounded_up() {
        let setting = Setting::from_memory_limit((300 << 20) + 1);
        assert_eq!(setting.memory_limit, Some(301 << 20));
        assert!(
            setting
                .yaml
                .ends_with("        resources:\n          limits:\n            memory: 301Mi\n")
        );
        assert_eq!(setting.line(), "memory limit of the container 301 MiB");
    }
}
