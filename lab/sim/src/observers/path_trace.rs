//! Traces the paths of sampled packets: when they arrived at switches and left them. Every frame is parsed, so this
//! is enabled only on request. Each logical process ([`crate::process`]) records the events at its own nodes, and
//! `merge` joins them at the end.
//!
//! A frame is the bytes of its headers and a `virtual_len`: the simulator keeps no payload bytes, only their number.

use super::events::{Arrival, Departure, Observer};
use std::collections::HashMap;
use std::net::Ipv4Addr;
use weir_controller::topology::{HostIx, Node, SwitchIx, Topology};
use weir_experiment::results::{PacketHop, PacketPath};
use weir_experiment::rng::mix;
use weir_host::wire::{FrameView, PacketKind};
use weir_units::Time;

/// Maximum number of packets in the sample. When it is exceeded, the sampling interval doubles and about half of the
/// recorded packets are discarded.
const MAX_PACKETS: usize = 2_000;

/// The fields that identify a packet along its whole path. A retransmission has the key of the first copy, so a path
/// begins anew whenever a host sends the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct PacketKey {
    kind: u8,
    source: Ipv4Addr,
    destination: Ipv4Addr,
    message: u32,
    seq: u32,
}

impl PacketKey {
    /// Returns whether the packet is in the sample of one in `interval` packets; `interval` is a power of two. The low
    /// bits of a hash decide, so the sample of one in 2n is a subset of that of one in n, and processes agree on it
    /// without communication.
    fn is_sampled(&self, interval: u64) -> bool {
        let ends = u64::from(self.source.to_bits()) << 32 | u64::from(self.destination.to_bits());
        let sequence = u64::from(self.message) << 32 | u64::from(self.seq);
        mix(mix(ends ^ u64::from(self.kind)) ^ sequence) & (interval - 1) == 0
    }
}

/// An event on the path of a packet.
#[derive(Clone, Copy, Debug)]
enum TraceEvent {
    /// A host started to send the packet.
    Sent {
        host: HostIx,
        frame_bytes: u32,
        /// End of serialisation.
        end: Time,
    },
    /// The packet arrived at a switch.
    Arrived { switch: SwitchIx },
    /// A switch started to send the packet.
    Departed {
        switch: SwitchIx,
        egress_port: u16,
        /// End of serialisation.
        end: Time,
    },
    /// The packet arrived at a host.
    Delivered,
}

/// The events of sampled packets in one process.
#[derive(Clone, Debug)]
pub struct PathTrace {
    /// One in this number of packets is sampled; a power of two.
    sampling_interval: u64,
    /// Number of `Sent` events.
    sent_count: usize,
    /// Time, packet and event, in order of time.
    events: Vec<(Time, PacketKey, TraceEvent)>,
}

impl Default for PathTrace {
    fn default() -> PathTrace {
        PathTrace { sampling_interval: 1, sent_count: 0, events: Vec::new() }
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
        self.sent_count += usize::from(matches!(event, TraceEvent::Sent { .. }));
        self.events.push((now, key, event));
    }

    /// Doubles the sampling interval, which discards about half of the packets.
    fn downsample(&mut self) {
        self.sampling_interval *= 2;
        let interval = self.sampling_interval;
        self.events.retain(|(_, key, _)| key.is_sampled(interval));
        let is_sent = |event: &TraceEvent| matches!(event, TraceEvent::Sent { .. });
        self.sent_count = self.events.iter().filter(|(.., event)| is_sent(event)).count();
    }

    /// Halves the sample of all processes until it has at most [`MAX_PACKETS`]. All processes have the same sampling
    /// interval before and after.
    pub(crate) fn bound<'p>(traces: impl Iterator<Item = &'p mut PathTrace>) {
        let mut all: Vec<_> = traces.collect();
        while all.iter().map(|trace| trace.sent_count).sum::<usize>() > MAX_PACKETS {
            all.iter_mut().for_each(|trace| trace.downsample());
        }
    }

    /// Joins the events of all processes to paths, in the order in which the packets were sent.
    pub(crate) fn merge<'p>(
        all: impl Iterator<Item = &'p PathTrace>,
        topology: &Topology,
    ) -> Vec<PacketPath> {
        let hosts: HashMap<Ipv4Addr, &str> =
            topology.hosts.iter().map(|host| (host.ip, host.name.as_str())).collect();
        let mut events: Vec<_> = all.flat_map(|trace| &trace.events).collect();
        // Stable: the events of one process keep their order.
        events.sort_by_key(|(now, ..)| *now);
        let mut paths: Vec<PacketPath> = Vec::new();
        // Index of the path of each packet that has been sent and not yet delivered.
        let mut open: HashMap<PacketKey, usize> = HashMap::new();
        for &(now, key, event) in events {
            if let TraceEvent::Sent { host, frame_bytes, end } = event {
                open.insert(key, paths.len());
                let to = hosts.get(&key.destination);
                paths.push(PacketPath {
                    kind: PacketKind::from_number(key.kind).map_or("?", kind_name),
                    from: topology.host(host).name.clone(),
                    to: to.map_or_else(|| key.destination.to_string(), |&name| name.to_owned()),
                    message: key.message,
                    seq: key.seq,
                    bytes: frame_bytes,
                    sent: (now, end),
                    hops: Vec::new(),
                    delivered: None,
                });
                continue;
            }
            // If no host sent this packet, a switch generated or rewrote it.
            let Some(&index) = open.get(&key) else { continue };
            let path = &mut paths[index];
            match event {
                TraceEvent::Arrived { switch } => {
                    let switch = topology.switch(switch).name.clone();
                    path.hops.push(PacketHop { switch, port: None, arrived: now, left: None });
                }
                TraceEvent::Departed { switch, egress_port, end } => {
                    let name = &topology.switch(switch).name;
                    let hop = path.hops.last_mut().filter(|hop| hop.switch == *name && hop.left.is_none());
                    if let Some(hop) = hop {
                        (hop.port, hop.left) = (Some(egress_port), Some(end));
                    }
                }
                TraceEvent::Delivered => {
                    path.delivered = Some(now);
                    open.remove(&key);
                }
                TraceEvent::Sent { .. } => {} // handled above
            }
        }
        paths
    }
}

impl Observer for PathTrace {
    fn on_arrival(&mut self, &Arrival { time, to, packet, .. }: &Arrival<'_>) {
        let event = match to {
            Node::Switch(switch) => TraceEvent::Arrived { switch },
            Node::Host(_) => TraceEvent::Delivered,
        };
        self.record(time, packet.bytes(), packet.virtual_len(), event);
    }

    fn on_departure(&mut self, &Departure { time, from, transmitter, packet, .. }: &Departure<'_>) {
        let (frame_bytes, egress_port) = (packet.len(), transmitter.from_port);
        let end = transmitter.tx_end(time, frame_bytes);
        let event = match from {
            Node::Switch(switch) => TraceEvent::Departed { switch, egress_port, end },
            Node::Host(host) => TraceEvent::Sent { host, frame_bytes, end },
        };
        self.record(time, packet.bytes(), packet.virtual_len(), event);
    }
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
    use crate::link::{DirectionSpec, LocalNode};
    use crate::nodes::FrameSource;
    use weir_controller::topology::build;
    use weir_host::wire::{Ecn, FrameRepr, HEADERS_LEN, WeirRepr};
    use weir_switch::packet::Packet;
    use weir_units::Bandwidth;

    /// Payload of a frame in bytes, all of it virtual.
    const PAYLOAD: u32 = 1_000;

    /// Returns the headers of a DATA frame.
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
            payload_len: PAYLOAD,
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
        // Sends a frame in 1 us.
        let rate = Bandwidth::from_bps(8 * (HEADERS_LEN as u64 + u64::from(PAYLOAD)) * 1_000_000);
        let direction = DirectionSpec { number: 0, rate, delay: us(1) };
        let transmitter = direction.transmitter(LocalNode::Host(0), 2, 0, 0);
        let all = 10 * MAX_PACKETS as u64;
        for n in 0..all {
            let (frame, at) = (frame(&topology, n as u32), us(10 * n));
            let mut packet = Packet::from_bytes(&frame);
            packet.set_virtual_len(PAYLOAD);
            let packet = &*packet;
            let arrival = |time, to| Arrival { time, wire: 0, to, packet };
            let departure = |time, from| Departure {
                time,
                from,
                transmitter: &transmitter,
                packet,
                source: FrameSource::Node,
            };
            trace.on_departure(&departure(at, Node::Host(HostIx(0))));
            for (hop, switch) in [SwitchIx(0), SwitchIx(1)].into_iter().enumerate() {
                let at = at + us(2 + 2 * hop as u64);
                trace.on_arrival(&arrival(at, Node::Switch(switch)));
                // Every third packet is lost at the second switch.
                if hop == 0 || n % 3 != 0 {
                    trace.on_departure(&departure(at, Node::Switch(switch)));
                }
            }
            if n % 3 != 0 {
                trace.on_arrival(&arrival(at + us(6), Node::Host(HostIx(1))));
            }
            PathTrace::bound([&mut trace].into_iter());
        }
        let paths = PathTrace::merge([&trace].into_iter(), &topology);
        assert!((MAX_PACKETS / 2..=MAX_PACKETS).contains(&paths.len()), "{}", paths.len());
        let numbers: Vec<u64> = paths.iter().map(|path| u64::from(path.seq)).collect();
        let (first, last) = (numbers[0], numbers[numbers.len() - 1]);
        let widest_gap = numbers.windows(2).map(|two| two[1] - two[0]).max().unwrap();
        // The sample is random, one in `sampling_interval`, so gaps vary: a gap of 12 times the mean has a probability
        // of about e^-12 at each packet.
        assert!(widest_gap.max(first).max(all - last) < 12 * trace.sampling_interval, "{numbers:?}");
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
