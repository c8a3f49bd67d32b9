//! Routes on all kinds of topologies: their proof, and proofs that must fail.

use crate::common::{CLOS, DIRECT, fabric, parallel, random, ring};
use std::collections::BTreeSet;
use std::ops::AddAssign;
use std::time::{Duration, Instant};
use weir_controller::hash::{FiveTuple, PathHash, UDP};
use weir_controller::routes::{NextHop, RouteError, Routes, RoutingMethod, routes};
use weir_controller::topology::{Prefix, SwitchIx, Topology};
use weir_controller::verify::{RouteFault, verify};
use weir_controller::{BaseRtt, path::PathError};
use weir_units::{Bandwidth, Bytes, Time};

/// Checks every pair of hosts with these hashes by following single packets, independently of `verify`.
fn assert_symmetric(topology: &Topology, routes: &Routes, hashes: impl Iterator<Item = u32> + Clone) {
    for a in topology.host_ixs() {
        for b in topology.host_ixs().filter(|&b| b != a) {
            for hash in hashes.clone().map(PathHash) {
                let there = routes.path(topology, a, b, hash).unwrap();
                let back = routes.path(topology, b, a, hash).unwrap();
                assert_eq!(there.reversed(), back);
                assert_eq!(there.path_id(topology), back.path_id(topology));
            }
        }
    }
}

#[test]
fn ecmp_is_proved_on_every_kind() {
    for yaml in CLOS {
        let topology = fabric(yaml);
        let routes = routes(&topology, RoutingMethod::Auto).unwrap();
        assert_eq!(routes.method, RoutingMethod::Ecmp, "{yaml}");
        let proof = verify(&topology, &routes).unwrap();
        let hosts = topology.hosts.len() as u64;
        assert_eq!(proof.pairs, hosts * (hosts - 1));
        if hosts <= 16 {
            assert_symmetric(&topology, &routes, (0..64).map(|i| i * 0x0357_1b2d));
        }
    }
}

#[test]
fn the_proof_counts_the_pairs_and_paths_of_a_fat_tree() {
    let topology = fabric("{kind: fat-tree, k: 4}");
    let proof = verify(&topology, &routes(&topology, RoutingMethod::Ecmp).unwrap()).unwrap();
    // 8 racks: 28 pairs: 4 in the same pod, with 2 paths each, and 24 with 4.
    assert_eq!((proof.pairs, proof.class_pairs), (240, 28));
    assert_eq!(proof.paths, 4 * 2 + 24 * 4);
    assert_eq!((proof.max_paths_per_pair, proof.max_path_len), (4, 5));
}

#[test]
fn all_paths_of_a_fat_tree_are_used_by_flows_that_differ_in_one_port() {
    let topology = fabric("{kind: fat-tree, k: 8}");
    let routes = routes(&topology, RoutingMethod::Ecmp).unwrap();
    let (src, dst) = (topology.hosts[0].ip, topology.hosts[127].ip);
    let mut cores = std::collections::BTreeMap::<SwitchIx, u32>::new();
    const FLOWS: u32 = 1600;
    for port in 0..FLOWS as u16 {
        let tuple = FiveTuple { src, dst, src_port: 10_000 + port, dst_port: 22341, protocol: UDP };
        let path = routes.path_of(&topology, tuple).unwrap().unwrap();
        *cores.entry(path.hops[2].switch).or_default() += 1;
    }
    // 16 cores, 100 flows each on average: all are used, none by more than twice its share.
    assert_eq!(cores.len(), 16);
    assert!(cores.values().all(|&n| (50..200).contains(&n)), "{cores:?}");
}

#[test]
fn groups_are_shared_and_prefixes_are_racks() {
    let topology = fabric("{kind: leaf-spine, leaves: 4, spines: 2, hosts_per_leaf: 3}");
    let routes = routes(&topology, RoutingMethod::Ecmp).unwrap();
    let leaf = &routes.switches[0];
    assert_eq!(leaf.groups.values().collect::<Vec<_>>(), [&vec![4, 5]]);
    let rack = topology.switches[1].rack.unwrap();
    let group = *leaf.groups.keys().next().unwrap();
    assert_eq!(leaf.forward[&rack], NextHop::Ecmp { group, size: 2, slice: 0 });
    assert_eq!(leaf.forward.len(), 3 + 3);
    let local = Prefix::host(topology.hosts[0].ip);
    assert_eq!(leaf.forward[&local], NextHop::Deliver { port: 1, mac: topology.hosts[0].mac });
    let tree = fabric("{kind: fat-tree, k: 4}");
    let routes = weir_controller::routes(&tree, RoutingMethod::Ecmp).unwrap();
    let slice = |s: usize, to: usize| routes.switches[s].forward[&tree.switches[to].rack.unwrap()];
    assert!(matches!(slice(0, 7), NextHop::Ecmp { slice: 0, .. }));
    assert!(matches!(slice(8, 7), NextHop::Ecmp { slice: 16, .. }));
}

#[test]
fn parallel_links_are_used_and_symmetric() {
    let topology = parallel();
    let routes = routes(&topology, RoutingMethod::Ecmp).unwrap();
    let hashes = (0..64u32).map(|i| i.wrapping_mul(0x9e37_79b1));
    assert_symmetric(&topology, &routes, hashes.clone());
    let links: BTreeSet<_> = hashes
        .flat_map(|h| {
            let (a, b) = (topology.host_named("h1").unwrap(), topology.host_named("h2").unwrap());
            routes.path(&topology, a, b, PathHash(h)).unwrap().links
        })
        .collect();
    assert_eq!(links.len(), topology.links.len());
}

#[test]
fn a_ring_gets_trees_because_ecmp_cannot_be_symmetric_there() {
    let topology = ring();
    let error = routes(&topology, RoutingMethod::Ecmp).unwrap_err();
    let RouteError::NotSymmetric(violation) = &error;
    assert!(violation.hash.is_some(), "a hash that shows it");
    assert!(matches!(violation.fault, RouteFault::Asymmetric { .. }), "{violation}");
    assert!(error.to_string().starts_with("ECMP is not symmetric on this topology, use trees: h"), "{error}");
    let auto = routes(&topology, RoutingMethod::Auto).unwrap();
    assert_eq!(auto.method, RoutingMethod::Trees);
    verify(&topology, &auto).unwrap();
    assert_symmetric(&topology, &auto, 0..24);
}

#[test]
fn every_kind_gets_symmetric_routes() {
    for yaml in DIRECT {
        let topology = fabric(yaml);
        let routes = routes(&topology, RoutingMethod::Auto).unwrap();
        let proof = verify(&topology, &routes).unwrap_or_else(|faults| panic!("{yaml}: {}", faults[0]));
        let hosts = topology.hosts.len() as u64;
        assert_eq!(proof.pairs, hosts * (hosts - 1), "{yaml}");
        assert_symmetric(&topology, &routes, (0..32).map(|i| i * 0x0357_1b2d));
    }
}

#[test]
fn trees_make_random_graphs_symmetric() {
    for seed in 0..6 {
        let topology = random(20, 4, seed);
        let trees = routes(&topology, RoutingMethod::Trees).unwrap();
        let proof = verify(&topology, &trees).unwrap();
        assert!(proof.max_paths_per_pair > 1, "one tree only");
        assert_symmetric(&topology, &trees, 0..16);
        verify(&topology, &routes(&topology, RoutingMethod::Auto).unwrap()).unwrap();
    }
}

#[test]
fn trees_of_a_fat_tree_are_its_cores() {
    let topology = fabric("{kind: fat-tree, k: 4}");
    let trees = routes(&topology, RoutingMethod::Trees).unwrap();
    assert_eq!(trees.switches[0].forward[&topology.fabric], NextHop::Trees { count: 4 });
    let proof = verify(&topology, &trees).unwrap();
    assert_eq!((proof.max_paths_per_pair, proof.max_path_len), (4, 5));
    let ends = (topology.host_named("h1").unwrap(), topology.host_named("h16").unwrap());
    let core = |h| trees.path(&topology, ends.0, ends.1, PathHash(h)).unwrap().hops[2].switch;
    assert_eq!((0..4).map(core).collect::<BTreeSet<_>>().len(), 4);
}

#[test]
fn a_single_switch_in_the_highest_tier_does_not_limit_routes_to_one_tree() {
    // A ring in which only s6 has no host: it is the only switch of the highest tier.
    let topology = fabric(
        "{kind: custom, hosts: [h1, h2, h3, h4, h5], switches: [s1, s2, s3, s4, s5, s6], links:
          [[h1, s1], [h2, s2], [h3, s3], [h4, s4], [h5, s5],
           [s1, s2], [s2, s3], [s3, s4], [s4, s5], [s5, s6], [s6, s1]]}",
    );
    let trees = routes(&topology, RoutingMethod::Trees).unwrap();
    assert!(verify(&topology, &trees).unwrap().max_paths_per_pair > 1);
}

#[test]
fn trees_fit_their_table() {
    let topology = fabric("{kind: leaf-spine, leaves: 10, spines: 16, hosts_per_leaf: 120}");
    let trees = routes(&topology, RoutingMethod::Trees).unwrap();
    let max = trees.switches.iter().map(|s| s.trees.iter().map(|t| t.len()).sum::<usize>()).max().unwrap();
    assert_eq!(trees.switches[0].forward[&topology.fabric], NextHop::Trees { count: 13 });
    assert!(max <= 16384, "{max} entries");
}

/// Returns the first violation after `change` has broken the routes of a fat-tree.
fn first_violation(change: impl FnOnce(&Topology, &mut Routes)) -> weir_controller::Violation {
    let topology = fabric("{kind: fat-tree, k: 4}");
    let mut routes = routes(&topology, RoutingMethod::Ecmp).unwrap();
    change(&topology, &mut routes);
    let mut violations = verify(&topology, &routes).unwrap_err();
    let violation = violations.swap_remove(0);
    // The hash of the violation shows the fault.
    if let Some(hash) = violation.hash {
        let host = |name: &str| topology.host_named(name).unwrap();
        let there = routes.path(&topology, host(&violation.src), host(&violation.dst), hash);
        let back = routes.path(&topology, host(&violation.dst), host(&violation.src), hash);
        assert!(there.is_err() || back.map(|b| b.reversed()) != there, "{violation}");
    }
    violation
}

#[test]
fn a_group_in_another_order_is_found() {
    let violation =
        first_violation(|_, routes| routes.switches[3].groups.values_mut().for_each(|ports| ports.reverse()));
    assert!(matches!(violation.fault, RouteFault::Asymmetric { .. }), "{violation}");
    assert!(violation.to_string().contains("its ACK leaves that path at s4 by port"), "{violation}");
}

#[test]
fn another_slice_on_one_switch_is_found() {
    let violation = first_violation(|topology, routes| {
        let rack = topology.switches[0].rack.unwrap();
        if let Some(NextHop::Ecmp { slice, .. }) = routes.switches[7].forward.get_mut(&rack) {
            *slice = 8;
        }
    });
    assert!(matches!(violation.fault, RouteFault::Asymmetric { .. }), "{violation}");
    assert!(violation.hash.is_some());
}

#[test]
fn a_missing_route_member_or_port_is_found() {
    let gone = first_violation(|t, routes| {
        routes.switches[16].forward.remove(&t.switches[7].rack.unwrap());
    });
    assert!(
        matches!(&gone.fault, RouteFault::Undelivered { error: PathError::NoRoute(at), .. } if at == "s17"),
        "{gone}"
    );
    let member = first_violation(|_, routes| {
        routes.switches[0].groups.values_mut().next().unwrap().pop();
    });
    assert!(
        matches!(&member.fault, RouteFault::Undelivered { error: PathError::NoRoute(at), .. } if at == "s1"),
        "{member}"
    );
    let port = first_violation(|t, routes| {
        routes.switches[16].forward.insert(t.switches[7].rack.unwrap(), NextHop::Via { port: 77 });
    });
    assert!(
        matches!(&port.fault, RouteFault::Undelivered { error: PathError::WrongPort { port: 77, .. }, .. }),
        "{port}"
    );
}

#[test]
fn a_loop_is_found() {
    let violation = first_violation(|t, routes| {
        // The core sends the last rack's packets to the wrong pod, which sends them up again.
        routes.switches[16].forward.insert(t.switches[7].rack.unwrap(), NextHop::Via { port: 1 });
    });
    assert!(
        matches!(&violation.fault, RouteFault::Undelivered { error: PathError::Loop(_), .. }),
        "{violation}"
    );
}

#[test]
fn a_route_for_one_host_only_is_found() {
    // A longer prefix on one switch takes one host of a rack out of its class.
    let violation = first_violation(|t, routes| {
        routes.switches[16].forward.insert(Prefix::host(t.hosts[15].ip), NextHop::Via { port: 1 });
    });
    assert_eq!(violation.dst, "h16");
}

#[test]
fn a_missing_local_delivery_is_found() {
    let wrong_mac = first_violation(|t, routes| {
        let hop = NextHop::Deliver { port: 1, mac: [9; 6] };
        routes.switches[0].forward.insert(Prefix::host(t.hosts[0].ip), hop);
    });
    assert_eq!(wrong_mac.to_string(), "h2 to h1: s1 does not deliver to it");
    let missing = first_violation(|t, routes| {
        routes.switches[7].forward.remove(&Prefix::host(t.hosts[15].ip));
    });
    assert_eq!(missing.to_string(), "h1 to h16: s8 does not deliver to it");
}

/// Returns whether trying single packets finds a lost packet or an ACK on another path, which `verify` must never miss.
fn trying_finds_fault(topology: &Topology, routes: &Routes) -> bool {
    let hashes = || (0..32u32).map(|i| PathHash(i.wrapping_mul(0x9e37_79b1)));
    let mut pairs = topology.host_ixs().flat_map(|a| topology.host_ixs().map(move |b| (a, b)));
    pairs.any(|(a, b)| {
        a != b
            && hashes().any(|hash| {
                let there = routes.path(topology, a, b, hash);
                there.is_err() || routes.path(topology, b, a, hash) != there.map(|path| path.reversed())
            })
    })
}

#[test]
fn verify_misses_nothing_that_trying_finds() {
    let mut seed = 1u64;
    let mut draw = |n: usize| {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (seed >> 33) as usize % n
    };
    let (mut wrong, mut right) = (0, 0);
    for round in 0..120 {
        let topology = match round % 3 {
            0 => fabric("{kind: fat-tree, k: 4}"),
            1 => parallel(),
            _ => ring(),
        };
        let mut routes = routes(&topology, RoutingMethod::Auto).unwrap();
        let at = draw(routes.switches.len());
        let ports = topology.switches[at].ports().count();
        let it = &mut routes.switches[at];
        match draw(5) {
            0 => it.groups.values_mut().for_each(|ports| ports.rotate_left(1)),
            1 => it.groups.values_mut().for_each(|all| all[0] = 1 + draw(ports) as u16),
            2 => {
                if let Some(hop) = it.forward.values_mut().nth(draw(4)) {
                    *hop = NextHop::Via { port: 1 + draw(ports) as u16 };
                }
            }
            3 => it.trees.iter_mut().take(1).for_each(|tree| {
                tree.values_mut().take(1).for_each(|port| *port = 1 + draw(ports) as u16);
            }),
            _ => {
                let prefix = Prefix::host(topology.hosts[draw(topology.hosts.len())].ip);
                it.forward.insert(prefix, NextHop::Via { port: 1 + draw(ports) as u16 });
            }
        }
        let proved = verify(&topology, &routes);
        if trying_finds_fault(&topology, &routes) {
            assert!(proved.is_err(), "round {round}");
            wrong += 1;
        } else {
            right += usize::from(proved.is_ok());
        }
    }
    assert!(wrong > 30 && right > 10, "{wrong} wrong, {right} right");
}

/// A switch on the only path is used although it is to be avoided.
#[test]
fn routes_pass_an_avoided_switch_only_if_no_other_path_exists() {
    let mut topologies: Vec<Topology> = [CLOS[1], CLOS[2], CLOS[4], DIRECT[0], DIRECT[1]].map(fabric).into();
    topologies.extend([ring(), parallel(), random(9, 2, 4)]);
    let (mut bypassed, mut passed) = (0, 0);
    for topology in topologies {
        for avoided in topology.switch_ixs() {
            let around = topology.neighbours(avoided).map(|it| it.link).collect();
            let components = topology.without_links(&around).components();
            let topology = topology.clone().avoiding(&BTreeSet::from([avoided]));
            let routes = routes(&topology, RoutingMethod::Auto).unwrap();
            verify(&topology, &routes).unwrap();
            for (a, b) in topology.host_ixs().flat_map(|a| topology.host_ixs().map(move |b| (a, b))) {
                let (from, to) = (topology.host(a).switch, topology.host(b).switch);
                if from == avoided || to == avoided || from == to {
                    continue;
                }
                let is_joined = components[from.0 as usize] == components[to.0 as usize];
                for hash in (0..16u32).map(|n| PathHash(n.wrapping_mul(0x9e37_79b1))) {
                    let path = routes.path(&topology, a, b, hash).unwrap();
                    let is_passed = path.hops.iter().any(|hop| hop.switch == avoided);
                    assert_eq!(is_passed, !is_joined, "{avoided:?}: {path:?}");
                    (if is_passed { &mut passed } else { &mut bypassed }).add_assign(1);
                }
            }
        }
    }
    assert!(bypassed > 1_000 && passed > 100, "{bypassed} around, {passed} through");
}

#[test]
fn base_rtt_equals_that_of_the_hpcc_simulator() {
    // docs/algorithms/hpcc.md#base-rtt: the 320-host fabric's longest path has 2 links of 100G and 4 of 400G, 1 us
    // each.
    let payload = Bytes::new(1000);
    let topology = fabric("{kind: fat-tree, k: 4, rate: 100Gbps, fabric_rate: 400Gbps, delay: 1us}");
    let rtt = BaseRtt::new(&topology, &routes(&topology, RoutingMethod::Auto).unwrap(), payload);
    assert_eq!(rtt.max(&topology), Time::from_ns(12_240));
    let host = |name| topology.host_named(name).unwrap();
    assert_eq!(rtt.pair(&topology, host("h1"), host("h16")), Time::from_ns(12_240));
    assert_eq!(rtt.pair(&topology, host("h1"), host("h2")), Time::from_ns(4_160));
    let routes = routes(&topology, RoutingMethod::Auto).unwrap();
    let path = routes.path(&topology, host("h1"), host("h16"), PathHash(1)).unwrap();
    assert_eq!(path.base_rtt(&topology, payload), Time::from_ns(12_240));
    assert_eq!(path.bottleneck(&topology), Bandwidth::from_gbps(100));
}

#[test]
fn base_rtt_takes_the_longest_of_a_pairs_paths() {
    let topology = fabric(
        "{kind: custom, hosts: [h1, h2], switches: [s1, s2, s3, s4], delay: 1us, links:
          [[h1, s1], [h2, s2], [s1, s3], {a: s1, b: s4, delay: 5us}, [s2, s3], [s2, s4]]}",
    );
    let routes = routes(&topology, RoutingMethod::Auto).unwrap();
    let rtt = BaseRtt::new(&topology, &routes, Bytes::ZERO);
    assert_eq!(rtt.max(&topology), Time::from_us(2 * (1 + 5 + 1 + 1)));
}

/// 1,024 hosts. The bound is for a debug build on a busy machine; in release it takes a fraction of a second.
#[test]
fn k16_is_routed_and_proved_quickly() {
    let start = Instant::now();
    let topology = fabric("{kind: fat-tree, k: 16}");
    let routes = routes(&topology, RoutingMethod::Auto).unwrap();
    let proof = verify(&topology, &routes).unwrap();
    assert_eq!((proof.pairs, proof.class_pairs), (1024 * 1023, 128 * 127 / 2));
    assert_eq!((proof.max_paths_per_pair, proof.max_path_len), (64, 5));
    let rtt = BaseRtt::new(&topology, &routes, Bytes::new(1000));
    assert_eq!(rtt.max(&topology), Time::from_ns(12_000 + 6 * 80));
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
}
