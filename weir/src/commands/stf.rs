//! `weir stf`: runs packet tests on a compiled P4 program.

use super::files::read;
use super::program::{Engine, load_program};
use crate::console::{Console, Failure};
use crate::output::QueryOutput;
use serde_json::{Value, json};
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use weir_switch::stf::{self, FailureKind, TestOutcome};

/// Run packet tests (STF) on a compiled P4 program
///
/// A test lists the packets that are sent and expected, and the table entries, in the language of p4c's STF
/// tests (docs/stf.md). It runs on the embedded switch, without root or BMv2.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weir stf p4src/build/fncc.json p4src/tests/fncc/*.stf
  weir stf build/basic.json basic.stf

Exit status: 0 all tests passed; 1 a test failed; 2 the program or a test is invalid.")]
pub(super) struct Args {
    /// Program compiled by p4c-bm2-ss (BMv2 JSON)
    #[arg(value_name = "PROGRAM.json")]
    program: PathBuf,

    /// STF files
    #[arg(required = true, value_name = "TEST.stf")]
    tests: Vec<PathBuf>,

    /// Print only failures and totals
    #[arg(long, short)]
    quiet: bool,

    /// Execution engine of the program; does not affect results
    #[arg(long, value_enum, value_name = "ENGINE", default_value_t)]
    engine: Engine,

    #[command(flatten)]
    output: QueryOutput,
}

pub(super) fn run(args: &Args, console: &mut Console) -> Result<(), Failure> {
    console.style(args.output);
    let program = load_program(&args.program, args.engine)?;
    let (mut failed, mut tests) = (0, Vec::new());
    for test in &args.tests {
        let name = test.display().to_string();
        let outcome = stf::run(Arc::clone(&program), &read(test)?, &name).map_err(Failure::input)?;
        failed += usize::from(!outcome.passed());
        if console.style.json {
            tests.push(test_json(&name, &outcome));
        } else if !args.quiet || !outcome.passed() {
            print(args, &name, &outcome, console)?;
        }
    }
    let passed = args.tests.len() - failed;
    if console.style.json {
        let program = &args.program;
        console
            .print_json(&json!({"program": program, "passed": passed, "failed": failed, "tests": tests}))?;
    } else {
        writeln!(console.out, "{}: {passed} passed, {failed} failed", args.program.display())?;
    }
    if failed > 0 {
        Err(Failure::Work(format!("{failed} of {} tests failed", args.tests.len())))
    } else {
        Ok(())
    }
}

fn test_json(name: &str, outcome: &TestOutcome) -> Value {
    let failure_json = |failure: &stf::Failure| json!({"what": failure.to_string(), "packet": packet_to_trace(failure, outcome)});
    let failures: Vec<Value> = outcome.failures.iter().map(failure_json).collect();
    json!({"test": name, "passed": outcome.passed(), "notes": outcome.notes, "failures": failures})
}

fn print(args: &Args, name: &str, outcome: &TestOutcome, console: &mut Console) -> Result<(), Failure> {
    let verdict = if outcome.passed() { "ok    " } else { "FAILED" };
    writeln!(console.out, "{verdict} {name}")?;
    for note in &outcome.notes {
        writeln!(console.out, "       {note}")?;
    }
    for failure in &outcome.failures {
        for line in failure.to_string().lines() {
            writeln!(console.out, "       {line}")?;
        }
        if let Some(packet) = packet_to_trace(failure, outcome) {
            let program = args.program.display();
            writeln!(console.out, "       see: weir trace {program} --stf {name} --packet {packet}")?;
        }
    }
    Ok(())
}

/// Returns the number, from 1, of the packet whose trace explains a failure: the last packet injected before
/// it.
fn packet_to_trace(failure: &stf::Failure, outcome: &TestOutcome) -> Option<usize> {
    let last_line = match &failure.kind {
        FailureKind::Differs { received, .. } | FailureKind::Unexpected { received, .. } => {
            received.packet_line
        }
        FailureKind::Missing { .. } | FailureKind::Value(_) | FailureKind::Assertion(_) => failure.line,
    };
    outcome.traces.iter().rposition(|(line, _)| *line <= last_line).map(|index| index + 1)
}
