//! The command line as a user sees it: exit statuses, messages, and the files that are or are not written.

use assert_cmd::Command;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

fn weir() -> Command {
    Command::cargo_bin("weir").expect("cargo builds the binary before its tests")
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace").to_owned()
}

/// A small valid experiment.
const TINY: &str = "\
name: tiny
topology: {kind: dumbbell, switches: 2, senders: 2, receivers: 1, rate: 100Gbps, delay: 1us}
schemes: [fncc, hpcc]
flows:
  - {from: h1, to: h3, size: 100KB}
  - {from: h2, to: h3, start: 20us}
duration: 100us
";

fn tiny(dir: &TempDir) -> PathBuf {
    let file = dir.path().join("tiny.yaml");
    fs::write(&file, TINY).unwrap();
    file
}

/// Runs `weir run` on TINY with `from` replaced by `to`, which must fail. Returns the exit status and stderr: one line,
/// and an excerpt of the file.
fn run_invalid(from: &str, to: &str) -> (i32, String) {
    assert!(TINY.contains(from), "{from}");
    let dir = tempfile::tempdir().unwrap();
    let file = tiny(&dir);
    fs::write(&file, TINY.replace(from, to)).unwrap();
    let output = weir().current_dir(&dir).args(["run", "tiny.yaml"]).output().unwrap();
    let left: Vec<_> = fs::read_dir(&dir).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left, ["tiny.yaml"], "nothing is written");
    assert!(output.stdout.is_empty());
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(stderr.lines().filter(|line| !line.starts_with("  ")).count(), 1, "one line: {stderr}");
    assert!(!stderr.contains("panicked"), "{stderr}");
    (output.status.code().unwrap(), stderr)
}

#[test]
fn bad_experiments_are_one_clear_error_and_write_nothing() {
    for (from, to, expected) in [
        (
            "duration: 100us",
            "duration: 100us\nwobble: 3",
            &["tiny.yaml:8:1: wobble: ", "  8 | wobble: 3", "    | ^"][..],
        ),
        ("schemes: [fncc, hpcc]", "schemes: [fncc, nccf]", &["schemes[1]", "nccf", "hpcc"]),
        ("to: h3, start", "to: h9, start", &["tiny.yaml:", "flows[1].to", "h9", "not declared"]),
        ("rate: 100Gbps", "rate: 100", &["100", "no unit", "100Gbps"]),
        ("size: 100KB", "size: -5KB", &["flows", "-5KB", "negative"]),
        ("from: h2, to: h3", "from: h3, to: h3", &["flows[1].to", "itself"]),
        (
            "topology: {kind: dumbbell, switches: 2, senders: 2, receivers: 1, rate: 100Gbps, delay: 1us}",
            "topology: {kind: custom, hosts: [h1, h2, h3], switches: [s1], links: [[h1, s1], [h2, s1], [h3, s1], [s1, s1]]}",
            &["topology", "s1"],
        ),
        (
            "topology: {kind: dumbbell, switches: 2, senders: 2, receivers: 1, rate: 100Gbps, delay: 1us}",
            "topology: {kind: custom, hosts: [h1, h2, h3], switches: [s1, s2], links: [[h1, s1], [h2, s1], [h3, s2]]}",
            &["tiny.yaml", "h3"],
        ),
        ("duration: 100us", "duration: [", &["tiny.yaml:8:1: "]),
    ] {
        let (status, stderr) = run_invalid(from, to);
        assert_eq!(status, 2, "{to}: {stderr}");
        assert!(stderr.starts_with("error: "), "{stderr}");
        for word in expected {
            assert!(stderr.contains(word), "{to}: \"{word}\" is missing in: {stderr}");
        }
    }
}

/// Runs weir with invalid arguments in a directory with TINY. Returns stderr.
fn exit_2(args: &[&str]) -> String {
    let dir = tempfile::tempdir().unwrap();
    tiny(&dir);
    let output = weir().current_dir(&dir).args(args).assert().code(2).get_output().clone();
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 1, "{args:?}: nothing is written");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn invalid_arguments_are_reported_with_a_remedy() {
    assert!(exit_2(&["run", "missing.yaml"]).contains("missing.yaml"));
    assert!(exit_2(&["run", "tiny.yaml", "--set", "nothing"]).contains("expected KEY=VALUE"));
    assert!(
        exit_2(&["run", "tiny.yaml", "--set", "flows.7.size=1KB"]).contains("index \"7\" is out of range")
    );
    assert!(exit_2(&["run", "tiny.yaml", "--schemes", "dcqcn"]).contains("fncc, hpcc"));
    assert!(exit_2(&["run", "tiny.yaml", "--seed", "x"]).contains("--seed"));
    assert!(
        exit_2(&["run", "tiny.yaml", "tiny.yaml", "--out", "x"])
            .contains("--out requires a single experiment")
    );
    assert!(exit_2(&["schemes", "cubic"]).contains("unknown scheme \"cubic\""));
    assert!(exit_2(&["walk"]).contains("walk"));
    assert!(exit_2(&[]).contains("Usage"));
}

#[test]
fn a_foreign_directory_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let file = tiny(&dir);
    let home = dir.path().join("home");
    fs::create_dir(&home).unwrap();
    fs::write(home.join("thesis.tex"), "years of work").unwrap();
    let output = weir().arg("run").arg(&file).arg("--out").arg(&home).assert().code(2).get_output().clone();
    assert!(String::from_utf8(output.stderr).unwrap().contains("thesis.tex"));
    assert_eq!(fs::read_dir(&home).unwrap().count(), 1);
}

#[test]
fn programs_that_do_not_load_are_input_errors() {
    let dir = tempfile::tempdir().unwrap();
    let test = dir.path().join("t.stf");
    fs::write(&test, "packet 0 00\n").unwrap();
    for (json, expected) in
        [("not json", "p.json:1:2: "), ("{}", ""), ("{\"__meta__\": {\"version\": [9, 0]}}", "version")]
    {
        let program = dir.path().join("p.json");
        fs::write(&program, json).unwrap();
        let output = weir().arg("stf").args([&program, &test]).assert().code(2).get_output().clone();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(
            stderr.starts_with("error: ") && stderr.contains("p.json") && stderr.contains(expected),
            "{stderr}"
        );
        assert_eq!(stderr.lines().filter(|line| !line.starts_with("  ")).count(), 1, "{stderr}");
    }
}

#[test]
fn p4_source_is_not_taken_for_a_compiled_program() {
    let dir = tempfile::tempdir().unwrap();
    let (program, test) = (dir.path().join("x.p4"), dir.path().join("t.stf"));
    fs::write(&program, "#include <v1model.p4>\n").unwrap();
    fs::write(&test, "packet 0 00\n").unwrap();
    for arguments in [
        vec!["stf".as_ref(), program.as_os_str(), test.as_os_str()],
        vec!["switch".as_ref(), program.as_os_str()],
    ] {
        let output = weir().args(arguments).assert().code(2).get_output().clone();
        let (stderr, source) = (String::from_utf8(output.stderr).unwrap(), program.display());
        let expected = format!(
            "compile it first with p4c-bm2-ss -o {} {source}\n",
            program.with_extension("json").display()
        );
        assert!(stderr.ends_with(&expected), "{stderr}");
    }
}

#[test]
fn an_error_in_an_stf_file_has_its_position() {
    let dir = tempfile::tempdir().unwrap();
    let test = dir.path().join("t.stf");
    fs::write(&test, "# a test\npacket 1\n").unwrap();
    let program = repository().join("p4src/build/hpcc.json");
    let output = weir().arg("stf").args([&program, &test]).assert().code(2).get_output().clone();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("t.stf:2:"), "{stderr}");
}

#[test]
fn every_experiment_of_the_repository_is_valid() {
    let experiments = fs::read_dir(repository().join("experiments")).unwrap().map(|e| e.unwrap().path());
    let files: Vec<_> = experiments.filter(|path| path.extension().is_some_and(|e| e == "yaml")).collect();
    assert!(!files.is_empty());
    let output = weir().args(["run", "--check"]).args(&files).assert().success().get_output().clone();
    assert_eq!(String::from_utf8(output.stdout).unwrap().matches(": ok, ").count(), files.len());
}

/// A check reports the same errors, with their positions, as a run before its first event.
#[test]
fn a_check_rejects_what_a_run_rejects() {
    let dir = tempfile::tempdir().unwrap();
    let star = "topology: {kind: star, hosts: 3, rate: 1Gbps}";
    let flow = "flows: [{from: h1, to: h2, size: 1KB}]\nduration: 20us";
    let ring = "topology: {kind: dragonfly, rate: 1Gbps, a: 2, h: 1, p: 1, groups: 3}";
    let cases = [
        (
            format!("{star}\nschemes: [dart]\ntransport: {{recovery: selective}}\n{flow}\n"),
            "3:23: transport.recovery: dart",
        ),
        (
            format!("{star}\nschemes: [hpcc, dasr]\ntransport: {{recovery: selective}}\n{flow}\n"),
            "3:23: transport.recovery: ",
        ),
        (
            format!("{star}\nschemes: [iofd]\ntransport: {{recovery: selective}}\n{flow}\n"),
            "3:23: transport.recovery: iofd",
        ),
        (format!("{star}\nschemes: [fncc]\nmtu: 0B\n{flow}\n"), "3:6: mtu: 0B is too small"),
        (
            format!("{star}\nschemes: [fncc]\npolicy: {{imin: 20us, k: 3}}\n{flow}\n"),
            "3:16: policy.imin: 20us is shorter than 52.32us",
        ),
        (format!("{ring}\nschemes: [iofd]\nrouting: ecmp\n{flow}\n"), "3:10: routing: ECMP is not symmetric"),
        (
            format!(
                "{star}\nschemes: [fncc]\npolicy: {{imin: 2ms}}\n{flow}\nfaults: [{{kind: attack, host: h1, with: forged, at: 1us, every: 0s, times: 20000000}}]\n"
            ),
            "6:76: faults[0].times: 20000000 packets",
        ),
        (
            "topology: {kind: file, path: /dev/zero}\nschemes: [fncc]\nduration: 20us\n".to_owned(),
            "1:30: topology.path: /dev/zero: is not a regular file",
        ),
    ];
    for (n, (text, reason)) in cases.iter().enumerate() {
        let name = format!("x{n}.yaml");
        fs::write(dir.path().join(&name), text).unwrap();
        let stderr_of = |args: &[&str]| {
            let output = weir().current_dir(&dir).args(args).assert().code(2).get_output().clone();
            String::from_utf8(output.stderr).unwrap()
        };
        let (checked, run) = (stderr_of(&["run", "--check", &name]), stderr_of(&["run", &name]));
        assert_eq!(checked, run, "{name}");
        assert!(checked.starts_with(&format!("error: {name}:{reason}")), "{checked}");
        assert!(!dir.path().join("runs").exists(), "{name}");
    }
}

/// An error in the second file that only the switches detect: the first file must not run before it is reported.
#[test]
fn nothing_runs_before_all_files_are_checked() {
    let dir = tempfile::tempdir().unwrap();
    let text = |scheme: &str, entries: &str| {
        format!(
            "topology: {{kind: star, hosts: 2}}\nschemes: [{scheme}]\nflows: [{{from: h1, to: h2, size: 1KB}}]\n\
             duration: 20us\n{entries}"
        )
    };
    fs::write(dir.path().join("good.yaml"), text("fncc", "")).unwrap();
    // The plan already contains this route.
    fs::write(dir.path().join("bad.yaml"), text("hpcc", "entries: [{file: twice.json}]\n")).unwrap();
    let entry = r#"{"table": "forward", "match": {"dst_addr": ["10.0.1.1", 32]}, "action_name": "via", "action_params": {"port": 2}}"#;
    let runtime =
        format!(r#"{{"target": "bmv2", "p4info": "", "bmv2_json": "", "table_entries": [{entry}]}}"#);
    fs::write(dir.path().join("twice.json"), runtime).unwrap();
    for args in [&["run", "good.yaml", "bad.yaml"][..], &["run", "--check", "bad.yaml"]] {
        let output = weir().current_dir(&dir).args(args).output().unwrap();
        let message = String::from_utf8(output.stderr).unwrap();
        assert!(message.starts_with("error: bad.yaml: "), "{message}");
        assert_ne!(output.status.code(), Some(0));
        assert!(!dir.path().join("runs").exists());
    }
}

#[test]
fn a_flow_file_that_starts_after_the_end_is_rejected() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("flows.txt"), "1\n0 1 3 10000 1000000 0.15\n").unwrap();
    let text = |duration: &str| {
        format!(
            "topology: {{kind: star, hosts: 2, rate: 25Gbps}}\nschemes: [hpcc]\n\
             workload: {{kind: file, path: flows.txt}}\nduration: {duration}\nuntil_idle: true\n"
        )
    };
    fs::write(dir.path().join("short.yaml"), text("100ms")).unwrap();
    fs::write(dir.path().join("long.yaml"), text("200ms")).unwrap();
    let output = weir().current_dir(&dir).args(["run", "short.yaml"]).assert().code(2).get_output().clone();
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.starts_with("error: short.yaml:3:30: workload.path: "), "{message}");
    assert!(
        message.contains("its first flow starts at 150ms, not before the end of the run, 100ms"),
        "{message}"
    );
    let output = weir()
        .current_dir(&dir)
        .args(["run", "--check", "long.yaml"])
        .assert()
        .success()
        .get_output()
        .clone();
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(printed.contains("; PFC at 500KB; about 1 thousand packet-hops, "), "{printed}");
}

/// A check warns of routes on which PFC can deadlock, and names the cycle and what avoids it.
#[test]
fn a_check_warns_of_cycles_of_the_routes() {
    let dir = tempfile::tempdir().unwrap();
    let text = "topology: {kind: custom, hosts: [h1, h2, h3, h4, h5, h6], switches: [s1, s2, s3, s4, s5, s6], rate: 10Gbps,\n  \
                links: [[h1, s1], [h2, s2], [h3, s3], [h4, s4], [h5, s5], [h6, s6],\n  \
                [s1, s2], [s2, s3], [s3, s4], [s4, s5], [s5, s6], [s6, s1]]}\n\
                schemes: [dcqcn]\nflows: [{from: h1, to: h4, size: 1KB}]\nduration: 20us\n";
    fs::write(dir.path().join("ring.yaml"), text).unwrap();
    let check = |options: &[&str]| {
        let mut command = weir();
        command.current_dir(&dir).args(["run", "--check", "ring.yaml"]).args(options);
        let output = command.assert().success().get_output().clone();
        [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap())
    };
    let [_, warning] = check(&[]);
    assert!(warning.contains("ring.yaml: PFC can deadlock: the routes have the cycle s"), "{warning}");
    assert!(warning.contains(" -> s2 -> ") && warning.contains("`routing: up-down`"), "{warning}");
    for option in ["routing=up-down", "pfc=off"] {
        let [printed, warning] = check(&["--set", option]);
        assert!(printed.contains("ring.yaml: ok") && warning.is_empty(), "{option}: {warning}");
    }
    let [printed, _] = check(&["--json"]);
    let cycle = serde_json::from_str::<serde_json::Value>(&printed).unwrap()["pfc_cycle"].clone();
    assert_eq!(cycle.as_str().unwrap().split(" -> ").count(), 7, "{cycle}");
}

#[test]
fn spanning_trees_instead_of_ecmp_are_reported() {
    let dir = tempfile::tempdir().unwrap();
    let text = "topology: {kind: jellyfish, switches: 8, degree: 3}\nschemes: [hpcc]\n\
                flows: [{from: h1, to: h2, size: 1KB}]\nduration: 20us\n";
    fs::write(dir.path().join("x.yaml"), text).unwrap();
    let stdout_of = |args: &[&str]| {
        let output = weir().current_dir(&dir).args(args).assert().success().get_output().clone();
        String::from_utf8(output.stdout).unwrap()
    };
    let routes = " spanning trees, as ECMP is not symmetric here";
    assert!(stdout_of(&["run", "--check", "x.yaml"]).contains(routes));
    assert!(stdout_of(&["run", "x.yaml"]).contains(routes));
    assert!(!stdout_of(&["run", "--check", "x.yaml", "--set", "routing=trees"]).contains(routes));
}

/// An experiment of 58 days has 50 million flows, too many to examine all.
#[test]
fn long_experiments_are_estimated_from_their_beginning() {
    let file = repository().join("experiments/fat-tree-k4.yaml");
    let keys = ["duration=5000000s", "workload={kind: incast, senders: 2, size: 10MB, every: 200ms}"];
    let mut command = weir();
    command.args(["run", "--check"]).arg(file).args(["--set", keys[0], "--set", keys[1]]);
    let output = command.timeout(std::time::Duration::from_secs(240)).assert().success().get_output().clone();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains(" days, "), "{text}");
}

#[test]
fn schemes_list_their_parameters() {
    let text = |args: &[&str]| {
        String::from_utf8(weir().args(args).assert().success().get_output().stdout.clone()).unwrap()
    };
    let list = text(&["schemes"]);
    assert!(list.contains("hpcc") && list.contains("fncc"), "{list}");
    let fncc = text(&["schemes", "fncc"]);
    assert!(fncc.contains("lhcs = direct") && fncc.contains("default  FNCC §3.2.2"), "{fncc}");
}

#[test]
fn the_dissector_is_installed_for_its_user() {
    let home = tempfile::tempdir().unwrap();
    let source = fs::read(repository().join("host/wireshark/weir.lua")).unwrap();
    let installed = home.path().join(".local/lib/wireshark/plugins/weir.lua");
    for _ in 0..2 {
        let output = weir().env("HOME", home.path()).args(["wireshark", "--install"]).output().unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("Dissector {}\n", installed.display()));
        assert_eq!(fs::read(&installed).unwrap(), source);
    }
    assert_eq!(weir().arg("wireshark").output().unwrap().stdout, source);
    let output = weir().env_remove("HOME").args(["wireshark", "--install"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}

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

#[test]
fn a_packet_test_with_an_unknown_array_lists_the_known_ones() {
    let dir = tempfile::tempdir().unwrap();
    let test = dir.path().join("t.stf");
    let program = repository().join("p4src/build/fncc.json");
    let cases = [
        ("register_read queue 0", "named \"queue\"; the program has queue_bytes, tx_bytes, all_int_table"),
        ("check_counter drop(0) packets == 0", "named \"drop\"; the program has drops, events"),
    ];
    for (line, expected) in cases {
        fs::write(&test, line).unwrap();
        let output = weir().arg("stf").args([&program, &test]).assert().code(2).get_output().clone();
        let message = String::from_utf8(output.stderr).unwrap();
        assert!(message.contains("t.stf:1:15: ") && message.contains(expected), "{message}");
    }
}

#[test]
fn a_failed_packet_test_suggests_a_trace() {
    let dir = tempfile::tempdir().unwrap();
    let test = dir.path().join("t.stf");
    fs::write(&test, "packet 1 ffffffffffff0000000000010806\nexpect 2 ff\n").unwrap();
    let program = repository().join("p4src/build/fncc.json");
    let output = weir().arg("stf").args([&program, &test]).assert().code(1).get_output().clone();
    let stdout = String::from_utf8(output.stdout).unwrap();
    for expected in
        ["FAILED", "line 2: no frame came out at port 2", "weir trace", "--packet 1", "0 passed, 1 failed"]
    {
        assert!(stdout.contains(expected), "{expected}: {stdout}");
    }
}

#[test]
fn a_packet_is_traced_from_a_file_or_from_hex() {
    let program = repository().join("p4src/build/fncc.json");
    let test = repository().join("p4src/tests/fncc/forwarding-ttl.stf");
    let trace = |more: &[&str]| {
        let mut command = weir();
        command.arg("trace").arg(&program).args(more);
        command.output().unwrap()
    };
    let text = |output: std::process::Output| {
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let test = test.to_str().unwrap();
    let one = text(trace(&["--stf", test, "--packet", "2"]));
    assert!(
        one.starts_with("packet 2 (") && one.contains("parser state ipv4") && one.contains("drops it"),
        "{one}"
    );
    let all = text(trace(&["--stf", test]));
    assert!(all.contains("packet 1 (") && all.contains(&one) && all.contains("table"), "{all}");
    let own = text(trace(&["--port", "1", "--hex", "ff:ff:ff:ff:ff:ff 000000000001 0806"]));
    assert!(own.starts_with("arrives at port 1: 14 bytes"), "{own}");
    for (invalid, expected) in [
        (&["--stf", test, "--packet", "99"][..], "counted from 1"),
        (&["--hex", "abc"], "number of digits (3)"),
        (&["--port", "1"], "--hex"),
        (&[], "--stf"),
    ] {
        let output = trace(invalid);
        assert_eq!(output.status.code(), Some(2), "{invalid:?}");
        assert!(String::from_utf8(output.stderr).unwrap().contains(expected), "{invalid:?}");
    }
}

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

/// The words of Rust's parsers say nothing to users.
#[test]
fn invalid_numbers_of_options_say_what_is_expected() {
    for (arguments, expected) in [
        (
            &["run", "x.yaml", "--seed", "-1"][..],
            "invalid value '-1' for '--seed <N>': expected a whole number, 0 or more",
        ),
        (&["run", "x.yaml", "--jobs", "0"], "invalid value '0' for '--jobs <N>': must be at least 1"),
        (
            &["run", "x.yaml", "--threads", "-2"],
            "invalid value '-2' for '--threads <N>': expected a whole number",
        ),
        (&["sweep", "x.yaml", "--jobs", "-1"], "invalid value '-1' for '--jobs <N>': -1 is not in 1..=4096"),
        (&["export", "x.yaml", "--seed", "a"], "expected a whole number, 0 or more"),
    ] {
        let output = weir().args(arguments).output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains(expected), "{arguments:?}: {text}");
    }
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

#[test]
fn results_write_the_tables_of_a_document_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let put = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
    fs::create_dir(dir.path().join("x")).unwrap();
    let paper = "paper:\n  - {what: queue, value: -37.5 %, source: Fig. 9, reason: traced, ours: fncc.queues.s1:3.peak_bytes vs hpcc.queues.s1:3.peak_bytes}\n";
    put("x/tiny.yaml", &format!("{TINY}{paper}"));
    put("x/other.yaml", &format!("{}{paper}", TINY.replace("100us", "110us")));
    put(
        "list.yaml",
        "- {id: a, title: A, runs: [{file: tiny.yaml, over: ['seed=1..3'], columns: [peak queue], quick: {over: ['seed=1,2']}}]}\n",
    );
    put("doc.md", "Before.\n<!-- results:begin a -->\nold\n<!-- results:end -->\nAfter.\n");
    let results = |more: &[&str]| {
        let mut command = weir();
        command.current_dir(&dir).args([
            "results",
            "--list",
            "list.yaml",
            "--experiments",
            "x",
            "--docs",
            "doc.md",
        ]);
        let output = command.args(more).output().unwrap();
        let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
        (output.status.code(), text, fs::read_to_string(dir.path().join("doc.md")).unwrap())
    };
    let (status, printed, quick) = results(&["--quick"]);
    assert!(status == Some(0) && printed.contains("2 runs: 2 complete (0 cached)"), "{printed}");
    assert!(
        quick.starts_with("Before.\n") && quick.contains("\nAfter.\n") && !quick.contains("old"),
        "{quick}"
    );
    assert!(quick.contains("`weir sweep x/tiny.yaml --over seed=1,2`\n\n| claim |"), "{quick}");
    assert!(
        quick.contains("| queue | -37.5 % (Fig. 9) | +4.4 % ± 0.0 % | traced |")
            && quick.contains("| fncc |"),
        "{quick}"
    );
    // The other experiment also has a paper's value: it is listed under "Others", and not run with --quick.
    assert!(quick.contains("## Others") && quick.contains("not run yet"), "{quick}");

    let (status, printed, whole) = results(&[]);
    assert!(status == Some(0) && printed.contains("4 runs: 4 complete (2 cached)"), "{printed}");
    assert!(whole.contains("seed=1..3") && !whole.contains("not run yet"), "{whole}");
    let (_, printed, again) = results(&["--quick"]);
    assert!(printed.contains("2 runs: 2 complete (2 cached)"), "{printed}");
    let other = |text: &str| text.split_once("<!-- experiment other -->").unwrap().1.to_owned();
    assert_eq!(other(&again), other(&whole), "tables that --quick does not run are preserved");
    let (status, printed, _) = results(&["--only", "b"]);
    assert!(status == Some(2) && printed.contains("expected one of a, others"), "{printed}");

    // In a directory, each section is updated on the page that has it.
    fs::create_dir(dir.path().join("pages")).unwrap();
    let empty = "<!-- results:begin a -->\n<!-- results:end -->\n";
    put("pages/README.md", "Index.\n");
    put("pages/a.md", empty);
    let output = weir()
        .current_dir(&dir)
        .args(["results", "--list", "list.yaml", "--experiments", "x", "--docs", "pages"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let page = |name: &str| fs::read_to_string(dir.path().join("pages").join(name)).unwrap();
    assert!(page("README.md").starts_with("Index.\n") && page("README.md").contains("results:begin others"));
    assert!(page("a.md").contains("x/tiny.yaml") && !page("a.md").contains("others"), "{}", page("a.md"));

    // An invalid column or document is reported before the runs.
    fs::remove_dir_all(dir.path().join("runs")).unwrap();
    put("list.yaml", "- {id: a, title: A, runs: [{file: tiny.yaml, columns: [peak queu]}]}\n");
    let (status, printed, _) = results(&[]);
    assert!(status == Some(2) && printed.contains("list.yaml: tiny.yaml: peak queu:"), "{printed}");
    assert!(!dir.path().join("runs").exists());
    put("doc.md", "<!-- results:begin a -->\n");
    let (status, printed, _) = results(&[]);
    assert!(status == Some(2) && printed.contains("doc.md"), "{printed}");
    assert!(!dir.path().join("runs").exists());
}
