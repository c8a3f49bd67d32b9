//! Writes files that are complete at any moment, and on the disk before anything refers to them.

use std::fs::{File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Mode of files for everybody, less the umask.
pub const MODE_PUBLIC: u32 = 0o666;
/// Mode of files for their owner.
pub const MODE_PRIVATE: u32 = 0o600;

/// Replaces the file `path` in one step: after a crash or an error it has its old content or the new one. The draft
/// beside it, `.<name>.<random>`, is removed on errors.
///
/// # Errors
///
/// The system's error; `path` then has its old content.
pub fn write_atomic(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let prefix = format!(".{name}.");
    let mut draft = tempfile::Builder::new();
    draft.prefix(&prefix).permissions(Permissions::from_mode(mode));
    let mut file = draft.tempfile_in(parent_dir(path))?;
    file.write_all(content)?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
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
    use std::fs;

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
}
