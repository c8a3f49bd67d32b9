//! Checks that deflection never reorders messages, over a given number of packets, several fabrics and seeds:
//!
//! ```text
//! cargo run --release -p weir-sim --example in_order -- 1000000
//! ```
//!
//! The cases are messages of 8 KB with oversubscribed uplinks, under Dart and under IOFD alone, and incasts, where
//! packets are also deflected at the ports of receivers. In each run no packet may be out of order, retransmitted or
//! dropped (by a wrong host or because its TTL ended), and no entry of a deflection table may be overwritten, or in
//! use at the end. The exit status is 1 if a run violates this.

#![allow(clippy::print_stdout)] // A command-line program.

#[path = "../tests/it/in_order/watch.rs"]
mod watch;

use watch::{EVEN_FABRICS, FABRICS, experiment, watch, with_incasts};
use weir_experiment::Experiment;
use weir_units::Time;

const SEEDS: u64 = 3;
/// A row of the table.
struct Case {
    deflected: &'static str,
    scheme: &'static str,
    fabrics: [(&'static str, &'static str); 2],
    /// Builds the experiment from topology, scheme, seed, and the time until which messages start.
    load: fn(&str, &str, u64, Time) -> Experiment,
}
const CASES: [Case; 3] = [
    Case { deflected: "dart", scheme: "dart", fabrics: FABRICS, load: experiment },
    Case { deflected: "iofd", scheme: "iofd", fabrics: FABRICS, load: experiment },
    // Also deflects at the ports of receivers, with a tenth of the usual queue.
    Case {
        deflected: "at hosts",
        scheme: "{scheme: dart, set: {deflect_at_hosts: on, deflect_above: 1500B/10Gbps}}",
        fabrics: [FABRICS[0], EVEN_FABRICS[1]],
        load: with_incasts,
    },
];
/// Initial duration of a run. A run is repeated with a longer duration until it has enough packets.
const STEP: Time = Time::from_ms(1);

fn main() {
    let wanted: u64 =
        std::env::args().nth(1).map_or(1_000_000, |text| text.parse().expect("a number of packets"));
    let runs = FABRICS.len() as u64 * CASES.len() as u64 * SEEDS;
    let (mut total, mut violations) = (0, 0);
    println!("deflected  fabric      seed   packets  deflections  entries at most");
    for Case { deflected, scheme, fabrics, load } in CASES {
        for (name, topology) in fabrics {
            for seed in 1..=SEEDS {
                let mut stop = STEP;
                let seen = loop {
                    let seen = watch(&load(topology, scheme, seed, stop));
                    if seen.packets >= wanted / runs || !seen.violations().is_empty() {
                        break seen;
                    }
                    stop = stop * (1 + wanted / runs / seen.packets.max(1));
                };
                println!(
                    "{deflected:<10} {name:<10} {seed:>5} {:>9} {:>12} {:>16}",
                    seen.packets, seen.deflections, seen.max_entries
                );
                for violation in seen.violations() {
                    println!("  {violation}");
                    violations += 1;
                }
                total += seen.packets;
            }
        }
    }
    println!("{total} packets, {violations} violations");
    std::process::exit(i32::from(violations > 0));
}
