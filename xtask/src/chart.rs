//! The Helm chart, packed as `helm package` does, with the dates of the commit.

use anyhow::{Context as _, Result};

use crate::archive::{self, Files};
use crate::source::Source;

const CHART: &str = "deploy/helm/gcwatch";

/// The chart's own version.
pub(crate) fn version(source: &Source) -> Result<String> {
    let text = String::from_utf8(source.read(&format!("{CHART}/Chart.yaml"))?).context("Chart.yaml is no text")?;
    let version = text.lines().find_map(|line| line.strip_prefix("version:"));
    Ok(version.context("Chart.yaml has no version")?.trim().to_owned())
}

/// The package. Links of the chart to dashboards and alert rules become files.
pub(crate) fn package(source: &Source) -> Result<Vec<u8>> {
    let mut files = Files::default();
    for name in source.list(CHART)? {
        files.add(name.clone(), source.read(&format!("{CHART}/{name}"))?);
    }
    archive::gzip(&files.tar("gcwatch", source.epoch)?)
}
