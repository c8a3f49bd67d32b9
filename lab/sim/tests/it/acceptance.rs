//! Acceptance tests of the simulator, on the experiment files that Weir ships.

use std::path::{Path, PathBuf};
use weir_experiment::Experiment;
use weir_experiment::results::{Results, SchemeSummary};
use weir_sim::run;

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments").join(name)
}

fn load(name: &str, overrides: &[&str]) -> Experiment {
    let overrides: Vec<String> = overrides.iter().map(|s| (*s).to_owned()).collect();
    Experiment::load(&file(name), &overrides, None).unwrap_or_else(|e| panic!("{e}"))
}

fn results(name: &str, overrides: &[&str]) -> Results {
    run(&load(name, overrides), &mut ()).unwrap_or_else(|e| panic!("{e}"))
}

/// Returns the highest peak of all queues in bytes.
fn peak(scheme: &SchemeSummary) -> u64 {
    scheme.queues.values().map(|q| q.peak_bytes).max().expect("ports sent packets")
}

/// Returns the utilisation of the busiest port.
fn utilisation(scheme: &SchemeSummary) -> f64 {
    scheme.utilisation.values().copied().fold(0.0, f64::max)
}

/// At every line rate both schemes are fair, lossless and fill the link, and FNCC slows down earlier and queues less
/// than HPCC.
#[test]
fn the_dumbbell_shows_what_fncc_promises() {
    for name in ["quickstart.yaml", "dumbbell-200g.yaml", "dumbbell-400g.yaml"] {
        let results = results(name, &[]);
        for (label, scheme) in &results.summary.schemes {
            let jain = scheme.jain.expect("two flows");
            assert!(jain > 0.95, "{name} {label}: Jain {jain}");
            assert!(utilisation(scheme) > 0.9, "{name} {label}: utilisation {}", utilisation(scheme));
            assert!(scheme.drops.is_empty(), "{name} {label}: {:?}", scheme.drops);
            assert_eq!(scheme.retransmits, 0, "{name} {label}");
        }
        let (fncc, hpcc) = (&results.summary.schemes["fncc"], &results.summary.schemes["hpcc"]);
        let (f, h) =
            (fncc.first_slowdown_us.expect("slows down"), hpcc.first_slowdown_us.expect("slows down"));
        assert!(300.0 < f && f < h, "{name}: fncc slows at {f} us, hpcc at {h} us");
        assert!(peak(fncc) < peak(hpcc), "{name}: fncc {} B, hpcc {} B", peak(fncc), peak(hpcc));
    }
}

/// FNCC Fig. 11 and 13: wherever the congestion is, FNCC queues less than HPCC; at the last hop LHCS
/// makes the difference.
#[test]
fn fncc_queues_less_at_every_hop_and_lhcs_helps_at_the_last() {
    for name in ["fncc-fig11-first.yaml", "fncc-fig11-middle.yaml", "fncc-fig11-last.yaml"] {
        let results = results(name, &[]);
        let peak_of = |label: &str| peak(&results.summary.schemes[label]);
        assert!(
            peak_of("fncc") < peak_of("hpcc"),
            "{name}: fncc {} B, hpcc {} B",
            peak_of("fncc"),
            peak_of("hpcc")
        );
        for (label, scheme) in &results.summary.schemes {
            assert!(scheme.drops.is_empty(), "{name} {label}: {:?}", scheme.drops);
        }
        if name.contains("last") {
            assert!(
                peak_of("fncc") < peak_of("fncc-no-lhcs"),
                "{name}: LHCS {} B, without {} B",
                peak_of("fncc"),
                peak_of("fncc-no-lhcs")
            );
        } else {
            assert_eq!(peak_of("fncc"), peak_of("fncc-no-lhcs"), "{name}: LHCS acts at the last hop only");
        }
    }
}

/// The same seed gives the same bytes; another one differs where randomness is used (the flows'
/// entropy ports choose their paths).
#[test]
fn the_seed_decides_everything() {
    let digest = |name: &str, seed: u64| {
        let experiment = Experiment::load(&file(name), &[], Some(seed)).unwrap();
        run(&experiment, &mut ()).unwrap().summary.digest
    };
    assert_eq!(digest("quickstart.yaml", 1), digest("quickstart.yaml", 1));
    assert_eq!(digest("fat-tree-k4.yaml", 1), digest("fat-tree-k4.yaml", 1));
    assert_ne!(digest("fat-tree-k4.yaml", 1), digest("fat-tree-k4.yaml", 2));
}

/// A fabric with many paths: every flow ends, nothing is lost, and no packet arrives out of order
/// (a hop never sends one flow over two paths), so nothing is retransmitted.
#[test]
fn a_permutation_on_a_fat_tree_completes_in_order() {
    let results = results("fat-tree-k4.yaml", &[]);
    for (label, scheme) in &results.summary.schemes {
        assert_eq!((scheme.fct.count, scheme.fct.unfinished), (16, 0), "{label}");
        assert!(scheme.drops.is_empty(), "{label}: {:?}", scheme.drops);
        assert_eq!(scheme.retransmits, 0, "{label}");
        let slowdown = scheme.fct.slowdown.expect("flows finished");
        assert!(slowdown.p50 >= 1.0 && slowdown.mean < 8.0, "{label}: {slowdown:?}");
    }
}

/// A small PFC threshold pauses instead of dropping; without PFC a small buffer drops, go-back-N
/// repairs it, and the drops are counted under their reason.
#[test]
fn pfc_is_lossless_and_without_it_losses_are_repaired() {
    let paused = results("quickstart.yaml", &["pfc.threshold=50KB", "duration=500us"]);
    for (label, scheme) in &paused.summary.schemes {
        assert!(scheme.pauses > 0, "{label}");
        assert!(scheme.drops.is_empty(), "{label}: {:?}", scheme.drops);
    }
    let lossy = results(
        "quickstart.yaml",
        &[
            "pfc=off",
            "buffer=30KB",
            "duration=10ms",
            "flows.0.size=2MB",
            "flows.1.size=2MB",
            "flows.1.start=0us",
            "schemes=[hpcc]",
        ],
    );
    let hpcc = &lossy.summary.schemes["hpcc"];
    assert!(hpcc.drops.get("buffer_full").is_some_and(|&n| n > 0), "{:?}", hpcc.drops);
    assert!(hpcc.retransmits > 0);
    assert_eq!((hpcc.fct.count, hpcc.fct.unfinished), (2, 0), "both flows end in spite of the losses");
}

/// Every shipped experiment loads, and its resolved form loads to the same experiment.
#[test]
fn every_experiment_loads() {
    let mut seen = 0;
    for entry in std::fs::read_dir(file("")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "yaml") {
            let experiment = Experiment::load(&path, &[], None).unwrap_or_else(|e| panic!("{e}"));
            let again = Experiment::parse(&experiment.resolved_yaml(), "run.yaml", "x", &[], None);
            assert_eq!(again.unwrap().resolved_yaml(), experiment.resolved_yaml());
            seen += 1;
        }
    }
    assert!(seen >= 8, "{seen} experiments");
}

/// Dart §III-D: with the look-ahead the long flow has slowed down when the incast arrives, so queues are shorter; no
/// scheme drops or retransmits packets.
#[test]
fn look_ahead_makes_room_for_the_incast() {
    let results = results("dasr-incast.yaml", &[]);
    let schemes = &results.summary.schemes;
    for (label, scheme) in schemes {
        assert_eq!((scheme.drops.len(), scheme.retransmits), (0, 0), "{label}");
    }
    let mean = |label: &str| schemes[label].queues.values().map(|q| q.mean_bytes).fold(0.0, f64::max);
    let (with, without) = (mean("dasr"), mean("dasr-no-look-ahead"));
    assert!(with * 4.0 < without, "mean queue {with} B with, {without} B without");
    assert!(peak(&schemes["dasr"]) < peak(&schemes["dasr-no-look-ahead"]));
}

/// All schemes of a dumbbell and all variants of HPCC++ run without losses, and only the packets of DCQCN are marked.
#[test]
fn every_scheme_runs_in_virtual_time() {
    let peers = results("dumbbell-peers.yaml", &["duration=2ms", "observe.fairness_window=500us"]);
    let variants = results("hpcc-plus.yaml", &["duration=600us", "observe.fairness_window=100us"]);
    for (label, scheme) in peers.summary.schemes.iter().chain(&variants.summary.schemes) {
        assert!(scheme.drops.is_empty() && scheme.retransmits == 0, "{label}: {:?}", scheme.drops);
        assert!(utilisation(scheme) > 0.8, "{label}: {}", utilisation(scheme));
        assert_eq!(scheme.marks > 0, label.starts_with("dcqcn"), "{label}: {} marks", scheme.marks);
    }
    let slows = |label: &str| peers.summary.schemes[label].first_slowdown_us.expect("slows down");
    // FNCC §5.1: 300, 330 and 346 us; Weir's times differ, but have the same order.
    assert!(slows("fncc") < slows("hpcc") && slows("hpcc") < slows("dcqcn"));
    assert!((slows("dcqcn") - 346.0).abs() < 20.0, "{}", slows("dcqcn"));
}

/// HPCC++: once the flows have converged, the queue is at most a fifth of the bandwidth-delay product and the port is
/// busy, with few flows and with many.
#[test]
fn hpcc_plus_keeps_the_queue_near_zero() {
    for senders in [2, 16, 64] {
        let results =
            results("hpcc-plus.yaml", &[&format!("workload.senders={senders}"), "observe.ports=[s1:65]"]);
        for (label, trace) in &results.traces {
            let late = trace.ports[0].queue_bytes.len() * 2 / 3;
            let (queue, busy) = (&trace.ports[0].queue_bytes[late..], &trace.ports[0].utilisation[late..]);
            let mean = queue.iter().sum::<u64>() / queue.len() as u64;
            assert!(mean < 10_000, "{label}, {senders} flows: {mean} B");
            let busy = busy.iter().sum::<f64>() / busy.len() as f64;
            assert!(busy > 0.9, "{label}, {senders} flows: {busy}");
        }
    }
}

/// Dart Fig. 9 and 15: the second sender has exactly half of the rate within one round trip, and the first one is back
/// at line rate within two round trips after the second has ended. DCQCN has not converged by then.
#[test]
fn dart_gives_a_second_sender_its_half_in_one_round_trip() {
    let results = results("dart-fig15.yaml", &["schemes=[dart, dcqcn]"]);
    // The delays of four links of 1.5 us, and the serialisation of a full frame and its ACK.
    const ROUND_TRIP_US: usize = 7;
    let rates = |scheme: &str, us: usize| -> Vec<u64> {
        results.traces[scheme].rates.iter().map(|flow| flow.rate[us - 1].as_bps()).collect()
    };
    let (line, half) = (100_000_000_000, 50_000_000_000);
    assert_eq!(rates("dart", 300 + ROUND_TRIP_US), [half, half]);
    assert_eq!(rates("dart", 599), [half, half]);
    assert_eq!(rates("dart", 600 + 2 * ROUND_TRIP_US)[0], line);
    assert_eq!(rates("dcqcn", 300 + ROUND_TRIP_US), [line, line]);
    assert!(rates("dcqcn", 599)[0] != half);
}

/// Dart §IV: where long flows collide in the fabric, the tail of 8 KB messages is shorter with deflection than by ECMP
/// alone, under Dart and without DASR; nothing is dropped or retransmitted.
#[test]
fn deflection_shortens_the_tail_of_short_messages() {
    let both = |scheme| format!("{scheme}, {{scheme: {scheme}, label: {scheme}-ecmp, set: {{tokens: 0}}}}");
    let low = "{scheme: dart, label: dart-5KB, set: {deflect_above: 5KB/10Gbps}}";
    let queues = "dcqcn, {scheme: dcqcn, label: pri-q, set: {short_first: 8KB}}";
    let schemes = format!("schemes=[{}, {}, {low}, {queues}]", both("dart"), both("iofd"));
    let results = results("iofd-leaf-spine.yaml", &[&schemes]);
    let scheme = |label: &str| &results.summary.schemes[label];
    let p99 = |label| scheme(label).fct.slowdown.expect("messages").p99;
    assert!(p99("pri-q") < p99("dcqcn"), "priority queues {}, DCQCN {}", p99("pri-q"), p99("dcqcn"));
    for (with, without) in [("dart", "dart-ecmp"), ("dart-5KB", "dart-ecmp"), ("iofd", "iofd-ecmp")] {
        assert!(
            scheme(with).deflections > 100 && scheme(without).deflections == 0,
            "{with}: {}",
            scheme(with).deflections
        );
        assert!(p99(with) < p99(without), "{with} {}, {without} {}", p99(with), p99(without));
        for label in [with, without] {
            assert_eq!((scheme(label).retransmits, scheme(label).drops.len()), (0, 0), "{label}");
        }
    }
}

/// HPCC++ draft §5: the increase is a share of the link's headroom and not of the NIC's. With a share of their own NIC's, the senders
/// would have 71, 18 and 2 Gbit/s.
#[test]
fn hpcc_plus_is_fair_to_senders_of_other_rates() {
    let text = "{topology: {kind: custom, delay: 1.5us, rate: 100Gbps, hosts: [h1, h2, h3, h4], switches: [s1], links: [
          {a: h1, b: s1, rate: 400Gbps}, [h2, s1], {a: h3, b: s1, rate: 10Gbps}, [h4, s1]]},
        pfc: off, schemes: [hpcc++, {scheme: hpcc++, label: rtt, set: {telemetry: rtt}}], duration: 3ms, observe: {interval: 10us},
        flows: [{from: h1, to: h4}, {from: h2, to: h4, start: 50us}, {from: h3, to: h4, start: 100us}]}";
    let experiment = Experiment::parse(text, "x.yaml", "x", &[], None).unwrap_or_else(|e| panic!("{e}"));
    let results = weir_sim::run(&experiment, &mut ()).unwrap();
    for (label, trace) in &results.traces {
        let goodput = |flow: usize| {
            let late = &trace.rates[flow].goodput[200..];
            late.iter().map(|rate| rate.as_bps_f64()).sum::<f64>() / late.len() as f64 / 1e9
        };
        let [fast, even, slow] = [0, 1, 2].map(goodput);
        assert!((fast / even - 1.0).abs() < 0.1 && slow > 9.0, "{label}: {fast} {even} {slow}");
    }
}

/// Frames that wait for those of the host's other flow cost a paced flow a quarter of its share, unless lateness is
/// credited.
#[test]
fn late_frames_cost_no_rate_if_they_are_credited() {
    let gbps = |credit: &str| {
        let set = format!("transport.pacing_credit={credit}");
        let results = results("pacing-credit.yaml", &[&set, "duration=2ms"]);
        let flows = &results.traces["dasr"].flows;
        [0, 1].map(|flow: usize| flows[flow].acked.as_f64() * 8.0 / 2e-3 / 1e9)
    };
    let [late, peer] = gbps("0");
    assert!(late < 0.8 * peer, "{late} {peer}");
    let [credited, peer] = gbps("50%");
    assert!((credited / peer - 1.0).abs() < 0.02, "{credited} {peer}");
}

/// N of HPCC++ counts the flows of the receiver's own link. If another link is the bottleneck, N = 1 must not let each
/// flow grow as if it were alone: 16 flows would have a mean queue of 99 KB, 32 flows one of 202 KB.
#[test]
fn hpcc_plus_keeps_queues_short_where_the_shared_link_is_not_the_last() {
    for compute in ["sender", "receiver"] {
        let flows: Vec<String> = (1..=16).map(|n| format!("{{from: h{n}, to: h{}}}", n + 16)).collect();
        let text = format!(
            "{{topology: {{kind: dumbbell, switches: 2, senders: 16, receivers: 16, rate: 100Gbps, delay: 1.5us}},
              schemes: [{{scheme: hpcc++, set: {{compute: {compute}}}}}], pfc: off, flows: [{}], duration: 3ms,
              observe: {{interval: 5us, fairness_window: 1ms, ports: [\"s1:s2\"]}}}}",
            flows.join(", ")
        );
        let experiment = Experiment::parse(&text, "x.yaml", "x", &[], None).unwrap_or_else(|e| panic!("{e}"));
        let results = weir_sim::run(&experiment, &mut ()).unwrap();
        let (summary, trace) = (&results.summary.schemes["hpcc++"], &results.traces["hpcc++"]);
        let late = &trace.ports[0].queue_bytes[200..];
        let mean = late.iter().sum::<u64>() / late.len() as u64;
        assert!(mean < 15_000, "{compute}: {mean} B");
        assert!(summary.jain.is_some_and(|jain| jain > 0.95), "{compute}: {:?}", summary.jain);
        assert!(utilisation(summary) > 0.85, "{compute}: {}", utilisation(summary));
    }
}
