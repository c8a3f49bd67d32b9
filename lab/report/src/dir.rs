//! The run directory `x`: complete or not there. While the run goes, `x.partial` holds what it has come to.

use super::lock::{DirLock, Holder, LOCK, LockError};
use super::manifest;
use super::names::{SUMMARY, file_name, is_run_file};
use crate::files::{parent_dir, sync_dir};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::{fs, io};
use weir_experiment::backend::Error;

/// A reason why there is no run directory.
#[derive(Debug, thiserror::Error)]
pub enum DirError {
    /// The directory has something in it that is not a run's, or a sweep's.
    #[error("--out {}: the directory holds {entry:?}, which no {what} wrote; name an empty or a new directory", .dir.display())]
    ForeignFile {
        /// As asked for.
        dir: PathBuf,
        /// An entry of the directory.
        entry: String,
        /// Kind of directory: `run` or `sweep`.
        what: &'static str,
    },
    /// Another process writes there.
    #[error("--out {}: {holder} writes there; wait until it ends, or name another directory", .dir.display())]
    InUse {
        /// As asked for.
        dir: PathBuf,
        /// The process that holds the lock.
        holder: Holder,
    },
    /// There is a file of that name.
    #[error("--out {}: this is not a directory", .dir.display())]
    NotADirectory {
        /// As asked for.
        dir: PathBuf,
    },
    /// It would be made where a link leads that leads nowhere.
    #[error("--out {}: this is a symbolic link to a directory that does not exist; make that, or name another", .dir.display())]
    Dangling {
        /// As asked for.
        dir: PathBuf,
    },
    /// Somebody else has made the partial directory, and could put links or other files into it while the run goes.
    #[error("{}: this belongs to another user or is a symbolic link; remove it, or name another --out", .partial.display())]
    Strange {
        /// The partial directory.
        partial: PathBuf,
    },
    /// The file system said no.
    #[error("{}: {source}", .path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

impl From<DirError> for Error {
    fn from(error: DirError) -> Error {
        match error {
            DirError::Io { .. } => Error::work(error),
            DirError::ForeignFile { .. }
            | DirError::NotADirectory { .. }
            | DirError::InUse { .. }
            | DirError::Dangling { .. }
            | DirError::Strange { .. } => Error::input(error),
        }
    }
}

/// Default directory of runs.
pub const RUNS: &str = "runs";

/// Suffix of the directory of a run that has not ended. One that stays was killed.
pub const PARTIAL_SUFFIX: &str = ".partial";
/// Directory of drafts in a partial directory.
const STAGING_DIR: &str = ".next";

/// A place for the results of a run, named before it.
#[derive(Debug)]
pub struct RunDir {
    target: Target,
}

#[derive(Debug)]
enum Target {
    /// `--out DIR`: an earlier run there is replaced.
    Exactly(PathBuf),
    /// `runs/<stem>`, or with `-2`, `-3`... behind it: nothing is replaced.
    FirstFree { parent: PathBuf, stem: String },
}

impl RunDir {
    /// `runs/<name>-<seed>` under the current directory, or the next free name.
    pub fn numbered(name: &str, seed: u64) -> RunDir {
        RunDir::numbered_in(Path::new(RUNS), name, seed)
    }

    fn numbered_in(parent: &Path, name: &str, seed: u64) -> RunDir {
        let stem = format!("{}-{seed}", file_name(name.trim_start_matches('.')));
        RunDir { target: Target::FirstFree { parent: parent.to_owned(), stem } }
    }

    /// Selects exactly `dir`, or the directory to which it is a link, which must be new, empty or the directory of an
    /// earlier run.
    ///
    /// # Errors
    ///
    /// `dir` or its partial directory holds other files, is no directory, or cannot be read, or the partial directory is
    /// somebody else's.
    pub fn at(dir: &Path) -> Result<RunDir, DirError> {
        check(dir, false)?;
        // The run takes the place of the directory, not that of a link to it.
        let dir = if dir.is_symlink() { dir.canonicalize().map_err(at(dir))? } else { dir.to_owned() };
        let partial = partial_of(&dir);
        if !is_trusted(&partial).map_err(at(&partial))? {
            return Err(DirError::Strange { partial });
        }
        check(&partial, true)?;
        Ok(RunDir { target: Target::Exactly(dir) })
    }

    /// Claims the name: creates `<dir>.partial`, and locks it until the run has ended.
    ///
    /// # Errors
    ///
    /// Another process has the lock, or the directory cannot be created or emptied.
    pub fn open(self) -> Result<OpenRun, DirError> {
        match self.target {
            Target::Exactly(dir) => {
                let partial = partial_of(&dir);
                let lock = lock(&partial, &dir)?;
                // What is there is of a run that was killed; this one repeats it.
                clear(&partial).map_err(at(&partial))?;
                Ok(OpenRun { dir, partial, kept: false, lock: Some(lock) })
            }
            Target::FirstFree { parent, stem } => first_free(&parent, &stem),
        }
    }
}

/// Returns whether nobody but this user, and the owner of the directory around it, has made a directory.
fn is_trusted(dir: &Path) -> io::Result<bool> {
    let there = match fs::symlink_metadata(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
        there => there?,
    };
    let owners = [rustix::process::geteuid().as_raw(), fs::metadata(parent_dir(dir))?.uid()];
    Ok(!there.is_symlink() && owners.contains(&there.uid()))
}

/// Locks `within`; an error names `dir`.
///
/// # Errors
///
/// Another process has the lock, the lock's file cannot be written, or `within` is a link to nothing.
pub fn lock(within: &Path, dir: &Path) -> Result<DirLock, DirError> {
    if is_dangling(within) {
        return Err(DirError::Dangling { dir: within.to_owned() });
    }
    DirLock::take(within).map_err(|error| match error {
        LockError::Held(holder) => DirError::InUse { dir: dir.to_owned(), holder },
        LockError::Io(error) => at(within)(error),
    })
}

/// Removes what is in a directory but for its lock.
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

fn at(path: &Path) -> impl Fn(io::Error) -> DirError + use<> {
    let path = path.to_owned();
    move |source| DirError::Io { path: path.clone(), source }
}

/// Returns what `dir` is called while it is not complete.
fn partial_of(dir: &Path) -> PathBuf {
    let mut name = dir.file_name().unwrap_or_default().to_owned();
    name.push(PARTIAL_SUFFIX);
    dir.with_file_name(name)
}

/// Takes the first of `stem`, `stem-2`, `stem-3`... that no run has, complete or in progress.
fn first_free(parent: &Path, stem: &str) -> Result<OpenRun, DirError> {
    fs::create_dir_all(parent).map_err(at(parent))?;
    for n in 1u64.. {
        let dir = parent.join(if n == 1 { stem.to_owned() } else { format!("{stem}-{n}") });
        let partial = partial_of(&dir);
        // Creating it takes the name.
        match fs::create_dir(&partial) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
            Err(error) => return Err(at(&partial)(error)),
        }
        let open = match lock(&partial, &dir) {
            Ok(lock) => OpenRun { dir, partial, kept: false, lock: Some(lock) },
            // A run that was told this name came between the two calls.
            Err(DirError::InUse { .. }) => continue,
            Err(error) => return Err(error),
        };
        // Dropped otherwise, which gives the partial name back. A link to nothing has the name, too.
        if fs::symlink_metadata(&open.dir).is_err() {
            return Ok(open);
        }
    }
    Err(at(parent)(io::Error::other("no free name")))
}

/// A run in progress. If it ends without results its directory is removed, unless [`OpenRun::keep`] has written some
/// there.
#[derive(Debug)]
pub struct OpenRun {
    dir: PathBuf,
    partial: PathBuf,
    kept: bool,
    /// Of the partial directory, until this is dropped.
    lock: Option<DirLock>,
}

impl OpenRun {
    /// Returns the directory that holds what was kept until now.
    pub fn partial(&self) -> &Path {
        &self.partial
    }

    /// Lets `fill` write the present results. A reader, also after the run was killed, finds complete files, none of
    /// them older than the summary.
    ///
    /// # Errors
    ///
    /// `fill` fails, or its files cannot be renamed.
    pub fn keep(&mut self, fill: impl FnOnce(&Path) -> io::Result<()>) -> Result<(), DirError> {
        let next = self.filled(fill)?;
        let rename = || {
            let mut names = fs::read_dir(&next)?
                .map(|entry| entry.map(|it| it.file_name()))
                .collect::<io::Result<Vec<_>>>()?;
            names.sort_by_key(|name| name == SUMMARY);
            for name in names {
                fs::rename(next.join(&name), self.partial.join(&name))?;
            }
            fs::remove_dir(&next)
        };
        rename().map_err(at(&self.partial))?;
        self.kept = true;
        Ok(())
    }

    /// Lets `fill` write the results, and gives them their name, with a manifest, once they are on the disk: not even
    /// a power failure leaves an incomplete directory of that name. On errors an earlier run there stays.
    ///
    /// # Errors
    ///
    /// `fill` fails, the disk does, or the target holds files of others.
    pub fn finish(mut self, fill: impl FnOnce(&Path) -> io::Result<()>) -> Result<PathBuf, DirError> {
        let next = self.filled(|next| {
            fill(next)?;
            manifest::write(next)
        })?;
        check(&self.dir, false)?;
        replace(&next, &self.dir).and_then(|()| sync_dir(parent_dir(&self.dir))).map_err(at(&self.dir))?;
        self.kept = false;
        Ok(self.dir.clone())
    }

    /// Leaves what was kept, under its partial name.
    pub fn leave(self) -> PathBuf {
        self.partial.clone()
    }

    /// Leaves nothing.
    pub fn discard(mut self) {
        self.kept = false;
    }

    fn filled(&self, fill: impl FnOnce(&Path) -> io::Result<()>) -> Result<PathBuf, DirError> {
        let next = self.partial.join(STAGING_DIR);
        let write = || {
            if next.exists() {
                fs::remove_dir_all(&next)?;
            }
            fs::create_dir(&next)?;
            fill(&next)
        };
        write().map_err(|error| {
            // What could not be written whole helps nobody.
            let _ = fs::remove_dir_all(&next);
            at(&next)(error)
        })?;
        Ok(next)
    }
}

impl Drop for OpenRun {
    fn drop(&mut self) {
        // If removal fails there is nobody left to tell.
        if !self.kept {
            let _ = clear(&self.partial);
        }
        drop(self.lock.take());
        if !self.kept {
            // Not empty if another run has taken the name just now.
            let _ = fs::remove_dir(&self.partial);
        }
    }
}

/// Puts `draft` where `dir` is or was, in one step: one of the two is there at any moment.
fn replace(draft: &Path, dir: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    if !dir.exists() {
        return fs::rename(draft, dir);
    }
    match renameat_with(CWD, draft, CWD, dir, RenameFlags::EXCHANGE) {
        Ok(()) => return Ok(()), // The earlier one is in the draft's place, which goes.
        Err(rustix::io::Errno::NOSYS | rustix::io::Errno::INVAL | rustix::io::Errno::NOTSUP) => {}
        Err(error) => return Err(error.into()),
    }
    // A file system that cannot.
    let old = draft.with_extension("old");
    fs::rename(dir, &old)?;
    fs::rename(draft, dir).inspect_err(|_| {
        let _ = fs::rename(&old, dir);
    })
}

/// Refuses a directory with anything in it that is not a run's; a `partial` one has working files too.
fn check(dir: &Path, partial: bool) -> Result<(), DirError> {
    let is_working = |name: &str| partial && (name.starts_with(STAGING_DIR) || name == LOCK);
    let names = names(dir)?;
    // One that has lost its summary is damaged, not foreign.
    let a_run = names.iter().any(|name| name == SUMMARY || is_working(name)) || manifest::lists(dir, SUMMARY);
    match names.into_iter().find(|name| !a_run || !(is_run_file(name) || is_working(name))) {
        Some(entry) => Err(DirError::ForeignFile { dir: dir.to_owned(), entry, what: "run" }),
        None => Ok(()),
    }
}

fn is_dangling(dir: &Path) -> bool {
    dir.is_symlink() && !dir.exists()
}

/// Returns the names of the entries of `dir`; none if it does not exist.
///
/// # Errors
///
/// `dir` is not a directory, is a link to nothing, or cannot be read.
pub fn names(dir: &Path) -> Result<Vec<String>, DirError> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(_) if is_dangling(dir) => return Err(DirError::Dangling { dir: dir.to_owned() }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
            return Err(DirError::NotADirectory { dir: dir.to_owned() });
        }
        Err(error) => return Err(at(dir)(error)),
    };
    let names = entries.map(|entry| entry.map(|it| it.file_name().to_string_lossy().into_owned()));
    names.collect::<io::Result<_>>().map_err(at(dir))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::MANIFEST;

    fn fill(dir: &Path) -> io::Result<()> {
        fs::write(dir.join("summary.json"), "{}")?;
        fs::write(dir.join("queue-s1-3.svg"), "<svg/>")
    }

    fn write(place: RunDir) -> Result<PathBuf, DirError> {
        place.open()?.finish(fill)
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
    fn an_earlier_run_is_replaced_and_other_things_are_not() {
        let root = tempfile::tempdir().unwrap();
        let out = root.path().join("out");
        write(RunDir::at(&out).unwrap()).unwrap();
        let again = RunDir::at(&out).unwrap().open().unwrap();
        again.finish(|dir| fs::write(dir.join("summary.json"), "new")).unwrap();
        assert_eq!(entries(&out), [MANIFEST, "summary.json"]);
        assert_eq!(entries(root.path()), ["out"]);

        fs::write(out.join("thesis.tex"), "years of work").unwrap();
        let refused = RunDir::at(&out).unwrap_err().to_string();
        assert!(refused.contains("thesis.tex") && refused.contains("new directory"), "{refused}");
        assert!(matches!(RunDir::at(&out.join("thesis.tex")), Err(DirError::NotADirectory { .. })));
    }

    #[test]
    fn a_link_leads_to_the_run_and_one_to_nothing_is_refused() {
        use std::os::unix::fs::symlink;
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        symlink("out", at("link")).unwrap();
        assert!(matches!(RunDir::at(&at("link")), Err(DirError::Dangling { dir }) if dir == at("link")));
        assert!(matches!(lock(&at("link"), &at("link")), Err(DirError::Dangling { .. })));
        fs::create_dir(at("out")).unwrap();
        for _ in 0..2 {
            assert_eq!(write(RunDir::at(&at("link")).unwrap()).unwrap(), at("out").canonicalize().unwrap());
        }
        assert!(at("link").is_symlink());
        assert_eq!(entries(root.path()), ["link", "out"]);

        symlink("nothing", at("x-1")).unwrap();
        assert_eq!(write(RunDir::numbered_in(root.path(), "x", 1)).unwrap(), at("x-1-2"));
    }

    #[test]
    fn a_partial_directory_that_somebody_else_has_made_is_refused() {
        use std::os::unix::fs::{chown, symlink};
        let root = tempfile::tempdir().unwrap();
        let (out, partial) = (root.path().join("out"), root.path().join("out.partial"));
        let refused = || matches!(RunDir::at(&out), Err(DirError::Strange { partial: it }) if it == partial);
        fs::create_dir(root.path().join("victim")).unwrap();
        fs::write(root.path().join("victim").join(SUMMARY), "{}").unwrap();
        symlink("victim", &partial).unwrap();
        assert!(refused());
        fs::remove_file(&partial).unwrap();
        fs::create_dir(&partial).unwrap();
        if chown(&partial, Some(65_534), None).is_ok() {
            assert!(refused());
            // Who owns the directory around it can do anything there.
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
            "sums of somebody's pictures"
        );
    }

    #[test]
    fn a_run_that_has_lost_its_summary_can_be_replaced() {
        let root = tempfile::tempdir().unwrap();
        let out = root.path().join("out");
        write(RunDir::at(&out).unwrap()).unwrap();
        fs::remove_file(out.join(SUMMARY)).unwrap();
        write(RunDir::at(&out).unwrap()).unwrap();
        assert!(out.join(SUMMARY).exists());
    }

    #[test]
    fn a_place_belongs_to_one_run_until_its_results_are_there() {
        let root = tempfile::tempdir().unwrap();
        let out = root.path().join("out");
        let place = || RunDir::at(&out).unwrap();
        let mut first = place().open().unwrap();
        first.keep(fill).unwrap();
        let refused = || matches!(place().open(), Err(DirError::InUse { dir, .. }) if dir == out);
        assert!(refused());
        first
            .finish(|next| {
                assert!(refused(), "while it is written");
                fill(next)
            })
            .unwrap();
        assert_eq!(entries(root.path()), ["out"]);
        let left = place().open().unwrap().leave();
        assert!(!left.join(LOCK).exists());
        place().open().unwrap().discard();
        assert_eq!(entries(root.path()), ["out"]);
    }

    #[test]
    fn saved_results_stay_and_the_next_run_takes_another_name() {
        let root = tempfile::tempdir().unwrap();
        let next = || RunDir::numbered_in(root.path(), "x", 1).open().unwrap();
        let mut killed = next();
        for _ in 0..2 {
            killed.keep(fill).unwrap();
        }
        let partial = killed.leave();
        assert_eq!(partial, root.path().join("x-1.partial"));
        assert_eq!(entries(&partial), ["queue-s1-3.svg", "summary.json"]);
        assert_eq!(next().finish(fill).unwrap(), root.path().join("x-1-2"));
        assert_eq!(entries(root.path()), ["x-1-2", "x-1.partial"]);
    }

    #[test]
    fn what_cannot_be_written_leaves_the_results_before_it_and_no_draft() {
        let root = tempfile::tempdir().unwrap();
        let mut run = RunDir::at(&root.path().join("out")).unwrap().open().unwrap();
        run.keep(fill).unwrap();
        let half = |dir: &Path| {
            fs::write(dir.join(SUMMARY), "half")?;
            Err(io::Error::other("disk full"))
        };
        run.keep(half).unwrap_err();
        let partial = run.partial().to_owned();
        run.finish(half).unwrap_err();
        assert_eq!(entries(root.path()), ["out.partial"]);
        assert_eq!(entries(&partial), ["queue-s1-3.svg", "summary.json"]);
        assert_eq!(fs::read(partial.join(SUMMARY)).unwrap(), b"{}");
    }

    #[test]
    fn a_place_by_name_repeats_the_run_that_was_killed_there() {
        let root = tempfile::tempdir().unwrap();
        let out = root.path().join("out");
        let mut killed = RunDir::at(&out).unwrap().open().unwrap();
        killed.keep(fill).unwrap();
        fs::create_dir(killed.leave().join(STAGING_DIR)).unwrap(); // In the middle of the next one.
        write(RunDir::at(&out).unwrap()).unwrap();
        assert_eq!(entries(root.path()), ["out"]);
    }
}
