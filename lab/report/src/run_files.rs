//! Writes the files of a run.

use super::chart::Size;
use super::describe::RunDescription;
use super::figures::Layout;
use super::files::stage_file;
use super::{names, page, tables};
use serde::Serialize;
use std::io;
use std::path::Path;
use weir_experiment::backend::FabricReport;
use weir_experiment::results::{Results, Summary};

/// Writes all files of a run into the staging directory `dir`, whose files are published together.
///
/// # Errors
///
/// If a file cannot be written.
pub fn write(dir: &Path, run: &RunDescription, results: &Results) -> io::Result<()> {
    stage_file(dir, "run.yaml", &run.to_yaml())?;
    let summary = Summary { program: Some(run.program.to_string()), ..results.summary.clone() };
    stage_file(dir, names::SUMMARY, &pretty(&summary)?)?;
    tables::write(dir, run.tables, &run.addresses, results)?;
    let sections = run.sections(results);
    // An SVG file has one size; the page shows a full-width figure in both.
    for figure in sections.iter().flat_map(|section| &section.figures) {
        let size = if figure.layout == Layout::Full { Size::Wide } else { Size::Narrow };
        stage_file(dir, &format!("{}.svg", figure.file), &figure.picture.svg_file(size))?;
    }
    stage_file(dir, "report.html", &page::page(run, results, &sections))
}

/// Writes `fabric.json`: measurements that only a network of real interfaces has.
///
/// # Errors
///
/// If the file cannot be written.
pub fn write_fabric(dir: &Path, fabric: &FabricReport) -> io::Result<()> {
    stage_file(dir, names::FABRIC, &pretty(&fabric.json)?)
}

/// Returns pretty-printed JSON with a final newline.
fn pretty(value: &impl Serialize) -> io::Result<String> {
    let mut json = serde_json::to_string_pretty(value)?;
    json.push('\n');
    Ok(json)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{TableSelection, fixtures};
    use std::collections::BTreeSet;
    use std::fs;

    /// Writes a run to a temporary directory. Returns the directory and the names of the files.
    fn write_run(results: &Results, tables: TableSelection) -> (tempfile::TempDir, BTreeSet<String>) {
        let dir = tempfile::tempdir().unwrap();
        let run = RunDescription { tables, ..fixtures::run() };
        write(dir.path(), &run, results).unwrap();
        let names = fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
        let names = names.collect();
        (dir, names)
    }

    /// Removes the script elements of a page.
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
            write_run(&fixtures::dumbbell(), TableSelection { queues: true, ..TableSelection::default() });
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
    fn svg_files_are_well_formed_and_the_page_loads_nothing() {
        for results in [fixtures::dumbbell(), fixtures::workload()] {
            let (dir, names) = write_run(&results, TableSelection::default());
            for name in names.iter().filter(|name| name.ends_with(".svg")) {
                let svg = fs::read_to_string(dir.path().join(name)).unwrap();
                roxmltree::Document::parse(&svg).unwrap_or_else(|error| panic!("{name}: {error}"));
            }
            let page = fs::read_to_string(dir.path().join("report.html")).unwrap();
            assert!(page.contains("Content-Security-Policy\" content=\"default-src 'none';"));
            // The SVG namespace is a URL, but browsers do not load it.
            let page = without_scripts(&page).replace("xmlns=\"http://www.w3.org/2000/svg\"", "");
            for external in ["http://", "https://", " src=", "<link", "<img", "@import", "url("] {
                assert!(!page.contains(external), "{external}");
            }
        }
    }

    #[test]
    fn the_summary_has_its_documented_fields_in_order() {
        let json = pretty(&fixtures::workload().summary).unwrap();
        let mut offset = 0;
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
            let position = json[offset..]
                .find(&format!("\"{field}\""))
                .unwrap_or_else(|| panic!("{field} after {offset}"));
            offset += position;
        }
    }
}
