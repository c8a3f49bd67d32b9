//! The directory of a sweep: tables, and a run directory for each cell of the grid.

use crate::dir::{self, DirError, PARTIAL_SUFFIX, RunDir};
use crate::lock::LOCK;
use crate::tables::{FCT, file_name_of};
use std::path::Path;
use std::{fs, io};
use weir_experiment::file::TableFormat;

/// Table of means over the runs.
pub const TABLE: &str = "sweep.csv";
/// Table of the values of every run.
pub const RUNS_TABLE: &str = "runs.csv";
pub const PAGE: &str = "report.html";

/// Directory of job scripts and logs of Slurm.
pub const SLURM: &str = "slurm";

/// Checks that a directory contains only results of a sweep.
///
/// # Errors
///
/// If the directory contains other files or cannot be read.
pub fn check(dir: &Path) -> Result<(), DirError> {
    for name in dir::names(dir)? {
        let run = name.strip_suffix(PARTIAL_SUFFIX).unwrap_or(&name);
        let is_from_sweep = is_sweep_file(&name) || name == SLURM || RunDir::at(&dir.join(run)).is_ok();
        if !is_from_sweep {
            return Err(DirError::ForeignFile { dir: dir.to_owned(), entry: name, kind: "sweep" });
        }
    }
    Ok(())
}

/// Returns whether a sweep writes files of this name: tables, charts, temporary files, and the lock.
fn is_sweep_file(name: &str) -> bool {
    name == LOCK || is_final(name) || is_draft(name)
}

fn is_final(name: &str) -> bool {
    let is_fct =
        [TableFormat::Csv, TableFormat::Parquet].map(|format| file_name_of(FCT.name, format) == name);
    is_fct.contains(&true) || [TABLE, RUNS_TABLE, PAGE].contains(&name) || is_chart(name)
}

fn is_chart(name: &str) -> bool {
    name.starts_with("sweep-") && name.ends_with(".svg")
}

/// Returns whether this is a temporary file: `.<name>.<random>`.
fn is_draft(name: &str) -> bool {
    let draft = name.strip_prefix('.').and_then(|rest| rest.rsplit_once('.'));
    draft.is_some_and(|(name, _)| is_final(name))
}

/// Removes temporary files of a killed sweep. This process must hold the lock of the directory.
///
/// # Errors
///
/// If the directory cannot be read, or a file cannot be removed.
pub fn remove_drafts(dir: &Path) -> Result<(), DirError> {
    for name in dir::names(dir)?.into_iter().filter(|name| is_draft(name)) {
        let path = dir.join(name);
        fs::remove_file(&path).map_err(|source| DirError::Io { path, source })?;
    }
    Ok(())
}

/// Removes the charts of an earlier sweep over other keys or metrics: those that are not to be `kept`.
///
/// # Errors
///
/// If the directory cannot be read, or a file cannot be removed.
pub fn remove_other_charts(dir: &Path, is_kept: impl Fn(&str) -> bool) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if is_chart(&name) && !is_kept(&name) {
            fs::remove_file(dir.join(name))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_of_sweeps_are_accepted_and_others_rejected() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("s");
        check(&dir).unwrap();
        for cell in ["load=0.2,seed=1", "load=0.2,seed=2.partial"] {
            fs::create_dir_all(dir.join(cell)).unwrap();
            fs::write(dir.join(cell).join("summary.json"), "{}").unwrap();
        }
        for file in [
            TABLE,
            RUNS_TABLE,
            PAGE,
            "fct.csv",
            "fct.parquet",
            "sweep-peak-queue.svg",
            ".sweep.csv.1234",
            LOCK,
        ] {
            fs::write(dir.join(file), "").unwrap();
        }
        check(&dir).unwrap();
        remove_drafts(&dir).unwrap();
        assert!(!dir.join(".sweep.csv.1234").exists());
        fs::write(dir.join("sweep-drops.svg"), "").unwrap();
        remove_other_charts(&dir, |name| name == "sweep-peak-queue.svg").unwrap();
        assert!(!dir.join("sweep-drops.svg").exists());
        let kept = [TABLE, RUNS_TABLE, PAGE, "sweep-peak-queue.svg", LOCK, "load=0.2,seed=1"];
        assert!(kept.iter().all(|name| dir.join(name).exists()));
        for (file, subdir) in [("thesis.tex", ""), (".bashrc", ""), ("main.c", "src")] {
            let dir = dir.join(subdir);
            fs::create_dir_all(&dir).unwrap();
            fs::write(dir.join(file), "years of work").unwrap();
            let error = check(&dir).unwrap_err().to_string();
            assert!(error.contains("not a result of a sweep"), "{error}");
            fs::remove_file(dir.join(file)).unwrap();
        }
        assert!(matches!(check(&dir.join(TABLE)), Err(DirError::NotADirectory { .. })));
    }
}
