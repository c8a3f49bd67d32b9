//! The switch around the pipeline, driven by `programs/replicate.p4`: the first byte of a packet selects the operation.

use proptest::prelude::*;
use std::sync::Arc;
use weir_switch::drops::DropReason;
use weir_switch::engine::{CloneSession, Replica};
use weir_switch::pipeline::Digest;
use weir_switch::tm::{PauseQuanta, PfcConfig, PfcMode, PfcPort, PortConfig, QueueLimits};
use weir_switch::trace::PacketTrace;
use weir_switch::{Packet, Program, Switch, SwitchConfig, SwitchOutput, stf};
use weir_units::{Bytes, Time};

const UNICAST: u8 = 0;
const MULTICAST: u8 = 1;
const CLONE_I2E: u8 = 2;
const RESUBMIT: u8 = 3;
const RECIRCULATE: u8 = 4;
const PRIORITY: u8 = 8;
const DIGEST: u8 = 9;
const CLONE_STORM: u8 = 10;

/// Length in bytes of the report header that egress prepends.
const REPORT_LEN: usize = 18;

fn program() -> Arc<Program> {
    Program::from_json(include_str!("../programs/replicate.json")).unwrap()
}

#[derive(Default)]
struct RecordedOutput {
    ready: Vec<u16>,
    pauses: Vec<(u16, u8, PauseQuanta)>,
    recycled: usize,
    digests: Vec<Digest>,
    waiting: bool,
}

impl SwitchOutput for RecordedOutput {
    fn ready(&mut self, port: u16) {
        self.ready.push(port);
    }
    fn pause(&mut self, port: u16, priority: u8, quanta: PauseQuanta) {
        self.pauses.push((port, priority, quanta));
    }
    fn recycle(&mut self, _: Box<Packet>) {
        self.recycled += 1;
    }
    fn digest(&mut self, digest: Digest) {
        self.digests.push(digest);
    }
    fn reentry_deferred(&mut self) {
        self.waiting = true;
    }
}

fn switch(config: SwitchConfig) -> Switch {
    Switch::new(program(), config, 1).unwrap()
}

fn send(switch: &mut Switch, out: &mut RecordedOutput, op: u8, arg: u8) {
    switch.receive(Time::ZERO, 2, Packet::from_bytes(&[op, arg]), out);
}

#[test]
fn replication_agrees_with_simple_switch() {
    let outcome = stf::run(program(), include_str!("../programs/replicate.stf"), "replicate.stf").unwrap();
    assert!(outcome.passed(), "{outcome}");
    assert!(outcome.counters.is_balanced());
    let dropped = |reason| outcome.counters.dropped.get(reason).packets;
    assert_eq!(dropped(DropReason::NoReplicas), 2);
    assert_eq!((dropped(DropReason::IngressDrop), dropped(DropReason::EgressDrop)), (1, 1));
    assert_eq!(dropped(DropReason::TailDrop), 1);
}

#[test]
fn packets_without_a_destination_are_dropped_with_a_reason() {
    let config = SwitchConfig { priorities: 4, ..SwitchConfig::new([1, 2]) };
    let (mut switch, mut out) = (switch(config), RecordedOutput::default());
    send(&mut switch, &mut out, UNICAST, 9);
    send(&mut switch, &mut out, PRIORITY, 4);
    send(&mut switch, &mut out, MULTICAST, 9);
    for reason in [DropReason::NoSuchPort, DropReason::NoSuchPriority, DropReason::NoReplicas] {
        assert_eq!(switch.drops().get(reason).packets, 1, "{}", reason.name());
    }
    assert!(switch.counters().is_balanced() && out.ready.is_empty());
    assert!(switch.transmit(Time::ZERO, 9, &mut out).is_none());
}

#[test]
fn the_cpu_port_can_be_transmitted_from() {
    let config = SwitchConfig { cpu_port: Some(255), ..SwitchConfig::new([1, 2]) };
    let (mut switch, mut out) = (switch(config), RecordedOutput::default());
    send(&mut switch, &mut out, UNICAST, 255);
    assert_eq!(out.ready, [255]);
    assert!(switch.transmit(Time::ZERO, 255, &mut out).is_some());
    let drop_port = SwitchConfig { drop_port: 2, ..SwitchConfig::new([1, 2]) };
    let error = Switch::new(program(), drop_port, 1).map(drop).unwrap_err();
    assert!(error.to_string().contains("port 2 is the drop port"), "{error}");
}

/// The program counts passes in eight bits; this one lets a packet run again for ever.
fn endless() -> Arc<Program> {
    let mut json: serde_json::Value =
        serde_json::from_str(include_str!("../programs/replicate.json")).unwrap();
    for action in json["actions"].as_array_mut().unwrap() {
        for statement in action["primitives"].as_array_mut().unwrap() {
            if statement.to_string().contains("m.tag + 1") {
                *statement = serde_json::from_str(&statement.to_string().replace("0x01", "0x00")).unwrap();
            }
        }
    }
    Program::from_json(&json.to_string()).unwrap()
}

#[test]
fn a_packet_runs_again_as_often_as_the_program_asks() {
    for op in [RESUBMIT, RECIRCULATE] {
        let text = format!("packet 0 {op:02x}ff\nexpect 1 **ff");
        let outcome = stf::run(program(), &text, "x.stf").unwrap();
        assert!(outcome.passed(), "{text}: {outcome}");
    }
}

#[test]
fn endless_resubmission_and_recirculation_are_dropped() {
    let (mut switch, mut out) =
        (Switch::new(endless(), SwitchConfig::new([1, 2]), 1).unwrap(), RecordedOutput::default());
    let dropped = |switch: &Switch, reason| switch.drops().get(reason).packets;
    send(&mut switch, &mut out, RESUBMIT, 1);
    assert_eq!(dropped(&switch, DropReason::ResubmitLimit), 1);
    send(&mut switch, &mut out, RECIRCULATE, 1);
    assert!(switch.transmit(Time::ZERO, 1, &mut out).is_none());
    assert_eq!(dropped(&switch, DropReason::RecirculateLimit), 1);
    let storm = |replicas: &[u16]| CloneSession {
        replicas: replicas.iter().map(|&instance| Replica { port: 1, instance }).collect(),
        ..CloneSession::default()
    };
    switch.set_clone_session(5, storm(&[0])).unwrap();
    send(&mut switch, &mut out, CLONE_STORM, 5);
    assert!(switch.transmit(Time::ZERO, 1, &mut out).is_none());
    assert_eq!(dropped(&switch, DropReason::RecirculateLimit), 2);
    assert_eq!(switch.counters().copied, 65_536, "each packet has 65,535 passes after its first one");

    // A program that doubles its packets, or keeps all packets running, costs a limited number of passes in all.
    switch.set_clone_session(5, storm(&[0, 1])).unwrap();
    switch.set_limits(1, None, QueueLimits { packets: 100, ..QueueLimits::BMV2 });
    send(&mut switch, &mut out, CLONE_STORM, 5);
    assert!(switch.transmit(Time::ZERO, 1, &mut out).is_none());
    assert!(switch.counters().copied < 3 << 20);
    for _ in 0..1000 {
        send(&mut switch, &mut out, RESUBMIT, 1);
    }
    assert_eq!(dropped(&switch, DropReason::ResubmitLimit), 1001);
    assert!(switch.counters().is_balanced());
}

#[test]
fn packets_that_run_again_wait_when_the_portion_of_the_driver_is_used_up() {
    let (mut switch, mut out) =
        (Switch::new(endless(), SwitchConfig::new([1, 2]), 1).unwrap(), RecordedOutput::default());
    switch.set_reentry_batch(100);
    send(&mut switch, &mut out, RECIRCULATE, 1);
    send(&mut switch, &mut out, RESUBMIT, 1);
    for portions in 1.. {
        // Other packets pass.
        send(&mut switch, &mut out, UNICAST, 2);
        assert!(switch.transmit(Time::ZERO, 1, &mut out).is_none());
        assert!(switch.transmit(Time::ZERO, 2, &mut out).is_some());
        let counters = switch.counters();
        assert!(counters.is_balanced());
        if !std::mem::take(&mut out.waiting) && counters.queued == 0 {
            assert!((1311..1320).contains(&portions), "2 x 65,535 passes: {portions}");
            break;
        }
        assert!(counters.queued <= 2);
        out.waiting |= switch.run_reentries(Time::ZERO, &mut out);
    }
    let dropped = |reason| switch.drops().get(reason).packets;
    assert_eq!((dropped(DropReason::ResubmitLimit), dropped(DropReason::RecirculateLimit)), (1, 1));

    // Not more than 1,024 packets wait.
    for _ in 0..2000 {
        send(&mut switch, &mut out, RESUBMIT, 1);
    }
    assert_eq!(switch.counters().queued, 1024);
    assert_eq!(switch.drops().get(DropReason::ResubmitLimit).packets, 1 + 2000 - 1024);
    assert!(switch.counters().is_balanced());

    // The same frames leave as without portions.
    let frames = |portion: Option<u32>| {
        let (mut switch, mut out) =
            (Switch::new(program(), SwitchConfig::new([1, 2]), 1).unwrap(), RecordedOutput::default());
        portion.into_iter().for_each(|portion| switch.set_reentry_batch(portion));
        for arg in [3, 200, 0, 255] {
            send(&mut switch, &mut out, RECIRCULATE, arg);
        }
        let mut frames = Vec::new();
        loop {
            frames
                .extend(std::iter::from_fn(|| switch.transmit(Time::ZERO, 1, &mut out)).map(|p| p.to_vec()));
            if !switch.run_reentries(Time::ZERO, &mut out) && !switch.can_transmit(1) {
                break;
            }
        }
        frames.sort_unstable();
        frames
    };
    assert_eq!(frames(None).len(), 4);
    assert_eq!(frames(Some(10)), frames(None));
}

#[test]
fn clones_are_truncated_and_digests_delivered() {
    let (mut switch, mut out) = (switch(SwitchConfig::new([1, 2])), RecordedOutput::default());
    let session = CloneSession {
        replicas: vec![Replica { port: 2, instance: 3 }],
        truncate: Some(REPORT_LEN as u32 + 1),
        priority: Some(6),
        group: None,
    };
    switch.set_clone_session(5, session).unwrap();
    send(&mut switch, &mut out, CLONE_I2E, 5);
    assert_eq!(switch.queues().queue_occupancy(2, 6).packets, 1);
    let clone = switch.transmit(Time::ZERO, 2, &mut out).unwrap();
    assert_eq!((clone.len() as usize, clone.bytes()[REPORT_LEN]), (REPORT_LEN + 1, CLONE_I2E));
    assert_eq!(clone.bytes()[5], 3, "rid");
    let original = switch.transmit(Time::ZERO, 1, &mut out).unwrap();
    assert_eq!(original.len() as usize, REPORT_LEN + 2);
    send(&mut switch, &mut out, DIGEST, 0x7e);
    assert_eq!(out.digests.len(), 1);
    assert_eq!(out.digests[0].values, [vec![0x7e]]);
}

#[test]
fn pfc_pauses_in_both_directions() {
    let lossless = |port| PortConfig { pfc: Some(PfcPort::default()), ..PortConfig::new(port) };
    let pfc = PfcConfig {
        mode: PfcMode::Fixed { threshold: Bytes::new(6) },
        resume_offset: Bytes::new(2),
        exempt: 1 << 7,
        ..PfcConfig::dynamic()
    };
    let ports = vec![lossless(1), lossless(2)];
    let (mut switch, mut out) =
        (switch(SwitchConfig { ports, pfc: Some(pfc), ..SwitchConfig::new([]) }), RecordedOutput::default());
    // The neighbour of port 1 pauses priority 3, while that of port 2 sends packets of 2 bytes in it.
    assert!(!switch.set_paused(1, 3, Some(Time::MAX)));
    for _ in 0..4 {
        send(&mut switch, &mut out, PRIORITY, 3);
    }
    assert_eq!((out.ready.as_slice(), out.pauses.as_slice()), (&[][..], &[(2, 3, PauseQuanta::MAX)][..]));
    assert!(switch.transmit(Time::ZERO, 1, &mut out).is_none());
    assert_eq!(switch.next_ready(1), None);
    for _ in 0..4 {
        send(&mut switch, &mut out, PRIORITY, 7);
    }
    assert_eq!((out.ready.as_slice(), out.pauses.len()), (&[1][..], 1));
    for _ in 0..4 {
        switch.transmit(Time::ZERO, 1, &mut out).unwrap();
    }
    assert!(switch.set_paused(1, 3, None));
    for left in [3, 2, 1, 0] {
        switch.transmit(Time::ZERO, 1, &mut out).unwrap();
        // 6 bytes are not below 6 - 2, neither are 4.
        assert_eq!(out.pauses.len(), if left >= 2 { 1 } else { 2 });
    }
    assert_eq!(out.pauses[1], (2, 3, PauseQuanta::RESUME));
    assert!(switch.counters().is_balanced());
    assert_eq!(switch.counters().queued, 0);
}

#[test]
fn a_trace_shows_the_path_of_a_packet() {
    let (mut switch, mut out) = (switch(SwitchConfig::new([1, 2])), RecordedOutput::default());
    let mut trace = PacketTrace::new();
    let packet = Packet::from_bytes(&[RESUBMIT, 1]);
    switch.receive_traced(Time::ZERO, 2, packet, &mut out, &mut trace);
    switch.transmit_traced(Time::from_us(3), 1, &mut out, &mut trace).unwrap();
    send(&mut switch, &mut out, UNICAST, 9);
    let text = trace.to_string();
    let mut rest = text.as_str();
    for line in [
        "arrives at port 2: 2 bytes\n    0000  03 01\n",
        "parser state start\n",
        "command at byte 0: op=0x03 arg=0x01\n",
        "if m.tag < h.command.arg: true    // replicate.p4:70\n",
        "tag: 0x00 -> 0x01    // replicate.p4:71: m.tag = m.tag + 1\n",
        "ingress resubmits it\nbegins ingress again\n",
        "ingress sends it to port 1 with priority 0\nqueued at port 1, priority 0, behind 0 packets\n",
        "begins egress at port 1: waited 3us, leaves 0 packets behind\n",
        "emits report: 18 bytes\n  emits command: 2 bytes\n",
        "egress sends it\nleaves by port 1: 20 bytes\n",
    ] {
        let start = rest.find(line).unwrap_or_else(|| panic!("{line:?} is not in\n{rest}\nof\n{text}"));
        rest = &rest[start + line.len()..];
    }
}

#[test]
fn a_failed_test_reports_the_differences() {
    let text = "packet 0 0003\nexpect 3 00 00 0004 **** ****** 000000 00000000 0002 0003$\nexpect 5 01\n\
        packet 0 0007\npacket 7 0607\nregister_read nowhere 1";
    let error = stf::run(program(), text, "x.stf").unwrap_err().to_string();
    assert!(error.starts_with("x.stf:6:15: ") && error.contains("nowhere"), "{error}");
    let outcome = stf::run(program(), text.rsplit_once('\n').unwrap().0, "x.stf").unwrap();
    assert_eq!(outcome.failures.len(), 3);
    let text = outcome.to_string();
    for part in [
        "line 2: the frame at port 3, after the packet of line 1, differs at byte 3: byte 3 of header report",
        "0000 expected 00 00 00 04 ** ** ** ** ** 00 00 00 00 00 00 00\n         \
         received 00 00 00 03 00 00 00 00 00 00 00 00 00 00 00 00\n                           ^^\n",
        "line 3: no frame came out at port 5; expected 01\n",
        "line 4: after this packet an unexpected frame came out at port 7\n",
        "FAILED: 3 packets in, 2 frames out, 1 ingress_drop\n",
    ] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn counters_balance_for_any_input(
        steps in proptest::collection::vec((0u8..4, 0u16..4, proptest::collection::vec(0u8..12, 0..4)), 1..120)
    ) {
        let limits = QueueLimits { packets: 5, bytes: Bytes::MAX };
        let pfc = Some(PfcPort { headroom: Bytes::new(64), alpha_shift: 2, ..PfcPort::default() });
        let ports = (0..3).map(|n| PortConfig { limits, pfc, ..PortConfig::new(n) }).collect();
        let mode = PfcMode::Dynamic { reserve: Bytes::new(4) };
        let config = SwitchConfig {
            ports,
            buffer: Bytes::new(400),
            pfc: Some(PfcConfig { mode, ..PfcConfig::dynamic() }),
            ..SwitchConfig::new([])
        };
        let (mut switch, mut out) = (switch(config), RecordedOutput::default());
        let replicas_of = |instance| (0..3).map(move |port| Replica { port, instance });
        for id in 1..12u16 {
            switch.set_multicast_group(id, replicas_of(id).chain(replicas_of(id + 1)).collect()).unwrap();
            let replicas = replicas_of(7).take(usize::from(id % 4)).collect();
            let group = (id % 3 == 0).then_some(id);
            switch.set_clone_session(id, CloneSession { replicas, group, ..CloneSession::default() }).unwrap();
        }
        let mut transmitted = 0;
        for (step, port, bytes) in steps {
            match step {
                0 | 1 => switch.receive(Time::ZERO, port, Packet::from_bytes(&bytes), &mut out),
                2 => transmitted += u64::from(switch.transmit(Time::ZERO, port, &mut out).is_some()),
                _ => {
                    let until = (bytes.len() % 2 == 0).then_some(Time::MAX);
                    switch.set_paused(port, bytes.first().copied().unwrap_or(0) % 8, until);
                }
            }
            let counters = switch.counters();
            prop_assert!(counters.is_balanced(), "{:?}", counters);
            prop_assert_eq!(counters.sent, transmitted);
            prop_assert_eq!(switch.queues().audit(), Ok(()));
        }
    }
}
