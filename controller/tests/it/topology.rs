//! Topologies built from specifications, and the errors for invalid ones.

use std::collections::HashSet;
use weir_controller::topology::{CPU_PORT, Location, Node, SwitchIx, Topology, TopologySpec, build};
use weir_units::{Bandwidth, Time};

fn spec(yaml: &str) -> TopologySpec {
    serde_yaml::from_str(yaml).unwrap_or_else(|e| panic!("{yaml}: {e}"))
}

fn build_error(yaml: &str) -> String {
    match serde_yaml::from_str::<TopologySpec>(yaml) {
        Ok(spec) => build(&spec).unwrap_err().to_string(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_dumbbell_is_a_row_with_ports_in_link_order() {
    let t = build(&spec("{kind: dumbbell, switches: 3, senders: 2, receivers: 1, delay: 1.5us}")).unwrap();
    let names: Vec<&str> = t.switches.iter().map(|s| s.name.as_str()).collect();
    assert_eq!(names, ["s1", "s2", "s3"]);
    let ends = |i: usize| (t.links[i].a, t.links[i].b);
    // h1-s1, h2-s1, h3-s3, s1-s2, s2-s3
    assert_eq!((ends(0).1.port, ends(1).1.port, ends(2).1.port), (1, 2, 1));
    assert_eq!((ends(3).0.port, ends(3).1.port), (3, 1));
    assert_eq!((ends(4).0.port, ends(4).1.port), (2, 2));
    assert_eq!(t.links[4].delay, Time::from_ns(1500));
    assert_eq!(t.links[4].rate, Bandwidth::from_gbps(100));
    assert_eq!(t.hosts[0].ip.to_string(), "10.0.1.1");
    assert_eq!(t.hosts[1].ip.to_string(), "10.0.1.2");
    assert_eq!(t.hosts[2].ip.to_string(), "10.0.3.1");
    assert_eq!(t.hosts[2].mac, [2, 0, 10, 0, 3, 1]);
    assert_eq!(t.switches[0].rack.unwrap().to_string(), "10.0.1.0/24");
    assert_eq!(t.switches[1].rack, None);
    assert_eq!(t.switches.iter().map(|s| s.tier).collect::<Vec<_>>(), [0, 1, 0]);
}

#[test]
fn a_fat_tree_has_the_expected_counts_and_tiers() {
    let t = build(&spec("{kind: fat-tree, k: 16}")).unwrap();
    assert_eq!((t.hosts.len(), t.switches.len(), t.links.len()), (1024, 320, 3 * 1024));
    let tier = |tier| t.switches.iter().filter(|s| s.tier == tier).count();
    assert_eq!((tier(0), tier(1), tier(2)), (128, 128, 64));
    assert!(t.switches.iter().all(|s| s.ports().count() == 16));
    let addresses: HashSet<_> = t.hosts.iter().map(|h| h.ip).collect();
    assert_eq!(addresses.len(), 1024);
    assert_eq!(t.hosts[1023].ip.to_string(), "10.0.128.8");
    assert!(t.switches.iter().enumerate().all(|(i, s)| usize::from(s.switch_id) == i + 1));
}

#[test]
fn a_fat_tree_with_more_hosts_and_pods_is_oversubscribed() {
    let t = build(&spec("{kind: fat-tree, k: 8, pods: 16, hosts_per_edge: 16}")).unwrap();
    assert_eq!((t.hosts.len(), t.switches.len()), (1024, 64 + 64 + 16));
    let ports = |tier| t.switches.iter().filter(move |s| s.tier == tier).map(|s| s.ports().count());
    assert!(ports(0).all(|n| n == 16 + 4), "four uplinks for sixteen hosts");
    assert!(ports(1).all(|n| n == 8) && ports(2).all(|n| n == 16));
}

/// Returns the number of neighbours of each switch.
fn degrees(t: &Topology) -> Vec<usize> {
    t.switch_ixs().map(|ix| t.neighbours(ix).map(|n| n.switch).collect::<HashSet<_>>().len()).collect()
}

#[test]
fn a_jellyfish_is_regular_and_determined_by_its_seed() {
    let jellyfish = |seed: u64| {
        let yaml = format!("{{kind: jellyfish, switches: 20, degree: 4, hosts_per_switch: 3, seed: {seed}}}");
        build(&spec(&yaml)).unwrap()
    };
    let t = jellyfish(1);
    assert_eq!((t.hosts.len(), t.links.len()), (60, 60 + 40));
    assert!(degrees(&t).iter().all(|&n| n == 4));
    assert_eq!(t, jellyfish(1));
    assert_ne!(t, jellyfish(2));
}

#[test]
fn a_dragonfly_has_one_link_between_any_two_groups() {
    let t = build(&spec("{kind: dragonfly, a: 4, p: 2, h: 2, global_delay: 5us}")).unwrap();
    assert_eq!((t.hosts.len(), t.switches.len()), (72, 36));
    assert!(degrees(&t).iter().all(|&n| n == 3 + 2), "three in its group and two in other groups");
    let mut pairs = HashSet::new();
    for link in &t.links {
        let (Node::Switch(a), Node::Switch(b)) = (link.a.node, link.b.node) else { continue };
        let (one, other) = (a.0 / 4, b.0 / 4);
        assert_eq!(link.delay, Time::from_us(if one == other { 1 } else { 5 }));
        assert!(one == other || pairs.insert((one.min(other), one.max(other))), "{one} {other}");
    }
    assert_eq!(pairs.len(), 9 * 8 / 2);
}

#[test]
fn a_butterfly_has_one_shortest_path_from_side_to_side() {
    let t = build(&spec("{kind: butterfly, k: 2, stages: 3}")).unwrap();
    assert_eq!((t.hosts.len(), t.switches.len()), (16, 12));
    for first in 0..4 {
        let mut paths = [0u32; 12];
        paths[first] = 1;
        for here in 0..8 {
            for n in t.neighbours(SwitchIx(here)).filter(|n| n.switch.0 / 4 == here / 4 + 1) {
                paths[n.switch.0 as usize] += paths[here as usize];
            }
        }
        assert_eq!(paths[8..], [1, 1, 1, 1], "from s{}", first + 1);
    }
}

#[test]
fn a_large_rack_widens_every_prefix_and_no_host_sits_on_the_cpu_port() {
    let t = build(&spec("{kind: star, hosts: 500}")).unwrap();
    assert_eq!(t.switches[0].rack.unwrap().to_string(), "10.0.2.0/23");
    assert!(t.hosts.iter().all(|h| t.switches[0].rack.unwrap().contains(h.ip) && h.switch_port != CPU_PORT));
    assert_eq!(t.hosts[254].switch_port, 256);
    assert_eq!(t.hosts[499].ip.to_string(), "10.0.3.244");
    assert_eq!(
        t.peer(t.hosts[254].switch, 256).unwrap().1.node,
        Node::Host(weir_controller::topology::HostIx(254))
    );
}

#[test]
fn custom_links_have_two_forms_and_may_be_parallel() {
    let t = build(&spec(
        "{kind: custom, hosts: [a, b], switches: [x, y], rate: 10Gbps, delay: 2us, links: [[a, x], [y, b], [x, y],
          {a: x, b: y, rate: 25Gbps, delay: 1us}]}",
    ))
    .unwrap();
    assert_eq!(t.neighbours(t.switch_named("x").unwrap()).count(), 2);
    assert_eq!((t.links[2].rate, t.links[2].delay), (Bandwidth::from_gbps(10), Time::from_us(2)));
    assert_eq!((t.links[3].rate, t.links[3].delay), (Bandwidth::from_gbps(25), Time::from_us(1)));
    assert_eq!(t.host(t.host_named("b").unwrap()).switch, t.switch_named("y").unwrap());
}

#[test]
fn a_spec_survives_serialisation() {
    for yaml in [
        "{kind: dumbbell, switches: 3, senders: 2, receivers: 1}",
        "{kind: leaf-spine, leaves: 4, spines: 2, hosts_per_leaf: 8, host_rate: 25Gbps}",
        "{kind: custom, hosts: [h1], switches: [s1], links: [[h1, s1]]}",
        "{kind: fat-tree, k: 4}",
        "{kind: star, hosts: 4}",
        "{kind: fat-tree, k: 4, pods: 2, hosts_per_edge: 6}",
        "{kind: parking-lot, switches: 4}",
        "{kind: jellyfish, switches: 12, degree: 3, seed: 9}",
        "{kind: dragonfly, a: 4, p: 2, h: 2, groups: 3}",
        "{kind: butterfly, k: 2, stages: 3}",
        "{kind: file, path: topologies/x.txt}",
    ] {
        let one = spec(yaml);
        assert_eq!(spec(&serde_yaml::to_string(&one).unwrap()), one);
    }
}

#[test]
fn invalid_values_are_rejected_with_their_location() {
    let custom = |links: &str| {
        build_error(&format!("{{kind: custom, hosts: [h1, h2], switches: [s1, s2], links: {links}}}"))
    };
    assert_eq!(custom("[[h1, s1], [h2, s1], [h9, s1]]"), "link 3: host \"h9\" is not declared");
    assert_eq!(custom("[[h1, s7]]"), "link 1: switch \"s7\" is not declared");
    assert_eq!(custom("[[s1, s1]]"), "link 1: \"s1\" is linked to itself");
    assert_eq!(
        custom("[[h1, h2]]"),
        "link 1: \"h1\" and \"h2\" are both hosts; a host is linked to a switch"
    );
    assert_eq!(
        custom("[[h1, s1], [s2, h1]]"),
        "link 2: host \"h1\" already has a link; hosts with several links (NICs) are not supported yet"
    );
    assert_eq!(custom("[[h1, s1]]"), "host \"h2\" has no link");
    assert_eq!(custom("[[h1, s1], [h2, s2]]"), "no path between \"h1\" and \"h2\"");
    let zero = custom("[{a: h1, b: s1, rate: 0bps}]");
    assert!(zero.starts_with("link 1: rate is zero; supported rates: 1Mbps, 5Mbps, "), "{zero}");
    assert!(custom("[{a: h1, b: s1, rate: 30Gbps}]").starts_with(
        "link 1: rate 30Gbps has no telemetry code; supported rates: 1Mbps, 5Mbps, 10Mbps, 20Mbps, 50Mbps, 100Mbps, 1Gbps"
    ));
    assert!(custom("[{a: h1, b: s1, rate: 100}]").contains("rate \"100\" has no unit"));
    assert!(custom("[{a: h1, b: s1, delay: -1us}]").contains("is negative"));
    assert!(custom("[{a: h1, b: s1, colour: red}]").contains("unknown field `colour`"));
    assert!(custom("[[h1, s1, s2]]").contains("a link: [h1, s1] or {a: h1"));
    assert!(custom("[[h1]]").contains("a link: [h1, s1] or {a: h1"));
    let names =
        |hosts: &str| build_error(&format!("{{kind: custom, hosts: [{hosts}], switches: [s1], links: []}}"));
    assert_eq!(names("h1, h1"), "hosts: \"h1\" is declared twice; names of hosts and switches must differ");
    assert_eq!(names("s1"), "switches: \"s1\" is declared twice; names of hosts and switches must differ");
    assert_eq!(names(""), "the topology has no hosts");
    assert!(names("'../x'").contains("is not a valid name"));
}

#[test]
fn counts_are_limited_before_anything_is_allocated() {
    assert_eq!(build_error("{kind: star, hosts: 0}"), "hosts: 0 is out of range, use 1 to 500");
    assert_eq!(
        build_error("{kind: star, hosts: 1000000000000}"),
        "hosts: 1000000000000 is out of range, use 1 to 500"
    );
    assert_eq!(
        build_error("{kind: dumbbell, switches: 1, senders: 400, receivers: 101}"),
        "link 501: switch \"s1\" needs more than 500 ports"
    );
    assert_eq!(build_error("{kind: fat-tree, k: 5}"), "k: a fat-tree needs an even k, not 5");
    assert_eq!(build_error("{kind: fat-tree, k: 58}"), "k: 58 is out of range, use 2 to 56");
    assert_eq!(
        build_error("{kind: jellyfish, switches: 4, degree: 1}"),
        "degree: found no connected graph of 4 switches with 1 links each; use another degree or seed"
    );
    assert_eq!(
        build_error("{kind: dragonfly, a: 2, p: 1, h: 1, groups: 4}"),
        "groups: 4 is out of range, use 1 to 3"
    );
    assert!(build_error("{kind: butterfly, k: 16, stages: 16}").contains("at most 4095"));
    assert!(build_error("{kind: dragonfly, a: 100, p: 1, h: 100}").contains("at most 4095"));
    assert!(build_error("{kind: file, path: x.txt}").contains("has not been read"));
    assert!(build_error("{kind: star, hosts: -1}").contains("-1"));
    assert!(build_error("{kind: star, hosts: 2, senders: 1}").contains("unknown field `senders`"));
    let kinds = TopologySpec::KINDS.map(|kind| format!("`{kind}`")).join(", ");
    let unknown = build_error("{kind: moebius, hosts: 2}");
    assert!(unknown.contains(&format!("unknown variant `moebius`, expected one of {kinds}")), "{unknown}");
    let many: Vec<String> = (1..=4096).map(|n| format!("s{n}")).collect();
    let text = format!("{{kind: custom, hosts: [h1], switches: [{}], links: []}}", many.join(", "));
    assert_eq!(
        build_error(&text),
        "4096 switches; at most 4095 are supported, since switch ids have 12 bits"
    );
}

#[test]
fn an_error_contains_its_location() {
    let error = build(&spec("{kind: custom, hosts: [h1], switches: [s1], links: [[h1, s9]]}")).unwrap_err();
    assert_eq!(error.location, Location::Link(1));
}
