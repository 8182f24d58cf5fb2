//! Builds the Debian package and the RPM package.
//!
//! The files to install are staged in a separate crate, whose manifest describes both packages. `cargo-deb` and
//! `cargo-generate-rpm` build the packages from this crate. The crate has no dependencies and is never compiled.

use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use anyhow::{Context as _, Result};
use serde_json::json;
use tempfile::TempDir;

use crate::archive::{self, Files};
use crate::build::Program;
use crate::source::Source;
use crate::tool::Tool;
use crate::tree::{self, Documents};

const DEB: Tool = Tool {
    name: "cargo-deb",
    version: "3.8.0",
    install: "",
};
const RPM: Tool = Tool {
    name: "cargo-generate-rpm",
    version: "0.21.1",
    install: "",
};
/// Path of the configuration file. An upgrade keeps the file if the operator has changed it.
const CONFIGURATION: &str = "etc/gcwatch/gcwatch.yaml";
const SUMMARY: &str = "Reports the garbage collections of .NET processes";
const DESCRIPTION: &str = "gcwatch attaches to every .NET process of this host and exports each garbage\n\
                           collection as traces, metrics and alerts. The processes need no change.";

/// The staged files of the packages of one program.
#[derive(Debug)]
pub(crate) struct Packages<'a> {
    source: &'a Source,
    program: &'a Program,
    folder: TempDir,
}

impl<'a> Packages<'a> {
    /// Stages the files in a temporary folder.
    pub(crate) fn stage(source: &'a Source, program: &'a Program, documents: &Documents) -> Result<Self> {
        let folder = tempfile::tempdir().context("cannot create a temporary folder")?;
        let files = installed(source, program, documents)?;
        let write = |path: String, bytes: &[u8], mode: u32| -> Result<()> {
            let path = folder.path().join(path);
            std::fs::create_dir_all(
                path.parent()
                    .context("cannot stage a file: its path has no parent folder")?,
            )?;
            std::fs::write(&path, bytes)?;
            Ok(std::fs::set_permissions(&path, PermissionsExt::from_mode(mode))?)
        };
        for (path, file) in files.iter() {
            write(format!("root/{path}"), &file.bytes, file.mode)?;
        }
        for kind in ["debian", "rpm"] {
            for name in source.list(&format!("deploy/packages/{kind}"))? {
                let script = source.read(&format!("deploy/packages/{kind}/{name}"))?;
                write(format!("{kind}/{name}"), &script, 0o755)?;
            }
        }
        write("src/main.rs".to_owned(), b"fn main() {}\n", 0o644)?;
        write(
            "Cargo.toml".to_owned(),
            manifest(source, program, &files).as_bytes(),
            0o644,
        )?;
        Ok(Self {
            source,
            program,
            folder,
        })
    }

    /// Builds the Debian package. Returns `None` and prints a message if `cargo-deb` is missing.
    ///
    /// # Errors
    ///
    /// Returns an error if the tool fails, or is missing for a release (`is_release`).
    pub(crate) fn deb(&self, is_release: bool) -> Result<Option<Vec<u8>>> {
        let target = format!("{}-unknown-linux-musl", self.program.machine.rust());
        let version = self.source.package_version();
        let words = [
            "--no-build",
            "--no-strip",
            "--offline",
            "--target",
            &target,
            "--deb-version",
            &version,
        ];
        self.build(&DEB, "package.deb", &words, is_release)
    }

    /// Builds the RPM package. Returns `None` and prints a message if `cargo-generate-rpm` is missing.
    ///
    /// # Errors
    ///
    /// Returns an error if the tool fails, or is missing for a release (`is_release`).
    pub(crate) fn rpm(&self, is_release: bool) -> Result<Option<Vec<u8>>> {
        let machine = self.program.machine.rust();
        let words = [
            "--auto-req",
            "disabled",
            "--payload-compress",
            "gzip",
            "--arch",
            machine,
        ];
        self.build(&RPM, "package.rpm", &words, is_release)
    }

    /// Runs a tool in the staged crate, and returns the package that the tool writes to the file `name`. Returns `None`
    /// if the tool is missing.
    fn build(&self, tool: &Tool, name: &str, words: &[&str], is_release: bool) -> Result<Option<Vec<u8>>> {
        let out = self.folder.path().join(name);
        let mut command = Command::new(tool.name);
        command
            .current_dir(&self.folder)
            .env("SOURCE_DATE_EPOCH", self.source.epoch.to_string())
            .args(words)
            .arg("--output")
            .arg(&out);
        if tool.run(name, &mut command, is_release)?.is_none() {
            return Ok(None);
        }
        let package = std::fs::read(&out);
        package
            .map(Some)
            .with_context(|| format!("cannot read the package that {} builds", tool.name))
    }
}

/// Returns the files to install, by path.
fn installed(source: &Source, program: &Program, documents: &Documents) -> Result<Files> {
    let mut files = Files::default();
    files.add_with("usr/bin/gcwatch", program.bytes.clone(), 0o755);
    let unit = String::from_utf8(source.read("deploy/systemd/gcwatch.service")?)
        .context("cannot read the unit: the file is not UTF-8")?;
    // Omit the comment before the section [Unit], because the comment describes the manual installation.
    let unit = unit
        .get(
            unit.find("[Unit]")
                .context("cannot read the unit: the section [Unit] is missing")?..,
        )
        .unwrap_or_default();
    files.add(
        "usr/lib/systemd/system/gcwatch.service",
        unit.replace("/usr/local/bin/", "/usr/bin/"),
    );
    files.add(CONFIGURATION, source.read("deploy/systemd/gcwatch.yaml")?);
    for (name, page) in &documents.pages {
        files.add(format!("usr/share/man/man1/{name}.gz"), archive::gzip(page)?);
    }
    for (path, script) in &documents.completions {
        files.add(format!("usr/share/{path}"), script.clone());
    }
    files.add("usr/share/doc/gcwatch/copyright", source.read("LICENSE")?);
    files.add(
        "usr/share/doc/gcwatch/changelog.gz",
        archive::gzip(&source.read("CHANGELOG.md")?)?,
    );
    documents.add_licenses(&mut files, "usr/share/doc/gcwatch/");
    tree::add_rules(source, &mut files, "usr/share/gcwatch/")?;
    Ok(files)
}

/// Returns the manifest of the staged crate. Strings are written as JSON, because JSON strings are valid TOML strings.
fn manifest(source: &Source, program: &Program, files: &Files) -> String {
    let (mut deb, mut rpm) = (String::new(), String::new());
    for (path, file) in files.iter() {
        let (staged, mode) = (json!(format!("root/{path}")), format!("{:o}", file.mode));
        let _ = writeln!(deb, "[{staged}, {}, \"{mode}\"],", json!(path));
        // On systems with RPM, zsh searches for completions in a different folder.
        let to = json!(format!(
            "/{}",
            path.replace("zsh/vendor-completions/", "zsh/site-functions/")
        ));
        let kind = match path {
            CONFIGURATION => ", config = \"noreplace\"",
            _ if path.starts_with("usr/share/doc/") || path.starts_with("usr/share/man/") => ", doc = true",
            _ => "",
        };
        let _ = writeln!(rpm, "{{ source = {staged}, dest = {to}, mode = \"{mode}\"{kind} }},");
    }
    let homepage = source.addresses.repository.as_ref();
    let homepage = homepage.map_or(String::new(), |page| format!("homepage = {}\n", json!(page)));
    let (libraries, shared) = if program.is_static {
        ("", "")
    } else {
        (
            "libc6, libgcc-s1",
            "\"libc.so.6()(64bit)\" = \"\"\n\"libgcc_s.so.1()(64bit)\" = \"\"\n",
        )
    };
    format!(
        "[package]\nname = \"gcwatch\"\nversion = {version}\nedition = \"2024\"\nlicense = \"Apache-2.0\"\n\
         description = {summary}\n{homepage}\n\
         [package.metadata.deb]\nmaintainer = \"gcwatch <gcwatch@localhost>\"\nsection = \"admin\"\n\
         priority = \"optional\"\ndepends = \"{libraries}\"\nrecommends = \"ca-certificates\"\n\
         extended-description = {description}\nmaintainer-scripts = \"debian/\"\nassets = [\n{deb}]\n\n\
         [package.metadata.generate-rpm]\nversion = {package_version}\nrelease = \"1\"\nsummary = {summary}\n\
         description = {description}\nassets = [\n{rpm}]\n\
         post_install_script = \"rpm/post\"\npre_uninstall_script = \"rpm/preun\"\npost_uninstall_script = \"rpm/postun\"\n\n\
         [package.metadata.generate-rpm.requires]\n{shared}\n\
         [package.metadata.generate-rpm.recommends]\nca-certificates = \"\"\n\n\
         [workspace]\n",
        version = json!(source.version),
        package_version = json!(source.package_version()),
        summary = json!(SUMMARY),
        description = json!(DESCRIPTION),
    )
}
