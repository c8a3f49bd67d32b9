//! What the papers claim, on small networks: who wins, and by how much at least. The numbers of the figures are in
//! `docs/results/`.

use weir_experiment::Experiment;
use weir_experiment::results::{Results, SchemeSummary};

fn results(text: &str) -> Results {
    let experiment = Experiment::parse(text, "x.yaml", "x", &[], None).unwrap_or_else(|e| panic!("{e}"));
    weir_sim::run(&experiment, &mut ()).unwrap()
}

/// Returns the utilisation of the busiest port.
fn utilisation(scheme: &SchemeSummary) -> f64 {
    scheme.utilisation.values().copied().fold(0.0, f64::max)
}

/// HPCC++ draft §5: 16 flows with T = 5 us and W_AI = W_init (1 - eta) / 16 share the link and keep the queue near zero,
/// whatever `max_stage` is, and also with the number of flows that the receiver reports.
#[test]
fn hpcc_plus_shares_the_headroom_of_the_draft() {
    let results = results(
        "{topology: {kind: star, hosts: 17, rate: 100Gbps, delay: 1.21us}, pfc: off, duration: 3ms,
          schemes: [{scheme: hpcc++, label: N16, set: {base_rtt: 5us, w_ai: headroom/16}},
            {scheme: hpcc++, label: reported, set: {base_rtt: 5us}},
            {scheme: hpcc++, label: stage0, set: {base_rtt: 5us, w_ai: headroom/16, max_stage: 0}}],
          workload: {kind: incast, to: h17, senders: 16, size: 1GB, interval: 10us},
          observe: {interval: 2us, fairness_window: 1ms, ports: [\"s1:17\"]}}",
    );
    for (label, scheme) in &results.summary.schemes {
        let late = &results.traces[label].ports[0].queue_bytes[500..];
        let mean = late.iter().sum::<u64>() / late.len() as u64;
        assert!(mean < 5_000, "{label}: {mean} B");
        assert!(scheme.jain.is_some_and(|jain| jain > 0.99), "{label}: {:?}", scheme.jain);
        assert!(utilisation(scheme) > 0.95, "{label}: {}", utilisation(scheme));
    }
}

/// HPCC++ draft §5: the fewer additive increases before a multiplicative one, the sooner a flow takes what others leave.
#[test]
fn fewer_stages_reclaim_bandwidth_sooner() {
    let results = results(
        "{topology: {kind: star, hosts: 5, rate: 100Gbps, delay: 1.21us}, pfc: off, duration: 4ms,
          schemes: [{scheme: hpcc++, label: '0', set: {base_rtt: 5us, w_ai: headroom/16, max_stage: 0}},
            {scheme: hpcc++, label: '5', set: {base_rtt: 5us, w_ai: headroom/16, max_stage: 5}},
            {scheme: hpcc++, label: '20', set: {base_rtt: 5us, w_ai: headroom/16, max_stage: 20}},
            {scheme: hpcc++, label: '100000', set: {base_rtt: 5us, w_ai: headroom/16, max_stage: 100000}}],
          flows: [{from: h1, to: h5}, {from: h2, to: h5, start: 10us, stop: 2ms},
            {from: h3, to: h5, start: 20us, stop: 2ms}, {from: h4, to: h5, start: 30us, stop: 2ms}],
          observe: {interval: 10us, ports: [\"s1:5\"]}}",
    );
    let busy = |label: &str| {
        let late = &results.traces[label].ports[0].utilisation[200..];
        late.iter().sum::<f64>() / late.len() as f64
    };
    let after_the_stop = ["0", "5", "20", "100000"].map(busy);
    assert!(after_the_stop[0] > 0.93, "{after_the_stop:?}");
    assert!(after_the_stop.is_sorted_by(|sooner, later| sooner > later), "{after_the_stop:?}");
}

/// FNCC Fig. 3: at 400 Gbit/s only DCQCN must be paused.
#[test]
fn only_dcqcn_is_paused_at_400_gbps() {
    let results = results(
        "{topology: {kind: dumbbell, switches: 3, senders: 2, receivers: 1, rate: 400Gbps, delay: 1.5us},
          pfc: {threshold: 500KB}, schemes: [fncc, hpcc, dcqcn], duration: 600us,
          flows: [{from: h1, to: h3}, {from: h2, to: h3, start: 300us}]}",
    );
    let pauses = |label: &str| results.summary.schemes[label].pauses;
    assert_eq!((pauses("fncc"), pauses("hpcc")), (0, 0));
    assert!(pauses("dcqcn") > 0);
}

/// FNCC Fig. 13(e): flows that join and leave share the link, and nothing of it is lost.
#[test]
fn four_flows_share_the_link_while_they_join_and_leave() {
    let results = results(
        "{topology: {kind: dumbbell, switches: 3, senders: 4, receivers: 1, rate: 10Gbps, delay: 1.5us},
          pfc: {threshold: 500KB}, schemes: [fncc, hpcc], duration: 70ms, observe: {interval: 1ms},
          flows: [{from: h1, to: h5, stop: 40ms}, {from: h2, to: h5, start: 10ms, stop: 50ms},
            {from: h3, to: h5, start: 20ms, stop: 60ms}, {from: h4, to: h5, start: 30ms}]}",
    );
    for (label, trace) in &results.traces {
        // The second half of each stretch of 10 ms, with the flows that run in it.
        for (stretch, flows) in [0..1, 0..2, 0..3, 0..4, 1..4, 2..4, 3..4].into_iter().enumerate() {
            let gbps: Vec<f64> = trace.rates[flows]
                .iter()
                .map(|flow| &flow.goodput[stretch * 10 + 5..stretch * 10 + 10])
                .map(|late| late.iter().map(|rate| rate.as_bps_f64()).sum::<f64>() / 5e9)
                .collect();
            let sum: f64 = gbps.iter().sum();
            let jain = sum * sum / gbps.len() as f64 / gbps.iter().map(|rate| rate * rate).sum::<f64>();
            assert!(sum > 8.8 && jain > 0.9, "{label}, stretch {stretch}: {gbps:?}");
        }
    }
}

/// Dart Fig. 11 and 14: with the marks that Dart's schemes have, DCQCN is close to DASR; deflection is what shortens the tail of
/// short messages.
#[test]
fn at_equal_marks_deflection_gains_most() {
    let results = results(
        "{topology: {kind: fat-tree, k: 8, pods: 4, hosts_per_edge: 16, rate: 10Gbps, delay: 1us},
          pfc: {threshold: 15KB}, ack_priority: true, duration: 100ms, until_idle: true,
          schemes: [{scheme: dcqcn, set: {ecn: 22500B/10Gbps}}, {scheme: iofd, set: {tokens: 3}}, dasr,
            {scheme: dart, set: {tokens: 3}}],
          workloads: [{kind: incast, senders: 16, size: {choice: [2KB, 4KB, 8KB]}, load: 4%, stop: 1ms, jitter: 100us,
              announce: true}, {kind: poisson, sizes: 1MB, load: 6%, stop: 1ms}],
          observe: {interval: 100us, rates: false}}",
    );
    let p99 = |label: &str| results.summary.schemes[label].fct.slowdown.expect("messages").p99;
    let (dcqcn, dasr) = (p99("dcqcn"), p99("dasr"));
    assert!((dasr / dcqcn - 1.0).abs() < 0.1, "DASR {dasr}, DCQCN {dcqcn}");
    for label in ["iofd", "dart"] {
        assert!(p99(label) < 0.92 * dcqcn, "{label} {}, DCQCN {dcqcn}", p99(label));
    }
}

/// Dart Fig. 10: an incast beside a long flow takes longer, behind a longer queue, if only PFC holds it back.
#[test]
fn pfc_alone_is_slower_than_dasr() {
    let results = results(
        "{topology: {kind: star, hosts: 18, rate: 40Gbps, delay: 3us}, pfc: {threshold: 500KB}, ack_priority: true,
          schemes: [dasr, {scheme: dcqcn, label: pfc-only, set: {ecn: 64MB/100Gbps}}], flows: [{from: h17, to: h18}],
          workload: {kind: incast, from: h1-h16, to: h18, senders: 16, size: 256KB, every: 2ms, jitter: 100us, start: 1ms},
          duration: 6ms, observe: {interval: 100us, rates: false}}",
    );
    let [dasr, pfc] = ["dasr", "pfc-only"].map(|label| &results.summary.schemes[label]);
    assert!(dasr.pauses == 0 && pfc.pauses > 0, "{} and {} pauses", dasr.pauses, pfc.pauses);
    assert!(pfc.fct.unfinished > dasr.fct.unfinished, "{} and {}", pfc.fct.unfinished, dasr.fct.unfinished);
    let mean = |scheme: &SchemeSummary| scheme.queues.values().map(|q| q.mean_bytes).fold(0.0, f64::max);
    assert!(mean(pfc) > 1.3 * mean(dasr), "{} and {} B", mean(pfc), mean(dasr));
}
