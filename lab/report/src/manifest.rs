//! `SHA256SUMS`: the SHA-256 of every file of a complete run, in the format of `sha256sum`.

use super::names::{MANIFEST, is_run_file};
use crate::files::{create, sync_dir};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// A file that does not match the manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IntegrityError {
    pub file: PathBuf,
    /// What is wrong, such as "is missing".
    pub reason: String,
}

/// Result of comparing a directory with its manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Integrity {
    /// All files match.
    Verified,
    /// There is no manifest: the run was written by an earlier version or did not end normally.
    Unknown,
}

/// Syncs all files in `dir`, then writes the manifest, then syncs the directory.
///
/// # Errors
///
/// If a file cannot be read or synced.
pub fn write(dir: &Path) -> io::Result<()> {
    let mut sums = BTreeMap::new();
    for name in names(dir)? {
        let file = File::open(dir.join(&name))?;
        sums.insert(name, sha256(&file)?);
        file.sync_all()?;
    }
    let mut text = String::new();
    for (name, sum) in sums {
        writeln!(text, "{sum}  {name}").map_err(io::Error::other)?;
    }
    let mut file = create(&dir.join(MANIFEST))?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    sync_dir(dir)
}

/// Compares the files in `dir` with the manifest.
///
/// # Errors
///
/// If a file is missing, cannot be read or has a different checksum, or the manifest is malformed. A missing manifest
/// is not an error.
pub fn verify(dir: &Path) -> Result<Integrity, IntegrityError> {
    let error_in = |name: &str, reason: String| IntegrityError { file: dir.join(name), reason };
    let text = match fs::read(dir.join(MANIFEST)) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Integrity::Unknown),
        Err(error) => return Err(error_in(MANIFEST, format!("cannot be read: {error}"))),
    };
    let mut listed = BTreeMap::new();
    for (index, line) in text.lines().enumerate() {
        let (sum, name) = entry(line).ok_or_else(|| {
            error_in(MANIFEST, format!("malformed: line {}: expected SHA-256 and file name", index + 1))
        })?;
        listed.insert(name, sum);
    }
    for (name, sum) in &listed {
        let found = match File::open(dir.join(name)) {
            Ok(file) => sha256(&file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(error_in(name, format!("is missing, but listed in {MANIFEST}")));
            }
            Err(error) => Err(error),
        };
        match found {
            Ok(found) if found == *sum => {}
            Ok(_) => return Err(error_in(name, format!("does not match its SHA-256 in {MANIFEST}"))),
            Err(error) => return Err(error_in(name, format!("cannot be read: {error}"))),
        }
    }
    let names = names(dir).map_err(|error| error_in("", format!("cannot be read: {error}")))?;
    match names.into_iter().find(|name| is_run_file(name) && !listed.contains_key(name.as_str())) {
        Some(name) => Err(error_in(&name, format!("is not in {MANIFEST}"))),
        None => Ok(Integrity::Verified),
    }
}

/// Returns whether `dir` has a manifest that lists this file.
pub fn lists(dir: &Path, name: &str) -> bool {
    let text = fs::read_to_string(dir.join(MANIFEST)).unwrap_or_default();
    text.lines().filter_map(entry).any(|(_, listed)| listed == name)
}

/// Returns the names of the files in a directory, except the manifest.
fn names(dir: &Path) -> io::Result<Vec<String>> {
    let names =
        fs::read_dir(dir)?.map(|entry| entry.map(|entry| entry.file_name().to_string_lossy().into_owned()));
    names.filter(|name| !name.as_ref().is_ok_and(|name| name == MANIFEST)).collect()
}

/// Parses a line: hexadecimal digits, a space, a space or an asterisk, and a file name without directories.
fn entry(line: &str) -> Option<(&str, &str)> {
    /// Length of a SHA-256 in hexadecimal.
    const DIGITS: usize = 64;
    let (sum, rest) = line.split_at_checked(DIGITS)?;
    let name = rest.strip_prefix("  ").or_else(|| rest.strip_prefix(" *"))?;
    let is_hexadecimal = sum.bytes().all(|digit| digit.is_ascii_digit() || (b'a'..=b'f').contains(&digit));
    let is_plain = Path::new(name).file_name().is_some_and(|file| file == name);
    (is_hexadecimal && is_plain).then_some((sum, name))
}

fn sha256(mut file: &File) -> io::Result<String> {
    let (mut hash, mut buffer) = (Sha256::new(), vec![0; 64 << 10]);
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()),
            read => hash.update(&buffer[..read]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run_with_manifest() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in [("summary.json", "{}\n"), ("rates.csv", "scheme,time_us\n"), ("run.yaml", "")] {
            fs::write(dir.path().join(name), text).unwrap();
        }
        write(dir.path()).unwrap();
        dir
    }

    #[test]
    fn lists_every_file_as_sha256sum_does() {
        let dir = run_with_manifest();
        let text = fs::read_to_string(dir.path().join(MANIFEST)).unwrap();
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  run.yaml\n";
        assert!(text.contains(empty) && text.lines().count() == 3, "{text}");
        let mut check = std::process::Command::new("sha256sum");
        let output = check.args(["--check", "--strict", MANIFEST]).current_dir(dir.path()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(verify(dir.path()), Ok(Integrity::Verified));
    }

    #[test]
    fn every_kind_of_damage_is_detected() {
        type Damage = fn(&Path) -> io::Result<()>;
        let cases: [(&str, &str, Damage); 8] = [
            ("rates.csv", "does not match", |dir| fs::write(dir.join("rates.csv"), "scheme")),
            ("summary.json", "does not match", |dir| fs::write(dir.join("summary.json"), "{ }\n")),
            ("run.yaml", "is missing", |dir| fs::remove_file(dir.join("run.yaml"))),
            ("queues.csv", "is not in", |dir| fs::write(dir.join("queues.csv"), "")),
            (MANIFEST, "line 1", |dir| fs::write(dir.join(MANIFEST), "not a manifest\n")),
            (MANIFEST, "line 1", |dir| fs::write(dir.join(MANIFEST), format!("{}  ../x\n", "0".repeat(64)))),
            ("run.yaml", "cannot be read", |dir| {
                fs::remove_file(dir.join("run.yaml"))?;
                fs::create_dir(dir.join("run.yaml"))
            }),
            (MANIFEST, "line 3", |dir| {
                let whole = fs::read_to_string(dir.join(MANIFEST))?;
                fs::write(dir.join(MANIFEST), &whole[..whole.len() - 20])
            }),
        ];
        for (file, expected, damage) in cases {
            let dir = run_with_manifest();
            damage(dir.path()).unwrap();
            let error = verify(dir.path()).unwrap_err();
            assert_eq!(error.file, dir.path().join(file), "{error:?}");
            assert!(error.reason.contains(expected), "{file}: {error:?}");
        }
        let dir = run_with_manifest();
        fs::write(dir.path().join(MANIFEST), "").unwrap();
        assert!(verify(dir.path()).is_err(), "an empty manifest lists nothing");
    }

    #[test]
    fn other_files_are_accepted_and_a_missing_manifest_is_unknown() {
        let dir = run_with_manifest();
        fs::write(dir.path().join("notes.txt"), "mine").unwrap();
        assert_eq!(verify(dir.path()), Ok(Integrity::Verified));
        fs::remove_file(dir.path().join(MANIFEST)).unwrap();
        assert_eq!(verify(dir.path()), Ok(Integrity::Unknown));
    }
}
