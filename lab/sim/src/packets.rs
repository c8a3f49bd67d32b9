//! Paths of packets: when a sample of them came to switches and left them. Every frame is inspected, so this is done only
//! on request.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use weir_controller::topology::{HostIx, SwitchIx, Topology};
use weir_experiment::results::{PacketHop, PacketPath};
use weir_host::wire::{FrameView, Kind};
use weir_units::Time;

/// The most packets kept. Beyond it every second one is forgotten, and half as many are taken from then on.
const MOST: usize = 2_000;

/// The fields by which a packet is recognized all along its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    kind: u8,
    source: Ipv4Addr,
    destination: Ipv4Addr,
    message: u32,
    seq: u32,
}

/// A packet on its path, or at its end.
#[derive(Clone, Debug)]
struct Sampled {
    /// Its number among all frames of hosts.
    number: u64,
    key: Key,
    bytes: u32,
    from: HostIx,
    sent: (Time, Time),
    /// Switch, egress port, arrival, and the time at which its last bit left.
    hops: Vec<(SwitchIx, Option<u16>, Time, Option<Time>)>,
    delivered: Option<Time>,
}

/// The sample. Evenly spread over all that hosts send, whatever the length of the run.
#[derive(Clone, Debug)]
pub struct Packets {
    every: u64,
    seen: u64,
    sampled: Vec<Sampled>,
    /// Places in `sampled` of those that are on their path.
    open: HashMap<Key, usize>,
}

impl Default for Packets {
    fn default() -> Packets {
        Packets { every: 1, seen: 0, sampled: Vec::new(), open: HashMap::new() }
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
    /// The place of a packet that is on its path.
    fn place(&self, frame: &[u8], virtual_len: u32) -> Option<usize> {
        if self.open.is_empty() {
            return None;
        }
        self.open.get(&key(frame, virtual_len)?).copied()
    }

    /// A host sends a frame from `sent.0` to `sent.1`.
    pub fn leave_host(&mut self, from: HostIx, frame: &[u8], virtual_len: u32, sent: (Time, Time)) {
        let number = self.seen;
        self.seen += 1;
        if !number.is_multiple_of(self.every) {
            return;
        }
        let Some(key) = key(frame, virtual_len) else { return };
        let bytes = frame.len() as u32 + virtual_len;
        self.open.insert(key, self.sampled.len());
        self.sampled.push(Sampled { number, key, bytes, from, sent, hops: Vec::new(), delivered: None });
        if self.sampled.len() > MOST {
            self.every *= 2;
            self.thin();
        }
    }

    /// Forgets what is not among every `every`th frame.
    fn thin(&mut self) {
        let every = self.every;
        let old = std::mem::take(&mut self.open);
        let (mut at, mut kept) = (0, 0);
        self.sampled.retain(|it| {
            let is_kept = it.number.is_multiple_of(every);
            if is_kept {
                if old.get(&it.key) == Some(&at) {
                    self.open.insert(it.key, kept);
                }
                kept += 1;
            }
            at += 1;
            is_kept
        });
    }

    /// A frame comes to a switch.
    pub fn arrive(&mut self, now: Time, switch: SwitchIx, frame: &[u8], virtual_len: u32) {
        if let Some(place) = self.place(frame, virtual_len) {
            self.sampled[place].hops.push((switch, None, now, None));
        }
    }

    /// The last bit of a frame leaves a switch at `end`.
    pub fn leave(&mut self, end: Time, switch: SwitchIx, port: u16, frame: &[u8], virtual_len: u32) {
        let Some(place) = self.place(frame, virtual_len) else { return };
        let hop = self.sampled[place].hops.last_mut().filter(|hop| hop.0 == switch && hop.3.is_none());
        if let Some(hop) = hop {
            (hop.1, hop.3) = (Some(port), Some(end));
        }
    }

    /// A frame comes to a host.
    pub fn deliver(&mut self, now: Time, frame: &[u8], virtual_len: u32) {
        let Some(key) = key(frame, virtual_len) else { return };
        if let Some(place) = self.open.remove(&key) {
            self.sampled[place].delivered = Some(now);
        }
    }

    /// Returns the paths, in the order in which the packets were sent.
    pub fn paths(&self, topology: &Topology) -> Vec<PacketPath> {
        let hosts: HashMap<Ipv4Addr, &str> =
            topology.hosts.iter().map(|host| (host.ip, host.name.as_str())).collect();
        let path = |it: &Sampled| PacketPath {
            kind: Kind::from_number(it.key.kind).map_or("?", kind_name),
            from: topology.host(it.from).name.clone(),
            to: hosts
                .get(&it.key.destination)
                .map_or_else(|| it.key.destination.to_string(), |&it| it.to_owned()),
            message: it.key.message,
            seq: it.key.seq,
            bytes: it.bytes,
            sent: it.sent,
            hops: it
                .hops
                .iter()
                .map(|&(switch, port, arrived, left)| PacketHop {
                    switch: topology.switch(switch).name.clone(),
                    port,
                    arrived,
                    left,
                })
                .collect(),
            delivered: it.delivered,
        };
        self.sampled.iter().map(path).collect()
    }
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
                    packets.leave(at + us(1), switch, 2, &frame, 1_000);
                }
            }
            if n % 3 != 0 {
                packets.deliver(at + us(6), &frame, 1_000);
            }
        }
        let paths = packets.paths(&topology);
        assert!((MOST / 2..=MOST).contains(&paths.len()), "{}", paths.len());
        let numbers: Vec<u64> = paths.iter().map(|path| u64::from(path.seq)).collect();
        assert!(numbers.windows(2).all(|two| two[1] - two[0] == packets.every), "{numbers:?}");
        assert!(numbers[0] == 0 && *numbers.last().unwrap() >= all - packets.every);
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
