//! The run directory `x`: complete or not there. While the run goes, `x.partial` holds what it has come to.

use std::{
    fs, io,
    path::{Path, PathBuf},
};
use thiserror::Error;

/// Why there is no run directory.
#[derive(Debug, Error)]
pub enum DirError {
    /// The directory has something in it that is not a run's.
    #[error("--out {}: the directory holds {entry:?}, which no run wrote; name an empty or a new directory", .dir.display())]
    Foreign {
        /// As asked for.
        dir: PathBuf,
        /// What is in it.
        entry: String,
    },
    /// There is a file of that name.
    #[error("--out {}: this is not a directory", .dir.display())]
    NotADirectory {
        /// As asked for.
        dir: PathBuf,
    },
    /// The file system said no.
    #[error("{}: {source}", .path.display())]
    Io {
        /// Where.
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
}

/// Where runs go when nothing else is said.
pub const RUNS: &str = "runs";

/// What a run came to: where it is, the other files are.
pub const SUMMARY: &str = "summary.json";

/// The files of a run; `*.svg` besides.
const OURS: [&str; 8] =
    ["run.yaml", SUMMARY, "fabric.json", "report.html", "flows.csv", "queues.csv", "rates.csv", "pauses.csv"];

/// Files of which a run has as many as it has charts or schemes.
fn is_numbered(name: &str) -> bool {
    name.ends_with(".svg") || (name.starts_with("fct-") && name.ends_with(".txt"))
}

/// What a directory is called in which a run is not at its end. One that stays was killed.
const PARTIAL: &str = ".partial";
/// Where a partial directory holds what is being written.
const NEXT: &str = ".next";

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
    Next { parent: PathBuf, stem: String },
}

impl RunDir {
    /// `runs/<name>-<seed>` under the current directory, or the next free name.
    pub fn numbered(name: &str, seed: u64) -> RunDir {
        RunDir::numbered_in(Path::new(RUNS), name, seed)
    }

    fn numbered_in(parent: &Path, name: &str, seed: u64) -> RunDir {
        let stem = format!("{}-{seed}", file_name(name.trim_start_matches('.')));
        RunDir { target: Target::Next { parent: parent.to_owned(), stem } }
    }

    /// Exactly `dir`, which must be new, empty or the directory of an earlier run.
    pub fn at(dir: &Path) -> Result<RunDir, DirError> {
        check(dir)?;
        check(&partial_of(dir))?;
        Ok(RunDir { target: Target::Exactly(dir.to_owned()) })
    }

    /// Takes the name: `<dir>.partial` is there from now on.
    pub fn open(self) -> Result<OpenRun, DirError> {
        let (dir, partial) = match self.target {
            Target::Exactly(dir) => {
                let partial = partial_of(&dir);
                // That of a run that was killed; this one repeats it.
                match fs::remove_dir_all(&partial) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(at(&partial)(error)),
                    _ => fs::create_dir_all(&partial).map_err(at(&partial))?,
                }
                (dir, partial)
            }
            Target::Next { parent, stem } => first_free(&parent, &stem).map_err(at(&parent))?,
        };
        Ok(OpenRun { dir, partial, kept: false })
    }
}

fn at(path: &Path) -> impl Fn(io::Error) -> DirError + use<> {
    let path = path.to_owned();
    move |source| DirError::Io { path: path.clone(), source }
}

/// Free text as part of a file name: what does not belong there becomes a dash.
pub fn file_name(name: &str) -> String {
    name.chars().map(|c| if c.is_alphanumeric() || "._-".contains(c) { c } else { '-' }).collect()
}

/// What `dir` is called while it is not complete.
fn partial_of(dir: &Path) -> PathBuf {
    let mut name = dir.file_name().unwrap_or_default().to_owned();
    name.push(PARTIAL);
    dir.with_file_name(name)
}

/// Takes the first of `stem`, `stem-2`, `stem-3`... that no run has, done or on its way.
fn first_free(parent: &Path, stem: &str) -> io::Result<(PathBuf, PathBuf)> {
    fs::create_dir_all(parent)?;
    for n in 1u64.. {
        let dir = parent.join(if n == 1 { stem.to_owned() } else { format!("{stem}-{n}") });
        let partial = partial_of(&dir);
        // Creating it takes the name.
        match fs::create_dir(&partial) {
            Ok(()) if dir.exists() => fs::remove_dir(&partial)?,
            Ok(()) => return Ok((dir, partial)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other("no free name"))
}

/// A run on its way. Where it ends without results nothing stays; what was kept of it before does.
#[derive(Debug)]
pub struct OpenRun {
    dir: PathBuf,
    partial: PathBuf,
    kept: bool,
}

impl OpenRun {
    /// Has `fill` write what there is by now. Who reads meanwhile, or after the run was killed, finds
    /// whole files, none of them older than the summary.
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

    /// Has `fill` write the results and gives them their name. If that fails an earlier run there stays.
    pub fn finish(mut self, fill: impl FnOnce(&Path) -> io::Result<()>) -> Result<PathBuf, DirError> {
        let next = self.filled(fill)?;
        check(&self.dir)?;
        replace(&next, &self.dir).map_err(at(&self.dir))?;
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
        let next = self.partial.join(NEXT);
        let write = || {
            if next.exists() {
                fs::remove_dir_all(&next)?;
            }
            fs::create_dir(&next)?;
            fill(&next)
        };
        write().map_err(at(&next))?;
        Ok(next)
    }
}

impl Drop for OpenRun {
    fn drop(&mut self) {
        if !self.kept {
            // If removal fails there is nobody left to tell.
            let _ = fs::remove_dir_all(&self.partial);
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

/// Refuses a directory with anything in it that is not a run's.
fn check(dir: &Path) -> Result<(), DirError> {
    let io = |source| DirError::Io { path: dir.to_owned(), source };
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
            return Err(DirError::NotADirectory { dir: dir.to_owned() });
        }
        Err(error) => return Err(io(error)),
    };
    let names: Vec<String> = entries
        .map(|entry| entry.map(|e| e.file_name().to_string_lossy().into_owned()))
        .collect::<Result<_, _>>()
        .map_err(io)?;
    let is_ours =
        |name: &String| OURS.contains(&name.as_str()) || is_numbered(name) || name.starts_with(NEXT);
    let a_run = names.iter().any(|name| name == SUMMARY || name.starts_with(NEXT));
    match names.iter().find(|name| !a_run || !is_ours(name)) {
        Some(entry) => Err(DirError::Foreign { dir: dir.to_owned(), entry: entry.clone() }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(entries(&out), ["queue-s1-3.svg", "summary.json"], "the earlier run is still there");
    }

    #[test]
    fn an_earlier_run_is_replaced_and_other_things_are_not() {
        let root = tempfile::tempdir().unwrap();
        let out = root.path().join("out");
        write(RunDir::at(&out).unwrap()).unwrap();
        let again = RunDir::at(&out).unwrap().open().unwrap();
        again.finish(|dir| fs::write(dir.join("summary.json"), "new")).unwrap();
        assert_eq!(entries(&out), ["summary.json"]);
        assert_eq!(entries(root.path()), ["out"]);

        fs::write(out.join("thesis.tex"), "years of work").unwrap();
        let refused = RunDir::at(&out).unwrap_err().to_string();
        assert!(refused.contains("thesis.tex") && refused.contains("new directory"), "{refused}");
        assert!(matches!(RunDir::at(&out.join("thesis.tex")), Err(DirError::NotADirectory { .. })));
    }

    #[test]
    fn svg_files_alone_do_not_make_a_run() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("logo.svg"), "").unwrap();
        assert!(matches!(RunDir::at(root.path()), Err(DirError::Foreign { .. })));
    }

    #[test]
    fn what_was_kept_stays_and_whoever_comes_next_takes_another_name() {
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
    fn a_place_by_name_repeats_the_run_that_was_killed_there() {
        let root = tempfile::tempdir().unwrap();
        let out = root.path().join("out");
        let mut killed = RunDir::at(&out).unwrap().open().unwrap();
        killed.keep(fill).unwrap();
        fs::create_dir(killed.leave().join(NEXT)).unwrap(); // In the middle of the next one.
        write(RunDir::at(&out).unwrap()).unwrap();
        assert_eq!(entries(root.path()), ["out"]);
    }
}
