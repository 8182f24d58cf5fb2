//! Builds the Debian package.

use anyhow::{Context as _, Result};

use crate::archive::{self, Files};
use crate::build::Program;
use crate::source::Source;
use crate::tree::{self, Documents};

/// Path of the configuration file. An update of a package keeps a file that a user has changed.
pub(crate) const CONFIGURATION: &str = "etc/gcwatch/gcwatch.yaml";

/// Builds the package for a program.
pub(crate) fn package(source: &Source, program: &Program, documents: &Documents) -> Result<Vec<u8>> {
    let data = data(source, program, documents)?;
    let mut control = Files::default();
    control.add("control", fields(source, program, data.size()));
    control.add("conffiles", format!("/{CONFIGURATION}\n"));
    for name in ["postinst", "prerm", "postrm"] {
        control.add_with(name, source.read(&format!("deploy/packages/debian/{name}"))?, 0o755);
    }
    let control = archive::gzip(&control.tar(".", source.epoch)?)?;
    let data = archive::gzip(&data.tar(".", source.epoch)?)?;
    let members: [(&str, &[u8]); 3] = [
        ("debian-binary", b"2.0\n"),
        ("control.tar.gz", &control),
        ("data.tar.gz", &data),
    ];
    Ok(archive::ar(&members, source.epoch))
}

/// Returns the files to install.
pub(crate) fn data(source: &Source, program: &Program, documents: &Documents) -> Result<Files> {
    let mut files = Files::default();
    files.add_with("usr/bin/gcwatch", program.bytes.clone(), 0o755);
    let unit = String::from_utf8(source.read("deploy/systemd/gcwatch.service")?).context("the unit is not text")?;
    // Omit the start of the unit, which describes how to install it by hand.
    let unit = unit
        .get(unit.find("[Unit]").context("the unit has no [Unit]")?..)
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

fn fields(source: &Source, program: &Program, size: usize) -> String {
    let depends = if program.is_static {
        ""
    } else {
        "Depends: libc6, libgcc-s1\n"
    };
    let homepage = source.addresses.repository.as_ref();
    let homepage = homepage.map_or(String::new(), |page| format!("Homepage: {page}\n"));
    format!(
        "Package: gcwatch\n\
         Version: {}\n\
         Architecture: {}\n\
         Maintainer: gcwatch <gcwatch@localhost>\n\
         Installed-Size: {}\n\
         {depends}\
         Recommends: ca-certificates\n\
         Section: admin\n\
         Priority: optional\n\
         {homepage}\
         Description: reports the garbage collections of .NET processes\n \
         gcwatch attaches to every .NET process of this host and exports each garbage\n \
         collection as traces, metrics and alerts. The processes need no change.\n",
        source.package_version(),
        program.machine.debian(),
        size.div_ceil(1024),
    )
}
