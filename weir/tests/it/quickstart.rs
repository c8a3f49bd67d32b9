//! `experiments/quickstart.yaml` end to end: the run directory, the expected results, determinism, and the results of an
//! interrupted run.

use assert_cmd::cargo::cargo_bin;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use tempfile::TempDir;
use weir_experiment::results::Summary;

fn quickstart() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../experiments/quickstart.yaml")
}

/// Runs the quickstart into `<dir>/out`.
fn run(dir: &Path, more: &[&str]) -> Output {
    let out = dir.join("out");
    let mut command = Command::new(cargo_bin("weir"));
    command.current_dir(dir).arg("run").arg(quickstart()).arg("--out").arg(out).args(more);
    command.output().expect("weir starts")
}

fn summary(dir: &Path) -> Summary {
    let text = fs::read_to_string(dir.join("out/summary.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// Returns the run shared by tests that only read it.
fn shared() -> &'static (TempDir, Output) {
    static RUN: OnceLock<(TempDir, Output)> = OnceLock::new();
    RUN.get_or_init(|| {
        let dir = tempfile::tempdir().unwrap();
        let output = run(dir.path(), &[]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        (dir, output)
    })
}

/// The bottleneck of the two flows: s1's port to s2, behind those of h1 and h2.
const BOTTLENECK: &str = "s1:3";

#[test]
fn both_schemes_are_fair_fast_and_lossless() {
    for (label, scheme) in &summary(shared().0.path()).schemes {
        assert!(scheme.jain.is_some_and(|jain| jain > 0.95), "{label}: jain {:?}", scheme.jain);
        let utilisation = scheme.utilisation[BOTTLENECK];
        assert!(utilisation > 0.9 && utilisation <= 1.0, "{label}: utilisation {utilisation}");
        assert!(scheme.drops.is_empty(), "{label}: {:?}", scheme.drops);
        assert_eq!(scheme.retransmits, 0, "{label}");
    }
}

#[test]
fn fncc_slows_earlier_and_queues_less_than_hpcc() {
    let summary = summary(shared().0.path());
    let (fncc, hpcc) = (&summary.schemes["fncc"], &summary.schemes["hpcc"]);
    let (f, h) = (fncc.first_slowdown_us.unwrap(), hpcc.first_slowdown_us.unwrap());
    assert!(300.0 < f && f < h, "fncc at {f} us, hpcc at {h} us");
    let (f, h) = (fncc.queues[BOTTLENECK].peak_bytes, hpcc.queues[BOTTLENECK].peak_bytes);
    assert!(0 < f && f < h, "fncc {f} bytes, hpcc {h} bytes");
}

#[test]
fn the_run_directory_is_complete_and_its_path_is_printed() {
    let (dir, output) = shared();
    let names: BTreeSet<String> = fs::read_dir(dir.path().join("out"))
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    for name in [
        "run.yaml",
        "summary.json",
        "SHA256SUMS",
        "report.html",
        "flows.csv",
        "queues.csv",
        "rates.csv",
        "pauses.csv",
        "queue-s1-3.svg",
        "rates-fncc.svg",
        "rates-hpcc.svg",
        "utilisation-s1-3.svg",
    ] {
        assert!(names.contains(name), "{name} is missing in {names:?}");
    }
    let stdout = String::from_utf8(output.stdout.clone()).unwrap();
    for expected in ["fncc", "hpcc", "peak", "Jain", "out/report.html", &summary(dir.path()).digest] {
        assert!(stdout.contains(expected), "{expected}: {stdout}");
    }
    assert!(!stdout.contains('\u{1b}'), "no colours without a terminal");
    assert!(output.stderr.is_empty(), "no progress bars without a terminal");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "no temporary directory remains");
}

/// The results are the same on any machine and with any build profile; `.ci/test` compares them with a build without
/// debug assertions. If a change of the simulation changes the digest, its commit message explains why.
#[test]
fn the_digest_is_the_golden_one() {
    assert_eq!(summary(shared().0.path()).digest, include_str!("quickstart.digest").trim_end());
}

/// README.md and docs/start/quickstart.md show the printed rows; the latter also shows the digest.
#[test]
fn documentation_shows_what_the_quickstart_prints() {
    let printed = String::from_utf8_lossy(&shared().1.stdout).into_owned();
    let rows: Vec<&str> =
        printed.lines().filter(|line| line.starts_with(" fncc ") || line.starts_with(" hpcc ")).collect();
    assert_eq!(rows.len(), 2, "{printed}");
    let digest = include_str!("quickstart.digest").trim_end();
    for (page, shown) in
        [("README.md", rows.clone()), ("docs/start/quickstart.md", [&rows[..], &[digest]].concat())]
    {
        let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(page)).unwrap();
        for row in shown {
            assert!(text.contains(row.trim_end()), "{page} does not show\n{row}");
        }
    }
}

/// The pages name the distance to the paper, which is not reproduced.
#[test]
fn documentation_says_how_far_the_quickstart_is_from_the_paper() {
    let (summary, file) = (summary(shared().0.path()), fs::read_to_string(quickstart()).unwrap());
    let peak = |scheme: &str| summary.schemes[scheme].queues[BOTTLENECK].peak_bytes as f64;
    let distance = format!("{:.1} %", 100.0 * (1.0 - peak("fncc") / peak("hpcc")));
    let published = "37.5 %";
    assert!(file.contains(&format!("value: \"-{published}\"")), "{file}");
    let slowdown = |scheme: &str| format!("| {:.1} us |", summary.schemes[scheme].first_slowdown_us.unwrap());
    for (page, shown) in [
        ("README.md", vec![distance.clone(), published.to_owned()]),
        (
            "docs/start/quickstart.md",
            vec![format!("| -{published} | -{distance} |"), slowdown("fncc"), slowdown("hpcc")],
        ),
    ] {
        let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(page)).unwrap();
        for shown in shown {
            assert!(text.contains(&shown), "{page} does not show {shown}");
        }
        assert!(
            !text.contains("reproduces"),
            "{page}: the experiment is repeated, the figure is not reproduced"
        );
    }
}

#[test]
fn the_program_and_its_commit_are_in_every_artefact() {
    let version = Command::new(cargo_bin("weir")).arg("--version").output().unwrap().stdout;
    let version = String::from_utf8(version).unwrap().trim_end().to_owned();
    let pattern = regex::Regex::new(r"^weir \d+\.\d+\.\d+( \([0-9a-f]{12}(, modified)?\))?$").unwrap();
    assert!(pattern.is_match(&version), "{version}");
    let has_commit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.git").exists();
    assert!(version.contains('(') || !has_commit, "a build in a checkout names its commit: {version}");
    let dir = shared().0.path();
    assert_eq!(summary(dir).program.as_deref(), Some(&*version));
    let yaml = fs::read_to_string(dir.join("out/run.yaml")).unwrap();
    let first = format!("# {version}: `weir run run.yaml` repeats this run.");
    assert_eq!(yaml.lines().next(), Some(&*first));
    assert!(fs::read_to_string(dir.join("out/report.html")).unwrap().contains(&version));
}

#[test]
fn the_report_loads_nothing_and_its_charts_have_data() {
    let out = shared().0.path().join("out");
    let page = fs::read_to_string(out.join("report.html")).unwrap();
    // XML namespaces and the comment of the embedded library are not loaded.
    let page = page
        .replace("xmlns=\"http://www.w3.org/2000/svg\"", "")
        .replace("/*! https://github.com/leeoniya/uPlot (v1.6.32) */", "");
    for load in
        ["http://", "https://", "<script src", "<link", "<img", "url(", "fetch(", "XMLHttpRequest", "import("]
    {
        assert!(!page.contains(load), "{load}");
    }
    assert!(page.len() < 1_000_000, "{} bytes", page.len());
    for svg in fs::read_dir(&out)
        .unwrap()
        .map(|e| e.unwrap().path())
        .filter(|p| p.extension().is_some_and(|e| e == "svg"))
    {
        let text = fs::read_to_string(&svg).unwrap();
        let tree =
            roxmltree::Document::parse(&text).unwrap_or_else(|error| panic!("{}: {error}", svg.display()));
        let points = tree.descendants().filter_map(|n| n.attribute("points")).map(|p| p.split(' ').count());
        assert!(points.max().is_some_and(|max| max > 10), "{}: an empty chart", svg.display());
    }
}

#[test]
fn the_resolved_file_repeats_the_run() {
    let (first, _) = shared();
    let again = tempfile::tempdir().unwrap();
    let yaml = first.path().join("out/run.yaml");
    let mut command = Command::new(cargo_bin("weir"));
    let output = command
        .arg("run")
        .arg(yaml)
        .arg("--quiet")
        .arg("--out")
        .arg(again.path().join("out"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8(output.stdout).unwrap().lines().count(), 1, "--quiet prints only the path");
    assert_eq!(summary(again.path()).digest, summary(first.path()).digest);
    let bytes = |dir: &TempDir, name: &str| fs::read(dir.path().join("out").join(name)).unwrap();
    for name in ["run.yaml", "flows.csv", "queues.csv", "rates.csv", "pauses.csv", "queue-s1-3.svg"] {
        assert!(bytes(first, name) == bytes(&again, name), "{name} differs");
    }
}

#[test]
fn schemes_and_keys_can_be_chosen() {
    let dir = tempfile::tempdir().unwrap();
    let output =
        run(dir.path(), &["--schemes", "hpcc", "--set", "duration=400us", "--set", "observe.csv=[flows]"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let summary = summary(dir.path());
    assert_eq!(summary.schemes.keys().collect::<Vec<_>>(), ["hpcc"]);
    assert!((summary.virtual_s - 400e-6).abs() < 1e-12);
    assert!(dir.path().join("out/flows.csv").exists() && !dir.path().join("out/queues.csv").exists());
    // The title is that of the file, of which these keys make another experiment.
    let report = fs::read_to_string(dir.path().join("out/report.html")).unwrap();
    let title = "FNCC against HPCC (FNCC Fig. 9 and 10) (with duration=400us, observe.csv=[flows])";
    assert!(report.contains(title), "the title of the report does not name the keys");
    let unchanged = fs::read_to_string(shared().0.path().join("out/report.html")).unwrap();
    assert!(!unchanged.contains("Fig. 9 and 10) (with "));
}

/// Ctrl-C as a shell sends it.
#[cfg(unix)]
#[test]
fn an_interrupted_run_keeps_its_results_so_far() {
    use std::time::{Duration, Instant};
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new(cargo_bin("weir"));
    command.current_dir(&dir).arg("run").arg(quickstart()).args(["--out", "out", "--set", "duration=10s"]);
    command.args(["--set", "observe.interval=10us"]);
    let child =
        command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::piped()).spawn().unwrap();
    // A shell starts background jobs with SIGINT ignored, so a signal before the run handles it would be lost. Partial
    // results exist once it does.
    let began = Instant::now();
    // The first partial results are those before the first packet.
    let has_begun = || {
        let text = fs::read_to_string(dir.path().join("out.partial/summary.json")).unwrap_or_default();
        serde_json::from_str::<Summary>(&text).is_ok_and(|summary| summary.packet_hops > 0)
    };
    while !has_begun() {
        assert!(began.elapsed() < Duration::from_secs(60), "no partial results within a minute");
        std::thread::sleep(Duration::from_millis(50));
    }
    let sent = Instant::now();
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(sent.elapsed() < Duration::from_secs(30), "the run does not stop soon");
    let summary = summary(dir.path());
    assert!(summary.partial && summary.packet_hops > 0 && summary.virtual_s < 10.0);
    assert!(fs::read_to_string(dir.path().join("out/report.html")).unwrap().contains("Not complete."));
}

/// `timeout` signals its child and then the child's process group: two signals that mean one request.
#[cfg(unix)]
#[test]
fn a_signal_sent_twice_is_one_request_and_the_results_are_kept() {
    use rustix::process::{Pid, Signal, kill_process};
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new(cargo_bin("weir"));
    command.current_dir(&dir).arg("run").arg(quickstart()).args(["--out", "out", "--set", "duration=10s"]);
    let child =
        command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::piped()).spawn().unwrap();
    std::thread::sleep(std::time::Duration::from_secs(2));
    // Different signals, because two pending signals of the same kind are delivered once.
    for signal in [Signal::TERM, Signal::INT] {
        kill_process(Pid::from_child(&child), signal).unwrap();
    }
    let output = child.wait_with_output().unwrap();
    let printed = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{printed}");
    assert_eq!(printed, "interrupted: out has the results up to then\n");
    let summary = summary(dir.path());
    assert!(summary.partial && summary.packet_hops > 0);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "out.partial is removed");
}

/// `kill -9`, early and later: the files are well-formed and marked as incomplete.
#[cfg(unix)]
#[test]
fn a_killed_run_leaves_its_results_so_far() {
    use std::time::{Duration, Instant};
    let dir = tempfile::tempdir().unwrap();
    let partial = dir.path().join("out.partial");
    let read = || -> Option<Summary> {
        serde_json::from_str(&fs::read_to_string(partial.join("summary.json")).ok()?).ok()
    };
    let run_until = |seed: u64, is_enough: &dyn Fn(&Summary) -> bool| {
        let mut command = Command::new(cargo_bin("weir"));
        command.current_dir(&dir).arg("run").arg(quickstart()).args(["--out", "out"]);
        command.args(["--schemes", "fncc", "--seed", &seed.to_string()]);
        command.args(["--set", "duration=10s", "--set", "observe.interval=10us"]);
        command.stdout(std::process::Stdio::null());
        let mut child = command.spawn().unwrap();
        let began = Instant::now();
        let has_results = || read().is_some_and(|summary| summary.seed == seed && is_enough(&summary));
        while !has_results() && began.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(20));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(has_results(), "no results within a minute");
    };
    run_until(1, &|_| true);
    assert!(read().unwrap().partial && partial.join("run.yaml").exists());

    // The next run replaces the directory.
    run_until(2, &|summary| summary.packet_hops > 0);
    let kept = read().unwrap();
    assert!(kept.partial && kept.virtual_s > 0.0 && kept.schemes["fncc"].queues[BOTTLENECK].peak_bytes > 0);
    for (file, expected) in
        [("report.html", "Not complete."), ("queues.csv", "\nfncc,"), ("run.yaml", "duration: 10s")]
    {
        let text = fs::read_to_string(partial.join(file)).unwrap();
        assert!(text.contains(expected), "{file}: {expected}");
    }
    assert!(!dir.path().join("out").exists(), "only a complete run gets the final name");
}
