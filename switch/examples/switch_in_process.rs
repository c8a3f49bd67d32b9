//! Embeds a switch in a process: adds table entries with P4Runtime updates, offers a port twice its capacity, and
//! prints the backlog and the counters. Time is an argument of every call, so the output is the same on every machine.
//!
//! ```text
//! cargo run -p weir-switch --example switch_in_process
//! ```

#![allow(clippy::print_stdout)] // An example prints its results.

use p4runtime::p4::v1::Update;
use p4runtime::p4info::Index;
use p4runtime::text;
use std::error::Error;
use std::sync::Arc;
use weir_switch::control::Control;
use weir_switch::pipeline::Digest;
use weir_switch::tm::PauseQuanta;
use weir_switch::{Packet, Program, Switch, SwitchConfig, SwitchOutput};
use weir_units::{Bandwidth, Bytes};

const PROGRAM: &str = include_str!("../../p4src/build/ecn.json");
const P4INFO: &str = include_str!("../../p4src/build/ecn.p4info.txtpb");

/// The route to 10.0.0.2: action `via` with port 3 in table `forward`. TABLE and ACTION stand for ids of the P4Info.
const ROUTE: &str = r#"
type: INSERT
entity { table_entry {
  table_id: TABLE
  match { field_id: 1 lpm { value: "\012\000\000\002" prefix_len: 32 } }
  action { action { action_id: ACTION params { param_id: 1 value: "\003" } } }
} }"#;

const RATE: Bandwidth = Bandwidth::from_gbps(100);
/// Length of each frame in bytes.
const FRAME_LEN: usize = 1_500;
/// Number of frames that each of two ports sends.
const FRAMES: u32 = 20;

/// A minimal driver, which only records that port 3 may send. A real driver also sends PFC frames and forwards
/// digests to a controller.
#[derive(Default)]
struct Driver {
    is_ready: bool,
}

impl SwitchOutput for Driver {
    fn ready(&mut self, _port: u16) {
        self.is_ready = true;
    }
    fn pause(&mut self, _port: u16, _priority: u8, _quanta: PauseQuanta) {}
    fn recycle(&mut self, _packet: Box<Packet>) {}
    fn digest(&mut self, _digest: Digest) {}
}

/// Returns an Ethernet frame of `FRAME_LEN` bytes with an IPv4 packet to 10.0.0.2 and a correct header checksum.
fn frame() -> Vec<u8> {
    let mut frame = vec![0; FRAME_LEN];
    frame[12..14].copy_from_slice(&[0x08, 0x00]);
    let total = (FRAME_LEN as u16 - 14).to_be_bytes();
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
    let id = |preamble: Option<&p4runtime::p4::config::v1::Preamble>| {
        preamble.map_or(0, |preamble| preamble.id).to_string()
    };
    let table = id(p4info.tables.named("forward")?.preamble.as_ref());
    let action = id(p4info.actions.named("via")?.preamble.as_ref());
    let route: Update = text::parse(&ROUTE.replace("TABLE", &table).replace("ACTION", &action))?;
    Control::new(p4info, &switch)?.apply(&mut switch, &route)?;

    // Ports 1 and 2 receive at line rate, and all frames leave by port 3, which has the same rate.
    let (frame, mut driver) = (frame(), Driver::default());
    let frame_time = RATE.tx_time(Bytes::new(FRAME_LEN as u64));
    println!("time      queued at port 3");
    for number in 0..2 * FRAMES {
        let now = frame_time * u64::from(number);
        if number < FRAMES {
            for port in [1, 2] {
                switch.receive(now, port, Packet::from_bytes(&frame), &mut driver);
            }
        }
        if driver.is_ready {
            driver.is_ready = switch.transmit(now, 3, &mut driver).is_some();
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
    println!("largest backlog: {} B", switch.queues().port_occupancy(3).peak_bytes);
    if counters.is_balanced() { Ok(()) } else { Err("a packet is not accounted for".into()) }
}
