//! The command line as a user sees it: exit statuses, messages, and the files that are or are not written.

use assert_cmd::Command;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

pub(crate) fn weir() -> Command {
    Command::cargo_bin("weir").expect("cargo builds the binary before its tests")
}

pub(crate) fn repository() -> PathBuf {
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

pub(crate) fn tiny(dir: &TempDir) -> PathBuf {
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
