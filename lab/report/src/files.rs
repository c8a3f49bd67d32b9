//! Writes files that are complete at any moment, and on the disk before anything refers to them. What is there and is no
//! regular file stays: devices and pipes are written to, symbolic links are followed only where the user named them.

use super::manifest;
use super::names::{MANIFEST, SUMMARY, is_run_file};
use rustix::fs::{OFlags, fstat};
use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Mode of files for everybody, less the umask.
pub const MODE_PUBLIC: u32 = 0o666;
/// Mode of programs for everybody, less the umask.
pub const PROGRAM: u32 = 0o777;
/// Mode of files for their owner.
pub const MODE_PRIVATE: u32 = 0o600;

/// A file that the user named, found before there is anything to write. Links are followed, as by a shell's `>`.
#[derive(Debug)]
pub struct OutputFile {
    target: Target,
}

#[derive(Debug)]
enum Target {
    /// A regular file, or none yet.
    Regular(PathBuf),
    /// A device or a pipe. It is open already: a confined process could not open it later.
    Special(File),
    /// Standard output under another name, such as `/dev/stdout`. Opened again it would have a position of its own.
    Stdout,
}

impl OutputFile {
    /// Finds the file. Waits for the reader of a pipe.
    ///
    /// # Errors
    ///
    /// Nothing can be written there: it is a directory, a link to nothing, a file of a run that its manifest lists, or in a
    /// directory that does not exist.
    pub fn open(path: &Path) -> io::Result<OutputFile> {
        let refuse = |why: String| Err(io::Error::new(ErrorKind::InvalidInput, why));
        let target = match fs::metadata(path) {
            Ok(there) if is_stdout(&there) => Target::Stdout,
            Ok(there) if there.is_dir() => {
                return refuse("this is a directory, name a file in it".to_owned());
            }
            Ok(there) if there.is_file() => match path.canonicalize() {
                Ok(path) => Target::Regular(path),
                // It has no name any more, as behind /proc/self/fd.
                Err(_) => Target::Special(File::options().write(true).truncate(true).open(path)?),
            },
            Ok(_) => Target::Special(File::options().write(true).open(path)?),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let dir = parent_dir(path);
                if path.is_symlink() {
                    return refuse("this is a symbolic link to a file that does not exist".to_owned());
                }
                if !dir.is_dir() || path.file_name().is_none() {
                    return refuse(format!("there is no directory {}", dir.display()));
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
            return refuse(format!("this is a file of a run, whose {MANIFEST} lists it; name another one"));
        }
        Ok(OutputFile { target })
    }

    /// Returns the directory in which files are made and renamed; `None` if the file is only written to.
    pub fn dir(&self) -> Option<&Path> {
        match &self.target {
            Target::Regular(path) => Some(parent_dir(path)),
            Target::Special(_) | Target::Stdout => None,
        }
    }

    /// Returns whether it is standard output, where nothing else should be said then.
    pub fn is_stdout(&self) -> bool {
        matches!(self.target, Target::Stdout)
    }

    /// Writes all of the content: a regular file as [`write_atomic`], others from where they are.
    ///
    /// # Errors
    ///
    /// The system's error.
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

fn is_stdout(there: &Metadata) -> bool {
    fstat(io::stdout()).is_ok_and(|stdout| (stdout.st_dev, stdout.st_ino) == (there.dev(), there.ino()))
}

/// Replaces the file `path` in one step: after a crash or an error it has its old content or the new one. The draft
/// beside it, `.<name>.<random>`, is removed on errors. A device or a pipe is written to instead.
///
/// # Errors
///
/// `path` is a symbolic link, which somebody else may have put there, or the system's error; `path` then has its old
/// content.
pub fn write_atomic(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    if is_special(path)? {
        return open_no_follow(File::options().write(true), path)?.write_all(content);
    }
    let mut file = draft(path, mode)?;
    file.write_all(content)?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
}

/// Writes a file that must not be there yet: of two processes one succeeds.
///
/// # Errors
///
/// The system's error, [`ErrorKind::AlreadyExists`] if something has this name; nothing is left of the file.
pub fn write_new(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let mut file = draft(path, mode)?;
    file.write_all(content)?;
    file.as_file().sync_all()?;
    file.persist_noclobber(path)?;
    Ok(())
}

fn draft(path: &Path, mode: u32) -> io::Result<tempfile::NamedTempFile> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let prefix = format!(".{name}.");
    let mut draft = tempfile::Builder::new();
    draft.prefix(&prefix).permissions(Permissions::from_mode(mode));
    draft.tempfile_in(parent_dir(path))
}

/// Returns whether something has this name that no other file may replace.
///
/// # Errors
///
/// It is a symbolic link, or cannot be looked at.
pub fn is_special(path: &Path) -> io::Result<bool> {
    match fs::symlink_metadata(path) {
        Ok(there) if there.is_symlink() => Err(link()),
        Ok(there) => Ok(!there.is_file()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Creates or empties a file whose name others can foresee.
///
/// # Errors
///
/// `path` is a symbolic link, which somebody else may have put there, or the system's error.
pub fn create(path: &Path) -> io::Result<File> {
    open_no_follow(File::options().write(true).create(true).truncate(true), path)
}

/// Opens a file, and refuses a symbolic link.
///
/// # Errors
///
/// As [`create`].
pub fn open_no_follow(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let opened = options.custom_flags(OFlags::NOFOLLOW.bits().cast_signed()).open(path);
    opened.map_err(|error| if path.is_symlink() { link() } else { error })
}

fn link() -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, "this is a symbolic link, which is not followed; remove it")
}

/// Returns the directory that holds `path`.
pub fn parent_dir(path: &Path) -> &Path {
    path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Writes the entries of a directory to the disk: files that were created in it, renamed or removed.
///
/// # Errors
///
/// The system's error; file systems that cannot synchronise directories are no error.
pub fn sync_dir(dir: &Path) -> io::Result<()> {
    match File::open(dir)?.sync_all() {
        // Some file systems in user space and on the network cannot synchronise directories.
        Err(error) if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) => {
            Ok(())
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{FileTypeExt, symlink};

    #[test]
    fn a_failed_write_leaves_no_draft() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("table.csv");
        write_atomic(&path, b"1", MODE_PUBLIC).unwrap();
        write_atomic(&path, b"2", MODE_PUBLIC).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"2");
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(write_atomic(&path, b"3", MODE_PUBLIC).is_err(), "a directory is in its place");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn private_files_are_the_owners() {
        let dir = tempfile::tempdir().unwrap();
        let mode = |name: &str, mode| {
            let path = dir.path().join(name);
            write_atomic(&path, b"", mode).unwrap();
            fs::metadata(path).unwrap().permissions().mode() & 0o777
        };
        assert_eq!(mode("state", MODE_PRIVATE), 0o600);
        assert_eq!(mode("page", MODE_PUBLIC) & 0o600, 0o600);
    }

    /// A pipe, and what comes out of it.
    fn pipe(path: &Path) -> std::thread::JoinHandle<Vec<u8>> {
        use rustix::fs::{CWD, FileType, Mode, mknodat};
        mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        let path = path.to_owned();
        std::thread::spawn(move || fs::read(path).unwrap())
    }

    #[test]
    fn what_is_no_regular_file_is_written_to_and_stays() {
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

        // A device of our own like /dev/null, where that is allowed.
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
                .any(|it| it.unwrap().file_name().as_encoded_bytes()[0] == b'.')
        );
    }

    #[test]
    fn links_are_followed_only_where_the_user_named_them() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir(at("elsewhere")).unwrap();
        fs::write(at("elsewhere/page"), "old").unwrap();
        symlink("elsewhere/page", at("link")).unwrap();
        symlink("elsewhere/nothing", at("dangling")).unwrap();

        OutputFile::open(&at("link")).unwrap().write(b"new", MODE_PUBLIC).unwrap();
        assert!(at("link").is_symlink());
        assert_eq!(fs::read(at("elsewhere/page")).unwrap(), b"new");
        let refused = |path: &Path| OutputFile::open(path).unwrap_err().to_string();
        assert!(refused(&at("dangling")).contains("a symbolic link to a file that does not exist"));
        assert!(refused(&at("elsewhere")).contains("a directory"));
        assert!(refused(&at("missing/page")).contains("there is no directory"));
        assert!(refused(Path::new("")).contains("there is no directory"));

        for name in ["link", "dangling"] {
            let refused = [
                write_atomic(&at(name), b"theirs", MODE_PUBLIC).unwrap_err(),
                create(&at(name)).unwrap_err(),
                open_no_follow(File::options().read(true).write(true).create(true), &at(name)).unwrap_err(),
            ];
            assert!(refused.iter().all(|it| it.to_string().contains("a symbolic link")), "{refused:?}");
            assert_eq!(
                write_new(&at(name), b"theirs", MODE_PUBLIC).unwrap_err().kind(),
                ErrorKind::AlreadyExists
            );
        }
        assert_eq!(fs::read(at("elsewhere/page")).unwrap(), b"new");
        assert_eq!(fs::read_dir(at("elsewhere")).unwrap().count(), 1);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 3, "no draft");
    }

    #[test]
    fn the_files_of_a_run_are_not_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(SUMMARY), "{}").unwrap();
        let page = dir.path().join("report.html");
        OutputFile::open(&page).unwrap().write(b"page", MODE_PUBLIC).unwrap();
        manifest::write(dir.path()).unwrap();
        let refused = OutputFile::open(&page).unwrap_err().to_string();
        assert!(refused.contains("a file of a run"), "{refused}");
        OutputFile::open(&dir.path().join("notes.html")).unwrap().write(b"mine", MODE_PUBLIC).unwrap();
        assert_eq!(manifest::verify(dir.path()), Ok(manifest::Integrity::Verified));
    }

    #[test]
    fn a_new_file_has_one_author() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state");
        write_new(&path, b"1", MODE_PUBLIC).unwrap();
        assert_eq!(write_new(&path, b"2", MODE_PUBLIC).unwrap_err().kind(), ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&path).unwrap(), b"1");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
