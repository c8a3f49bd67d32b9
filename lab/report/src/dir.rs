//! Run directories. `x` either does not exist or is complete; results of a run in progress, or of one that was
//! killed, are in `x.partial`.

use super::lock::{DirLock, Holder, LOCK, LockError};
use super::manifest;
use super::names::{SUMMARY, file_name, is_run_file};
use crate::files::{parent_dir, sync_dir};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::{fs, io};
use weir_experiment::backend::Error;

/// The reason why a run directory cannot be used or written.
#[derive(Debug, thiserror::Error)]
pub enum DirError {
    /// The directory contains a file that is not a result of a run or sweep.
    #[error("--out {}: contains {entry:?}, which is not a result of a {kind}; choose an empty or new directory", .dir.display())]
    ForeignFile {
        dir: PathBuf,
        /// Name of the file.
        entry: String,
        /// What the directory should hold: `run` or `sweep`.
        kind: &'static str,
    },
    #[error("--out {}: in use by {holder}; wait for it or choose another directory", .dir.display())]
    InUse { dir: PathBuf, holder: Holder },
    #[error("--out {}: not a directory", .dir.display())]
    NotADirectory { dir: PathBuf },
    /// The directory is a symbolic link to a target that does not exist.
    #[error("--out {}: symbolic link to a directory that does not exist; create it or choose another directory", .dir.display())]
    Dangling { dir: PathBuf },
    /// The partial directory belongs to another user, who could place links or files in it during the run.
    #[error("{}: belongs to another user or is a symbolic link; remove it or choose another --out", .partial.display())]
    ForeignPartial { partial: PathBuf },
    /// A file system operation failed.
    #[error("{}: {source}", .path.display())]
    Io { path: PathBuf, source: io::Error },
}

impl From<DirError> for Error {
    fn from(error: DirError) -> Error {
        match error {
            DirError::Io { .. } => Error::work(error),
            DirError::ForeignFile { .. }
            | DirError::NotADirectory { .. }
            | DirError::InUse { .. }
            | DirError::Dangling { .. }
            | DirError::ForeignPartial { .. } => Error::input(error),
        }
    }
}

/// Default directory of runs.
pub const RUNS: &str = "runs";

/// Suffix of the directory of an unfinished run. If no process holds its lock, the run was killed or interrupted.
pub const PARTIAL_SUFFIX: &str = ".partial";
/// Staging directory inside `x.partial`: files are written and synced here, then renamed.
const STAGING_DIR: &str = ".next";

/// The directory for the results of a run, chosen before the run.
#[derive(Debug)]
pub struct RunDir {
    target: Target,
}

#[derive(Debug)]
enum Target {
    /// `--out DIR`: replaces an earlier run in this directory.
    Exactly(PathBuf),
    /// `runs/<stem>`, or the first free name of `<stem>-2`, `<stem>-3`...: replaces nothing.
    FirstFree { parent: PathBuf, stem: String },
}

impl RunDir {
    /// Selects `runs/<name>-<seed>` in the current directory, or the next free name.
    pub fn numbered(name: &str, seed: u64) -> RunDir {
        RunDir::numbered_in(Path::new(RUNS), name, seed)
    }

    fn numbered_in(parent: &Path, name: &str, seed: u64) -> RunDir {
        let stem = format!("{}-{seed}", file_name(name.trim_start_matches('.')));
        RunDir { target: Target::FirstFree { parent: parent.to_owned(), stem } }
    }

    /// Selects `dir`, or the target if it is a symbolic link. The directory must not exist, be empty, or hold an
    /// earlier run.
    ///
    /// # Errors
    ///
    /// If `dir` or its partial directory contains other files, is not a directory or cannot be read, or the partial
    /// directory belongs to another user.
    pub fn at(dir: &Path) -> Result<RunDir, DirError> {
        check(dir, DirContent::Results)?;
        // The run replaces the directory, not a link to it.
        let dir =
            if dir.is_symlink() { dir.canonicalize().map_err(io_error_at(dir))? } else { dir.to_owned() };
        let partial = partial_of(&dir);
        if !is_trusted(&partial).map_err(io_error_at(&partial))? {
            return Err(DirError::ForeignPartial { partial });
        }
        check(&partial, DirContent::ResultsAndWorkingFiles)?;
        Ok(RunDir { target: Target::Exactly(dir) })
    }

    /// Claims the name by creating `<dir>.partial`, and locks it until the run has ended.
    ///
    /// # Errors
    ///
    /// If another process has the lock, or the directory cannot be created or emptied.
    pub fn open(self) -> Result<OpenRun, DirError> {
        match self.target {
            Target::Exactly(dir) => {
                let partial = partial_of(&dir);
                let lock = lock(&partial, &dir)?;
                // The lock was free, so the contents are of a killed run, which this run repeats.
                clear(&partial).map_err(io_error_at(&partial))?;
                Ok(OpenRun { dir, partial, has_checkpoint: false, lock: Some(lock) })
            }
            Target::FirstFree { parent, stem } => first_free(&parent, &stem),
        }
    }
}

/// Returns whether a directory belongs to this user, or to the owner of its parent directory, who controls it anyway.
/// True if it does not exist.
fn is_trusted(dir: &Path) -> io::Result<bool> {
    let metadata = match fs::symlink_metadata(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
        result => result?,
    };
    let owners = [rustix::process::geteuid().as_raw(), fs::metadata(parent_dir(dir))?.uid()];
    Ok(!metadata.is_symlink() && owners.contains(&metadata.uid()))
}

/// Locks `lock_dir`: the partial directory of a run, or the directory of a sweep. An error that it is in use names
/// `dir`, the directory that the user specified.
///
/// # Errors
///
/// If another process has the lock, the lock file cannot be written, or `lock_dir` is a dangling symbolic link.
pub fn lock(lock_dir: &Path, dir: &Path) -> Result<DirLock, DirError> {
    if is_dangling(lock_dir) {
        return Err(DirError::Dangling { dir: lock_dir.to_owned() });
    }
    DirLock::acquire(lock_dir).map_err(|error| match error {
        LockError::Held(holder) => DirError::InUse { dir: dir.to_owned(), holder },
        LockError::Io(error) => io_error_at(lock_dir)(error),
    })
}

/// Removes the contents of a directory except its lock.
fn clear(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_name() == LOCK {
            continue;
        }
        if entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())
        } else {
            fs::remove_file(entry.path())
        }?;
    }
    Ok(())
}

/// Returns a function that adds `path` to an I/O error.
fn io_error_at(path: &Path) -> impl Fn(io::Error) -> DirError + use<> {
    let path = path.to_owned();
    move |source| DirError::Io { path: path.clone(), source }
}

/// Returns the path of the partial directory of `dir`.
fn partial_of(dir: &Path) -> PathBuf {
    let mut name = dir.file_name().unwrap_or_default().to_owned();
    name.push(PARTIAL_SUFFIX);
    dir.with_file_name(name)
}

/// Claims the first of `stem`, `stem-2`, `stem-3`... that belongs to no run, complete or in progress.
fn first_free(parent: &Path, stem: &str) -> Result<OpenRun, DirError> {
    fs::create_dir_all(parent).map_err(io_error_at(parent))?;
    for n in 1u64.. {
        let dir = parent.join(if n == 1 { stem.to_owned() } else { format!("{stem}-{n}") });
        let partial = partial_of(&dir);
        // create_dir is the atomic claim: mkdir fails with EEXIST.
        match fs::create_dir(&partial) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
            Err(error) => return Err(io_error_at(&partial)(error)),
        }
        let open_run = match lock(&partial, &dir) {
            Ok(lock) => OpenRun { dir, partial, has_checkpoint: false, lock: Some(lock) },
            // A run with an explicit --out locked the directory between mkdir and lock; try the next number.
            Err(DirError::InUse { .. }) => continue,
            Err(error) => return Err(error),
        };
        // symlink_metadata, because a dangling symbolic link occupies the name as well. If the name is taken,
        // dropping `open_run` removes the partial directory.
        if fs::symlink_metadata(&open_run.dir).is_err() {
            return Ok(open_run);
        }
    }
    Err(io_error_at(parent)(io::Error::other("no free name")))
}

/// The directory of a run in progress. If the run ends without results, dropping this value removes the partial
/// directory, unless a checkpoint was written.
#[derive(Debug)]
pub struct OpenRun {
    dir: PathBuf,
    partial: PathBuf,
    has_checkpoint: bool,
    /// Lock of the partial directory. An option, so that `drop` can release it before it removes the directory.
    lock: Option<DirLock>,
}

impl OpenRun {
    /// Returns the partial directory.
    pub fn partial(&self) -> &Path {
        &self.partial
    }

    /// Writes a checkpoint: calls `fill` with a staging directory, then renames the files. Readers, even after the
    /// run was killed, find complete files, none older than the summary.
    ///
    /// # Errors
    ///
    /// If `fill` fails, or its files cannot be renamed.
    pub fn checkpoint(&mut self, fill: impl FnOnce(&Path) -> io::Result<()>) -> Result<(), DirError> {
        let staging = self.fill_staging(fill)?;
        let rename = || {
            let mut names = fs::read_dir(&staging)?
                .map(|entry| entry.map(|entry| entry.file_name()))
                .collect::<io::Result<Vec<_>>>()?;
            // false < true: the summary is renamed last, because its presence marks the set of files as consistent.
            names.sort_by_key(|name| name == SUMMARY);
            for name in names {
                fs::rename(staging.join(&name), self.partial.join(&name))?;
            }
            fs::remove_dir(&staging)
        };
        rename().map_err(io_error_at(&self.partial))?;
        self.has_checkpoint = true;
        Ok(())
    }

    /// Writes the final results: calls `fill`, adds a manifest, syncs all files, and then renames the directory, so
    /// that not even a power failure leaves an incomplete directory of that name. On errors an earlier run is
    /// preserved.
    ///
    /// # Errors
    ///
    /// If `fill` or the file system fails, or the target contains files that are not results of a run.
    pub fn finish(mut self, fill: impl FnOnce(&Path) -> io::Result<()>) -> Result<PathBuf, DirError> {
        let staging = self.fill_staging(|staging| {
            fill(staging)?;
            manifest::write(staging)
        })?;
        check(&self.dir, DirContent::Results)?;
        replace(&staging, &self.dir)
            .and_then(|()| sync_dir(parent_dir(&self.dir)))
            .map_err(io_error_at(&self.dir))?;
        self.has_checkpoint = false;
        Ok(self.dir.clone())
    }

    /// Keeps the partial directory, for example after an interruption, and returns its path.
    pub fn keep_partial(self) -> PathBuf {
        self.partial.clone()
    }

    /// Removes the partial directory with its checkpoints.
    pub fn discard(mut self) {
        self.has_checkpoint = false;
    }

    /// Calls `fill` with an empty staging directory, and returns its path.
    fn fill_staging(&self, fill: impl FnOnce(&Path) -> io::Result<()>) -> Result<PathBuf, DirError> {
        let staging = self.partial.join(STAGING_DIR);
        let write = || {
            if staging.exists() {
                fs::remove_dir_all(&staging)?;
            }
            fs::create_dir(&staging)?;
            fill(&staging)
        };
        write().map_err(|error| {
            // Incomplete files are of no use.
            let _ = fs::remove_dir_all(&staging);
            io_error_at(&staging)(error)
        })?;
        Ok(staging)
    }
}

impl Drop for OpenRun {
    fn drop(&mut self) {
        // An error cannot be reported from a destructor.
        if !self.has_checkpoint {
            let _ = clear(&self.partial);
        }
        drop(self.lock.take());
        if !self.has_checkpoint {
            // Fails if another run has claimed the name meanwhile, because the directory is not empty then.
            let _ = fs::remove_dir(&self.partial);
        }
    }
}

/// Replaces `dir` by `draft`: in one step if the file system supports it, so that `dir` exists at any time.
fn replace(draft: &Path, dir: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    if !dir.exists() {
        return fs::rename(draft, dir);
    }
    match renameat_with(CWD, draft, CWD, dir, RenameFlags::EXCHANGE) {
        // The earlier run is now at the path of the draft, in the partial directory, which the caller removes.
        Ok(()) => return Ok(()),
        Err(rustix::io::Errno::NOSYS | rustix::io::Errno::INVAL | rustix::io::Errno::NOTSUP) => {}
        Err(error) => return Err(error.into()),
    }
    // The file system does not support RENAME_EXCHANGE.
    let old = draft.with_extension("old");
    fs::rename(dir, &old)?;
    fs::rename(draft, dir).inspect_err(|_| {
        // The first error is reported.
        let _ = fs::rename(&old, dir);
    })
}

/// The files that a directory may contain.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DirContent {
    /// The results of a run.
    Results,
    /// In a partial directory: also the lock and staging directories.
    ResultsAndWorkingFiles,
}

/// Rejects a directory that contains other files than `allowed`.
fn check(dir: &Path, allowed: DirContent) -> Result<(), DirError> {
    let is_working_file = |name: &str| {
        allowed == DirContent::ResultsAndWorkingFiles && (name.starts_with(STAGING_DIR) || name == LOCK)
    };
    let names = names(dir)?;
    // A run without its summary is damaged, not foreign.
    let is_run =
        names.iter().any(|name| name == SUMMARY || is_working_file(name)) || manifest::lists(dir, SUMMARY);
    match names.into_iter().find(|name| !is_run || !(is_run_file(name) || is_working_file(name))) {
        Some(entry) => Err(DirError::ForeignFile { dir: dir.to_owned(), entry, kind: "run" }),
        None => Ok(()),
    }
}

fn is_dangling(dir: &Path) -> bool {
    dir.is_symlink() && !dir.exists()
}

/// Returns the names of the entries of `dir`, or none if it does not exist.
///
/// # Errors
///
/// If `dir` is not a directory, is a dangling symbolic link, or cannot be read.
pub fn names(dir: &Path) -> Result<Vec<String>, DirError> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(_) if is_dangling(dir) => return Err(DirError::Dangling { dir: dir.to_owned() }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
            return Err(DirError::NotADirectory { dir: dir.to_owned() });
        }
        Err(error) => return Err(io_error_at(dir)(error)),
    };
    let names = entries.map(|entry| entry.map(|entry| entry.file_name().to_string_lossy().into_owned()));
    names.collect::<io::Result<_>>().map_err(io_error_at(dir))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::MANIFEST;

    fn fill(dir: &Path) -> io::Result<()> {
        fs::write(dir.join("summary.json"), "{}")?;
        fs::write(dir.join("queue-s1-3.svg"), "<svg/>")
    }

    fn write(run_dir: RunDir) -> Result<PathBuf, DirError> {
        run_dir.open()?.finish(fill)
    }

    fn entries(dir: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(dir)
            .unwrap()
            .map(|e| e.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn names_are_never_reused() {
        let root = tempfile::tempdir().unwrap();
        for expected in ["fig 9!-7", "fig 9!-7-2", "fig 9!-7-3"] {
            let dir = write(RunDir::numbered_in(root.path(), "fig 9!", 7)).unwrap();
            assert_eq!(dir, root.path().join(expected.replace([' ', '!'], "-")));
        }
        assert_eq!(entries(root.path()), ["fig-9--7", "fig-9--7-2", "fig-9--7-3"]);
    }

    #[test]
    fn a_name_cannot_leave_its_directory() {
        let root = tempfile::tempdir().unwrap();
        let dir = write(RunDir::numbered_in(root.path(), "../../etc", 1)).unwrap();
        assert_eq!(dir.parent(), Some(root.path()));
    }

    #[test]
    fn a_failed_run_leaves_nothing() {
        let root = tempfile::tempdir().unwrap();
        let out = root.path().join("out");
        write(RunDir::at(&out).unwrap()).unwrap();
        let failed = RunDir::at(&out).unwrap().open().unwrap().finish(|dir| {
            fs::write(dir.join("run.yaml"), "half")?;
            Err(io::Error::other("disk full"))
        });
        assert!(failed.unwrap_err().to_string().ends_with("disk full"));
        assert_eq!(entries(root.path()), ["out"]);
        assert_eq!(
            entries(&out),
            [MANIFEST, "queue-s1-3.svg", "summary.json"],
            "the earlier run is still there"
        );
    }

    #[test]
    fn an_earlier_run_is_replaced_and_foreign_files_are_not() {
        let root = tempfile::tempdir().unwrap();
        let out = root.path().join("out");
        write(RunDir::at(&out).unwrap()).unwrap();
        let second_run = RunDir::at(&out).unwrap().open().unwrap();
        second_run.finish(|dir| fs::write(dir.join("summary.json"), "new")).unwrap();
        assert_eq!(entries(&out), [MANIFEST, "summary.json"]);
        assert_eq!(entries(root.path()), ["out"]);

        fs::write(out.join("thesis.tex"), "years of work").unwrap();
        let error = RunDir::at(&out).unwrap_err().to_string();
        assert!(error.contains("thesis.tex") && error.contains("new directory"), "{error}");
        assert!(matches!(RunDir::at(&out.join("thesis.tex")), Err(DirError::NotADirectory { .. })));
    }

    #[test]
    fn a_symbolic_link_is_followed_and_a_dangling_one_is_rejected() {
        use std::os::unix::fs::symlink;
        let root = tempfile::tempdir().unwrap();
        let path = |name: &str| root.path().join(name);
        symlink("out", path("link")).unwrap();
        assert!(matches!(RunDir::at(&path("link")), Err(DirError::Dangling { dir }) if dir == path("link")));
        assert!(matches!(lock(&path("link"), &path("link")), Err(DirError::Dangling { .. })));
        fs::create_dir(path("out")).unwrap();
        for _ in 0..2 {
            assert_eq!(
                write(RunDir::at(&path("link")).unwrap()).unwrap(),
                path("out").canonicalize().unwrap()
            );
        }
        assert!(path("link").is_symlink());
        assert_eq!(entries(root.path()), ["link", "out"]);

        symlink("nothing", path("x-1")).unwrap();
        assert_eq!(write(RunDir::numbered_in(root.path(), "x", 1)).unwrap(), path("x-1-2"));
    }

    #[test]
    fn a_partial_directory_of_another_user_is_rejected() {
        use std::os::unix::fs::{chown, symlink};
        let root = tempfile::tempdir().unwrap();
        let (out, partial) = (root.path().join("out"), root.path().join("out.partial"));
        let is_rejected = || matches!(RunDir::at(&out), Err(DirError::ForeignPartial { partial: found }) if found == partial);
        fs::create_dir(root.path().join("victim")).unwrap();
        fs::write(root.path().join("victim").join(SUMMARY), "{}").unwrap();
        symlink("victim", &partial).unwrap();
        assert!(is_rejected());
        fs::remove_file(&partial).unwrap();
        fs::create_dir(&partial).unwrap();
        if chown(&partial, Some(65_534), None).is_ok() {
            assert!(is_rejected());
            // The owner of the parent directory can do anything there.
            chown(root.path(), Some(65_534), None).unwrap();
        }
        write(RunDir::at(&out).unwrap()).unwrap();
        assert_eq!(entries(&root.path().join("victim")), [SUMMARY]);
    }

    #[test]
    fn svg_files_alone_do_not_make_a_run() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("logo.svg"), "").unwrap();
        assert!(matches!(RunDir::at(root.path()), Err(DirError::ForeignFile { .. })));
        fs::write(root.path().join(MANIFEST), format!("{}  logo.svg\n", "0".repeat(64))).unwrap();
        assert!(
            matches!(RunDir::at(root.path()), Err(DirError::ForeignFile { .. })),
            "the manifest lists no summary"
        );
    }

    #[test]
    fn a_run_without_summary_can_be_replaced() {
        let root = tempfile::tempdir().unwrap();
        let out = root.path().join("out");
        write(RunDir::at(&out).unwrap()).unwrap();
        fs::remove_file(out.join(SUMMARY)).unwrap();
        write(RunDir::at(&out).unwrap()).unwrap();
        assert!(out.join(SUMMARY).exists());
    }

    #[test]
    fn a_directory_is_locked_until_the_results_are_written() {
        let root = tempfile::tempdir().unwrap();
        let out = root.path().join("out");
        let run_dir = || RunDir::at(&out).unwrap();
        let mut first = run_dir().open().unwrap();
        first.checkpoint(fill).unwrap();
        let is_locked = || matches!(run_dir().open(), Err(DirError::InUse { dir, .. }) if dir == out);
        assert!(is_locked());
        first
            .finish(|staging| {
                assert!(is_locked(), "while results are written");
                fill(staging)
            })
            .unwrap();
        assert_eq!(entries(root.path()), ["out"]);
        let partial = run_dir().open().unwrap().keep_partial();
        assert!(!partial.join(LOCK).exists());
        run_dir().open().unwrap().discard();
        assert_eq!(entries(root.path()), ["out"]);
    }

    #[test]
    fn checkpoints_are_kept_and_the_next_run_takes_another_name() {
        let root = tempfile::tempdir().unwrap();
        let next = || RunDir::numbered_in(root.path(), "x", 1).open().unwrap();
        let mut killed = next();
        for _ in 0..2 {
            killed.checkpoint(fill).unwrap();
        }
        let partial = killed.keep_partial();
        assert_eq!(partial, root.path().join("x-1.partial"));
        assert_eq!(entries(&partial), ["queue-s1-3.svg", "summary.json"]);
        assert_eq!(next().finish(fill).unwrap(), root.path().join("x-1-2"));
        assert_eq!(entries(root.path()), ["x-1-2", "x-1.partial"]);
    }

    #[test]
    fn a_failed_write_keeps_the_last_checkpoint_and_no_staging_directory() {
        let root = tempfile::tempdir().unwrap();
        let mut run = RunDir::at(&root.path().join("out")).unwrap().open().unwrap();
        run.checkpoint(fill).unwrap();
        let half = |dir: &Path| {
            fs::write(dir.join(SUMMARY), "half")?;
            Err(io::Error::other("disk full"))
        };
        run.checkpoint(half).unwrap_err();
        let partial = run.partial().to_owned();
        run.finish(half).unwrap_err();
        assert_eq!(entries(root.path()), ["out.partial"]);
        assert_eq!(entries(&partial), ["queue-s1-3.svg", "summary.json"]);
        assert_eq!(fs::read(partial.join(SUMMARY)).unwrap(), b"{}");
    }

    #[test]
    fn an_explicit_directory_replaces_the_files_of_a_killed_run() {
        let root = tempfile::tempdir().unwrap();
        let out = root.path().join("out");
        let mut killed = RunDir::at(&out).unwrap().open().unwrap();
        killed.checkpoint(fill).unwrap();
        fs::create_dir(killed.keep_partial().join(STAGING_DIR)).unwrap(); // Killed during a checkpoint.
        write(RunDir::at(&out).unwrap()).unwrap();
        assert_eq!(entries(root.path()), ["out"]);
    }
}
