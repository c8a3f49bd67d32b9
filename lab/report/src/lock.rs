//! Locks a directory, so that only one process writes to it.

use crate::files::open_no_follow;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use thiserror::Error;

/// Name of the lock file in a locked directory. Its content identifies the holder.
pub const LOCK: &str = ".lock";

/// The reason why a directory was not locked.
#[derive(Debug, Error)]
pub enum LockError {
    #[error("in use by {0}")]
    Held(Holder),
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// The process that holds a lock, as recorded in the lock file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    pub pid: u32,
    pub command: String,
    /// Time at which the process acquired the lock, in seconds since 1970-01-01 UTC.
    pub started_unix_s: u64,
}

/// The [`Process`] that holds a lock. `None` if the lock file is empty: the holder writes it just after it has locked it,
/// and the write fails on a full disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder(Option<Process>);

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(Process { pid, command, started_unix_s }) = &self.0 else {
            return f.write_str("another run");
        };
        let seconds = since_epoch().as_secs().saturating_sub(*started_unix_s);
        write!(f, "process {pid} (`{command}`, started {} ago)", age(seconds))
    }
}

/// Formats an age: `90 s`, `15 min`, `3 h`.
fn age(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        _ => format!("{} h", seconds / 3_600),
    }
}

fn since_epoch() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// A locked directory. The lock is released when this value is dropped or the process ends in any way. The lock file
/// of a killed process does not lock anything.
#[derive(Debug)]
pub struct DirLock {
    path: PathBuf,
    /// The lock belongs to this open file.
    _file: File,
}

impl DirLock {
    /// Locks `dir`, and creates it if it does not exist.
    ///
    /// # Errors
    ///
    /// If another process has the lock, or the lock file cannot be created.
    pub fn acquire(dir: &Path) -> Result<DirLock, LockError> {
        let path = dir.join(LOCK);
        loop {
            fs::create_dir_all(dir)?;
            let mut options = File::options();
            options.read(true).write(true).create(true).truncate(false);
            let mut file = match open_no_follow(&mut options, &path) {
                // The previous holder has just removed the directory.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                result => result.map_err(|error| io::Error::new(error.kind(), format!("{LOCK}: {error}")))?,
            };
            let metadata = file.metadata()?;
            if !metadata.is_file() || metadata.nlink() > 1 {
                let reason = format!("{LOCK}: not a regular file with a single hard link; remove it");
                return Err(io::Error::new(io::ErrorKind::InvalidInput, reason).into());
            }
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Err(LockError::Held(read_holder(&mut file))),
                // The file system does not support locks; continue without one.
                Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => {}
                Err(TryLockError::Error(error)) => return Err(error.into()),
            }
            // The previous holder removes the lock file while holding it. A lock on the unlinked inode would exclude
            // no other process, hence the comparison and the retry.
            if is_file_at(&file, &path)? {
                // Writing the holder may fail on a full disk; the lock is valid nevertheless.
                let _ = write_holder(&mut file);
                return Ok(DirLock { path, _file: file });
            }
        }
    }
}

impl Drop for DirLock {
    fn drop(&mut self) {
        // Removed while locked, so that no other process holds it. If removal fails, the remaining file does not lock
        // anything.
        let _ = fs::remove_file(&self.path);
    }
}

/// Returns the live process that the lock file of `dir` names. Takes no lock, so that no run finds the directory in use.
pub fn live_holder(dir: &Path) -> Option<Process> {
    let process: Process = serde_json::from_slice(&fs::read(dir.join(LOCK)).ok()?).ok()?;
    // The number may have been given to another process since.
    let arguments = fs::read(format!("/proc/{}/cmdline", process.pid)).ok()?;
    let arguments = String::from_utf8_lossy(&arguments).trim_end_matches('\0').replace('\0', " ");
    (arguments == process.command.trim_end()).then_some(process)
}

/// Returns whether `path` still refers to the open file.
fn is_file_at(file: &File, path: &Path) -> io::Result<bool> {
    let (open, current) = (file.metadata()?, fs::metadata(path));
    Ok(current.is_ok_and(|current| (current.dev(), current.ino()) == (open.dev(), open.ino())))
}

/// Writes this process as the holder.
fn write_holder(file: &mut File) -> io::Result<()> {
    let words: Vec<String> = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    let holder =
        Process { pid: process::id(), command: words.join(" "), started_unix_s: since_epoch().as_secs() };
    let text = serde_json::to_string(&holder)?;
    file.set_len(0)?;
    writeln!(file, "{text}")
}

/// Reads the holder from the lock file.
fn read_holder(file: &mut File) -> Holder {
    let mut text = String::new();
    let process = file.read_to_string(&mut text).ok().and_then(|_| serde_json::from_str(&text).ok());
    Holder(process)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_lock_fails_and_names_the_holder() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("new/x");
        let first = DirLock::acquire(&dir).unwrap();
        let Err(LockError::Held(holder)) = DirLock::acquire(&dir) else { panic!("two holders") };
        assert_eq!(holder.0.as_ref().unwrap().pid, process::id());
        let text = holder.to_string();
        assert!(text.contains(" s ago") && text.contains(&process::id().to_string()), "{text}");
        assert_eq!(live_holder(&dir).unwrap().pid, process::id());
        drop(first);
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 0, "the lock file is removed");
        assert_eq!(live_holder(&dir), None);
        DirLock::acquire(&dir).unwrap();
    }

    #[test]
    fn the_lock_file_of_a_killed_process_locks_nothing() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(
            dir.path().join(LOCK),
            "{\"pid\": 1, \"command\": \"weir run x.yaml\", \"started_unix_s\": 0}",
        )
        .unwrap();
        assert_eq!(live_holder(dir.path()), None, "process 1 has another command line");
        let _lock = DirLock::acquire(dir.path()).unwrap();
        let Err(LockError::Held(holder)) = DirLock::acquire(dir.path()) else { panic!("two holders") };
        assert_eq!(holder.0.unwrap().pid, process::id(), "not the one that was killed");
    }

    /// In a shared directory, another user could place a link to a file of this user.
    #[test]
    fn a_lock_file_that_is_a_link_is_rejected_and_not_written() {
        let root = tempfile::tempdir().unwrap();
        let (victim, lock) = (root.path().join("victim"), root.path().join("x").join(LOCK));
        fs::create_dir(root.path().join("x")).unwrap();
        fs::write(&victim, "important").unwrap();
        let acquire_error = || {
            let Err(LockError::Io(error)) = DirLock::acquire(&root.path().join("x")) else {
                panic!("the directory was locked")
            };
            assert_eq!(fs::read(&victim).unwrap(), b"important");
            fs::remove_file(&lock).unwrap();
            error.to_string()
        };
        std::os::unix::fs::symlink(&victim, &lock).unwrap();
        assert!(acquire_error().contains(".lock: is a symbolic link"));
        std::os::unix::fs::symlink(root.path().join("nothing"), &lock).unwrap();
        assert!(acquire_error().contains(".lock: is a symbolic link"));
        assert!(!root.path().join("nothing").exists());
        fs::hard_link(&victim, &lock).unwrap();
        assert!(acquire_error().contains(".lock: not a regular file"));
        DirLock::acquire(&root.path().join("x")).unwrap();
    }

    #[test]
    fn threads_never_hold_the_lock_at_the_same_time() {
        use std::sync::atomic::{AtomicU32, Ordering};
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("x");
        let holders = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let mut count = 0;
                    while count < 60 {
                        let Ok(lock) = DirLock::acquire(&dir) else { continue };
                        assert_eq!(holders.fetch_add(1, Ordering::SeqCst), 0);
                        count += 1;
                        // Time for another thread to lock the file that this one has removed.
                        std::thread::sleep(Duration::from_micros(50));
                        holders.fetch_sub(1, Ordering::SeqCst);
                        drop(lock);
                        let _ = fs::remove_dir(&dir);
                    }
                });
            }
        });
    }

    #[test]
    fn ages_are_short() {
        assert_eq!([5, 119, 120, 7_199, 7_200].map(age), ["5 s", "119 s", "2 min", "119 min", "2 h"]);
    }
}
