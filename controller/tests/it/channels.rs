//! Channel dependency graphs with and without cycles.

use crate::common::{CLOS, DIRECT, fabric, ring};
use weir_controller::plan::{escape_classes, last_escape_priority};
use weir_controller::thresholds::{DeflectionConfig, MAX_DEFLECTIONS};
use weir_controller::topology::{LinkIx, Topology};
use weir_controller::{ChannelProof, Routes, RoutingMethod, reroute, routes, verify, verify_channels};

fn deflection(tokens: u8, at_hosts: bool) -> DeflectionConfig {
    let text = format!("{{threshold: 15KB, tokens: {tokens}, at_hosts: {at_hosts}}}");
    serde_yaml::from_str(&text).unwrap()
}

fn routed(topology: &Topology) -> Routes {
    routes(topology, RoutingMethod::Auto).unwrap()
}

#[test]
fn clos_networks_have_no_cycle_with_any_number_of_deflections() {
    for yaml in CLOS {
        let topology = fabric(yaml);
        let routes = routed(&topology);
        let plain =
            verify_channels(&topology, &routes, None).unwrap_or_else(|cycle| panic!("{yaml}: {cycle}"));
        assert_eq!(verify_channels(&topology, &routes, Some(&deflection(0, false))), Ok(plain), "{yaml}");
        for at_hosts in [false, true] {
            let mut last = plain;
            for tokens in 1..=MAX_DEFLECTIONS {
                let config = deflection(tokens, at_hosts);
                let proof = verify_channels(&topology, &routes, Some(&config))
                    .unwrap_or_else(|cycle| panic!("{yaml}, {tokens} tokens: {cycle}"));
                assert!(proof.channels >= last.channels && proof.dependencies >= last.dependencies, "{yaml}");
                last = proof;
            }
            // With several spines or cores there are candidates for deflection.
            let deflects = yaml.contains("leaf-spine") || yaml.contains("k: 4");
            assert!(!deflects || last.channels > plain.channels, "{yaml}: {last:?}");
        }
    }
}

/// Two leaves and two spines have four links with two directions each. A packet on an uplink may wait for the downlink
/// to the other leaf; on a downlink it has reached its rack.
#[test]
fn channels_and_dependencies_are_counted() {
    let topology = fabric("{kind: leaf-spine, leaves: 2, spines: 2, hosts_per_leaf: 1}");
    let proof = verify_channels(&topology, &routed(&topology), None).unwrap();
    assert_eq!(proof, ChannelProof { channels: 8, dependencies: 4 });
}

/// One tree has no cycle, but several trees over a ring have.
#[test]
fn trees_that_share_a_ring_have_a_cycle() {
    let topology = ring();
    let routes = routed(&topology);
    let cycle = verify_channels(&topology, &routes, None).unwrap_err();
    assert_eq!(cycle.classes().collect::<Vec<_>>(), [0; 6], "{cycle}");
    assert_eq!(cycle.switches().split(" -> ").count(), 7, "{}", cycle.switches());
    let mut one = routes.clone();
    for it in &mut one.switches {
        it.trees.truncate(1);
        it.forward.values_mut().for_each(|hop| {
            if let weir_controller::routes::NextHop::Trees { count } = hop {
                *count = 1;
            }
        });
    }
    verify_channels(&topology, &one, None).unwrap_or_else(|cycle| panic!("{cycle}"));
    let line = fabric(DIRECT[0]);
    verify_channels(&line, &routed(&line), None).unwrap_or_else(|cycle| panic!("{cycle}"));
}

/// Up*/down* paths have no cycle on any graph, and deliver symmetrically. On a Clos they are the shortest paths.
#[test]
fn up_down_paths_have_no_cycle_on_any_graph() {
    let random = (1..=4).map(|seed| {
        format!("{{kind: jellyfish, switches: 20, degree: 4, hosts_per_switch: 2, seed: {seed}}}")
    });
    let mut fabrics: Vec<Topology> = random.map(|yaml| fabric(&yaml)).collect();
    fabrics.push(ring());
    fabrics.extend(DIRECT.iter().map(|yaml| fabric(yaml)));
    let clos = fabrics.len();
    fabrics.extend(CLOS.iter().map(|yaml| fabric(yaml)));
    for (index, topology) in fabrics.iter().enumerate() {
        let name = format!("fabric {index}");
        let up_down = routes(topology, RoutingMethod::UpDown).unwrap();
        let proof =
            verify(topology, &up_down).unwrap_or_else(|violations| panic!("{name}: {}", violations[0]));
        verify_channels(topology, &up_down, None).unwrap_or_else(|cycle| panic!("{name}: {cycle}"));
        if index >= clos {
            let shortest = verify(topology, &routed(topology)).unwrap();
            assert_eq!(proof.max_path_len, shortest.max_path_len, "{name}");
            assert!(proof.max_paths_per_pair > 1 || shortest.max_paths_per_pair == 1, "{name}");
        }
        // With failed links too: with the same number of planes, since switches take the hash modulo that.
        for link in (0..topology.links.len()).step_by(7).take(4) {
            let left = topology.without_links(&[LinkIx(link as u32)].into());
            let rerouted = reroute(&left, RoutingMethod::UpDown, &up_down).unwrap();
            assert_eq!(rerouted.trees(), up_down.trees());
            verify(&left, &rerouted).unwrap_or_else(|violations| panic!("{name}: {}", violations[0]));
            verify_channels(&left, &rerouted, None).unwrap_or_else(|cycle| panic!("{name}: {cycle}"));
        }
    }
}

/// Each deflection has two queues of its own, later deflections have higher ones, and a port has enough queues.
#[test]
fn each_deflection_has_two_classes() {
    for tokens in 1..=MAX_DEFLECTIONS {
        let classes: Vec<_> = escape_classes(tokens).collect();
        assert_eq!(classes.len(), usize::from(tokens) + 1);
        let mut queues: Vec<u8> = classes.iter().rev().flat_map(|it| [it.escape, it.detour]).collect();
        queues.pop(); // Packets without tokens are not deflected.
        let expected: Vec<u8> = [0].into_iter().chain(2..2 + 2 * tokens).collect();
        assert_eq!(queues, expected);
        assert_eq!(last_escape_priority(tokens), 1 + 2 * tokens);
    }
    assert_eq!((last_escape_priority(0), last_escape_priority(MAX_DEFLECTIONS)), (0, 7));
}
