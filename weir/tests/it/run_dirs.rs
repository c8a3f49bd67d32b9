//! Run directories with concurrent processes, damaged files, and a full disk.

use assert_cmd::cargo::cargo_bin;
use serde_json::{Value, json};
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

fn test_dir() -> TempDir {
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

/// Returns the names in a directory, sorted; an empty list if the directory does not exist.
fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten();
    let mut names: Vec<String> = entries.map(|it| it.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Returns true if a run's files match its SHA256SUMS according to coreutils.
fn is_undamaged(run: &Path) -> bool {
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

/// Locks a directory like a run with pid 4242.
fn lock_dir(dir: &Path) -> File {
    fs::create_dir_all(dir).unwrap();
    let text = r#"{"pid": 4242, "command": "weir run other.yaml", "started_unix_s": 0}"#;
    fs::write(dir.join(".lock"), text).unwrap();
    let file = File::open(dir.join(".lock")).unwrap();
    file.try_lock().unwrap();
    file
}

/// Asserts that a command was rejected because of the lock of [`lock_dir`].
fn assert_rejected(output: &Output, path: &str) {
    let printed = stderr(output);
    assert_eq!(output.status.code(), Some(2), "{printed}");
    for word in [path, "4242", "weir run other.yaml"] {
        assert!(printed.contains(word), "{word}: {printed}");
    }
    assert_eq!(printed.lines().count(), 1, "{printed}");
}

#[test]
fn a_run_into_a_directory_in_use_names_the_holder() {
    let dir = test_dir();
    let lock = lock_dir(&dir.path().join("out.partial"));
    let run = || weir(dir.path(), &["run", "tiny.yaml", "--out", "out"]);
    assert_rejected(&run(), "--out out");
    assert_eq!(names(&dir.path().join("out.partial")), [".lock"]);
    drop(lock);
    // The lock file remains, as if its process had been killed.
    let output = run();
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(names(dir.path()), ["out", "tiny.yaml"]);
    let out = dir.path().join("out");
    assert!(is_undamaged(&out) && !names(&out).contains(&".lock".to_owned()), "{:?}", names(&out));
}

#[test]
fn a_run_without_out_takes_the_next_free_name() {
    let dir = test_dir();
    let _lock = lock_dir(&dir.path().join("runs/tiny-1.partial"));
    let output = weir(dir.path(), &["run", "tiny.yaml"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(names(&dir.path().join("runs")), ["tiny-1-2", "tiny-1.partial"]);
}

#[test]
fn a_sweep_into_a_directory_in_use_names_the_holder() {
    let dir = test_dir();
    let sweep = || weir(dir.path(), &["sweep", "tiny.yaml", "--over", "seed=1..2", "--out", "s"]);
    let lock = lock_dir(&dir.path().join("s"));
    assert_rejected(&sweep(), "--out s");
    assert_eq!(names(&dir.path().join("s")), [".lock"]);
    drop(lock);

    // One run's directory is locked: the other runs are completed.
    let lock = lock_dir(&dir.path().join("s/seed=1.partial"));
    assert_rejected(&sweep(), "s/seed=1");
    drop(lock);
    let output = sweep();
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && printed.contains("1 cached"), "{printed}{}", stderr(&output));
    let left = names(&dir.path().join("s"));
    assert!(!left.iter().any(|name| name.starts_with('.') || name.ends_with(".partial")), "{left:?}");
}

#[test]
fn results_into_a_directory_in_use_name_the_holder() {
    let dir = test_dir();
    fs::write(dir.path().join("list"), "- {id: a, title: A, runs: [{file: tiny.yaml}]}\n").unwrap();
    fs::write(dir.path().join("doc.md"), "").unwrap();
    let results = || {
        let list = ["results", "--list", "list", "--experiments", ".", "--docs", "doc.md", "--out", "r"];
        weir(dir.path(), &list)
    };
    let lock = lock_dir(&dir.path().join("r"));
    assert_rejected(&results(), "--out r");
    assert_eq!(names(&dir.path().join("r")), [".lock"]);
    drop(lock);
    let output = results();
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(names(&dir.path().join("r")), ["tiny"]);
}

#[test]
fn runs_into_one_directory_at_a_time_never_mix() {
    for round in 0..6 {
        let dir = test_dir();
        let start = |seed: &str| -> Child {
            command(dir.path(), &["run", "tiny.yaml", "--quiet", "--out", "out", "--seed", seed])
                .spawn()
                .unwrap()
        };
        let children = ["1", "2", "3"].map(start);
        let outputs = children.map(|child| child.wait_with_output().unwrap());
        for output in &outputs {
            let printed = stderr(output);
            match output.status.code() {
                Some(0) => {}
                Some(2) => assert!(printed.contains("in use by"), "round {round}: {printed}"),
                other => panic!("round {round}: {other:?} {printed}"),
            }
        }
        assert!(outputs.iter().any(|output| output.status.success()), "round {round}");
        let out = dir.path().join("out");
        let yaml = fs::read_to_string(out.join("run.yaml")).unwrap();
        let seed = summary(&out).seed;
        assert!(yaml.contains(&format!("seed: {seed}\n")), "round {round}: {seed} {yaml}");
        assert!(is_undamaged(&out), "round {round}");
        assert_eq!(names(dir.path()), ["out", "tiny.yaml"], "round {round}");
    }
}

/// Waits until a file exists, for at most a minute.
fn wait_for(file: &Path) {
    let began = Instant::now();
    while !file.exists() && began.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_killed_process_blocks_no_other() {
    for (mut arguments, started_file) in [
        (vec!["run", "tiny.yaml", "--out", "o"], "o.partial/summary.json"),
        (vec!["sweep", "tiny.yaml", "--over", "seed=1..2", "--out", "o"], "o/seed=1.partial/summary.json"),
    ] {
        let dir = test_dir();
        let mut child =
            command(dir.path(), &[&arguments[..], &["--set", "duration=10s"]].concat()).spawn().unwrap();
        wait_for(&dir.path().join(started_file));
        let second = weir(dir.path(), &arguments);
        child.kill().unwrap();
        child.wait().unwrap();
        let printed = stderr(&second);
        assert_eq!(second.status.code(), Some(2), "{printed}");
        for word in [format!("process {} (", child.id()), "--set duration=10s".to_owned(), " ago".to_owned()]
        {
            assert!(printed.contains(&word), "{word}: {printed}");
        }
        arguments.push("--quiet");
        let third = weir(dir.path(), &arguments);
        assert!(third.status.success(), "{}", stderr(&third));
        assert!(!names(&dir.path().join("o")).contains(&".lock".to_owned()));
    }
}

/// Damage to a run: the file that the message names, the reason it gives, and the damage itself.
type Damage = (&'static str, &'static str, fn(&Path));

const DAMAGES: [Damage; 7] = [
    ("queues.csv", "is missing", |run| fs::remove_file(run.join("queues.csv")).unwrap()),
    ("rates.csv", "does not match", |run| {
        let intact = fs::read(run.join("rates.csv")).unwrap();
        fs::write(run.join("rates.csv"), &intact[..intact.len() / 2]).unwrap();
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
        let intact = fs::read(run.join("SHA256SUMS")).unwrap();
        fs::write(run.join("SHA256SUMS"), &intact[..intact.len() - 30]).unwrap();
    }),
];

#[test]
fn a_resumed_sweep_repeats_and_reports_damaged_runs() {
    let dir = test_dir();
    let sweep = || weir(dir.path(), &["sweep", "tiny.yaml", "--over", "seed=1..3", "--out", "s"]);
    assert!(sweep().status.success());
    let run = dir.path().join("s/seed=2");
    let files = || -> BTreeMap<String, Vec<u8>> {
        // These files contain or depend on the duration of the run.
        let stable = names(&run)
            .into_iter()
            .filter(|name| !["summary.json", "report.html", "SHA256SUMS"].contains(&name.as_str()));
        stable.map(|name| (name.clone(), fs::read(run.join(name)).unwrap())).collect()
    };
    let tables = || ["sweep.csv", "runs.csv"].map(|name| fs::read(dir.path().join("s").join(name)).unwrap());
    let (files_before, tables_before) = (files(), tables());
    // A run of an earlier version, without a manifest.
    let unsigned: Damage =
        ("SHA256SUMS", "is missing", |run| fs::remove_file(run.join("SHA256SUMS")).unwrap());
    for (file, reason, damage) in DAMAGES.into_iter().chain([unsigned]) {
        damage(&run);
        let output = sweep();
        let (printed, warned) = (String::from_utf8_lossy(&output.stdout), stderr(&output));
        assert!(output.status.success() && printed.contains("2 cached"), "{file}: {printed}{warned}");
        let message = format!("s/seed=2/{file} {reason}");
        assert!(warned.contains(&message) && warned.contains("repeating this run"), "{file}: {warned}");
        assert_eq!(warned.lines().count(), 1, "{warned}");
        assert!(is_undamaged(&run), "{file}");
        assert!(files() == files_before && tables() == tables_before, "{file}: the same bytes");
    }
    let output = sweep();
    assert!(String::from_utf8_lossy(&output.stdout).contains("3 cached") && output.stderr.is_empty());
}

#[test]
fn a_report_refuses_damaged_runs_and_warns_of_those_without_a_manifest() {
    let dir = test_dir();
    let report = || weir(dir.path(), &["report", "out", "--quiet", "--out", "page.html"]);
    let page = dir.path().join("page.html");
    let out = dir.path().join("out");
    for (file, reason, damage) in DAMAGES {
        assert!(weir(dir.path(), &["run", "tiny.yaml", "--out", "out"]).status.success());
        damage(&out);
        let output = report();
        let printed = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{file}: {printed}");
        let message = format!("out/{file}: {reason}");
        assert!(printed.contains(&message) && printed.contains("again"), "{message}: {printed}");
        assert!(printed.lines().count() == 1 && !page.exists(), "{printed}");
    }
    assert!(weir(dir.path(), &["run", "tiny.yaml", "--out", "out"]).status.success());
    let output = report();
    assert!(output.status.success() && output.stderr.is_empty(), "{}", stderr(&output));
    fs::remove_file(out.join("SHA256SUMS")).unwrap();
    let output = report();
    let printed = stderr(&output);
    assert!(output.status.success() && printed.starts_with("warning: out: SHA256SUMS missing"), "{printed}");
}

/// Runs a command with a limit of `blocks` blocks per file: writing more fails, as on a full disk.
fn with_file_limit(dir: &Path, blocks: u32, arguments: &str) -> Output {
    let script = format!("ulimit -f {blocks}; exec '{}' {arguments}", cargo_bin("weir").display());
    let mut shell = Command::new("sh");
    shell.current_dir(dir).args(["-c", &script]).output().unwrap()
}

#[test]
fn a_run_on_a_full_disk_keeps_the_earlier_one_and_leaves_the_name_free() {
    let dir = test_dir();
    for (blocks, path) in [(0, "new.partial"), (16, "new.partial")] {
        let output = with_file_limit(dir.path(), blocks, "run tiny.yaml --out new --quiet");
        let message = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{message}");
        assert!(message.starts_with("error: ") && message.contains(path), "{message}");
        assert_eq!(names(dir.path()), ["tiny.yaml"]);
    }
    // The limit suffices for the page but not for the table of queues: earlier results are kept, and the error is
    // reported.
    let wide = "run tiny.yaml --out wide --set duration=400us --set observe.interval=20ns";
    let output = with_file_limit(dir.path(), 600, wide);
    let (printed, message) = (String::from_utf8_lossy(&output.stdout), stderr(&output));
    assert!(output.status.code() == Some(1) && printed.contains("\nDigest "), "{printed}{message}");
    assert!(
        message.contains("File too large") && message.contains("; wide.partial has earlier results"),
        "{message}"
    );
    let kept = names(&dir.path().join("wide.partial"));
    assert!(kept.contains(&"summary.json".to_owned()) && !kept[0].starts_with('.'), "{kept:?}");

    // Without the limit the same command succeeds.
    assert!(weir(dir.path(), &["run", "tiny.yaml", "--out", "new"]).status.success());
    let intact = fs::read(dir.path().join("new/SHA256SUMS")).unwrap();
    assert_eq!(with_file_limit(dir.path(), 16, "run tiny.yaml --out new").status.code(), Some(1));
    assert!(is_undamaged(&dir.path().join("new")));
    assert_eq!(fs::read(dir.path().join("new/SHA256SUMS")).unwrap(), intact);
}

#[test]
fn a_sweep_on_a_full_disk_leaves_no_draft() {
    let dir = test_dir();
    let sweep = "sweep tiny.yaml --over seed=1..2 --out s";
    assert!(weir(dir.path(), &sweep.split(' ').collect::<Vec<_>>()).status.success());
    let s = dir.path().join("s");
    fs::remove_file(s.join("sweep.csv")).unwrap();
    let before = names(&s);
    let output = with_file_limit(dir.path(), 0, sweep);
    let printed = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{printed}");
    assert!(printed.starts_with("error: s: "), "{printed}");
    assert_eq!(names(&s), before);
    // A temporary file, as left by a process that is killed while it writes.
    fs::write(s.join(".runs.csv.a1B2c3"), "half").unwrap();
    assert!(weir(dir.path(), &sweep.split(' ').collect::<Vec<_>>()).status.success());
    assert!(!s.join(".runs.csv.a1B2c3").exists() && s.join("sweep.csv").exists(), "{:?}", names(&s));
}

#[test]
fn a_sweep_leaves_a_foreign_directory_alone() {
    let dir = test_dir();
    let home = dir.path().join("home");
    fs::create_dir(&home).unwrap();
    fs::write(home.join("thesis.tex"), "years of work").unwrap();
    let output = weir(dir.path(), &["sweep", "tiny.yaml", "--over", "seed=1..2", "--out", "home"]);
    let printed = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{printed}");
    assert!(printed.contains("thesis.tex") && printed.contains("not a result of a sweep"), "{printed}");
    assert_eq!(names(&home), ["thesis.tex"]);
}

/// `-1-2` alone does not say what was changed, and the folder of a killed run looks like any other.
#[test]
fn runs_are_listed_with_their_state_and_what_differs() {
    let dir = test_dir();
    let dir = dir.path();
    for options in [&[][..], &["--set", "mtu=1000B"], &[], &["--out", "runs/long"]] {
        let output = weir(dir, &[&["run", "tiny.yaml"][..], options].concat());
        assert!(output.status.success(), "{}", stderr(&output));
    }
    fs::rename(dir.join("runs/long"), dir.join("runs/long.partial")).unwrap();
    assert!(weir(dir, &["sweep", "tiny.yaml", "--over", "seed=1,2"]).status.success());
    fs::create_dir_all(dir.join("runs/killed.partial")).unwrap();
    fs::create_dir_all(dir.join("runs/damaged")).unwrap();
    fs::write(dir.join("runs/damaged/summary.json"), "{\"experiment\": 1").unwrap();
    fs::create_dir_all(dir.join("runs/notes")).unwrap();

    let output = weir(dir, &["runs", "--json"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let runs = document["runs"].as_array().unwrap();
    let run = |name: &str| {
        runs.iter().find(|run| run["name"] == name).unwrap_or_else(|| panic!("{name}: {document}"))
    };
    assert_eq!(runs.len(), 8, "{document}");
    let first = run("tiny-1");
    assert_eq!(
        (&first["state"], &first["duration"], &first["seed"]),
        (&json!("finished"), &json!("60us"), &json!(1))
    );
    assert_eq!((&first["schemes"], &first["differs"]), (&json!(["fncc"]), &Value::Null));
    assert_eq!(run("tiny-1-2")["differs"], json!({"mtu": "1KB"}));
    let third = run("tiny-1-3");
    assert_eq!((&third["differs"], &third["compared_with"]), (&json!({"mtu": "1518B"}), &json!("tiny-1-2")));
    let output = weir(dir, &["runs", "--json", "--against", "tiny-1"]);
    let against: Value = serde_json::from_slice(&output.stdout).unwrap();
    let runs_against = against["runs"].as_array().unwrap();
    let repetition = runs_against.iter().find(|run| run["name"] == "tiny-1-3").unwrap();
    assert_eq!((&repetition["differs"], &repetition["same_digest"]), (&json!({}), &json!(true)));
    let unknown = weir(dir, &["runs", "--against", "tiny-1-4"]);
    assert_eq!(unknown.status.code(), Some(2), "{}", stderr(&unknown));
    assert!(stderr(&unknown).contains("tiny-1-4: no such run; did you mean"), "{}", stderr(&unknown));
    // Runs of a sweep end in any order.
    let of_sweep = [run("tiny-sweep/seed=1"), run("tiny-sweep/seed=2")];
    let compared: Vec<&Value> =
        of_sweep.iter().filter(|run| !run["compared_with"].is_null()).copied().collect();
    assert_eq!(compared.len(), 1, "{document}");
    assert!(compared[0]["differs"]["seed"].is_string(), "{document}");
    assert_eq!(run("long.partial")["state"], "partial");
    assert_eq!(run("killed.partial")["state"], "failed");
    assert!(run("damaged")["reason"].as_str().unwrap().contains("summary.json"), "{document}");
    let dates: Vec<&str> = runs.iter().map(|run| run["date"].as_str().unwrap()).collect();
    assert!(dates.is_sorted_by(|a, b| a >= b), "{dates:?}");

    let text = String::from_utf8(weir(dir, &["runs"]).stdout).unwrap();
    let line = |name: &str| {
        text.lines().map(str::trim).find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{text}"))
    };
    assert!(line("tiny-1-2 ").ends_with("since tiny-1: mtu=1KB"), "{text}");
    assert!(line("tiny-1-3 ").ends_with("since tiny-1-2: mtu=1518B"), "{text}");
    let text = String::from_utf8(weir(dir, &["runs", "--against", "tiny-1"]).stdout).unwrap();
    let repetition = text.lines().find(|line| line.trim().starts_with("tiny-1-3 "));
    assert!(repetition.is_some_and(|line| line.trim_end().ends_with("repeats tiny-1")), "{text}");
    assert!(line("damaged: ").contains("summary.json"), "{text}");
    let absent = weir(dir, &["runs", "nowhere"]);
    assert_eq!(absent.status.code(), Some(2), "{}", stderr(&absent));
    assert!(stderr(&absent).starts_with("error: nowhere: "), "{}", stderr(&absent));
}
