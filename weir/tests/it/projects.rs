//! Projects that `weir new` writes.

use crate::cli::{repository, weir};
use std::fs;
use std::path::Path;

/// The project of `weir new p4` passes its tests and runs unmodified, outside the repository and without a compiler.
#[test]
fn a_new_p4_project_passes_its_tests_and_runs() {
    let dir = tempfile::tempdir().unwrap();
    let stdout_of = |args: &[&str], dir: &Path| {
        let output = weir().current_dir(dir).args(args).assert().success().get_output().clone();
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(stdout_of(&["new", "p4", "sojourn"], dir.path()).contains("sojourn/README.md"));
    let project = dir.path().join("sojourn");
    assert!(
        stdout_of(&["stf", "build/sojourn.json", "tests/forward.stf", "tests/mark.stf"], &project)
            .contains("2 passed, 0 failed")
    );
    stdout_of(&["run", "marks.yaml", "--out", "run"], &project);
    let summary: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(project.join("run/summary.json")).unwrap()).unwrap();
    assert!(summary["schemes"]["dctcp"]["marks"].as_u64().unwrap() > 100, "{summary}");
    // All included files exist, and no file refers to the example or the repository.
    for file in [
        "sojourn.p4",
        "Makefile",
        "marks.yaml",
        "README.md",
        "weir/include/weir.p4",
        "weir/controls/drops.p4",
    ] {
        let text = fs::read_to_string(project.join(file)).unwrap();
        assert!(!text.contains("own_p4") && !text.contains("p4src"), "{file}");
    }
    // A second project with the same name is rejected.
    let again = weir().current_dir(&dir).args(["new", "p4", "sojourn"]).assert().code(2).get_output().clone();
    assert!(String::from_utf8(again.stderr).unwrap().contains("sojourn already exists; choose another name"));
}

/// The package has the scheme's name, even if it contains the example's name, and the tested versions of dependencies.
#[test]
fn a_new_scheme_has_one_name_and_the_tested_versions() {
    let dir = tempfile::tempdir().unwrap();
    let new = |name: &str| {
        let weir_dir = repository().display().to_string();
        weir().current_dir(&dir).args(["new", "scheme", name, "--weir", &weir_dir]).output().unwrap()
    };
    assert!(new("fast_aimd").status.success());
    let read = |file: &str| fs::read_to_string(dir.path().join("fast_aimd").join(file)).unwrap();
    assert!(read("Cargo.toml").contains("name = \"fast_aimd\"\n"), "{}", read("Cargo.toml"));
    assert!(read("src/main.rs").contains("mod fast_aimd;") && read("join.yaml").contains("  - fast_aimd\n"));
    assert_eq!(read("Cargo.lock"), fs::read_to_string(repository().join("Cargo.lock")).unwrap());
    let builtin = new("hpcc");
    assert_eq!(builtin.status.code(), Some(2));
    assert!(String::from_utf8(builtin.stderr).unwrap().contains("hpcc is a scheme of this program"));
    assert!(!dir.path().join("hpcc").exists());
}

/// Names with which the new crate would not compile are rejected.
#[test]
fn names_that_do_not_compile_are_rejected() {
    let dir = tempfile::tempdir().unwrap();
    let weir_dir = repository().display().to_string();
    let assert_rejected = |template: &str, name: &str, reason: &str| {
        let args = ["new", template, name, "--weir", &weir_dir];
        let output = weir().current_dir(&dir).args(args).assert().code(2).get_output().clone();
        let message = String::from_utf8(output.stderr).unwrap();
        assert!(message.contains(reason) && !dir.path().join(name).exists(), "{message}");
    };
    for template in ["scheme", "experiment", "telemetry"] {
        assert_rejected(template, "match", "match is a Rust keyword");
        assert_rejected(template, "build", "build is a directory name reserved by cargo");
    }
    assert_rejected("scheme", "sender", "the template already uses sender");
    assert_rejected("scheme", "std", "the template already uses std");
    assert_rejected("scheme", "vec", "the template already uses vec");
    for good in ["rate", "aimd", "matching"] {
        weir().current_dir(&dir).args(["new", "scheme", good, "--weir", &weir_dir]).assert().success();
    }
}

/// Like `new p4`, with a custom telemetry header; the project's crate is built by `.ci/test`.
#[test]
fn a_new_telemetry_project_passes_its_packet_test() {
    let dir = tempfile::tempdir().unwrap();
    let repository = repository().display().to_string();
    weir().current_dir(&dir).args(["new", "telemetry", "mine", "--weir", &repository]).assert().success();
    let project = dir.path().join("mine");
    let packets = ["stf", "build/mine.json", "tests/record.stf"];
    let output = weir().current_dir(&project).args(packets).assert().success().get_output().clone();
    assert!(String::from_utf8(output.stdout).unwrap().contains("1 passed, 0 failed"));
    for file in ["mine.p4", "Makefile", "Cargo.toml", "src/main.rs", "weir/controls/record_count.p4"] {
        let text = fs::read_to_string(project.join(file)).unwrap();
        assert!(!text.contains("own_telemetry") && !text.contains("../.."), "{file}");
    }
    // HPCC rejects the program, because its telemetry records are not those of HPCC.
    let hpcc = ["run", "waits.yaml", "--set", "schemes=[hpcc]", "--check"];
    let output = weir().current_dir(&project).args(hpcc).assert().code(2).get_output().clone();
    let message = String::from_utf8(output.stderr).unwrap();
    let reason = "hpcc requires Weir's telemetry records instead of custom ones \
        (@controller_header(\"weir_record\")), which build/mine.json does not provide";
    assert!(message.contains(reason), "{message}");
}
