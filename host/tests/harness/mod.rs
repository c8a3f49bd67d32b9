//! Runs tests that need something this machine may not have, and counts them as ignored if so, in
//! the words of Rust's own test harness.

#![allow(clippy::print_stdout)]

use std::panic::catch_unwind;
use std::process::ExitCode;

/// A test and its name.
pub type Test = (&'static str, fn());

/// Runs the tests whose names contain the first argument that is no option. `missing` says why none
/// can run here.
pub fn run(tests: &[Test], missing: Option<String>) -> ExitCode {
    let filter = std::env::args().skip(1).find(|arg| !arg.starts_with('-')).unwrap_or_default();
    let chosen: Vec<_> = tests.iter().filter(|(name, _)| name.contains(&filter)).collect();
    println!("\nrunning {} tests", chosen.len());
    let (mut passed, mut failed, mut ignored) = (0, 0, 0);
    for (name, test) in &chosen {
        if let Some(why) = &missing {
            println!("test {name} ... ignored, {why}");
            ignored += 1;
        } else if catch_unwind(test).is_ok() {
            println!("test {name} ... ok");
            passed += 1;
        } else {
            println!("test {name} ... FAILED");
            failed += 1;
        }
    }
    let verdict = if failed == 0 { "ok" } else { "FAILED" };
    let out = tests.len() - chosen.len();
    println!(
        "\ntest result: {verdict}. {passed} passed; {failed} failed; {ignored} ignored; 0 measured; {out} filtered \
         out\n"
    );
    ExitCode::from(u8::from(failed > 0))
}
