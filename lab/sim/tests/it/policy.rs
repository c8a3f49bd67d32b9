//! Dissemination of policies through the P4 programs and the controller's flooding tree, in virtual time.

use weir_experiment::Experiment;
use weir_experiment::results::{PolicySummary, SchemeSummary};
use weir_sim::run;

fn outcome(text: &str) -> (SchemeSummary, PolicySummary, String) {
    let experiment = Experiment::parse(text, "test", "test", &[], None).unwrap_or_else(|e| panic!("{e}"));
    let results = run(&experiment, &mut ()).unwrap();
    let scheme = results.summary.schemes.values().next().unwrap().clone();
    let policy = scheme.policy.clone().expect("the experiment has policies");
    (scheme, policy, results.summary.digest)
}

/// One of 16 hosts sets eta while flows run.
#[test]
fn sixteen_hosts_of_a_fat_tree_run_the_policy_that_one_sets() {
    let text = "
topology: {kind: fat-tree, k: 4, rate: 100Gbps, delay: 1.5us}
schemes: [hpcc]
workload: {kind: permutation, size: 2MB}
policy: {imin: 100us, set: [{at: 300us, via: h5, eta: 0.9}]}
duration: 3ms
observe: {interval: 10us, ports: []}
";
    let (scheme, policy, digest) = outcome(text);
    let set = &policy.sets[0];
    assert_eq!(
        (set.id.as_str(), set.change.as_str(), set.hosts),
        ("1 by 10.0.3.1", "eta=0.9", 16),
        "{set:?}"
    );
    let imins = set.all_after_imin.expect("all hosts run the policy");
    assert!((0.5..2.0).contains(&imins), "{imins} Imin");
    assert_eq!((scheme.fct.count, scheme.fct.unfinished), (16, 0), "all flows finished");
    assert_eq!((scheme.timeouts, scheme.drops.len()), (0, 0), "{:?}", scheme.drops);
    assert!(policy.fabric_share < 0.01, "{}", policy.fabric_share);
    assert_eq!(
        policy.sent * 15,
        policy.consistent + policy.newer + policy.older,
        "each host receives each message once"
    );
    assert_eq!(outcome(text).2, digest);
}

/// Faults: a host that joins late, a partition, a restart of a switch, losses, and an attacker.
#[test]
fn all_hosts_agree_despite_faults() {
    let text = "
topology: {kind: leaf-spine, leaves: 4, spines: 2, hosts_per_leaf: 4, rate: 100Gbps, delay: 1us}
schemes: [hpcc]
policy:
  imin: 100us
  imax: 5
  set:
    - {at: 1ms, via: h1, eta: 0.9}
    - {at: 6ms, via: h2, eta: 0.85}
    - {at: 6ms, via: h14, eta: 0.8}
faults:
  - {kind: loss, rate: 0.05}
  - {kind: away, hosts: [h7], to: 4ms}
  - {kind: down, links: [s4-s5, s4-s6], from: 5ms, to: 10ms}
  - {kind: restart, switch: s2, at: 12ms, refill_after: 1ms}
  - {kind: attack, host: h3, with: forged, at: 2ms, every: 200us, times: 20}
  - {kind: attack, host: h3, with: replayed, at: 14ms, every: 100us, times: 20}
  - {kind: attack, host: h3, with: malformed, at: 2ms, every: 200us, times: 20}
  - {kind: attack, host: h3, with: unicast, at: 2ms, every: 200us, times: 20}
duration: 30ms
observe: {interval: 100us}
";
    let (scheme, policy, _) = outcome(text);
    let ids: Vec<_> = policy.sets.iter().map(|set| set.id.split(' ').next().unwrap()).collect();
    assert_eq!(ids, ["1", "2", "2"], "{:?}", policy.sets);
    let winner = &policy.sets[2];
    assert_eq!((winner.hosts, policy.lost), (16, 1), "{:?}", policy.sets);
    let all = winner.all_after_us.unwrap();
    assert!((4_000.0..9_000.0).contains(&all), "soon after the partition has healed: {all} us");
    for (reason, min) in [
        ("host_policy_forged", 100),
        ("host_policy_replayed", 100),
        ("host_policy_malformed", 100),
        ("policy_unicast", 15),
        ("link_loss", 50),
        ("link_down", 20),
    ] {
        assert!(scheme.drops.get(reason).is_some_and(|&n| n >= min), "{reason}: {:?}", scheme.drops);
    }
}
