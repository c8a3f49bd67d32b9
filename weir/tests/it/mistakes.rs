//! What the command says to typical mistakes, and to runs that show nothing.

use std::fs;
use tempfile::TempDir;

/// Some flows of 1 KB.
const FILE: &str = "topology: {kind: star, hosts: 3, rate: 10Gbps}
schemes: [dctcp]
workload: {kind: poisson, sizes: 1KB, load: 40%}
duration: 20us
";

/// Runs `weir` in `dir`, and returns exit status, standard output and standard error.
fn weir(dir: &TempDir, arguments: &[&str]) -> (i32, String, String) {
    let mut command = assert_cmd::Command::cargo_bin("weir").unwrap();
    let output = command.current_dir(dir).args(arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

fn dir_with(file: &str) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("x.yaml"), file).unwrap();
    dir
}

/// `»` is before the value at fault.
#[test]
fn a_wrong_parameter_has_its_position() {
    let custom = |links: &str| {
        let topology = format!("topology: {{kind: custom, hosts: [h1, h2], switches: [s1], {links}}}");
        FILE.replace("topology: {kind: star, hosts: 3, rate: 10Gbps}", &topology)
    };
    let sizes = |sizes: &str| FILE.replace("1KB", sizes);
    for (marked, expected) in [
        (sizes("{pareto: {mean: 5KB, shape: »1}}"), "workload.sizes.pareto.shape: must be a number above 1"),
        (sizes("{pareto: {mean: 5KB, »alpha: 2}}"), "unknown field `alpha`, expected `mean` or `shape`"),
        (
            sizes("{uniform: {min: »9KB, max: 1KB}}"),
            "workload.sizes.uniform.min: `min` 9KB is above `max` 1KB",
        ),
        (sizes("{choice: [1KB, »0B]}"), "workload.sizes.choice[1]: must be at least 1B"),
        (sizes("{choice: [1KB, »-1KB]}"), "workload.sizes.choice[1]: size \"-1KB\" is negative"),
        (FILE.replace(" load", " »loadx"), "workload.loadx: unknown field `loadx`"),
        (format!("{FILE}buffer: »10KB\npfc: {{}}\n"), "buffer: without a threshold, PFC sets "),
        (
            custom("links: [[h1, s1], {a: h2, b: s1, rate: »3}]"),
            "topology.links[1].rate: rate \"3\" has no unit",
        ),
        (custom("links: [[h1, s1], »[h2]]"), "topology.links[1]: invalid length 1, expected a link"),
        (
            format!("{FILE}policy: {{}}\nfaults: [{{kind: attack, host: h1, at: 1us, with: »foo}}]\n"),
            "faults[0].with: unknown variant `foo`",
        ),
    ] {
        let before = marked.split('»').next().unwrap();
        let line = before.matches('\n').count() + 1;
        let column = before.lines().last().unwrap().chars().count() + 1;
        let (status, _, message) = weir(&dir_with(&marked.replace('»', "")), &["run", "x.yaml", "--check"]);
        let position = format!("error: x.yaml:{line}:{column}: ");
        assert!(status == 2 && message.starts_with(&position) && message.contains(expected), "{message}");
    }
}

#[test]
fn a_check_covers_the_runs_of_the_sweep_block() {
    let sweep = |over: &str, metrics: &str| {
        dir_with(&format!("{FILE}sweep:\n  over: [{over}]\n  metrics: [{metrics}]\n"))
    };
    let check = |dir: &TempDir| weir(dir, &["run", "x.yaml", "--check"]);
    let (status, printed, _) = check(&sweep("\"workload.load=20%,40%\", \"seed=1..3\"", "marks"));
    assert!(status == 0 && printed.contains("; the sweep has 6 runs, all valid"), "{printed}");
    for (over, metrics, expected) in [
        (
            "\"workload.load=20%,140%\"",
            "marks",
            "error: x.yaml: workload.load: 140 % is more than 100 % (sweep.over workload.load=140%, column 15)\n  \
             sweep.over workload.load=140%\n                           ^\n",
        ),
        ("seed", "marks", "error: x.yaml:6:10: sweep.over[0]: seed: expected KEY=VALUES"),
        (
            "seed=1..3",
            "\"marks\", mraks",
            "error: x.yaml:7:22: sweep.metrics[1]: mraks: unknown metric; did you mean \"marks\"?",
        ),
    ] {
        let (status, _, message) = check(&sweep(over, metrics));
        assert!(status == 2 && message.starts_with(expected), "{over} {metrics}: {message}");
    }
}

#[test]
fn a_value_without_effect_is_an_error() {
    let dir = dir_with(FILE);
    for (arguments, expected) in [
        (
            &["sweep", "x.yaml", "--over", "workload.load=20%", "--set", "workload.load=30%"][..],
            "error: --set workload.load=30% has no effect: --over workload.load=20% replaces the value",
        ),
        (
            &["sweep", "x.yaml", "--over", "seed=1..2", "--set", "seed=3"],
            "error: --set seed=3 has no effect: another option gives the seed 1",
        ),
        (&["run", "x.yaml", "--seed", "1", "--set", "seed=3"], "error: --set seed=3 has no effect"),
        (&["sweep", "x.yaml", "--over", "a=1", "--over", "a+b=1+2"], "error: --over a: duplicate key"),
    ] {
        let (status, _, message) = weir(&dir, arguments);
        assert!(status == 2 && message.starts_with(expected), "{arguments:?}: {message}");
    }
    assert!(!dir.path().join("runs").exists());
}

#[test]
fn an_option_of_another_command_is_named_with_it() {
    let dir = dir_with(FILE);
    let (status, _, message) = weir(&dir, &["run", "x.yaml", "--over", "seed=1..2"]);
    assert_eq!(status, 2);
    assert!(message.contains("tip: --over is an option of `weir sweep`"), "{message}");
    assert!(!message.contains("--verbose"), "{message}");
}

#[test]
fn runs_without_flows_are_not_silent() {
    let dir = dir_with(FILE);
    let warning = "x.yaml:3:1: workload: poisson starts no flow before the end of the run (1ns, seed 1)";
    let (status, _, message) = weir(&dir, &["run", "x.yaml", "--set", "duration=1ns"]);
    assert!(status == 0 && message.contains(warning), "{message}");
    let sweep = ["sweep", "x.yaml", "--over", "duration=1ns,20us", "--metric", "fct.slowdown.p99"];
    let (status, printed, message) = weir(&dir, &sweep);
    assert!(status == 0 && message.contains(&format!("{warning} (1 of 2 runs)")), "{message}");
    let rows: Vec<&str> = printed.lines().filter(|line| line.contains("dctcp")).collect();
    assert!(rows.len() == 2 && rows[0].trim_end().ends_with(" -"), "{printed}");
    let csv = fs::read_to_string(dir.path().join("runs/x-sweep/sweep.csv")).unwrap();
    assert!(csv.contains("\n1ns,dctcp,fct.slowdown.p99,,0,,,\n20us,dctcp,fct.slowdown.p99,,1,"), "{csv}");
}

#[test]
fn charts_of_an_earlier_sweep_are_removed() {
    let dir = dir_with(FILE);
    let charts = || {
        let entries = fs::read_dir(dir.path().join("runs/x-sweep")).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut charts: Vec<String> = names.filter(|name| name.ends_with(".svg")).collect();
        charts.sort();
        charts
    };
    weir(&dir, &["sweep", "x.yaml", "--over", "seed=1..2", "--metric", "marks", "--metric", "pauses"]);
    assert_eq!(charts(), ["sweep-marks.svg", "sweep-pauses.svg"]);
    weir(&dir, &["sweep", "x.yaml", "--over", "seed=1..2", "--metric", "marks"]);
    assert_eq!(charts(), ["sweep-marks.svg"]);
}

#[test]
fn a_file_is_no_run() {
    let dir = dir_with(FILE);
    for (command, expected) in [
        ("report", "error: x.yaml: is a file; expected a directory written by `weir run`"),
        ("runs", "error: x.yaml: is a file; expected a directory with runs of `weir run`"),
    ] {
        let (status, _, message) = weir(&dir, &[command, "x.yaml"]);
        assert!(status == 2 && message.starts_with(expected), "{message}");
    }
}

/// Of runs in the same second, the one with the higher number is the newer.
#[test]
fn runs_are_listed_newest_first_and_sweep_blocks_are_no_difference() {
    let dir = dir_with(FILE);
    weir(&dir, &["run", "x.yaml"]);
    fs::write(dir.path().join("x.yaml"), format!("{FILE}sweep: {{over: seed=1..3}}\n")).unwrap();
    weir(&dir, &["run", "x.yaml"]);
    for run in ["x-1", "x-1-2"] {
        let file = fs::File::options()
            .append(true)
            .open(dir.path().join("runs").join(run).join("summary.json"))
            .unwrap();
        file.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000)).unwrap();
    }
    let (_, printed, _) = weir(&dir, &["runs"]);
    let rows: Vec<&str> = printed.lines().filter(|line| line.contains("finished")).collect();
    assert!(rows[0].starts_with(" x-1-2 ") && rows[0].trim_end().ends_with("repeats x-1"), "{printed}");
    assert!(rows[1].starts_with(" x-1 "), "{printed}");
}
