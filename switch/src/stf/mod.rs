//! Packet tests in p4c's STF language on the embedded switch, without root privileges, sockets or a clock.
//!
//! A test is a text file with one command per line; `#` starts a comment. The commands are those of p4c
//! (tools/stf and backends/bmv2/bmv2stf.py), so that its tests run unchanged:
//!
//! | command | meaning |
//! |---|---|
//! | `packet P 00AA..` | a packet with these bytes arrives at port P |
//! | `expect P 00A*..` | the next frame at port P begins with these bytes; `*` is any digit; `$` at the end: no further bytes; without bytes: any frame |
//! | `no_packet [P]` | no unexpected frame leaves (at port P) |
//! | `add T [prio] key:value.. A(arg:value, ..) [= name]` | adds an entry; larger priorities win |
//! | `setdefault T A(..)`, `remove all` | default action; removes all added entries |
//! | `check_counter C(i) packets == 1` | compares a counter: `==`, `!=`, `<`, `<=`, `>`, `>=`; `C($name)` is the direct counter of an entry |
//! | `counter_read`, `counter_write C i packets bytes` | as in simple_switch_CLI |
//! | `register_read`, `register_write R i v`, `register_reset R` | likewise |
//! | `meter_get_rates`, `meter_set_rates M i rate:burst rate:burst`, `meter_array_set_rates` | likewise, units per microsecond |
//! | `mirroring_add S P`, `mirroring_add_mc S G`, `mirroring_delete S`, `mirroring_get S` | clone sessions |
//! | `mc_mgrp_create G`, `mc_node_create rid P..`, `mc_node_update N P..`, `mc_node_associate G N` | multicast; nodes count from 0 |
//! | `act_prof_create_member A action(..)`, `act_prof_create_group A`, `act_prof_add_member_to_group A M G`, .. | members and groups of action profile A, counted from 0; the action of an entry is then `member(M)` or `group(G)` |
//! | `wait` | no effect: all consequences of a packet precede the next line |
//!
//! Values are decimal, `0x` or `0b`; the latter two take `*` for digits that do not matter (ternary keys,
//! the end of a prefix, registers). A prefix may also be `value/length`, a range `low..high`. A value
//! without `*` matches all bits of its field; omitted leading digits are 0.
//! A table, action or key may be named by a suffix of its name that is unique.
//!
//! Extensions of p4c's language:
//!
//! | command | meaning |
//! |---|---|
//! | `time 1.5us` | advances the switch's clock, which starts at 0 and counts nanoseconds; nothing else advances it |
//! | `register_check R i v` | compares a register |
//! | `queue_rate N [P [prio]]` | packets per second (or `10Mbps`) of all ports, one port, one queue; 0 is unlimited |
//! | `queue_depth N [P]` | at most N packets in each queue |
//!
//! The switch has ports 0 to 510. As in p4c, a port that no line names may send any frames, unless `no_packet`
//! forbids it. At the end of the test, all queued packets are sent, and the frames of each port are compared with
//! the expected ones, in order.

#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc)]

mod ast;
mod error;
mod lexer;
mod names;
mod outcome;
mod parse;
mod profiles;
mod run;

pub use ast::Pattern;
pub use error::StfError;
pub use outcome::{Failure, FailureKind, ReceivedFrame, TestOutcome};

use crate::pipeline::NoTrace;
use crate::program::Program;
use crate::trace::PacketTrace;
use std::sync::Arc;

/// Runs the test `text` on a new switch with `program`. `file` is the name in errors. A failing test is run
/// again with a trace, which uses the interpreter; the reported frames and values are those of the program's
/// engine.
///
/// # Errors
///
/// The test cannot be parsed, or a command names an object that the program does not have. A failed
/// expectation is no error: see [`TestOutcome::passed`].
pub fn run(program: Arc<Program>, text: &str, file: &str) -> Result<TestOutcome, StfError> {
    let outcome = run_traced::<NoTrace>(program.clone(), text, file)?;
    if outcome.passed() {
        return Ok(outcome);
    }
    Ok(outcome.explain(trace(program, text, file)?))
}

/// Same as [`run`], and records the path of every packet.
///
/// # Errors
///
/// See [`run`].
pub fn trace(program: Arc<Program>, text: &str, file: &str) -> Result<TestOutcome, StfError> {
    run_traced::<PacketTrace>(program, text, file)
}

fn run_traced<T: run::TestTracer>(
    program: Arc<Program>,
    text: &str,
    file: &str,
) -> Result<TestOutcome, StfError> {
    let outcome = || {
        let statements = parse::parse(text)?;
        let mut runner = run::Runner::<T>::new(program)?;
        for statement in statements {
            runner.execute(statement)?;
        }
        Ok(runner.finish())
    };
    outcome().map_err(|error| StfError::new(file, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a packet and explains its failure with the trace of another one, as if the engines differed. Returns the
    /// report.
    fn report(packet: &str, traced: &str) -> String {
        let program = Program::from_json(include_str!("../../tests/programs/reorder.json")).unwrap();
        let text = |packet: &str| format!("packet 1 {packet}\nexpect 3 05112233 0005 4455 99$");
        let outcome = run_traced::<NoTrace>(Arc::clone(&program), &text(packet), "x.stf").unwrap();
        assert!(!outcome.passed() && outcome.traces.is_empty());
        let outcome = outcome.explain(trace(program, &text(traced), "x.stf").unwrap());
        assert!(!outcome.passed() && outcome.traces.len() == 1);
        outcome.to_string()
    }

    #[test]
    fn a_failure_has_the_bytes_of_the_engine_that_ran() {
        let packet = "0005 aa112233 4455 66";
        let same = report(packet, packet);
        assert!(same.contains("received 05 11 22 33 00 05 44 55 66"), "{same}");
        assert!(
            same.contains("differs at byte 8, in the payload") && !same.contains("interpreter"),
            "{same}"
        );
        let in_header = report("0005 aa112233 4466 99", "0005 aa112233 4466 99");
        assert!(in_header.contains("differs at byte 7: byte 1 of header third"), "{in_header}");
        let others = [("0005 aa112233 4455 77", "fails in another way"), ("0005 aa112233 4455 99", "passes")];
        for (traced, result) in others {
            let report = report(packet, traced);
            assert!(report.contains("received 05 11 22 33 00 05 44 55 66"), "{report}");
            assert!(
                report.contains("differs at byte 8\n"),
                "the headers of the interpreter do not apply: {report}"
            );
            assert!(report.contains("the interpreter") && report.contains(result), "{report}");
        }
    }
}
