//! The command line from outside: exit statuses, messages, what is written and what is not.

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

/// Runs `weir run` on TINY with one line changed; gives exit status and the one line of stderr.
fn refused(from: &str, to: &str) -> (i32, String) {
    assert!(TINY.contains(from), "{from}");
    let dir = tempfile::tempdir().unwrap();
    let file = tiny(&dir);
    fs::write(&file, TINY.replace(from, to)).unwrap();
    let output = weir().current_dir(&dir).args(["run", "tiny.yaml"]).output().unwrap();
    let left: Vec<_> = fs::read_dir(&dir).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left, ["tiny.yaml"], "nothing is written");
    assert!(output.stdout.is_empty());
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(stderr.lines().count(), 1, "one line: {stderr}");
    assert!(!stderr.contains("panicked"), "{stderr}");
    (output.status.code().unwrap(), stderr)
}

#[test]
fn bad_experiments_are_one_clear_error_and_write_nothing() {
    for (from, to, told) in [
        ("duration: 100us", "duration: 100us\nwobble: 3", &["tiny.yaml", "wobble", "line"][..]),
        ("schemes: [fncc, hpcc]", "schemes: [fncc, nccf]", &["schemes[1]", "nccf", "hpcc"]),
        ("to: h3, start", "to: h9, start", &["flows[1].to", "h9", "not declared"]),
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
        ("duration: 100us", "duration: [", &["tiny.yaml", "line"]),
    ] {
        let (status, stderr) = refused(from, to);
        assert_eq!(status, 2, "{to}: {stderr}");
        assert!(stderr.starts_with("error: "), "{stderr}");
        for word in told {
            assert!(stderr.contains(word), "{to}: \"{word}\" is missing in: {stderr}");
        }
    }
}

/// Runs weir with arguments that are wrong, in a directory with TINY; gives stderr.
fn exit_2(args: &[&str]) -> String {
    let dir = tempfile::tempdir().unwrap();
    tiny(&dir);
    let output = weir().current_dir(&dir).args(args).assert().code(2).get_output().clone();
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 1, "{args:?}: nothing is written");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn bad_arguments_say_what_to_do() {
    assert!(exit_2(&["run", "missing.yaml"]).contains("missing.yaml"));
    assert!(exit_2(&["run", "tiny.yaml", "--set", "nothing"]).contains("write it like"));
    assert!(exit_2(&["run", "tiny.yaml", "--set", "flows.7.size=1KB"]).contains("no entry \"7\""));
    assert!(exit_2(&["run", "tiny.yaml", "--schemes", "dcqcn"]).contains("fncc, hpcc"));
    assert!(exit_2(&["run", "tiny.yaml", "--seed", "x"]).contains("--seed"));
    assert!(exit_2(&["run", "tiny.yaml", "tiny.yaml", "--out", "x"]).contains("one by one"));
    assert!(exit_2(&["schemes", "cubic"]).contains("there is no scheme \"cubic\""));
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
    for (json, told) in
        [("not json", "line 1"), ("{}", ""), ("{\"__meta__\": {\"version\": [9, 0]}}", "version")]
    {
        let program = dir.path().join("p.json");
        fs::write(&program, json).unwrap();
        let output = weir().arg("stf").args([&program, &test]).assert().code(2).get_output().clone();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(
            stderr.starts_with("error: ") && stderr.contains("p.json") && stderr.contains(told),
            "{stderr}"
        );
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
    }
}

#[test]
fn a_truncated_stf_line_has_its_place() {
    let dir = tempfile::tempdir().unwrap();
    let test = dir.path().join("t.stf");
    fs::write(&test, "# a test\npacket 1\n").unwrap();
    let program = repository().join("p4src/build/hpcc.json");
    let output = weir().arg("stf").args([&program, &test]).assert().code(2).get_output().clone();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("t.stf:2:"), "{stderr}");
}

#[test]
fn checks_every_experiment_of_the_repository() {
    let experiments = fs::read_dir(repository().join("experiments")).unwrap().map(|e| e.unwrap().path());
    let files: Vec<_> = experiments.filter(|path| path.extension().is_some_and(|e| e == "yaml")).collect();
    assert!(!files.is_empty());
    let output = weir().args(["run", "--check"]).args(&files).assert().success().get_output().clone();
    assert_eq!(String::from_utf8(output.stdout).unwrap().matches(": ok, ").count(), files.len());
}

#[test]
fn schemes_tell_their_knobs() {
    let text = |args: &[&str]| {
        String::from_utf8(weir().args(args).assert().success().get_output().stdout.clone()).unwrap()
    };
    let list = text(&["schemes"]);
    assert!(list.contains("hpcc") && list.contains("fncc"), "{list}");
    let fncc = text(&["schemes", "fncc"]);
    assert!(fncc.contains("lhcs = direct") && fncc.contains("default  FNCC §3.2.2"), "{fncc}");
}

#[test]
fn a_failed_packet_test_says_where_to_look() {
    let dir = tempfile::tempdir().unwrap();
    let test = dir.path().join("t.stf");
    fs::write(&test, "packet 1 ffffffffffff0000000000010806\nexpect 2 ff\n").unwrap();
    let program = repository().join("p4src/build/fncc.json");
    let output = weir().arg("stf").args([&program, &test]).assert().code(1).get_output().clone();
    let stdout = String::from_utf8(output.stdout).unwrap();
    for told in
        ["FAILED", "line 2: no frame came out at port 2", "weir trace", "--packet 1", "0 passed, 1 failed"]
    {
        assert!(stdout.contains(told), "{told}: {stdout}");
    }
}

#[test]
fn a_packet_is_followed_from_a_file_or_by_its_bytes() {
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
    for (bad, told) in [
        (&["--stf", test, "--packet", "99"][..], "counted from 1"),
        (&["--hex", "abc"], "whole bytes"),
        (&["--port", "1"], "--hex"),
        (&[], "--stf"),
    ] {
        let output = trace(bad);
        assert_eq!(output.status.code(), Some(2), "{bad:?}");
        assert!(String::from_utf8(output.stderr).unwrap().contains(told), "{bad:?}");
    }
}
