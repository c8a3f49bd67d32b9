//! Logs the bytes of packets (`--dump-packet-data`) and their path through the program (log level trace).

use super::config::DataplaneConfig;
use crate::engine::{Switch, SwitchOutput};
use crate::packet::Packet;
use crate::trace::PacketTrace;
use weir_units::Time;

/// Same as [`Switch::receive`], with log output.
#[cold]
pub(super) fn receive(
    switch: &mut Switch,
    config: &DataplaneConfig,
    now: Time,
    port: u16,
    packet: Box<Packet>,
    out: &mut impl SwitchOutput,
) {
    dump(config, "received", port, &packet);
    let mut trace = PacketTrace::new();
    switch.receive_traced(now, port, packet, out, &mut trace);
    log(config, &trace);
}

/// Same as [`Switch::transmit`], with log output.
#[cold]
pub(super) fn transmit(
    switch: &mut Switch,
    config: &DataplaneConfig,
    now: Time,
    port: u16,
    out: &mut impl SwitchOutput,
) -> Option<Box<Packet>> {
    let mut trace = PacketTrace::new();
    let packet = switch.transmit_traced(now, port, out, &mut trace);
    // Empty if no packet was dequeued.
    if !trace.events().is_empty() {
        log(config, &trace);
    }
    if let Some(packet) = &packet {
        dump(config, "sent", port, packet);
    }
    packet
}

/// Same as [`Switch::run_reentries`], with log output.
#[cold]
pub(super) fn run_reentries(
    switch: &mut Switch,
    config: &DataplaneConfig,
    now: Time,
    out: &mut impl SwitchOutput,
) -> bool {
    let mut trace = PacketTrace::new();
    let is_waiting = switch.run_reentries_traced(now, out, &mut trace);
    log(config, &trace);
    is_waiting
}

fn dump(config: &DataplaneConfig, direction: &str, port: u16, packet: &Packet) {
    if config.dump_bytes > 0 {
        let bytes = packet.bytes();
        let shown = &bytes[..config.dump_bytes.min(bytes.len())];
        tracing::info!("port {port} {direction} {} bytes: {shown:02x?}", bytes.len());
    }
}

fn log(config: &DataplaneConfig, trace: &PacketTrace) {
    if config.trace {
        for line in trace.to_string().lines() {
            tracing::trace!("{line}");
        }
    }
}
