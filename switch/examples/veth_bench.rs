//! Measures the switch's forwarding rate between two veth pairs of this machine.
//!
//! A generator sends UDP frames into one pair; the switch runs hpcc.p4 on them and sends them out through the other
//! pair, at whose end they are counted. Generator and switch share the machine's cores. Needs root; removes all that
//! it creates.
//!
//! `cargo run --release -p weir-switch --example veth_bench -- [seconds per row] [packets/s ...]`; a load of 0 means
//! as fast as possible.
#![allow(clippy::print_stdout, clippy::print_stderr)]

#[path = "../tests/lab/mod.rs"]
mod lab;

use lab::{Lab, frames};
use std::time::{Duration, Instant};
use weir_switch::driver::af_packet::{Interface, TxSocket};
use weir_switch::driver::{Dataplane, DataplaneConfig, DataplaneHandle};
use weir_switch::{Program, Switch};

type Failure = Box<dyn std::error::Error + Send + Sync>;

const SIZES: [usize; 2] = [64, 1500];
const LOADS: [u64; 8] = [60_000, 120_000, 180_000, 220_000, 260_000, 300_000, 400_000, 0];
/// Frames per system call of the generator.
const BURST: usize = 16;
/// Time to wait after the generator stopped, until the last frames have arrived.
const SETTLE: Duration = Duration::from_millis(300);
/// The unit of CPU time in /proc (USER_HZ).
const TICKS_PER_SECOND: f64 = 100.0;

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let seconds = arguments.next().map_or(Ok(3.0), |text| text.parse())?;
    let mut loads = arguments.map(|text| text.parse()).collect::<Result<Vec<u64>, _>>()?;
    if loads.is_empty() {
        loads = LOADS.to_vec();
    }
    let Some(lab) = Lab::new("veth_bench", &["switch", "hosts"]) else { return Ok(()) };
    lab.cable(("switch", "p1"), ("hosts", "h1"), 1500);
    lab.cable(("switch", "p2"), ("hosts", "h2"), 1500);
    let config = DataplaneConfig::default();
    let mut switch = Switch::new(Program::from_json(frames::HPCC)?, config.switch_config(), 1)?;
    frames::route(&mut switch, 1..=2);
    let ports = [(1, "p1".to_owned()), (2, "p2".to_owned())];
    let dataplane = lab.within("switch", || Dataplane::start(config, Some(Box::new(switch)), &ports))?;
    let handle = dataplane.handle();

    println!(
        "{:>6} {:>10} {:>10} {:>10} {:>8} {:>6} {:>6}  lost where",
        "bytes", "offered/s", "sent/s", "out/s", "lost", "cores", "us/pkt"
    );
    for size in SIZES {
        for &load in &loads {
            let before = handle.stats().wait()?;
            let row =
                lab.within("hosts", || measure(&handle, size, load, Duration::from_secs_f64(seconds)))?;
            let after = handle.stats().wait()?;
            let lost = after.ports[0].counters.dropped.total() - before.ports[0].counters.dropped.total();
            let queue = dropped(&after) - dropped(&before);
            println!("{size:>6} {row}  ring {lost}, queue {queue}");
        }
    }
    print!("{}", dataplane.stop());
    Ok(())
}

/// Returns the number of packets that the switch dropped.
fn dropped(stats: &weir_switch::driver::DataplaneStats) -> u64 {
    stats.switch.as_ref().map_or(0, |counters| counters.dropped.total().packets)
}

/// Sends frames for `time` at `load` frames per second and returns a row of the table.
fn measure(handle: &DataplaneHandle, size: usize, load: u64, time: Duration) -> Result<String, Failure> {
    let socket = TxSocket::open(&Interface::find("h1")?)?;
    let frame = frames::udp(1, 2, size);
    let (received_before, cpu_before) = (received("h2")?, cpu_seconds()?);
    let start = Instant::now();
    let (mut sent, mut refused) = (0u64, 0u64);
    while start.elapsed() < time {
        let due = if load == 0 { u64::MAX } else { (start.elapsed().as_secs_f64() * load as f64) as u64 };
        if sent + BURST as u64 > due {
            std::hint::spin_loop();
            continue;
        }
        match socket.send(std::iter::repeat_n(&frame[..], BURST)) {
            Ok(frames) => sent += frames as u64,
            Err(_) => refused += 1,
        }
    }
    let elapsed = start.elapsed().as_secs_f64();
    std::thread::sleep(SETTLE);
    let out = received("h2")? - received_before;
    let cpu = cpu_seconds()? - cpu_before;
    // Fails if the data plane has stopped.
    handle.stats().wait()?;
    let loss = 100.0 * (sent.saturating_sub(out)) as f64 / sent.max(1) as f64;
    let offered = if load == 0 { "flood".to_owned() } else { load.to_string() };
    let refused = if refused > 0 { format!(" ({refused} refused)") } else { String::new() };
    Ok(format!(
        "{offered:>10} {:>10.0} {:>10.0} {loss:>7.3}% {:>6.2} {:>6.2}{refused}",
        sent as f64 / elapsed,
        out as f64 / elapsed,
        cpu / elapsed,
        cpu * 1e6 / out.max(1) as f64,
    ))
}

/// Returns the number of frames that an interface of this thread's namespace has received.
fn received(interface: &str) -> std::io::Result<u64> {
    let table = std::fs::read_to_string("/proc/thread-self/net/dev")?;
    let line = table.lines().find_map(|line| line.trim().strip_prefix(interface)?.strip_prefix(':'));
    let packets = line.and_then(|line| line.split_whitespace().nth(1)).and_then(|word| word.parse().ok());
    packets.ok_or(std::io::ErrorKind::NotFound.into())
}

/// Returns the CPU time of the data-plane thread in seconds.
fn cpu_seconds() -> std::io::Result<f64> {
    for task in std::fs::read_dir("/proc/self/task")? {
        let stat = std::fs::read_to_string(task?.path().join("stat"))?;
        if let Some((_, rest)) = stat.split_once("(dataplane) ") {
            // Fields 14 and 15 of proc(5), counted from the state, which is field 3.
            let ticks: f64 =
                rest.split(' ').skip(11).take(2).filter_map(|word| word.parse::<f64>().ok()).sum();
            return Ok(ticks / TICKS_PER_SECOND);
        }
    }
    Err(std::io::ErrorKind::NotFound.into())
}
