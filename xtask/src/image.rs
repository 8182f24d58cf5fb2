//! Builds the container image of deploy/container/Containerfile without an engine. Docker, Podman and containerd load
//! the archive of one architecture. `publish` pushes the archive for all architectures to a registry.

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use crate::archive::{self, Files};
use crate::build::Program;
use crate::licenses;
use crate::source::Source;
use crate::tree::Documents;

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";

/// The image for one architecture.
#[derive(Debug)]
pub(crate) struct Image {
    architecture: &'static str,
    config: Vec<u8>,
    layer: Vec<u8>,
    manifest: Vec<u8>,
}

impl Image {
    pub(crate) fn new(source: &Source, program: &Program, certificates: &[u8], documents: &Documents) -> Result<Self> {
        let mut root = Files::default();
        root.add_with("gcwatch", program.bytes.clone(), 0o555);
        root.add_with("etc/ssl/certs/ca-certificates.crt", certificates, 0o444);
        let passwd = "root:x:0:0:root:/:/nologin\nnobody:x:65534:65534:nobody:/:/nologin\n";
        root.add_with("etc/passwd", passwd, 0o444);
        root.add_with("etc/group", "root:x:0:\nnogroup:x:65534:\n", 0o444);
        root.add_with("LICENSE", source.read("LICENSE")?, 0o444);
        if let Some(text) = &documents.licenses {
            root.add_with(licenses::NAME, text.clone(), 0o444);
        }
        // A volume is mounted here.
        root.add_folder("run");
        let tar = root.tar("", source.epoch)?;
        let layer = archive::gzip(&tar)?;

        let architecture = program.machine.debian();
        let labels = labels(source);
        let created = date(source.epoch)?;
        let config = json!({
            "architecture": architecture,
            "os": "linux",
            "created": created,
            "config": {
                "User": "0:0",
                // For glibc's allocator, if the program uses it: one arena per thread takes 1 to 2 MiB more.
                "Env": ["MALLOC_ARENA_MAX=1"],
                "ExposedPorts": {"9464/tcp": {}},
                "Entrypoint": ["/gcwatch"],
                "Cmd": ["run"],
                "WorkingDir": "/",
                "Labels": labels,
            },
            "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{}", archive::sha256(&tar))]},
            "history": [{"created": created, "created_by": "cargo xtask dist"}],
        });
        let config = serde_json::to_vec(&config)?;
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": described("application/vnd.oci.image.config.v1+json", &config),
            "layers": [described("application/vnd.oci.image.layer.v1.tar+gzip", &layer)],
            "annotations": labels,
        });
        let manifest = serde_json::to_vec(&manifest)?;
        Ok(Self {
            architecture,
            config,
            layer,
            manifest,
        })
    }

    /// Returns the entry for this image in an index.
    fn listed(&self) -> Value {
        let mut listed = described(MANIFEST, &self.manifest);
        listed["platform"] = json!({"architecture": self.architecture, "os": "linux"});
        listed
    }

    fn add_blobs(&self, files: &mut Files) {
        for bytes in [&self.config, &self.manifest, &self.layer] {
            files.add(blob(bytes), bytes.clone());
        }
    }

    /// Builds the archive that engines load: an OCI layout, and Docker's `manifest.json` for the same blobs.
    pub(crate) fn archive(&self, source: &Source) -> Result<Vec<u8>> {
        // The name of the image if `image.registry` of the chart is `localhost`.
        let name = format!("localhost/gcwatch:{}", source.version);
        let mut listed = self.listed();
        listed["annotations"] = json!({
            "io.containerd.image.name": name,
            "org.opencontainers.image.ref.name": source.version,
        });
        let of_docker = json!([{
            "Config": blob(&self.config),
            "RepoTags": [name],
            "Layers": [blob(&self.layer)],
        }]);
        let mut files = layout(&[listed])?;
        files.add("manifest.json", serde_json::to_vec(&of_docker)?);
        self.add_blobs(&mut files);
        files.tar("", source.epoch)
    }
}

/// Builds the archive with the images of all architectures under one name: an OCI layout whose index refers to an
/// index.
pub(crate) fn build_archive(source: &Source, images: &[Image]) -> Result<Vec<u8>> {
    let index = json!({
        "schemaVersion": 2,
        "mediaType": INDEX,
        "manifests": images.iter().map(Image::listed).collect::<Vec<_>>(),
        "annotations": labels(source),
    });
    let index = serde_json::to_vec(&index)?;
    let mut listed = described(INDEX, &index);
    listed["annotations"] = json!({"org.opencontainers.image.ref.name": source.version});
    let mut files = layout(&[listed])?;
    files.add(blob(&index), index);
    for image in images {
        image.add_blobs(&mut files);
    }
    files.tar("", source.epoch)
}

/// Returns the digest that the image of [`build_archive`] has in a registry.
pub(crate) fn digest(archive: &[u8]) -> Result<String> {
    let mut archive = tar::Archive::new(archive);
    for entry in archive.entries()? {
        let entry = entry?;
        if entry.path()?.as_os_str() == "index.json" {
            let index: Value = serde_json::from_reader(entry)?;
            let digest = index["manifests"][0]["digest"].as_str();
            return Ok(digest.context("index.json names no digest")?.to_owned());
        }
    }
    anyhow::bail!("the archive has no index.json")
}

/// Returns the labels that describe the image to a reader.
fn labels(source: &Source) -> Value {
    let mut labels = json!({
        "org.opencontainers.image.title": "gcwatch",
        "org.opencontainers.image.description": "Reports every GC of every .NET process on this host",
        "org.opencontainers.image.licenses": "Apache-2.0",
        "org.opencontainers.image.version": source.version,
    });
    if let Some(commit) = &source.commit {
        labels["org.opencontainers.image.revision"] = json!(commit);
    }
    if let Some(repository) = &source.addresses.repository {
        labels["org.opencontainers.image.source"] = json!(repository);
        labels["org.opencontainers.image.url"] = json!(repository);
    }
    labels
}

fn layout(listed: &[Value]) -> Result<Files> {
    let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": listed});
    let mut files = Files::default();
    files.add("oci-layout", r#"{"imageLayoutVersion":"1.0.0"}"#);
    files.add("index.json", serde_json::to_vec(&index)?);
    Ok(files)
}

fn blob(bytes: &[u8]) -> String {
    format!("blobs/sha256/{}", archive::sha256(bytes))
}

fn described(kind: &str, bytes: &[u8]) -> Value {
    json!({"mediaType": kind, "digest": format!("sha256:{}", archive::sha256(bytes)), "size": bytes.len()})
}

/// Formats seconds since 1970 in RFC 3339.
pub(crate) fn date(epoch: u64) -> Result<String> {
    Ok(jiff::Timestamp::from_second(i64::try_from(epoch)?)?.to_string())
}

#[cfg(test)]
mod tests {
    use super::date;

    /// Scenario: the inputs are the epoch, a leap day, and the last second of a year.
    /// Guarantee: the results equal the output of `date --utc`.
    #[test]
    fn seconds_are_formatted_as_dates() {
        assert_eq!(date(0).unwrap(), "1970-01-01T00:00:00Z");
        assert_eq!(date(951_782_400).unwrap(), "2000-02-29T00:00:00Z");
        assert_eq!(date(1_798_761_599).unwrap(), "2026-12-31T23:59:59Z");
    }
}
