//! Random experiments give the same bytes on 1 to 8 threads and on both engines of the switches.
//!
//! Each seed is one file, drawn from everything that experiment files can have. `WEIR_FILES` sets the number of files and
//! `WEIR_FIRST_SEED` the first seed; `make soak` runs thousands, in a release build. A failure prints the file and the
//! command that repeats it.

// Prints failures as they are found, and at the end what was refused.
#![allow(clippy::print_stderr, clippy::print_stdout)]

mod coverage;
mod generator;
mod values;

use generator::{Generator, yaml};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;
use weir_experiment::results::{Results, SchemeTrace};
use weir_experiment::{Backend as _, Experiment};
use weir_sim::Simulation;
use weir_switch::program::Engine;

/// Number of files if `WEIR_FILES` is not set.
const FILES: u64 = 200;
/// Of 100 files, so many are valid; the others are refused with an error.
const MIN_VALID: u64 = 70;
/// Maximum time of one file, all runs together: a run that hangs must not block the others for good.
const MAX_TIME: Duration = Duration::from_secs(300);

fn variable(name: &str, default: u64) -> u64 {
    let Ok(text) = std::env::var(name) else { return default };
    text.parse().unwrap_or_else(|_| panic!("{name}={text}: not a number"))
}

/// A way to run an experiment that must not change its results.
struct Variant {
    name: String,
    simulation: Simulation,
}

fn variants(seed: u64) -> Vec<Variant> {
    let threads = 2 + (seed % 7) as usize;
    // In every other file each window is shared, however little there is to do. Schemes run at the same time, or one
    // after the other on all threads.
    let parallel_threshold = if seed.is_multiple_of(2) { 0 } else { 16 };
    let jobs = if seed.is_multiple_of(3) { threads } else { 1 };
    let trace_paths = seed.is_multiple_of(4);
    let several = Simulation { jobs, parallel_threshold, trace_paths, ..Simulation::new(threads) };
    vec![
        Variant { name: format!("{threads} threads"), simulation: several },
        Variant {
            name: "the interpreter".to_owned(),
            simulation: Simulation { engine: Engine::Interpreter, ..Simulation::new(1) },
        },
    ]
}

/// Returns everything that a run reports except its time, line by line. `packets` are traced in some variants only.
fn report(results: &Results) -> String {
    let mut summary = results.summary.clone();
    summary.wall_s = 0.0;
    let mut text = format!("{}\n", serde_json::to_string_pretty(&summary).expect("plain data serialises"));
    for (label, trace) in &results.traces {
        let SchemeTrace { ports, rates, pauses, flows, packets: _, .. } = trace;
        for record in flows {
            writeln!(text, "{label}: {record:?}").expect("a String");
        }
        writeln!(text, "{label}: {pauses:?}\n{label}: {rates:?}\n{label}: {ports:?}").expect("a String");
    }
    text
}

/// Returns an error with `#` for each number, so that equal errors of different files are counted together.
fn without_numbers(error: &str) -> String {
    let mut text = String::new();
    for c in error.chars() {
        match c {
            '0'..='9' if text.ends_with('#') => (),
            '0'..='9' => text.push('#'),
            c => text.push(c),
        }
    }
    text
}

/// Returns where two different texts differ first, in both of them.
fn first_difference(one: &str, other: &str) -> String {
    /// Characters to show before and after the first difference.
    const CONTEXT: (usize, usize) = (80, 160);
    let common = one.chars().zip(other.chars()).take_while(|(one, other)| one == other).count();
    let skipped = common.saturating_sub(CONTEXT.0);
    let part = |text: &str| text.chars().skip(skipped).take(CONTEXT.0 + CONTEXT.1).collect::<String>();
    format!("..{}..\n..{}..", part(one), part(other))
}

/// The outcome of one file.
enum Outcome {
    Same { packet_hops: u64 },
    Refused(String),
    Failed(String),
}

fn run(experiment: &Experiment, simulation: &Simulation) -> Result<Results, String> {
    weir_sim::run_on(experiment, simulation, &mut ()).map_err(|error| error.to_string())
}

/// Runs a file in all variants and compares them with the run on one thread.
fn compare(generator: &Generator, seed: u64) -> Outcome {
    let experiment = match generator.parse(&generator.draw(seed)) {
        Ok(experiment) => experiment,
        Err(error) => return Outcome::Refused(error),
    };
    let simulation = Simulation::new(1);
    let single = run(&experiment, &simulation);
    // It builds the fabric as the run does, which takes as long as a short run.
    if single.is_err() || seed % 4 == 1 {
        let checked = simulation.check(&experiment).map_err(|error| error.to_string());
        if checked.as_ref().err() != single.as_ref().err() {
            let refusal = single.err();
            return Outcome::Failed(format!("`check` says {checked:?}, but the run {refusal:?}"));
        }
    }
    for Variant { name, simulation } in variants(seed) {
        let other = run(&experiment, &simulation);
        let texts = [&single, &other].map(|run| run.as_ref().map_or_else(String::clone, report));
        if texts[0] != texts[1] {
            let difference = first_difference(&texts[0], &texts[1]);
            return Outcome::Failed(format!("one thread, then {name}:\n{difference}"));
        }
    }
    match single {
        Ok(results) => Outcome::Same { packet_hops: results.summary.packet_hops },
        Err(error) => Outcome::Refused(error),
    }
}

/// Does the same in a thread of its own, so that a panic or a run that does not end is a failure of this file.
fn compare_in_time(seed: u64) -> Outcome {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let outcome = catch_unwind(AssertUnwindSafe(|| compare(&Generator::new(), seed)));
        // Nobody listens any more after `MAX_TIME`.
        let _ = sender.send(outcome);
    });
    match receiver.recv_timeout(MAX_TIME) {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(payload)) => {
            let text = payload.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| payload.downcast_ref::<&str>().copied());
            Outcome::Failed(format!("panics: {}", text.unwrap_or("no message")))
        }
        Err(_) => Outcome::Failed(format!("does not end within {MAX_TIME:?}")),
    }
}

/// Every file gives one outcome, whatever runs it: an error, or the same results to the last byte.
#[test]
fn random_experiments_give_the_same_bytes_on_all_threads_and_engines() {
    let (files, first) = (variable("WEIR_FILES", FILES), variable("WEIR_FIRST_SEED", 0));
    let generator = Generator::new();
    let (mut same, mut idle, mut packet_hops, mut failures) = (0, 0, 0, String::new());
    let mut refusals: BTreeMap<String, u64> = BTreeMap::new();
    for seed in first..first + files {
        match compare_in_time(seed) {
            Outcome::Same { packet_hops: hops } => {
                same += 1;
                idle += u64::from(hops == 0);
                packet_hops += hops;
            }
            Outcome::Refused(error) => *refusals.entry(without_numbers(&error)).or_default() += 1,
            Outcome::Failed(reason) => {
                let command = format!(
                    "WEIR_FIRST_SEED={seed} WEIR_FILES=1 cargo test -p weir-sim --test it random_experiments_give"
                );
                let file = yaml(&generator.draw(seed));
                let failure = format!(
                    "seed {seed}: {reason}\n{file}(paths are relative to lab/sim/tests/it/random_experiments)\n{command}\n\n"
                );
                eprint!("{failure}");
                failures += &failure;
            }
        }
    }
    println!(
        "{files} files: {same} with the same results, {packet_hops} packet-hops, {idle} of them without any"
    );
    refusals.iter().for_each(|(error, count)| println!("{count} refused: {error}"));
    assert!(failures.is_empty(), "\n{failures}");
    // A single file may be one that is refused.
    if files >= FILES {
        assert!(same * 100 >= files * MIN_VALID, "only {same} of {files} files are valid: {refusals:#?}");
        assert!(idle * 20 <= same, "in {idle} of {same} files nothing happened");
    }
}

/// The files of the continuous integration have every scheme, every kind of topology, workload and fault, and every key.
#[test]
fn random_experiments_have_everything_that_files_can_have() {
    let generator = Generator::new();
    let mut actual = BTreeSet::new();
    let mut valid = 0;
    for seed in 0..FILES {
        let file = generator.draw(seed);
        if generator.parse(&file).is_ok() {
            valid += 1;
            coverage::add_actual("", &file, &mut actual);
        }
    }
    let missing: Vec<_> = coverage::possible(&generator).difference(&actual).cloned().collect();
    assert!(valid * 100 >= FILES * MIN_VALID, "{valid} of {FILES} files are valid");
    assert!(missing.is_empty(), "no valid file of {FILES} has {missing:#?}; see generator.rs");
}

#[test]
fn the_same_seed_gives_the_same_file() {
    let draw = |seed| yaml(&Generator::new().draw(seed));
    for seed in 0..20 {
        assert_eq!(draw(seed), draw(seed));
        assert_ne!(draw(seed), draw(seed + 1));
    }
}
