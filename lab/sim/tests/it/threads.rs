//! Every experiment of the repository gives the same digest on one thread and on several.

use std::path::{Path, PathBuf};
use weir_experiment::results::SchemeTrace;
use weir_experiment::{Experiment, Flow};
use weir_sim::Simulation;
use weir_units::Time;

/// Maximum virtual time of each experiment, unless `WEIR_THREADS` is set.
const MAX_DURATION: Time = Time::from_us(50);
/// The same for experiments with policies, whose dissemination takes several Trickle intervals.
const MAX_DURATION_WITH_POLICIES: Time = Time::from_us(100);
/// The same for fabrics of [`LARGE_FABRIC`] hosts or more.
const MAX_DURATION_OF_LARGE_FABRICS: Time = Time::from_us(25);
const LARGE_FABRIC: usize = 100;
/// Number of flows that are moved into the shortened run.
const MOVED_FLOWS: usize = 16;

fn files() -> Vec<PathBuf> {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments");
    let entries = std::fs::read_dir(dir).expect("the repository has experiments");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("a file").path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    files.sort();
    files
}

/// An experiment of seconds whose hosts start a flow every 780 ms.
const WITHOUT_EARLY_FLOWS: &str = "amp-fig14-ms.yaml";

/// Loads an experiment and shortens it to `longer`, or by default to the maximum duration. Its first flows, faults and
/// policies are moved into that time.
fn shortened(path: &Path, longer: Option<Time>) -> Experiment {
    let mut experiment = Experiment::load(path, &[], None).unwrap_or_else(|error| panic!("{error}"));
    let duration = longer.unwrap_or(match (&experiment.spec.policy, experiment.topology.hosts.len()) {
        (Some(_), _) => MAX_DURATION_WITH_POLICIES,
        (None, LARGE_FABRIC..) => MAX_DURATION_OF_LARGE_FABRICS,
        (None, _) => MAX_DURATION,
    });
    if experiment.spec.duration <= duration {
        return experiment;
    }
    experiment.spec.duration = duration;
    for Flow { start, stop, .. } in experiment.flows.iter_mut().take(MOVED_FLOWS) {
        *start = *start % duration;
        *stop = stop.map(|stop| *start + stop % duration);
    }
    experiment.flows.sort_by_key(|flow| flow.start);
    for scheduled in &mut experiment.changes {
        scheduled.at = scheduled.at % duration;
    }
    experiment.changes.sort_by_key(|scheduled| scheduled.at);
    experiment
}

/// Runs the first and the last scheme of each experiment on two, three or eight threads, in turn. `WEIR_THREADS=2ms`
/// runs all schemes on each of these numbers of threads, for 2 ms each.
#[test]
fn every_experiment_gives_the_same_bytes_on_any_number_of_threads() {
    let longer =
        std::env::var("WEIR_THREADS").ok().map(|text| text.parse::<Time>().expect("a span like 2ms"));
    for (path, default_threads) in files().iter().zip([2, 3, 8].into_iter().cycle()) {
        let mut experiment = shortened(path, longer);
        if longer.is_none() {
            let label = |scheme: &weir_experiment::Scheme| scheme.label.clone();
            let mut some = vec![label(&experiment.schemes[0])];
            some.extend(experiment.schemes[1..].last().map(label));
            experiment.retain_schemes(&some).expect("labels of its own");
        }
        let digest = |threads| {
            // Every window is shared, however little there is to do; schemes run one after the other.
            let virtual_time = Simulation { jobs: 1, parallel_threshold: 0, ..Simulation::new(threads) };
            let results = weir_sim::run_on(&experiment, &virtual_time, &mut ()).expect("the run succeeds");
            (results.summary.digest, results.summary.packet_hops)
        };
        let single = digest(1);
        let is_idle = path.ends_with(WITHOUT_EARLY_FLOWS);
        assert!(single.1 > 0 || is_idle, "{}: nothing happened", path.display());
        let threads = if longer.is_some() { vec![2, 3, 8] } else { vec![default_threads] };
        for threads in threads {
            assert_eq!(digest(threads), single, "{} on {threads} threads", path.display());
        }
    }
}

/// Covers closed loops and early ends: the end of a flow starts the next one, and the end of the last flow ends the
/// run.
#[test]
fn closed_loops_and_early_ends_do_not_depend_on_threads() {
    for traffic in [
        "workload: {kind: back-to-back, sizes: {choice: [1KB, 30KB]}, count: 300}\nuntil_idle: true",
        "workload: {kind: jobs, jobs: 3, servers: 4, request: 2KB, response: 20KB, count: 40}\nuntil_idle: true",
        "workload: {kind: all-to-all, size: 5KB, parallel: 2}\nuntil_idle: true",
        "workload: {kind: all-to-all, size: 5KB, parallel: 2}\nuntil_idle: true\n\
         faults: [{kind: impair, jitter: 3us, reorder: 1%, reorder_by: 5us, duplicate: 1%, corrupt: 0.1%}]",
        "workload: {kind: poisson, sizes: 20KB, load: 50%, stop: 30us}\nuntil_idle: true\nobserve: {packets: true}",
    ] {
        let text = format!(
            "topology: {{kind: fat-tree, k: 4, rate: 100Gbps, delay: 1us}}\nschemes: [hpcc, dctcp]\nduration: 2ms\n{traffic}\n"
        );
        let experiment = Experiment::parse(&text, "x.yaml", "x", &[], None).unwrap_or_else(|e| panic!("{e}"));
        let run = |threads| {
            let virtual_time =
                Simulation { parallel_threshold: 0, trace_paths: true, ..Simulation::new(threads) };
            let results = weir_sim::run_on(&experiment, &virtual_time, &mut ()).expect("the run succeeds");
            let packets = |trace: &SchemeTrace| format!("{:?}", trace.packets);
            (results.summary, results.traces.values().map(packets).collect::<Vec<_>>())
        };
        let (single, packets) = run(1);
        assert!(single.virtual_s < 2.0 * 0.002, "{traffic}: it ends early, after {} s", single.virtual_s);
        assert!(
            packets.iter().all(|paths| paths.contains("delivered: Some")),
            "{traffic}: no packet was traced"
        );
        for threads in [2, 3, 8] {
            let (summary, others) = run(threads);
            assert_eq!(summary.digest, single.digest, "{traffic} on {threads} threads");
            assert!(others == packets, "{traffic} on {threads} threads: other packets");
        }
    }
}
