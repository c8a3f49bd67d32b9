//! Output files that the user specified, checked before their content exists.

use crate::files::{parent_dir, write_atomic};
use crate::manifest;
use crate::names::{MANIFEST, SUMMARY, is_run_file};
use rustix::fs::fstat;
use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// An output file that the user specified. Symbolic links are followed, as by `>` in a shell.
#[derive(Debug)]
pub struct OutputFile {
    target: Target,
}

#[derive(Debug)]
enum Target {
    /// A regular file, or a path that does not exist yet.
    Regular(PathBuf),
    /// A device or a pipe. It is opened at once, because a sandboxed process could not open it later.
    Special(File),
    /// Standard output under another name, such as `/dev/stdout`. Opening it again would give it a separate file
    /// position.
    Stdout,
}

impl OutputFile {
    /// Checks the path, and opens devices and pipes. Blocks until a pipe has a reader.
    ///
    /// # Errors
    ///
    /// If the path cannot be written: it is a directory, a dangling symbolic link, a file in the manifest of a run,
    /// or in a directory that does not exist.
    pub fn open(path: &Path) -> io::Result<OutputFile> {
        let reject = |reason: String| Err(io::Error::new(ErrorKind::InvalidInput, reason));
        let target = match fs::metadata(path) {
            Ok(metadata) if is_stdout(&metadata) => Target::Stdout,
            Ok(metadata) if metadata.is_dir() => {
                return reject("is a directory; specify a file in it".to_owned());
            }
            Ok(metadata) if metadata.is_file() => match path.canonicalize() {
                Ok(path) => Target::Regular(path),
                // The file has no path any more, for example behind /proc/self/fd.
                Err(_) => Target::Special(File::options().write(true).truncate(true).open(path)?),
            },
            Ok(_) => Target::Special(File::options().write(true).open(path)?),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let dir = parent_dir(path);
                if path.is_symlink() {
                    return reject("symbolic link to a file that does not exist".to_owned());
                }
                if !dir.is_dir() || path.file_name().is_none() {
                    return reject(format!("directory {} does not exist", dir.display()));
                }
                Target::Regular(path.to_owned())
            }
            Err(error) => return Err(error),
        };
        if let Target::Regular(path) = &target
            && let Some(name) = path.file_name()
            && is_run_file(&name.to_string_lossy())
            && manifest::lists(parent_dir(path), SUMMARY)
        {
            return reject(format!("is a file of a run, listed in its {MANIFEST}; specify another file"));
        }
        Ok(OutputFile { target })
    }

    /// Returns the directory in which the file is created and renamed; `None` for devices, pipes and standard output.
    pub fn dir(&self) -> Option<&Path> {
        match &self.target {
            Target::Regular(path) => Some(parent_dir(path)),
            Target::Special(_) | Target::Stdout => None,
        }
    }

    /// Returns whether this is standard output; then nothing else should be printed there.
    pub fn is_stdout(&self) -> bool {
        matches!(self.target, Target::Stdout)
    }

    /// Writes the content: regular files with [`write_atomic`], others at their current position.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn write(&self, content: &[u8], mode: u32) -> io::Result<()> {
        match &self.target {
            Target::Regular(path) => write_atomic(path, content, mode),
            Target::Special(file) => (&*file).write_all(content),
            Target::Stdout => {
                let mut stdout = io::stdout();
                stdout.write_all(content)?;
                stdout.flush()
            }
        }
    }
}

fn is_stdout(metadata: &Metadata) -> bool {
    fstat(io::stdout()).is_ok_and(|stdout| (stdout.st_dev, stdout.st_ino) == (metadata.dev(), metadata.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::MODE_PUBLIC;
    use std::os::unix::fs::{FileTypeExt, symlink};

    /// Creates a pipe, and starts a thread that returns its content.
    fn pipe(path: &Path) -> std::thread::JoinHandle<Vec<u8>> {
        use rustix::fs::{CWD, FileType, Mode, mknodat};
        mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        let path = path.to_owned();
        std::thread::spawn(move || fs::read(path).unwrap())
    }

    #[test]
    fn devices_and_pipes_are_written_to_and_not_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let output = |path: &Path| OutputFile::open(path).and_then(|file| file.write(b"page", MODE_PUBLIC));
        for write in [output, |path: &Path| write_atomic(path, b"page", MODE_PUBLIC)] {
            let reader = pipe(&at("pipe"));
            write(&at("pipe")).unwrap();
            assert_eq!(reader.join().unwrap(), b"page");
            assert!(fs::metadata(at("pipe")).unwrap().file_type().is_fifo());
            fs::remove_file(at("pipe")).unwrap();
        }
        assert_eq!(OutputFile::open(&at("new")).unwrap().dir(), Some(dir.path()));

        // A device like /dev/null, if this user may create one.
        use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
        let null =
            mknodat(CWD, at("null"), FileType::CharacterDevice, Mode::from_raw_mode(0o600), makedev(1, 3));
        if null.is_ok() {
            symlink(at("null"), at("link")).unwrap();
            assert_eq!(OutputFile::open(&at("link")).unwrap().dir(), None);
            output(&at("link")).unwrap();
            output(&at("null")).unwrap();
            write_atomic(&at("null"), b"page", MODE_PUBLIC).unwrap();
            assert!(fs::symlink_metadata(at("null")).unwrap().file_type().is_char_device());
        }
        assert!(
            !fs::read_dir(dir.path())
                .unwrap()
                .any(|entry| entry.unwrap().file_name().as_encoded_bytes()[0] == b'.')
        );
    }

    #[test]
    fn symbolic_links_are_followed_if_the_target_exists() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir(at("elsewhere")).unwrap();
        fs::write(at("elsewhere/page"), "old").unwrap();
        symlink("elsewhere/page", at("link")).unwrap();
        symlink("elsewhere/nothing", at("dangling")).unwrap();

        OutputFile::open(&at("link")).unwrap().write(b"new", MODE_PUBLIC).unwrap();
        assert!(at("link").is_symlink());
        assert_eq!(fs::read(at("elsewhere/page")).unwrap(), b"new");
        let error = |path: &Path| OutputFile::open(path).unwrap_err().to_string();
        assert!(error(&at("dangling")).contains("symbolic link to a file that does not exist"));
        assert!(error(&at("elsewhere")).contains("a directory"));
        assert!(error(&at("missing/page")).contains("does not exist"));
        assert!(error(Path::new("")).contains("does not exist"));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 3, "no draft");
    }

    #[test]
    fn the_files_of_a_run_are_not_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(SUMMARY), "{}").unwrap();
        let page = dir.path().join("report.html");
        OutputFile::open(&page).unwrap().write(b"page", MODE_PUBLIC).unwrap();
        manifest::write(dir.path()).unwrap();
        let error = OutputFile::open(&page).unwrap_err().to_string();
        assert!(error.contains("a file of a run"), "{error}");
        OutputFile::open(&dir.path().join("notes.html")).unwrap().write(b"mine", MODE_PUBLIC).unwrap();
        assert_eq!(manifest::verify(dir.path()), Ok(manifest::Integrity::Verified));
    }
}
