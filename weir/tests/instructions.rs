//! Instruction counts of one packet through one switch, for each program, and of 100 us of a dumbbell. Unlike times,
//! they do not depend on the machine's load. None may exceed the count in `weir/tests/instructions.txt` by more than 3
//! %:
//!
//! ```text
//! WEIR_RECORD_INSTRUCTIONS=1 cargo test --workspace --test instructions
//! ```
//!
//! updates the file, after a change that justifies more instructions or after an update of the compiler. The counts are
//! those of the test profile, with debug assertions. Needs Debian's valgrind, on x86-64.

// Prints the counts.
#![allow(clippy::print_stderr)]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};
use weir_testkit::harness;

const RECORDED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/instructions.txt");
const RECORD: &str = "WEIR_RECORD_INSTRUCTIONS";
/// Functions of `weir bench --counted`: the one whose instructions are counted, and the one at which callgrind dumps.
const COUNTED: &str = "*while_callgrind_counts*";
const DUMPED: &str = "*callgrind_writes*";
/// Maximum count in percent of the recorded count.
const LIMIT: u64 = 103;

fn main() -> ExitCode {
    let is_installed =
        Command::new("valgrind").arg("--version").output().is_ok_and(|output| output.status.success());
    let missing = match (cfg!(target_arch = "x86_64"), is_installed) {
        (true, true) => None,
        (true, false) => Some("needs Debian's valgrind".to_owned()),
        (false, _) => Some("the counts are those of x86-64".to_owned()),
    };
    harness::run(TESTS, missing)
}

const TESTS: &[harness::Test] =
    &[("packets_take_no_more_instructions_than_recorded", packets_take_no_more_instructions_than_recorded)];

fn packets_take_no_more_instructions_than_recorded() {
    let counts = count();
    if std::env::var_os(RECORD).is_some() {
        let lines = counts.iter().map(|(what, count)| format!("{what} {count}\n"));
        fs::write(RECORDED, lines.collect::<String>()).unwrap();
    }
    let recorded = fs::read_to_string(RECORDED).unwrap();
    let recorded: BTreeMap<&str, u64> = recorded
        .lines()
        .map(|line| {
            let (what, count) = line.rsplit_once(' ').expect("a name and a number");
            (what, count.parse().expect("a number"))
        })
        .collect();
    let what = |of: &BTreeMap<&str, u64>| of.keys().map(ToString::to_string).collect::<Vec<_>>();
    let counts: BTreeMap<&str, u64> = counts.iter().map(|(what, count)| (what.as_str(), *count)).collect();
    assert_eq!(what(&counts), what(&recorded), "what is counted has changed: set {RECORD}");
    let mut above = Vec::new();
    for (what, count) in counts {
        let recorded = recorded[what];
        let line = format!("{what}: {count} instructions, {recorded} recorded");
        eprintln!("{line}");
        if count * 100 > recorded * LIMIT {
            above.push(line);
        }
    }
    assert!(above.is_empty(), "more than 3 % above what {RECORDED} records: {above:#?}");
}

/// Returns the instructions of each kind of work.
fn count() -> Vec<(String, u64)> {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("counts");
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--combine-dumps=no"])
        .args([format!("--toggle-collect={COUNTED}"), format!("--dump-before={DUMPED}")])
        .arg(format!("--callgrind-out-file={}", out.display()))
        .args([env!("CARGO_BIN_EXE_weir"), "bench", "--counted"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let printed = String::from_utf8(output.stdout).unwrap();
    let mut parts: Vec<(String, u64, u64)> = (1..)
        .zip(printed.lines())
        .map(|(part, line)| {
            let (what, by) = line.rsplit_once(' ').expect("a name and a number");
            (
                what.to_owned(),
                by.parse().expect("a number"),
                instructions(&out.with_extension(part.to_string())),
            )
        })
        .collect();
    // The last two counts are runs of the dumbbell; the second run is longer.
    let [Some(long), Some(short)] = [parts.pop(), parts.pop()] else { panic!("{printed}") };
    let mut counts: Vec<_> = parts.into_iter().map(|(what, by, count)| (what, count / by)).collect();
    counts.push(("dumbbell, a packet-hop".to_owned(), (long.2 - short.2) / (long.1 - short.1)));
    counts.push(("dumbbell, 100 us".to_owned(), long.2 - short.2));
    counts.sort();
    counts
}

/// Returns the number of instructions that callgrind has written to a file.
fn instructions(file: &Path) -> u64 {
    let text = fs::read_to_string(file).unwrap();
    let total =
        text.lines().find_map(|line| line.strip_prefix("summary: ").or(line.strip_prefix("totals: ")));
    let total = total.unwrap_or_else(|| panic!("{text}")).trim().parse().unwrap();
    assert!(total > 0, "no function matches {COUNTED}");
    total
}
