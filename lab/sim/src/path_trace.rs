//! Traces the paths of sampled packets: when they arrived at switches and left them. Every frame is parsed, so this
//! is enabled only on request. Each process records its own events, which are joined at the end.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use weir_controller::topology::{HostIx, SwitchIx, Topology};
use weir_experiment::results::{PacketHop, PacketPath};
use weir_experiment::rng::mix;
use weir_host::wire::{FrameView, PacketKind};
use weir_units::Time;

/// Maximum number of packets in the sample. When it is exceeded, the sampling interval doubles and about half of the
/// recorded packets are discarded.
const MAX_PACKETS: usize = 2_000;

/// The fields that identify a packet along its whole path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct PacketKey {
    kind: u8,
    source: Ipv4Addr,
    destination: Ipv4Addr,
    message: u32,
    seq: u32,
}

impl PacketKey {
    /// Returns whether the packet is in a sample of one in `interval` packets, a power of two. The low bits of a hash
    /// decide, so a sample of one in 2n is a subset of one in n, and processes agree without communication.
    fn is_sampled(&self, interval: u64) -> bool {
        let ends = u64::from(self.source.to_bits()) << 32 | u64::from(self.destination.to_bits());
        let number = u64::from(self.message) << 32 | u64::from(self.seq);
        mix(mix(ends ^ u64::from(self.kind)) ^ number) & (interval - 1) == 0
    }
}

/// An event on the path of a packet.
#[derive(Clone, Copy, Debug)]
enum TraceEvent {
    /// A host started to send it: host, frame length in bytes, end of serialisation.
    Sent(HostIx, u32, Time),
    Arrived(SwitchIx),
    /// A switch started to send it: switch, egress port, end of serialisation.
    Departed(SwitchIx, u16, Time),
    /// It arrived at a host.
    Delivered,
}

/// The events of sampled packets in one process.
#[derive(Clone, Debug)]
pub struct PathTrace {
    sampling_interval: u64,
    /// Number of sampled packets sent by hosts of this process.
    sent: usize,
    events: Vec<(Time, PacketKey, TraceEvent)>,
}

impl Default for PathTrace {
    fn default() -> PathTrace {
        PathTrace { sampling_interval: 1, sent: 0, events: Vec::new() }
    }
}

/// Returns the key of a frame; `None` for POLICY packets, which have several receivers, and for frames that do not
/// parse.
fn key(frame: &[u8], virtual_len: u32) -> Option<PacketKey> {
    let view = FrameView::new(frame, virtual_len).ok()?;
    let kind = view.weir.kind();
    (kind != PacketKind::Policy).then(|| PacketKey {
        kind: kind as u8,
        source: view.ip.source(),
        destination: view.ip.destination(),
        message: view.weir.message(),
        seq: view.weir.seq(),
    })
}

impl PathTrace {
    fn record(&mut self, now: Time, frame: &[u8], virtual_len: u32, event: TraceEvent) {
        let Some(key) = key(frame, virtual_len).filter(|key| key.is_sampled(self.sampling_interval)) else {
            return;
        };
        self.sent += usize::from(matches!(event, TraceEvent::Sent(..)));
        self.events.push((now, key, event));
    }

    /// Records that a host sends a frame; `sent` are the start and the end of serialisation.
    pub fn on_host_tx(&mut self, from: HostIx, frame: &[u8], virtual_len: u32, sent: (Time, Time)) {
        let bytes = frame.len() as u32 + virtual_len;
        self.record(sent.0, frame, virtual_len, TraceEvent::Sent(from, bytes, sent.1));
    }

    /// Records the arrival of a frame at a switch.
    pub fn on_switch_rx(&mut self, now: Time, switch: SwitchIx, frame: &[u8], virtual_len: u32) {
        self.record(now, frame, virtual_len, TraceEvent::Arrived(switch));
    }

    /// Records that a switch sends a frame; `sent` are the start and the end of serialisation.
    pub fn on_switch_tx(
        &mut self,
        sent: (Time, Time),
        (switch, port): (SwitchIx, u16),
        frame: &[u8],
        virtual_len: u32,
    ) {
        self.record(sent.0, frame, virtual_len, TraceEvent::Departed(switch, port, sent.1));
    }

    /// Records the arrival of a frame at a host.
    pub fn on_host_rx(&mut self, now: Time, frame: &[u8], virtual_len: u32) {
        self.record(now, frame, virtual_len, TraceEvent::Delivered);
    }

    /// Doubles the sampling interval, which discards about half of the packets.
    fn halve(&mut self) {
        self.sampling_interval *= 2;
        let interval = self.sampling_interval;
        self.events.retain(|(_, key, _)| key.is_sampled(interval));
        self.sent = self.events.iter().filter(|(.., event)| matches!(event, TraceEvent::Sent(..))).count();
    }
}

/// Halves the sample of all processes until it has at most [`MAX_PACKETS`].
pub(crate) fn downsample<'p>(traces: impl Iterator<Item = &'p mut PathTrace>) {
    let mut all: Vec<_> = traces.collect();
    while all.iter().map(|trace| trace.sent).sum::<usize>() > MAX_PACKETS {
        all.iter_mut().for_each(|trace| trace.halve());
    }
}

/// Joins the events of all processes to paths, in the order in which the packets were sent.
pub(crate) fn paths<'p>(all: impl Iterator<Item = &'p PathTrace>, topology: &Topology) -> Vec<PacketPath> {
    let hosts: HashMap<Ipv4Addr, &str> =
        topology.hosts.iter().map(|host| (host.ip, host.name.as_str())).collect();
    let mut events: Vec<_> = all.flat_map(|trace| &trace.events).collect();
    // Stable: the events of one process keep their order.
    events.sort_by_key(|(now, ..)| *now);
    let (mut paths, mut open): (Vec<PacketPath>, HashMap<PacketKey, usize>) = (Vec::new(), HashMap::new());
    for &(now, key, event) in events {
        if let TraceEvent::Sent(from, bytes, end) = event {
            open.insert(key, paths.len());
            let to = hosts.get(&key.destination);
            paths.push(PacketPath {
                kind: PacketKind::from_number(key.kind).map_or("?", kind_name),
                from: topology.host(from).name.clone(),
                to: to.map_or_else(|| key.destination.to_string(), |&name| name.to_owned()),
                message: key.message,
                seq: key.seq,
                bytes,
                sent: (now, end),
                hops: Vec::new(),
                delivered: None,
            });
            continue;
        }
        // No host sent this packet: a switch generated or rewrote it.
        let Some(&index) = open.get(&key) else { continue };
        let path = &mut paths[index];
        match event {
            TraceEvent::Arrived(switch) => {
                let switch = topology.switch(switch).name.clone();
                path.hops.push(PacketHop { switch, port: None, arrived: now, left: None });
            }
            TraceEvent::Departed(switch, port, end) => {
                let name = &topology.switch(switch).name;
                let hop = path.hops.last_mut().filter(|hop| hop.switch == *name && hop.left.is_none());
                if let Some(hop) = hop {
                    (hop.port, hop.left) = (Some(port), Some(end));
                }
            }
            TraceEvent::Delivered => {
                path.delivered = Some(now);
                open.remove(&key);
            }
            TraceEvent::Sent(..) => {}
        }
    }
    paths
}

/// Returns the name of a packet kind as the Wireshark dissector shows it.
fn kind_name(kind: PacketKind) -> &'static str {
    match kind {
        PacketKind::Data => "DATA",
        PacketKind::Ack => "ACK",
        PacketKind::Nack => "NACK",
        PacketKind::Cnp => "CNP",
        PacketKind::Probe => "PROBE",
        PacketKind::ProbeReply => "PROBE_REPLY",
        PacketKind::Rate => "RATE",
        PacketKind::Policy => "POLICY",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_controller::topology::build;
    use weir_host::wire::{Ecn, FrameRepr, HEADERS_LEN, WeirRepr};

    fn frame(topology: &Topology, seq: u32) -> Vec<u8> {
        let [from, to] = [0, 1].map(|ix| topology.host(HostIx(ix)).ip);
        let weir = WeirRepr { seq, message: 7, ..WeirRepr::of(PacketKind::Data) };
        let repr = FrameRepr {
            source_mac: [2; 6],
            destination_mac: [4; 6],
            source: from,
            destination: to,
            dscp: 0,
            ecn: Ecn::NotEct,
            entropy_port: 50_000,
            weir,
            payload_len: 1_000,
        };
        let mut bytes = vec![0; HEADERS_LEN];
        repr.emit(&[], &mut bytes).unwrap();
        bytes
    }

    #[test]
    fn the_sample_is_bounded_and_spread_over_the_whole_run() {
        let spec = "{kind: dumbbell, switches: 2, senders: 1, receivers: 1, rate: 100Gbps}";
        let topology = build(&serde_yaml::from_str(spec).unwrap()).unwrap();
        let (mut trace, us) = (PathTrace::default(), Time::from_us);
        let all = 10 * MAX_PACKETS as u64;
        for n in 0..all {
            let (frame, at) = (frame(&topology, n as u32), us(10 * n));
            trace.on_host_tx(HostIx(0), &frame, 1_000, (at, at + us(1)));
            for (hop, switch) in [SwitchIx(0), SwitchIx(1)].into_iter().enumerate() {
                let at = at + us(2 + 2 * hop as u64);
                trace.on_switch_rx(at, switch, &frame, 1_000);
                // Every third packet is lost at the second switch.
                if hop == 0 || n % 3 != 0 {
                    trace.on_switch_tx((at, at + us(1)), (switch, 2), &frame, 1_000);
                }
            }
            if n % 3 != 0 {
                trace.on_host_rx(at + us(6), &frame, 1_000);
            }
            downsample([&mut trace].into_iter());
        }
        let paths = paths([&trace].into_iter(), &topology);
        assert!((MAX_PACKETS / 2..=MAX_PACKETS).contains(&paths.len()), "{}", paths.len());
        let numbers: Vec<u64> = paths.iter().map(|path| u64::from(path.seq)).collect();
        let (first, last) = (numbers[0], numbers[numbers.len() - 1]);
        let widest = numbers.windows(2).map(|two| two[1] - two[0]).max().unwrap();
        assert!(widest.max(first).max(all - last) < 12 * trace.sampling_interval, "{numbers:?}");
        for path in &paths {
            let lost = path.seq % 3 == 0;
            assert_eq!(
                (path.kind, path.from.as_str(), path.to.as_str(), path.bytes),
                ("DATA", "h1", "h2", 1_066)
            );
            assert_eq!(path.hops.iter().map(|hop| hop.switch.as_str()).collect::<Vec<_>>(), ["s1", "s2"]);
            let last = &path.hops[1];
            assert_eq!(
                (last.left.is_none(), last.port.is_none(), path.delivered.is_none()),
                (lost, lost, lost)
            );
            assert_eq!(path.hops[0].left.unwrap() - path.hops[0].arrived, us(1));
        }
    }
}
