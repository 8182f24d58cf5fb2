//! `cargo xtask dist`: what is installed, made into `target/dist` from a clean tree.
//!
//! Everything but the program itself is written here, byte by byte the same for the same program: entries are sorted,
//! owned by root, and dated by the commit (or `SOURCE_DATE_EPOCH`).
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program for the terminal")]

mod archive;
mod build;
mod chart;
mod deb;
mod image;
mod nuget;
mod sbom;
mod source;
mod tree;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::{Args, Parser};

use crate::build::Program;
use crate::source::Source;

/// Tasks of the repository.
#[derive(Debug, Parser)]
enum Task {
    /// Make packages, image and chart
    Dist(DistArgs),
}

#[derive(Debug, Args)]
struct DistArgs {
    /// The profile that the program is built with
    #[arg(long, default_value = "dist")]
    profile: String,
    /// Pack this program instead of building one
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
    /// Where everything is put [default: target/dist]
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// The public TLS root certificates of the image
    #[arg(long, value_name = "FILE", default_value = "/etc/ssl/certs/ca-certificates.crt")]
    certificates: PathBuf,
    /// Also from a tree with changes that are not committed
    #[arg(long)]
    allow_dirty: bool,
}

fn main() -> ExitCode {
    let Task::Dist(args) = Task::parse();
    match dist(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn dist(args: &DistArgs) -> Result<()> {
    let source = Source::here()?;
    source.check_clean(args.allow_dirty)?;
    let programs = match &args.binary {
        Some(file) => vec![Program::read(file)?],
        None => build::all(&source, &args.profile)?,
    };
    let out = args.out.clone().unwrap_or_else(|| source.root.join("target/dist"));
    // What an earlier run left must not get into SHA256SUMS.
    if out.exists() {
        std::fs::remove_dir_all(&out).with_context(|| format!("cannot empty {}", out.display()))?;
    }
    std::fs::create_dir_all(&out).with_context(|| format!("cannot make {}", out.display()))?;

    let host = programs.first().context("there is no program")?;
    let documents = tree::documents(&source, host)?;
    put(&out, tree::CATALOGUE, &documents.catalogue)?;
    for program in &programs {
        println!("program: {}", program.described());
        let name = format!("gcwatch-{}-{}-linux", source.version, program.machine.rust());
        let files = tree::unpacked(&source, program, &documents)?;
        put(
            &out,
            &format!("{name}.tar.gz"),
            &archive::gzip(&files.tar(&name, source.epoch)?)?,
        )?;
        let package = deb::package(&source, program, &documents)?;
        put(
            &out,
            &format!("gcwatch_{}_{}.deb", source.version, program.machine.debian()),
            &package,
        )?;
        match std::fs::read(&args.certificates) {
            Ok(certificates) => {
                let image = image::archive(&source, program, certificates)?;
                put(
                    &out,
                    &format!("gcwatch-{}-oci-{}.tar", source.version, program.machine.debian()),
                    &image,
                )?;
            }
            Err(error) => println!("left out: image: {}: {error}", args.certificates.display()),
        }
        let id = nuget::id(program);
        put(
            &out,
            &format!("{id}.{}.nupkg", source.version),
            &nuget::of_platform(&source, program)?,
        )?;
    }
    put(
        &out,
        &format!("gcwatch.{}.nupkg", source.version),
        &nuget::pointer(&source, &programs)?,
    )?;
    put(
        &out,
        &format!("gcwatch-chart-{}.tgz", chart::version(&source)?),
        &chart::package(&source)?,
    )?;
    put(
        &out,
        &format!("gcwatch-{}.cdx.json", source.version),
        &sbom::write(&source)?,
    )?;
    sums(&out)
}

fn put(out: &Path, name: &str, bytes: &[u8]) -> Result<()> {
    std::fs::write(out.join(name), bytes).with_context(|| format!("cannot write {name}"))?;
    println!("{:>10}  {name}", bytes.len());
    Ok(())
}

/// `SHA256SUMS`, as `sha256sum --check` reads it.
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
