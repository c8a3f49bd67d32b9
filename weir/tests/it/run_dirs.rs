//! Run directories when several processes want one, when files are damaged, and when the disk is full.

use assert_cmd::cargo::cargo_bin;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use weir_experiment::results::Summary;

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

/// Returns whether a run's files are those of its manifest, as coreutils see it.
fn is_whole(run: &Path) -> bool {
    let mut check = Command::new("sha256sum");
    check
        .args(["--check", "--strict", "--quiet", "SHA256SUMS"])
        .current_dir(run)
        .output()
        .unwrap()
        .status
        .success()
}

fn summary(run: &Path) -> Summary {
    serde_json::from_str(&fs::read_to_string(run.join("summary.json")).unwrap()).unwrap()
}

/// Locks a directory as a run with process number 4242 does.
fn hold(dir: &Path) -> File {
    fs::create_dir_all(dir).unwrap();
    let text = r#"{"pid": 4242, "command": "weir run other.yaml", "started_unix_s": 0}"#;
    fs::write(dir.join(".lock"), text).unwrap();
    let file = File::open(dir.join(".lock")).unwrap();
    file.try_lock().unwrap();
    file
}

/// Asserts that a command was refused because of the process that [`hold`] plays.
fn assert_refused(output: &Output, place: &str) {
    let told = stderr(output);
    assert_eq!(output.status.code(), Some(2), "{told}");
    for word in [place, "4242", "weir run other.yaml"] {
        assert!(told.contains(word), "{word}: {told}");
    }
    assert_eq!(told.lines().count(), 1, "{told}");
}

#[test]
fn a_run_into_a_directory_in_use_names_the_holder() {
    let dir = folder();
    let lock = hold(&dir.path().join("out.partial"));
    let run = || weir(dir.path(), &["run", "tiny.yaml", "--out", "out"]);
    assert_refused(&run(), "--out out");
    assert_eq!(names(&dir.path().join("out.partial")), [".lock"]);
    drop(lock);
    // The lock file is still there, as if its process had been killed.
    let output = run();
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(names(dir.path()), ["out", "tiny.yaml"]);
    let out = dir.path().join("out");
    assert!(is_whole(&out) && !names(&out).contains(&".lock".to_owned()), "{:?}", names(&out));
}

#[test]
fn a_run_without_a_directory_of_its_own_takes_the_next_name() {
    let dir = folder();
    let _lock = hold(&dir.path().join("runs/tiny-1.partial"));
    let output = weir(dir.path(), &["run", "tiny.yaml"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(names(&dir.path().join("runs")), ["tiny-1-2", "tiny-1.partial"]);
}

#[test]
fn a_sweep_into_a_directory_in_use_names_the_holder() {
    let dir = folder();
    let sweep = || weir(dir.path(), &["sweep", "tiny.yaml", "--over", "seed=1..2", "--out", "s"]);
    let lock = hold(&dir.path().join("s"));
    assert_refused(&sweep(), "--out s");
    assert_eq!(names(&dir.path().join("s")), [".lock"]);
    drop(lock);

    // A run into the directory of one cell: the others are done.
    let lock = hold(&dir.path().join("s/seed=1.partial"));
    assert_refused(&sweep(), "s/seed=1");
    drop(lock);
    let output = sweep();
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && told.contains("1 cached"), "{told}{}", stderr(&output));
    let left = names(&dir.path().join("s"));
    assert!(!left.iter().any(|name| name.starts_with('.') || name.ends_with(".partial")), "{left:?}");
}

#[test]
fn results_into_a_directory_in_use_name_the_holder() {
    let dir = folder();
    fs::write(dir.path().join("list"), "- {id: a, title: A, runs: [{file: tiny.yaml}]}\n").unwrap();
    fs::write(dir.path().join("doc.md"), "").unwrap();
    let results = || {
        let list = ["results", "--list", "list", "--experiments", ".", "--docs", "doc.md", "--out", "r"];
        weir(dir.path(), &list)
    };
    let lock = hold(&dir.path().join("r"));
    assert_refused(&results(), "--out r");
    assert_eq!(names(&dir.path().join("r")), [".lock"]);
    drop(lock);
    let output = results();
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(names(&dir.path().join("r")), ["tiny"]);
}

#[test]
fn runs_into_one_directory_at_a_time_never_mix() {
    for round in 0..6 {
        let dir = folder();
        let start = |seed: &str| -> Child {
            command(dir.path(), &["run", "tiny.yaml", "--quiet", "--out", "out", "--seed", seed])
                .spawn()
                .unwrap()
        };
        let children = ["1", "2", "3"].map(start);
        let outputs = children.map(|child| child.wait_with_output().unwrap());
        for output in &outputs {
            let told = stderr(output);
            match output.status.code() {
                Some(0) => {}
                Some(2) => assert!(told.contains("in use by"), "round {round}: {told}"),
                other => panic!("round {round}: {other:?} {told}"),
            }
        }
        assert!(outputs.iter().any(|output| output.status.success()), "round {round}");
        let out = dir.path().join("out");
        let yaml = fs::read_to_string(out.join("run.yaml")).unwrap();
        let seed = summary(&out).seed;
        assert!(yaml.contains(&format!("seed: {seed}\n")), "round {round}: {seed} {yaml}");
        assert!(is_whole(&out), "round {round}");
        assert_eq!(names(dir.path()), ["out", "tiny.yaml"], "round {round}");
    }
}

/// Waits until a file is there, up to a minute.
fn wait_for(file: &Path) {
    let began = Instant::now();
    while !file.exists() && began.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_killed_process_blocks_no_other() {
    for (mut arguments, begun) in [
        (vec!["run", "tiny.yaml", "--out", "o"], "o.partial/summary.json"),
        (vec!["sweep", "tiny.yaml", "--over", "seed=1..2", "--out", "o"], "o/seed=1.partial/summary.json"),
    ] {
        let dir = folder();
        let mut child =
            command(dir.path(), &[&arguments[..], &["--set", "duration=10s"]].concat()).spawn().unwrap();
        wait_for(&dir.path().join(begun));
        let second = weir(dir.path(), &arguments);
        child.kill().unwrap();
        child.wait().unwrap();
        let told = stderr(&second);
        assert_eq!(second.status.code(), Some(2), "{told}");
        for word in [format!("process {} (", child.id()), "--set duration=10s".to_owned(), " ago".to_owned()]
        {
            assert!(told.contains(&word), "{word}: {told}");
        }
        arguments.push("--quiet");
        let third = weir(dir.path(), &arguments);
        assert!(third.status.success(), "{}", stderr(&third));
        assert!(!names(&dir.path().join("o")).contains(&".lock".to_owned()));
    }
}

/// Damage to a run: the file that the message names, the reason it gives, and the damage itself.
type Harm = (&'static str, &'static str, fn(&Path));

const HARMS: [Harm; 7] = [
    ("queues.csv", "is missing", |run| fs::remove_file(run.join("queues.csv")).unwrap()),
    ("rates.csv", "does not match", |run| {
        let whole = fs::read(run.join("rates.csv")).unwrap();
        fs::write(run.join("rates.csv"), &whole[..whole.len() / 2]).unwrap();
    }),
    ("summary.json", "does not match", |run| {
        let text = fs::read_to_string(run.join("summary.json")).unwrap();
        let edited = text.replacen("\"peak_bytes\": ", "\"peak_bytes\": 1", 1);
        assert_ne!(text, edited);
        fs::write(run.join("summary.json"), edited).unwrap();
    }),
    ("summary.json", "is missing", |run| fs::remove_file(run.join("summary.json")).unwrap()),
    ("run.yaml", "does not match", |run| {
        let text = fs::read_to_string(run.join("run.yaml")).unwrap();
        fs::write(run.join("run.yaml"), text.replace("duration:", "duration: ")).unwrap();
    }),
    ("fct-old.txt", "is not in", |run| fs::write(run.join("fct-old.txt"), "").unwrap()),
    ("SHA256SUMS", "malformed", |run| {
        let whole = fs::read(run.join("SHA256SUMS")).unwrap();
        fs::write(run.join("SHA256SUMS"), &whole[..whole.len() - 30]).unwrap();
    }),
];

#[test]
fn a_resumed_sweep_repeats_and_reports_damaged_runs() {
    let dir = folder();
    let sweep = || weir(dir.path(), &["sweep", "tiny.yaml", "--over", "seed=1..3", "--out", "s"]);
    assert!(sweep().status.success());
    let run = dir.path().join("s/seed=2");
    let files = || -> BTreeMap<String, Vec<u8>> {
        // Both tell how long the run took.
        let stable = names(&run)
            .into_iter()
            .filter(|name| !["summary.json", "report.html", "SHA256SUMS"].contains(&name.as_str()));
        stable.map(|name| (name.clone(), fs::read(run.join(name)).unwrap())).collect()
    };
    let tables = || ["sweep.csv", "runs.csv"].map(|name| fs::read(dir.path().join("s").join(name)).unwrap());
    let (files_before, tables_before) = (files(), tables());
    // An earlier version wrote no manifest.
    let unsigned: Harm = ("SHA256SUMS", "is missing", |run| fs::remove_file(run.join("SHA256SUMS")).unwrap());
    for (file, reason, harm) in HARMS.into_iter().chain([unsigned]) {
        harm(&run);
        let output = sweep();
        let (told, warned) = (String::from_utf8_lossy(&output.stdout), stderr(&output));
        assert!(output.status.success() && told.contains("2 cached"), "{file}: {told}{warned}");
        let message = format!("s/seed=2/{file} {reason}");
        assert!(warned.contains(&message) && warned.contains("done again"), "{file}: {warned}");
        assert_eq!(warned.lines().count(), 1, "{warned}");
        assert!(is_whole(&run), "{file}");
        assert!(files() == files_before && tables() == tables_before, "{file}: the same bytes");
    }
    let output = sweep();
    assert!(String::from_utf8_lossy(&output.stdout).contains("3 cached") && output.stderr.is_empty());
}

#[test]
fn a_report_refuses_damaged_runs_and_warns_of_those_without_a_manifest() {
    let dir = folder();
    let report = || weir(dir.path(), &["report", "out", "--quiet", "--out", "page.html"]);
    let page = dir.path().join("page.html");
    let out = dir.path().join("out");
    for (file, reason, harm) in HARMS {
        assert!(weir(dir.path(), &["run", "tiny.yaml", "--out", "out"]).status.success());
        harm(&out);
        let output = report();
        let told = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{file}: {told}");
        let message = format!("out/{file}: {reason}");
        assert!(told.contains(&message) && told.contains("again"), "{message}: {told}");
        assert!(told.lines().count() == 1 && !page.exists(), "{told}");
    }
    assert!(weir(dir.path(), &["run", "tiny.yaml", "--out", "out"]).status.success());
    let output = report();
    assert!(output.status.success() && output.stderr.is_empty(), "{}", stderr(&output));
    fs::remove_file(out.join("SHA256SUMS")).unwrap();
    let output = report();
    let told = stderr(&output);
    assert!(output.status.success() && told.starts_with("warning: out: SHA256SUMS missing"), "{told}");
}

/// Runs a command whose files cannot be longer than `blocks` blocks: writing more fails, as it does without room.
fn without_room(dir: &Path, blocks: u32, arguments: &str) -> Output {
    let script = format!("ulimit -f {blocks}; exec '{}' {arguments}", cargo_bin("weir").display());
    let mut shell = Command::new("sh");
    shell.current_dir(dir).args(["-c", &script]).output().unwrap()
}

#[test]
fn a_run_on_a_full_disk_keeps_the_earlier_one_and_leaves_the_name_free() {
    let dir = folder();
    for (blocks, place) in [(0, "new.partial"), (16, "new.partial")] {
        let output = without_room(dir.path(), blocks, "run tiny.yaml --out new --quiet");
        let told = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{told}");
        assert!(told.starts_with("error: ") && told.contains(place), "{told}");
        assert_eq!(names(dir.path()), ["tiny.yaml"]);
    }
    // There is room for the page and none for the table of queues: what can be kept is kept, and the rest is told.
    let wide = "run tiny.yaml --out wide --set duration=400us --set observe.interval=20ns";
    let output = without_room(dir.path(), 600, wide);
    let (printed, told) = (String::from_utf8_lossy(&output.stdout), stderr(&output));
    assert!(output.status.code() == Some(1) && printed.contains("\nDigest "), "{printed}{told}");
    assert!(told.contains("File too large") && told.contains("; wide.partial has earlier results"), "{told}");
    let kept = names(&dir.path().join("wide.partial"));
    assert!(kept.contains(&"summary.json".to_owned()) && !kept[0].starts_with('.'), "{kept:?}");

    // With room again the same command does the run.
    assert!(weir(dir.path(), &["run", "tiny.yaml", "--out", "new"]).status.success());
    let whole = fs::read(dir.path().join("new/SHA256SUMS")).unwrap();
    assert_eq!(without_room(dir.path(), 16, "run tiny.yaml --out new").status.code(), Some(1));
    assert!(is_whole(&dir.path().join("new")));
    assert_eq!(fs::read(dir.path().join("new/SHA256SUMS")).unwrap(), whole);
}

#[test]
fn a_sweep_on_a_full_disk_leaves_no_draft() {
    let dir = folder();
    let sweep = "sweep tiny.yaml --over seed=1..2 --out s";
    assert!(weir(dir.path(), &sweep.split(' ').collect::<Vec<_>>()).status.success());
    let s = dir.path().join("s");
    fs::remove_file(s.join("sweep.csv")).unwrap();
    let before = names(&s);
    let output = without_room(dir.path(), 0, sweep);
    let told = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.starts_with("error: s: "), "{told}");
    assert_eq!(names(&s), before);
    // As one leaves it that is killed while it writes.
    fs::write(s.join(".runs.csv.a1B2c3"), "half").unwrap();
    assert!(weir(dir.path(), &sweep.split(' ').collect::<Vec<_>>()).status.success());
    assert!(!s.join(".runs.csv.a1B2c3").exists() && s.join("sweep.csv").exists(), "{:?}", names(&s));
}

#[test]
fn a_sweep_leaves_a_foreign_directory_alone() {
    let dir = folder();
    let home = dir.path().join("home");
    fs::create_dir(&home).unwrap();
    fs::write(home.join("thesis.tex"), "years of work").unwrap();
    let output = weir(dir.path(), &["sweep", "tiny.yaml", "--over", "seed=1..2", "--out", "home"]);
    let told = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(told.contains("thesis.tex") && told.contains("not a result of a sweep"), "{told}");
    assert_eq!(names(&home), ["thesis.tex"]);
}
