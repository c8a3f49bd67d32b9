//! Sweeps, and runs beside each other.

use crate::cli::{tiny, weir};
use std::fs;
use std::path::Path;

/// Runs a sweep of TINY. Returns the exit status, the output, and the two tables.
fn sweep(dir: &Path, more: &[&str]) -> (i32, String, [Vec<u8>; 2]) {
    let mut command = weir();
    command.current_dir(dir).args(["sweep", "tiny.yaml", "--out", "s"]).args(more);
    let output = command.output().unwrap();
    let read = |name: &str| fs::read(dir.join("s").join(name)).unwrap_or_default();
    let printed = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
    (output.status.code().unwrap(), printed, ["sweep.csv", "runs.csv"].map(read))
}

const GRID: [&str; 4] = ["--over", "flows.0.size=50KB,100KB", "--over", "seed=1..3"];

#[test]
fn a_sweep_has_every_combination_and_the_same_bytes_in_any_order() {
    let metrics = [
        "--metric",
        "fct.slowdown.p50",
        "--metric",
        "less=fncc.queues.s1:3.peak_bytes vs hpcc.queues.s1:3.peak_bytes",
    ];
    let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let [sequential, parallel] = [("1", &dirs[0]), ("3", &dirs[1])].map(|(jobs, dir)| {
        tiny(dir);
        let (status, printed, tables) = sweep(dir.path(), &[&GRID[..], &metrics, &["--jobs", jobs]].concat());
        assert_eq!(status, 0, "{printed}");
        assert!(printed.contains("6 runs: 6 complete.") && printed.contains("50KB"), "{printed}");
        tables
    });
    assert!(sequential == parallel, "the same bytes with any number of jobs");
    let [table, runs] = sequential.map(|bytes| String::from_utf8(bytes).unwrap());
    let mut lines = table.lines();
    assert_eq!(lines.next(), Some("flows.0.size,scheme,metric,unit,runs,mean,ci95_low,ci95_high"));
    // Per size: the slowdown of two schemes, and the comparison of both.
    assert_eq!(lines.clone().count(), 2 * 3, "{table}");
    assert!(lines.all(|line| line.split(',').nth(4) == Some("3")), "{table}");
    assert_eq!(runs.lines().count(), 1 + 6 * 3, "{runs}");
    let fct = |dir: &tempfile::TempDir| fs::read_to_string(dir.path().join("s/fct.csv")).unwrap();
    let table = fct(&dirs[0]);
    assert_eq!(table, fct(&dirs[1]));
    assert!(table.starts_with("flows.0.size,seed,scheme,workload,class,over_bytes,upto_bytes,n,"), "{table}");
    for (size, seed) in [("50KB", 1), ("100KB", 3)] {
        let run = dirs[0].path().join(format!("s/flows.0.size={size},seed={seed}/fct.csv"));
        for line in fs::read_to_string(run).unwrap().lines().skip(1) {
            assert!(table.contains(&format!("\n{size},{seed},{line}\n")), "{line} in {table}");
        }
    }
    let cell = dirs[0].path().join("s/flows.0.size=50KB,seed=2");
    assert!(cell.join("report.html").exists() && cell.join("summary.json").exists());
    let page = fs::read_to_string(dirs[0].path().join("s/report.html")).unwrap();
    assert!(page.contains("<svg") && page.contains("./flows.0.size=50KB,seed=2/report.html"));
}

#[test]
fn a_sweep_runs_only_missing_partial_and_changed_runs() {
    let dir = tempfile::tempdir().unwrap();
    tiny(&dir);
    let (_, _, first) = sweep(dir.path(), &GRID);
    let cell = |name: &str| dir.path().join("s").join(name);
    let written = |name: &str| fs::metadata(cell(name).join("summary.json")).unwrap().modified().unwrap();
    let names = ["flows.0.size=50KB,seed=1", "flows.0.size=50KB,seed=2", "flows.0.size=100KB,seed=1"];
    let before = names.map(written);
    fs::remove_dir_all(cell(names[0])).unwrap();
    let summary = fs::read_to_string(cell(names[1]).join("summary.json")).unwrap();
    fs::write(
        cell(names[1]).join("summary.json"),
        summary.replacen("\"schemes\"", "\"partial\": true, \"schemes\"", 1),
    )
    .unwrap();
    // As after an interrupted run, with a valid manifest.
    let mut sums = std::process::Command::new("sh");
    let sums = sums
        .current_dir(cell(names[1]))
        .args(["-c", "rm SHA256SUMS; s=$(sha256sum *); echo \"$s\" >SHA256SUMS"]);
    assert!(sums.status().unwrap().success());
    let (status, printed, again) = sweep(dir.path(), &GRID);
    assert!(status == 0 && printed.contains("4 cached") && !printed.contains("warning"), "{printed}");
    assert!(first == again, "the same bytes");
    let after = names.map(written);
    assert!(after[0] > before[0] && after[1] > before[1] && after[2] == before[2]);

    let file = dir.path().join("tiny.yaml");
    let noted = fs::read_to_string(&file).unwrap() + "paper: [{what: a queue, value: none}]\n";
    fs::write(&file, noted).unwrap();
    let (_, printed, _) = sweep(dir.path(), &GRID);
    assert!(printed.contains("6 cached"), "notes of papers do not affect results: {printed}");

    let (_, printed, _) = sweep(dir.path(), &[&GRID[..], &["--set", "duration=110us"]].concat());
    assert!(printed.contains("6 runs: 6 complete."), "a changed experiment has no cached runs: {printed}");
}

/// In a pipe too, where a line of several hundred characters is not readable.
#[test]
fn wide_tables_are_stacked() {
    let dir = tempfile::tempdir().unwrap();
    tiny(&dir);
    let metrics =
        ["--metric", "queues.*.peak_bytes", "--metric", "utilisation.*", "--metric", "fct.slowdown.p95"];
    let (status, printed, _) = sweep(dir.path(), &[&["--over", "seed=1..2"][..], &metrics].concat());
    assert_eq!(status, 0, "{printed}");
    let table: Vec<&str> = printed.lines().filter(|line| line.starts_with([' ', '─'])).collect();
    assert!(table.iter().all(|line| line.chars().count() <= 100), "{printed}");
    assert!(table.len() > 10, "{printed}");
    assert!(
        printed.contains("p95 over fewer than 20 flows or jobs in a run is close to the slowest one"),
        "{printed}"
    );
}

#[test]
fn a_bad_sweep_is_one_clear_error_and_writes_nothing() {
    for (arguments, expected) in [
        (&["--over", "seed"][..], &["--over", "seed=1..5"][..]),
        (&["--over", "flows.0.size=10KB,10"], &["flows", "10", "no unit"]),
        (&["--over", "nokey.x=1,2"], &["nokey"]),
        (&[], &["--over", "`sweep` block"]),
        (&["--over", "seed=1..2", "--over", "seed=3"], &["seed", "duplicate"]),
        (&["--over", "seed=1..2", "--schemes", "dcqcn"], &["dcqcn", "fncc"]),
        (&["--over", "seed=1..2", "--metric", "peak queu"], &["--metric", "peak queu:", "peak queue"]),
        (
            &["--over", "seed=1..2", "--metric", "fct.classes.*.slowdown.p99"],
            &["--metric", "observe.size_classes"],
        ),
    ] {
        let dir = tempfile::tempdir().unwrap();
        tiny(&dir);
        let (status, text, _) = sweep(dir.path(), arguments);
        assert_eq!(status, 2, "{arguments:?}: {text}");
        assert!(expected.iter().all(|word| text.contains(word)), "{arguments:?}: {text}");
        assert!(!dir.path().join("s").exists(), "{text}");
        // One line, and for a value of --over the text with a caret below it.
        let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with(' '));
        assert_eq!(lines.count(), 1, "{text}");
    }
}

/// Ctrl-C, then SIGKILL, each followed by the same command.
#[cfg(unix)]
#[test]
fn an_interrupted_sweep_continues_where_it_stopped() {
    use std::process::Stdio;
    use std::time::{Duration, Instant};
    let dir = tempfile::tempdir().unwrap();
    tiny(&dir);
    let arguments = ["sweep", "tiny.yaml", "--out", "s", "--over", "duration=50us,5s", "--jobs", "1"];
    for kill in ["-INT", "-KILL"] {
        let mut command = std::process::Command::new(assert_cmd::cargo::cargo_bin("weir"));
        let child = command.current_dir(&dir).args(arguments).stdout(Stdio::null()).stderr(Stdio::piped());
        let child = child.spawn().unwrap();
        let (short, long) = (dir.path().join("s/duration=50us"), dir.path().join("s/duration=5s.partial"));
        let began = Instant::now();
        while !(short.join("summary.json").exists() && long.join("summary.json").exists()) {
            assert!(began.elapsed() < Duration::from_secs(60), "no partial results within a minute");
            std::thread::sleep(Duration::from_millis(50));
        }
        std::thread::sleep(Duration::from_millis(300));
        let kill_status =
            std::process::Command::new("kill").args([kill, &child.id().to_string()]).status().unwrap();
        assert!(kill_status.success());
        let output = child.wait_with_output().unwrap();
        let summary = fs::read_to_string(long.join("summary.json")).unwrap();
        assert!(summary.contains("\"partial\": true"), "{kill}");
        if kill == "-INT" {
            assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stderr));
            let page = fs::read_to_string(dir.path().join("s/report.html")).unwrap();
            assert!(page.contains("1 of 2 runs are done"));
        }
        // Otherwise the next round would take these results for its own.
        fs::remove_dir_all(&long).unwrap();
    }
    let (status, printed, _) = sweep(dir.path(), &["--over", "duration=50us,60us", "--jobs", "1"]);
    assert!(status == 0 && printed.contains("1 cached"), "{printed}");
}

#[test]
fn runs_are_compared_on_one_page() {
    let dir = tempfile::tempdir().unwrap();
    tiny(&dir);
    for (out, seed) in [("a", "1"), ("b", "2")] {
        weir()
            .current_dir(&dir)
            .args(["run", "tiny.yaml", "--quiet", "--out", out, "--seed", seed])
            .assert()
            .success();
    }
    let report =
        |arguments: &[&str]| weir().current_dir(&dir).arg("report").args(arguments).output().unwrap();
    let output = report(&["a", "b", "--out", "both.html"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let page = fs::read_to_string(dir.path().join("both.html")).unwrap();
    for expected in ["fncc · a", "hpcc · b", "Differences", "<code>seed</code>", "Queue length"] {
        assert!(page.contains(expected), "{expected}");
    }
    for (arguments, expected) in
        [(&["a", "nowhere"][..], "nowhere"), (&["a", "--out", "b"], "directory"), (&["."], "summary.json")]
    {
        let output = report(arguments);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains(expected) && stderr.lines().count() == 1, "{stderr}");
    }
}
