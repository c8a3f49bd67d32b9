//! `observe.packets`: marks and paths as receivers see them, held against what switches count and what the topology says.

use weir_experiment::Experiment;
use weir_experiment::results::{PacketSummary, SchemeSummary, Summary};
use weir_host::wire::HEADERS_LEN;

/// Payload of a full frame under DCQCN: the MTU less the headers.
const MTU: u64 = 1_518;
const PAYLOAD: u64 = MTU - HEADERS_LEN as u64;

fn run(text: &str) -> Summary {
    let experiment =
        Experiment::parse(text, "x.yaml", "x", &[], None).unwrap_or_else(|error| panic!("{error}"));
    weir_sim::run(&experiment, &mut ()).unwrap().summary
}

fn packets(scheme: &SchemeSummary) -> &PacketSummary {
    scheme.packets.as_ref().expect("it was asked for")
}

/// A short flow by itself on a dumbbell of three switches; long after it two long ones that meet in front of h3, where
/// a queue of ten frames marks.
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
    // There is one port to be marked at, nothing is lost, and only data can be marked.
    assert_eq!(long.marked, dcqcn.marks);
    // DCQCN's receiver hides nothing.
    assert_eq!((short.echoed, long.echoed), (0, long.marked));
    assert!(long.marked > 10 && long.marked < long.received, "{long:?}");
    assert_eq!((short.mean_links, long.mean_links), (Some(4.0), Some(4.0)));
    // The only scheme's; and data alone is that number of full frames and more, over four links.
    assert_eq!(packets(dcqcn).packet_hops, summary.packet_hops);
    let payload = 8_000 + 2 * 300_000;
    let min = 4 * payload * MTU / PAYLOAD;
    let link_bytes = packets(dcqcn).link_bytes;
    // ACKs and headers of the last frames are the rest.
    assert!(link_bytes > min && link_bytes < min * 11 / 10, "{link_bytes} for {min}");
}

#[test]
fn counting_changes_nothing_and_is_not_there_unasked() {
    let (asked, unasked) = (run(&format!("{MEETING}observe: {{packets: true}}\n")), run(MEETING));
    let (mut counted, plain) = (asked.schemes["dcqcn"].clone(), &unasked.schemes["dcqcn"]);
    assert_eq!(plain.packets, None);
    let packets = counted.packets.take().expect("it was asked for");
    assert_eq!(counted, *plain);
    assert_eq!(packets.classes.len(), 1, "without bounds all are of one class");
    assert!(!serde_json::to_string(&unasked).unwrap().contains("mean_links"));
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
    // The same packets meet: they are over before anybody hears of the others. DASR's receiver hides the marks from when
    // it has seen its line full.
    assert_eq!(dasr.marked, dcqcn.marked);
    assert!(dasr.echoed * 4 < dasr.marked, "{dasr:?}");
}

/// Messages across a leaf-spine whose uplinks long flows fill: every path has four links, and a detour more.
#[test]
fn deflections_make_ways_longer() {
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
    // Nothing was lost: the same data, over longer paths.
    let received =
        |scheme: &SchemeSummary| packets(scheme).classes.iter().map(|c| c.received).collect::<Vec<_>>();
    assert_eq!(received(dcqcn), received(iofd));
    // Only short flows have tokens. Where they go is the seed's, so long flows' paths are the same to the link.
    assert_eq!(links(iofd, 1), links(dcqcn, 1));
    let more = (links(iofd, 0) - links(dcqcn, 0)) * packets(iofd).classes[0].received as f64;
    // A packet that goes to another spine needs no link more; one sent back up by a spine or leaf needs two or more.
    assert!(more >= 2.0 && more <= 4.0 * iofd.deflections as f64, "{more} links more");
}
