//! Determines from the sections of an executable whether it was compiled ahead of time (NativeAOT). Pure.
//!
//! The compiler puts managed code into a section `__managedcode` (observed in programs of 8, 9, 10 and 11, including
//! stripped ones). The CoreCLR host has no such section, whether the runtime is embedded (single-file programs) or in a
//! separate file.

use std::io;

/// Name of the section with managed code.
const MANAGED_CODE: &[u8] = b"__managedcode";
/// Size of the longest header, in bytes.
const HEADER: usize = 64;
/// Maximum number of sections that are examined. A program has about 40.
const MAX_SECTIONS: u64 = 256;
/// Maximum number of bytes of section names that are read.
const MAX_NAMES: u64 = 16 << 10;

/// Positions of the relevant numbers in the headers of one ELF class.
struct Class {
    /// Size of an address.
    word: usize,
    /// Offsets in the file header: the position of the section table, and (`entry`) the entry size, which the entry
    /// count and the index of the name section follow.
    sections: usize,
    entry: usize,
    /// Offsets of the position and size of the content in a section header.
    content: usize,
    size: usize,
}

const CLASS_32: Class = Class {
    word: 4,
    sections: 0x20,
    entry: 0x2e,
    content: 0x10,
    size: 0x14,
};
const CLASS_64: Class = Class {
    word: 8,
    sections: 0x28,
    entry: 0x3a,
    content: 0x18,
    size: 0x20,
};

/// Returns whether the program contains managed code, or `None` if its sections are unreadable. `read` fills a buffer
/// from an offset of the file.
pub(super) fn is_native_aot(read: impl Fn(&mut [u8], u64) -> io::Result<()>) -> Option<bool> {
    let mut header = [0; HEADER];
    read(&mut header, 0).ok()?;
    let (class, is_little) = match header {
        [0x7f, b'E', b'L', b'F', 1, order @ 1..=2, ..] => (CLASS_32, order == 1),
        [0x7f, b'E', b'L', b'F', 2, order @ 1..=2, ..] => (CLASS_64, order == 1),
        _ => return None,
    };
    let number = |bytes: &[u8], at: usize, size: usize| -> Option<u64> {
        let bytes = bytes.get(at..at + size)?.iter();
        let add = |sum: u64, byte: &u8| (sum << 8) | u64::from(*byte);
        Some(if is_little {
            bytes.rev().fold(0, add)
        } else {
            bytes.fold(0, add)
        })
    };
    let sections = number(&header, class.sections, class.word)?;
    let [entry, count, names] = [0, 2, 4].map(|at| number(&header, class.entry + at, 2));
    let (entry, count, names) = (entry?, count?, names?);
    if sections == 0 || count == 0 || count > MAX_SECTIONS || names >= count {
        return None;
    }
    let section = |index: u64| {
        let mut header = [0; HEADER];
        let at = sections.checked_add(index.checked_mul(entry)?)?;
        let header = header.get_mut(..usize::try_from(entry).ok()?.min(HEADER))?;
        read(header, at).ok()?;
        Some((
            number(header, 0, 4)?,
            number(header, class.content, class.word)?,
            number(header, class.size, class.word)?,
        ))
    };
    let (_, at, size) = section(names)?;
    let mut text = vec![0; usize::try_from(size.min(MAX_NAMES)).ok()?];
    read(&mut text, at).ok()?;
    let mut found = false;
    for index in 0..count {
        let (name, _, _) = section(index)?;
        let name = text.get(usize::try_from(name).ok()?..)?;
        found |= name.split(|byte| *byte == 0).next() == Some(MANAGED_CODE);
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(file: &[u8]) -> impl Fn(&mut [u8], u64) -> io::Result<()> + '_ {
        |buffer, at| {
            let at = usize::try_from(at).unwrap_or(usize::MAX);
            let bytes = file.get(at..).and_then(|rest| rest.get(..buffer.len()));
            buffer.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
            Ok(())
        }
    }

    /// Returns a 64-bit file with these sections. The last section contains the names.
    fn file(names: &[&str], is_little: bool) -> Vec<u8> {
        let number = |value: u64, size: usize| {
            let mut bytes = value.to_le_bytes()[..size].to_vec();
            if !is_little {
                bytes.reverse();
            }
            bytes
        };
        let mut text = vec![0];
        let starts: Vec<u64> = names
            .iter()
            .map(|name| {
                let start = text.len() as u64;
                text.extend(name.bytes().chain([0]));
                start
            })
            .collect();
        let mut file = vec![0; HEADER];
        file[..6].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2, if is_little { 1 } else { 2 }]);
        file[0x28..0x30].copy_from_slice(&number((HEADER + text.len()) as u64, 8));
        for (at, value) in [(0x3a, 64), (0x3c, names.len() as u64), (0x3e, names.len() as u64 - 1)] {
            file[at..at + 2].copy_from_slice(&number(value, 2));
        }
        file.extend(&text);
        for start in starts {
            let mut section = vec![0; 64];
            section[..4].copy_from_slice(&number(start, 4));
            section[0x18..0x20].copy_from_slice(&number(HEADER as u64, 8));
            section[0x20..0x28].copy_from_slice(&number(text.len() as u64, 8));
            file.extend(section);
        }
        file
    }

    /// Scenario: files have the section or not, in both byte orders; one section has a longer name; one file is not an
    /// ELF file, and one has no sections.
    /// Guarantee: the section is matched by its whole name; files without sections are unknown.
    #[test]
    fn managed_code_is_found() {
        for is_little in [true, false] {
            let is = |names: &[&str]| is_native_aot(read(&file(names, is_little)));
            assert_eq!(is(&[".text", "__managedcode", ".shstrtab"]), Some(true));
            assert_eq!(is(&[".text", "__managedcode2", ".shstrtab"]), Some(false));
        }
        assert_eq!(is_native_aot(read(b"#!/bin/sh\n")), None);
        let mut none = file(&[".shstrtab"], true);
        none[0x3c] = 0;
        assert_eq!(is_native_aot(read(&none)), None);
    }

    /// Scenario: the executable of this test is examined.
    /// Guarantee: its sections are readable, and it has no managed code.
    #[test]
    fn test_program_has_no_managed_code() {
        use std::os::unix::fs::FileExt as _;
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        assert_eq!(is_native_aot(|buffer, at| file.read_exact_at(buffer, at)), Some(false));
    }

    proptest! {
        /// Scenario: a file has changed bytes in three places and is truncated anywhere.
        /// Guarantee: the function returns without panic.
        #[test]
        fn any_file_is_examined(changes: [(u8, u8); 3], length in 0usize..400) {
            let mut file = file(&[".text", "__managedcode", ".shstrtab"], true);
            for (at, value) in changes {
                file[usize::from(at)] = value;
            }
            file.truncate(length);
            let _answer = is_native_aot(read(&file));
        }
    }
}
