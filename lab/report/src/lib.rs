//! Writes and reads the output of runs: a directory with results, time series, charts and an HTML report.
//!
//! [`RunDir`] chooses the directory before a run and locks it ([`lock`]). [`CheckpointWriter`] writes checkpoints to a partial
//! directory next to it, and at the end the complete results with a [`manifest`] of the files, in one step.
//! [`table`](table::table) shows the summary on the terminal. [`sweep`] runs an experiment many times with varied keys, and
//! [`papers`] compares results with values published in papers.

pub mod chart;
pub mod checkpoint;
pub mod compare;
pub mod describe;
pub mod dir;
pub mod extensions;
pub mod figures;
pub mod files;
#[cfg(test)]
pub mod fixtures;
pub mod format;
pub mod interactive;
pub mod load;
pub mod lock;
pub mod manifest;
pub mod metrics;
pub mod names;
pub mod output;
pub mod page;
pub mod paper_value;
pub mod papers;
pub mod perfetto;
pub mod policy;
pub mod rescale;
pub mod sweep;
pub mod table;
pub mod tables;

pub use checkpoint::{CheckpointWriter, CheckpointingObserver};
pub use describe::describe;
pub use dir::{DirError, RunDir};
pub use extensions::Extensions;
pub use names::file_name;
pub use paper_value::PaperValue;
pub use tables::TableSelection;

use chart::Size;
use figures::{Layout, Section};
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::net::Ipv4Addr;
use std::path::Path;
use weir_experiment::backend::FabricReport;
use weir_experiment::results::Results;

/// Returns a sentence for each scheme whose run ended in a deadlock, or had flows that their senders aborted.
pub fn failures(results: &Results) -> Vec<String> {
    let mut sentences = Vec::new();
    for label in &results.order {
        let Some(scheme) = results.summary.schemes.get(label) else { continue };
        sentences.extend(scheme.deadlock.as_ref().map(|deadlock| format!("{label}: {deadlock}")));
        sentences.extend(scheme.fct.failed.iter().map(|(reason, count)| match count {
            1 => format!("{label}: a flow failed: {reason}"),
            _ => format!("{label}: {count} flows failed: {reason}"),
        }));
    }
    sentences
}

/// The version that stands in every report.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Makes one section of a report from the results of a run, or `None` if they have nothing to show.
pub type SectionBuilder = fn(&Results) -> Option<Section>;

/// Description of a run besides its results.
#[derive(Clone, Debug, Default)]
pub struct RunDescription {
    pub name: String,
    /// One or two sentences on the experiment.
    pub about: Option<String>,
    /// Facts about the experiment, as pairs of a word and its value: topology, duration...
    pub facts: Vec<(String, String)>,
    /// The experiment with every default filled in.
    pub yaml: String,
    /// The tables to write.
    pub tables: TableSelection,
    pub addresses: BTreeMap<String, Ipv4Addr>,
    /// Published values to stand beside ours.
    pub paper: Vec<PaperValue>,
    /// Further sections, after those that come with Weir.
    pub charts: Vec<SectionBuilder>,
}

impl RunDescription {
    /// Returns what `run.yaml` holds.
    pub fn file(&self) -> String {
        format!("# weir {VERSION}: `weir run run.yaml` repeats this run.\n{}", self.yaml)
    }

    /// Returns the sections of the run's charts.
    pub fn sections(&self, results: &Results) -> Vec<Section> {
        let further = self.charts.iter().filter_map(|chart| chart(results));
        figures::sections(results).into_iter().chain(further).collect()
    }
}

/// Writes all files of a run into `dir`.
///
/// # Errors
///
/// The system's error for a file.
pub fn write(dir: &Path, run: &RunDescription, results: &Results) -> io::Result<()> {
    put(dir, "run.yaml", &run.file())?;
    put(dir, names::SUMMARY, &pretty(&results.summary)?)?;
    tables::write(dir, run.tables, &run.addresses, results)?;
    let sections = run.sections(results);
    for figure in sections.iter().flat_map(|section| &section.figures) {
        let size = if figure.layout == Layout::Full { Size::Wide } else { Size::Narrow };
        put(dir, &format!("{}.svg", figure.file), &figure.picture.svg_file(size))?;
    }
    put(dir, "report.html", &page::page(run, results, &sections))
}

/// Writes the facts about a fabric of real interfaces beside the rest.
///
/// # Errors
///
/// If the file cannot be written.
pub fn write_fabric(dir: &Path, fabric: &FabricReport) -> io::Result<()> {
    put(dir, names::FABRIC, &pretty(&fabric.facts)?)
}

/// Writes a file of a directory that has its name only once all of them are there.
fn put(dir: &Path, name: &str, text: &str) -> io::Result<()> {
    files::create(&dir.join(name))?.write_all(text.as_bytes())
}

/// Returns a value as JSON for people.
fn pretty(value: &impl Serialize) -> io::Result<String> {
    let mut json = serde_json::to_string_pretty(value)?;
    json.push('\n');
    Ok(json)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::fs;

    fn written(results: &Results, tables: TableSelection) -> (tempfile::TempDir, BTreeSet<String>) {
        let dir = tempfile::tempdir().unwrap();
        let run = RunDescription { tables, ..fixtures::run() };
        write(dir.path(), &run, results).unwrap();
        let names = fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
        let names = names.collect();
        (dir, names)
    }

    /// Returns a page as a browser shows it that runs no scripts.
    fn without_scripts(page: &str) -> String {
        let mut parts = page.split("<script");
        let mut text = parts.next().unwrap().to_owned();
        for part in parts {
            let (head, rest) = part.split_once('>').unwrap();
            assert!(head.is_empty() || head == " type=\"application/json\"", "{head}");
            text.push_str(rest.split_once("</script>").unwrap().1);
        }
        text
    }

    #[test]
    fn writes_only_the_requested_files() {
        let (_dir, names) =
            written(&fixtures::dumbbell(), TableSelection { queues: true, ..TableSelection::default() });
        let expected = [
            "queue-s1-3-closer.svg",
            "queue-s1-3-tail.svg",
            "queue-s1-3.svg",
            "queue-s2-2.svg",
            "queues.csv",
            "rates-fncc.svg",
            "rates-hpcc-eta-0.95.svg",
            "report.html",
            "run.yaml",
            "summary.json",
            "utilisation-s1-3.svg",
        ];
        assert_eq!(names, expected.map(String::from).into());
    }

    #[test]
    fn svg_files_and_the_page_are_well_formed_and_load_nothing() {
        for results in [fixtures::dumbbell(), fixtures::workload()] {
            let (dir, names) = written(&results, TableSelection::default());
            for name in names.iter().filter(|name| name.ends_with(".svg")) {
                let svg = fs::read_to_string(dir.path().join(name)).unwrap();
                roxmltree::Document::parse(&svg).unwrap_or_else(|error| panic!("{name}: {error}"));
            }
            let page = fs::read_to_string(dir.path().join("report.html")).unwrap();
            assert!(page.contains("Content-Security-Policy\" content=\"default-src 'none';"));
            // The name of the SVG language is an identifier, nothing is loaded from there.
            let page = without_scripts(&page).replace("xmlns=\"http://www.w3.org/2000/svg\"", "");
            for load in ["http://", "https://", " src=", "<link", "<img", "@import", "url("] {
                assert!(!page.contains(load), "{load}");
            }
        }
    }

    #[test]
    fn names_from_the_experiment_cannot_write_markup() {
        let mut results = fixtures::dumbbell();
        let scripts = |page: &str| page.matches("<script").count();
        let harmless = scripts(&page::page(&fixtures::run(), &results, &figures::sections(&results)));
        let run =
            RunDescription { name: "<b>&</b>".into(), yaml: "</pre><script>".into(), ..fixtures::run() };
        let name = "</script><script>alert(1)".to_owned();
        results.order[0] = name.clone();
        let trace = results.traces.remove("fncc").unwrap();
        results.traces.insert(name, trace);
        let page = page::page(&run, &results, &figures::sections(&results));
        assert!(!page.contains("<b>"));
        assert_eq!(scripts(&page), harmless, "no name is a script, in the data of charts neither");
        assert!(page.contains("&lt;b&gt;&amp;&lt;/b&gt;"));
    }

    #[test]
    fn the_summary_has_the_fields_of_the_design_in_its_order() {
        let json = pretty(&fixtures::workload().summary).unwrap();
        let mut place = 0;
        for field in [
            "experiment",
            "backend",
            "seed",
            "digest",
            "virtual_s",
            "wall_s",
            "packet_hops",
            "schemes",
            "queues",
            "peak_bytes",
            "mean_bytes",
            "p99_bytes",
            "utilisation",
            "first_slowdown_us",
            "jain",
            "drops",
            "marks",
            "pauses",
            "deflections",
            "retransmits",
            "fct",
            "count",
            "unfinished",
            "slowdown",
            "mean",
            "p50",
            "p95",
            "p99",
            "by_size",
            "upto_bytes",
        ] {
            let found = json[place..]
                .find(&format!("\"{field}\""))
                .unwrap_or_else(|| panic!("{field} after {place}"));
            place += found;
        }
    }

    #[test]
    fn a_long_run_gives_a_small_page() {
        let page_bytes = |samples| {
            let results = fixtures::dumbbell_of(samples);
            page::page(&fixtures::run(), &results, &figures::sections(&results)).len()
        };
        let (short, long) = (page_bytes(1_000), page_bytes(100_000));
        assert!(long < 3 * short && long < 600_000, "{short} {long}");
        assert!(page_bytes(2) < 120_000, "library and scripts");
    }

    #[test]
    fn csv_rows_are_exact() {
        let (dir, _) = written(&fixtures::dumbbell_of(4), fixtures::all_tables());
        let rows = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap();
        let queues = rows("queues.csv");
        assert!(
            queues.starts_with("scheme,time_us,port,towards,queue_bytes,utilisation\nfncc,250,s1:3,s2,"),
            "{queues}"
        );
        assert_eq!(queues.lines().count(), 1 + 2 * 2 * 4, "header, two schemes, two ports, four samples");
        assert_eq!(rows("rates.csv").lines().count(), 1 + 2 * 2 * 4);
        assert!(rows("flows.csv").contains("\nfncc,h2->h3,h2,h3,,300,,,,"), "{}", rows("flows.csv"));
        assert_eq!(rows("pauses.csv"), "scheme,time_us,switch,port,priority,event\n");
    }

    #[test]
    fn completion_times_are_in_the_hpcc_simulators_columns() {
        let tables = TableSelection { fct: true, ..TableSelection::default() };
        let (dir, names) = written(&fixtures::workload(), tables);
        assert!(names.contains("fct-fncc.txt"), "{names:?}");
        let text = fs::read_to_string(dir.path().join("fct-fncc.txt")).unwrap();
        let columns: Vec<&str> = text.lines().nth(1).unwrap().split(' ').collect();
        assert_eq!(columns[..6], ["00000000", "00000000", "50000", "100", "800", "5000"]);
        assert_eq!((columns.len(), columns[7]), (8, "12306"), "the ideal, in whole nanoseconds");
    }

    #[test]
    fn the_terminal_table_reads_well() {
        insta::assert_snapshot!("dumbbell_table", table::table(&fixtures::dumbbell(), false, None));
        insta::assert_snapshot!("workload_table", table::table(&fixtures::workload(), false, None));
        assert!(table::table(&fixtures::dumbbell(), true, None).contains("\u{1b}["), "bold on a terminal");
        assert!(!table::table(&fixtures::dumbbell(), false, None).contains('\u{1b}'), "plain elsewhere");
    }
}
