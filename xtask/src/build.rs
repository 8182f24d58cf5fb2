//! The gcwatch program of a release, which is built here or given as a file.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::source::Source;

/// The processor architecture of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Machine {
    X86,
    Arm,
}

impl Machine {
    pub(crate) const ALL: [Self; 2] = [Self::X86, Self::Arm];

    /// Returns the architecture of this machine, or `None` if no program is built for it.
    pub(crate) fn here() -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|machine| machine.rust() == std::env::consts::ARCH)
    }

    /// Returns the name in Rust's targets.
    pub(crate) fn rust(self) -> &'static str {
        match self {
            Self::X86 => "x86_64",
            Self::Arm => "aarch64",
        }
    }

    /// Returns the name that Debian and OCI use.
    pub(crate) fn debian(self) -> &'static str {
        match self {
            Self::X86 => "amd64",
            Self::Arm => "arm64",
        }
    }

    /// Returns the name that .NET uses.
    pub(crate) fn dotnet(self) -> &'static str {
        match self {
            Self::X86 => "x64",
            Self::Arm => "arm64",
        }
    }
}

#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) path: PathBuf,
    pub(crate) bytes: Vec<u8>,
    pub(crate) machine: Machine,
    /// Whether the program needs no program interpreter, and therefore no libraries.
    pub(crate) is_static: bool,
}

impl Program {
    /// Reads a program and its ELF headers.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let path = std::path::absolute(path)?;
        let bytes = std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let (machine, is_static) = elf(&bytes)
            .with_context(|| format!("{} is not a 64-bit Linux program for x86_64 or aarch64", path.display()))?;
        Ok(Self {
            path,
            bytes,
            machine,
            is_static,
        })
    }

    /// Describes the program.
    pub(crate) fn described(&self) -> String {
        let linked = if self.is_static {
            "static"
        } else {
            "DYNAMIC: needs the libraries of the machine it was built on"
        };
        format!("{}, {}, {linked}", self.path.display(), self.machine.rust())
    }
}

/// Returns the architecture, and whether no segment names an interpreter. Returns `None` if the bytes are not a 64-bit
/// ELF program for a supported architecture.
fn elf(bytes: &[u8]) -> Option<(Machine, bool)> {
    if !bytes.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let short = |at: usize| Some(usize::from(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?)));
    let machine = match short(18)? {
        62 => Machine::X86,
        183 => Machine::Arm,
        _ => return None,
    };
    let table = usize::try_from(u64::from_le_bytes(bytes.get(32..40)?.try_into().ok()?)).ok()?;
    let (size, count) = (short(54)?, short(56)?);
    let mut is_static = true;
    for number in 0..count {
        let at = table.checked_add(number.checked_mul(size)?)?;
        is_static &= bytes.get(at..at.checked_add(4)?)? != [3, 0, 0, 0];
    }
    Some((machine, is_static))
}

/// Builds the static programs that the toolchains of this machine support: for the architecture of this machine, and
/// cross-compiled for the other architecture.
pub(crate) fn all(source: &Source, profile: &str) -> Result<Vec<Program>> {
    let installed = Command::new("rustup").args(["target", "list", "--installed"]).output();
    let installed = installed.map_or(String::new(), |output| {
        String::from_utf8_lossy(&output.stdout).into_owned()
    });
    let has = |target: &str| installed.lines().any(|line| line == target);

    let mut programs = Vec::new();
    for machine in Machine::ALL {
        let Some(toolchain) = Toolchain::find(machine, has, is_there) else {
            let rust = machine.rust();
            println!(
                "left out: {rust}: needs the target {rust}-unknown-linux-musl, and {rust}-linux-musl-gcc or cargo-zigbuild"
            );
            continue;
        };
        println!("{}: {} with {}", machine.rust(), toolchain.target, toolchain.compiler);
        programs.push(one(source, profile, &toolchain)?);
    }
    Ok(programs)
}

/// The tools that build a static program for an architecture.
#[derive(Debug, PartialEq, Eq)]
struct Toolchain {
    target: String,
    /// Compiler of the C code.
    compiler: String,
    /// Whether `cargo zigbuild` provides compiler and linker.
    is_zig: bool,
    /// Whether the compiler also links: the linker of this machine cannot link for another architecture.
    links: bool,
}

impl Toolchain {
    /// Returns the first available toolchain: musl of this machine, a cross compiler, zig, or glibc for this machine.
    /// Returns `None` if the machine can build no program for the architecture.
    fn find(machine: Machine, has: impl Fn(&str) -> bool, is_there: impl Fn(&str) -> bool) -> Option<Self> {
        let is_here = Some(machine) == Machine::here();
        let musl = format!("{}-unknown-linux-musl", machine.rust());
        let across = format!("{}-linux-musl-gcc", machine.rust());
        let found = |target: String, compiler: &str, is_zig, links| {
            let compiler = compiler.to_owned();
            Some(Self {
                target,
                compiler,
                is_zig,
                links,
            })
        };
        if has(&musl) && is_here && is_there("musl-gcc") {
            found(musl, "musl-gcc", false, false)
        } else if has(&musl) && is_there(&across) {
            found(musl, &across, false, true)
        } else if has(&musl) && is_there("cargo-zigbuild") {
            found(musl, "zig", true, false)
        } else if is_here {
            found(format!("{}-unknown-linux-gnu", machine.rust()), "cc", false, false)
        } else {
            None
        }
    }
}

fn is_there(program: &str) -> bool {
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|folder| folder.join(program).exists()))
}

fn one(source: &Source, profile: &str, toolchain: &Toolchain) -> Result<Program> {
    let target = toolchain.target.as_str();
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let root = source.root.display().to_string();
    let home = std::env::var("CARGO_HOME")
        .ok()
        .or_else(|| Some(format!("{}/.cargo", std::env::var("HOME").ok()?)))
        .context("neither CARGO_HOME nor HOME is set")?;
    let folder = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| source.root.join("target"), PathBuf::from);
    let folder = std::path::absolute(folder)?;
    // Remap the paths of the folders, so that the program is the same in every build folder. If several prefixes match,
    // the last one applies.
    let prefixes = [(home.as_str(), "/cargo"), (root.as_str(), "/gcwatch")];
    let mut flags: Vec<String> = prefixes
        .iter()
        .map(|(from, to)| format!("--remap-path-prefix={from}={to}"))
        .collect();
    flags.push("-Ctarget-feature=+crt-static".to_owned());
    let c_flags: Vec<String> = prefixes
        .iter()
        .map(|(from, to)| format!("-ffile-prefix-map={from}={to}"))
        .collect();

    let auditable = Command::new(&cargo).args(["auditable", "--version"]).output();
    let is_auditable = auditable.is_ok_and(|output| output.status.success());
    if !is_auditable {
        println!("left out: the dependencies inside the program: cargo-auditable is not installed");
    }
    let mut command = Command::new(&cargo);
    if is_auditable {
        command.arg("auditable");
    }
    command
        .current_dir(&source.root)
        .args([
            if toolchain.is_zig { "zigbuild" } else { "build" },
            "--locked",
            "--bin",
            "gcwatch",
            "--profile",
            profile,
            "--target",
            target,
        ])
        .arg("--target-dir")
        .arg(&folder)
        .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"))
        .env("CFLAGS", c_flags.join(" "))
        .env("CARGO_INCREMENTAL", "0")
        .env("SOURCE_DATE_EPOCH", source.epoch.to_string())
        .env(format!("CARGO_PROFILE_{}_STRIP", profile.to_uppercase()), "debuginfo");
    let target_name = target.replace('-', "_");
    if !toolchain.is_zig && target.ends_with("-musl") {
        command.env(format!("CC_{target_name}"), &toolchain.compiler);
    }
    if toolchain.links {
        let variable = format!("CARGO_TARGET_{}_LINKER", target_name.to_uppercase());
        command.env(variable, &toolchain.compiler);
    }
    if !command.status().context("cannot run cargo")?.success() {
        bail!("cannot build the program for {target}");
    }
    let profile = if profile == "dev" { "debug" } else { profile };
    let program = Program::read(&folder.join(target).join(profile).join("gcwatch"))?;
    if !program.is_static {
        bail!("{} is not static", program.path.display());
    }
    Ok(program)
}

#[cfg(test)]
mod tests {
    use super::{Machine, Toolchain};

    /// Scenario: a machine has no extra tools, musl, a cross compiler, or only zig.
    /// Guarantee: a program can always be built for the architecture of this machine, and for the other architecture
    /// only if a tool can link for it.
    #[test]
    fn first_available_toolchain_is_used() {
        let here = Machine::here().unwrap();
        let [other] = Machine::ALL
            .into_iter()
            .filter(|machine| *machine != here)
            .collect::<Vec<_>>()[..]
        else {
            panic!("two machines")
        };
        let find = |machine, programs: &[&str]| {
            let found = Toolchain::find(machine, |_| !programs.is_empty(), |name| programs.contains(&name));
            found.map(|found| (found.target, found.compiler, found.links))
        };
        let musl = |machine: Machine| format!("{}-unknown-linux-musl", machine.rust());
        let across = format!("{}-linux-musl-gcc", other.rust());
        assert_eq!(find(here, &[]).unwrap().0, format!("{}-unknown-linux-gnu", here.rust()));
        assert_eq!(find(here, &["musl-gcc"]), Some((musl(here), "musl-gcc".into(), false)));
        assert_eq!(find(other, &[]), None);
        assert_eq!(find(other, &["musl-gcc"]), None);
        assert_eq!(
            find(other, &[&across, "cargo-zigbuild"]),
            Some((musl(other), across.clone(), true))
        );
        assert_eq!(
            find(other, &["cargo-zigbuild"]),
            Some((musl(other), "zig".into(), false))
        );
    }
}
