//! Paths of packets: when a sample of them came to switches and left them. Every frame is inspected, so this is done only
//! on request. Each process notes what happens there, and the paths are put together at the end.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use weir_controller::topology::{HostIx, SwitchIx, Topology};
use weir_experiment::results::{PacketHop, PacketPath};
use weir_experiment::rng::mix;
use weir_host::wire::{FrameView, Kind};
use weir_units::Time;

/// The most packets kept. Beyond it half of them are forgotten, and half as many are taken from then on.
const MOST: usize = 2_000;

/// The fields that identify a packet all along its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    kind: u8,
    source: Ipv4Addr,
    destination: Ipv4Addr,
    message: u32,
    seq: u32,
}

impl Key {
    /// Returns whether a packet is in a sample of one in `every`, a power of two. The packets of a sample are in all larger ones.
    fn is_in(&self, every: u64) -> bool {
        let ends = u64::from(self.source.to_bits()) << 32 | u64::from(self.destination.to_bits());
        let number = u64::from(self.message) << 32 | u64::from(self.seq);
        mix(mix(ends ^ u64::from(self.kind)) ^ number) & (every - 1) == 0
    }
}

/// An event of a packet.
#[derive(Clone, Copy, Debug)]
enum Note {
    /// A host sent it: its length, and the time at which its last bit left.
    Sent(HostIx, u32, Time),
    /// It came to a switch.
    Arrived(SwitchIx),
    /// It left a switch by a port: the time at which its last bit did.
    Left(SwitchIx, u16, Time),
    /// It came to a host.
    Delivered,
}

/// The events of packets of the sample in one process, by time. The sample is a pseudo-random one of all that hosts send,
/// so that processes need not agree about it.
#[derive(Clone, Debug)]
pub struct Packets {
    every: u64,
    /// Packets that hosts here have sent.
    sent: usize,
    notes: Vec<(Time, Key, Note)>,
}

impl Default for Packets {
    fn default() -> Packets {
        Packets { every: 1, sent: 0, notes: Vec::new() }
    }
}

/// Reads the key of a frame. Only packets with one receiver have one.
fn key(frame: &[u8], virtual_len: u32) -> Option<Key> {
    let view = FrameView::new(frame, virtual_len).ok()?;
    let kind = view.weir.kind();
    (kind != Kind::Policy).then(|| Key {
        kind: kind as u8,
        source: view.ip.source(),
        destination: view.ip.destination(),
        message: view.weir.message(),
        seq: view.weir.seq(),
    })
}

impl Packets {
    fn note(&mut self, now: Time, frame: &[u8], virtual_len: u32, note: Note) {
        let Some(key) = key(frame, virtual_len).filter(|key| key.is_in(self.every)) else { return };
        self.sent += usize::from(matches!(note, Note::Sent(..)));
        self.notes.push((now, key, note));
    }

    /// A host sends a frame from `sent.0` to `sent.1`.
    pub fn leave_host(&mut self, from: HostIx, frame: &[u8], virtual_len: u32, sent: (Time, Time)) {
        let bytes = frame.len() as u32 + virtual_len;
        self.note(sent.0, frame, virtual_len, Note::Sent(from, bytes, sent.1));
    }

    /// A frame comes to a switch.
    pub fn arrive(&mut self, now: Time, switch: SwitchIx, frame: &[u8], virtual_len: u32) {
        self.note(now, frame, virtual_len, Note::Arrived(switch));
    }

    /// A switch sends a frame by a port from `sent.0` to `sent.1`.
    pub fn leave(
        &mut self,
        sent: (Time, Time),
        (switch, port): (SwitchIx, u16),
        frame: &[u8],
        virtual_len: u32,
    ) {
        self.note(sent.0, frame, virtual_len, Note::Left(switch, port, sent.1));
    }

    /// A frame comes to a host.
    pub fn deliver(&mut self, now: Time, frame: &[u8], virtual_len: u32) {
        self.note(now, frame, virtual_len, Note::Delivered);
    }

    /// Forgets half of the packets.
    fn halve(&mut self) {
        self.every *= 2;
        let every = self.every;
        self.notes.retain(|(_, key, _)| key.is_in(every));
        self.sent = self.notes.iter().filter(|(.., note)| matches!(note, Note::Sent(..))).count();
    }
}

/// Keeps the sample that processes have together within its bound.
pub(crate) fn thin<'p>(packets: impl Iterator<Item = &'p mut Packets>) {
    let mut all: Vec<_> = packets.collect();
    while all.iter().map(|packets| packets.sent).sum::<usize>() > MOST {
        all.iter_mut().for_each(|packets| packets.halve());
    }
}

/// Returns the paths that the notes of all processes make, in the order in which the packets were sent.
pub(crate) fn paths<'p>(all: impl Iterator<Item = &'p Packets>, topology: &Topology) -> Vec<PacketPath> {
    let hosts: HashMap<Ipv4Addr, &str> =
        topology.hosts.iter().map(|host| (host.ip, host.name.as_str())).collect();
    let mut notes: Vec<_> = all.flat_map(|packets| &packets.notes).collect();
    // Stable: the notes of one process keep their order.
    notes.sort_by_key(|(now, ..)| *now);
    let (mut paths, mut open): (Vec<PacketPath>, HashMap<Key, usize>) = (Vec::new(), HashMap::new());
    for &(now, key, note) in notes {
        if let Note::Sent(from, bytes, end) = note {
            open.insert(key, paths.len());
            let to = hosts.get(&key.destination);
            paths.push(PacketPath {
                kind: Kind::from_number(key.kind).map_or("?", kind_name),
                from: topology.host(from).name.clone(),
                to: to.map_or_else(|| key.destination.to_string(), |&it| it.to_owned()),
                message: key.message,
                seq: key.seq,
                bytes,
                sent: (now, end),
                hops: Vec::new(),
                delivered: None,
            });
            continue;
        }
        // One that nobody sent as it is: a switch made it.
        let Some(&place) = open.get(&key) else { continue };
        let path = &mut paths[place];
        match note {
            Note::Arrived(switch) => {
                let switch = topology.switch(switch).name.clone();
                path.hops.push(PacketHop { switch, port: None, arrived: now, left: None });
            }
            Note::Left(switch, port, end) => {
                let name = &topology.switch(switch).name;
                let hop = path.hops.last_mut().filter(|hop| hop.switch == *name && hop.left.is_none());
                if let Some(hop) = hop {
                    (hop.port, hop.left) = (Some(port), Some(end));
                }
            }
            Note::Delivered => {
                path.delivered = Some(now);
                open.remove(&key);
            }
            Note::Sent(..) => {}
        }
    }
    paths
}

/// Returns the name of a kind, as the dissector of Wireshark writes it.
fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Data => "DATA",
        Kind::Ack => "ACK",
        Kind::Nack => "NACK",
        Kind::Cnp => "CNP",
        Kind::Probe => "PROBE",
        Kind::ProbeReply => "PROBE_REPLY",
        Kind::Rate => "RATE",
        Kind::Policy => "POLICY",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_controller::topology::build;
    use weir_host::wire::{Ecn, FrameRepr, HEADERS_LEN, WeirRepr};

    fn frame(topology: &Topology, seq: u32) -> Vec<u8> {
        let [from, to] = [0, 1].map(|at| topology.host(HostIx(at)).ip);
        let weir = WeirRepr { seq, message: 7, ..WeirRepr::of(Kind::Data) };
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
        let (mut packets, us) = (Packets::default(), Time::from_us);
        let all = 10 * MOST as u64;
        for n in 0..all {
            let (frame, at) = (frame(&topology, n as u32), us(10 * n));
            packets.leave_host(HostIx(0), &frame, 1_000, (at, at + us(1)));
            for (hop, switch) in [SwitchIx(0), SwitchIx(1)].into_iter().enumerate() {
                let at = at + us(2 + 2 * hop as u64);
                packets.arrive(at, switch, &frame, 1_000);
                // Every third is lost at the second switch.
                if hop == 0 || n % 3 != 0 {
                    packets.leave((at, at + us(1)), (switch, 2), &frame, 1_000);
                }
            }
            if n % 3 != 0 {
                packets.deliver(at + us(6), &frame, 1_000);
            }
            thin([&mut packets].into_iter());
        }
        let paths = paths([&packets].into_iter(), &topology);
        assert!((MOST / 2..=MOST).contains(&paths.len()), "{}", paths.len());
        let numbers: Vec<u64> = paths.iter().map(|path| u64::from(path.seq)).collect();
        let (first, last) = (numbers[0], numbers[numbers.len() - 1]);
        let widest = numbers.windows(2).map(|two| two[1] - two[0]).max().unwrap();
        assert!(widest.max(first).max(all - last) < 12 * packets.every, "{numbers:?}");
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
