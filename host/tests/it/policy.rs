//! Policies at complete hosts: their effect on running flows, refusals, and persistence.

use crate::expectations::expectations;
use crate::policy_packets::{
    frame_of, imin, key, lone_host, policy_head, rebuild_bytes, scheme, with_policy,
};
use std::sync::Arc;
use weir_host::capabilities::Capabilities;
use weir_host::parameter::ParameterValue as _;
use weir_host::policy::{Policy, PolicyConfig, PolicyError, PolicyId, PolicyNode, PolicyRefusal, StateError};
use weir_host::scheme::SwitchProgram;
use weir_host::schemes::Registry;
use weir_host::trickle::TrickleConfig;
use weir_host::wire::{Flags, FrameRepr, FrameView, MAX_HEADER_LEN};
use weir_host::{DropReason, FlowSpec, Host, HostConfig, HostEvent, PolicyEvent, Transmit};
use weir_testkit::net::{BASE_RTT, TestNetwork, addr};
use weir_units::{Bytes, Time};

fn net(hosts: usize, name: &str) -> TestNetwork {
    let mut net = TestNetwork::with_config(hosts, &scheme(name), 1, with_policy);
    (0..hosts).for_each(|host| net.pause(host, 0)); // polls every host, which schedules its first wakeup
    net
}

fn policies(net: &TestNetwork) -> Vec<(usize, PolicyEvent)> {
    let of = |(host, event): &(usize, HostEvent)| match event {
        HostEvent::Policy(event) => Some((*host, *event)),
        _ => None,
    };
    net.events.iter().filter_map(of).collect()
}

fn active_policy(host: &Host) -> Option<PolicyId> {
    host.policy().unwrap().active
}

fn set(net: &mut TestNetwork, host: usize, edits: &[(&str, &str)]) -> Result<PolicyId, PolicyError> {
    let id = net.hosts[host].set_policy(net.now, edits);
    net.pause(host, 0);
    id
}

/// While flows run in both directions, a parameter is set at one host; all hosts activate it, and all flows finish.
#[test]
fn a_parameter_that_is_set_at_one_host_reaches_all_while_flows_run() {
    let mut net = net(5, "hpcc");
    let flows =
        [(0, 1), (2, 1), (1, 3)].map(|(from, to)| (from, net.open(from, to, Some(Bytes::from_kb(20_000)))));
    net.run_until(Time::from_us(200));
    let id = set(&mut net, 4, &[("eta", "0.8")]).unwrap();
    net.run_until(Time::from_us(200) + imin() * 2);
    for host in &net.hosts {
        assert_eq!(active_policy(host), Some(id));
        assert_eq!(host.config().scheme.get("eta").as_deref(), Some("0.8"));
    }
    // The flows continue with the new target utilisation of 80 %.
    let sent = |net: &TestNetwork| {
        flows.map(|(host, flow)| net.hosts[host].flow(flow).map_or(0, |view| view.acked.get()))
    };
    net.run_until(net.now + Time::from_us(200));
    let before = sent(&net);
    net.run_until(net.now + Time::from_us(200));
    let after = sent(&net);
    let goodput = |i: usize| (after[i] - before[i]) as f64 * 8.0 / 200e-6 / 1e9;
    assert!((70.0..85.0).contains(&(goodput(0) + goodput(1))), "{} Gbit/s", goodput(0) + goodput(1));
    assert!((70.0..85.0).contains(&goodput(2)), "{} Gbit/s", goodput(2));
    net.run_to_end(Time::from_ms(20));
    assert_eq!(net.fcts().len(), 3, "no flow was torn down");
    let events = policies(&net);
    assert_eq!(events.iter().filter(|(_, event)| *event == PolicyEvent::Activated { id }).count(), 5);
    assert!(events.contains(&(0, PolicyEvent::Received { id, from: addr(4) })));
    assert!(net.hosts.iter().all(|host| host.stats().timeouts == 0 && host.stats().retransmits == 0));
}

/// Every scheme of the registry: two flows share a port, a parameter of the scheme changes, and they continue without a
/// new start at line rate.
#[test]
fn flows_of_every_scheme_go_on_with_other_parameters() {
    for scheme in Registry::builtin().schemes() {
        let name = scheme.name();
        let mut net = net(4, name);
        let bounds = expectations(&*scheme);
        let flows = [0, 1].map(|from| (from, net.open(from, 2, None)));
        net.run_until(bounds.fair_within + Time::from_ms(1));
        let acked = |net: &TestNetwork| {
            flows.map(|(host, flow)| net.flow(host, flow).acked.get()).iter().sum::<u64>()
        };
        let start = acked(&net);
        net.run_until(net.now + Time::from_us(300));
        let rate_before = acked(&net) - start;
        // The first parameter of the scheme that does not change switch tables.
        let edits = [
            ("min_rate", "nic/900"),
            ("min_window", "3"),
            ("start", "0.4"),
            ("min_cwnd", "0.02"),
            ("max_delay", "57"),
        ];
        let edit = edits.iter().find(|edit| scheme.get(edit.0).is_some()).copied();
        let edit = edit.unwrap_or(("eta", "0.94"));
        let id = set(&mut net, 3, &[edit]).unwrap_or_else(|error| panic!("{name}: {error}"));
        net.peak_queue.fill(0);
        net.run_until(net.now + imin() * 2);
        assert!(net.hosts.iter().all(|host| active_policy(host) == Some(id)), "{name}");
        let start = acked(&net);
        net.run_until(net.now + Time::from_us(300));
        let rate_after = acked(&net) - start;
        assert!(rate_after as f64 > 0.6 * rate_before as f64, "{name}: {rate_after} B after {rate_before} B");
        assert!(net.peak_queue[2] <= bounds.steady.get() * 3 / 2, "{name}: {} B queued", net.peak_queue[2]);
        for (host, flow) in flows {
            net.stop(host, flow);
        }
        net.run_to_end(net.now + Time::from_ms(100));
    }
}

/// Policies change the scheme to another one that works with the same switch program.
#[test]
fn flows_go_on_with_another_scheme() {
    let pairs = [
        ("dcqcn", "dctcp"),
        ("dctcp", "timely"),
        ("dcqcn", "dasr"),
        ("dasr", "dcqcn"),
        ("dart", "iofd"),
        ("amp", "xmp"),
        ("mptcp", "dcm"),
    ];
    for (from, to) in pairs {
        let mut net = net(4, from);
        for host in [0, 1] {
            net.open(host, 2, Some(Bytes::from_kb(20_000)));
        }
        net.run_until(Time::from_us(400));
        let id =
            set(&mut net, 3, &[("scheme", to)]).unwrap_or_else(|error| panic!("{from} to {to}: {error}"));
        net.run_until(net.now + imin() * 2);
        for host in &net.hosts {
            assert_eq!((active_policy(host), host.config().scheme.name()), (Some(id), to), "{from}");
        }
        // New flows use the new scheme too.
        net.open(3, 2, Some(Bytes::from_kb(1_000)));
        net.run_to_end(Time::from_ms(100));
        assert_eq!(net.fcts().len(), 3, "{from} to {to}");
    }
}

/// Returns flags, tokens and class of the next DATA packet that a host sends.
fn next_data(host: &mut Host, now: Time) -> (Flags, u8, u8) {
    let mut head = vec![0; MAX_HEADER_LEN];
    loop {
        match host.transmit(now, 0, &mut head) {
            Transmit::Frame { head_len, payload, class, flow: Some(_) } => {
                let view = FrameView::new(&head[..head_len], payload).expect("hosts make good frames");
                let weir = FrameRepr::parse(&view).weir;
                return (weir.flags, weir.tokens, class);
            }
            Transmit::Nothing => panic!("no DATA at {now}"),
            _ => {}
        }
    }
}

/// A policy that changes which messages are short, or how often they may be deflected, applies to new messages only.
/// Messages in progress keep tokens and class until END: switches find the entry of a deflected message by its tokens,
/// and an END with other tokens would leave the entry in use.
#[test]
fn messages_in_progress_keep_their_tokens_and_their_class() {
    let cases = [
        (scheme("dart"), ("tokens", "0")),
        (scheme("iofd"), ("short", "1KB")),
        (Registry::builtin().make("dcqcn", &[("short_first", "8KB")]).unwrap(), ("short_first", "off")),
    ];
    for (scheme, edit) in cases {
        let name = scheme.name();
        let mut config = HostConfig::new(addr(0), weir_testkit::net::RATE, BASE_RTT, Arc::clone(&scheme));
        config.express_class = 1;
        with_policy(&mut config);
        let mut host = Host::new(config).unwrap();
        let open = |host: &mut Host, now, message| {
            let size = Some(Bytes::from_kb(6));
            let spec = FlowSpec { peer: addr(1), next_hop_mac: [2; 6], entropy_port: 50_000, size, message };
            host.open(now, spec).expect("a new message");
        };
        open(&mut host, Time::ZERO, 1);
        let (flags, tokens, class) = next_data(&mut host, Time::ZERO);
        assert!(flags.has(Flags::START), "{name}");
        host.set_policy(Time::from_us(1), &[edit]).unwrap_or_else(|error| panic!("{name}: {error}"));
        let mut now = Time::from_us(1);
        loop {
            now += Time::from_us(1);
            host.wakeup(now);
            let (flags, left, present_class) = next_data(&mut host, now);
            assert_eq!((left, present_class), (tokens, class), "{name} after {edit:?}");
            if flags.has(Flags::END) {
                break;
            }
        }
        open(&mut host, now, 2);
        let (_, tokens, class) = next_data(&mut host, now + Time::from_us(1));
        assert_eq!((tokens, class), (0, 0), "{name}: a message that begins later");
    }
}

/// Messages in progress keep their number of subflows and change their control law nevertheless. A scheme for single
/// subflows cannot take over several.
#[test]
fn messages_in_progress_change_their_control_law() {
    let law_after = |running: &[(&str, &str)], edits: &[(&str, &str)]| {
        let scheme = Registry::builtin().make("amp", running).unwrap();
        let mut config = HostConfig::new(addr(0), weir_testkit::net::RATE, BASE_RTT, scheme);
        with_policy(&mut config);
        let mut host = Host::new(config).unwrap();
        let size = Some(Bytes::from_kb(600));
        let spec = FlowSpec { peer: addr(1), next_hop_mac: [2; 6], entropy_port: 50_000, size, message: 1 };
        let flow = host.open(Time::ZERO, spec).unwrap();
        host.set_policy(Time::from_us(1), edits).unwrap_or_else(|error| panic!("{edits:?}: {error}"));
        let mut gauges = Vec::new();
        host.gauges(flow, &mut |name, _| gauges.push(name));
        (gauges, host.subflow(flow, 1).is_some())
    };
    // Of these schemes, `uncoupled` and `dctcp` report `alpha`, and `amp` nothing.
    let subflows = |count| [("scheme", "uncoupled"), ("subflows", count)];
    for (running, count) in [("3", "3"), ("3", "2"), ("2", "4"), ("2", "1")] {
        assert_eq!(law_after(&[("subflows", running)], &subflows(count)), (vec!["alpha"], true), "{count}");
    }
    assert_eq!(law_after(&[("subflows", "1")], &subflows("3")), (vec!["alpha"], false));
    let window = [("scheme", "dctcp"), ("form", "window")];
    assert_eq!(law_after(&[("subflows", "1")], &window), (vec!["alpha"], false));
}

/// RFC 6206 §4.2, rule 2: a packet that is due and not yet sent belongs to its interval. A policy with another Imin
/// begins a new one.
#[test]
fn a_policy_with_another_imin_cancels_the_packet_that_is_due() {
    let mut head = [0; MAX_HEADER_LEN];
    for imin in [imin() / 2, imin() * 2] {
        let policy = Policy::of(&*scheme("hpcc"));
        let policy = policy.edit(&Registry::builtin(), &[("imin", &imin.to_string())]).unwrap();
        let mut host = lone_host("hpcc", Bytes::new(1_518));
        let due = host.next_wakeup().unwrap();
        host.wakeup(due);
        assert_eq!(host.transmit(due, 1, &mut head), Transmit::Nothing, "its class is paused");
        host.receive(due, &frame_of(&policy, 1), 0);
        assert_eq!(host.transmit(due, 0, &mut head), Transmit::Nothing, "in the new interval before t");
        let next = host.next_wakeup().unwrap();
        assert!((due + imin / 2..due + imin).contains(&next), "{next}");
        host.wakeup(next);
        assert_eq!(host.transmit(next, 0, &mut head), Transmit::Policy { class: 0 });
    }
}

fn events(host: &mut Host) -> Vec<PolicyEvent> {
    let policy = |event| match event {
        HostEvent::Policy(event) => Some(event),
        _ => None,
    };
    std::iter::from_fn(|| host.poll_event()).filter_map(policy).collect()
}

/// A policy that the switches do not support cannot be set at the host. If another host has set it, the host holds and
/// forwards it, but does not activate it.
#[test]
fn features_that_switches_lack_are_refused() {
    use PolicyRefusal::{Config, NoMarks, SwitchProgram, SwitchTables, Transport, Unknown};
    let cases = [
        ("hpcc", "scheme", "fncc", SwitchProgram),
        ("fncc", "refresh", "10us", SwitchTables),
        ("rcp", "alpha", "0.5", SwitchTables),
        ("timely", "scheme", "dcqcn", NoMarks),
        ("dcqcn", "scheme", "amp", Transport),
        ("dart", "deflect_above", "20KB/10Gbps", SwitchTables),
        ("iofd", "deflect_at_hosts", "on", SwitchTables),
        ("dcqcn", "short_first", "8KB", SwitchTables),
        ("dctcp", "ecn", "45KB/10Gbps", SwitchTables),
        ("dctcp", "ecn_thresholds", "45KB/10Gbps", SwitchTables),
    ];
    for (running, key, value, reason) in cases {
        let mut host = lone_host(running, Bytes::new(1_518));
        let error = host.set_policy(Time::ZERO, &[(key, value)]).unwrap_err();
        assert_eq!(error, PolicyError::Refused(reason), "{running} {key}={value}");
        assert_eq!(host.policy().unwrap().node.held().id.version, 0, "nothing was set");
        let policy = Policy::of(&*scheme(running)).edit(&Registry::builtin(), &[(key, value)]).unwrap();
        host.receive(Time::from_us(1), &frame_of(&policy, 1), 0);
        let id = PolicyId { version: 1, writer: addr(9).into() };
        assert_eq!(
            events(&mut host),
            [PolicyEvent::Received { id, from: addr(9) }, PolicyEvent::Refused { id, reason }]
        );
        let view = host.policy().unwrap();
        assert_eq!((view.active, view.refused, view.node.held().id), (None, Some(reason), id));
        assert_eq!(host.config().scheme.name(), running);
        // A later policy that the switches support is activated.
        let policy = Policy::of(&*scheme(running));
        host.receive(Time::from_us(2), &frame_of(&policy, 2), 0);
        assert_eq!(host.policy().unwrap().refused, None, "{running}");
        assert!(active_policy(&host).is_some());
    }
    // A parameter of a later build.
    let mut policy = Policy::of(&*scheme("hpcc"));
    policy.parameters.insert("warp".to_owned(), "9".to_owned());
    let mut host = lone_host("hpcc", Bytes::new(1_518));
    host.receive(Time::from_us(1), &frame_of(&policy, 1), 0);
    assert_eq!(host.policy().unwrap().refused, Some(Unknown));
    // An MTU that has no room for the telemetry of another variant.
    let mut host = lone_host("hpcc", Bytes::new(131));
    assert!(matches!(
        host.set_policy(Time::ZERO, &[("eta", "0.9")]),
        Err(PolicyError::TooLong { max: 65, .. })
    ));
    assert_eq!(Config.name(), "config");
}

/// Switches that run `weir.p4` support several schemes: policies may change from one to the other, and back.
#[test]
fn policies_may_select_every_scheme_that_the_switches_support() {
    let mut config = HostConfig::new(addr(0), weir_testkit::net::RATE, BASE_RTT, scheme("dcqcn"));
    config.switch_profile = Some(SwitchProgram::Weir.capabilities().into());
    with_policy(&mut config);
    let mut host = Host::new(config.clone()).unwrap();
    let mut set = |name| host.set_policy(Time::ZERO, &[("scheme", name)]).map(|_| ());
    for name in ["hpcc", "fncc", "timely", "dctcp", "dcqcn"] {
        assert_eq!(set(name), Ok(()), "{name}");
    }
    // Thresholds that somebody names are in force or refused, also those that are the default of the new scheme.
    let mut set_both = |thresholds: &str| {
        host.set_policy(Time::ZERO, &[("scheme", "dctcp"), ("ecn", thresholds)]).map(|_| ())
    };
    let refused = Err(PolicyError::Refused(PolicyRefusal::SwitchTables));
    let default = scheme("dctcp").get("ecn").unwrap();
    assert_eq!(set_both(&default), refused);
    let in_force = scheme("dcqcn").needs().ecn.unwrap().to_text();
    assert_eq!(set_both(&in_force), Ok(()));
    let mut set =
        |name| host.set_policy(Time::ZERO, &[("scheme", name), ("ecn_thresholds", "scheme")]).map(|_| ());
    for name in ["rocc", "hpcc++", "expresspass"] {
        assert_eq!(set(name), Err(PolicyError::Refused(PolicyRefusal::SwitchProgram)), "{name}");
    }
    // The switches support deflection, but their ports have no thresholds.
    assert_eq!(set("dart"), Err(PolicyError::Refused(PolicyRefusal::SwitchTables)));
    // A host cannot be created if the switches do not support its scheme.
    config.switch_profile = Some(Capabilities::NONE.into());
    let error = Host::new(config).unwrap_err().to_string();
    assert_eq!(
        error,
        "dcqcn requires ECN marks (table \"port_profile\"), which the switch program does not provide"
    );
}

/// A policy sets the Trickle parameters of all hosts, also of hosts with different ones (RFC 6206 §6), until the next
/// policy changes them. An Imin that leaves no time for k packets is refused (§6.6).
#[test]
fn the_timer_is_set_at_run_time() {
    let mut net = net(4, "hpcc");
    net.run_until(Time::from_us(50));
    let timers = |net: &TestNetwork| -> Vec<_> {
        net.hosts.iter().map(|host| *host.policy().unwrap().node.trickle().config()).collect()
    };
    let base_timers = timers(&net);
    let imin = imin() * 2;
    set(&mut net, 1, &[("imin", &imin.to_string()), ("imax", "0"), ("k", "0")]).unwrap();
    net.run_until(Time::from_us(50) + imin * 4);
    assert_eq!(timers(&net), [TrickleConfig { imin, doublings: 0, k: None }; 4]);
    // Without doublings every interval is Imin, and without k all hosts transmit in each.
    let sent = |net: &TestNetwork| -> Vec<u64> {
        net.hosts.iter().map(|host| host.policy().unwrap().node.stats().sent).collect()
    };
    let before = sent(&net);
    net.run_until(Time::from_us(50) + imin * 104);
    for (before, after) in before.iter().zip(sent(&net)) {
        assert!((99..=101).contains(&(after - before)), "{before} {after}");
    }
    let error = set(&mut net, 2, &[("imin", "1us"), ("k", "100")]).unwrap_err();
    assert_eq!(error, PolicyError::Refused(PolicyRefusal::Config));
    set(&mut net, 3, &[("imin", "host"), ("imax", "host"), ("k", "host")]).unwrap();
    net.run_until(Time::from_us(50) + imin * 110);
    assert_eq!(timers(&net), base_timers);
    let mut config = HostConfig::new(addr(0), weir_testkit::net::RATE, BASE_RTT, scheme("hpcc"));
    with_policy(&mut config);
    config.policy.as_mut().unwrap().trickle = TrickleConfig::new(Time::from_us(1), 16, 100).unwrap();
    let error = Host::new(config).unwrap_err().to_string();
    assert!(error.contains("1us is shorter than"), "{error}");
}

/// A holder of the key can send with another host's address, but not with a stamp far in the future. Packets of that
/// host are accepted again within an hour.
#[test]
fn a_stamp_from_the_future_silences_no_host() {
    let mut host = lone_host("hpcc", Bytes::new(1_518));
    let hour_ns = 3_600_000_000_000;
    let mut is_accepted = |at: Time, epoch_ns: u64| {
        let config = PolicyConfig { epoch_ns, start: at, ..PolicyConfig::new(key(), 9, BASE_RTT) };
        let mut node = PolicyNode::new(&config, addr(9), usize::MAX);
        let (t, mut payload) = (node.next_wakeup(), Vec::new());
        node.wakeup(t);
        node.transmit(t, &mut payload);
        let consistent = |host: &Host| host.policy().unwrap().node.stats().consistent;
        let before = consistent(&host);
        host.receive(t, &rebuild_bytes(&policy_head(), &payload), 0);
        consistent(&host) > before
    };
    for ahead in [u64::MAX, u64::MAX / 2, hour_ns + 1] {
        assert!(!is_accepted(Time::ZERO, ahead), "{ahead}");
    }
    assert!(is_accepted(Time::ZERO, hour_ns - imin().as_ns()));
    assert!(!is_accepted(Time::from_secs(3_000), 0), "the claimed hour is not over");
    assert!(is_accepted(Time::from_secs(3_601), 0));
    assert_eq!(host.stats().drops.get(DropReason::PolicyFromFuture), 3);
}

#[test]
fn the_saved_policy_runs_after_a_restart() {
    let mut host = lone_host("hpcc", Bytes::new(1_518));
    let id = host.set_policy(Time::from_us(5), &[("eta", "0.85"), ("lifetime", "10s")]).unwrap();
    let state = host.export_policy(Time::from_secs(4)).unwrap();
    let mut restarted = lone_host("hpcc", Bytes::new(1_518));
    restarted.restore_policy(Time::ZERO, &state, Time::from_secs(1)).unwrap();
    assert_eq!(
        (active_policy(&restarted), restarted.config().scheme.get("eta").as_deref()),
        (Some(id), Some("0.85"))
    );
    assert_eq!(events(&mut restarted), [PolicyEvent::Activated { id }]);
    // 4 s of age at the export and 1 s of downtime: 5 s are left, plus the 5 us before the policy was set.
    restarted.wakeup(Time::from_secs(4));
    assert!(active_policy(&restarted).is_some());
    assert!(restarted.next_wakeup().unwrap() <= Time::from_secs(5) + Time::from_us(5));
    restarted.wakeup(Time::from_secs(5) + Time::from_us(5));
    assert_eq!(
        (active_policy(&restarted), restarted.config().scheme.get("eta").as_deref()),
        (None, Some("0.95"))
    );
    assert_eq!(events(&mut restarted), [PolicyEvent::Expired { id }]);
    // The policy stays expired, and the host still holds it.
    restarted.wakeup(Time::from_secs(9));
    assert_eq!((events(&mut restarted), restarted.policy().unwrap().node.held().id), (vec![], id));
    let mut late = lone_host("hpcc", Bytes::new(1_518));
    late.restore_policy(Time::ZERO, &state, Time::from_secs(7)).unwrap();
    assert_eq!((active_policy(&late), events(&mut late)), (None, vec![PolicyEvent::Expired { id }]));
    assert_eq!(late.restore_policy(Time::ZERO, &state[..40], Time::ZERO), Err(StateError::Forged));
}

/// Of two concurrent policies one wins on all hosts; the host that set the other reports that it was superseded.
#[test]
fn of_two_concurrent_policies_one_wins_everywhere() {
    let mut net = net(6, "hpcc");
    net.run_until(Time::from_us(50));
    let low = set(&mut net, 1, &[("eta", "0.9")]).unwrap();
    let high = set(&mut net, 4, &[("eta", "0.8")]).unwrap();
    net.run_until(Time::from_us(50) + imin() * 6);
    assert!(net.hosts.iter().all(|host| active_policy(host) == Some(high)));
    let lost: Vec<_> = policies(&net)
        .into_iter()
        .filter(|(_, event)| matches!(event, PolicyEvent::Superseded { .. }))
        .collect();
    assert_eq!(lost, [(1, PolicyEvent::Superseded { ours: low, by: high })]);
    assert!(
        net.hosts[1].policy().unwrap().node.history().any(|record| record.id == low && record.superseded)
    );
}
