//! A switch in a process: fills its tables with P4Runtime updates, offers a port twice its capacity, and prints the backlog
//! and the counters. Time is an argument of every call, so the run is the same on every machine.
//!
//! ```text
//! cargo run -p weir-switch --example switch_in_process
//! ```

#![allow(clippy::print_stdout)] // It is a program.

use p4runtime::p4::v1::Update;
use p4runtime::p4info::Index;
use p4runtime::text;
use std::error::Error;
use std::sync::Arc;
use weir_switch::control::Control;
use weir_switch::pipeline::Digest;
use weir_switch::{Packet, Program, Switch, SwitchConfig, SwitchOutput};
use weir_units::{Bandwidth, Bytes};

const PROGRAM: &str = include_str!("../../p4src/build/ecn.json");
const P4INFO: &str = include_str!("../../p4src/build/ecn.p4info.txtpb");

/// The route to 10.0.0.2, with the ids of the P4Info: table `forward`, action `via`, port 3.
const ROUTE: &str = r#"
type: INSERT
entity { table_entry {
  table_id: TABLE
  match { field_id: 1 lpm { value: "\012\000\000\002" prefix_len: 32 } }
  action { action { action_id: ACTION params { param_id: 1 value: "\003" } } }
} }"#;

const RATE: Bandwidth = Bandwidth::from_gbps(100);
/// Length of each frame, and the number of frames that each of two ports sends.
const LENGTH: usize = 1_500;
const FRAMES: u32 = 20;

/// The driver's part: which port may send. A real driver also sends PFC frames, and digests to a controller.
#[derive(Default)]
struct Driver {
    ready: bool,
}

impl SwitchOutput for Driver {
    fn ready(&mut self, _port: u16) {
        self.ready = true;
    }
    fn pause(&mut self, _port: u16, _priority: u8, _on: bool) {}
    fn recycle(&mut self, _packet: Box<Packet>) {}
    fn digest(&mut self, _digest: Digest) {}
}

/// Returns an IPv4 packet of `LENGTH` bytes to 10.0.0.2 with a correct header checksum, in an Ethernet frame.
fn frame() -> Vec<u8> {
    let mut frame = vec![0; LENGTH];
    frame[12..14].copy_from_slice(&[0x08, 0x00]);
    let total = (LENGTH as u16 - 14).to_be_bytes();
    let header = [0x45, 0, total[0], total[1], 0, 0, 0, 0, 64, 1, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    let words = header.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])));
    let sum: u32 = words.sum();
    let checksum = !((sum & 0xffff) + (sum >> 16)) as u16;
    frame[14..34].copy_from_slice(&header);
    frame[24..26].copy_from_slice(&checksum.to_be_bytes());
    frame
}

fn main() -> Result<(), Box<dyn Error>> {
    let seed = 1;
    let mut switch = Switch::new(Program::from_json(PROGRAM)?, SwitchConfig::new([1, 2, 3]), seed)?;
    let p4info = Arc::new(Index::from_text(P4INFO)?);
    let id =
        |preamble: Option<&p4runtime::p4::config::v1::Preamble>| preamble.map_or(0, |it| it.id).to_string();
    let table = id(p4info.tables.named("forward")?.preamble.as_ref());
    let action = id(p4info.actions.named("via")?.preamble.as_ref());
    let route: Update = text::parse(&ROUTE.replace("TABLE", &table).replace("ACTION", &action))?;
    Control::new(p4info, &switch)?.apply(&mut switch, &route)?;

    // Ports 1 and 2 send at line rate to port 3, whose transmitter takes one frame in the same time.
    let (frame, mut driver) = (frame(), Driver::default());
    let frame_time = RATE.tx_time(Bytes::new(LENGTH as u64));
    println!("time      waiting at port 3");
    for number in 0..2 * FRAMES {
        let now = frame_time * u64::from(number);
        if number < FRAMES {
            for port in [1, 2] {
                switch.receive(now, port, Packet::from_bytes(&frame), &mut driver);
            }
        }
        if driver.ready {
            driver.ready = switch.transmit(now, 3, &mut driver).is_some();
        }
        if number % 10 == 9 {
            println!("{:9} {} frames, {} B", now.to_string(), switch.queue_packets(3), switch.queue_bytes(3));
        }
    }
    let counters = switch.counters();
    println!(
        "{} received, {} sent, {} dropped",
        counters.received,
        counters.sent,
        counters.dropped.total().packets
    );
    println!("the largest backlog was {} B", switch.queues().port_occupancy(3).peak_bytes);
    if counters.is_balanced() { Ok(()) } else { Err("a packet is not accounted for".into()) }
}
