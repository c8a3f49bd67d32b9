//! A test runner for tests that need something the machine may lack, such as privileges. If it is missing, the runner
//! reports the tests as ignored, in the output format of Rust's test harness.

#![allow(clippy::print_stdout)]

use std::panic::catch_unwind;
use std::process::ExitCode;

/// Name and function of a test.
pub type Test = (&'static str, fn());

/// Runs the tests whose names contain the first argument that is not an option, except those whose names contain the
/// value of a `--skip` option. If `missing` is set, all tests are reported as ignored for that reason.
pub fn run(tests: &[Test], missing: Option<String>) -> ExitCode {
    let (mut filter, mut skipped) = (None, Vec::new());
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--skip" => skipped.extend(arguments.next()),
            option if option.starts_with('-') => {}
            _ => filter = filter.or(Some(argument)),
        }
    }
    let filter = filter.unwrap_or_default();
    let is_selected =
        |name: &str| name.contains(&filter) && !skipped.iter().any(|skipped| name.contains(skipped));
    let selected: Vec<_> = tests.iter().filter(|(name, _)| is_selected(name)).collect();
    println!("\nrunning {} tests", selected.len());
    let (mut passed, mut failed, mut ignored) = (0, 0, 0);
    for (name, test) in &selected {
        if let Some(reason) = &missing {
            println!("test {name} ... ignored, {reason}");
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
    let filtered = tests.len() - selected.len();
    println!(
        "\ntest result: {verdict}. {passed} passed; {failed} failed; {ignored} ignored; 0 measured; \
         {filtered} filtered out\n"
    );
    ExitCode::from(u8::from(failed > 0))
}
