//! Determines the architecture of a process's program from the first bytes of its file.

use std::fmt;
use std::path::Path;

/// Prefixes of the file names of emulators, which run programs of other architectures. The program file of an emulated
/// process is the emulator.
const EMULATORS: [&str; 3] = ["qemu-", "rosetta", "box64"];

/// The machine in the header of an ELF file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine(
    /// Value of the field `e_machine`, see elf(5).
    pub u16,
);

impl Machine {
    /// Returns the machine of this program, or `None` on architectures other than x86-64, AArch64, x86, Arm and RISC-V
    /// 64.
    pub fn own() -> Option<Self> {
        let number = match std::env::consts::ARCH {
            "x86_64" => 62,
            "aarch64" => 183,
            "x86" => 3,
            "arm" => 40,
            "riscv64" => 243,
            _ => return None,
        };
        Some(Self(number))
    }

    /// Parses the start of a file. Returns `None` if it is not a little-endian or big-endian ELF file.
    pub fn parse(header: &[u8]) -> Option<Self> {
        let bytes: [u8; 2] = header.get(18..20)?.try_into().ok()?;
        if !header.starts_with(b"\x7fELF") {
            return None;
        }
        match header.get(5)? {
            1 => Some(Self(u16::from_le_bytes(bytes))),
            2 => Some(Self(u16::from_be_bytes(bytes))),
            _ => None,
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.0 {
            3 => "x86 (32 bits)",
            21 => "ppc64",
            22 => "s390",
            40 => "arm (32 bits)",
            62 => "x86-64",
            183 => "arm64",
            243 => "riscv",
            258 => "loongarch",
            other => return write!(f, "machine {other}"),
        };
        f.pad(name)
    }
}

/// The program of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Program {
    /// Machine for which the file is built.
    pub machine: Option<Machine>,
    /// File name of the emulator, if the process is an emulator that runs a program of another architecture.
    pub emulator: Option<String>,
}

impl Program {
    pub(super) fn new(path: Option<&Path>, header: &[u8]) -> Self {
        let name = path.and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
        Self {
            machine: Machine::parse(header),
            emulator: name.filter(|name| EMULATORS.iter().any(|emulator| name.starts_with(emulator))),
        }
    }

    /// Returns a description of the difference if the program runs in an emulator or is built for a different
    /// architecture from this program, and `None` otherwise.
    pub fn foreign(&self) -> Option<String> {
        self.foreign_to(Machine::own())
    }

    fn foreign_to(&self, ours: Option<Machine>) -> Option<String> {
        if let Some(emulator) = &self.emulator {
            return Some(format!(
                "the program is built for another architecture and runs in {}",
                crate::text::shown(emulator)
            ));
        }
        let (theirs, ours) = (self.machine?, ours?);
        (theirs != ours).then(|| format!("the program is built for {theirs}, this one for {ours}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(order: u8, machine: [u8; 2]) -> Vec<u8> {
        let mut header = b"\x7fELF\x02".to_vec();
        header.push(order);
        header.resize(18, 0);
        header.extend(machine);
        header
    }

    /// Scenario: programs are built for x86_64 and aarch64, and this machine is either, or unknown.
    /// Guarantee: a program is foreign only on the other machine; if this machine is unknown, no program is foreign.
    #[test]
    fn program_is_foreign_only_on_other_machine() {
        let (x86, arm) = (Machine(62), Machine(183));
        for (program, ours, theirs) in [([62, 0], x86, arm), ([183, 0], arm, x86)] {
            let program = Program::new(None, &header(1, program));
            assert_eq!(program.foreign_to(Some(ours)), None);
            let text = program.foreign_to(Some(theirs)).unwrap();
            assert_eq!(text, format!("the program is built for {ours}, this one for {theirs}"));
            assert_eq!(program.foreign_to(None), None);
        }
    }

    /// Scenario: the files are this program, headers of other machines in both byte orders, a script, a truncated file,
    /// and an emulator.
    /// Guarantee: only programs of other machines are foreign.
    #[test]
    fn program_of_other_machine_is_recognized() {
        let own = std::fs::read("/proc/self/exe").unwrap();
        assert_eq!(Machine::parse(&own), Machine::own());
        assert_eq!(Machine::parse(&header(1, [183, 0])), Some(Machine(183)));
        assert_eq!(Machine::parse(&header(2, [0, 22])).unwrap().to_string(), "s390");
        assert_eq!(Machine::parse(b"#!/bin/sh\necho a long script"), None);
        assert_eq!(Machine::parse(&own[..19]), None);
        assert_eq!(Program::new(None, &own).foreign(), None);
        assert!(
            Program::new(None, &header(2, [0, 22]))
                .foreign()
                .unwrap()
                .contains("s390")
        );
        let emulated = Program::new(Some(Path::new("/usr/bin/qemu-aarch64-static")), &own);
        assert!(emulated.foreign().unwrap().contains("qemu-aarch64-static"));
    }
}
