//! The run directory: complete or not there.

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

/// The files of a run; `*.svg` besides.
const OURS: [&str; 8] = [
    "run.yaml",
    "summary.json",
    "fabric.json",
    "report.html",
    "flows.csv",
    "queues.csv",
    "rates.csv",
    "pauses.csv",
];

/// A place for the results of a run, found before it and filled after it.
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
        // A name is free text: what does not belong in a file name becomes a dash.
        let keep = |c: char| if c.is_alphanumeric() || "._-".contains(c) { c } else { '-' };
        let stem = format!("{}-{seed}", name.trim_start_matches('.').chars().map(keep).collect::<String>());
        RunDir { target: Target::Next { parent: parent.to_owned(), stem } }
    }

    /// Exactly `dir`, which must be new, empty or the directory of an earlier run.
    pub fn at(dir: &Path) -> Result<RunDir, DirError> {
        check(dir)?;
        Ok(RunDir { target: Target::Exactly(dir.to_owned()) })
    }

    /// Has `fill` write into a hidden directory beside the target and then gives that its name. If
    /// anything fails nothing is left behind, and an earlier run at the target stays.
    pub fn write(self, fill: impl FnOnce(&Path) -> io::Result<()>) -> Result<PathBuf, DirError> {
        let at = |path: &Path| {
            let path = path.to_owned();
            move |source| DirError::Io { path, source }
        };
        let parent = match &self.target {
            Target::Exactly(dir) => {
                dir.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))
            }
            Target::Next { parent, .. } => parent,
        };
        fs::create_dir_all(parent).map_err(at(parent))?;
        let draft = Draft(parent.join(format!(".weir-{}", std::process::id())));
        fs::create_dir(&draft.0).map_err(at(&draft.0))?;
        fill(&draft.0).map_err(at(&draft.0))?;
        let dir = match &self.target {
            Target::Exactly(dir) => {
                check(dir)?;
                replace(&draft.0, dir).map_err(at(dir))?;
                dir.clone()
            }
            Target::Next { parent, stem } => first_free(&draft.0, parent, stem).map_err(at(parent))?,
        };
        Ok(dir)
    }
}

/// Renames `draft` to the first free of `stem`, `stem-2`, `stem-3`...
fn first_free(draft: &Path, parent: &Path, stem: &str) -> io::Result<PathBuf> {
    for n in 1u64.. {
        let dir = parent.join(if n == 1 { stem.to_owned() } else { format!("{stem}-{n}") });
        // Creating it claims the name; renaming over an empty directory is atomic.
        match fs::create_dir(&dir) {
            Ok(()) => return fs::rename(draft, &dir).map(|()| dir),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other("no free name"))
}

/// Puts `draft` where `dir` is or was.
fn replace(draft: &Path, dir: &Path) -> io::Result<()> {
    if !dir.exists() {
        return fs::rename(draft, dir);
    }
    let old = Draft(draft.with_extension("old"));
    fs::rename(dir, &old.0)?;
    if let Err(error) = fs::rename(draft, dir) {
        fs::rename(&old.0, dir)?;
        return Err(error);
    }
    Ok(())
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
    let is_ours = |name: &String| OURS.contains(&name.as_str()) || name.ends_with(".svg");
    let a_run = names.iter().any(|name| name == "summary.json");
    match names.iter().find(|name| !a_run || !is_ours(name)) {
        Some(entry) => Err(DirError::Foreign { dir: dir.to_owned(), entry: entry.clone() }),
        None => Ok(()),
    }
}

/// A directory that goes away with this value, if it still has that name.
struct Draft(PathBuf);

impl Drop for Draft {
    fn drop(&mut self) {
        // Renamed away after success; if removal fails there is nobody left to tell.
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(dir: &Path) -> io::Result<()> {
        fs::write(dir.join("summary.json"), "{}")?;
        fs::write(dir.join("queue-s1-3.svg"), "<svg/>")
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
            let dir = RunDir::numbered_in(root.path(), "fig 9!", 7).write(fill).unwrap();
            assert_eq!(dir, root.path().join(expected.replace([' ', '!'], "-")));
        }
        assert_eq!(entries(root.path()), ["fig-9--7", "fig-9--7-2", "fig-9--7-3"]);
    }

    #[test]
    fn a_name_cannot_leave_its_directory() {
        let root = tempfile::tempdir().unwrap();
        let dir = RunDir::numbered_in(root.path(), "../../etc", 1).write(fill).unwrap();
        assert_eq!(dir.parent(), Some(root.path()));
    }

    #[test]
    fn a_failed_run_leaves_nothing() {
        let root = tempfile::tempdir().unwrap();
        let out = root.path().join("out");
        RunDir::at(&out).unwrap().write(fill).unwrap();
        let failed = RunDir::at(&out).unwrap().write(|dir| {
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
        RunDir::at(&out).unwrap().write(fill).unwrap();
        RunDir::at(&out).unwrap().write(|dir| fs::write(dir.join("summary.json"), "new")).unwrap();
        assert_eq!(entries(&out), ["summary.json"]);

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
}
