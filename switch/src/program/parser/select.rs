//! Selects: keys, cases and their loading.

use crate::program::error::LoadError;
use crate::program::json::JsonNode;
use crate::program::layout::Layout;
use crate::program::limbs::{limbs_from_be_bytes, low_mask};
use crate::program::op::Slot;
use std::collections::HashMap;

/// A part of a select key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SelectPart {
    Slot {
        slot: Slot,
        bits: u32,
    },
    /// A field of the last header extracted to a stack.
    StackLast {
        stack: u16,
        /// Slot of the field, relative to the element.
        offset: u16,
        bits: u32,
    },
    Lookahead {
        /// Bits after the cursor.
        offset: u32,
        bits: u32,
    },
}

impl SelectPart {
    pub(crate) fn bits(self) -> u32 {
        match self {
            SelectPart::Slot { bits, .. }
            | SelectPart::StackLast { bits, .. }
            | SelectPart::Lookahead { bits, .. } => bits,
        }
    }
    /// Returns the number of 64-bit words of the part in an unpacked key.
    pub(crate) fn words(self) -> usize {
        self.bits().div_ceil(64).max(1) as usize
    }
}

/// A select whose key consists of slots and fits one word.
#[derive(Debug)]
pub(crate) struct PackedSelect {
    /// Slot of each part of the key, and its shift in the packed word in bits.
    pub parts: Vec<(Slot, u8)>,
    /// Mask, value and next state of each case; next state `None` accepts.
    pub cases: Vec<(u64, u64, Option<u16>)>,
}

impl PackedSelect {
    /// Packs a select. Returns `None` if the key is too wide or has other parts than slots, or if a case refers to a
    /// value set.
    pub(super) fn new(key: &[SelectPart], cases: &[SelectCase]) -> Option<PackedSelect> {
        let (mut parts, mut used) = (Vec::new(), 0);
        for part in key {
            let SelectPart::Slot { slot, bits } = *part else { return None };
            parts.push((slot, used as u8));
            used += bits;
            if used > 64 || bits == 0 {
                return None;
            }
        }
        let pack = |words: &[u64]| {
            let words = words.iter().zip(&parts).zip(key);
            words.fold(0, |all, ((word, (_, shift)), part)| all | (word & low_mask(part.bits())) << shift)
        };
        let mut packed_cases = Vec::new();
        for case in cases {
            let Keyset::Masked { value, mask } = &case.pattern else { return None };
            // A value that is wider than its field never matches. Packed, it would overlap the next part.
            if value.iter().zip(key).any(|(word, part)| word & !low_mask(part.bits()) != 0) {
                continue;
            }
            packed_cases.push((pack(mask), pack(value), case.next));
        }
        Some(PackedSelect { parts, cases: packed_cases })
    }
}

#[derive(Debug)]
pub(crate) struct SelectCase {
    pub pattern: Keyset,
    pub next: Option<u16>,
}

/// The keyset expression of a case. Values and masks are concatenations of the words of each key part, least
/// significant word of a part first.
#[derive(Debug)]
pub(crate) enum Keyset {
    Masked {
        value: Vec<u64>,
        mask: Vec<u64>,
    },
    /// Matches if the key, after masking, equals a value in a list of a value set.
    ValueSet {
        list: u16,
        mask: Option<Vec<u64>>,
    },
}

/// Loads selects. Its fields are the objects that selects refer to by name.
pub(super) struct SelectLoader {
    pub(super) states: HashMap<String, u16>,
    /// Name and width in bits of each value set.
    pub(super) sets: Vec<(String, u32)>,
    /// For each list of values, the index of its set and the widths of the key parts.
    pub(super) lists: Vec<(usize, Vec<u32>)>,
}

impl SelectLoader {
    /// Loads the cases of a state's select, and the next state if none matches.
    pub(super) fn cases(
        &mut self,
        state: &JsonNode,
        key: &[SelectPart],
    ) -> Result<(Vec<SelectCase>, Option<u16>), LoadError> {
        let (mut cases, mut default) = (Vec::new(), None);
        for node in state.list("transitions")? {
            let next = self.next_state(&node)?;
            match node.get_opt("type").map_or(Ok("hexstr"), |node| node.str())? {
                "default" => default = next,
                "hexstr" if node.get("value")?.str()? == "default" => default = next,
                "hexstr" => {
                    let value = split_into_words(&node.get("value")?, key)?;
                    let mask = match node.get_opt("mask") {
                        Some(mask) => split_into_words(&mask, key)?,
                        None => vec![u64::MAX; value.len()],
                    };
                    let value = value.iter().zip(&mask).map(|(value, mask)| value & mask).collect();
                    cases.push(SelectCase { pattern: Keyset::Masked { value, mask }, next });
                }
                "parse_vset" => cases.push(SelectCase { pattern: self.value_set(&node, key)?, next }),
                other => return node.err(format_args!("a transition of type {other:?} is not supported")),
            }
        }
        Ok((cases, default))
    }

    /// Returns the next state of a transition; `None` accepts.
    fn next_state(&self, node: &JsonNode) -> Result<Option<u16>, LoadError> {
        match node.get_opt("next_state") {
            None => Ok(None),
            Some(next) => match self.states.get(next.str()?) {
                Some(index) => Ok(Some(*index)),
                None => next.err(format_args!("there is no state {}", next.value)),
            },
        }
    }

    fn value_set(&mut self, node: &JsonNode, key: &[SelectPart]) -> Result<Keyset, LoadError> {
        let set = |name: &str| self.sets.iter().position(|(known, _)| known == name);
        let set = node.get("value")?.find("value set", set)?;
        let mask = node.get_opt("mask").map(|mask| split_into_words(&mask, key)).transpose()?;
        let parts: Vec<u32> = key.iter().map(|part| part.bits()).collect();
        if self.sets[set].1 != parts.iter().sum::<u32>() {
            return node.err("the value set's width differs from the key's");
        }
        let list = (set, parts);
        let index = self.lists.iter().position(|known| *known == list);
        let index = index.unwrap_or_else(|| {
            self.lists.push(list);
            self.lists.len() - 1
        });
        Ok(Keyset::ValueSet { list: index.min(usize::from(u16::MAX)) as u16, mask })
    }
}

/// Splits the value or mask of a case into the words of the key parts. In the JSON each part is padded to whole bytes.
fn split_into_words(node: &JsonNode, key: &[SelectPart]) -> Result<Vec<u64>, LoadError> {
    let bytes = node.hex_bytes()?;
    let expected: usize = key.iter().map(|part| part.bits().div_ceil(8) as usize).sum();
    if bytes.len() != expected {
        return node.err(format_args!("expected {expected} bytes, found {}", bytes.len()));
    }
    let (mut remaining, mut words) = (bytes.as_slice(), Vec::new());
    for part in key {
        let (value, rest) = remaining.split_at(part.bits().div_ceil(8) as usize);
        remaining = rest;
        words.extend(limbs_from_be_bytes(value, part.words()));
    }
    Ok(words)
}

pub(super) fn load_key_part(node: &JsonNode, layout: &Layout) -> Result<SelectPart, LoadError> {
    let (kind, value) = (node.get("type")?, node.get("value")?);
    Ok(match kind.str()? {
        "field" => {
            let slot_ref = layout.slot_ref(&value)?;
            SelectPart::Slot { slot: slot_ref.slot, bits: slot_ref.bits }
        }
        "stack_field" => {
            let [stack, field] = value.tuple()?;
            let stack = layout.stack_index(&stack)?;
            let ty = layout.stacks[stack].member_blocks[0].1;
            stack_last(layout, &field, stack, 0, ty)?
        }
        "union_stack_field" => {
            let [stack, member, field] = value.tuple()?;
            let stack = layout.union_stack_index(&stack)?;
            let member = layout.union_stack_member_index(stack, &member)?;
            let (offset, ty) = layout.stacks[stack].member_blocks[member];
            stack_last(layout, &field, stack, offset, ty)?
        }
        "lookahead" => {
            let (offset, bits) = load_lookahead(&value)?;
            SelectPart::Lookahead { offset, bits }
        }
        other => return kind.err(format_args!("a key of type {other:?} is not supported")),
    })
}

fn stack_last(
    layout: &Layout,
    node: &JsonNode,
    stack: usize,
    block: u16,
    ty: usize,
) -> Result<SelectPart, LoadError> {
    let ty = &layout.types[ty];
    let field = &ty.fields[ty.field_index(node)?];
    if field.is_varbit {
        return node.err("a varbit field cannot be used in a select key");
    }
    Ok(SelectPart::StackLast { stack: stack as u16, offset: block + field.slot, bits: field.bits })
}

/// Loads the offset and width in bits of a lookahead.
pub(super) fn load_lookahead(node: &JsonNode) -> Result<(u32, u32), LoadError> {
    const MAX_BITS: usize = 4096;
    let [offset, bits] = node.tuple()?;
    Ok((offset.usize_at_most(MAX_BITS)? as u32, bits.usize_at_most(MAX_BITS)? as u32))
}
