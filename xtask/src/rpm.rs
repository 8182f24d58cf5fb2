//! Builds the package for Fedora, RHEL and openSUSE: RPM version 4, with a gzip-compressed cpio archive.
//!
//! ```text
//! lead       96 bytes, read only by file(1)
//! signature  a header with the digest of the next header; padded to 8 bytes
//! header     fields by tag: name, files, scripts, dependencies
//! payload    cpio ("newc"), compressed
//! ```
//!
//! A header consists of a count and a size, an index of (tag, type, offset, count) sorted by tag, and the store that
//! the index refers to.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};

use crate::archive::{self, Files, sha256};
use crate::build::{Machine, Program};
use crate::deb::{self, CONFIGURATION};
use crate::source::Source;
use crate::tree::Documents;

/// Folders that are created and removed with the package.
const OWNED: [&str; 5] = [
    "etc/gcwatch",
    "usr/share/doc/gcwatch",
    "usr/share/gcwatch",
    "usr/share/gcwatch/prometheus",
    "usr/share/gcwatch/rules",
];
/// Features that a reader of the package must support, with the version of rpm that introduced them.
const FEATURES: [(&str, &str); 3] = [
    ("rpmlib(CompressedFileNames)", "3.0.4-1"),
    ("rpmlib(FileDigests)", "4.6.0-1"),
    ("rpmlib(PayloadFilesHavePrefix)", "4.0-1"),
];
/// `RPMSENSE_LESS`, `_EQUAL` and `_RPMLIB`.
const FEATURE: u32 = 0x0100_000a;
/// `RPMSENSE_EQUAL`.
const EQUAL: u32 = 8;
/// `RPMFILE_CONFIG` and `_NOREPLACE`.
const CONFIG_NOREPLACE: u32 = 0x11;
/// `RPMFILE_DOC`.
const DOCUMENT: u32 = 2;
/// Number of SHA-256 in RPM.
const SHA256: u32 = 8;

/// Builds the package for a program.
pub(crate) fn package(source: &Source, program: &Program, documents: &Documents) -> Result<Vec<u8>> {
    let files = deb::data(source, program, documents)?;
    let entries = entries(&files, source)?;
    let payload = archive::gzip(&cpio(&entries)?)?;
    let header = fields(source, program, &entries, &payload)?.bytes(63)?;

    let mut signature = Header::default();
    let size = u32::try_from(header.len() + payload.len()).context("the package has more than 4 GiB")?;
    signature.texts(273, 6, &[sha256(&header)]);
    signature.words(1000, &[size]);
    let mut signature = signature.bytes(62)?;
    signature.resize(signature.len().next_multiple_of(8), 0);

    Ok([lead(source, program), signature, header, payload].concat())
}

fn lead(source: &Source, program: &Program) -> Vec<u8> {
    let machine: u16 = match program.machine {
        Machine::X86 => 1,
        Machine::Arm => 19,
    };
    let mut lead = vec![0xed, 0xab, 0xee, 0xdb, 3, 0, 0, 0];
    lead.extend(machine.to_be_bytes());
    let mut name = format!("gcwatch-{}-1", source.package_version()).into_bytes();
    name.resize(66, 0);
    lead.extend(name);
    // Linux, and the signature type "header".
    lead.extend([0, 1, 0, 5]);
    lead.resize(96, 0);
    lead
}

/// A file or a folder of the package.
struct Entry<'a> {
    path: String,
    /// Mode, including the file type.
    mode: u32,
    bytes: &'a [u8],
    flags: u32,
    time: u32,
}

impl Entry<'_> {
    fn is_folder(&self) -> bool {
        self.mode & 0o040_000 != 0
    }
}

fn entries<'a>(files: &'a Files, source: &Source) -> Result<Vec<Entry<'a>>> {
    let time = u32::try_from(source.epoch).context("a date that RPM cannot write")?;
    let mut entries = BTreeMap::new();
    let mut add = |path: String, mode, bytes, flags| {
        let entry = Entry {
            path: path.clone(),
            mode,
            bytes,
            flags,
            time,
        };
        entries.insert(path, entry);
    };
    for folder in OWNED {
        add(folder.to_owned(), 0o040_755, &[][..], 0);
    }
    for (path, file) in files.iter() {
        let flags = match path {
            CONFIGURATION => CONFIG_NOREPLACE,
            _ if path.starts_with("usr/share/doc/") || path.starts_with("usr/share/man/") => DOCUMENT,
            _ => 0,
        };
        // On these systems, zsh searches in `site-functions`.
        let path = path.replace("zsh/vendor-completions/", "zsh/site-functions/");
        add(path, 0o100_000 | file.mode, &file.bytes, flags);
    }
    Ok(entries.into_values().collect())
}

fn cpio(entries: &[Entry<'_>]) -> Result<Vec<u8>> {
    let mut archive = Vec::new();
    let mut add = |inode: usize, name: &str, entry: Option<&Entry<'_>>| -> Result<()> {
        let (mode, time, bytes) = entry.map_or((0, 0, &[][..]), |entry| (entry.mode, entry.time, entry.bytes));
        let links = entry.map_or(1, |entry| 1 + u32::from(entry.is_folder()));
        let (inode, size) = (u32::try_from(inode)?, u32::try_from(bytes.len())?);
        let length = u32::try_from(name.len() + 1)?;
        let numbers = [inode, mode, 0, 0, links, time, size, 0, 0, 0, 0, length, 0];
        archive.extend_from_slice(b"070701");
        archive.extend(numbers.iter().flat_map(|number| format!("{number:08x}").into_bytes()));
        archive.extend_from_slice(name.as_bytes());
        archive.push(0);
        archive.resize(archive.len().next_multiple_of(4), 0);
        archive.extend_from_slice(bytes);
        archive.resize(archive.len().next_multiple_of(4), 0);
        Ok(())
    };
    for (number, entry) in entries.iter().enumerate() {
        add(number + 1, &format!("./{}", entry.path), Some(entry))?;
    }
    add(0, "TRAILER!!!", None)?;
    Ok(archive)
}

fn fields(source: &Source, program: &Program, entries: &[Entry<'_>], payload: &[u8]) -> Result<Header> {
    let mut header = Header::default();
    let version = source.package_version();
    let epoch = u32::try_from(source.epoch)?;
    let release = format!("{version}-1");
    for (tag, text) in [
        (1000, "gcwatch"),
        (1001, version.as_str()),
        (1002, "1"),
        (1007, "localhost"),
        (1014, "Apache-2.0"),
        (1021, "linux"),
        (1022, program.machine.rust()),
        (1044, format!("gcwatch-{release}.src.rpm").as_str()),
        (1064, "4.18.0"),
        (1124, "cpio"),
        (1125, "gzip"),
        (1126, "9"),
    ] {
        header.texts(tag, 6, &[text]);
    }
    if let Some(repository) = &source.addresses.repository {
        header.texts(1020, 6, &[repository]);
    }
    header.texts(100, 8, &["C"]);
    let description = "gcwatch attaches to every .NET process of this host and exports each garbage\n\
        collection as traces, metrics and alerts. The processes need no change.";
    header.texts(1004, 9, &["Reports the garbage collections of .NET processes"]);
    header.texts(1005, 9, &[description]);
    header.texts(1016, 9, &["System/Monitoring"]);
    header.words(1006, &[epoch]);
    for (tag, name) in [(1024, "post"), (1025, "preun"), (1026, "postun")] {
        let script = String::from_utf8(source.read(&format!("deploy/packages/rpm/{name}"))?)?;
        header.texts(tag, 6, &[script]);
        // The program that runs the script.
        header.texts(tag + 62, 6, &["/bin/sh"]);
    }

    let each = |number: fn(&Entry<'_>) -> u32| entries.iter().map(number).collect::<Vec<_>>();
    let size = |entry: &Entry<'_>| u32::try_from(entry.bytes.len()).unwrap_or(u32::MAX);
    let sizes: Vec<u32> = entries.iter().map(size).collect();
    header.words(1009, &[sizes.iter().sum()]);
    header.words(1028, &sizes);
    let modes: Vec<u16> = entries.iter().map(|entry| (entry.mode & 0xffff) as u16).collect();
    header.halves(1030, &modes);
    header.halves(1033, &vec![0; entries.len()]);
    header.words(1034, &each(|entry| entry.time));
    let digest = |entry: &Entry<'_>| {
        if entry.is_folder() {
            String::new()
        } else {
            sha256(entry.bytes)
        }
    };
    header.texts(1035, 8, &entries.iter().map(digest).collect::<Vec<_>>());
    let same = |text: &str| vec![text.to_owned(); entries.len()];
    header.texts(1036, 8, &same(""));
    header.words(1037, &each(|entry| entry.flags));
    header.texts(1039, 8, &same("root"));
    header.texts(1040, 8, &same("root"));
    header.words(1045, &each(|_| u32::MAX));
    header.words(1095, &each(|_| 1));
    header.words(1096, &(1..).take(entries.len()).collect::<Vec<_>>());
    header.texts(1097, 8, &same(""));
    let mut folders: Vec<String> = Vec::new();
    let (mut indexes, mut names) = (Vec::new(), Vec::new());
    for entry in entries {
        let path = format!("/{}", entry.path);
        let (folder, name) = path.rsplit_once('/').context("a path without a folder")?;
        let folder = format!("{folder}/");
        let known = folders.iter().position(|known| *known == folder);
        let index = known.unwrap_or_else(|| {
            folders.push(folder);
            folders.len() - 1
        });
        indexes.push(u32::try_from(index)?);
        names.push(name.to_owned());
    }
    header.words(1116, &indexes);
    header.texts(1117, 8, &names);
    header.texts(1118, 8, &folders);
    header.words(5011, &[SHA256]);

    header.texts(1047, 8, &["gcwatch"]);
    header.words(1112, &[EQUAL]);
    header.texts(1113, 8, &[&release]);
    // The shell of the scripts, and the libraries of a dynamic program.
    let mut needed = vec![("/bin/sh", "", 0)];
    if !program.is_static {
        needed.extend([("libc.so.6()(64bit)", "", 0), ("libgcc_s.so.1()(64bit)", "", 0)]);
    }
    needed.extend(FEATURES.map(|(name, version)| (name, version, FEATURE)));
    header.texts(1049, 8, &needed.iter().map(|(name, _, _)| *name).collect::<Vec<_>>());
    header.texts(
        1050,
        8,
        &needed.iter().map(|(_, version, _)| *version).collect::<Vec<_>>(),
    );
    header.words(1048, &needed.iter().map(|(_, _, sense)| *sense).collect::<Vec<_>>());
    header.texts(5046, 8, &["ca-certificates"]);
    header.texts(5047, 8, &[""]);
    header.words(5048, &[0]);

    header.texts(5092, 8, &[sha256(payload)]);
    header.words(5093, &[SHA256]);
    Ok(header)
}

/// A header: fields by tag.
#[derive(Debug, Default)]
struct Header {
    /// Type, count and bytes of each field.
    fields: BTreeMap<u32, (u32, usize, Vec<u8>)>,
}

impl Header {
    /// Sets one text (type 6), several texts (8), or a text by language (9).
    fn texts<T: AsRef<str>>(&mut self, tag: u32, kind: u32, texts: &[T]) {
        let bytes = texts.iter().flat_map(|text| [text.as_ref().as_bytes(), &[0]].concat());
        self.fields.insert(tag, (kind, texts.len(), bytes.collect()));
    }

    fn words(&mut self, tag: u32, words: &[u32]) {
        let bytes = words.iter().flat_map(|word| word.to_be_bytes()).collect();
        self.fields.insert(tag, (4, words.len(), bytes));
    }

    fn halves(&mut self, tag: u32, halves: &[u16]) {
        let bytes = halves.iter().flat_map(|half| half.to_be_bytes()).collect();
        self.fields.insert(tag, (3, halves.len(), bytes));
    }

    /// Encodes the header with a region (62 for the signature, 63 for the package), which marks all fields as written
    /// by the builder.
    fn bytes(&self, region: u32) -> Result<Vec<u8>> {
        let (mut index, mut store) = (Vec::new(), Vec::new());
        let entry = |tag: u32, kind: u32, offset: u32, count: u32| -> [u8; 16] {
            let words = [tag, kind, offset, count].map(u32::to_be_bytes);
            std::array::from_fn(|at| words[at / 4][at % 4])
        };
        for (tag, (kind, count, bytes)) in &self.fields {
            let aligned = match kind {
                3 => 2,
                4 => 4,
                _ => 1,
            };
            store.resize(store.len().next_multiple_of(aligned), 0);
            index.extend(entry(*tag, *kind, u32::try_from(store.len())?, u32::try_from(*count)?));
            store.extend_from_slice(bytes);
        }
        let count = u32::try_from(self.fields.len() + 1)?;
        // The region ends with a copy of its entry, which contains the length of the index as a negative offset.
        let end = u32::try_from(store.len())?;
        store.extend(entry(region, 7, (count * 16).wrapping_neg(), 16));
        let mut bytes = vec![0x8e, 0xad, 0xe8, 1, 0, 0, 0, 0];
        bytes.extend(count.to_be_bytes());
        bytes.extend(u32::try_from(store.len())?.to_be_bytes());
        bytes.extend(entry(region, 7, end, 16));
        bytes.extend(index);
        bytes.extend(store);
        Ok(bytes)
    }
}
