//! Work whose instructions are counted, by `weir/tests/instructions.rs`: it runs this program under callgrind, which counts
//! only while [`while_callgrind_counts`] runs, and adds up one number for each of its calls.
//!
//! Instructions do not depend on the machine's load, as nanoseconds do.

use super::{QUICKSTART, every_scheme, programs};
use crate::console::{Console, Failure};
use std::hint::black_box;
use std::io::Write;
use weir_experiment::Experiment;

/// Packets that are counted.
const PACKETS: u32 = 100;
/// Two flows that share the dumbbell from the start.
const FLOWS: &str = "flows=[{from: h1, to: h3, start: 0us}, {from: h2, to: h3, start: 0us}]";
/// Durations of two runs; their difference is the work of 100 us.
const DURATIONS: [&str; 2] = ["duration=100us", "duration=200us"];

/// Prints a line for each number that callgrind counts: a name, and by what to divide it.
pub fn run(console: &mut Console) -> Result<(), Failure> {
    let out = &mut console.out;
    programs::with_packets(&every_scheme()?, |program, packet, mut path| {
        // The first round is not counted: caches, pools and queues have their size after it.
        path.write(PACKETS);
        path.send()?;
        path.write(PACKETS);
        let mut sent = Ok(());
        counted(&mut || sent = path.send());
        sent?;
        Ok(writeln!(out, "{program} {packet} {PACKETS}")?)
    })?;
    for duration in DURATIONS {
        let sets = [FLOWS, duration, "schemes=[hpcc]"].map(String::from);
        let experiment = Experiment::parse(QUICKSTART, "quickstart.yaml", "quickstart", &sets, None)
            .map_err(Failure::work)?;
        let mut hops = Ok(0);
        counted(&mut || {
            hops = weir_sim::run(&experiment, &mut ()).map(|results| results.summary.packet_hops);
        });
        writeln!(out, "dumbbell {} {}", &duration["duration=".len()..], hops.map_err(Failure::work)?)?;
    }
    Ok(())
}

/// Does some work. Callgrind looks for this function and the next one by their names: it counts in the former, and writes
/// down what it has counted at the latter. (It does not do both for one function.)
fn counted(work: &mut dyn FnMut()) {
    while_callgrind_counts(work);
    callgrind_writes();
}

#[inline(never)]
fn while_callgrind_counts(work: &mut dyn FnMut()) {
    work();
    // So that the call above is not the last thing: callgrind is to see where this function ends.
    black_box(());
}

#[inline(never)]
fn callgrind_writes() {
    black_box(());
}
