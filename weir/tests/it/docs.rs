//! The tests that documentation names exist.

use std::fs;
use std::path::Path;

/// Returns true if a source file has a test of this name, as a `#[test]` or in a list of `weir_testkit::harness`.
fn has_test(source: &str, name: &str) -> bool {
    let is_attributed = source.split_once(&format!("fn {name}(")).is_some_and(|(before, _)| {
        let attributes = before.rsplit("\n\n").next().unwrap_or_default();
        attributes.contains("test]") || attributes.contains("test(")
    });
    // The harness lists names in quotes; macros list identifiers, one per line.
    let is_listed = [" ", "\n"].iter().any(|after| source.contains(&format!("\"{name}\",{after}")));
    is_attributed || is_listed || source.contains(&format!("\n    {name},\n"))
}

#[test]
fn every_threat_has_a_test() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    let page = fs::read_to_string(docs.join("threats.md")).expect("docs/threats.md exists");
    let links = page.split("| [").skip(1).filter_map(|rest| rest.split_once(')')?.0.split_once("]("));
    let named: Vec<(&str, &str)> = links.collect();
    assert!(named.len() >= 6, "{named:?}");
    for (name, file) in named {
        let source = fs::read_to_string(docs.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        assert!(has_test(&source, name), "{file} has no test {name}");
    }
}

#[test]
fn every_fault_has_a_test() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    let page = fs::read_to_string(docs.join("faults.md")).expect("docs/faults.md exists");
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| ")).skip(1).collect();
    assert!(rows.len() >= 30, "{} faults", rows.len());
    for row in rows {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        assert_eq!(cells.len(), 6, "{row}");
        let tests: Vec<&str> = cells[5].split("<br>").collect();
        for test in tests {
            let (name, file) = test
                .strip_prefix('[')
                .and_then(|it| it.strip_suffix(')')?.split_once("]("))
                .unwrap_or_else(|| panic!("{row}"));
            let source =
                fs::read_to_string(docs.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
            assert!(has_test(&source, name), "{file} has no test {name}");
        }
    }
}

#[test]
fn generated_files_are_up_to_date() {
    let generated: [(&str, &[&str]); 3] = [
        ("docs/keys.md", &["schema", "--markdown"]),
        ("docs/commands.md", &["man", "--markdown"]),
        ("experiments/weir.schema.json", &["schema"]),
    ];
    for (file, command) in generated {
        let mut weir = assert_cmd::Command::cargo_bin("weir").unwrap();
        let output = weir.args(command).assert().success().get_output().clone();
        let written = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(file);
        let written = fs::read_to_string(written).unwrap();
        assert!(
            String::from_utf8(output.stdout).unwrap() == written,
            "update it with: weir {} >{file}",
            command.join(" ")
        );
    }
}
