//! The addresses to which releases are published: `repository` and `[workspace.metadata.addresses]` in `Cargo.toml`,
//! which the publisher sets once. No other file of the tree contains these addresses; packages, image and chart receive
//! them when they are built.

use std::path::Path;

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::cargo;

/// The configured addresses; `None` if an address is not set. The placeholders under `.example` do not count.
#[derive(Debug, Clone, Default)]
pub(crate) struct Addresses {
    /// URL of the repository page, without a trailing slash.
    pub(crate) repository: Option<String>,
    /// Registry and path of the image and the chart: `HOST/PATH`.
    pub(crate) registry: Option<String>,
    /// URL of the feed of the .NET tool.
    pub(crate) packages: Option<String>,
}

impl Addresses {
    /// Reads the addresses of `Cargo.toml`. `GCWATCH_REPOSITORY`, `GCWATCH_REGISTRY` and `GCWATCH_PACKAGES` override
    /// these addresses.
    pub(crate) fn read(root: &Path) -> Result<Self> {
        let words = ["--no-deps", "--format-version", "1"];
        let metadata: Value = serde_json::from_slice(&cargo::run(root, "metadata", &words)?)?;
        let (repository, addresses) = (env!("CARGO_PKG_REPOSITORY"), &metadata["metadata"]["addresses"]);
        let given = |variable: &str, written: Option<&str>| {
            let written = written.map(str::to_owned);
            let address = std::env::var(variable).ok().or(written)?;
            Some(address.trim_end_matches('/').to_owned()).filter(|address| is_set(address))
        };
        Ok(Self {
            repository: given("GCWATCH_REPOSITORY", Some(repository)),
            registry: given("GCWATCH_REGISTRY", addresses["registry"].as_str()),
            packages: given("GCWATCH_PACKAGES", addresses["packages"].as_str()),
        })
    }

    /// Returns the registry to publish to.
    pub(crate) fn registry(&self) -> Result<&str> {
        let missing =
            "no registry: set `registry` in [workspace.metadata.addresses] of Cargo.toml, or GCWATCH_REGISTRY";
        self.registry.as_deref().context(missing)
    }

    /// Formats the addresses as lines for a shell: `REGISTRY=...`. A placeholder becomes an empty value.
    pub(crate) fn lines(&self, version: &str) -> String {
        let line =
            |name: &str, address: &Option<String>| format!("{name}={}\n", address.as_deref().unwrap_or_default());
        [
            format!("VERSION={version}\n"),
            line("REPOSITORY", &self.repository),
            line("REGISTRY", &self.registry),
            line("PACKAGES", &self.packages),
        ]
        .concat()
    }
}

/// Returns the host of an address, with its port.
pub(crate) fn host(address: &str) -> &str {
    let address = address.split_once("://").map_or(address, |(_, rest)| rest);
    address.split('/').next().unwrap_or_default()
}

/// Returns whether an address is on this machine, which needs no TLS.
pub(crate) fn is_loopback(address: &str) -> bool {
    let name = host(address).rsplit_once(':').map_or(host(address), |(name, _)| name);
    matches!(name, "localhost" | "127.0.0.1" | "[::1]")
}

fn is_set(address: &str) -> bool {
    let name = host(address).rsplit_once(':').map_or(host(address), |(name, _)| name);
    !name.is_empty() && name != "example" && !name.ends_with(".example")
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::{host, is_loopback, is_set};
    use crate::cargo;
    use crate::source::Source;

    /// Scenario: addresses have a scheme, port and path, or not; some use names that are reserved for examples.
    /// Guarantee: a placeholder does not count as an address; only loopback needs no TLS.
    #[test]
    fn placeholders_do_not_count_as_addresses() {
        assert_eq!(host("https://host.test:443/a/b"), "host.test:443");
        assert_eq!(host("127.0.0.1:5000/gcwatch"), "127.0.0.1:5000");
        for placeholder in ["", "https://host.example/a/b", "host.example/a", "host.example:5000/a"] {
            assert!(!is_set(placeholder), "{placeholder}");
        }
        for address in ["https://git.test/a", "127.0.0.1:5000/a", "host.test/example"] {
            assert!(is_set(address), "{address}");
        }
        assert!(is_loopback("127.0.0.1:5000/a") && is_loopback("localhost/a") && is_loopback("[::1]:5000/a"));
        assert!(!is_loopback("localhost.test/a") && !is_loopback("10.0.0.1:5000/a"));
    }
    /// Scenario: the tree contains all files. Guarantee: only Cargo.toml contains an address that is set there, so that
    /// a publisher sets it once.
    #[test]
    fn only_cargo_toml_contains_addresses() {
        let source = Source::here().unwrap();
        let words = ["--no-deps", "--format-version", "1"];
        let metadata = cargo::run(&source.root, "metadata", &words).unwrap();
        let metadata: serde_json::Value = serde_json::from_slice(&metadata).unwrap();
        let written = metadata["metadata"]["addresses"].as_object().unwrap().values();
        let mut addresses: Vec<_> = written.map(|address| address.as_str().unwrap()).collect();
        addresses.push(env!("CARGO_PKG_REPOSITORY"));
        assert_eq!(addresses.len(), 3);
        let mut search = Command::new("git");
        search.current_dir(&source.root).args(["grep", "-lF"]);
        for address in addresses {
            let address = address.split_once("://").map_or(address, |(_, rest)| rest);
            search.args(["-e", address]);
        }
        let found = search.args(["--", ":!Cargo.toml"]).output().unwrap();
        // An archive of the sources has no list of files.
        if source.root.join(".git").exists() {
            assert_eq!(String::from_utf8_lossy(&found.stdout), "");
        }
    }
}
