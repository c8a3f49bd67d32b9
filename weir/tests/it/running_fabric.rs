//! Queries to a running fabric: its tables, and a packet's path through copies of its switches.

use assert_cmd::Command;
use serde_json::{Value, json};
use std::net::TcpListener;
use std::path::Path;
use weir_server::p4runtime::{ServerConfig, serve};
use weir_switch::driver::{Dataplane, DataplaneConfig};

/// h1 and h2 at s1, h3 at s2.
const TOPOLOGY: &str = "{kind: dumbbell, switches: 2, senders: 2, receivers: 1, rate: 10Mbps}";

/// Starts two switches without a program. Returns the data planes, which stop when dropped, and the `--switch` options.
fn switches() -> (Vec<Dataplane>, Vec<String>) {
    let (mut dataplanes, mut switch_options) = (Vec::new(), Vec::new());
    for device_id in 0..2 {
        let config = DataplaneConfig { cpu_port: Some(255), ..DataplaneConfig::default() };
        let dataplane = Dataplane::start(config, None, &[]).expect("a data plane");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        switch_options.push(format!("--switch=s{}={}", device_id + 1, listener.local_addr().expect("bound")));
        let server = ServerConfig { device_id, ..ServerConfig::default() };
        tokio::spawn(serve(dataplane.handle(), server, listener, std::future::pending()));
        dataplanes.push(dataplane);
    }
    (dataplanes, switch_options)
}

/// Runs `weir`. Returns the exit status, and standard output, or standard error if it failed.
fn weir(arguments: &str, switch_options: &[String]) -> (i32, String) {
    let mut command = Command::cargo_bin("weir").expect("cargo builds the binary before its tests");
    let output = command.args(arguments.split(' ')).args(switch_options).output().expect("weir starts");
    let text = if output.status.success() { output.stdout } else { output.stderr };
    (output.status.code().expect("no signal"), String::from_utf8(text).expect("text"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_fabric_shows_its_tables_and_the_path_of_a_packet() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("fabric.yaml");
    std::fs::write(&file, TOPOLOGY).expect("written");
    let topology = file.display().to_string();
    let perfetto = directory.path().join("perfetto.json");
    let program =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../p4src/build/hpcc.json").display().to_string();
    let (_dataplanes, switch_options) = switches();
    tokio::task::spawn_blocking(move || {
        let run = |arguments: &str| weir(&format!("{arguments} --topology {topology}"), &switch_options);

        let (status, error) = run("controller tables s1");
        assert_eq!(status, 1, "{error}");
        assert!(error.contains("s1") && error.contains("no program"), "{error}");
        let (status, error) = run("controller tables s9");
        assert_eq!((status, error.contains("unknown switch s9")), (2, true), "{error}");

        let diff = format!("controller diff --program {program}");
        let (status, error) = run(&diff);
        assert_eq!(status, 2, "{error}");
        assert!(error.contains("2 of 2 switches differ from the plan"), "{error}");
        assert!(error.contains("`weir controller watch` changes routes while a link is down"), "{error}");
        assert_eq!(run(&format!("controller apply --program {program}")).0, 0);
        assert_eq!(run(&diff), (0, "2 switches are as planned\n".to_owned()));
        let (status, tables) = run("controller tables s2 s1");
        let (first, second) = (tables.find("s1: "), tables.find("s2: "));
        assert!(status == 0 && first.is_some() && first < second, "{tables}");
        assert!(tables.contains("forward[dst_addr=10.0.2.0/24] -> via(port="), "{tables}");

        let (status, path) = run("trace --from h1 --to h3 --json");
        assert_eq!(status, 0, "{path}");
        let path: Value = serde_json::from_str(&path).expect("JSON");
        assert_eq!((&path["received"], &path["is_cut"]), (&json!(["h3"]), &json!(false)), "{path}");
        let visits = path["visits"].as_array().expect("visits");
        let switches: Vec<_> = visits.iter().map(|visit| &visit["switch"]).collect();
        assert_eq!(switches, ["s1", "s2"]);
        assert_eq!(visits[0]["out"], json!([{"port": 3, "to": "s2:2"}]), "{path}");
        let steps = visits[0]["steps"].to_string();
        assert!(steps.contains("forward") && steps.contains("10.0.2.1"), "{steps}");

        // The same for Perfetto: a slice in each switch, and an arrow between them.
        let (status, text) = run(&format!("trace --from h1 --to h3 --perfetto {}", perfetto.display()));
        assert_eq!((status, text.as_str()), (0, ""));
        let slices: Value =
            serde_json::from_slice(&std::fs::read(&perfetto).expect("written")).expect("JSON");
        let slices =
            slices["traceEvents"].as_array().expect("events").iter().filter(|it| it["cat"] == "packet");
        let slices: Vec<_> = slices.map(|it| (&it["bind_id"], &it["flow_in"], &it["flow_out"])).collect();
        let (yes, no, id) = (json!(true), json!(false), json!("0x1"));
        assert_eq!(slices, [(&id, &no, &yes), (&id, &yes, &no)]);

        // The same as text, and a packet that is not delivered.
        let (_, text) = run("trace --from h1 --to h3");
        assert!(text.starts_with("s1, port 1, from h1\n") && text.ends_with("delivered to h3\n"), "{text}");
        let (status, text) = run("trace --from h1 --hex ffffffffffff0000000000010806");
        assert_eq!((status, text.ends_with("not delivered to any host\n")), (0, true), "{text}");
        let (status, error) = run("trace --from h1 --to h9");
        assert_eq!((status, error.contains("--to h9: unknown host")), (2, true), "{error}");
    })
    .await
    .expect("no panic");
}

/// A server that accepts connections and answers nothing, as a process that is stopped or swaps.
fn silent_server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound").to_string();
    std::thread::spawn(move || {
        // Kept open until the process ends.
        let connections: Vec<_> = listener.incoming().collect();
        drop(connections);
    });
    address
}

#[tokio::test(flavor = "multi_thread")]
async fn watch_installs_the_other_switches_beside_one_that_never_answers() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("fabric.yaml");
    std::fs::write(&file, TOPOLOGY).expect("written");
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../p4src/build/hpcc.json");
    let arguments = format!(
        "controller watch --topology {} --program {} --timeout 3s --for 12s --json",
        file.display(),
        program.display()
    );
    let (_dataplanes, mut switch_options) = switches();
    switch_options[1] = format!("--switch=s2={}", silent_server());
    let steps = move || {
        let (status, events) = weir(&arguments, &switch_options);
        assert_eq!(status, 0, "{events}");
        assert!(events.contains("s1: connected") && events.contains("s2: lost: "), "{events}");
        assert!(events.contains("no reply to ") && events.contains(" on 1 switches"), "{events}");
    };
    tokio::task::spawn_blocking(steps).await.expect("no panic");
}
