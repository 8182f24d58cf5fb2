//! Reads the configuration file and the environment of the process.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::environment::Environment;
use crate::flags::ConfigFlags;
use crate::problem::{Origin, Problem, Problems};
use crate::{Config, LoadedConfig, Sources};
use strict_yaml::decode::decoded;
use strict_yaml::path::KeyPath;
use strict_yaml::yaml::Bounds;

/// Maximum size of a file with a secret, in bytes.
const LARGEST_SECRET: u64 = 64 << 10;

/// Returns the file that the flags or the environment name, and the origin of the name. Returns `None` if neither names
/// a file.
pub(super) fn named(flags: &ConfigFlags, environment: &Environment) -> Option<(PathBuf, Origin)> {
    let flag = flags.config.clone().map(|path| (path, Origin::Flag("--config")));
    flag.or_else(|| {
        let path = environment.get("GCWATCH_CONFIG").filter(|path| !path.is_empty())?;
        Some((PathBuf::from(path), Origin::Environment("GCWATCH_CONFIG".to_owned())))
    })
}

/// Reads the configuration of this process: the environment, and the file that the flags or `GCWATCH_CONFIG` name, if
/// any.
///
/// # Errors
///
/// Returns an error if the file cannot be read, or if the file or the flags contain errors. All errors are returned.
pub fn load(flags: &ConfigFlags) -> Result<LoadedConfig, Problems> {
    let environment: Environment = std::env::vars_os()
        .map(|(name, value)| {
            (
                name.to_string_lossy().into_owned(),
                value.to_string_lossy().into_owned(),
            )
        })
        .collect();
    let named = named(flags, &environment);
    let file = match &named {
        None => None,
        Some((path, origin)) => {
            let name = path.display().to_string();
            let text = text(path, &name, origin.clone()).map_err(|problem| Problems(vec![problem]))?;
            Some((name, text))
        }
    };
    let mut loaded = Config::read(&Sources {
        file: file.as_ref().map(|(name, text)| (name.as_str(), text.as_str())),
        environment: &environment,
        flags,
        read_file: &|path| {
            let bytes = read_bounded(path, LARGEST_SECRET)?;
            String::from_utf8(bytes).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8"))
        },
    })?;
    loaded.files.extend(named.map(|(path, _)| path));
    Ok(loaded)
}

/// Reads the text of the file.
fn text(path: &Path, name: &str, origin: Origin) -> Result<String, Problem> {
    let key = KeyPath::default();
    let limit = u64::try_from(Bounds::default().bytes).unwrap_or(u64::MAX);
    let bytes = read_bounded(path, limit).map_err(|error| Problem {
        origin,
        path: key.clone(),
        message: format!("cannot read {name}: {error}"),
    })?;
    decoded(bytes).map_err(|(at, message)| Problem {
        origin: Origin::File {
            name: Arc::from(name),
            at: Some(at),
        },
        path: key,
        message,
    })
}

/// Reads a regular file of at most `limit` bytes. Pipes and devices are refused, because they can be endless.
pub(crate) fn read_bounded(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    // Check this before opening, because opening a pipe waits for a writer.
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a file"));
    }
    let mut bytes = Vec::new();
    let read = File::open(path)?
        .take(limit.saturating_add(1))
        .read_to_end(&mut bytes)?;
    if u64::try_from(read).is_ok_and(|read| read > limit) {
        let message = format!("it has more than {limit} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    Ok(bytes)
}
