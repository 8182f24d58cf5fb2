//! Publishes the files of `target/dist`. Each step runs a program that must be installed: skopeo, helm, dotnet, cargo,
//! gh, cosign. `--dry-run` prints the commands instead.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};
use clap::ValueEnum;

use crate::source::Source;
use crate::{address, image, notes};

/// The published libraries. Each library follows its dependencies.
const LIBRARIES: [&str; 5] = ["nettrace", "dotnet-diagnostics", "clr-gc", "clr-evidence", "clr-heap"];

/// The items that can be published.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum PublishTarget {
    /// The image for all architectures, tagged with its version, and with `latest` unless it is a pre-release
    Image,
    /// The chart, as an OCI artefact
    Chart,
    /// The packages of the .NET tool; NUGET_API_KEY contains the key
    Tool,
    /// The libraries nettrace, dotnet-diagnostics, clr-gc, clr-evidence, clr-heap; CARGO_REGISTRY_TOKEN contains the
    /// token
    Crates,
    /// The files, with notes, as a release of the repository
    Release,
}

/// Publishes an item, and writes `name=` and `digest=` to standard output if the item has a digest.
pub(crate) fn publish(source: &Source, out: &Path, what: PublishTarget, is_dry: bool) -> Result<()> {
    let run = |program: &str, words: Vec<String>| run(source, program, &words, is_dry);
    match what {
        PublishTarget::Image => {
            let name = format!("{}/gcwatch", source.addresses.registry()?);
            let archive = out.join(format!("gcwatch-{}-oci.tar", source.version));
            let mut tags = vec![source.version.as_str()];
            if !source.version.contains('-') {
                tags.push("latest");
            }
            for tag in tags {
                let mut words = ["copy", "--all", "--preserve-digests"].map(str::to_owned).to_vec();
                if address::is_loopback(&name) {
                    words.push("--dest-tls-verify=false".to_owned());
                }
                words.push(format!("oci-archive:{}:{}", archive.display(), source.version));
                words.push(format!("docker://{name}:{tag}"));
                run("skopeo", words)?;
            }
            let bytes = std::fs::read(&archive).with_context(|| format!("cannot read {}", archive.display()))?;
            print(&name, &image::digest(&bytes)?);
        }
        PublishTarget::Chart => {
            let registry = source.addresses.registry()?;
            let mut words = vec![
                "push".to_owned(),
                out.join(format!("gcwatch-chart-{}.tgz", source.version))
                    .display()
                    .to_string(),
                format!("oci://{registry}/charts"),
            ];
            if address::is_loopback(registry) {
                words.push("--plain-http".to_owned());
            }
            let output = run("helm", words)?;
            let digest = output.lines().find_map(|line| line.trim().strip_prefix("Digest:"));
            match digest {
                Some(digest) => print(&format!("{registry}/charts/gcwatch"), digest.trim()),
                None if is_dry => {}
                None => bail!("helm push printed no digest:\n{output}"),
            }
        }
        PublishTarget::Tool => {
            let Some(feed) = source.addresses.packages.as_deref() else {
                eprintln!("left out: the .NET tool: [workspace.metadata.addresses] has no `packages`");
                return Ok(());
            };
            let mut packages = files(out, ".nupkg")?;
            // Publish the pointer last, because it refers to the other packages.
            packages.sort_by_key(|path| is_pointer(path, &source.version));
            for package in packages {
                let mut words = ["nuget", "push"].map(str::to_owned).to_vec();
                words.push(package.display().to_string());
                words.extend(["--source", feed, "--skip-duplicate"].map(str::to_owned));
                // A dry run does not show the key.
                if let (false, Ok(key)) = (is_dry, std::env::var("NUGET_API_KEY")) {
                    words.extend(["--api-key".to_owned(), key]);
                }
                run("dotnet", words)?;
            }
        }
        PublishTarget::Crates => {
            let has_token = std::env::var_os("CARGO_REGISTRY_TOKEN").is_some_and(|token| !token.is_empty());
            if !is_dry && !has_token {
                eprintln!("left out: the libraries: CARGO_REGISTRY_TOKEN is not set");
                return Ok(());
            }
            let crates = LIBRARIES.map(|name| format!("--package={name}"));
            run(
                "cargo",
                [vec!["publish".to_owned(), "--locked".to_owned()], crates.to_vec()].concat(),
            )?;
        }
        PublishTarget::Release => {
            for ending in [".deb", ".rpm"] {
                if files(out, ending)?.is_empty() {
                    bail!(
                        "{} has no package *{ending}: .ci/tools packages, cargo xtask dist",
                        out.display()
                    );
                }
            }
            let tag = format!("v{}", source.version);
            let text = out.with_file_name("notes.md");
            std::fs::write(&text, notes::write(source)?)?;
            let mut words = [
                "release",
                "create",
                &tag,
                "--verify-tag",
                "--title",
                &tag,
                "--notes-file",
            ]
            .map(str::to_owned)
            .to_vec();
            words.push(text.display().to_string());
            if source.version.contains('-') {
                words.push("--prerelease".to_owned());
            }
            words.extend(files(out, "")?.iter().map(|path| path.display().to_string()));
            run("gh", words)?;
        }
    }
    Ok(())
}

/// Signs `SHA256SUMS`, and images by digest, with cosign: keyless with the identity of the workflow, or with a key.
pub(crate) fn sign(source: &Source, out: &Path, images: &[String], key: Option<&Path>, is_dry: bool) -> Result<()> {
    let mut common = vec!["--yes".to_owned()];
    if let Some(key) = key {
        common.extend(["--key".to_owned(), key.display().to_string()]);
        // A private key signs without the public log and without the services of cosign's signing configuration.
        common.extend(["--tlog-upload=false", "--use-signing-config=false"].map(str::to_owned));
    }
    if images.is_empty() {
        let sums = out.join("SHA256SUMS");
        let bundle = out.join("SHA256SUMS.sigstore.json");
        let paths = [
            "--bundle".to_owned(),
            bundle.display().to_string(),
            sums.display().to_string(),
        ];
        run(
            source,
            "cosign",
            &[vec!["sign-blob".to_owned()], common.clone(), paths.to_vec()].concat(),
            is_dry,
        )?;
    }
    for image in images {
        if !image.contains("@sha256:") {
            bail!("{image} has no digest: the image of a tag can change");
        }
        let mut words = [vec!["sign".to_owned()], common.clone()].concat();
        if address::is_loopback(image) {
            words.extend(["--allow-http-registry", "--allow-insecure-registry"].map(str::to_owned));
        }
        words.push(image.clone());
        run(source, "cosign", &words, is_dry)?;
    }
    Ok(())
}

/// Logs in to the registry, for every program that reads Docker's file: skopeo, helm, cosign, and the attestation
/// action.
pub(crate) fn login(source: &Source) -> Result<()> {
    let registry = source.addresses.registry()?;
    let variable = |name: &str| std::env::var(name).with_context(|| format!("{name} is not set"));
    let (user, password) = (variable("REGISTRY_USER")?, variable("REGISTRY_PASSWORD")?);
    let folder =
        std::env::var("DOCKER_CONFIG").or_else(|_| Ok::<_, anyhow::Error>(format!("{}/.docker", variable("HOME")?)))?;
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {folder}"))?;
    let mut command = Command::new("skopeo");
    command.args(["login", "--username", &user, "--password-stdin"]);
    if address::is_loopback(registry) {
        command.arg("--tls-verify=false");
    }
    command.args(["--authfile", &format!("{folder}/config.json"), address::host(registry)]);
    let mut child = command.stdin(Stdio::piped()).spawn().context("cannot run skopeo")?;
    let mut input = child.stdin.take().context("skopeo has no standard input")?;
    input.write_all(password.as_bytes())?;
    drop(input);
    if !child.wait()?.success() {
        bail!("skopeo login failed");
    }
    Ok(())
}

/// Prints a name and a digest in the format of `$GITHUB_OUTPUT`.
fn print(name: &str, digest: &str) {
    println!("name={name}\ndigest={digest}");
}

/// Returns the files of a folder whose names end with `end`, sorted.
fn files(folder: &Path, end: &str) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder)
        .with_context(|| format!("cannot read {}; run `cargo xtask dist` first", folder.display()))?;
    let paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    let mut paths: Vec<_> = paths
        .into_iter()
        .filter(|path| path.to_string_lossy().ends_with(end))
        .collect();
    paths.sort();
    Ok(paths)
}

fn is_pointer(package: &Path, version: &str) -> bool {
    package
        .file_name()
        .is_some_and(|name| *name == *format!("gcwatch.{version}.nupkg"))
}

/// Runs a program, and returns and prints its standard output and standard error. With `is_dry`, prints the command
/// instead, and returns an empty text.
fn run(source: &Source, program: &str, words: &[String], is_dry: bool) -> Result<String> {
    if is_dry {
        eprintln!("{program} {}", words.join(" "));
        return Ok(String::new());
    }
    let output = Command::new(program)
        .current_dir(&source.root)
        .args(words)
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot run {program}"))?;
    // helm writes its results to standard output or to standard error.
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    eprint!("{text}");
    if !output.status.success() {
        bail!(
            "{program} {} failed: {}",
            words.first().map_or("", String::as_str),
            output.status
        );
    }
    Ok(text)
}
