//! A trace as text: one line for each thing that happened, indented below what it belongs to.

use super::packet_trace::{Event, PacketTrace, Value};
use crate::pipeline::{EgressVerdict, Verdict};
use std::fmt;

/// Bytes in a row of a hex dump.
const ROW: usize = 16;

fn hex(bytes: &[u8]) -> String {
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("0x{digits}")
}

fn list(values: &[Value], between: &str) -> String {
    let values: Vec<String> =
        values.iter().map(|value| format!("{}={}", value.name, hex(&value.bytes))).collect();
    values.join(between)
}

fn write_bytes(f: &mut fmt::Formatter<'_>, bytes: &[u8], virtual_len: u32) -> fmt::Result {
    for (row, bytes) in bytes.chunks(ROW).enumerate() {
        let bytes: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        writeln!(f, "    {:04x}  {}", row * ROW, bytes.join(" "))?;
    }
    match virtual_len {
        0 => Ok(()),
        n => writeln!(f, "    and {n} bytes that are only counted"),
    }
}

/// "1 packet", "2 packets".
fn count(n: u32, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Arrived { port, bytes, virtual_len } => {
                let len = bytes.len() as u32 + virtual_len;
                writeln!(f, "arrives at port {port}: {}", count(len, "byte"))?;
                write_bytes(f, bytes, *virtual_len)
            }
            Event::Again => writeln!(f, "begins ingress again"),
            Event::State(state) => writeln!(f, "  parser state {state}"),
            Event::Extracted { header, offset, fields } => {
                writeln!(f, "    {header} at byte {offset}: {}", list(fields, " "))
            }
            Event::ParserError(error) => writeln!(f, "    parser error {error}"),
            Event::Checksum { name, correct } => {
                writeln!(f, "  checksum {name} is {}", if *correct { "right" } else { "wrong" })
            }
            Event::Table { name, hidden, key, entry, action } => {
                let does = match action {
                    Some((action, args)) => format!("{action}({})", list(args, ", ")),
                    None => "no action".to_owned(),
                };
                let found = match entry {
                    Some(entry) => format!("hit, entry {entry}"),
                    None => "miss".to_owned(),
                };
                match hidden {
                    true => writeln!(f, "  {does}"),
                    false if key.is_empty() => writeln!(f, "  table {name}: {does}"),
                    false => writeln!(f, "  table {name}: {} {found}: {does}", list(key, " ")),
                }
            }
            Event::Condition { name, result } => writeln!(f, "  if {name}: {result}"),
            Event::Changed { field, old, new } => writeln!(f, "    {field}: {} -> {}", hex(old), hex(new)),
            Event::Log(message) => writeln!(f, "    log: {message}"),
            Event::AssertionFailed(action) => writeln!(f, "    an assertion failed in {action}"),
            Event::Ingress(verdict) => match verdict {
                Verdict::Drop => writeln!(f, "ingress drops it"),
                Verdict::Unicast { port, priority } => {
                    writeln!(f, "ingress sends it to port {port} with priority {priority}")
                }
                Verdict::Multicast { group, priority } => {
                    writeln!(f, "ingress sends it to multicast group {group} with priority {priority}")
                }
                Verdict::Resubmit => writeln!(f, "ingress resubmits it"),
            },
            Event::Cloned(session) => writeln!(f, "a clone goes to session {session}"),
            Event::Queued { port, priority, instance, depth } => {
                let copy = if *instance == 0 { String::new() } else { format!(" as copy {instance}") };
                let ahead = count(*depth, "packet");
                writeln!(f, "queued at port {port}, priority {priority}{copy}, behind {ahead}")
            }
            Event::Dequeued { meta, waited } => {
                let left = count(meta.deq_qdepth, "packet");
                writeln!(f, "begins egress at port {}: waited {waited}, leaves {left} behind", meta.port)
            }
            Event::Egress(verdict) => match verdict {
                EgressVerdict::Send => writeln!(f, "egress sends it"),
                EgressVerdict::Drop => writeln!(f, "egress drops it"),
                EgressVerdict::Recirculate => writeln!(f, "egress recirculates it"),
            },
            Event::Emitted { header, len } => writeln!(f, "  emits {header}: {}", count(*len as u32, "byte")),
            Event::Sent { port, bytes, virtual_len } => {
                let len = bytes.len() as u32 + virtual_len;
                writeln!(f, "leaves by port {port}: {}", count(len, "byte"))?;
                write_bytes(f, bytes, *virtual_len)
            }
            Event::Dropped(reason) => writeln!(f, "dropped: {}", reason.name()),
        }
    }
}

impl fmt::Display for PacketTrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.events().iter().try_for_each(|event| event.fmt(f))
    }
}
