//! Packs the program as a .NET tool (SDK 10 and newer): one package per platform, and one package that refers to them.

use anyhow::Result;

use crate::archive::Files;
use crate::build::Program;
use crate::source::Source;
use crate::tree::Documents;

/// Returns the id of a program's package.
pub(crate) fn id(program: &Program) -> String {
    format!("gcwatch.{}", platform(program))
}

fn platform(program: &Program) -> String {
    format!("linux-{}", program.machine.dotnet())
}

/// Builds the package that contains the program.
pub(crate) fn build_platform_package(source: &Source, program: &Program, documents: &Documents) -> Result<Vec<u8>> {
    let mut files = begun(source, &id(program), "DotnetToolRidPackage")?;
    let folder = format!("tools/any/{}", platform(program));
    let command = r#"<Command Name="gcwatch" EntryPoint="gcwatch" Runner="executable" />"#;
    files.add(format!("{folder}/DotnetToolSettings.xml"), settings(command, ""));
    files.add_with(format!("{folder}/gcwatch"), program.bytes.clone(), 0o755);
    documents.add_licenses(&mut files, "");
    files.add("[Content_Types].xml", content_types(&format!("/{folder}/gcwatch")));
    files.zip()
}

/// Builds the package that users request by name.
pub(crate) fn pointer(source: &Source, programs: &[Program]) -> Result<Vec<u8>> {
    let mut files = begun(source, "gcwatch", "DotnetTool")?;
    let packages: String = programs
        .iter()
        .map(|program| {
            let (platform, id) = (platform(program), id(program));
            format!(r#"<RuntimeIdentifierPackage RuntimeIdentifier="{platform}" Id="{id}" />"#)
        })
        .collect();
    let packages = format!("<RuntimeIdentifierPackages>{packages}</RuntimeIdentifierPackages>");
    files.add(
        "tools/any/any/DotnetToolSettings.xml",
        settings(r#"<Command Name="gcwatch" />"#, &packages),
    );
    files.add("[Content_Types].xml", content_types(""));
    files.zip()
}

const HEAD: &str = r#"<?xml version="1.0" encoding="utf-8"?>"#;

fn settings(command: &str, packages: &str) -> String {
    format!("{HEAD}\n<DotNetCliTool Version=\"2\"><Commands>{command}</Commands>{packages}</DotNetCliTool>\n")
}

/// Returns the files that every package contains.
fn begun(source: &Source, id: &str, kind: &str) -> Result<Files> {
    let mut files = Files::default();
    files.add("README.md", source.read("deploy/packages/nuget.md")?);
    files.add("LICENSE.md", source.read("LICENSE")?);
    let namespace = "http://schemas.microsoft.com/packaging/2010/07/nuspec.xsd";
    let version = &source.version;
    let repository = source.addresses.repository.as_ref().map_or(String::new(), |page| {
        let commit = source.commit.as_deref().unwrap_or_default();
        format!(
            "    <projectUrl>{page}</projectUrl>\n    <repository type=\"git\" url=\"{page}\" commit=\"{commit}\" />\n"
        )
    });
    let nuspec = format!(
        r#"{HEAD}
<package xmlns="{namespace}">
  <metadata>
    <id>{id}</id>
    <version>{version}</version>
    <authors>gcwatch</authors>
    <description>Reports every GC of every .NET process on this host</description>
    <license type="expression">Apache-2.0</license>
    <readme>README.md</readme>
    <tags>dotnet gc garbage-collection diagnostics opentelemetry prometheus</tags>
{repository}    <packageTypes><packageType name="{kind}" /></packageTypes>
  </metadata>
</package>
"#
    );
    files.add(format!("{id}.nuspec"), nuspec);
    let relation = format!(
        r#"{HEAD}
<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">
  <Relationship Type="http://schemas.microsoft.com/packaging/2010/07/manifest" Target="/{id}.nuspec" Id="R1" />
</Relationships>
"#
    );
    files.add("_rels/.rels", relation);
    Ok(files)
}

/// Returns the content types of the files. A file without an extension is listed by name.
fn content_types(program: &str) -> String {
    let one = if program.is_empty() {
        String::new()
    } else {
        format!("  <Override PartName=\"{program}\" ContentType=\"application/octet\" />\n")
    };
    format!(
        r#"{HEAD}
<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">
  <Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml" />
  <Default Extension="nuspec" ContentType="application/octet" />
  <Default Extension="xml" ContentType="application/octet" />
  <Default Extension="md" ContentType="application/octet" />
  <Default Extension="txt" ContentType="application/octet" />
{one}</Types>
"#
    )
}
