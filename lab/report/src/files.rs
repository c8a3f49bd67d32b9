//! Atomic and durable writes of files. Readers see the old or the new content, and files are synced before they are
//! renamed. Devices and pipes are written to, not replaced. Symbolic links are errors; [`output`](crate::output)
//! follows those in paths that the user specified.

use rustix::fs::OFlags;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// Mode of files for all users, before the umask.
pub const MODE_PUBLIC: u32 = 0o666;
/// Mode of executables for all users, before the umask.
pub const MODE_EXECUTABLE: u32 = 0o777;
/// Mode of files for the owner only.
pub const MODE_PRIVATE: u32 = 0o600;

/// Replaces the file `path` atomically: after a crash or an error it has its old or its new content. The temporary file
/// `.<name>.<random>` in the same directory is removed on errors. A device or a pipe is written to instead.
///
/// # Errors
///
/// If `path` is a symbolic link, which another user may have placed there, or cannot be written; `path` is then
/// unchanged.
pub fn write_atomic(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    write_atomic_with(path, mode, |file| file.write_all(content))
}

/// Like [`write_atomic`], with the content that `write` writes.
///
/// # Errors
///
/// Those of [`write_atomic`] and of `write`.
pub fn write_atomic_with(
    path: &Path,
    mode: u32,
    write: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<()> {
    if is_special(path)? {
        return write(&mut open_no_follow(File::options().write(true), path)?);
    }
    let mut file = draft(path, mode)?;
    write(file.as_file_mut())?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
}

/// Writes a file that must not exist yet. Of two concurrent processes one succeeds.
///
/// # Errors
///
/// [`ErrorKind::AlreadyExists`] if the path exists, else the error of the file system; no file is left then.
pub fn write_new(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let mut file = draft(path, mode)?;
    file.write_all(content)?;
    file.as_file().sync_all()?;
    file.persist_noclobber(path)?;
    Ok(())
}

/// Creates a temporary file in the directory of `path`, to be renamed to `path`.
fn draft(path: &Path, mode: u32) -> io::Result<tempfile::NamedTempFile> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let prefix = format!(".{name}.");
    let mut builder = tempfile::Builder::new();
    builder.prefix(&prefix).permissions(Permissions::from_mode(mode));
    builder.tempfile_in(parent_dir(path))
}

/// Returns whether the path exists and is not a regular file, so that it must not be replaced.
///
/// # Errors
///
/// If the path is a symbolic link, or its metadata cannot be read.
pub fn is_special(path: &Path) -> io::Result<bool> {
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_symlink() => Err(symlink_error()),
        Ok(metadata) => Ok(!metadata.is_file()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Creates or truncates a file with a predictable name.
///
/// # Errors
///
/// If `path` is a symbolic link, which another user may have placed there, or cannot be written.
pub fn create(path: &Path) -> io::Result<File> {
    open_no_follow(File::options().write(true).create(true).truncate(true), path)
}

/// Opens a file, but no symbolic link.
///
/// # Errors
///
/// Those of [`create`].
pub fn open_no_follow(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let result = options.custom_flags(OFlags::NOFOLLOW.bits().cast_signed()).open(path);
    result.map_err(|error| if path.is_symlink() { symlink_error() } else { error })
}

fn symlink_error() -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, "is a symbolic link, which is not followed; remove it")
}

/// Returns the parent directory of `path`, `.` for a bare file name.
pub fn parent_dir(path: &Path) -> &Path {
    path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Syncs a directory, so that files created, renamed or removed in it survive a power failure.
///
/// # Errors
///
/// If the sync fails. File systems that do not support it are not an error.
pub fn sync_dir(dir: &Path) -> io::Result<()> {
    match File::open(dir)?.sync_all() {
        // Some FUSE and network file systems do not support fsync of directories.
        Err(error) if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) => {
            Ok(())
        }
        other => other,
    }
}

/// Writes a file into a staging directory. It is synced and renamed later, together with the other files of the run.
pub(crate) fn stage_file(dir: &Path, name: &str, text: &str) -> io::Result<()> {
    create(&dir.join(name))?.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_failed_write_leaves_no_draft() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("table.csv");
        write_atomic(&path, b"1", MODE_PUBLIC).unwrap();
        write_atomic(&path, b"2", MODE_PUBLIC).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"2");
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(write_atomic(&path, b"3", MODE_PUBLIC).is_err(), "the path is a directory");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn private_files_are_readable_by_the_owner_only() {
        let dir = tempfile::tempdir().unwrap();
        let mode = |name: &str, mode| {
            let path = dir.path().join(name);
            write_atomic(&path, b"", mode).unwrap();
            fs::metadata(path).unwrap().permissions().mode() & 0o777
        };
        assert_eq!(mode("state", MODE_PRIVATE), 0o600);
        assert_eq!(mode("page", MODE_PUBLIC) & 0o600, 0o600);
    }

    /// Another user may have placed the link there.
    #[test]
    fn a_symbolic_link_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::write(at("victim"), "important").unwrap();
        symlink("victim", at("link")).unwrap();
        symlink("nothing", at("dangling")).unwrap();
        for name in ["link", "dangling"] {
            let errors = [
                write_atomic(&at(name), b"theirs", MODE_PUBLIC).unwrap_err(),
                create(&at(name)).unwrap_err(),
                open_no_follow(File::options().read(true).write(true).create(true), &at(name)).unwrap_err(),
            ];
            assert!(errors.iter().all(|error| error.to_string().contains("a symbolic link")), "{errors:?}");
            assert_eq!(
                write_new(&at(name), b"theirs", MODE_PUBLIC).unwrap_err().kind(),
                ErrorKind::AlreadyExists
            );
        }
        assert_eq!(fs::read(at("victim")).unwrap(), b"important");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 3, "no draft and no other file");
    }

    #[test]
    fn write_new_does_not_replace_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state");
        write_new(&path, b"1", MODE_PUBLIC).unwrap();
        assert_eq!(write_new(&path, b"2", MODE_PUBLIC).unwrap_err().kind(), ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&path).unwrap(), b"1");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
