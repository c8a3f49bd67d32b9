//! Run directories when the disk is full.

use assert_cmd::cargo::cargo_bin;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// A small experiment with every table.
const TINY: &str = "\
name: tiny
topology: {kind: dumbbell, switches: 2, senders: 2, receivers: 1, rate: 100Gbps, delay: 1us}
schemes: [fncc]
flows:
  - {from: h1, to: h3, size: 100KB}
  - {from: h2, to: h3, start: 20us}
duration: 60us
observe: {csv: [flows, queues, rates, pauses]}
";

fn folder() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("tiny.yaml"), TINY).unwrap();
    dir
}

fn command(dir: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(cargo_bin("weir"));
    command.current_dir(dir).args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn weir(dir: &Path, arguments: &[&str]) -> Output {
    command(dir, arguments).output().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The names in a directory, sorted; none if it does not exist.
fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten();
    let mut names: Vec<String> = entries.map(|it| it.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_sweep_on_a_full_disk_leaves_no_draft() {
    let dir = folder();
    let sweep = "sweep tiny.yaml --over seed=1..2 --out s";
    assert!(weir(dir.path(), &sweep.split(' ').collect::<Vec<_>>()).status.success());
    let s = dir.path().join("s");
    fs::remove_file(s.join("sweep.csv")).unwrap();
    let before = names(&s);
    // Every write to a file fails, as it does without room.
    let mut shell = Command::new("sh");
    let script = format!("trap '' XFSZ; ulimit -f 0; exec '{}' {sweep}", cargo_bin("weir").display());
    let output = shell.current_dir(&dir).args(["-c", &script]).output().unwrap();
    let told = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.starts_with("error: s: "), "{told}");
    assert_eq!(names(&s), before);
}
