//! Parses a test line by line. The [parent module](super) describes the language.

use super::ast::{
    Action, Bucket, Cell, Check, Command, CounterUnit, Entry, EntryAction, Handle, KeyValue, Pattern,
    Statement,
};
use super::error::PositionedError;
use super::lexer::{LineLexer, Name};
use crate::tm::Rate;
use weir_units::{Bandwidth, Time};

/// Returns all statements of a test, or the first error.
pub(super) fn parse(text: &str) -> Result<Vec<Statement>, PositionedError> {
    let mut statements = Vec::new();
    for (index, text) in text.lines().enumerate() {
        let mut line = LineLexer::new(text, index + 1);
        if line.is_done() {
            continue;
        }
        let position = line.position();
        let word = line.name("a command")?.text.to_ascii_lowercase();
        let command = match command(&word, &mut line) {
            Some(command) => command?,
            None => {
                let message = format!("there is no command {word:?}; the commands are {COMMANDS}");
                return Err((position, message));
            }
        };
        line.end()?;
        statements.push(Statement { position, command });
    }
    Ok(statements)
}

/// All commands, for the error message.
const COMMANDS: &str = "packet, expect, no_packet, add, setdefault, remove, check_counter, counter_read, \
    counter_write, register_read, register_check, register_write, register_reset, meter_get_rates, \
    meter_set_rates, meter_array_set_rates, mirroring_add, mirroring_add_mc, mirroring_delete, \
    mirroring_get, mc_mgrp_create, mc_node_create, mc_node_update, mc_node_associate, act_prof_create_member, \
    act_prof_modify_member, act_prof_delete_member, act_prof_create_group, act_prof_delete_group, \
    act_prof_add_member_to_group, act_prof_remove_member_from_group, wait, time, queue_rate and queue_depth";

/// Parses the arguments of a command; `None` for an unknown command.
fn command(word: &str, line: &mut LineLexer<'_>) -> Option<Result<Command, PositionedError>> {
    Some(match word {
        "packet" => packet(line),
        "expect" => expect(line),
        "no_packet" => optional(line, |line| line.integer("a port")).map(|port| Command::NoPacket { port }),
        "add" => add(line).map(Command::Add),
        "setdefault" => set_default(line),
        "remove" => remove(line),
        "wait" => Ok(Command::Wait),
        "time" => time(line),
        "queue_rate" => queue_rate(line),
        "queue_depth" => queue_depth(line),
        _ if word.contains("counter") => return counter(word, line),
        _ if word.starts_with("register_") => return register(word, line),
        _ if word.starts_with("meter_") => return meter(word, line),
        _ if word.starts_with("act_prof_") => return profile(word, line),
        _ => return replication(word, line),
    })
}

/// Parses an optional argument at the end of a line.
fn optional<T>(
    line: &mut LineLexer<'_>,
    read: impl FnOnce(&mut LineLexer<'_>) -> Result<T, PositionedError>,
) -> Result<Option<T>, PositionedError> {
    if line.is_done() { Ok(None) } else { read(line).map(Some) }
}

fn packet(line: &mut LineLexer<'_>) -> Result<Command, PositionedError> {
    let port = line.integer("the packet's ingress port")?;
    if line.is_done() {
        return Err(line.error("the bytes of the packet are expected, like 00AA BB01"));
    }
    let (start, mut nibbles) = (line.position(), Vec::new());
    while let Some(c) = line.peek() {
        let Some(digit) = c.to_digit(16) else {
            return Err(line.error(format!("`{c}` is not a digit of a packet; write hex digits, 0 to F")));
        };
        nibbles.push(digit as u8);
        line.consume(c.encode_utf8(&mut [0; 4]));
    }
    if nibbles.len() % 2 != 0 {
        let message =
            format!("a packet is whole bytes, but this has {} hex digits; add or remove one", nibbles.len());
        return Err((start, message));
    }
    let bytes = nibbles.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect();
    Ok(Command::Packet { port, bytes })
}

fn expect(line: &mut LineLexer<'_>) -> Result<Command, PositionedError> {
    let port = line.integer("the port a packet is expected at")?;
    if line.is_done() {
        return Ok(Command::Expect { port, frame: None });
    }
    let mut nibbles = Vec::new();
    while let Some(c) = line.peek() {
        match c {
            '*' => nibbles.push(None),
            '$' => break,
            _ => match c.to_digit(16) {
                Some(digit) => nibbles.push(Some(digit as u8)),
                None => {
                    let message = format!(
                        "`{c}` is not a digit of a packet; write 0 to F, * for any digit, $ for its end"
                    );
                    return Err(line.error(message));
                }
            },
        }
        line.consume(c.encode_utf8(&mut [0; 4]));
    }
    let is_exact = line.consume("$");
    Ok(Command::Expect { port, frame: Some(Pattern { nibbles, is_exact }) })
}

fn add(line: &mut LineLexer<'_>) -> Result<Entry, PositionedError> {
    let table = line.name("the name of a table")?;
    let priority = if line.next_is_number() { Some(line.integer("a priority")?) } else { None };
    let mut key = Vec::new();
    loop {
        let name = line.name("a key like hdr.ipv4.dst:0x0a000001, or an action like drop(),")?;
        if line.consume(":") {
            key.push((name, key_value(line)?));
        } else if line.consume("(") {
            let action = entry_action(name, line)?;
            let alias = if line.consume("=") { Some(line.name("a name for the entry")?.text) } else { None };
            return Ok(Entry { table, priority, key, action, alias });
        } else {
            return Err(
                line.error("expected `:` and a value after a key, or `(` and arguments after an action")
            );
        }
    }
}

fn key_value(line: &mut LineLexer<'_>) -> Result<KeyValue, PositionedError> {
    let value = line.number("the value of a key")?;
    if line.consume("/") {
        Ok(KeyValue::Prefix { value, len: line.integer("a prefix length")? })
    } else if line.consume("..") {
        Ok(KeyValue::Range { low: value, high: line.number("the end of a range")? })
    } else {
        Ok(KeyValue::Value(value))
    }
}

/// Parses what follows the `(` of an entry's action: the arguments of an action, or the number of a member or group.
fn entry_action(name: Name, line: &mut LineLexer<'_>) -> Result<EntryAction, PositionedError> {
    // Arguments of an action have names, so `member(0)` cannot be an action.
    let number = match name.text.as_str() {
        "member" if line.next_is_number() => EntryAction::Member(handle(line, "a member")?),
        "group" if line.next_is_number() => EntryAction::Group(handle(line, "a group")?),
        _ => return action(name, line).map(EntryAction::Action),
    };
    line.expect(")", "after the number")?;
    Ok(number)
}

fn handle(line: &mut LineLexer<'_>, what: &str) -> Result<Handle, PositionedError> {
    let position = line.position();
    Ok(Handle { number: line.integer(&format!("{what}, counted from 0,"))?, position })
}

/// Parses the arguments of an action, after the `(`.
fn action(name: Name, line: &mut LineLexer<'_>) -> Result<Action, PositionedError> {
    let mut args = Vec::new();
    while !line.consume(")") {
        if !args.is_empty() {
            line.expect(",", "between arguments, or `)` after the last")?;
        }
        let arg = line.name("an argument like port:3, or `)`,")?;
        line.expect(":", "between an argument's name and its value")?;
        args.push((arg, line.number("the value of an argument")?));
    }
    Ok(Action { name, args })
}

fn set_default(line: &mut LineLexer<'_>) -> Result<Command, PositionedError> {
    let table = line.name("the name of a table")?;
    let name = line.name("an action like drop()")?;
    line.expect("(", "after the name of an action")?;
    Ok(Command::SetDefault { table, action: entry_action(name, line)? })
}

/// Parses a command for an action profile. They are named as in simple_switch_CLI.
fn profile(word: &str, line: &mut LineLexer<'_>) -> Option<Result<Command, PositionedError>> {
    let profile = |line: &mut LineLexer<'_>| line.name("the name of an action profile");
    let call = |line: &mut LineLexer<'_>| {
        let name = line.name("an action like via(port:2)")?;
        line.expect("(", "after the name of an action")?;
        action(name, line)
    };
    Some(match word {
        "act_prof_create_member" => {
            (|| Ok(Command::MemberCreate { profile: profile(line)?, action: call(line)? }))()
        }
        "act_prof_modify_member" => (|| {
            let (profile, member) = (profile(line)?, handle(line, "a member")?);
            Ok(Command::MemberModify { profile, member, action: call(line)? })
        })(),
        "act_prof_delete_member" => {
            (|| Ok(Command::MemberDelete { profile: profile(line)?, member: handle(line, "a member")? }))()
        }
        "act_prof_create_group" => profile(line).map(|profile| Command::ProfileGroupCreate { profile }),
        "act_prof_delete_group" => {
            (|| Ok(Command::ProfileGroupDelete { profile: profile(line)?, group: handle(line, "a group")? }))(
            )
        }
        "act_prof_add_member_to_group" | "act_prof_remove_member_from_group" => (|| {
            let profile = profile(line)?;
            let (member, group) = (handle(line, "a member")?, handle(line, "a group")?);
            Ok(match word {
                "act_prof_add_member_to_group" => Command::ProfileGroupAdd { profile, member, group },
                _ => Command::ProfileGroupRemove { profile, member, group },
            })
        })(),
        _ => return None,
    })
}

fn remove(line: &mut LineLexer<'_>) -> Result<Command, PositionedError> {
    let (position, word) = (line.position(), line.word());
    if word.is_some_and(|word| word.eq_ignore_ascii_case("all")) {
        return Ok(Command::RemoveAll);
    }
    Err((position, "only `remove all` is known: it removes every entry this test added".to_owned()))
}

fn time(line: &mut LineLexer<'_>) -> Result<Command, PositionedError> {
    let position = line.position();
    let Some(word) = line.word() else {
        return Err(line.error("a time is expected here, like 1.5us"));
    };
    word.parse::<Time>().map(Command::Advance).map_err(|error| (position, error.to_string()))
}

fn queue_rate(line: &mut LineLexer<'_>) -> Result<Command, PositionedError> {
    let position = line.position();
    let Some(word) = line.word() else {
        return Err(line.error("a rate is expected here: packets per second, or bits like 10Mbps"));
    };
    let rate = match word.parse::<u64>() {
        Ok(pps) => Rate::Packets(pps),
        Err(_) => match word.parse::<Bandwidth>() {
            Ok(rate) if rate > Bandwidth::ZERO => Rate::Bits(rate),
            Ok(_) => {
                return Err((
                    position,
                    "a rate of 0 sends nothing; write 0 without a unit for an unlimited rate".to_owned(),
                ));
            }
            Err(error) => return Err((position, format!("{error}, or packets per second without a unit"))),
        },
    };
    let port = optional(line, |line| line.integer("a port"))?;
    let priority = optional(line, |line| line.integer("a priority"))?;
    Ok(Command::QueueRate { rate, port, priority })
}

fn queue_depth(line: &mut LineLexer<'_>) -> Result<Command, PositionedError> {
    let packets = line.integer("a number of packets")?;
    Ok(Command::QueueDepth { packets, port: optional(line, |line| line.integer("a port"))? })
}

fn counter(word: &str, line: &mut LineLexer<'_>) -> Option<Result<Command, PositionedError>> {
    Some(match word {
        "check_counter" => check_counter(line),
        "counter_read" => (|| {
            let (counter, cell) = (line.name("a counter")?, Cell::Index(line.integer("an index")?));
            Ok(Command::CheckCounter { counter, cell, check: None })
        })(),
        "counter_write" => (|| {
            Ok(Command::CounterWrite {
                counter: line.name("a counter")?,
                index: line.integer("an index")?,
                packets: line.integer("a number of packets")?,
                bytes: line.integer("a number of bytes")?,
            })
        })(),
        _ => return None,
    })
}

/// The relations of `check_counter`, longest first, so that `<=` is not parsed as `<`.
const RELATIONS: &[&str] = &["==", "!=", "<=", ">=", "<", ">"];

fn check_counter(line: &mut LineLexer<'_>) -> Result<Command, PositionedError> {
    let counter = line.name("the name of a counter")?;
    line.expect("(", "after the name of a counter")?;
    let cell = if line.next_is_number() {
        Cell::Index(line.integer("an index")?)
    } else {
        Cell::Alias(line.name("an index, or the name of an entry")?)
    };
    line.expect(")", "after the index")?;
    if line.is_done() {
        return Ok(Command::CheckCounter { counter, cell, check: None });
    }
    let (position, unit) = (line.position(), line.name("`packets` or `bytes`")?.text.to_ascii_lowercase());
    let unit = match unit.as_str() {
        "packets" => CounterUnit::Packets,
        "bytes" => CounterUnit::Bytes,
        _ => return Err((position, format!("unknown unit {unit:?}; write packets or bytes"))),
    };
    let Some(relation) = RELATIONS.iter().find(|relation| line.consume(relation)) else {
        return Err(line.error("a relation is expected here: ==, !=, <, <=, > or >="));
    };
    let check = Check { unit, relation, value: line.integer("a number")? };
    Ok(Command::CheckCounter { counter, cell, check: Some(check) })
}

fn register(word: &str, line: &mut LineLexer<'_>) -> Option<Result<Command, PositionedError>> {
    let cell = |line: &mut LineLexer<'_>| Ok((line.name("a register")?, line.integer("an index")?));
    Some(match word {
        "register_read" => cell(line).map(|(register, index)| Command::RegisterRead { register, index }),
        "register_check" | "register_write" => cell(line).and_then(|(register, index)| {
            let value = line.number("a value")?;
            Ok(match word {
                "register_check" => Command::RegisterCheck { register, index, value },
                _ => Command::RegisterWrite { register, index, value },
            })
        }),
        "register_reset" => line.name("a register").map(|register| Command::RegisterReset { register }),
        _ => return None,
    })
}

fn meter(word: &str, line: &mut LineLexer<'_>) -> Option<Result<Command, PositionedError>> {
    let has_index = match word {
        "meter_get_rates" | "meter_set_rates" => true,
        "meter_array_set_rates" => false,
        _ => return None,
    };
    Some((|| {
        let meter = line.name("a meter")?;
        let index = if has_index { Some(line.integer("an index")?) } else { None };
        match (word, index) {
            ("meter_get_rates", Some(index)) => Ok(Command::MeterRead { meter, index }),
            _ => Ok(Command::MeterSet { meter, index, committed: bucket(line)?, peak: bucket(line)? }),
        }
    })())
}

/// Parses `rate:burst`, the rate in units per microsecond as in simple_switch_CLI.
fn bucket(line: &mut LineLexer<'_>) -> Result<Bucket, PositionedError> {
    let position = line.position();
    let word = line.word().unwrap_or_default();
    let parts = word.split_once(':').and_then(|(rate, burst)| {
        let per_us = rate.parse().ok().filter(|rate: &f64| rate.is_finite() && *rate >= 0.0)?;
        Some(Bucket { per_us, burst: burst.parse().ok()? })
    });
    parts.ok_or((
        position,
        "a meter needs two rates, committed and peak, each as units_per_microsecond:burst, like 0.001:10"
            .to_owned(),
    ))
}

fn replication(word: &str, line: &mut LineLexer<'_>) -> Option<Result<Command, PositionedError>> {
    let session = |line: &mut LineLexer<'_>| line.integer("a clone session");
    let group = |line: &mut LineLexer<'_>| line.integer("a multicast group");
    Some(match word {
        "mirroring_add" => {
            (|| Ok(Command::MirrorAdd { session: session(line)?, port: line.integer("a port")? }))()
        }
        "mirroring_add_mc" => {
            (|| Ok(Command::MirrorAddGroup { session: session(line)?, group: group(line)? }))()
        }
        "mirroring_delete" => session(line).map(|session| Command::MirrorDelete { session }),
        "mirroring_get" => session(line).map(|session| Command::MirrorRead { session }),
        "mc_mgrp_create" => group(line).map(|group| Command::GroupCreate { group }),
        "mc_node_create" => (|| {
            let instance = line.integer("a replication id")?;
            Ok(Command::NodeCreate { instance, ports: ports(line)? })
        })(),
        "mc_node_update" => (|| {
            let node = line.integer("a node, counted from 0")?;
            Ok(Command::NodeUpdate { node, ports: ports(line)? })
        })(),
        "mc_node_associate" => (|| {
            let group = group(line)?;
            Ok(Command::NodeAssociate { group, node: line.integer("a node, counted from 0")? })
        })(),
        _ => return None,
    })
}

fn ports(line: &mut LineLexer<'_>) -> Result<Vec<u16>, PositionedError> {
    let mut ports = vec![line.integer("a port")?];
    while !line.is_done() {
        ports.push(line.integer("a port")?);
    }
    Ok(ports)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> (usize, usize, String) {
        let (position, message) = parse(text).unwrap_err();
        (position.line, position.column, message)
    }

    #[test]
    fn reads_the_language_of_p4c() {
        let text = "
            # p4c's own examples
            ADD test2 100 data.f2:0x04040404 c4_6(val4:0x4040, val5:0x5050, port:2)
            add tab1 dstAddr:0xa1a2a3a4a5a6 act(port:2) = A
            add test1 0 data.$valid:0b1 data.f1:0x****0101 setb1(val:0x7f, port:2)
            add route ipv4.dst:0x0a000000/8 via(port:1)
            setdefault ethertype_match l2_packet()
            expect 1 *1010101 03030303 0101$
            packet 0 01010101 03030303 9999 # a comment
            expect 5
            check_counter cntDum(10) packets == 2
            check_counter cntDum($A)
            wait
            mc_node_create 400 6 7 8
            meter_set_rates m 3 0.001:10 0.02:20
            no_packet";
        let statements = parse(text).unwrap();
        assert_eq!(statements.len(), 14);
        let Command::Add(entry) = &statements[2].command else { panic!() };
        let EntryAction::Action(action) = &entry.action else { panic!() };
        assert_eq!((entry.priority, entry.key.len(), action.args.len()), (Some(0), 2, 2));
        let Command::Expect { port: 1, frame: Some(pattern) } = &statements[5].command else { panic!() };
        assert_eq!((pattern.nibbles[0], pattern.nibbles[1], pattern.is_exact), (None, Some(1), true));
        assert!(matches!(&statements[6].command, Command::Packet { port: 0, bytes } if bytes.len() == 10));
    }

    #[test]
    fn a_truncated_line_is_one_clear_error() {
        let whole = "add t 10 h.f:0x1 h.g:0x2/8 act(a:1, b:2)";
        for end in 1..whole.len() {
            // A line may end where a prefix length or a word merely got shorter.
            let Err((position, message)) = parse(&whole[..end]) else { continue };
            assert_eq!(position.line, 1, "{message}");
            assert!(position.column <= end + 1 && message.len() > 20, "{end}: {message}");
        }
        assert_eq!(
            error("\n\npacket"),
            (
                3,
                7,
                "the line ends too early: the packet's ingress port is expected here, like 7, 0x1f or 0b101"
                    .into()
            )
        );
        assert!(error("packet 0").2.starts_with("the line ends too early: the bytes"));
        assert_eq!((error("packet 0 ABC").0, error("packet 0 ABC").1), (1, 10));
        assert!(error("packet 0 ABC").2.contains("3 hex digits"));
        assert!(error("packet 0 0G").2.contains("`G` is not a digit"));
        assert!(error("add t h.f:0x1").2.contains("or an action like drop()"));
        assert!(error("add t h.f:0x1 act(port:1").2.contains("`,` is missing between arguments"));
        assert!(error("expect 1 AA $ BB").2.contains("unexpected"));
        assert!(error("pakcet 0 AA").2.contains("no command \"pakcet\""));
        assert!(error("time 5").2.contains("has no unit"));
        assert!(error("remove t").2.contains("remove all"));
        assert!(error("meter_set_rates m 0 1:2").2.contains("two rates"));
    }
}
