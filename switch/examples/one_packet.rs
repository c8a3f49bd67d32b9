//! Runs one packet through a compiled P4 program: loads the program, adds a table entry, and prints every step of the
//! packet.
//!
//! ```text
//! cargo run -p weir-switch --example one_packet
//! ```

#![allow(clippy::print_stdout)] // An example prints its results.

use std::error::Error;
use weir_switch::pipeline::{ActionCall, Digest, KeyMatch};
use weir_switch::tm::PauseQuanta;
use weir_switch::trace::PacketTrace;
use weir_switch::{Packet, Program, Switch, SwitchConfig, SwitchOutput};
use weir_units::Time;

/// `p4src/ecn.p4`, as compiled by p4c-bm2-ss.
const PROGRAM: &str = include_str!("../../p4src/build/ecn.json");

/// An IPv4 packet from 10.0.0.1 to 10.0.0.2 with TTL 64 and eight bytes of payload, in an Ethernet frame.
const FRAME: [u8; 42] = [
    0x02, 0, 0, 0, 0, 0xff, 0x02, 0, 0, 0, 0, 0x01, 0x08, 0x00, // Ethernet: destination, source, type
    0x45, 0, 0, 28, 0, 0, 0, 0, 64, 1, 0x66, 0xdf, 10, 0, 0, 1, 10, 0, 0, 2, // IPv4
    1, 2, 3, 4, 5, 6, 7, 8,
];

/// A driver that ignores all output, since only one packet is processed.
struct IgnoreOutput;

impl SwitchOutput for IgnoreOutput {
    fn ready(&mut self, _port: u16) {}
    fn pause(&mut self, _port: u16, _priority: u8, _quanta: PauseQuanta) {}
    fn recycle(&mut self, _packet: Box<Packet>) {}
    fn digest(&mut self, _digest: Digest) {}
}

fn main() -> Result<(), Box<dyn Error>> {
    let seed = 1;
    let mut switch = Switch::new(Program::from_json(PROGRAM)?, SwitchConfig::new([1, 2]), seed)?;

    // A name may be shortened to its last component if that is unique. Values are big-endian bytes.
    let forward = switch.pipeline().table_by_name("forward")?;
    let to_host_2 = [KeyMatch::Lpm { value: vec![10, 0, 0, 2], prefix_len: 32 }];
    let via = switch.pipeline().action_by_name(forward, "via")?;
    let port_2 = ActionCall::action(via, [vec![2]]);
    switch.pipeline_mut().table_add(forward, &to_host_2, 0, &port_2)?;

    let mut trace = PacketTrace::new();
    switch.receive_traced(Time::ZERO, 1, Packet::from_bytes(&FRAME), &mut IgnoreOutput, &mut trace);
    let sent = switch.transmit_traced(Time::from_us(1), 2, &mut IgnoreOutput, &mut trace);
    println!("{trace}");

    let sent = sent.ok_or("the packet was dropped")?.to_vec();
    println!("TTL {} became {}", FRAME[22], sent[22]);
    Ok(())
}
