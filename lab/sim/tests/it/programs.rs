//! Switch programs: `weir.p4` gives the same digest as the own program of each scheme that it supports, both engines
//! give the same digest, and programs of users run.

use std::path::Path;
use weir_experiment::Experiment;
use weir_experiment::results::SchemeSummary;
use weir_host::scheme::SwitchProgram;
use weir_host::schemes::Registry;
use weir_sim::Simulation;
use weir_switch::program::Engine;

/// Returns an experiment with flows that collide in the fabric and at a receiver, and with short messages. `more` are
/// further keys of the file.
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
    (results.summary.digest, results.summary.schemes.remove(scheme).expect("the scheme ran"))
}

/// Covers every scheme and thereby every program of `p4src`.
#[test]
fn both_engines_give_the_same_digest() {
    for scheme in Registry::builtin().schemes() {
        let experiment = experiment(scheme.name(), "observe: {packets: true}").unwrap();
        let digest = |engine| {
            let backend = Simulation { engine, ..Simulation::new(1) };
            weir_sim::run_on(&experiment, &backend, &mut ()).unwrap().summary.digest
        };
        assert_eq!(digest(Engine::Compiled), digest(Engine::Interpreter), "{}", scheme.name());
    }
}

#[test]
fn weir_p4_matches_the_program_of_each_scheme() {
    let (mut supported, mut deflections, mut marks) = (Vec::new(), 0, 0);
    for scheme in Registry::builtin().schemes() {
        let (name, needed) = (scheme.name(), scheme.needs().program);
        let is_supported = SwitchProgram::Weir.capabilities().contains(scheme.needs().capabilities());
        if needed == SwitchProgram::Weir || !is_supported {
            continue;
        }
        let ((own_digest, summary), (weir_digest, _)) = (run(name, ""), run(name, "program: weir"));
        assert_eq!(own_digest, weir_digest, "{name}");
        supported.push(needed);
        deflections += summary.deflections;
        marks += summary.marks;
    }
    for program in [SwitchProgram::Ecn, SwitchProgram::Hpcc, SwitchProgram::Fncc, SwitchProgram::Dart] {
        assert!(supported.contains(&program), "{program}");
    }
    assert!(deflections > 100 && marks > 100, "{deflections} deflections, {marks} marks");
}

#[test]
fn missing_parts_of_a_program_are_named() {
    let cases = [
        ("rocc", "weir", "RoCC's fair rates (table \"rocc_port\")"),
        ("rcp", "weir", "RCP's fair rates (table \"rcp_port\")"),
        (
            "hpcc++",
            "weir",
            "INT records with switch and port ids (annotation @weir_telemetry(\"links\") of main)",
        ),
        ("expresspass", "weir", "a limit on the rate of credits (table \"credit_port\")"),
        ("weir", "fncc", "deflection (table \"deflection\")"),
        ("hpcc", "dart", "INT records on DATA packets (annotation @weir_telemetry(\"data\") of main)"),
    ];
    for (scheme, program, missing) in cases {
        let reason = experiment(scheme, &format!("program: {program}")).err().expect("it is rejected");
        assert_eq!(
            reason,
            format!(
                "x.yaml:2:11: schemes[0]: {scheme} requires {missing}, which {program}.p4 does not provide"
            )
        );
    }
    let reason = experiment("fncc", "program: weird").err().expect("it is rejected");
    assert!(reason.contains("unknown switch program \"weird\"; known programs: ecn, hpcc,"), "{reason}");
}

/// The program of each scheme has all the capabilities that the scheme needs with default parameters.
#[test]
fn schemes_run_on_their_own_programs() {
    for scheme in Registry::builtin().schemes() {
        let needs = scheme.needs();
        assert!(needs.program.capabilities().contains(needs.capabilities()), "{}", scheme.name());
    }
}

/// The example's program marks by sojourn time, with a threshold that only `entries` sets.
#[test]
fn a_users_program_runs_with_its_entries() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/own-p4/marks.yaml");
    let run = |overrides: &[&str]| {
        let overrides: Vec<String> = overrides.iter().map(|&text| text.to_owned()).collect();
        let experiment = Experiment::load(&example, &overrides, None).unwrap_or_else(|e| panic!("{e}"));
        let mut results = weir_sim::run(&experiment, &mut ()).unwrap();
        results.summary.schemes.remove("dctcp").expect("the scheme ran")
    };
    let (marked, unmarked) = (run(&[]), run(&["entries=[]"]));
    assert!(marked.marks > 100, "{}", marked.marks);
    assert_eq!(unmarked.marks, 0);
    // With entries for one switch only, only that switch marks.
    let one = run(&["entries.0.switches=[s2]"]);
    assert!(one.marks < marked.marks, "{} {}", one.marks, marked.marks);
}

/// One file compares marks by queue length with marks by sojourn time, and each scheme gives the results of a file of its
/// own. `run.yaml` repeats it.
#[test]
fn schemes_of_one_experiment_run_different_programs() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/own-p4/marks.yaml");
    let run = |overrides: &[&str]| {
        let overrides: Vec<String> = overrides.iter().map(|&text| text.to_owned()).collect();
        let experiment = Experiment::load(&example, &overrides, None).unwrap_or_else(|e| panic!("{e}"));
        (weir_sim::run(&experiment, &mut ()).unwrap().summary, experiment.resolved_yaml())
    };
    let queue = "{scheme: dctcp, label: queue, program: ecn, entries: []}";
    let sojourn =
        "{scheme: dctcp, label: sojourn, program: build/own_p4.json, entries: [{file: entries.json}]}";
    let both = format!("schemes=[{queue}, {sojourn}]");
    let (in_one_file, yaml) = run(&[&both]);
    let (own_program, _) = run(&[]);
    let (own_marks, _) = run(&["program=ecn", "entries=[]"]);
    assert_eq!(in_one_file.schemes["sojourn"], own_program.schemes["dctcp"]);
    assert_eq!(in_one_file.schemes["queue"], own_marks.schemes["dctcp"]);
    assert_ne!(in_one_file.schemes["queue"].marks, in_one_file.schemes["sojourn"].marks);
    let again = Experiment::parse(&yaml, "run.yaml", "run", &[], None).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(again.resolved_yaml(), yaml);
    assert_eq!(weir_sim::run(&again, &mut ()).unwrap().summary.digest, in_one_file.digest);
}

#[test]
fn errors_in_a_schemes_own_program_name_its_keys() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/own-p4/marks.yaml");
    let cases = [
        ("schemes=[{scheme: dctcp, program: none.json}]", "schemes[0].program: "),
        (
            "schemes=[{scheme: fncc, program: ecn, entries: []}]",
            "schemes[0]: fncc requires INT records on ACKs (annotation @weir_telemetry(\"acks\") of main), which ecn.p4",
        ),
        (
            "schemes=[{scheme: dctcp, program: ecn}]",
            "(ecn.p4, the program of schemes[0]; set `entries` there, possibly to [])",
        ),
        (
            "schemes=[{scheme: dctcp, program: ecn, entries: [{file: entries.json}]}]",
            "schemes[0].entries[0]: ",
        ),
        (
            "schemes=[{scheme: dctcp, entries: [{file: entries.json, switches: [s9]}]}]",
            "schemes[0].entries[0].switches: switch \"s9\" is not declared",
        ),
        (
            "flows.0.scheme={scheme: dctcp, program: ecn}",
            "flows[0].scheme.program: switches run one program for all hosts; set `program` under `schemes`",
        ),
    ];
    for (overrides, expected) in cases {
        let reason =
            Experiment::load(&example, &[overrides.to_owned()], None).err().expect(overrides).to_string();
        assert!(reason.contains(expected), "{overrides}: {reason}");
    }
}

#[test]
fn errors_in_a_users_program_are_reported_before_the_run() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/own-p4/marks.yaml");
    let cases = [
        ("program=missing.json", "missing.json: No such file"),
        ("program=own_p4.p4", "own_p4.p4 is P4 source; compile it with p4c-bm2-ss and specify the .json"),
        ("program={json: build/own_p4.json, p4info: entries.json}", "not a P4Info in text format"),
        ("program=entries.json", "P4Info not found: "),
        (
            "schemes.0=fncc",
            "fncc requires INT records on ACKs (annotation @weir_telemetry(\"acks\") of main), which ",
        ),
        ("entries.0.switches=[s9]", "entries[0].switches: switch \"s9\" is not declared"),
        ("entries.0.file=none.json", "none.json: No such file"),
        ("entries.0.file=marks.yaml", "not a WriteRequest in text format"),
        (
            "program=ecn",
            "entries.json:5:16: table_entries[0].table: the program has no table \"sojourn_mark\", it has WeirIngress.",
        ),
    ];
    for (overrides, expected) in cases {
        let reason =
            Experiment::load(&example, &[overrides.to_owned()], None).err().expect(overrides).to_string();
        assert!(reason.contains(expected), "{overrides}: {reason}");
    }
}

/// With `weir.p4`, hosts change the congestion control during a run, without losses and with a busy link.
#[test]
fn a_fabric_of_weir_p4_changes_its_scheme_while_it_runs() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/policy-live.yaml");
    let experiment = Experiment::load(&file, &[], None).unwrap_or_else(|e| panic!("{e}"));
    let results = weir_sim::run(&experiment, &mut ()).unwrap();
    let scheme = &results.summary.schemes["hpcc"];
    let policy = scheme.policy.as_ref().expect("the experiment has policies");
    let changes: Vec<_> = policy.sets.iter().map(|set| (set.change.as_str(), set.hosts)).collect();
    assert_eq!(changes, [("scheme=fncc", 3), ("scheme=timely", 3), ("scheme=hpcc", 3)]);
    assert!(scheme.drops.is_empty() && scheme.retransmits == 0, "{:?}", scheme.drops);
    let busiest = scheme.utilisation.values().copied().fold(0.0, f64::max);
    assert!(busiest > 0.9, "{busiest}");
}
