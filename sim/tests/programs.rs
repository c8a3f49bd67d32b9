//! `weir.p4` does for every scheme that it serves what the scheme's own program does: packet by packet, to the digest.

use std::path::Path;
use weir_host::scheme::SwitchProgram;
use weir_host::schemes::Registry;
use weir_sim::artifacts::Artifact;
use weir_sim::experiment::Experiment;
use weir_sim::results::SchemeSummary;

/// Senders that collide in the fabric and at a receiver, and short messages beside them.
fn experiment(scheme: &str, more: &str) -> Result<Experiment, String> {
    let text = format!(
        "topology: {{kind: leaf-spine, leaves: 3, spines: 2, hosts_per_leaf: 3, rate: 100Gbps, delay: 1us}}
schemes: [{scheme}]
ack_priority: true
flows:
  - {{from: h1, to: h4}}
  - {{from: h2, to: h5}}
  - {{from: h3, to: h4, start: 20us, announces: [h7]}}
  - {{from: h7, to: h4, start: 30us, size: 200KB}}
workload: {{kind: messages, size: 8KB, load: 0.3, start: 20us, stop: 150us}}
duration: 200us
{more}"
    );
    Experiment::parse(&text, "x.yaml", "x", &[], None).map_err(|e| e.to_string())
}

fn run(scheme: &str, more: &str) -> (String, SchemeSummary) {
    let experiment = experiment(scheme, more).unwrap_or_else(|e| panic!("{e}"));
    let mut results = weir_sim::run(&experiment, &mut ()).unwrap_or_else(|e| panic!("{scheme}: {e}"));
    (results.summary.digest, results.summary.schemes.remove(scheme).expect("it ran"))
}

#[test]
fn weir_p4_does_what_each_schemes_own_program_does() {
    let (mut served, mut deflections, mut marks) = (Vec::new(), 0, 0);
    for scheme in Registry::builtin().schemes() {
        let (name, needed) = (scheme.name(), scheme.needs().program);
        if needed == SwitchProgram::Weir || !SwitchProgram::Weir.serves(needed) {
            continue;
        }
        let ((own, summary), (weirs, _)) = (run(name, ""), run(name, "program: weir"));
        assert_eq!(own, weirs, "{name}");
        served.push(needed);
        deflections += summary.deflections;
        marks += summary.marks;
    }
    for program in [SwitchProgram::Ecn, SwitchProgram::Hpcc, SwitchProgram::Fncc, SwitchProgram::Dart] {
        assert!(served.contains(&program), "{program}");
    }
    assert!(deflections > 100 && marks > 100, "{deflections} deflections, {marks} marks");
}

#[test]
fn what_weir_p4_does_not_do_is_refused() {
    for scheme in ["rocc", "rcp", "hpcc++", "expresspass"] {
        let why = experiment(scheme, "program: weir").err().expect("it is refused");
        assert!(why.starts_with(&format!("x.yaml: schemes[0]: {scheme} needs ")), "{why}");
        assert!(why.ends_with("weir.p4 (`program`) does not do what that does"), "{why}");
    }
    let why = experiment("weir", "program: fncc").err().expect("it is refused");
    assert!(why.contains("weir needs weir.p4, and fncc.p4"), "{why}");
    let why = experiment("fncc", "program: weird").err().expect("it is refused");
    assert!(why.contains("there is no program \"weird\", there are ecn, hpcc,"), "{why}");
}

#[test]
fn every_program_is_compiled() {
    for program in SwitchProgram::ALL {
        assert_eq!(Artifact::of(program).name, program.name());
        assert!(program.serves(program));
    }
}

/// On it a fabric changes its congestion control while it runs, and neither loses nor stops.
#[test]
fn a_fabric_of_weir_p4_changes_its_scheme_while_it_runs() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../experiments/policy-live.yaml");
    let experiment = Experiment::load(&file, &[], None).unwrap_or_else(|e| panic!("{e}"));
    let results = weir_sim::run(&experiment, &mut ()).unwrap();
    let scheme = &results.summary.schemes["hpcc"];
    let policy = scheme.policy.as_ref().expect("its hosts take part");
    let ran: Vec<_> = policy.sets.iter().map(|set| (set.change.as_str(), set.hosts)).collect();
    assert_eq!(ran, [("scheme=fncc", 3), ("scheme=timely", 3), ("scheme=hpcc", 3)]);
    assert!(scheme.drops.is_empty() && scheme.retransmits == 0, "{:?}", scheme.drops);
    let busiest = scheme.utilisation.values().copied().fold(0.0, f64::max);
    assert!(busiest > 0.9, "{busiest}");
}
