//! Measures the growth of Trickle's messages with hosts and loss: the tables and the plot of
//! `docs/policy-results.md`.
//!
//! `cargo run --release -p weir-fabric --example policy_scale -- docs/policy-scale.svg`

#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::process::ExitCode;
use weir::report::chart::{Axis, Chart, LegendPlacement, Line, Size};
use weir_host::policy::{Policy, PolicyConfig, PolicyKey, default_trickle};
use weir_host::schemes::Registry;
use weir_host::trickle::TrickleConfig;
use weir_sim::medium::Medium;
use weir_units::Time;

/// Base RTT; about that of a fat-tree with k = 8 at 100 Gbit/s.
const T: Time = Time::from_us(13);
/// Doublings of Imin; fewer than the default of 16, so that the maximum interval is short enough to simulate.
const DOUBLINGS: u32 = 6;
const HOSTS: [usize; 7] = [16, 32, 64, 128, 256, 512, 1_024];
const LOSS: [f64; 5] = [0.0, 0.05, 0.2, 0.4, 0.6];
const SEEDS: u64 = 5;
/// Number of maximum intervals over which messages are counted.
const INTERVALS: u64 = 20;

fn medium(hosts: usize, k: u32, loss: f64, seed: u64) -> Medium {
    let key = PolicyKey::new(b"what all of them know").expect("the key is long enough");
    let trickle = TrickleConfig::new(imin(), DOUBLINGS, k).expect("the parameters are valid");
    let config = PolicyConfig { trickle, ..PolicyConfig::new(key, 0, T) };
    Medium::new(vec![config; hosts], T / 2, loss, seed)
}

fn imin() -> Time {
    default_trickle(T).imin
}

/// Returns the maximum interval, Imax.
fn imax() -> Time {
    imin() * (1 << DOUBLINGS)
}

fn policy() -> Policy {
    Policy::of(&*Registry::builtin().make("hpcc", &[("eta", "0.9")]).expect("hpcc is a builtin scheme"))
}

/// Returns the mean of `measure` over the seeds, applied to a medium whose hosts have reached the maximum interval.
fn mean(hosts: usize, k: u32, loss: f64, measure: impl Fn(&mut Medium) -> f64) -> f64 {
    let run = |seed| {
        let mut medium = medium(hosts, k, loss, seed);
        medium.run_until(imax() * 4);
        measure(&mut medium)
    };
    (1..=SEEDS).map(run).sum::<f64>() / SEEDS as f64
}

/// Returns the number of messages of all hosts per maximum interval.
fn steady_messages(medium: &mut Medium) -> f64 {
    let from = medium.now;
    medium.run_until(from + imax() * INTERVALS);
    medium.sent_within(from, medium.now) as f64 / INTERVALS as f64
}

/// Returns the time until all hosts hold a new policy, in units of Imin; NaN if they do not.
fn convergence_time(medium: &mut Medium) -> f64 {
    let began = medium.now;
    let id = medium.set(0, policy()).expect("the policy fits into a packet");
    let converged = medium.run_until_converged(id, began + imax() * 2);
    converged.map_or(f64::NAN, |time| (time - began).as_secs_f64() / imin().as_secs_f64())
}

fn table(title: &str, k: u32, digits: usize, measure: fn(&mut Medium) -> f64) -> Vec<Vec<f64>> {
    println!("\n{title}, k = {k}\n");
    let losses: Vec<_> = LOSS.iter().map(|loss| format!(" {:.0} % |", loss * 100.0)).collect();
    println!("| hosts |{}\n|---:|{}", losses.concat(), "---:|".repeat(LOSS.len()));
    let row = |&hosts: &usize| {
        let cells: Vec<f64> = LOSS.iter().map(|&loss| mean(hosts, k, loss, measure)).collect();
        let texts: Vec<_> = cells.iter().map(|cell| format!(" {cell:.digits$} |")).collect();
        println!("| {hosts} |{}", texts.concat());
        cells
    };
    HOSTS.iter().map(row).collect()
}

/// Prints the messages per host after a change, in intervals of which each is twice as long as the previous one.
fn print_decay(hosts: usize) {
    let mut medium = medium(hosts, 2, 0.0, 1);
    medium.run_until(imax() * 4);
    let began = medium.now;
    medium.set(0, policy()).expect("the policy fits into a packet");
    medium.run_until(began + imax() * 3);
    println!("\nAfter a change, {hosts} hosts, k = 2, no loss\n");
    println!("| interval in Imin | messages | per host | per host and Imin |\n|---:|---:|---:|---:|");
    let mut from = began;
    for doubling in 0..=DOUBLINGS {
        let to = from + imin() * (1 << doubling);
        let sent = medium.sent_within(from, to);
        let per_host = sent as f64 / hosts as f64;
        let per_imin = per_host / f64::from(1u32 << doubling);
        println!(
            "| {} to {} | {sent} | {per_host:.4} | {per_imin:.5} |",
            (from - began) / imin(),
            (to - began) / imin()
        );
        from = to;
    }
}

fn main() -> ExitCode {
    println!("Imin {} = 16 T, longest interval {}, one way {}", imin(), imax(), T / 2);
    table("Imin until all hosts hold a new policy", 2, 2, convergence_time);
    table("Messages of all hosts per longest interval", 2, 1, steady_messages);
    let lines = table("Messages of all hosts per longest interval", 1, 1, steady_messages);
    print_decay(128);
    print_decay(1_024);
    let max = lines.iter().flatten().copied().fold(0.0, f64::max);
    let line = |(i, loss): (usize, &f64)| Line {
        name: format!("{:.0} % lost", loss * 100.0),
        note: None,
        colour: i,
        dash: 0,
        points: HOSTS.iter().zip(&lines).map(|(&hosts, row)| (hosts as f64, row[i])).collect(),
        ..Line::default()
    };
    let chart = Chart {
        alt: "Messages of all hosts per interval over their number, logarithmic, for five rates of loss"
            .to_owned(),
        x: Axis::log("hosts", HOSTS[0] as f64, HOSTS[HOSTS.len() - 1] as f64),
        y: Axis::from_zero("messages per interval, k = 1", max),
        lines: LOSS.iter().enumerate().map(line).collect(),
        marks: Vec::new(),
        names: LegendPlacement::Direct,
    };
    let Some(path) = std::env::args().nth(1) else { return ExitCode::SUCCESS };
    match std::fs::write(&path, chart.svg_file(Size::Wide)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{path}: {error}");
            ExitCode::FAILURE
        }
    }
}
