//! Sweeps whose runs other machines do.

use assert_cmd::Command;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use tempfile::TempDir;

const TINY: &str = "\
name: tiny
topology: {kind: dumbbell, switches: 2, senders: 2, receivers: 1, rate: 100Gbps, delay: 1us}
schemes: [fncc, hpcc]
flows:
  - {from: h1, to: h3, size: 100KB}
  - {from: h2, to: h3, start: 20us}
duration: 100us
sweep: {over: [\"flows.0.size=50KB,100KB\", \"seed=1..3\"]}
";

/// Stands for Slurm: does the jobs of an array one after the other as they are submitted, but for the first, whose node
/// dies. Every job has left the queue when it is asked for.
const SBATCH: &str = r#"#!/bin/bash
set -e
echo "$2" >>"$FAKE/submitted"
array=$(sed -n 's/^#SBATCH --array=\([0-9,-]*\).*/\1/p' "$2")
for range in ${array//,/ }; do
    for index in $(seq "${range%-*}" "${range#*-}"); do
        if [[ -e $FAKE/died ]]; then SLURM_ARRAY_TASK_ID=$index bash "$2" || true; else touch "$FAKE/died"; fi
    done
done
echo "17;cluster"
"#;

fn dir() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("tiny.yaml"), TINY).unwrap();
    let tools = [
        ("sbatch", SBATCH),
        ("squeue", "#!/bin/bash\n"),
        ("scontrol", "#!/bin/bash\necho 'MaxArraySize            = 4'\n"),
        ("python3", "#!/bin/bash\nexit 1\n"),
    ];
    for (name, text) in tools {
        let path = dir.path().join("bin").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    dir
}

/// Exit status, and all that was printed.
fn sweep(dir: &Path, more: &[&str]) -> (i32, String) {
    let mut command = Command::cargo_bin("weir").expect("cargo builds the binary before its tests");
    let path = format!("{}:{}", dir.join("bin").display(), std::env::var("PATH").unwrap());
    command.current_dir(dir).env("PATH", path).env("FAKE", dir).args(["sweep", "tiny.yaml"]).args(more);
    let output = command.output().unwrap();
    let told = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
    (output.status.code().unwrap(), told)
}

fn tables(dir: &Path) -> [Vec<u8>; 2] {
    ["sweep.csv", "runs.csv"].map(|name| fs::read(dir.join(name)).unwrap())
}

#[test]
fn job_arrays_give_the_tables_of_a_local_sweep_and_dead_jobs_are_repeated() {
    let dir = dir();
    let dir = dir.path();
    assert_eq!(sweep(dir, &["--out", "local"]).0, 0);
    let (status, told) = sweep(dir, &["--engine", "slurm", "--out", "s"]);
    assert_eq!(status, 0, "{told}");
    assert!(told.contains("repeating runs 0:") && told.contains("6 runs: 6 complete."), "{told}");
    assert!(tables(&dir.join("local")) == tables(&dir.join("s")));
    // Indices are below 4, and the run whose job died is alone in the last.
    let submitted = fs::read_to_string(dir.join("submitted")).unwrap();
    assert_eq!(submitted.lines().count(), 3, "{submitted}");
    let script = fs::read_to_string(dir.join("s/slurm/from-4.sbatch")).unwrap();
    assert!(script.contains("\n#SBATCH --array=0-1\n") && script.contains("\nrun=$((4 + "), "{script}");
    let (status, told) = sweep(dir, &["--engine", "slurm", "--out", "s"]);
    assert!(status == 0 && told.contains("6 cached"), "{told}");
    assert_eq!(fs::read_to_string(dir.join("submitted")).unwrap(), submitted, "nothing is left to submit");
}

#[test]
fn a_failed_job_is_listed_with_its_reason_and_not_repeated_at_once() {
    let dir = dir();
    let dir = dir.path();
    fs::write(dir.join("died"), "").unwrap();
    // What is in the place of a run's directory stops the job, and not the check before.
    let broken = SBATCH.replace("bash \"$2\"", "env RUN=\"$FAKE/s/flows.0.size=50KB,seed=2\" bash -c 'if [[ $SLURM_ARRAY_TASK_ID == 1 && $1 == *from-0* ]]; then mkdir -p \"$RUN\" && touch \"$RUN/thesis.tex\"; fi; bash \"$1\"' - \"$2\"");
    fs::write(dir.join("bin/sbatch"), broken).unwrap();
    let (status, told) = sweep(dir, &["--engine", "slurm", "--out", "s"]);
    assert_eq!(status, 1, "{told}");
    assert!(told.contains("flows.0.size=50KB,seed=2: ") && told.contains("thesis.tex"), "{told}");
    assert!(told.contains("6 runs: 5 complete.") && !told.contains("repeating"), "{told}");
    fs::remove_dir_all(dir.join("s/flows.0.size=50KB,seed=2")).unwrap();
    fs::write(dir.join("bin/sbatch"), SBATCH).unwrap();
    let (status, told) = sweep(dir, &["--engine", "slurm", "--out", "s"]);
    assert!(status == 0 && told.contains("6 runs: 6 complete (5 cached)."), "{told}");
}

#[test]
fn a_dry_run_prints_the_scripts_and_detached_jobs_are_collected_later() {
    let dir = dir();
    let dir = dir.path();
    let options = ["--engine", "slurm", "--out", "s", "--sbatch=--time=10", "--jobs", "2"];
    let (status, told) = sweep(dir, &[&options[..], &["--dry-run"]].concat());
    assert_eq!(status, 0, "{told}");
    for line in ["#SBATCH --array=0-3%2", "#SBATCH --array=0-1%2", "#SBATCH --time=10"] {
        assert!(told.lines().any(|it| it == line), "{told}");
    }
    assert!(
        told.contains("sweep tiny.yaml --over flows.0.size=50KB,100KB --over seed=1..3 --out "),
        "{told}"
    );
    assert!(!dir.join("submitted").exists() && !dir.join("s").exists());
    let (status, told) = sweep(dir, &[&options[..], &["--detach"]].concat());
    assert_eq!(status, 0, "{told}");
    assert!(told.contains("jobs 17, 17. The same"), "{told}");
    let (status, told) = sweep(dir, &options);
    assert!(status == 0 && told.contains("6 runs: 6 complete (5 cached)."), "{told}");
}

#[test]
fn one_run_is_done_by_its_number_and_options_of_other_engines_are_refused() {
    let dir = dir();
    let dir = dir.path();
    let (status, told) = sweep(dir, &["--run-index", "4", "--out", "s"]);
    assert!(status == 0 && told == "s/flows.0.size=100KB,seed=2\n", "{told}");
    assert!(
        dir.join("s/flows.0.size=100KB,seed=2/summary.json").exists() && !dir.join("s/sweep.csv").exists()
    );
    for (options, reason) in [
        (&["--run-index", "6"][..], "the sweep has 6 runs, numbered from 0"),
        (&["--dry-run"], "--dry-run requires --engine slurm"),
        (&["--engine", "ray", "--jobs", "3"], "--jobs requires --engine local or slurm"),
        (&["--engine", "slurm", "--fresh"], "--fresh requires --engine local"),
    ] {
        let (status, told) = sweep(dir, options);
        assert!(status == 2 && told.contains(reason), "{options:?}: {told}");
    }
    let (status, told) = sweep(dir, &["--engine", "ray", "--out", "r"]);
    assert!(status == 1 && told.contains("pip install 'weir-fabric[ray]'"), "{told}");
}
