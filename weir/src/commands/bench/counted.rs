//! Fixed workloads for counting instructions. `weir/tests/instructions.rs` runs this program under callgrind,
//! which counts only inside [`while_callgrind_counts`] and reports one count for each call.
//!
//! Unlike nanoseconds, instruction counts do not depend on the load of the machine.

use super::programs;
use super::quickstart::{QUICKSTART, every_scheme};
use crate::console::{Console, Failure};
use std::hint::black_box;
use std::io::Write;
use weir_experiment::Experiment;

/// Packets per counted round.
const PACKETS_PER_ROUND: u32 = 100;
/// Two flows that share the dumbbell's bottleneck from the start.
const FLOWS: &str = "flows=[{from: h1, to: h3, start: 0us}, {from: h2, to: h3, start: 0us}]";
/// Durations of the two runs. The difference of their counts is the cost of 100 us, without setup.
const DURATIONS: [&str; 2] = ["duration=100us", "duration=200us"];

/// Prints one line for each count of callgrind, in the same order: a name, and the divisor of the count.
pub(super) fn run(console: &mut Console) -> Result<(), Failure> {
    let out = &mut console.out;
    programs::with_packets(&every_scheme()?, |program, packet, mut path| {
        // Warm-up: caches, pools and queues reach their final size in the first round.
        path.prepare(PACKETS_PER_ROUND);
        path.send()?;
        path.prepare(PACKETS_PER_ROUND);
        let mut result = Ok(());
        count_instructions(&mut || result = path.send());
        result?;
        Ok(writeln!(out, "{program} {packet} {PACKETS_PER_ROUND}")?)
    })?;
    for duration in DURATIONS {
        let overrides = [FLOWS, duration, "schemes=[hpcc]"].map(String::from);
        let experiment = Experiment::parse(QUICKSTART, "quickstart.yaml", "quickstart", &overrides, None)
            .map_err(Failure::work)?;
        let mut packet_hops = Ok(0);
        count_instructions(&mut || {
            packet_hops = weir_sim::run(&experiment, &mut ()).map(|results| results.summary.packet_hops);
        });
        writeln!(out, "dumbbell {} {}", &duration["duration=".len()..], packet_hops.map_err(Failure::work)?)?;
    }
    Ok(())
}

/// Runs `work` as one counted section. Callgrind finds the next two functions by name: it collects only in
/// the former, and dumps and resets its counters at the latter. (Callgrind cannot do both for one function.)
fn count_instructions(work: &mut dyn FnMut()) {
    while_callgrind_counts(work);
    callgrind_writes();
}

#[inline(never)]
fn while_callgrind_counts(work: &mut dyn FnMut()) {
    work();
    // Prevents a tail call: callgrind must see the return of this function.
    black_box(());
}

#[inline(never)]
fn callgrind_writes() {
    black_box(());
}
