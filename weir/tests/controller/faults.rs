//! Faults of the control plane only: the data plane keeps forwarding, so the controller must not conclude that links
//! failed.

use super::lab::{Lab, Lines, output_text, signal};
use std::collections::BTreeSet;
use std::thread::sleep;
use std::time::{Duration, Instant};

const SECOND: Duration = Duration::from_secs(1);
/// Longer than probing needs to detect a failed link.
const DETECTION_TIME: Duration = Duration::from_millis(600);

/// Returns the sequence numbers of the replies so far.
fn answered(ping: &Lines) -> BTreeSet<u32> {
    let sequence = |line: &str| line.split_once("icmp_seq=")?.1.split(' ').next()?.parse().ok();
    ping.all().iter().filter_map(|(_, line)| sequence(line)).collect()
}

/// The start of a fault, and the sequence number of the last reply to each ping before it.
struct Start {
    at: Instant,
    sequences: Vec<u32>,
}

impl Start {
    fn now(pings: &[Lines]) -> Start {
        let last = |ping| answered(ping).last().copied().unwrap_or_default();
        Start { at: Instant::now(), sequences: pings.iter().map(last).collect() }
    }
}

/// Returns a description of packet loss or rewritten entries since `began`; `None` if there were none.
fn find_damage(what: &str, began: &Start, watch: &Lines, pings: &[Lines]) -> Option<String> {
    let (mut lost, mut sent) = (0, 0);
    for (ping, &first) in pings.iter().zip(&began.sequences) {
        // Waits for one more reply, so that every lost packet shows as a gap in the sequence numbers.
        ping.expect(Instant::now(), "bytes from", 2 * SECOND);
        let answered = answered(ping);
        let last = answered.last().copied().unwrap_or_default();
        lost += (first..=last).filter(|sequence| !answered.contains(sequence)).count();
        sent += last - first;
    }
    let began = began.at;
    let lines: Vec<String> =
        watch.all().into_iter().filter(|(at, _)| *at >= began).map(|(_, it)| it).collect();
    let is_harmless = |line: &String| {
        let is_written = ["rerouted", "refilled", "repaired"].iter().any(|reason| line.contains(reason));
        let is_nothing = line.contains(": 0 inserted, 0 modified, 0 deleted");
        !line.contains("is down") && (!is_written || is_nothing)
    };
    let took = began.elapsed().as_secs_f64();
    eprintln!("{what}: {lost} of {sent} packets lost, {took:.1} s");
    let is_undamaged = lost == 0 && lines.iter().all(is_harmless);
    (!is_undamaged).then(|| format!("{what}: {lost} of {sent} packets lost: {lines:#?}"))
}

/// Waits until the controller is primary at all switches again and has compared their tables.
fn wait_until_recovered(watch: &Lines, since: Instant) {
    watch.expect(since, "refilled: ", 15 * SECOND);
    sleep(DETECTION_TIME);
}

/// Injects every fault of the control plane that was ever reported; no packet may be lost. `unreachable` is the switch
/// that one of the controllers cannot reach. Returns the process of `controller watch`.
fn inject_faults(lab: &Lab, unreachable: &str, pings: impl FnOnce(&Lab) -> Vec<Lines>) -> Lines {
    let began = Instant::now();
    let watch = lab.watch();
    let (started, _) = watch.expect(began, "started: ", 20 * SECOND);
    assert!(started.contains("all links up"), "{started}");
    // Pings start after the last entry is written, so that earlier losses do not count.
    let (asked, pings) = (Instant::now(), pings(lab));
    pings.iter().for_each(|ping| drop(ping.expect(asked, "bytes from", 10 * SECOND)));

    let now = || Start::now(&pings);
    let mut failures = Vec::new();

    let start = now();
    let other = Lines::spawn(lab.controller(&["watch", "--election-id", "9"]));
    other.expect(start.at, "started: ", 20 * SECOND);
    let killed = Instant::now();
    signal(&other.child, "-KILL");
    wait_until_recovered(&watch, killed);
    failures.extend(find_damage("another controller led and was killed", &start, &watch, &pings));

    let start = now();
    // The second controller is primary at all switches but one until its connection to that one times out. The timeout
    // leaves a loaded machine enough time for the other switches: a switch abandoned midway would be a different fault.
    lab.ip("s", "link add silent type veth peer name silenced");
    lab.ip("s", "addr add 192.0.2.1/24 dev silent");
    lab.ip("s", "link set silent up");
    let silent = format!("{unreachable}=192.0.2.2:1");
    let options = ["apply", "--election-id", "5", "--timeout", "4s", "--switch", &silent];
    let applied = lab.controller(&options).output().expect("weir runs");
    assert!(output_text(&applied).contains(&format!("{unreachable}: ")), "{}", output_text(&applied));
    wait_until_recovered(&watch, start.at);
    failures.extend(find_damage("the same plan was applied", &start, &watch, &pings));

    for outage in [SECOND, 5 * SECOND] {
        let start = now();
        lab.ip("s", "link set lo down");
        sleep(outage);
        let ended = Instant::now();
        lab.ip("s", "link set lo up");
        match outage {
            // Longer than the timeout of a connection without responses.
            _ if outage > 4 * SECOND => wait_until_recovered(&watch, ended),
            _ => sleep(SECOND + DETECTION_TIME),
        }
        failures.extend(find_damage(&format!("no control network for {outage:?}"), &start, &watch, &pings));
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    watch
}

/// On a fat-tree of 20 switches, with eight pings across pods.
pub(crate) fn no_packet_is_lost_on_a_fat_tree() {
    let lab = Lab::with_topology("{kind: fat-tree, k: 4, rate: 10Mbps}\n");
    let across = |lab: &Lab| {
        (1..=8).map(|n| lab.ping_between(&format!("h{n}"), &format!("h{}", n + 8), "0.02")).collect()
    };
    inject_faults(&lab, "s20", across);
}

pub(crate) fn no_packet_is_lost_to_faults_of_the_control_plane() {
    let lab = Lab::new();
    let watch = inject_faults(&lab, "s4", |lab| vec![lab.ping()]);

    // Links are still monitored. If a spine loses all links at once, its port states are read.
    let cut = |state: &str| {
        let at = Instant::now();
        ["s3-eth1", "s3-eth2"].iter().for_each(|port| lab.ip("s", &format!("link set {port} {state}")));
        at
    };
    let (_, rerouted) = watch.expect(cut("down"), "2 links down", 2 * SECOND);
    eprintln!("all links of s3 cut: rerouted after {} ms", rerouted.as_millis());
    watch.expect(cut("up"), "all links up", 3 * SECOND);

    // The links of an unresponsive spine stay up until its neighbours report that they are disconnected.
    let stopped = Instant::now();
    signal(&lab.switches[2], "-STOP");
    sleep(SECOND);
    assert!(
        !watch.all().iter().any(|(at, line)| *at >= stopped && line.contains("is down")),
        "{:?}",
        watch.all()
    );
    let (_, rerouted) = watch.expect(cut("down"), "2 links down", 3 * SECOND);
    eprintln!("s3 silent and disconnected: rerouted after {} ms", rerouted.as_millis());
    signal(&lab.switches[2], "-CONT");
}
