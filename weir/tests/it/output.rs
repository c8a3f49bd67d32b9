//! Output formats: `--json`, exit statuses, completions, man pages, narrow terminals.

use assert_cmd::Command;
use serde_json::{Value, json};
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use weir_server::p4runtime::{ServerConfig, serve};
use weir_switch::driver::{Dataplane, DataplaneConfig};

const TINY: &str = "\
name: tiny
topology: {kind: dumbbell, switches: 2, senders: 2, receivers: 1, rate: 100Gbps, delay: 1us}
schemes: [fncc, hpcc]
flows:
  - {from: h1, to: h3, size: 100KB}
  - {from: h2, to: h3, start: 20us}
duration: 100us
";

fn tiny() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("tiny.yaml"), TINY).unwrap();
    dir
}

fn build(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../p4src/build").join(name)
}

/// Runs weir. Returns the exit status, standard output and standard error.
fn weir(dir: &Path, arguments: &str) -> (i32, String, String) {
    let mut command = Command::cargo_bin("weir").expect("cargo builds the binary before its tests");
    let output = command.current_dir(dir).args(arguments.split_whitespace()).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// Returns the JSON output of a command, which must exit with `status`.
fn json_output(dir: &Path, arguments: &str, status: i32) -> Value {
    let (actual_status, out, err) = weir(dir, &format!("{arguments} --json"));
    assert_eq!(actual_status, status, "{arguments}: {out}{err}");
    serde_json::from_str(&out).unwrap_or_else(|error| panic!("{arguments}: {error}: {out}"))
}

#[test]
fn every_command_with_a_result_prints_it_as_json() {
    let dir = tiny();
    let dir = dir.path();
    let checked = json_output(dir, "run tiny.yaml --check", 0);
    assert_eq!((&checked["schemes"], &checked["file"]), (&json!(["fncc", "hpcc"]), &json!("tiny.yaml")));
    assert!(checked["estimate"]["packet_hops"].as_f64().unwrap() > 100.0, "{checked}");

    let run = json_output(dir, "run tiny.yaml --out a", 0);
    let summary: Value = serde_json::from_slice(&fs::read(dir.join("a/summary.json")).unwrap()).unwrap();
    assert_eq!(run["summary"], summary);
    assert_eq!((&run["report"], &run["directory"]), (&json!("a/report.html"), &json!("a")));

    let sweep = json_output(
        dir,
        "sweep tiny.yaml --over flows.0.size=50KB,100KB --over seed=1,2 --metric fct.slowdown.p95 --out s",
        0,
    );
    assert_eq!(sweep["runs"], json!({"done": 4, "of": 4, "before": 0, "failed": []}));
    let row = &sweep["rows"][1];
    assert_eq!((&row["scheme"], &row["point"]), (&json!("hpcc"), &json!({"flows.0.size": "50KB"})));
    assert_eq!(row["metrics"]["fct.slowdown.p95"]["runs"], 2, "{row}");

    let report = json_output(dir, "report a --out one.html", 0);
    assert_eq!((&report["runs"][0]["name"], &report["runs"][0]["summary"]), (&json!("a"), &summary));

    let all = json_output(dir, "schemes", 0);
    assert!(all.as_array().unwrap().iter().any(|scheme| scheme["name"] == "fncc"), "{all}");
    let one = json_output(dir, "schemes hpcc", 0);
    let eta = one["parameters"].as_array().unwrap().iter().find(|it| it["name"] == "eta").unwrap();
    assert_eq!(eta["default"], "0.95", "{eta}");

    assert_eq!(json_output(dir, "export tiny.yaml --out e", 0)["flows_left_out"], 1);

    let program = build("ecn.json").display().to_string();
    let test = Path::new(env!("CARGO_MANIFEST_DIR")).join("../p4src/tests/ecn/ecn-data.stf");
    let good = fs::read_to_string(test).unwrap();
    fs::write(dir.join("good.stf"), &good).unwrap();
    fs::write(dir.join("bad.stf"), format!("{good}\nexpect 1 00112233\n")).unwrap();
    let stf = json_output(dir, &format!("stf {program} good.stf bad.stf"), 1);
    assert_eq!((&stf["passed"], &stf["failed"]), (&json!(1), &json!(1)), "{stf}");
    assert_eq!((&stf["tests"][0]["test"], &stf["tests"][0]["passed"]), (&json!("good.stf"), &json!(true)));
    assert!(stf["tests"][1]["failures"][0]["what"].as_str().is_some_and(|what| !what.is_empty()), "{stf}");
    let trace = json_output(dir, &format!("trace {program} --stf good.stf --packet 1"), 0);
    assert_eq!((trace.as_array().map(Vec::len), &trace[0]["packet"]), (Some(1), &json!(1)), "{trace}");
    assert!(trace[0]["steps"].as_array().is_some_and(|steps| steps.len() > 5), "{trace}");
    let (status, out, err) = weir(dir, &format!("trace {program} --stf good.stf --perfetto steps.json"));
    assert_eq!((status, out.as_str()), (0, ""), "{err}");
    let steps: Value = serde_json::from_slice(&fs::read(dir.join("steps.json")).unwrap()).unwrap();
    let slices = steps["traceEvents"].as_array().unwrap().iter().filter(|it| it["ph"] == "X");
    assert!(slices.filter(|it| it["name"].as_str().unwrap().starts_with("packet ")).count() > 0, "{steps}");
    let dissector = json_output(dir, "wireshark --install plugins", 0);
    assert!(dir.join(dissector["dissector"].as_str().unwrap()).is_file(), "{dissector}");
    assert_eq!(weir(dir, "wireshark --json").0, 2, "the dissector itself cannot be printed as JSON");
    assert!(json_output(dir, "man pages", 0)["pages"].as_u64() > Some(25));
    let new = json_output(dir, "new p4 mine", 0);
    assert_eq!(new["directory"], "mine");
    assert!(
        new["files"]
            .as_array()
            .unwrap()
            .iter()
            .all(|it| dir.join("mine").join(it.as_str().unwrap()).is_file())
    );

    let plan = json_output(
        dir,
        &format!("controller plan --topology tiny.yaml --program {}", build("fncc.json").display()),
        0,
    );
    assert!(plan["s1"].as_array().is_some_and(|entries| entries.len() > 3), "{plan}");
    let proofs = json_output(dir, "controller verify --topology tiny.yaml", 0);
    assert_eq!((&proofs["proved"], &proofs["paths"]["pairs"]), (&json!(true), &json!(6)));
    // No switch listens; the error of each is reported.
    let program = build("fncc.json");
    let ports = "--grpc-base-port 1 --timeout 2s";
    for (command, status) in [("apply", 1), ("diff", 1)] {
        let program = program.display();
        let text = format!("controller {command} --topology tiny.yaml --program {program} {ports}");
        let failed = json_output(dir, &text, status);
        for switch in ["s1", "s2"] {
            let reason = failed["failed"][switch].as_str().unwrap_or_default();
            assert!(reason.contains("127.0.0.1"), "{command}: {failed}");
        }
        let (_, _, printed) = weir(dir, &text);
        assert!(
            printed.contains("s1: ") && printed.contains("s2: ") && printed.lines().count() == 1,
            "{printed}"
        );
    }
}

/// Starts the two switches of `TINY`. Returns the data planes, which stop when dropped, and the `--switch` options.
fn switches() -> (Vec<Dataplane>, String) {
    let (mut dataplanes, mut switch_options) = (Vec::new(), String::new());
    for (device_id, switch) in (0..).zip(["s1", "s2"]) {
        let config = DataplaneConfig { cpu_port: Some(255), ..DataplaneConfig::default() };
        let dataplane = Dataplane::start(config, None, &[]).expect("a data plane");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        switch_options.push_str(&format!(" --switch {switch}={}", listener.local_addr().expect("bound")));
        let server = ServerConfig { device_id, ..ServerConfig::default() };
        tokio::spawn(serve(dataplane.handle(), server, listener, std::future::pending()));
        dataplanes.push(dataplane);
    }
    (dataplanes, switch_options)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn apply_reports_remaining_updates_and_the_remedy() {
    let dir = tiny();
    let (_dataplanes, switch_options) = switches();
    let program = format!("--program {}", build("fncc.json").display());
    let steps = move || {
        let dir = dir.path();
        let whole = format!("controller apply --topology tiny.yaml {program} {switch_options}");
        let unreachable = format!("{whole} --switch s2=127.0.0.1:1");
        let (status, out, printed) = weir(dir, &unreachable);
        let row = |of: &str| out.lines().find(|line| line.contains(of)).unwrap().split_whitespace().collect();
        let s1: Vec<&str> = row(" s1 ");
        assert_eq!((status, &s1[..6]), (1, &["s1", "present", "0", "0", "0", "0"][..]), "{out}");
        assert!(s1[6].parse::<usize>().unwrap() > 3 && out.contains("left"), "{out}");
        assert!(printed.starts_with("error: s2: no P4Runtime server at 127.0.0.1:1"), "{printed}");
        assert!(
            printed.contains("no other switch was written") && printed.contains("--partial"),
            "{printed}"
        );
        let diff = format!("controller diff --topology tiny.yaml {program} {switch_options}");
        assert_eq!(json_output(dir, &diff, 2)["differing"]["s1"][0], "push the program");

        let partial = json_output(dir, &format!("{unreachable} --partial"), 1);
        let s1 = &partial["switches"]["s1"];
        assert_eq!((&s1["left"], &s1["pushed"]), (&json!(0), &json!(true)), "{partial}");
        assert!(partial["failed"]["s2"].is_string() && partial["switches"]["s2"].is_null(), "{partial}");
        let (status, out, _) = weir(dir, &whole);
        assert!(status == 0 && out.contains("2 switches as planned") && !out.contains("left"), "{out}");
    };
    tokio::task::spawn_blocking(steps).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn diff_distinguishes_equal_different_and_failed() {
    let dir = tiny();
    let (_dataplanes, switch_options) = switches();
    let program = format!("--program {}", build("fncc.json").display());
    let steps = move || {
        let dir = dir.path();
        let run =
            |command: &str| format!("controller {command} --topology tiny.yaml {program} {switch_options}");
        let empty = json_output(dir, &run("diff"), 2);
        let updates = empty["differing"]["s1"].as_array().expect("s1 runs no program");
        assert_eq!(updates[0], "push the program");
        let applied = json_output(dir, &run("apply"), 0);
        let s1 = &applied["switches"]["s1"];
        assert_eq!(s1["pushed"], true, "{applied}");
        let written = s1["inserted"].as_u64().unwrap() + s1["modified"].as_u64().unwrap();
        assert_eq!(updates.len() as u64 - 1, written, "diff shows what apply writes: {empty}{applied}");
        let (status, out, _) = weir(dir, &run("diff"));
        assert!(status == 0 && out.contains("2 switches are as planned"), "{status} {out}");
        assert_eq!(json_output(dir, &run("diff"), 0)["equal"], true);
        let top = format!("top --topology tiny.yaml --interval 50ms --thrift-base-port 1{switch_options}");
        let state = json_output(dir, &top, 0);
        assert!(state["switches"]["s1"]["routes"].as_u64() > Some(1), "{state}");
        let port = &state["ports"]["s1:1"];
        assert_eq!(
            (&port["queue_bytes"], &port["up"], &port["peer"]),
            (&json!(0), &json!(true), &json!("h1"))
        );
        let (status, _, printed) = weir(dir, &top);
        assert!(status == 2 && printed.contains("terminal"), "{printed}");

        // An additional host needs additional entries.
        fs::write(dir.join("tiny.yaml"), TINY.replace("senders: 2", "senders: 3")).unwrap();
        let (status, out, printed) = weir(dir, &run("diff"));
        assert_eq!(status, 2, "{out}{printed}");
        assert!(
            out.contains("s1:\n  ")
                && out.contains("  + forward")
                && printed.contains("switches differ from the plan"),
            "{out}{printed}"
        );
        let different = json_output(dir, &run("diff"), 2);
        assert_eq!(different["equal"], false);
        assert!(
            different["differing"]["s1"].as_array().is_some_and(|updates| !updates.is_empty()),
            "{different}"
        );

        let (status, out, _) = weir(dir, &(run("apply") + " --quiet"));
        assert_eq!((status, out.as_str()), (0, ""), "no output with --quiet");
        for invalid in [run("diff") + " --only-this", "controller diff --topology nowhere.yaml".to_owned()] {
            assert_eq!(weir(dir, &invalid).0, 1, "{invalid}: status 2 means differences");
        }
    };
    tokio::task::spawn_blocking(steps).await.unwrap();
}

#[test]
fn completions_and_man_pages_have_every_command() {
    let dir = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let (status, script, _) = weir(dir.path(), &format!("completions {shell}"));
        assert_eq!(status, 0, "{shell}");
        for word in ["controller", "sweep", "metric"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
    let (status, out, _) = weir(dir.path(), "man pages");
    assert_eq!(status, 0);
    let pages: Vec<_> = fs::read_dir(dir.path().join("pages")).unwrap().collect();
    assert!(pages.len() > 25 && out.contains(&format!("{} pages", pages.len())), "{out}");
    let apply = fs::read_to_string(dir.path().join("pages/weir-controller-apply.1")).unwrap();
    assert!(apply.contains("election\\-id") && apply.contains("runtime_json"), "{apply}");
}

#[test]
fn tables_fit_the_columns_of_a_narrow_terminal() {
    let dir = tiny();
    let run = |columns: &str| {
        let mut command = Command::cargo_bin("weir").unwrap();
        command.current_dir(&dir).env("COLUMNS", columns).args(["run", "tiny.yaml", "--out", "x"]);
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    let table = |text: &str| -> usize {
        let lines = text.lines().skip_while(|line| !line.starts_with('─'));
        lines.take_while(|line| !line.starts_with("Queue")).map(|line| line.chars().count()).max().unwrap()
    };
    let (narrow, wide) = (run("60"), run("300"));
    assert!(table(&narrow) <= 60 && table(&wide) > 60, "{narrow}{wide}");
    assert!(narrow.contains("peak queue (KB)"), "{narrow}");
}

#[test]
fn verbose_commands_log_their_steps() {
    let dir = tiny();
    let (_, out, err) = weir(dir.path(), "run tiny.yaml --out x -v");
    assert!(out.contains("Digest") && err.contains("tiny: topology 2 switches"), "{err}");
    let (_, out, err) = weir(dir.path(), "run tiny.yaml --out x -q");
    assert_eq!((out.as_str(), err.as_str()), ("x/report.html\n", ""));
    let (_, _, err) = weir(dir.path(), "sweep tiny.yaml --over seed=1,2 --out s -v");
    assert_eq!(err.matches(": done in ").count(), 2, "{err}");
    assert_eq!(weir(dir.path(), "run tiny.yaml -q -v").0, 2);
}

#[test]
fn a_run_writes_a_perfetto_trace_on_request() {
    let dir = tiny();
    let run = |more: &str| {
        let (status, _, err) = weir(dir.path(), &format!("run tiny.yaml --out x -q {more}"));
        assert_eq!(status, 0, "{err}");
        fs::read(dir.path().join("x/perfetto.json")).ok()
    };
    let trace: Value =
        serde_json::from_slice(&run("--perfetto").expect("--perfetto writes the file")).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let count = |phase: &str| events.iter().filter(|event| event["ph"] == phase).count();
    assert!(count("C") > 50 && count("b") == 4 && count("e") == 4, "two flows under two schemes");
    // Each delivered packet has a slice at two hosts and two switches, and so three arrows.
    let packets = events.iter().filter(|event| event["cat"] == "packet");
    let arrows = packets.clone().filter(|event| event["flow_out"] == true).count();
    let ends = packets.clone().filter(|event| event["flow_in"] == true && event["flow_out"] == false);
    assert!(packets.count() > 400 && arrows > 300 && ends.count() * 3 > arrows * 9 / 10, "{arrows}");
    let sums = fs::read_to_string(dir.path().join("x/SHA256SUMS")).unwrap();
    assert!(sums.contains("perfetto.json"), "{sums}");
    let report = weir(dir.path(), "report x --out one.html");
    assert_eq!(report.0, 0, "{}", report.2);
    assert_eq!(run(""), None, "the earlier run is replaced");
}
