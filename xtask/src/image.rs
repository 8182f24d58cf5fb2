//! The container image, as an archive that Docker, Podman and containerd load: what deploy/container/Containerfile
//! makes, without an engine.

use anyhow::Result;
use serde_json::{Value, json};

use crate::archive::{self, Files};
use crate::build::Program;
use crate::source::Source;

/// The archive: an OCI layout, and Docker's `manifest.json` over the same blobs.
pub(crate) fn archive(source: &Source, program: &Program, certificates: Vec<u8>) -> Result<Vec<u8>> {
    let mut root = Files::default();
    root.add_with("gcwatch", program.bytes.clone(), 0o555);
    root.add_with("etc/ssl/certs/ca-certificates.crt", certificates, 0o444);
    let passwd = "root:x:0:0:root:/:/nologin\nnobody:x:65534:65534:nobody:/:/nologin\n";
    root.add_with("etc/passwd", passwd, 0o444);
    root.add_with("etc/group", "root:x:0:\nnogroup:x:65534:\n", 0o444);
    // A volume is mounted over it.
    root.add_folder("run");
    let tar = root.tar("", source.epoch)?;
    let layer = archive::gzip(&tar)?;

    let mut labels = json!({
        "org.opencontainers.image.title": "gcwatch",
        "org.opencontainers.image.description": "Reports every GC of every .NET process on this host",
        "org.opencontainers.image.licenses": "Apache-2.0",
        "org.opencontainers.image.version": source.version,
    });
    if let Some(commit) = &source.commit {
        labels["org.opencontainers.image.revision"] = json!(commit);
    }
    let created = date(source.epoch)?;
    let config = json!({
        "architecture": program.machine.debian(),
        "os": "linux",
        "created": created,
        "config": {
            "User": "0:0",
            // Of glibc's allocator, where the program has that one: an arena for each thread takes 1 to 2 MiB more.
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
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": described("application/vnd.oci.image.config.v1+json", &config),
        "layers": [described("application/vnd.oci.image.layer.v1.tar+gzip", &layer)],
        "annotations": labels,
    });
    let manifest = serde_json::to_vec(&manifest)?;
    // The registry that a chart on one's own machine names.
    let name = format!("localhost/gcwatch:{}", source.version);
    let mut described_manifest = described("application/vnd.oci.image.manifest.v1+json", &manifest);
    described_manifest["platform"] = json!({"architecture": program.machine.debian(), "os": "linux"});
    described_manifest["annotations"] = json!({
        "io.containerd.image.name": name,
        "org.opencontainers.image.ref.name": source.version,
    });
    let index = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [described_manifest],
    });
    let of_docker = json!([{
        "Config": blob(&config),
        "RepoTags": [name],
        "Layers": [blob(&layer)],
    }]);

    let mut files = Files::default();
    files.add("oci-layout", r#"{"imageLayoutVersion":"1.0.0"}"#);
    files.add("index.json", serde_json::to_vec(&index)?);
    files.add("manifest.json", serde_json::to_vec(&of_docker)?);
    for bytes in [config, manifest, layer] {
        files.add(blob(&bytes), bytes);
    }
    files.tar("", source.epoch)
}

fn blob(bytes: &[u8]) -> String {
    format!("blobs/sha256/{}", archive::sha256(bytes))
}

fn described(kind: &str, bytes: &[u8]) -> Value {
    json!({"mediaType": kind, "digest": format!("sha256:{}", archive::sha256(bytes)), "size": bytes.len()})
}

/// Seconds since 1970 as RFC 3339.
pub(crate) fn date(epoch: u64) -> Result<String> {
    Ok(jiff::Timestamp::from_second(i64::try_from(epoch)?)?.to_string())
}

#[cfg(test)]
mod tests {
    use super::date;

    /// Scenario: the epoch, a leap day, the last second of a year.
    /// Guarantee: the dates that `date --utc` prints.
    #[test]
    fn seconds_become_dates() {
        assert_eq!(date(0).unwrap(), "1970-01-01T00:00:00Z");
        assert_eq!(date(951_782_400).unwrap(), "2000-02-29T00:00:00Z");
        assert_eq!(date(1_798_761_599).unwrap(), "2026-12-31T23:59:59Z");
    }
}
