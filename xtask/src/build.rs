//! The program: built, or given.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::source::Source;

/// The processor that a program is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Machine {
    X86,
    Arm,
}

impl Machine {
    /// As Rust's targets say it.
    pub(crate) fn rust(self) -> &'static str {
        match self {
            Self::X86 => "x86_64",
            Self::Arm => "aarch64",
        }
    }

    /// As Debian and OCI say it.
    pub(crate) fn debian(self) -> &'static str {
        match self {
            Self::X86 => "amd64",
            Self::Arm => "arm64",
        }
    }

    /// As .NET says it.
    pub(crate) fn dotnet(self) -> &'static str {
        match self {
            Self::X86 => "x64",
            Self::Arm => "arm64",
        }
    }
}

/// A program.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) path: PathBuf,
    pub(crate) bytes: Vec<u8>,
    pub(crate) machine: Machine,
    /// It asks for no program interpreter, and so for no library.
    pub(crate) is_static: bool,
}

impl Program {
    /// Reads a program and its ELF headers.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let path = std::path::absolute(path)?;
        let bytes = std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let (machine, is_static) = elf(&bytes)
            .with_context(|| format!("{} is no 64-bit Linux program for x86_64 or aarch64", path.display()))?;
        Ok(Self {
            path,
            bytes,
            machine,
            is_static,
        })
    }

    /// What it is, in words.
    pub(crate) fn described(&self) -> String {
        let linked = if self.is_static {
            "static"
        } else {
            "DYNAMIC: needs the libraries of the machine it was built on"
        };
        format!("{}, {}, {linked}", self.path.display(), self.machine.rust())
    }
}

/// Machine, and whether no segment names an interpreter.
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

/// Builds the static programs that this machine's toolchains can make.
pub(crate) fn all(source: &Source, profile: &str) -> Result<Vec<Program>> {
    let installed = Command::new("rustup").args(["target", "list", "--installed"]).output();
    let installed = installed.map_or(String::new(), |output| {
        String::from_utf8_lossy(&output.stdout).into_owned()
    });
    let has = |target: &str| installed.lines().any(|line| line == target);

    let musl = "x86_64-unknown-linux-musl";
    let mut programs = Vec::new();
    if has(musl) && is_there("musl-gcc") {
        println!("x86_64: {musl}");
        programs.push(one(source, profile, musl, Some("musl-gcc"))?);
    } else {
        println!("x86_64: static glibc, because the target {musl} or musl-gcc is not installed");
        programs.push(one(source, profile, "x86_64-unknown-linux-gnu", None)?);
    }
    let (arm, compiler) = ("aarch64-unknown-linux-musl", "aarch64-linux-musl-gcc");
    if has(arm) && is_there(compiler) {
        programs.push(one(source, profile, arm, Some(compiler))?);
    } else {
        println!("left out: aarch64: the target {arm} or {compiler} is not installed");
    }
    Ok(programs)
}

fn is_there(program: &str) -> bool {
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|folder| folder.join(program).exists()))
}

fn one(source: &Source, profile: &str, target: &str, compiler: Option<&str>) -> Result<Program> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let root = source.root.display().to_string();
    let home = std::env::var("CARGO_HOME")
        .ok()
        .or_else(|| Some(format!("{}/.cargo", std::env::var("HOME").ok()?)))
        .context("neither CARGO_HOME nor HOME is set")?;
    let folder = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| source.root.join("target"), PathBuf::from);
    let folder = std::path::absolute(folder)?;
    // The same program from whichever folder. The last prefix that fits counts.
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
            "build",
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
    if let Some(compiler) = compiler {
        command.env(format!("CC_{}", target.replace('-', "_")), compiler);
    }
    if !command.status().context("cannot run cargo")?.success() {
        bail!("the program for {target} was not built");
    }
    let profile = if profile == "dev" { "debug" } else { profile };
    let program = Program::read(&folder.join(target).join(profile).join("gcwatch"))?;
    if !program.is_static {
        bail!("{} is not static", program.path.display());
    }
    Ok(program)
}
