//! Packs the Helm chart like `helm package`, with the dates of the commit.

use anyhow::{Context as _, Result, ensure};

use crate::archive::{self, Files};
use crate::source::Source;

const CHART: &str = "deploy/helm/gcwatch";
const REGISTRY: &str = "  registry: \"\"\n";

/// Builds the package. Links of the chart to dashboards and alert rules become files. If the addresses are set,
/// `values.yaml` contains the registry and `Chart.yaml` the repository.
pub(crate) fn package(source: &Source) -> Result<Vec<u8>> {
    let mut files = Files::default();
    for name in source.list(CHART)? {
        let mut bytes = source.read(&format!("{CHART}/{name}"))?;
        match name.as_str() {
            "Chart.yaml" => bytes = described(source, text(bytes, &name)?).into_bytes(),
            "values.yaml" => bytes = preset(source, text(bytes, &name)?)?.into_bytes(),
            _ => {}
        }
        files.add(name, bytes);
    }
    archive::gzip(&files.tar("gcwatch", source.epoch)?)
}

fn preset(source: &Source, values: String) -> Result<String> {
    ensure!(
        values.matches(REGISTRY).count() == 1,
        "values.yaml has no empty image.registry"
    );
    Ok(match &source.addresses.registry {
        Some(registry) => values.replace(REGISTRY, &format!("  registry: \"{registry}\"\n")),
        None => values,
    })
}

fn described(source: &Source, mut chart: String) -> String {
    if let Some(repository) = &source.addresses.repository {
        chart += &format!("home: {repository}\nsources: [{repository}]\n");
    }
    chart
}

fn text(bytes: Vec<u8>, name: &str) -> Result<String> {
    String::from_utf8(bytes).with_context(|| format!("{name} is not text"))
}
