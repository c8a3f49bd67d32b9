//! Emulated links between veth pairs.

use super::lab::frames::udp;
use super::lab::{Lab, wait_for};
use super::{Nic, TIMEOUT, hpcc};
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};
use weir_switch::driver::{Dataplane, DataplaneConfig, EmulatedLink, LinkEmulator};
use weir_switch::link::{LinkDrop, LinkParameters};
use weir_switch::tm::QueueLimits;
use weir_units::Bandwidth;

/// Connects h1 and h2 by a link `l`, emulated between the interfaces p1 and p2.
fn connect(lab: &Lab, link: &str) -> (LinkEmulator, Nic, Nic) {
    lab.cable(("links", "p1"), ("hosts", "h1"), 1500);
    lab.cable(("links", "p2"), ("hosts", "h2"), 1500);
    let emulator =
        lab.within("links", || LinkEmulator::start(vec![emulated_link("l", ["p1", "p2"], link)], 1, None));
    (emulator.unwrap(), Nic::open(lab, "hosts", "h1"), Nic::open(lab, "hosts", "h2"))
}

fn emulated_link(name: &str, ends: [&str; 2], link: &str) -> EmulatedLink {
    EmulatedLink {
        name: name.to_owned(),
        ends: ends.map(str::to_owned),
        parameters: link.parse::<weir_switch::link::LinkChange>().unwrap().apply(LinkParameters::default()),
    }
}

fn wall_clock() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap()
}

/// Prints the timing errors, which depend on the machine. docs/links.md has measured values.
#[test]
#[allow(clippy::print_stderr)]
fn frames_arrive_at_the_time_that_the_link_computes() {
    const FRAMES: usize = 200;
    let Some(lab) = Lab::new("frames_arrive_at_the_time_that_the_link_computes", &["links", "hosts"]) else {
        return;
    };
    let (emulator, h1, mut h2) = connect(&lab, "rate=10Mbps,delay=5300us");
    // Serialisation of 1,250 bytes, and the delay: not a whole number of milliseconds.
    let link_time = Duration::from_micros(1_000 + 5_300);
    let mut errors = Vec::new();
    let frame = [udp(1, 2, 1250)];
    for _ in 0..FRAMES {
        let sent = wall_clock();
        h1.send(&frame);
        let mut arrivals = Vec::new();
        wait_for(TIMEOUT, || h2.ring.receive(1, |frame| arrivals.push(frame.received)) == 1);
        errors.push((arrivals[0] - sent).as_micros() as i64 - link_time.as_micros() as i64);
    }
    errors.sort_unstable();
    let percentile = |p: usize| errors[(FRAMES - 1) * p / 100];
    let lateness = emulator.handle().stats().wait().unwrap().lateness;
    let late = |p: usize| lateness[(FRAMES - 1) * p / 100].as_ps() / 1_000_000;
    eprintln!(
        "timing error of {FRAMES} frames at 10 Mbit/s: p50 {} us, p99 {} us, most {} us; of it until the process sends: p50 {} \
         us, p99 {} us",
        percentile(50),
        percentile(99),
        percentile(100),
        late(50),
        late(99)
    );
    assert!(errors[0] >= -10, "{} us early", -errors[0]);
    // Many frames may be late by a time slice of another process, but sleeps must be more precise than a millisecond.
    assert!(percentile(10) < 600, "{errors:?}");
}

#[test]
fn a_link_limits_rate_and_queue() {
    let Some(lab) = Lab::new("a_link_limits_rate_and_queue", &["links", "hosts"]) else { return };
    let (emulator, h1, mut h2) = connect(&lab, "rate=10Mbps,delay=50ms,queue=100kB");
    let frames: Vec<_> = (0..100).map(|_| udp(1, 2, 1250)).collect();
    let start = wall_clock();
    h1.send(&frames);
    let (mut first, mut last, mut count) = (None, Duration::ZERO, 0);
    let receive = |h2: &mut Nic, count: &mut usize, first: &mut Option<Duration>, last: &mut Duration| {
        *count += h2.ring.receive(100, |frame| {
            first.get_or_insert(frame.received - start);
            *last = frame.received - start;
        });
    };
    wait_for(TIMEOUT, || {
        receive(&mut h2, &mut count, &mut first, &mut last);
        count >= 80
    });
    assert!(first.unwrap() >= Duration::from_millis(51), "serialisation and delay: {first:?}");
    assert!(last >= Duration::from_millis(130), "not faster than the rate: {last:?}");
    // Queued frames may have left while the burst was read: then more than 80 fit, and some have not arrived yet.
    let handle = emulator.handle();
    let stats = || handle.stats().wait().unwrap();
    wait_for(TIMEOUT, || {
        let counters = &stats().links[0].directions[0].counters;
        counters.delivered.packets + counters.dropped(LinkDrop::QueueFull) == 100
    });
    let stats = stats();
    let counters = &stats.links[0].directions[0].counters;
    assert_eq!(counters.offered.packets, 100);
    let dropped = counters.dropped(LinkDrop::QueueFull);
    assert!((10..=20).contains(&dropped), "80 of 100 fit: {counters:?}");
    assert_eq!(stats.links[0].directions[1].counters.offered.packets, 0);
}

#[test]
fn a_link_changes_while_it_runs() {
    let Some(lab) = Lab::new("a_link_changes_while_it_runs", &["links", "hosts"]) else { return };
    let (emulator, mut h1, mut h2) = connect(&lab, "delay=1ms");
    let handle = emulator.handle();
    let change = |text: &str| handle.change(vec!["l".to_owned()], text.parse().unwrap()).wait().unwrap();
    h2.send(&[udp(2, 1, 100)]);
    assert_eq!(h1.receive(1)[0], udp(2, 1, 100), "frames pass unchanged in both directions");
    assert!(change("up=false"));
    h1.send(&vec![udp(1, 2, 100); 3]);
    let drops = |reason| {
        let stats = handle.stats().wait().unwrap();
        stats.links[0].directions[0].counters.dropped(reason)
    };
    wait_for(TIMEOUT, || drops(LinkDrop::Down) == 3);
    assert!(change("up=true,loss=100%"));
    h1.send(&vec![udp(1, 2, 100); 2]);
    wait_for(TIMEOUT, || drops(LinkDrop::Loss) == 2);
    assert!(change("loss=0,duplicate=1"));
    h1.send(&[udp(1, 2, 100)]);
    assert_eq!(h2.receive(2), vec![udp(1, 2, 100); 2]);
    assert!(!handle.change(vec!["l".to_owned(), "m".to_owned()], "loss=1".parse().unwrap()).wait().unwrap());
    assert_eq!(
        handle.stats().wait().unwrap().links[0].link.parameters.loss.get(),
        0.0,
        "an unknown name changes no link"
    );
    drop(emulator);
    assert!(handle.stats().wait().is_err());
}

#[test]
fn the_queue_of_a_paced_port_is_in_the_switch() {
    let Some(lab) = Lab::new("the_queue_of_a_paced_port_is_in_the_switch", &["switch", "hosts"]) else {
        return;
    };
    lab.cable(("switch", "s1"), ("hosts", "h1"), 1500);
    lab.cable(("switch", "s2"), ("switch", "p1"), 1500);
    lab.cable(("switch", "p2"), ("hosts", "h2"), 1500);
    let limits = QueueLimits { packets: 200, ..QueueLimits::BMV2 };
    let port_rates = BTreeMap::from([(2, Bandwidth::from_mbps(10))]);
    let config = DataplaneConfig { port_rates, limits, ..DataplaneConfig::default() };
    let link = emulated_link("l", ["p1", "p2"], "rate=10Mbps,delay=50ms");
    let (_emulator, dataplane) = lab.within("switch", || {
        let switch = hpcc(config.switch_config());
        let ports = super::ports(&["s1", "s2"]);
        let emulator = LinkEmulator::start(vec![link], 1, None).unwrap();
        (emulator, Dataplane::start(config, switch, &ports).unwrap())
    });
    let (h1, mut h2) = (Nic::open(&lab, "hosts", "h1"), Nic::open(&lab, "hosts", "h2"));
    let start = wall_clock();
    h1.send(&(0..100).map(|_| udp(1, 2, 1250)).collect::<Vec<_>>());
    let handle = dataplane.handle();
    wait_for(TIMEOUT, || handle.with(|switch, _| switch.counters().received).unwrap() == 100);
    let queued = handle.with(|switch, _| switch.queue_packets(2)).unwrap();
    assert!(queued > 50, "the queue is in the switch: {queued}");
    h2.receive(100);
    let last = wall_clock() - start;
    assert!(last >= Duration::from_millis(150), "not faster than the rate: {last:?}");
    // A busy machine adds delay, but twice the time would mean half the rate.
    assert!(last < Duration::from_millis(250), "about the rate: {last:?}");
    let counters = dataplane.stop().switch.unwrap();
    assert_eq!((counters.sent, counters.dropped.total().packets), (100, 0));
}
