//! Measures the cost of one packet in one switch with the table entries that the controller installs.

use crate::console::Failure;
use std::borrow::Cow;
use std::hint::black_box;
use std::time::{Duration, Instant};
use weir_controller::topology::{Host, SwitchIx, Topology};
use weir_experiment::Experiment;
use weir_host::scheme::TelemetrySource;
use weir_host::wire::{Ecn, Flags, FrameRepr, INT_RECORD_LEN, PacketKind, WeirRepr};
use weir_sim::fabric_builder::FabricBuilder;
use weir_switch::pipeline::Digest;
use weir_switch::program::Engine;
use weir_switch::tm::PauseQuanta;
use weir_switch::{Packet, PacketPool, Switch, SwitchOutput};
use weir_units::Time;

/// The cost of one kind of packet in one program.
pub(super) struct Cost {
    pub program: Cow<'static, str>,
    /// `DATA` or `ACK`.
    pub packet: &'static str,
    /// Nanoseconds in the switch: ingress, queue and egress.
    pub ns: f64,
}

/// Packets per round. The fastest of [`ROUNDS`] rounds is the result, because other processes can only slow a round
/// down.
const PACKETS_PER_ROUND: u32 = 100_000;
const ROUNDS: u32 = 7;
/// Packets between two readings of the clock: few enough for their data to stay in the L1 cache.
const BATCH: u32 = 32;
/// Time between packets: about the transmission time of a full frame at 100 Gbit/s.
const GAP: Time = Time::from_ns(122);
/// Telemetry records in the ACK when it arrives at the first switch.
const ACK_RECORDS: usize = 2;

/// Measures DATA and ACK packets at the first switch of `experiment`, with the program of every scheme.
pub(super) fn costs(experiment: &Experiment) -> Result<Vec<Cost>, Failure> {
    let mut costs = Vec::new();
    with_packets(experiment, |program, packet, mut path| {
        costs.push(Cost { program: program.clone(), packet, ns: path.cost()? });
        Ok(())
    })?;
    Ok(costs)
}

/// For the program of each scheme, calls `measure` with a new switch and a packet for that switch: first
/// DATA, then ACK. Schemes that share a program are measured once.
pub(super) fn with_packets(
    experiment: &Experiment,
    mut measure: impl FnMut(&Cow<'static, str>, &'static str, PacketPath<'_>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let topology = &experiment.topology;
    let (Some(from), Some(to)) = (topology.hosts.first(), topology.hosts.last()) else {
        return Ok(());
    };
    let first = SwitchIx(0);
    let mut programs = Vec::new();
    for scheme in &experiment.schemes {
        let needs = scheme.config.needs();
        let program = experiment.artifact_of(scheme).name;
        if programs.contains(&program) {
            continue;
        }
        let telemetry_if = |is_requested| if is_requested { Flags::TELEMETRY } else { Flags::default() };
        let flags = telemetry_if(matches!(
            needs.telemetry,
            TelemetrySource::Data | TelemetrySource::RateNotifications
        ));
        let mtu = experiment.spec.mtu.get() as u32;
        // Packets with deflection tokens are also looked up in the deflection table.
        let tokens = scheme.config.needs().deflection.map_or(0, |deflection| deflection.tokens);
        let data = frame(
            PacketKind::Data,
            WeirRepr { flags, tokens, format: needs.records, ..BASE_HEADER },
            from,
            to,
            mtu,
        );
        let flags = telemetry_if(needs.telemetry == TelemetrySource::Acks);
        let ack = frame(PacketKind::Ack, WeirRepr { flags, ..BASE_HEADER }, to, from, 0);
        let (host_port, next_port) = ports(topology, first, from)?;
        let builder = FabricBuilder::new(experiment, scheme, Engine::default()).map_err(Failure::work)?;
        for (packet, frame, port_in, port_out) in
            [("DATA", data, host_port, next_port), ("ACK", ack, next_port, host_port)]
        {
            // Each kind gets a new switch, because state that one kind leaves in the switch, such as RoCC's
            // notifications, would affect the other.
            let network = builder.build().map_err(Failure::work)?;
            let mut fabric = network.view();
            let switch = &mut fabric.switch_mut(SwitchIx(0)).switch;
            let sink = Sink { pool: PacketPool::new() };
            let (now, packets) = (Time::ZERO, Vec::new());
            let path = PacketPath { switch, frame: frame?, port_in, port_out, sink, now, packets };
            measure(&program, packet, path)?;
        }
        programs.push(program);
    }
    Ok(())
}

/// A frame, whose payload is only a length.
struct Frame {
    /// Header bytes as a host writes them.
    header: Vec<u8>,
    payload_len: u32,
}

/// The fields of a packet that are the same for DATA and ACK.
const BASE_HEADER: WeirRepr = WeirRepr { concurrency: 1, message: 1, ..WeirRepr::of(PacketKind::Data) };

/// Returns a frame of `mtu` bytes, or one without payload if `mtu` is 0.
fn frame(kind: PacketKind, weir: WeirRepr, from: &Host, to: &Host, mtu: u32) -> Result<Frame, Failure> {
    let records = if kind == PacketKind::Ack { vec![0; ACK_RECORDS * INT_RECORD_LEN] } else { Vec::new() };
    let mut header = vec![0; weir_host::wire::MAX_HEADER_LEN];
    let payload_len = mtu.saturating_sub(weir_host::wire::HEADERS_LEN as u32);
    let weir = WeirRepr { kind, ..weir };
    let repr = FrameRepr {
        source_mac: from.mac,
        destination_mac: to.mac,
        source: from.ip,
        destination: to.ip,
        dscp: 0,
        ecn: Ecn::NotEct,
        entropy_port: 50_000,
        weir,
        payload_len,
    };
    let len =
        repr.emit(&records, &mut header).ok_or_else(|| Failure::work("bench: cannot encode the frame"))?;
    header.truncate(len);
    Ok(Frame { header, payload_len })
}

/// Returns the ports of `switch` towards `host` and towards the next switch.
fn ports(topology: &Topology, switch: SwitchIx, host: &Host) -> Result<(u16, u16), Failure> {
    let towards = |name: &str| {
        topology.switch(switch).ports().map(|(port, _)| port).find(|&port| {
            topology.peer(switch, port).is_some_and(|(_, peer)| topology.node_name(peer.node) == name)
        })
    };
    let next = topology.switches.get(1).and_then(|next| towards(&next.name));
    towards(&host.name).zip(next).ok_or_else(|| Failure::work("bench: the first switch has no next hop"))
}

/// Keeps the packets that the switch drops, for reuse.
struct Sink {
    pool: PacketPool,
}

impl SwitchOutput for Sink {
    fn ready(&mut self, _: u16) {}
    fn pause(&mut self, _: u16, _: u8, _: PauseQuanta) {}
    fn recycle(&mut self, packet: Box<Packet>) {
        self.pool.put(packet);
    }
    fn digest(&mut self, _: Digest) {}
}

/// The path of one kind of packet through a switch: its ingress and egress port.
pub(super) struct PacketPath<'s> {
    switch: &'s mut Switch,
    frame: Frame,
    port_in: u16,
    port_out: u16,
    sink: Sink,
    now: Time,
    /// Packets to be sent, or packets that have left the switch.
    packets: Vec<Option<Box<Packet>>>,
}

impl PacketPath<'_> {
    /// Measures the nanoseconds per packet.
    fn cost(&mut self) -> Result<f64, Failure> {
        let mut best = f64::INFINITY;
        for _ in 0..ROUNDS {
            let mut elapsed = Duration::ZERO;
            for _ in 0..PACKETS_PER_ROUND / BATCH {
                self.prepare(BATCH);
                let start = Instant::now();
                self.send()?;
                elapsed += start.elapsed();
            }
            best = best.min(elapsed.as_nanos() as f64 / f64::from(PACKETS_PER_ROUND / BATCH * BATCH));
        }
        Ok(best)
    }

    /// Prepares `count` packets for the next [`PacketPath::send`], reusing the previous ones.
    pub(super) fn prepare(&mut self, count: u32) {
        self.packets.drain(..).flatten().for_each(|packet| self.sink.pool.put(packet));
        for _ in 0..count {
            let mut packet = self.sink.pool.get();
            packet.set_bytes(&self.frame.header);
            packet.set_virtual_len(self.frame.payload_len);
            self.packets.push(Some(packet));
        }
    }

    /// Sends the prepared packets through the switch, one at a time.
    pub(super) fn send(&mut self) -> Result<(), Failure> {
        let PacketPath { switch, sink, packets, .. } = self;
        for slot in packets {
            let Some(packet) = slot.take() else { continue };
            self.now += GAP;
            switch.receive(self.now, self.port_in, packet, sink);
            *slot = black_box(switch.transmit(self.now, self.port_out, sink));
            if slot.is_none() {
                return Err(Failure::work("bench: the switch does not forward the packet"));
            }
        }
        Ok(())
    }
}
