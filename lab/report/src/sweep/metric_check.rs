//! Validates the requested metrics before the first run, against an artificial summary with every key that the
//! experiment can produce.

use super::measure::MetricColumn;
use super::task::RunTask;
use std::collections::BTreeMap;
use weir_experiment::Experiment;
use weir_experiment::backend::Error;
use weir_experiment::results::{
    DeadlockSummary, Fct, FctBucket, FctClass, GoodputSummary, JobTimes, LayerSummary, PacketClass,
    PacketSummary, Percentiles, PolicyInterval, PolicySetSummary, PolicySummary, QueueSummary, SchemeSummary,
    Summary,
};

/// Length of lists in the artificial summary. Metrics refer to their entries by index; no run has more buckets, classes
/// or policies.
const LIST_LEN: usize = 64;
/// Checks that the runs of these tasks can have every metric, so that typing errors are found before they run.
///
/// # Errors
///
/// If no task has one of the metrics, or an experiment is invalid. Comes with the index of the metric.
pub fn check(metrics: &[String], tasks: &[RunTask]) -> Result<(), (usize, Error)> {
    let mut unknown: Vec<(usize, &String)> = metrics.iter().enumerate().collect();
    let mut first_error = None;
    for task in tasks {
        if unknown.is_empty() {
            break;
        }
        let experiment = task.load().map_err(|error| (unknown[0].0, error))?;
        let (summary, order) = (summary(&experiment), order(&experiment));
        let mut errors = Vec::new();
        unknown.retain(|(_, text)| {
            let parsed = MetricColumn::parse_all(text, &summary, &order);
            parsed.map_err(|error| errors.push(format!("{error}{}", missing_key(text)))).is_err()
        });
        first_error = first_error.or(errors.into_iter().next());
    }
    match (unknown.first(), first_error) {
        (Some((index, _)), Some(reason)) => Err((*index, Error::Input(reason))),
        _ => Ok(()),
    }
}

/// Returns which key of the experiment the metric needs, for the end of a message.
fn missing_key(metric: &str) -> &'static str {
    match () {
        () if metric.contains("fct.classes.") => "; classes are those of the key observe.size_classes",
        () if metric.contains("fct.workloads.") => {
            "; workloads are those to which the experiment gives a `name`"
        }
        () => "",
    }
}

fn order(experiment: &Experiment) -> Vec<String> {
    experiment.schemes.iter().map(|scheme| scheme.label.clone()).collect()
}

/// Returns a summary with all keys that a run of this experiment can have. All values are 1, so that quotients are
/// defined.
fn summary(experiment: &Experiment) -> Summary {
    let topology = &experiment.topology;
    let ports = topology.switch_ixs().flat_map(|ix| {
        let switch = topology.switch(ix);
        switch.ports().map(|(port, _)| format!("{}:{port}", switch.name)).collect::<Vec<_>>()
    });
    let scheme = scheme(experiment, ports.collect());
    Summary {
        experiment: String::new(),
        program: None,
        backend: String::new(),
        seed: 1,
        digest: String::new(),
        virtual_s: 1.0,
        wall_s: 1.0,
        packet_hops: 1,
        partial: false,
        schemes: order(experiment).into_iter().map(|label| (label, scheme.clone())).collect(),
    }
}

fn scheme(experiment: &Experiment, ports: Vec<String>) -> SchemeSummary {
    let queue = QueueSummary { peak_bytes: 1, mean_bytes: 1.0, p99_bytes: 1 };
    SchemeSummary {
        queues: ports.iter().map(|port| (port.clone(), queue)).collect(),
        utilisation: ports.into_iter().map(|port| (port, 1.0)).collect(),
        first_slowdown_us: Some(1.0),
        jain: Some(1.0),
        drops: BTreeMap::new(),
        marks: 1,
        pauses: 1,
        deadlock: Some(DeadlockSummary { at_us: 1.0, cycle: Vec::new(), queues: 1, packets: 1 }),
        long_pauses: Vec::new(),
        deflections: 1,
        retransmits: 1,
        timeouts: 1,
        suppressions: 1,
        telemetry: BTreeMap::new(),
        fct: fct(experiment),
        policy: Some(policy()),
        jobs: Some(JobTimes { count: 1, mean_us: 1.0, p50_us: 1.0, p90_us: 1.0, p99_us: 1.0 }),
        packets: Some(packets()),
        goodput: Some(GoodputSummary {
            flows: 1,
            mean_gbps: 1.0,
            p5_gbps: 1.0,
            p50_gbps: 1.0,
            p95_gbps: 1.0,
        }),
        layers: vec![LayerSummary { ports: 1, utilisation: 1.0 }; LIST_LEN],
        queue_gbps: vec![1.0; LIST_LEN],
    }
}

fn fct(experiment: &Experiment) -> Fct {
    let workloads = experiment.named_workloads();
    let bounds = experiment.spec.observe.size_classes.len();
    let classes = if bounds == 0 { 0 } else { bounds + 1 };
    Fct {
        workloads: workloads.iter().map(|name| (name.to_string(), fct_of_flows(classes))).collect(),
        ..fct_of_flows(classes)
    }
}

fn fct_of_flows(classes: usize) -> Fct {
    let percentiles = Percentiles { mean: 1.0, p50: 1.0, p95: 1.0, p99: 1.0 };
    let bucket = FctBucket { upto_bytes: 1, count: 1, slowdown: percentiles };
    let class = FctClass {
        over_bytes: 1,
        upto_bytes: Some(1),
        count: 1,
        slowdown: Some(percentiles),
        fct_us: Some(percentiles),
        goodput_gbps: Some(1.0),
    };
    Fct {
        count: 1,
        unfinished: 1,
        failed: BTreeMap::new(),
        slowdown: Some(percentiles),
        by_size: vec![bucket; LIST_LEN],
        classes: vec![class; classes],
        workloads: BTreeMap::new(),
    }
}

fn packets() -> PacketSummary {
    let class = PacketClass {
        over_bytes: 1,
        upto_bytes: Some(1),
        received: 1,
        marked: 1,
        echoed: 1,
        marked_share: Some(1.0),
        echoed_share: Some(1.0),
        mean_links: Some(1.0),
    };
    PacketSummary { packet_hops: 1, link_bytes: 1, classes: vec![class; LIST_LEN] }
}

fn policy() -> PolicySummary {
    let set = PolicySetSummary {
        at_us: 1.0,
        via: String::new(),
        id: String::new(),
        change: String::new(),
        error: None,
        hosts: 1,
        all_after_us: Some(1.0),
        all_after_imin: Some(1.0),
    };
    let interval = PolicyInterval { from_us: 1.0, to_us: 1.0, messages: 1, per_host: 1.0 };
    PolicySummary {
        imin_us: 1.0,
        imax: 1,
        k: 1,
        sets: vec![set; LIST_LEN],
        sent: 1,
        suppressed: 1,
        resets: 1,
        consistent: 1,
        newer: 1,
        older: 1,
        refused: BTreeMap::new(),
        lost: 1,
        expired: 1,
        fabric_share: 1.0,
        fabric_share_late: 1.0,
        intervals: vec![interval; LIST_LEN],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extensions::Extensions;
    use std::fs;
    use std::path::PathBuf;

    fn task(dir: &std::path::Path) -> RunTask {
        let file = dir.join("x.yaml");
        let yaml = "topology: {kind: dumbbell, switches: 2, senders: 2, receivers: 1, rate: 100Gbps, delay: 1us}\nschemes: [fncc, hpcc]\nflows: [{from: h1, to: h3}]\nduration: 1us\nobserve: {size_classes: [10KB, 100KB]}\n";
        fs::write(&file, yaml).unwrap();
        RunTask {
            extensions: Extensions::default(),
            file,
            set: Vec::new(),
            over: Vec::new(),
            over_origin: "--over",
            seed: None,
            schemes: Vec::new(),
            dir: PathBuf::from("x"),
        }
    }

    #[test]
    fn unknown_metrics_are_errors_and_optional_values_are_accepted() {
        let dir = tempfile::tempdir().unwrap();
        let tasks = [task(dir.path())];
        for valid in [
            "peak queue",
            "FCT slowdown p95",
            "deflections",
            "fct.slowdown.p95",
            "fct.by_size.19.p50",
            "fct.classes.2.fct_us.mean",
            "fct.classes.*.slowdown.p99",
            "tail=fct.classes.*.slowdown.p99",
            "queues.*.peak_bytes",
            "queues.s1:3.peak_bytes",
            "packets.classes.0.marked_share",
            "telemetry.other_path",
            "fct.failed.timeout",
            "policy.sets.0.all_after_us",
            "drops",
            "drops.buffer_full",
            "less queue=fncc.queues.s1:3.peak_bytes vs hpcc.queues.s1:3.peak_bytes",
            "fncc.marks / hpcc.marks",
            "jobs.p90_us",
            "deadlock.packets",
        ] {
            check(&[valid.to_owned()], &tasks).unwrap_or_else(|reason| panic!("{valid}: {reason:?}"));
        }
        for invalid in [
            "peak queu",
            "fct.slowdown.p96",
            "fct.classes.*.slowdwon.p99",
            "fct.classes.3.slowdown.p99",
            "queues.s9:1.peak_bytes",
            "dcqcn.marks",
            "fncc.marks vs hpc.marks",
            "",
        ] {
            let metrics = ["marks".to_owned(), invalid.to_owned()];
            let Err((1, Error::Input(reason))) = check(&metrics, &tasks) else {
                panic!("{invalid} is accepted")
            };
            assert!(reason.starts_with(invalid) && reason.contains("unknown metric"), "{reason}");
        }
    }

    #[test]
    fn a_metric_of_one_run_is_sufficient() {
        let dir = tempfile::tempdir().unwrap();
        let both_schemes = task(dir.path());
        let only_hpcc = RunTask { schemes: vec!["hpcc".to_owned()], ..both_schemes.clone() };
        let metrics = ["fncc.marks".to_owned()];
        assert!(check(&metrics, std::slice::from_ref(&only_hpcc)).is_err());
        assert!(check(&metrics, &[only_hpcc, both_schemes]).is_ok());
    }
}
