//! Estimates the memory that an encoded message needs after decoding, without decoding it.
//!
//! A message of a few bytes may need hundreds in memory: an empty `Update` is two bytes long, but its struct has room
//! for every kind of entity. The estimate follows the descriptors and is an upper bound: structs count as the sum of
//! their fields, repeated fields as the peak of a growing `Vec` or `HashMap`.

use super::wire::{Malformed, Value, next_field};
use prost_reflect::{DescriptorPool, FieldDescriptor, Kind, MessageDescriptor};
use std::collections::HashMap;
use std::sync::LazyLock;

/// Maximum overhead of the allocator per block, in bytes.
const ALLOC_OVERHEAD: usize = 32;
/// Peak number of elements per element of a growing `Vec`: the initial capacity is four, and both the old and the
/// doubled buffer exist while it grows.
const VEC_GROWTH: usize = 4;
/// Nesting depth at which prost stops decoding.
const MAX_DEPTH: usize = 100;

/// The reason why no cost was computed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CostError {
    OverLimit,
    /// The bytes are not an encoded message.
    Malformed(Malformed),
}

/// The memory layout of a message type.
pub(super) struct MessageLayout {
    /// Size of the struct, in bytes.
    size: usize,
    /// Fields by number, in ascending order.
    fields: Vec<(u32, Field)>,
}

#[derive(Clone, Copy)]
struct Field {
    kind: FieldKind,
    repeated: bool,
}

/// The memory that a field needs in addition to the struct of its message.
#[derive(Clone, Copy)]
enum FieldKind {
    Number,
    Bytes,
    /// A message; index of its layout.
    Message(usize),
}

struct Layouts {
    all: Vec<MessageLayout>,
    by_name: HashMap<String, usize>,
}

static LAYOUTS: LazyLock<Layouts> = LazyLock::new(|| Layouts::from_pool(&crate::text::POOL));

/// Returns the layout of a message of this crate.
pub(super) fn layout(full_name: &str) -> &'static MessageLayout {
    &LAYOUTS.all[LAYOUTS.by_name[full_name]]
}

impl MessageLayout {
    fn field(&self, number: u32) -> Option<Field> {
        let index = self.fields.binary_search_by_key(&number, |&(number, _)| number).ok()?;
        Some(self.fields[index].1)
    }

    /// Returns an upper bound of the memory, in bytes, that a message of this type needs when decoded.
    ///
    /// # Errors
    ///
    /// [`CostError::OverLimit`]: it needs more than `limit` bytes. [`CostError::Malformed`]: the bytes are not an
    /// encoded message.
    pub(super) fn cost(&self, message: &[u8], limit: usize) -> Result<usize, CostError> {
        let mut cost = self.size;
        // The message and its open submessages, innermost last: the rest of the bytes, and the layout.
        let mut open = vec![(message, self)];
        while let Some((rest, layout)) = open.last_mut() {
            let Some(field) = next_field(rest).map_err(CostError::Malformed)? else {
                open.pop();
                continue;
            };
            // Decoding skips unknown fields.
            let Some(Field { kind, repeated }) = layout.field(field.number) else { continue };
            let copies = if repeated { VEC_GROWTH } else { 1 };
            cost += match (kind, field.value) {
                (FieldKind::Number, Value::Number) if repeated => {
                    VEC_GROWTH * size_of::<u64>() + ALLOC_OVERHEAD
                }
                (FieldKind::Number, Value::Number) => 0,
                // Packed: each byte may be one number.
                (FieldKind::Number, Value::Bytes(bytes)) => {
                    VEC_GROWTH * size_of::<u64>() * bytes.len() + ALLOC_OVERHEAD
                }
                (FieldKind::Bytes, Value::Bytes(bytes)) => {
                    copies * size_of::<Vec<u8>>() + bytes.len() + ALLOC_OVERHEAD
                }
                (FieldKind::Message(index), Value::Bytes(bytes)) => {
                    if open.len() == MAX_DEPTH {
                        return Err(CostError::Malformed(Malformed("messages are nested too deeply".into())));
                    }
                    let layout = &LAYOUTS.all[index];
                    open.push((bytes, layout));
                    copies * layout.size + ALLOC_OVERHEAD
                }
                (FieldKind::Bytes | FieldKind::Message(_), Value::Number) => {
                    return Err(CostError::Malformed(Malformed(format!(
                        "field {} is a number",
                        field.number
                    ))));
                }
            };
            if cost > limit {
                return Err(CostError::OverLimit);
            }
        }
        Ok(cost)
    }
}

impl Layouts {
    fn from_pool(pool: &DescriptorPool) -> Layouts {
        let messages: Vec<MessageDescriptor> = pool.all_messages().collect();
        let by_name: HashMap<String, usize> =
            messages.iter().enumerate().map(|(at, message)| (message.full_name().to_owned(), at)).collect();
        let layout = |message: &MessageDescriptor| {
            let field = |field: FieldDescriptor| {
                let kind = match field.kind() {
                    Kind::Message(of) => FieldKind::Message(by_name[of.full_name()]),
                    Kind::String | Kind::Bytes => FieldKind::Bytes,
                    _ => FieldKind::Number,
                };
                (field.number(), Field { kind, repeated: field.is_list() || field.is_map() })
            };
            let mut fields: Vec<(u32, Field)> = message.fields().map(field).collect();
            fields.sort_unstable_by_key(|&(number, _)| number);
            MessageLayout { size: struct_size(message, &mut Vec::new()), fields }
        };
        Layouts { all: messages.iter().map(layout).collect(), by_name }
    }
}

/// Returns an upper bound of the size of a message's struct, in bytes: every field is rounded up to words. `enclosing`
/// lists the enclosing messages, because a message that contains itself is boxed.
fn struct_size(message: &MessageDescriptor, enclosing: &mut Vec<String>) -> usize {
    const WORD: usize = size_of::<usize>();
    if enclosing.iter().any(|outer| outer == message.full_name()) {
        return WORD;
    }
    enclosing.push(message.full_name().to_owned());
    let mut field_size = |field: FieldDescriptor| match field.kind() {
        _ if field.is_map() => size_of::<HashMap<String, u64>>(),
        _ if field.is_list() => size_of::<Vec<u8>>(),
        Kind::Message(of) => struct_size(&of, enclosing) + WORD,
        Kind::String | Kind::Bytes => size_of::<Vec<u8>>(),
        _ => WORD,
    };
    let plain: usize =
        message.fields().filter(|field| field.containing_oneof().is_none()).map(&mut field_size).sum();
    // A oneof is as large as its largest variant, plus the discriminant.
    let oneofs: usize =
        message.oneofs().map(|oneof| oneof.fields().map(&mut field_size).max().unwrap_or(0) + WORD).sum();
    enclosing.pop();
    plain + oneofs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::p4::{config, v1};
    use prost::Name;

    fn size<M: Name>() -> usize {
        layout(&M::full_name()).size
    }

    #[test]
    fn no_struct_is_larger_than_its_estimate() {
        macro_rules! check {
            ($($message:ty),+) => {
                $(
                    let (real, estimate) = (size_of::<$message>(), size::<$message>());
                    assert!(real <= estimate && estimate <= 2 * real + 16, "{}: {real}, {estimate}", stringify!($message));
                )+
            };
        }
        check!(v1::WriteRequest, v1::Update, v1::Entity, v1::TableEntry, v1::FieldMatch, v1::TableAction);
        check!(v1::ReadRequest, v1::StreamMessageRequest, v1::MasterArbitrationUpdate, v1::PacketOut);
        check!(v1::Replica, v1::ActionProfileGroup, v1::P4Data, v1::SetForwardingPipelineConfigRequest);
        check!(config::v1::P4Info, config::v1::Table, config::v1::Action, config::v1::P4TypeInfo);
        check!(config::v1::P4DataTypeSpec, config::v1::P4HeaderTypeSpec, config::v1::Preamble);
    }

    #[test]
    fn small_fields_that_become_large_structs_are_counted() {
        let cost = |message: &[u8], limit| layout("p4.v1.WriteRequest").cost(message, limit);
        // 1,000 empty updates: `repeated Update updates = 4`.
        let empty = [0x22, 0].repeat(1000);
        assert!(cost(&empty, usize::MAX).unwrap() >= 1000 * size_of::<v1::Update>());
        assert_eq!(cost(&empty, 100_000), Err(CostError::OverLimit));
        // A role of 1,000 bytes, and an unknown field of the same size.
        let text = [&[0x32, 0xe8, 7][..], &[b'x'; 1000]].concat();
        assert!((1000..2000).contains(&cost(&text, usize::MAX).unwrap()));
        let unknown = [&[0x7a, 0xe8, 7][..], &[b'x'; 1000]].concat();
        assert_eq!(cost(&unknown, usize::MAX), Ok(size::<v1::WriteRequest>()));
    }

    #[test]
    fn undecodable_messages_have_no_cost() {
        let cost = |message: &[u8]| layout("p4.v1.WriteRequest").cost(message, usize::MAX);
        for message in [&[0x22, 2, 0][..], &[0x22, 1, 0x80], &[0x20, 1], &[0x22, 2, 0x12, 1]] {
            assert!(matches!(cost(message), Err(CostError::Malformed(_))), "{message:?}");
        }
    }
}
