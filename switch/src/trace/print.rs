//! Formats a trace as text: one line per step, indented below the step to which it belongs.

use super::packet_trace::{Event, NamedValue, PacketTrace};
use crate::pipeline::{EgressVerdict, IngressVerdict};
use crate::program::SourceLocation;
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Number of bytes per row of a hex dump.
const ROW_BYTES: usize = 16;

fn hex(bytes: &[u8]) -> String {
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("0x{digits}")
}

/// Formats a value: as an address if the field's name suggests one, otherwise in hexadecimal.
fn format_value(name: &str, bytes: &[u8]) -> String {
    let name = name.rsplit('.').next().unwrap_or(name).to_ascii_lowercase();
    let is_address = name.contains("addr") || name.contains("mac") || name.ends_with("ip");
    match bytes {
        &[a, b, c, d] if is_address => Ipv4Addr::new(a, b, c, d).to_string(),
        bytes if is_address && bytes.len() == 6 => {
            bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(":")
        }
        bytes => match <[u8; 16]>::try_from(bytes) {
            Ok(bytes) if is_address => Ipv6Addr::from(bytes).to_string(),
            _ => hex(bytes),
        },
    }
}

fn format_list(values: &[NamedValue], separator: &str) -> String {
    let values: Vec<String> = values
        .iter()
        .map(|value| format!("{}={}", value.name, format_value(&value.name, &value.bytes)))
        .collect();
    values.join(separator)
}

/// Formats file and line as a comment, for a step whose source text is printed already.
fn file_and_line(location: &Option<SourceLocation>) -> String {
    location.as_ref().map_or(String::new(), |location| format!("    // {}:{}", location.file, location.line))
}

/// Formats file, line and source text as a comment.
fn source_comment(location: &Option<SourceLocation>) -> String {
    location.as_ref().map_or(String::new(), |location| format!("    // {location}"))
}

fn write_bytes(f: &mut fmt::Formatter<'_>, bytes: &[u8], virtual_len: u32) -> fmt::Result {
    for (row, bytes) in bytes.chunks(ROW_BYTES).enumerate() {
        let bytes: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        writeln!(f, "    {:04x}  {}", row * ROW_BYTES, bytes.join(" "))?;
    }
    match virtual_len {
        0 => Ok(()),
        n => writeln!(f, "    plus {n} bytes of virtual payload"),
    }
}

/// Formats "1 packet" or "2 packets".
fn plural(n: u32, noun: &str) -> String {
    format!("{n} {noun}{}", if n == 1 { "" } else { "s" })
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Arrived { port, bytes, virtual_len } => {
                let len = bytes.len() as u32 + virtual_len;
                writeln!(f, "arrives at port {port}: {}", plural(len, "byte"))?;
                write_bytes(f, bytes, *virtual_len)
            }
            Event::Reentered => writeln!(f, "begins ingress again"),
            Event::State(state) => writeln!(f, "  parser state {state}"),
            Event::Extracted { header, offset, fields } => {
                writeln!(f, "    {header} at byte {offset}: {}", format_list(fields, " "))
            }
            Event::ParserError(error) => writeln!(f, "    parser error {error}"),
            Event::Checksum { name, correct } => {
                writeln!(f, "  checksum {name} is {}", if *correct { "right" } else { "wrong" })
            }
            Event::Table { name, hidden, key, entry, action, location } => {
                let call = match action {
                    Some((action, args)) => format!("{action}({})", format_list(args, ", ")),
                    None => "no action".to_owned(),
                };
                let lookup = match entry {
                    Some(entry) => format!("hit, entry {entry}"),
                    None => "miss".to_owned(),
                };
                match hidden {
                    true => writeln!(f, "  {call}"),
                    false if key.is_empty() => {
                        writeln!(f, "  table {name}: {call}{}", file_and_line(location))
                    }
                    false => writeln!(
                        f,
                        "  table {name}: {} {lookup}: {call}{}",
                        format_list(key, " "),
                        file_and_line(location)
                    ),
                }
            }
            Event::Condition { name, result, location: None } => writeln!(f, "  if {name}: {result}"),
            Event::Condition { result, location: location @ Some(source), .. } => {
                writeln!(f, "  if {}: {result}{}", source.text, file_and_line(location))
            }
            Event::Changed { field, old, new, location } => {
                writeln!(
                    f,
                    "    {field}: {} -> {}{}",
                    format_value(field, old),
                    format_value(field, new),
                    source_comment(location)
                )
            }
            Event::Log(message) => writeln!(f, "    log: {message}"),
            Event::AssertionFailed(text) => writeln!(f, "    assertion failed: {text}"),
            Event::Ingress(verdict) => match verdict {
                IngressVerdict::Drop => writeln!(f, "ingress drops it"),
                IngressVerdict::Unicast { port, priority } => {
                    writeln!(f, "ingress sends it to port {port} with priority {priority}")
                }
                IngressVerdict::Multicast { group, priority } => {
                    writeln!(f, "ingress sends it to multicast group {group} with priority {priority}")
                }
                IngressVerdict::Resubmit => writeln!(f, "ingress resubmits it"),
                IngressVerdict::Abort(_) => writeln!(f, "ingress does not end"),
            },
            Event::Cloned(session) => writeln!(f, "a clone goes to session {session}"),
            Event::Queued { port, priority, instance, depth } => {
                let copy = if *instance == 0 { String::new() } else { format!(" as copy {instance}") };
                let ahead = plural(*depth, "packet");
                writeln!(f, "queued at port {port}, priority {priority}{copy}, behind {ahead}")
            }
            Event::Dequeued { meta, waited } => {
                let behind = plural(meta.deq_qdepth, "packet");
                writeln!(f, "begins egress at port {}: waited {waited}, leaves {behind} behind", meta.port)
            }
            Event::Egress(verdict) => match verdict {
                EgressVerdict::Send => writeln!(f, "egress sends it"),
                EgressVerdict::Drop => writeln!(f, "egress drops it"),
                EgressVerdict::Recirculate => writeln!(f, "egress recirculates it"),
                EgressVerdict::Abort(_) => writeln!(f, "egress does not end"),
            },
            Event::Emitted { header, len } => {
                writeln!(f, "  emits {header}: {}", plural(*len as u32, "byte"))
            }
            Event::Sent { port, bytes, virtual_len } => {
                let len = bytes.len() as u32 + virtual_len;
                writeln!(f, "leaves by port {port}: {}", plural(len, "byte"))?;
                write_bytes(f, bytes, *virtual_len)
            }
            Event::Dropped(reason) => writeln!(f, "dropped: {}", reason.name()),
            Event::Omitted(steps) => writeln!(f, "({steps} steps left out)"),
        }
    }
}

impl fmt::Display for PacketTrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.events().iter().try_for_each(|event| event.fmt(f))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_their_own_format_and_other_values_are_hexadecimal() {
        assert_eq!(format_value("ipv4.src_addr", &[10, 0, 1, 2]), "10.0.1.2");
        assert_eq!(format_value("hdr.ethernet.dstAddr", &[2, 0, 0, 0, 0xab, 1]), "02:00:00:00:ab:01");
        assert_eq!(format_value("ipv6.dst_addr", &[0; 16]), "::");
        assert_eq!(
            format_value("standard_metadata.ingress_global_timestamp", &[0, 0, 0, 0, 1, 2]),
            "0x000000000102"
        );
        assert_eq!(format_value("ipv4.total_len", &[1, 2]), "0x0102");
    }
}
