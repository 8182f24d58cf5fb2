//! Releases: builds the released files from a clean tree into `target/dist`, and publishes them from there.
//!
//! All files except the program itself are written here, or by tools that this task runs (`package`), and are
//! reproducible for the same program: entries are sorted, owned by root, and dated by the commit (or
//! `SOURCE_DATE_EPOCH`). Version and addresses come only from `Cargo.toml`.
//! Every step of the release workflow is one of these commands, and also runs on a laptop (docs/releasing.md).
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program for the terminal")]

mod address;
mod archive;
mod build;
mod cargo;
mod chart;
mod image;
mod kubectl;
mod licenses;
mod notes;
mod nuget;
mod package;
mod publish;
mod sbom;
mod source;
mod tool;
mod tree;
mod version;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::{Args, Parser};

use crate::build::{Machine, Program};
use crate::publish::PublishTarget;
use crate::source::Source;

/// Tasks of the repository.
#[derive(Debug, Parser)]
enum Task {
    /// Build the static programs that this machine can build, into target/programs
    Build {
        /// Build profile
        #[arg(long, default_value = "dist")]
        profile: String,
        /// Allow uncommitted changes
        #[arg(long)]
        allow_dirty: bool,
    },
    /// Build packages, images and chart
    Dist(DistArgs),
    /// Print the version, or write a new version into every file that contains it
    Version {
        /// The new version
        new: Option<String>,
    },
    /// Check that every file has the version; with a tag, also check that it can be released
    Check {
        /// Tag: `v` and the version
        #[arg(long)]
        tag: Option<String>,
    },
    /// Print version and addresses as lines for a shell
    Addresses,
    /// Print the release notes
    Notes,
    /// Log in to the registry with REGISTRY_USER and REGISTRY_PASSWORD
    Login,
    /// Publish the files of `dist`
    Publish {
        what: PublishTarget,
        /// Print the commands instead
        #[arg(long)]
        dry_run: bool,
        /// Folder with the files of `dist` [default: target/dist]
        #[arg(long, value_name = "FOLDER")]
        out: Option<PathBuf>,
    },
    /// Sign SHA256SUMS, or images by digest, with cosign
    Sign {
        /// NAME@sha256:DIGEST
        images: Vec<String>,
        /// Key file, instead of the identity of the workflow
        #[arg(long, value_name = "FILE")]
        key: Option<PathBuf>,
        /// Print the commands instead
        #[arg(long)]
        dry_run: bool,
        /// Folder with the files of `dist` [default: target/dist]
        #[arg(long, value_name = "FOLDER")]
        out: Option<PathBuf>,
    },
}

#[derive(Debug, Args)]
struct DistArgs {
    /// Build profile of the program
    #[arg(long, default_value = "dist")]
    profile: String,
    /// Pack this program instead of building one (repeatable, once per architecture)
    #[arg(long, value_name = "FILE")]
    binary: Vec<PathBuf>,
    /// Output folder [default: target/dist]
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// TLS root certificates for the image
    #[arg(long, value_name = "FILE", default_value = "/etc/ssl/certs/ca-certificates.crt")]
    certificates: PathBuf,
    /// Allow uncommitted changes
    #[arg(long)]
    allow_dirty: bool,
}

fn main() -> ExitCode {
    match run(Task::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> Result<()> {
    let source = Source::here()?;
    let dist_folder = |out: Option<PathBuf>| out.unwrap_or_else(|| source.root.join("target/dist"));
    match task {
        Task::Build { profile, allow_dirty } => {
            source.check_clean(allow_dirty)?;
            let out = source.root.join("target/programs");
            std::fs::create_dir_all(&out)?;
            for program in build::all(&source, &profile)? {
                println!("program: {}", program.described());
                std::fs::copy(&program.path, out.join(format!("gcwatch-{}", program.machine.rust())))?;
            }
        }
        Task::Dist(args) => dist(&source, &args)?,
        Task::Version { new: None } => println!("{}", source.version),
        Task::Version { new: Some(new) } => {
            let today = jiff::Timestamp::now().to_string();
            version::set(&source, &new, today.get(..10).unwrap_or_default())?;
            println!("next: cargo check, which writes Cargo.lock, and tests/deploy/run --update");
        }
        Task::Check { tag: None } => version::check(&source)?,
        Task::Check { tag: Some(tag) } => version::check_release(&source, &tag)?,
        Task::Addresses => print!("{}", source.addresses.lines(&source.version)),
        Task::Notes => print!("{}", notes::write(&source)?),
        Task::Login => publish::login(&source)?,
        Task::Publish { what, dry_run, out } => publish::publish(&source, &dist_folder(out), what, dry_run)?,
        Task::Sign {
            images,
            key,
            dry_run,
            out,
        } => publish::sign(&source, &dist_folder(out), &images, key.as_deref(), dry_run)?,
    }
    Ok(())
}

fn dist(source: &Source, args: &DistArgs) -> Result<()> {
    source.check_clean(args.allow_dirty)?;
    version::check(source)?;
    let programs = if args.binary.is_empty() {
        build::all(source, &args.profile)?
    } else {
        let programs = args.binary.iter().map(|file| Program::read(file));
        programs.collect::<Result<Vec<_>>>()?
    };
    let out = args.out.clone().unwrap_or_else(|| source.root.join("target/dist"));
    // Files of an earlier run must not get into SHA256SUMS.
    if out.exists() {
        std::fs::remove_dir_all(&out).with_context(|| format!("cannot empty {}", out.display()))?;
    }
    std::fs::create_dir_all(&out).with_context(|| format!("cannot create {}", out.display()))?;

    let runs_here = |program: &&Program| Some(program.machine) == Machine::here();
    let host = programs.iter().find(runs_here).or(programs.first());
    let mut documents = tree::documents(source, host.context("there is no program")?)?;
    documents.licenses = licenses::write(source, !args.allow_dirty)?;
    let mut images = Vec::new();
    let (version, package_version) = (&source.version, source.package_version());
    let put = |name: &str, bytes: &[u8]| put(&out, name, bytes);
    put(tree::CATALOGUE, &documents.catalogue)?;
    for program in &programs {
        println!("program: {}", program.described());
        let (rust, debian) = (program.machine.rust(), program.machine.debian());
        let name = format!("gcwatch-{version}-{rust}-linux");
        let files = tree::unpacked(source, program, &documents)?;
        put(
            &format!("{name}.tar.gz"),
            &archive::gzip(&files.tar(&name, source.epoch)?)?,
        )?;
        let packages = package::Packages::stage(source, program, &documents)?;
        if let Some(deb) = packages.deb(!args.allow_dirty)? {
            put(&format!("gcwatch_{package_version}_{debian}.deb"), &deb)?;
        }
        if let Some(rpm) = packages.rpm(!args.allow_dirty)? {
            put(&format!("gcwatch-{package_version}-1.{rust}.rpm"), &rpm)?;
        }
        match std::fs::read(&args.certificates) {
            Ok(certificates) => {
                let image = image::Image::new(source, program, &certificates, &documents)?;
                put(&format!("gcwatch-{version}-oci-{debian}.tar"), &image.archive(source)?)?;
                images.push(image);
            }
            Err(error) => println!("left out: image: {}: {error}", args.certificates.display()),
        }
        put(
            &format!("{}.{version}.nupkg", nuget::id(program)),
            &nuget::build_platform_package(source, program, &documents)?,
        )?;
    }
    if !images.is_empty() {
        put(
            &format!("gcwatch-{version}-oci.tar"),
            &image::build_archive(source, &images)?,
        )?;
    }
    put(&format!("gcwatch.{version}.nupkg"), &nuget::pointer(source, &programs)?)?;
    put(&format!("gcwatch-chart-{version}.tgz"), &chart::package(source)?)?;
    put(&format!("gcwatch-{version}.cdx.json"), &sbom::write(source)?)?;
    let plugin = kubectl::package(source)?;
    put(&kubectl::archive_name(source), &plugin)?;
    put("kubectl-gcwatch.yaml", &kubectl::manifest(source, &plugin)?)?;
    sums(&out)
}

fn put(out: &Path, name: &str, bytes: &[u8]) -> Result<()> {
    std::fs::write(out.join(name), bytes).with_context(|| format!("cannot write {name}"))?;
    println!("{:>10}  {name}", bytes.len());
    Ok(())
}

/// Writes `SHA256SUMS` in the format of `sha256sum --check`.
fn sums(out: &Path) -> Result<()> {
    let mut lines = Vec::new();
    for entry in std::fs::read_dir(out)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        lines.push((name, archive::sha256(&std::fs::read(&path)?)));
    }
    lines.sort();
    let text: String = lines.iter().map(|(name, sum)| format!("{sum}  {name}\n")).collect();
    put(out, "SHA256SUMS", text.as_bytes())
}
