//! `observe.packets`: compares marks and path lengths at receivers with the counters of switches and with the topology.

use weir_experiment::Experiment;
use weir_experiment::results::{PacketSummary, SchemeSummary, Summary};
use weir_host::wire::HEADERS_LEN;

const MTU: u64 = 1_518;
/// Payload of a full frame under DCQCN, which has no telemetry: the MTU minus the headers.
const PAYLOAD: u64 = MTU - HEADERS_LEN as u64;

fn run(text: &str) -> Summary {
    let experiment =
        Experiment::parse(text, "x.yaml", "x", &[], None).unwrap_or_else(|error| panic!("{error}"));
    weir_sim::run(&experiment, &mut ()).unwrap().summary
}

fn packets(scheme: &SchemeSummary) -> &PacketSummary {
    scheme.packets.as_ref().expect("observe.packets is set")
}

/// A single short flow over a dumbbell of three switches, and long after it two long flows that compete for the link to
/// h3, whose queue marks from ten frames on.
const MEETING: &str = "
topology: {kind: dumbbell, switches: 3, senders: 2, receivers: 1, rate: 10Gbps, delay: 1us}
schemes: [dcqcn]
ecn: {kmin: 15180B, kmax: 15180B, pmax: 1}
flows:
  - {from: h1, to: h3, size: 8KB}
  - {from: h1, to: h3, size: 300KB, start: 100us}
  - {from: h2, to: h3, size: 300KB, start: 100us}
duration: 10ms
until_idle: true
";

#[test]
fn receivers_see_the_marks_of_switches_and_the_path_of_the_topology() {
    let summary = run(&format!("{MEETING}observe: {{size_classes: [8KB], packets: true}}\n"));
    let dcqcn = &summary.schemes["dcqcn"];
    let [short, long] = packets(dcqcn).classes[..] else { panic!("two classes") };
    assert_eq!(
        (short.received, long.received),
        (8_000_u64.div_ceil(PAYLOAD), 2 * 300_000_u64.div_ceil(PAYLOAD))
    );
    assert_eq!(short.marked_share, Some(0.0));
    // Only one port marks, no packet is lost, and only DATA packets can be marked.
    assert_eq!(long.marked, dcqcn.marks);
    // DCQCN's receiver echoes every mark.
    assert_eq!((short.echoed, long.echoed), (0, long.marked));
    assert!(long.marked > 10 && long.marked < long.received, "{long:?}");
    assert_eq!((short.mean_links, long.mean_links), (Some(4.0), Some(4.0)));
    // There is only one scheme. The payload alone, in full frames over four links, gives a lower bound of `link_bytes`.
    assert_eq!(packets(dcqcn).packet_hops, summary.packet_hops);
    let payload = 8_000 + 2 * 300_000;
    let min = 4 * payload * MTU / PAYLOAD;
    let link_bytes = packets(dcqcn).link_bytes;
    // The rest are ACKs and the headers of the last frames.
    assert!(link_bytes > min && link_bytes < min * 11 / 10, "{link_bytes} for {min}");
}

#[test]
fn counting_is_optional_and_does_not_change_results() {
    let (with, without) = (run(&format!("{MEETING}observe: {{packets: true}}\n")), run(MEETING));
    let (mut counted, plain) = (with.schemes["dcqcn"].clone(), &without.schemes["dcqcn"]);
    assert_eq!(plain.packets, None);
    let packets = counted.packets.take().expect("observe.packets is set");
    assert_eq!(counted, *plain);
    assert_eq!(packets.classes.len(), 1, "without bounds there is one class");
    assert!(!serde_json::to_string(&without).unwrap().contains("mean_links"));
}

#[test]
fn marks_that_dart_takes_for_congestion_at_the_receiver_are_hidden() {
    let summary = run("
topology: {kind: star, hosts: 9, rate: 10Gbps, delay: 1us}
schemes: [dcqcn, dasr]
ecn: {kmin: 22500B, kmax: 22500B, pmax: 1}
workload: {kind: incast, to: h9, senders: 8, size: 8KB}
duration: 10ms
until_idle: true
observe: {packets: true}
");
    let [dcqcn, dasr] = ["dcqcn", "dasr"].map(|label| packets(&summary.schemes[label]).classes[0]);
    assert!(dcqcn.marked > 8 && dcqcn.echoed == dcqcn.marked, "{dcqcn:?}");
    // Both schemes mark the same packets, because the flows have sent everything before the first feedback arrives.
    // DASR's receiver suppresses echoes once it has found its link saturated.
    assert_eq!(dasr.marked, dcqcn.marked);
    assert!(dasr.echoed * 4 < dasr.marked, "{dasr:?}");
}

/// Messages over a leaf-spine with congested uplinks: normal paths have four links, deflected packets take more.
#[test]
fn deflections_lengthen_paths() {
    let summary = run("
topology: {kind: leaf-spine, leaves: 4, spines: 3, hosts_per_leaf: 4, rate: 10Gbps, delay: 1us}
schemes: [dcqcn, iofd]
ack_priority: true
workloads:
  - {kind: incast, senders: 8, size: 8KB, every: 100us, stop: 1ms}
  - {kind: poisson, sizes: 100KB, load: 40%, stop: 1ms}
duration: 20ms
until_idle: true
observe: {size_classes: [8KB], packets: true}
");
    let [dcqcn, iofd] = ["dcqcn", "iofd"].map(|label| &summary.schemes[label]);
    let links = |scheme: &SchemeSummary, class: usize| packets(scheme).classes[class].mean_links.unwrap();
    assert!(dcqcn.deflections == 0 && iofd.deflections > 0, "{}", iofd.deflections);
    // No packet was lost: the same data over longer paths.
    let received =
        |scheme: &SchemeSummary| packets(scheme).classes.iter().map(|c| c.received).collect::<Vec<_>>();
    assert_eq!(received(dcqcn), received(iofd));
    // Only short flows have tokens. Receivers depend only on the seed, so long flows take exactly the same paths.
    assert_eq!(links(iofd, 1), links(dcqcn, 1));
    let more = (links(iofd, 0) - links(dcqcn, 0)) * packets(iofd).classes[0].received as f64;
    // A deflection to another spine adds no link; one by a spine or by the last leaf adds two or more.
    assert!(more >= 2.0 && more <= 4.0 * iofd.deflections as f64, "{more} additional links");
}
