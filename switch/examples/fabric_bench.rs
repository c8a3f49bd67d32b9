//! Measures the forwarding rate of four switches in a row: as four threads with veth pairs between them, as two
//! fabrics of two switches with a veth pair between the fabrics, and as one fabric.
//!
//! `cargo run --release -p weir-switch --example fabric_bench -- [seconds per row] [packets/s ...]`; a load of 0
//! means as fast as possible. The three variants are measured in turn; generator and switches share the same cores.
//! Needs root; removes all that it creates.
#![allow(clippy::print_stdout, clippy::print_stderr)]

#[path = "../tests/lab/mod.rs"]
mod lab;

use lab::{Lab, frames};
use std::time::{Duration, Instant};
use weir_switch::driver::af_packet::{Interface, TxSocket};
use weir_switch::driver::{DataplaneConfig, FabricDataplane, FabricMember, FabricPort, PortLinkConfig};
use weir_switch::{Program, Switch};
use weir_units::{Bandwidth, Time};

type Failure = Box<dyn std::error::Error + Send + Sync>;

const HOPS: u16 = 4;
const SIZES: [usize; 2] = [64, 1500];
const LOADS: [u64; 7] = [20_000, 40_000, 80_000, 120_000, 180_000, 240_000, 0];
const ROUNDS: usize = 3;
/// Frames per system call of the generator.
const BURST: usize = 16;
/// Time to wait after the generator stopped, until no frame is in flight.
const SETTLE: Duration = Duration::from_millis(300);

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let seconds = arguments.next().map_or(Ok(2.0), |text| text.parse())?;
    let mut loads = arguments.map(|text| text.parse()).collect::<Result<Vec<u64>, _>>()?;
    if loads.is_empty() {
        loads = LOADS.to_vec();
    }
    println!(
        "{:>6} {:>10} {:>9} {:>10} {:>10} {:>9}",
        "bytes", "offered/s", "together", "sent/s", "out/s", "lost"
    );
    for size in SIZES {
        for &load in &loads {
            for _ in 0..ROUNDS {
                for fabric_size in [1, 2, 4] {
                    let (sent, out) = measure(fabric_size, size, load, Duration::from_secs_f64(seconds))?;
                    let offered = if load == 0 { "flood".to_owned() } else { load.to_string() };
                    let lost = 100.0 * (sent - out).max(0.0) / sent;
                    println!(
                        "{size:>6} {offered:>10} {fabric_size:>9} {sent:>10.0} {out:>10.0} {lost:>8.3}%"
                    );
                }
            }
        }
    }
    Ok(())
}

/// Returns a switch with port 1 towards the sender and port 2 towards the receiver.
fn switch(config: &DataplaneConfig) -> Option<Box<Switch>> {
    let program = Program::from_json(frames::HPCC).expect("a committed program");
    let mut switch = Switch::new(program, config.switch_config(), 1).expect("a configuration");
    frames::route(&mut switch, 1..=2);
    Some(Box::new(switch))
}

/// Starts fabrics of `fabric_size` switches each, in the order of the row.
fn start(lab: &Lab, fabric_size: u16) -> Result<Vec<FabricDataplane>, Failure> {
    let wire = PortLinkConfig::new(Bandwidth::from_gbps(400), Time::ZERO);
    let member = |n: u16| {
        let index = n % fabric_size;
        let internal = |port, peer| FabricPort { port, name: format!("s{n}-eth{port}"), peer };
        let (mut ports, mut links) = (Vec::new(), Vec::new());
        match index {
            0 => ports.push((1, format!("b{}", n + 1))),
            _ => links.push(internal(1, (index - 1, 2))),
        }
        match index + 1 {
            last if last == fabric_size => ports.push((2, format!("a{}", n + 2))),
            next => links.push(internal(2, (next, 1))),
        }
        let port_links = links.iter().map(|internal| (internal.port, wire)).collect();
        let config = DataplaneConfig { port_links, ..DataplaneConfig::default() };
        FabricMember { switch: switch(&config), config, ports, internal_ports: links }
    };
    let fabrics = (0..HOPS / fabric_size).map(|group| {
        let members = (group * fabric_size..(group + 1) * fabric_size).map(member).collect();
        lab.within("switch", || FabricDataplane::start(members)).map_err(Failure::from)
    });
    fabrics.collect()
}

/// Returns the frames per second that the generator sent and that the last switch delivered.
fn measure(fabric_size: u16, size: usize, load: u64, time: Duration) -> Result<(f64, f64), Failure> {
    let Some(lab) = Lab::new("fabric_bench", &["switch", "hosts"]) else { return Err("needs root".into()) };
    // Cable n connects `a<n>` with `b<n>`. The first begins at the sender, the last ends at the receiver.
    lab.cable(("hosts", "a1"), ("switch", "b1"), 1500);
    for n in 2..=HOPS {
        lab.cable(("switch", &format!("a{n}")), ("switch", &format!("b{n}")), 1500);
    }
    let (last_a, last_b) = (format!("a{}", HOPS + 1), format!("b{}", HOPS + 1));
    lab.cable(("switch", &last_a), ("hosts", &last_b), 1500);
    let fabrics = start(&lab, fabric_size)?;
    let rates = lab.within("hosts", || send(&last_b, size, load, time));
    drop(fabrics);
    rates
}

/// Sends frames for `time` at `load` frames per second; returns the rates sent and received.
fn send(receiver: &str, size: usize, load: u64, time: Duration) -> Result<(f64, f64), Failure> {
    let socket = TxSocket::open(&Interface::find("a1")?)?;
    let frame = frames::udp(1, 2, size);
    let before = received(receiver)?;
    let start = Instant::now();
    let mut sent = 0u64;
    while start.elapsed() < time {
        let due = if load == 0 { u64::MAX } else { (start.elapsed().as_secs_f64() * load as f64) as u64 };
        if sent + BURST as u64 > due {
            std::thread::yield_now();
            continue;
        }
        sent += socket.send(std::iter::repeat_n(&frame[..], BURST)).unwrap_or(0) as u64;
    }
    let elapsed = start.elapsed().as_secs_f64();
    std::thread::sleep(SETTLE);
    let out = received(receiver)? - before;
    Ok((sent as f64 / elapsed, out as f64 / elapsed))
}

/// Returns the number of frames that an interface of this thread's namespace has received.
fn received(interface: &str) -> std::io::Result<u64> {
    let table = std::fs::read_to_string("/proc/thread-self/net/dev")?;
    let line = table.lines().find_map(|line| line.trim().strip_prefix(interface)?.strip_prefix(':'));
    let packets = line.and_then(|line| line.split_whitespace().nth(1)).and_then(|word| word.parse().ok());
    packets.ok_or(std::io::ErrorKind::NotFound.into())
}
