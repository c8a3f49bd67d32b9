use super::*;

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

fn parse(text: &str, overrides: &[&str]) -> Result<Experiment, ExperimentError> {
    let overrides: Vec<String> = overrides.iter().map(|s| (*s).to_owned()).collect();
    Experiment::parse(text, "x.yaml", "x", &overrides, None)
}

fn message(text: &str, overrides: &[&str]) -> String {
    parse(text, overrides).err().expect("an error").to_string()
}

#[test]
fn a_good_file_is_resolved() {
    let experiment = parse(GOOD, &[]).unwrap();
    assert_eq!(experiment.spec.name, "x");
    assert_eq!(experiment.schemes.iter().map(|s| s.label.as_str()).collect::<Vec<_>>(), ["fncc", "no-lhcs"]);
    let names: Vec<_> = experiment.flows.iter().map(|f| f.name.as_str()).collect();
    assert_eq!(names, ["h1->h3", "h2->h3"], "flows are in order of start");
    assert!(experiment.flows.iter().all(|f| f.entropy_port >= 49_152));
}

#[test]
fn a_resolved_file_reads_back_as_itself() {
    let experiment = parse(GOOD, &["observe.fairness_window=300us"]).unwrap();
    let again = parse(&experiment.resolved_yaml(), &[]).unwrap();
    assert_eq!(again.resolved_yaml(), experiment.resolved_yaml());
    assert_eq!(again.flows, experiment.flows);
}

#[test]
fn overrides_and_seed_replace_what_the_file_says() {
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

/// Each bad input gives one line with file, place, problem and remedy.
#[test]
fn bad_input_is_named_with_its_place() {
    let cases: &[(&[&str], &[&str])] = &[
        (&["flavour=mint"], &["x.yaml", "flavour", "unknown field"]),
        (&["flows.1.frm=h1"], &["x.yaml", "flows[1]", "unknown field `frm`"]),
        (&["schemes=[bbr]"], &["x.yaml", "schemes[0]", "bbr"]),
        (&["schemes=[]"], &["schemes", "weir schemes"]),
        (&["schemes=[{scheme: fncc, set: {lhsc: off}}]"], &["schemes[0]", "lhsc"]),
        (&["schemes=[fncc, fncc]"], &["schemes[1]", "label"]),
        (&["flows.1.from=h9"], &["x.yaml", "flows[1].from", "host \"h9\" is not declared", "h1 to h3"]),
        (&["flows.1.to=h1"], &["flows[1].to", "cannot send to itself"]),
        (&["flows.0.size=-5KB"], &["flows[0].size", "negative"]),
        (&["flows.0.size=0B"], &["flows[0].size", "empty"]),
        (&["flows.0.start=1ms"], &["flows[0].start", "not before the end"]),
        (&["flows=[]"], &["flows", "list flows or give a workload"]),
        (&["topology.rate=100"], &["x.yaml", "topology", "has no unit"]),
        (&["topology.kind=torus"], &["x.yaml", "topology", "torus"]),
        (&["duration=0s"], &["duration"]),
        (&["duration=-1ms"], &["duration", "negative"]),
        (&["observe.interval=0s"], &["observe.interval"]),
        (&["transport.ack_every=0"], &["transport.ack_every"]),
        (&["pfc=on"], &["pfc"]),
        (&["ecn={kmin: 2KB, kmax: 1KB, pmax: 1%}"], &["ecn", "kmin"]),
        (&["observe.ports=[\"s1:s2\", \"s9:1\"]"], &["observe.ports[1]", "\"s9:1\" is not a switch port"]),
        (&["name=a/b"], &["name", "directory"]),
        (&["oops"], &["--set", "not an assignment"]),
    ];
    for (overrides, parts) in cases {
        let text = message(GOOD, overrides);
        for part in *parts {
            assert!(text.contains(part), "{overrides:?}: \"{text}\" lacks \"{part}\"");
        }
        assert!(!text.contains('\n'), "{overrides:?}: more than one line: {text}");
    }
}

#[test]
fn an_unknown_parameter_is_marked_at_its_name() {
    let with = |set: &str| message(&GOOD.replace("lhcs: off", set), &[]);
    let (unknown, value) = (with("lhsc: off"), with("lhcs: maybe"));
    assert!(
        unknown.starts_with("x.yaml:5:42: schemes[1].set.lhsc: fncc has no parameter \"lhsc\""),
        "{unknown}"
    );
    assert!(value.starts_with("x.yaml:5:48: schemes[1].set.lhcs: "), "{value}");
}

#[test]
fn without_overrides_the_line_is_named() {
    let text = message(&GOOD.replace("start: 300us", "start: 300"), &[]);
    assert!(text.starts_with("x.yaml:7:31: flows[0].start: ") && text.contains("has no unit"), "{text}");
    assert!(message("topology: [", &[]).starts_with("x.yaml:2:1: "), "{}", message("topology: [", &[]));
    assert!(message("", &[]).starts_with("x.yaml:1:1: "), "{}", message("", &[]));
}

#[test]
fn a_link_to_itself_and_an_undeclared_end_and_a_lonely_host_are_refused() {
    let custom = |links: &str| {
        format!(
            "topology: {{kind: custom, hosts: [h1, h2], switches: [s1, s2], links: {links}}}\n\
             schemes: [fncc]\nflows: [{{from: h1, to: h2}}]\nduration: 1ms\n"
        )
    };
    assert!(parse(&custom("[[h1, s1], [h2, s2], [s1, s2]]"), &[]).is_ok());
    let text = message(&custom("[[h1, s1], [h2, s2], [s1, s1]]"), &[]);
    assert!(text.contains("link 3") && text.contains("itself"), "{text}");
    let text = message(&custom("[[h1, s1], [h2, s2], [s1, s9]]"), &[]);
    assert!(text.contains("link 3") && text.contains("\"s9\" is not declared"), "{text}");
    let text = message(&custom("[[h1, s1], [h2, s2]]"), &[]);
    assert!(text.contains("h1") && text.contains("h2"), "names the disconnected pair: {text}");
}
