//! Sweeps with the Slurm and Ray engines, with stand-ins for their programs.

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

/// Stand-in for Slurm's sbatch: executes the jobs of an array sequentially at submission, except the first, whose node
/// fails. The queue is always empty.
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

/// Runs a sweep. Returns the exit status, and standard output and standard error together.
fn sweep(dir: &Path, more: &[&str]) -> (i32, String) {
    let mut command = Command::cargo_bin("weir").expect("cargo builds the binary before its tests");
    let path = format!("{}:{}", dir.join("bin").display(), std::env::var("PATH").unwrap());
    command.current_dir(dir).env("PATH", path).env("FAKE", dir).args(["sweep", "tiny.yaml"]).args(more);
    let output = command.output().unwrap();
    let printed = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
    (output.status.code().unwrap(), printed)
}

fn tables(dir: &Path) -> [Vec<u8>; 2] {
    ["sweep.csv", "runs.csv"].map(|name| fs::read(dir.join(name)).unwrap())
}

#[test]
fn job_arrays_give_the_tables_of_a_local_sweep_and_failed_nodes_are_retried() {
    let dir = dir();
    let dir = dir.path();
    assert_eq!(sweep(dir, &["--out", "local"]).0, 0);
    let (status, printed) = sweep(dir, &["--engine", "slurm", "--out", "s"]);
    assert_eq!(status, 0, "{printed}");
    assert!(printed.contains("repeating runs 0:") && printed.contains("6 runs: 6 complete."), "{printed}");
    assert!(tables(&dir.join("local")) == tables(&dir.join("s")));
    // MaxArraySize limits indices to 3, and the last array contains only the run whose job failed.
    let submitted = fs::read_to_string(dir.join("submitted")).unwrap();
    assert_eq!(submitted.lines().count(), 3, "{submitted}");
    let script = fs::read_to_string(dir.join("s/slurm/from-4.sbatch")).unwrap();
    assert!(script.contains("\n#SBATCH --array=0-1\n") && script.contains("\nrun=$((4 + "), "{script}");
    let (status, printed) = sweep(dir, &["--engine", "slurm", "--out", "s"]);
    assert!(status == 0 && printed.contains("6 cached"), "{printed}");
    assert_eq!(fs::read_to_string(dir.join("submitted")).unwrap(), submitted, "nothing is left to submit");
}

#[test]
fn a_failed_job_is_listed_with_its_reason_and_not_retried() {
    let dir = dir();
    let dir = dir.path();
    fs::write(dir.join("died"), "").unwrap();
    // A foreign file in the run's directory makes the job fail. It is created by the job, after the checks of `weir
    // sweep`.
    let broken = SBATCH.replace("bash \"$2\"", "env RUN=\"$FAKE/s/flows.0.size=50KB,seed=2\" bash -c 'if [[ $SLURM_ARRAY_TASK_ID == 1 && $1 == *from-0* ]]; then mkdir -p \"$RUN\" && touch \"$RUN/thesis.tex\"; fi; bash \"$1\"' - \"$2\"");
    fs::write(dir.join("bin/sbatch"), broken).unwrap();
    let (status, printed) = sweep(dir, &["--engine", "slurm", "--out", "s"]);
    assert_eq!(status, 1, "{printed}");
    assert!(printed.contains("flows.0.size=50KB,seed=2: ") && printed.contains("thesis.tex"), "{printed}");
    assert!(printed.contains("6 runs: 5 complete.") && !printed.contains("repeating"), "{printed}");
    fs::remove_dir_all(dir.join("s/flows.0.size=50KB,seed=2")).unwrap();
    fs::write(dir.join("bin/sbatch"), SBATCH).unwrap();
    let (status, printed) = sweep(dir, &["--engine", "slurm", "--out", "s"]);
    assert!(status == 0 && printed.contains("6 runs: 6 complete (5 cached)."), "{printed}");
}

#[test]
fn a_dry_run_prints_the_scripts_and_detached_jobs_are_collected_later() {
    let dir = dir();
    let dir = dir.path();
    let options = ["--engine", "slurm", "--out", "s", "--sbatch=--time=10", "--jobs", "2"];
    let (status, printed) = sweep(dir, &[&options[..], &["--dry-run"]].concat());
    assert_eq!(status, 0, "{printed}");
    for line in ["#SBATCH --array=0-3%2", "#SBATCH --array=0-1%2", "#SBATCH --time=10"] {
        assert!(printed.lines().any(|it| it == line), "{printed}");
    }
    assert!(
        printed.contains("sweep tiny.yaml --over flows.0.size=50KB,100KB --over seed=1..3 --out "),
        "{printed}"
    );
    assert!(!dir.join("submitted").exists() && !dir.join("s").exists());
    let (status, printed) = sweep(dir, &[&options[..], &["--detach"]].concat());
    assert_eq!(status, 0, "{printed}");
    assert!(printed.contains("jobs 17, 17. The same"), "{printed}");
    let (status, printed) = sweep(dir, &options);
    assert!(status == 0 && printed.contains("6 runs: 6 complete (5 cached)."), "{printed}");
}

#[test]
fn one_run_is_selected_by_index_and_options_of_other_engines_are_rejected() {
    let dir = dir();
    let dir = dir.path();
    let (status, printed) = sweep(dir, &["--run-index", "4", "--out", "s"]);
    assert!(status == 0 && printed == "s/flows.0.size=100KB,seed=2\n", "{printed}");
    assert!(
        dir.join("s/flows.0.size=100KB,seed=2/summary.json").exists() && !dir.join("s/sweep.csv").exists()
    );
    for (options, reason) in [
        (&["--run-index", "6"][..], "the sweep has 6 runs, numbered from 0"),
        (&["--dry-run"], "--dry-run requires --engine slurm"),
        (&["--engine", "ray", "--jobs", "3"], "--jobs requires --engine local or slurm"),
        (&["--engine", "slurm", "--fresh"], "--fresh requires --engine local"),
    ] {
        let (status, printed) = sweep(dir, options);
        assert!(status == 2 && printed.contains(reason), "{options:?}: {printed}");
    }
    let (status, printed) = sweep(dir, &["--engine", "ray", "--out", "r"]);
    assert!(status == 1 && printed.contains("pip install 'weir-fabric[ray]'"), "{printed}");
}
