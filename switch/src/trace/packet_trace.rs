//! A tracer that records every step of a packet.

use super::step::{Step, SwitchTracer};
use crate::drops::DropReason;
use crate::packet::Packet;
use crate::pipeline::{EgressMeta, EgressVerdict, EntryHandle, IngressVerdict, Tracer};
use crate::program::{ActionId, HeaderId, Program, SourceLocation, TableId};
use weir_units::Time;

/// A value with its name, big-endian.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedValue {
    /// Name of the field, key or parameter.
    pub name: String,
    /// The value in ceil(width / 8) bytes.
    pub bytes: Vec<u8>,
}

/// A recorded step.
#[derive(Clone, Debug)]
pub enum Event {
    /// The frame arrived at the switch.
    Arrived {
        port: u16,
        bytes: Vec<u8>,
        /// Length of the virtual tail in bytes.
        virtual_len: u32,
    },
    /// The packet starts ingress again.
    Reentered,
    /// The parser entered a state.
    State(String),
    /// The parser extracted a header.
    Extracted {
        header: String,
        /// Offset of the header in the frame, in bytes.
        offset: usize,
        /// The fields with their values in the frame.
        fields: Vec<NamedValue>,
    },
    /// The parser stopped with an error: name and number.
    ParserError(String),
    /// A checksum was verified.
    Checksum { name: String, correct: bool },
    /// A table was applied.
    Table {
        name: String,
        /// True for a hidden table, which p4c creates for a block of statements.
        hidden: bool,
        /// The key elements.
        key: Vec<NamedValue>,
        /// The matching entry; `None` on a miss.
        entry: Option<EntryHandle>,
        /// The name of the action that runs, and its arguments; `None` if no action runs.
        action: Option<(String, Vec<NamedValue>)>,
        /// The location in the P4 source, if known.
        location: Option<SourceLocation>,
    },
    /// A condition was evaluated.
    Condition {
        /// The condition's name in the BMv2 JSON.
        name: String,
        result: bool,
        /// The location in the P4 source, if known.
        location: Option<SourceLocation>,
    },
    /// A field was assigned.
    Changed {
        field: String,
        old: Vec<u8>,
        new: Vec<u8>,
        /// The location of the statement in the P4 source, if known.
        location: Option<SourceLocation>,
    },
    /// The program called `log_msg`.
    Log(String),
    /// This `assert` or `assume` failed, given by its location or action.
    AssertionFailed(String),
    /// The verdict of ingress.
    Ingress(IngressVerdict),
    /// A clone was created for this session.
    Cloned(u16),
    /// The packet or a copy of it was passed to a queue.
    Queued {
        /// The egress port.
        port: u16,
        /// The priority of the queue.
        priority: u8,
        /// `standard_metadata.egress_rid`, which distinguishes copies of one packet.
        instance: u16,
        /// Packets in the queue before this one.
        depth: u32,
    },
    /// The packet was dequeued and starts egress.
    Dequeued {
        /// The intrinsic metadata for egress.
        meta: EgressMeta,
        /// Time that the packet spent in the queue.
        waited: Time,
    },
    /// The verdict of egress.
    Egress(EgressVerdict),
    /// The deparser emitted a header.
    Emitted {
        header: String,
        /// Length of the header in bytes.
        len: usize,
    },
    /// The frame left the switch.
    Sent {
        port: u16,
        bytes: Vec<u8>,
        /// Length of the virtual tail in bytes.
        virtual_len: u32,
    },
    /// The packet was dropped.
    Dropped(DropReason),
    /// Number of steps omitted here, see [`PacketTrace`].
    Omitted(u64),
}

/// Maximum number of steps that a trace records. A program may loop for millions of steps.
const MAX_EVENTS: usize = 1 << 16;

/// Records the steps of the traced packets; of a very long trace, the first and the last ones. Displays as text.
#[derive(Clone, Debug, Default)]
pub struct PacketTrace {
    events: Vec<Event>,
    /// The frame that the parser reads.
    frame: Vec<u8>,
    /// The action that is running.
    action: Option<ActionId>,
}

impl PacketTrace {
    pub fn new() -> PacketTrace {
        PacketTrace::default()
    }

    /// Returns the steps in order.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    fn push(&mut self, event: Event) {
        // Number of events at the beginning that are kept.
        const FIRST: usize = MAX_EVENTS / 2;
        if self.events.len() == MAX_EVENTS {
            // Steps that were omitted before are counted by the first of the events that are removed now.
            let before = match self.events[FIRST] {
                Event::Omitted(steps) => steps,
                _ => 0,
            };
            let middle = FIRST..MAX_EVENTS - FIRST / 2;
            let steps = before + middle.len() as u64 - u64::from(before > 0);
            self.events.splice(middle, [Event::Omitted(steps)]);
        }
        self.events.push(event);
    }

    /// Stores the frame for later `extract` calls. Returns its stored bytes and the length of its virtual tail.
    fn snapshot(&mut self, packet: &Packet) -> (Vec<u8>, u32) {
        self.frame = packet.to_vec();
        (packet.bytes().to_vec(), packet.virtual_len())
    }
}

fn named_values<'a>(names: impl Iterator<Item = &'a str>, values: &[Vec<u8>]) -> Vec<NamedValue> {
    let names = names.map(str::to_owned);
    names.zip(values).map(|(name, bytes)| NamedValue { name, bytes: bytes.clone() }).collect()
}

/// Returns the fields of a header with these bytes.
fn field_values(program: &Program, header: HeaderId, bytes: &[u8]) -> Vec<NamedValue> {
    let fields = header_fields(program, header);
    let fixed_bits: usize = fields.iter().filter_map(|(_, bits)| bits.map(|bits| bits as usize)).sum();
    let varbit_bits = (bytes.len() * 8).saturating_sub(fixed_bits);
    let mut offset = 0;
    let values = fields.into_iter().map(|(name, bits)| {
        let len = bits.map_or(varbit_bits, |bits| bits as usize);
        let value = slice_bits(bytes, offset, len);
        offset += len;
        NamedValue { name: name.to_owned(), bytes: value }
    });
    values.collect()
}

/// Returns the names and the widths in bits of a header's fields; `None` for a varbit field, which has no fixed width.
fn header_fields(program: &Program, header: HeaderId) -> Vec<(&str, Option<u32>)> {
    let Some(instance) = program.layout.headers.get(usize::from(header.0)) else { return Vec::new() };
    let fields = program.layout.types[instance.ty].fields.iter();
    fields.map(|field| (field.name.as_str(), (!field.is_varbit).then_some(field.bits))).collect()
}

/// Returns `len` bits from bit `offset`, right-aligned. Bits beyond `bytes` are 0.
fn slice_bits(bytes: &[u8], offset: usize, len: usize) -> Vec<u8> {
    let mut value = vec![0u8; len.div_ceil(8)];
    // Bits of the first byte before the value.
    let padding = value.len() * 8 - len;
    for bit in 0..len {
        let source = bytes.get((offset + bit) / 8).copied().unwrap_or(0);
        let bit_value = source >> (7 - (offset + bit) % 8) & 1;
        value[(padding + bit) / 8] |= bit_value << (7 - (padding + bit) % 8);
    }
    value
}

impl Tracer for PacketTrace {
    fn parser_state(&mut self, _: &Program, state: &str) {
        self.action = None;
        self.push(Event::State(state.to_owned()));
    }
    fn extract(&mut self, program: &Program, header: HeaderId, offset: usize, len: usize) {
        let bytes = self.frame.get(offset..).unwrap_or_default();
        let fields = field_values(program, header, &bytes[..len.min(bytes.len())]);
        let header = program.header_name(header).to_owned();
        self.push(Event::Extracted { header, offset, fields });
    }
    fn parser_error(&mut self, _: &Program, error: u32, name: &str) {
        self.push(Event::ParserError(format!("{name} ({error})")));
    }
    fn checksum(&mut self, _: &Program, name: &str, correct: bool) {
        self.push(Event::Checksum { name: name.to_owned(), correct });
    }
    fn table(
        &mut self,
        program: &Program,
        table: TableId,
        key: &[Vec<u8>],
        entry: Option<EntryHandle>,
        action: Option<ActionId>,
        args: &[Vec<u8>],
    ) {
        let info = program.tables().find(|(id, _)| *id == table).map(|(_, info)| info);
        let action_info = action.and_then(|action| program.actions().find(|(id, _)| *id == action));
        self.action = action;
        self.push(Event::Table {
            location: program.source_map().table(program.table_name(table)).cloned(),
            name: program.table_name(table).to_owned(),
            hidden: info.is_some_and(|info| info.hidden),
            key: info
                .map_or(Vec::new(), |info| named_values(info.key.iter().map(|key| key.name.as_str()), key)),
            entry,
            action: action_info.map(|(_, info)| {
                (info.name.clone(), named_values(info.params.iter().map(|(name, _)| name.as_str()), args))
            }),
        });
    }
    fn condition(&mut self, program: &Program, name: &str, result: bool) {
        let location = program.source_map().condition(name).cloned();
        self.push(Event::Condition { name: name.to_owned(), result, location });
    }
    fn assign(&mut self, program: &Program, field: &str, old: &[u8], new: &[u8]) {
        let location = self.action.and_then(|action| program.source_map().statement(action, field)).cloned();
        let (field, old, new) = (field.to_owned(), old.to_vec(), new.to_vec());
        self.push(Event::Changed { field, old, new, location });
    }
    fn log(&mut self, _: &Program, message: &str) {
        self.push(Event::Log(message.to_owned()));
    }
    fn assertion_failed(&mut self, _: &Program, assertion: &str) {
        self.push(Event::AssertionFailed(assertion.to_owned()));
    }
    fn emit(&mut self, program: &Program, header: HeaderId, len: usize) {
        self.push(Event::Emitted { header: program.header_name(header).to_owned(), len });
    }
}

impl SwitchTracer for PacketTrace {
    fn step(&mut self, step: Step<'_>) {
        let event = match step {
            Step::Arrived { port, packet } => {
                let (bytes, virtual_len) = self.snapshot(packet);
                Event::Arrived { port, bytes, virtual_len }
            }
            Step::Reentered { packet } => {
                self.snapshot(packet);
                Event::Reentered
            }
            Step::Ingress(verdict) => Event::Ingress(verdict),
            Step::Cloned { session } => Event::Cloned(session),
            Step::Queued { port, priority, instance, depth } => {
                Event::Queued { port, priority, instance, depth }
            }
            Step::Dequeued { meta, waited } => Event::Dequeued { meta, waited },
            Step::Egress(verdict) => Event::Egress(verdict),
            Step::Sent { port, packet } => {
                let (bytes, virtual_len) = (packet.bytes().to_vec(), packet.virtual_len());
                Event::Sent { port, bytes, virtual_len }
            }
            Step::Dropped(reason) => Event::Dropped(reason),
        };
        self.push(event);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_trace_keeps_its_first_and_last_steps() {
        let (mut trace, steps) = (PacketTrace::new(), 5 * MAX_EVENTS as u64);
        (0..steps).for_each(|step| trace.push(Event::Log(step.to_string())));
        assert!(trace.events().len() <= MAX_EVENTS);
        let mut next = 0;
        for event in trace.events() {
            match event {
                Event::Log(step) => assert_eq!(*step, next.to_string()),
                Event::Omitted(steps) => next += steps - 1,
                other => panic!("{other:?}"),
            }
            next += 1;
        }
        assert_eq!(next, steps);
    }

    #[test]
    fn fields_are_sliced_at_bit_offsets() {
        assert_eq!(slice_bits(&[0xab, 0xcd, 0xef], 4, 12), [0x0b, 0xcd]);
        assert_eq!(slice_bits(&[0xab, 0xcd], 12, 8), [0xd0]);
        assert_eq!(slice_bits(&[0b0100_0000], 1, 1), [1]);
        assert_eq!(slice_bits(&[1, 2], 0, 0), [0u8; 0]);
    }
}
