//! Tests of reading and resolving experiment files.

use super::*;
use weir_units::Time;

const GOOD: &str = "
topology: {kind: dumbbell, switches: 3, senders: 2, receivers: 1, rate: 100Gbps, delay: 1.5us}
schemes:
  - fncc
  - {scheme: fncc, label: no-lhcs, set: {lhcs: off}}
flows:
  - {from: h2, to: h3, start: 300us, size: 1MB}
  - {from: h1, to: h3}
duration: 1ms
";

/// A topology on which ECMP is not symmetric.
const JELLYFISH: &str = "topology={kind: jellyfish, switches: 8, degree: 3}";

fn parse(text: &str, overrides: &[&str]) -> Result<Experiment, ExperimentError> {
    let overrides: Vec<String> = overrides.iter().map(|s| (*s).to_owned()).collect();
    Experiment::parse(text, "x.yaml", "x", &overrides, None)
}

fn message(text: &str, overrides: &[&str]) -> String {
    parse(text, overrides).err().expect("an error").to_string()
}

#[test]
fn a_valid_file_is_resolved() {
    let experiment = parse(GOOD, &[]).unwrap();
    assert_eq!(experiment.spec.name, "x");
    assert_eq!(experiment.schemes.iter().map(|s| s.label.as_str()).collect::<Vec<_>>(), ["fncc", "no-lhcs"]);
    let names: Vec<_> = experiment.flows.iter().map(|f| f.name.as_str()).collect();
    assert_eq!(names, ["h1->h3", "h2->h3"], "flows are in order of start");
    assert!(experiment.flows.iter().all(|f| f.entropy_port >= 49_152));
}

#[test]
fn a_resolved_file_is_read_back_unchanged() {
    let experiment = parse(GOOD, &["observe.fairness_window=300us"]).unwrap();
    let again = parse(&experiment.resolved_yaml(), &[]).unwrap();
    assert_eq!(again.resolved_yaml(), experiment.resolved_yaml());
    assert_eq!(again.flows, experiment.flows);
}

#[test]
fn overrides_and_seed_replace_values_of_the_file() {
    let experiment = Experiment::parse(
        GOOD,
        "x.yaml",
        "x",
        &["duration=2ms".to_owned(), "topology.senders=4".to_owned()],
        Some(7),
    );
    let experiment = experiment.unwrap();
    assert_eq!(experiment.spec.duration, Time::from_ms(2));
    assert_eq!(experiment.topology.hosts.len(), 5);
    assert_eq!(experiment.spec.seed, 7);
}

#[test]
fn one_observed_port_needs_no_list() {
    let observed = |ports: &str| {
        let overrides = [format!("observe.ports={ports}")];
        let experiment = Experiment::parse(GOOD, "x", "x", &overrides, None).unwrap();
        (experiment.observed_ports.clone(), experiment.resolved_yaml())
    };
    let (all, written) = observed("all");
    assert!(all.len() > 3, "{all:?}");
    assert_eq!((all, written), observed("[all]"), "the resolved file has a list");
    assert_eq!(observed("s1:s2").0, observed("['s1:s2']").0);
}

#[test]
fn another_seed_gives_other_ports() {
    let ports = |seed| {
        let experiment = Experiment::parse(GOOD, "x", "x", &[], Some(seed)).unwrap();
        experiment.flows.iter().map(|f| f.entropy_port).collect::<Vec<_>>()
    };
    assert_eq!(ports(1), ports(1));
    assert_ne!(ports(1), ports(2));
}

/// Assignments that make the experiment invalid, and parts of the message.
const ERRORS: &[(&[&str], &[&str])] = &[
    (&["flavour=mint"], &["x.yaml", "flavour", "unknown field"]),
    (&["flows.1.frm=h1"], &["x.yaml", "flows[1]", "unknown field `frm`"]),
    (&["schemes=[bbr]"], &["x.yaml", "schemes[0]", "bbr"]),
    (&["schemes=[]"], &["schemes", "weir schemes"]),
    (&["schemes=[{scheme: fncc, set: {lhsc: off}}]"], &["schemes[0]", "lhsc"]),
    (&["schemes=[fncc, fncc]"], &["schemes[1]", "label"]),
    (&["flows.1.from=h9"], &["x.yaml", "flows[1].from", "host \"h9\" is not declared", "h1 to h3"]),
    (&["flows.1.to=h1"], &["flows[1].to", "cannot send to itself"]),
    (&["flows.0.size=-5KB"], &["flows[0].size", "negative"]),
    (&["flows.0.size=0B"], &["flows[0].size", "at least 1B"]),
    (&["flows.0.start=1ms"], &["flows[0].start", "not before the end"]),
    (&["flows=[]"], &["flows", "specify `flows`, `workload`"]),
    (&["topology.rate=100"], &["x.yaml", "topology", "has no unit"]),
    (&["topology.kind=torus"], &["x.yaml", "topology", "torus"]),
    (&["duration=0s"], &["duration"]),
    (&["duration=-1ms"], &["duration", "negative"]),
    (&["observe.interval=0s"], &["observe.interval"]),
    (&["schemes=[FNCC]"], &["schemes[0]", "did you mean \"fncc\"?"]),
    (&["topology.rate=100gbps"], &["topology.rate: ", "did you mean \"100Gbps\"?"]),
    (
        &["workload={kind: poisson, sizes: 1KB, load: 60}"],
        &["workload.load: 6000 % is more than 100 %; did you mean 60%?"],
    ),
    (
        &["workload={kind: poisson, sizes: 1KB, load: 140%}"],
        &["workload.load: 140 % is more than 100 % (--set"],
    ),
    (&["workload={kind: poisson, sizes: 1KB, load: 0}"], &["workload.load: must be above 0"]),
    (&["seed=1", "seed=2"], &["--set seed=1 has no effect: --set seed=2 replaces the value"]),
    (
        &["workload={kind: poisson, sizes: 1KB, load:0.4}"],
        &["unknown field `load:0.4`", "write `load: 0.4`, with a space after the colon"],
    ),
    (&["topology={kind:star, hosts: 3}"], &["write `kind: star`, with a space after the colon"]),
    (&["ecn={kmin: 1KB, kmax: 2KB, pmax: 20}"], &["ecn", "did you mean 20%?"]),
    (&["faults=[{kind: loss, rate: 5}]"], &["faults[0].rate", "did you mean 5%?"]),
    (&["transport.ack_every=0"], &["transport.ack_every"]),
    (&["buffer=0B"], &["buffer", "no packet fits"]),
    (&["queue_packets=0"], &["queue_packets", "no packet fits"]),
    (&["pfc=on"], &["pfc"]),
    (&["pfc={quanta: 40}"], &["pfc.quanta: 40 is too short", "choose 64 or more"]),
    (&["pfc={quanta: 0}"], &["pfc"]),
    (&["pfc={watchdog: 0s}"], &["pfc.watchdog: must be greater than zero"]),
    (&["ecn={kmin: 2KB, kmax: 1KB, pmax: 1%}"], &["ecn", "kmin"]),
    (&["observe.ports=[\"s1:s2\", \"s9:1\"]"], &["observe.ports[1]", "\"s9:1\" is not a switch port"]),
    (&["name=a/b"], &["name", "invalid name \"a/b\""]),
    (&["oops"], &["--set", "not an assignment"]),
    (
        &["size=1KB"],
        &["size: unknown field `size`; a path begins at the top of the file: flows.0.size (--set"],
    ),
    (&["flows.0.start=300us", "flows.0.stop=200us"], &["flows[0].stop: 200us is not after `start`, 300us"]),
    (
        &["workload={kind: incast, senders: 2, size: 1B, start: 600us, stop: 500us}"],
        &["workload.stop: 500us is not after `start`, 600us"],
    ),
    (&["until_idle=yes"], &["until_idle: ", "expected true or false"]),
    (&["seed=-1"], &["seed: ", "expected a whole number, 0 or more"]),
    (
        &["schemes=[{scheme: fncc, set: eta=0.9}]"],
        &["schemes[0].set: ", "expected a map such as {key: value}"],
    ),
    (
        &["workload={kind: poisson, sizes: websearhc, load: 1%}"],
        &["workload.sizes: ", "did you mean \"websearch\"?"],
    ),
    (
        &["workload={kind: poisson, sizes: 1KB, load: 1%, to: h1-h9}"],
        &["workload.to: host \"h9\" is not declared; the topology has h1 to h3"],
    ),
    (&["topology.senders=70000"], &["topology.senders: 70000 is out of range, use 1 to 500"]),
    (&["workload={kind: incast, senders: -2, size: 1B}"], &["expected a whole number, 0 to 4294967295"]),
    (
        &["schemes=[{scheme: fncc, eta: 0.9}]"],
        &["parameters of a scheme stand under `set`: {scheme: ..., set: {eta: ...}}"],
    ),
    (
        &["workload={kind: poisson, sizes: 1KB, load: 1%, nmae: x}"],
        &[
            "workload.nmae: unknown field `nmae`, expected one of `kind`, `name`, `sizes`",
            "did you mean \"name\"?",
        ],
    ),
    (&["workload={kind: permutation, x: 1}"], &["expected one of `kind`, `name`, `"]),
    (
        &["faults=[{kind: down, links: [h1], from: 2ms}]"],
        &["faults[0].from: 2ms is not before the end of the run (1ms)"],
    ),
    (&["faults=[{kind: loss, rate: 1%, from: 1ms}]"], &["faults[0].from: 1ms is not before the end"]),
    (
        &["faults=[{kind: restart, switch: s1, at: 2ms, refill_after: 1us}]"],
        &["faults[0].at: 2ms is not before"],
    ),
    // Errors that only the checks of hosts and routes find.
    (&["mtu=0B"], &["x.yaml", "mtu: 0B is too small"]),
    (&["transport.base_rtt=0s"], &["transport.base_rtt: must be greater than zero"]),
    (&["transport={recovery: selective}"], &["transport.recovery: fncc requires recovery: go-back-n"]),
    (&["transport={min_rto: 0s}"], &["transport.min_rto: must be greater than zero"]),
    (&["policy={imin: 20ns, k: 3}"], &["policy.imin: 20ns is shorter than"]),
    (&["policy={k: 100000}"], &["policy.imin: ", "k = 100000"]),
    (&["policy={imax: 99}"], &["policy.imax: 99 doublings exceed the maximum of 63"]),
    (
        &["policy={set: [{at: 1us, via: h1, etta: 1}]}"],
        &["policy.set[0].etta: unknown parameter \"etta\"", "column 34"],
    ),
    (
        &["policy={tune: [{hosts: [h1, h9], k: 3}]}"],
        &["policy.tune[0].hosts[1]: host \"h9\" is not declared"],
    ),
    (
        &["schemes=[{scheme: fncc, set: {eta: 0}}]"],
        &["schemes[0].set.eta: 0 is out of range; expected 0.05 to 2"],
    ),
    (&["topology.rate=0Gbps"], &["topology.rate: rate is zero; supported rates: 1Mbps"]),
    (&["topology.rate=7Gbps"], &["topology.rate: rate 7Gbps has no telemetry code"]),
    (&["topology=[star]"], &["topology: invalid type: list, expected a map of keys"]),
    (&["seed=99999999999999999999"], &["seed: 99999999999999999999 is too large"]),
    (&["mtu=100B", "schemes=[hpcc]"], &["mtu: 100B is too small", "it must be at least "]),
    (&["pfc={threshold: 0B}"], &["pfc.threshold: 0B is not above the resume offset, 3KiB"]),
    (&["faults=[{kind: loss, rate: 1%, links: [s1-s2, s1-h9]}]"], &["faults[0].links[1]: \"s1-h9\""]),
    (&["faults=[{kind: down, links: [], from: 1us}]"], &["faults[0].links: no link"]),
    (&["faults=[{kind: away, hosts: [], from: 1us}]"], &["faults[0].hosts: no host"]),
    (
        &["faults=[{kind: restart, switch: s9, at: 1us, refill_after: 1us}]"],
        &["faults[0].switch: switch \"s9\" is not declared; the topology has s1 to s3"],
    ),
    (&["observe.ports=[\"s1:99\"]"], &["is not a switch port; s1 has the ports 1 to 3"]),
    (&["ecn={kmin: 1KB, kmax: 5GB, pmax: 1%}"], &["ecn.kmax", "at most 4294967295B"]),
    (&["model_rate=1Tbps"], &["model_rate: 1Tbps: must be above 0 and at most"]),
    (&["duration=99999999s"], &["duration: time \"99999999s\" is too large; the largest is 18446744s"]),
    (
        &["workload={kind: poisson, sizes: {uniform: {min: 2KB, max: 1KB}}, load: 1%}"],
        &["workload.sizes.uniform.min: `min` 2KB is above `max` 1KB"],
    ),
    (&["workload={kind: permutation, size: 0B}"], &["workload.size: must be at least 1B"]),
    (&["workload={kind: messages, size: 1KB, load: 0}"], &["workload.load: must be above 0"]),
    (&["pfc={}", "buffer=10KB"], &["buffer: without a threshold, PFC sets ", "its buffer has 10KB; enlarge"]),
    (&["observe.size_classes=[1KB, 1KB]"], &["observe.size_classes[1]: 1KB is not above 1KB"]),
    (&["observe.fairness_window=0s"], &["observe.fairness_window: must be positive"]),
    (&["schemes=[{scheme: hpcc, label: \"\"}]"], &["schemes[0].label: must not be empty"]),
    (&["flows=[{from: h1, to: h3, announces: [h2, h9]}]"], &["flows[0].announces[1]: host \"h9\""]),
    (&["policy={set: [{at: 0s, via: h1, scheme: bbr}]}"], &["policy.set[0].scheme: unknown scheme"]),
    (&["policy={set: [{at: 0s, via: h1, eta: [1]}]}"], &["policy.set[0].eta: invalid type: list"]),
    (&["flows=[]"], &["x.yaml:2:1: no traffic: specify"]),
    (
        &["workload={kind: poisson, sizes: 1KB, load: 1%, to: h3-h1}"],
        &["workload.to: h3 comes after h1; write h1-h3"],
    ),
    (&[JELLYFISH, "routing=ecmp", "flows=[{from: h1, to: h2}]"], &["routing: ECMP is not symmetric"]),
    (
        &[
            "faults=[{kind: attack, host: h1, with: forged, at: 1us, every: 0s, times: 4294967295}]",
            "policy={}",
        ],
        &["faults[0].times", "4294967295 packets before the end of the run exceed 100000"],
    ),
    (
        &["workload={kind: poisson, sizes: 1B, load: 1}", "duration=1s"],
        &["workload.sizes: 38 billion flows would start, more than 100 million"],
    ),
    (
        &["workload={kind: incast, senders: 2, size: 1B, every: 1ps}"],
        &["workload.every: 2 billion flows would start"],
    ),
    (
        &["workload={kind: messages, size: 1B, load: 1}"],
        &["workload.size: 38 million messages, more than 1 million", "`poisson`"],
    ),
    (
        &["workload={kind: back-to-back, sizes: 1B, parallel: 4294967295}"],
        &["workload.parallel: 13 billion flows at a time, more than 1 million"],
    ),
    (&["workload={kind: all-to-all, size: 1B, parallel: 0}"], &["workload.parallel: must be at least 1"]),
    (
        &["workload={kind: jobs, jobs: 0, servers: 2, request: 1B, response: 1B}"],
        &["workload.jobs: must be at least 1"],
    ),
    (
        &["workload={kind: jobs, jobs: 1, servers: 0, request: 1B, response: 1B}"],
        &["workload.servers: must be 1 to 2, one less than the number of hosts, found 0"],
    ),
    (
        &["workload={kind: jobs, jobs: 1, servers: 3, request: 1B, response: 1B}"],
        &["workload.servers: must be 1 to 2, one less than the number of hosts, found 3"],
    ),
    (&["workload={kind: all-to-all, size: 1B, hosts: h1}"], &["workload.hosts: requires at least two hosts"]),
    (&["workload={kind: back-to-back, sizes: 1B, parallel: 0}"], &["workload.parallel: must be at least 1"]),
    (&["workload={kind: all-to-all, size: 1B, start: 1ms}"], &["workload.start"]),
    (
        &["workload={kind: jobs, jobs: 4294967295, servers: 2, request: 1B, response: 1B}"],
        &["workload.jobs: 9 billion flows at a time"],
    ),
    (
        &["workload={kind: permutation, start: 1ms}"],
        &["workload.start: 1ms is not before the end of the run (1ms)"],
    ),
    (
        &["workload={kind: incast, senders: 2, size: 1B, to: h3, start: 2ms}"],
        &["workload.start: 2ms is not before the end of the run (1ms)"],
    ),
    (
        &["workload={kind: incast, senders: 2, flows: 1, size: 1B}"],
        &["workload.flows: at least one flow per sender is required: 1 flows, 2 senders"],
    ),
];

/// Each invalid input gives one line with file, key path, problem and remedy.
#[test]
fn errors_have_key_path_and_reason() {
    for (overrides, parts) in ERRORS {
        let text = message(GOOD, overrides);
        for part in *parts {
            assert!(text.contains(part), "{overrides:?}: \"{text}\" lacks \"{part}\"");
        }
        assert!(!text.contains('\n'), "{overrides:?}: more than one line: {text}");
    }
}

/// The file does not contain the value, so its lines would mislead.
#[test]
fn an_error_in_an_override_quotes_the_assignment() {
    for (assignment, column, expected) in [
        ("topology.senders=-4", 18, "x.yaml: topology.senders: -4 is out of range, use 1 to 500"),
        (
            "topology.rate=100",
            15,
            "x.yaml: topology.rate: rate \"100\" has no unit, write it like 100Gbps or 10Mbps",
        ),
        ("topology={kind: star, hosts: -4}", 30, "x.yaml: topology.hosts: -4 is out of range, use 1 to 500"),
        ("workload.load=60", 15, "x.yaml: workload: missing field `kind`"),
        ("topology.hosts=4", 10, "x.yaml: topology.hosts: unknown field `hosts`"),
        ("flavour=mint", 1, "x.yaml: flavour: unknown field `flavour`"),
        ("flows.1.from=h9", 14, "x.yaml: flows[1].from: host \"h9\" is not declared"),
        ("schemes=[bbr]", 10, "x.yaml: schemes[0]"),
    ] {
        let text = message(GOOD, &[assignment]);
        assert!(text.starts_with(expected), "{text}");
        assert!(text.ends_with(&format!(" (--set {assignment}, column {column})")), "{text}");
    }
    let text = message(GOOD, &["schemes=[fncc"]);
    assert_eq!(
        text,
        "--set schemes: expected `,` or a closing `]` or `}`; is one missing before this? (--set schemes=[fncc)"
    );
    let text = message(&GOOD.replace("1.5us", "1.5"), &["duration=2ms"]);
    assert!(text.starts_with("x.yaml:2:") && !text.contains("--set"), "{text}");
}

#[test]
fn errors_of_hosts_and_routes_have_a_position() {
    let text = message(&format!("{GOOD}mtu: 0B\n"), &[]);
    assert!(text.starts_with("x.yaml:10:6: mtu: 0B is too small"), "{text}");
    let text = message(&format!("{GOOD}transport:\n  recovery: selective\n"), &[]);
    assert!(text.starts_with("x.yaml:11:13: transport.recovery: fncc requires"), "{text}");
    let text = message(&format!("{GOOD}routing: ecmp\n"), &[JELLYFISH, "flows=[{from: h1, to: h2}]"]);
    assert!(
        text.starts_with("x.yaml:10:10: routing: ECMP is not symmetric on this topology, use trees: h"),
        "{text}"
    );
}

#[test]
fn errors_of_messages_are_located_at_the_key() {
    let with = |keys: &str| message(&format!("{GOOD}workload: {{kind: messages, {keys}}}\n"), &[]);
    let (size, start) = (with("load: 10%, size: 0B"), with("size: 1KB, load: 10%, start: 1ms"));
    assert_eq!(size, "x.yaml:10:45: workload.size: must be at least 1B");
    assert_eq!(start, "x.yaml:10:57: workload.start: 1ms is not before the end of the run (1ms)");
}

#[test]
fn keys_with_two_spellings_are_one() {
    let incast = "{kind: incast, senders: 2, size: 1KB}";
    let written = |keys: &str| parse(&format!("{GOOD}{keys}\n"), &[]).unwrap().resolved_yaml();
    for (several, single) in [
        (format!("workloads: [{incast}]"), format!("workload: {incast}")),
        (format!("workloads: [{incast}, {incast}]"), format!("workload: {incast}\nworkloads: [{incast}]")),
        (
            "faults: [{kind: impair, loss: 1%, to: 1us}]".into(),
            "faults: [{kind: loss, rate: 1%, to: 1us}]".into(),
        ),
    ] {
        assert_eq!(written(&several), written(&single));
    }
    let error = |keys: &str| message(&format!("{GOOD}{keys}\n"), &[]);
    let both =
        |first: &str, second: &str| error(&format!("workload: {first}\nworkloads: [{incast}, {second}]"));
    let invalid = "{kind: incast, senders: 2, size: 0B}";
    assert!(
        both(incast, invalid).starts_with("x.yaml:11:85: workloads[1].size: "),
        "{}",
        both(incast, invalid)
    );
    assert!(both(invalid, incast).starts_with("x.yaml:10:44: workload.size: "), "{}", both(invalid, incast));
    let lost = error("faults: [{kind: loss, rate: 2}]");
    assert!(lost.starts_with("x.yaml:10:29: faults[0].rate: 200 % is more than 100 %"), "{lost}");
}

#[test]
fn trees_as_a_fallback_differ_from_trees_that_the_file_specifies() {
    let trees = |overrides: &[&str]| parse(GOOD, overrides).unwrap().trees_instead_of_ecmp();
    let flows = "flows=[{from: h1, to: h2}]";
    assert_eq!(trees(&[]), None);
    assert!(trees(&[JELLYFISH, flows]).is_some_and(|trees| trees > 1));
    assert_eq!(trees(&[JELLYFISH, flows, "routing=trees"]), None);
}

#[test]
fn an_attack_ends_with_the_run() {
    let attack =
        "faults=[{kind: attack, host: h1, with: forged, at: 100us, every: 300us, times: 4294967295}]";
    let times: Vec<Time> =
        parse(GOOD, &[attack, "policy={}"]).unwrap().changes.iter().map(|scheduled| scheduled.at).collect();
    assert_eq!(times, [100, 400, 700, 1000].map(Time::from_us));
}

#[test]
fn an_unknown_parameter_is_located_at_its_name() {
    let with = |set: &str| message(&GOOD.replace("lhcs: off", set), &[]);
    let (unknown, value) = (with("lhsc: off"), with("lhcs: maybe"));
    assert!(
        unknown.starts_with("x.yaml:5:42: schemes[1].set.lhsc: unknown parameter \"lhsc\" of fncc"),
        "{unknown}"
    );
    assert!(value.starts_with("x.yaml:5:48: schemes[1].set.lhcs: "), "{value}");
}

#[test]
fn without_overrides_errors_have_a_position() {
    let text = message(&GOOD.replace("start: 300us", "start: 300"), &[]);
    assert!(text.starts_with("x.yaml:7:31: flows[0].start: ") && text.contains("has no unit"), "{text}");
    assert!(message("topology: [", &[]).starts_with("x.yaml:2:1: "), "{}", message("topology: [", &[]));
    assert!(message("", &[]).starts_with("x.yaml:1:1: "), "{}", message("", &[]));
}

#[test]
fn invalid_links_and_disconnected_hosts_are_rejected() {
    let custom = |links: &str| {
        format!(
            "topology: {{kind: custom, hosts: [h1, h2], switches: [s1, s2], links: {links}}}\n\
             schemes: [fncc]\nflows: [{{from: h1, to: h2}}]\nduration: 1ms\n"
        )
    };
    assert!(parse(&custom("[[h1, s1], [h2, s2], [s1, s2]]"), &[]).is_ok());
    let text = message(&custom("[[h1, s1], [h2, s2], [s1, s1]]"), &[]);
    assert!(text.contains("topology.links[2]: ") && text.contains("itself"), "{text}");
    let text = message(&custom("[[h1, s1], [h2, s2], [s1, s9]]"), &[]);
    assert!(text.contains("topology.links[2]: ") && text.contains("\"s9\" is not declared"), "{text}");
    let text = message(&custom("[[h1, s1], [h2, s2]]"), &[]);
    assert!(text.contains("h1") && text.contains("h2"), "names the disconnected pair: {text}");
}

/// The parser's own words say neither which line is wrong nor what to do.
#[test]
fn syntax_errors_say_what_is_wrong() {
    for (text, expected) in [
        (
            "topology:\n  kind: star\n   hosts: 4\n",
            "3:4: this line is indented by 3 columns, deeper than line 2 (2), whose key already has a value",
        ),
        (
            "topology:\n  kind: star\n\n hosts: 4\n",
            "4:2: this line is indented by 1 column, as nothing above it (0, 2)",
        ),
        (
            "flows:\n  - from: h1\n   to: h2\n",
            "3:4: this line is indented by 3 columns, as nothing above it (0, 2, 4)",
        ),
        (
            "flows:\n  - {from: h1}\n - {from: h2}\n",
            "3:2: this line is indented by 1 column, as nothing above it (0, 2)",
        ),
        ("name: x\n- a\n", "2:1: a list entry among keys; indent it below the key that it belongs to"),
        ("topology:\n\tkind: star\n", "2:1: this line is indented by a tab; YAML permits only spaces"),
        ("flows:\n  - from: h1\n\tto: h2\n", "3:1: this line is indented by a tab; YAML permits only spaces"),
        ("name:\tx\nduration:\t1ms\n", "1:6: a tab; write a space instead"),
        (
            "schemes:\n - fncc\n  - hpcc\n",
            "3:3: schemes[0]: this line is indented by 2 columns, deeper than the list entry in line 2 (1), and so \
             continues its text; give both the same indentation",
        ),
        ("title: a: b\n", "1:9: a second `: ` in one value; write the value in quotes"),
        ("name: x\ntitle \"b\"\nduration: 1ms\n", "2:1: expected `key: value`, with a space after the colon"),
        (
            "name: \"x\nduration: 1ms\n",
            "1:7: the quote that begins here has no end, or a line that continues it is not indented",
        ),
        (
            "schemes: [a, b\nduration: 1ms\n",
            "2:9: expected `,` or a closing `]` or `}`; is one missing before this?",
        ),
        ("flows: @x\n", "1:8: a value cannot begin with `@`; write it in quotes"),
        (
            "topology:\nkind: star\n",
            "1:9: topology: no value, expected a map of keys; indent its keys below it",
        ),
    ] {
        assert_eq!(message(text, &[]), format!("x.yaml:{expected}"), "{text}");
    }
}

#[test]
fn a_scale_model_scales_the_nic() {
    let keys = [
        "nic={send_delay: 1us, receive_delay: 2us, ack_delay: 3us, cnp_delay: 4us, coalesce_time: 5us}",
        "nic.packet_rate=8000000",
        "nic.coalesce_frames=32",
        "model_rate=10Mbps",
    ];
    let nic = parse(GOOD, &keys).unwrap().spec.nic.expect("the file has the key").config();
    let times = [nic.send_delay, nic.receive_delay, nic.ack_delay, nic.cnp_delay, nic.coalesce_time];
    assert_eq!(times, [10, 20, 30, 40, 50].map(Time::from_ms));
    assert_eq!((nic.packet_rate, nic.coalesce_frames), (Some(800), Some(32)));
}

#[test]
fn a_nic_that_cannot_work_is_refused() {
    let refused = message(GOOD, &["nic={coalesce_frames: 32}"]);
    let expected =
        "x.yaml: nic.coalesce_frames: requires coalesce_time, or fewer frames than that would wait for ever";
    assert!(refused.starts_with(expected), "{refused}");
    assert!(message(GOOD, &["nic={packet_rate: 0}"]).contains("nic.packet_rate"));
    assert!(message(GOOD, &["nic={recieve_delay: 1us}"]).contains("receive_delay"));
}
