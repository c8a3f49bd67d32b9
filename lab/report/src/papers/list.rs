//! `docs/results.yaml`: the experiments of `weir results`, and the sections of the document with their tables.

use crate::extensions::Extensions;
use crate::paper_value::PaperValue;
use crate::sweep::grid::Grid;
use crate::sweep::pool::RunTask;
use serde::{Deserialize, Deserializer};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use weir_experiment::Experiment;
use weir_experiment::backend::Error;

/// Id of the section of experiments that compare with values of a paper and are in no other section.
pub const OTHERS: &str = "others";

/// A section of the document.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Section {
    /// Id in the marker `<!-- results:begin ID -->`.
    pub id: String,
    /// Heading, used if the document has no such section yet.
    pub title: String,
    pub runs: Vec<Entry>,
}

/// An experiment of a section.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// File in the directory of experiments.
    pub file: String,
    /// Keys to vary, in the syntax of `weir sweep --over`.
    #[serde(default)]
    pub over: Vec<String>,
    /// Overrides, in the syntax of `--set`.
    #[serde(default)]
    pub set: Vec<String>,
    #[serde(default)]
    pub schemes: Vec<String>,
    /// Metrics of a table with a row for each scheme, in the syntax of `--metric`.
    #[serde(default)]
    pub columns: Vec<String>,
    /// What `weir results --quick` runs in place of the experiment.
    #[serde(default)]
    pub quick: Quick,
}

/// What `weir results --quick` runs of an experiment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Quick {
    /// All runs, as without `--quick`.
    #[default]
    Full,
    /// No run.
    Skip,
    /// The experiment with overrides that make it shorter.
    Reduced(QuickOverrides),
}

/// Overrides for `weir results --quick`. An absent field keeps the value of the full form.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QuickOverrides {
    /// Replaces `over`.
    #[serde(default)]
    pub over: Option<Vec<String>>,
    /// Overrides in addition to `set`.
    #[serde(default)]
    pub set: Vec<String>,
}

impl<'de> Deserialize<'de> for Quick {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Quick, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum YamlForm {
            /// `true`: [`Quick::Full`], `false`: [`Quick::Skip`].
            IncludeFull(bool),
            Overrides(QuickOverrides),
        }
        Ok(match YamlForm::deserialize(from)? {
            YamlForm::IncludeFull(true) => Quick::Full,
            YamlForm::IncludeFull(false) => Quick::Skip,
            YamlForm::Overrides(overrides) => Quick::Reduced(overrides),
        })
    }
}

/// An entry that is ready to run.
pub struct PlannedExperiment {
    /// Name of the directory of the runs and of the table; unique in a list.
    pub name: String,
    /// Path of the experiment file.
    pub file: PathBuf,
    pub grid: Grid,
    pub entry: Entry,
    /// Values published in papers.
    pub notes: Vec<PaperValue>,
    /// One run for each cell of the grid; empty if the quick form skips the experiment.
    pub tasks: Vec<RunTask>,
}

impl PlannedExperiment {
    /// Returns the command that reproduces the results.
    pub fn command(&self) -> String {
        let verb = if self.grid.axes.is_empty() { "run" } else { "sweep" };
        let mut words = vec![format!("weir {verb} {}", self.file.display())];
        let quoted =
            |text: &String| if text.contains([' ', '{', '[']) { format!("'{text}'") } else { text.clone() };
        words.extend(self.entry.set.iter().map(|set| format!("--set {}", quoted(set))));
        words.extend(self.entry.over.iter().map(|over| format!("--over {}", quoted(over))));
        if !self.entry.schemes.is_empty() {
            words.push(format!("--schemes {}", self.entry.schemes.join(",")));
        }
        words.join(" ")
    }
}

/// Reads the list, adds experiments with values of a paper that the list does not contain, and plans all runs.
/// `quick` selects the quick forms.
///
/// # Errors
///
/// If the list, an experiment or an id is invalid, or a file cannot be read.
pub fn plan(
    extensions: &Extensions,
    list: &Path,
    dir: &Path,
    quick: bool,
    out: &Path,
) -> Result<Vec<(Section, Vec<PlannedExperiment>)>, Error> {
    let invalid = |reason: String| Error::Input(format!("{}: {reason}", list.display()));
    let text = fs::read_to_string(list).map_err(|error| invalid(error.to_string()))?;
    let mut sections: Vec<Section> =
        serde_yaml::from_str(&text).map_err(|error| invalid(error.to_string()))?;
    let mut ids = BTreeSet::new();
    if let Some(duplicate) = sections.iter().find(|section| !ids.insert(section.id.clone())) {
        return Err(invalid(format!("duplicate id {}", duplicate.id)));
    }
    sections.extend(
        unlisted_experiments(&sections, dir, extensions)
            .map_err(|error| Error::Input(format!("{}: {error}", dir.display())))?,
    );
    let mut names = BTreeSet::new();
    sections
        .into_iter()
        .map(|section| {
            let planned = section.runs.iter().map(|entry| {
                let mut name = entry.file.trim_end_matches(".yaml").to_owned();
                // A file may be listed several times: `x`, `x+`, `x++`.
                while !names.insert(name.clone()) {
                    name.push('+');
                }
                plan_entry(extensions, entry, quick, dir, out, name)
            });
            let planned = planned.collect::<Result<Vec<_>, _>>()?;
            Ok((section, planned))
        })
        .collect()
}

/// Returns a section of the experiments with values of a paper that are not in the list.
fn unlisted_experiments(
    sections: &[Section],
    dir: &Path,
    extensions: &Extensions,
) -> std::io::Result<Option<Section>> {
    let listed: BTreeSet<&str> = sections.iter().flat_map(|s| &s.runs).map(|run| run.file.as_str()).collect();
    let mut files: Vec<String> = fs::read_dir(dir)?
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.ends_with(".yaml") && !listed.contains(name.as_str()))
        .collect();
    files.sort();
    // Invalid experiments are skipped here; `weir run --check experiments/*.yaml` reports them.
    let has_paper_values = |name: &String| {
        let experiment = Experiment::load_with(&extensions.catalogue, &dir.join(name), &[], None);
        experiment.is_ok_and(|experiment| experiment.spec.paper.iter().any(|note| note.ours.is_some()))
    };
    let entry = |file: String| Entry { file, quick: Quick::Skip, ..Entry::default() };
    let runs: Vec<Entry> = files.into_iter().filter(has_paper_values).map(entry).collect();
    let section = Section { id: OTHERS.to_owned(), title: "Others".to_owned(), runs };
    Ok((!section.runs.is_empty()).then_some(section))
}

fn plan_entry(
    extensions: &Extensions,
    entry: &Entry,
    quick: bool,
    dir: &Path,
    out: &Path,
    name: String,
) -> Result<PlannedExperiment, Error> {
    let mut entry = entry.clone();
    let mut is_skipped = false;
    match (quick, entry.quick.clone()) {
        (true, Quick::Skip) => is_skipped = true,
        (true, Quick::Reduced(overrides)) => {
            entry.over = overrides.over.unwrap_or(entry.over);
            let key = |assignment: &String| assignment.split('=').next().unwrap_or_default().to_owned();
            entry.set.retain(|set| !overrides.set.iter().any(|reduced| key(reduced) == key(set)));
            entry.set.extend(overrides.set);
        }
        _ => {}
    }
    let file = dir.join(&entry.file);
    let experiment =
        Experiment::load_with(&extensions.catalogue, &file, &entry.set, None).map_err(Error::input)?;
    if entry.over.is_empty() {
        entry.over = experiment.spec.sweep.clone().unwrap_or_default().over;
    }
    let grid =
        Grid::parse(&entry.over).map_err(|reason| Error::Input(format!("{}: {reason}", file.display())))?;
    let cells = grid.cells();
    let task = |cell| RunTask {
        extensions: extensions.clone(),
        file: file.clone(),
        set: entry.set.clone(),
        over: grid.overrides(cell),
        over_origin: "over",
        seed: grid.seed(cell),
        schemes: entry.schemes.clone(),
        dir: out.join(&name).join(grid.dir_name(cell)),
    };
    let tasks = if is_skipped { Vec::new() } else { cells.iter().map(task).collect() };
    let notes = crate::describe(&experiment, &[]).paper;
    Ok(PlannedExperiment { name, file, grid, entry, notes, tasks })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The list of this repository.
    const LIST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/results.yaml");
    const EXPERIMENTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments");

    #[test]
    fn the_list_is_valid_in_both_forms() {
        for quick in [false, true] {
            let plan = plan(
                &Extensions::default(),
                Path::new(LIST),
                Path::new(EXPERIMENTS),
                quick,
                Path::new("out"),
            )
            .unwrap_or_else(|reason| panic!("{reason:?}"));
            let dirs: Vec<&PathBuf> =
                plan.iter().flat_map(|(_, p)| p).flat_map(|p| &p.tasks).map(|t| &t.dir).collect();
            let distinct: BTreeSet<&&PathBuf> = dirs.iter().collect();
            assert!(dirs.len() > 10 && distinct.len() == dirs.len(), "{dirs:?}");
        }
    }

    #[test]
    fn experiments_with_paper_values_are_added_to_the_list() {
        let dir = tempfile::tempdir().unwrap();
        let experiment =
            "topology: {kind: star, hosts: 3}\nschemes: [fncc]\nflows: [{from: h1, to: h2}]\nduration: 1us\n";
        let paper = "paper: [{what: w, value: '1', ours: fncc.marks}]\n";
        for (name, text) in [("plain", ""), ("printed", paper)] {
            fs::write(dir.path().join(format!("{name}.yaml")), format!("{experiment}{text}")).unwrap();
        }
        let list = dir.path().join("list");
        fs::write(&list, "- {id: a, title: A, runs: [{file: plain.yaml, over: ['seed=1..2'], quick: {over: ['seed=1']}}]}\n").unwrap();
        let files = |quick| -> Vec<(String, usize)> {
            let plan = plan(&Extensions::default(), &list, dir.path(), quick, Path::new("out")).unwrap();
            plan.iter().flat_map(|(_, p)| p).map(|p| (p.entry.file.clone(), p.tasks.len())).collect()
        };
        assert_eq!(files(false), [("plain.yaml".to_owned(), 2), ("printed.yaml".to_owned(), 1)]);
        assert_eq!(files(true), [("plain.yaml".to_owned(), 1), ("printed.yaml".to_owned(), 0)]);
        fs::write(&list, "- {id: a, title: A, runs: [{file: plain.yaml, wobble: 1}]}\n").unwrap();
        let Err(Error::Input(reason)) =
            plan(&Extensions::default(), &list, dir.path(), false, Path::new("out"))
        else {
            panic!("an unknown key is accepted")
        };
        assert!(reason.contains("wobble"), "{reason}");
    }
}
