//! Loads header types: the width of each field, and its position in the header and in the header's block of
//! slots.
//!
//! A slot is one 64-bit word of the packet header vector (PHV), which has the headers and metadata of one packet
//! while the program processes it. Each header owns a block of consecutive slots: its validity, its frame offset,
//! then its fields. A number of more than 64 bits takes several slots, its limbs, least significant first.

use super::error::LoadError;
use super::json::JsonNode;

/// The slot of a block at which the fields begin, after [`VALID_SLOT`](super::VALID_SLOT) and
/// [`FRAME_OFFSET_SLOT`](super::FRAME_OFFSET_SLOT).
pub(crate) const FIRST_FIELD_SLOT: u16 = 2;
/// Maximum number of PHV slots of headers and metadata. Operand indices (16 bits) at and above it denote
/// temporaries and constants until linking.
pub(crate) const MAX_PHV_SLOTS: usize = 0x4000;
/// Maximum width of a field. Intermediate results of expressions may be twice as wide.
const MAX_FIELD_BITS: usize = 4096;
/// Maximum length of a header.
const MAX_HEADER_BYTES: usize = 2048;

#[derive(Clone, Debug)]
pub(crate) struct Field {
    pub name: String,
    /// Width in bits; the maximum width of a varbit field.
    pub bits: u32,
    pub signed: bool,
    /// Whether assignments saturate instead of wrapping around.
    pub saturating: bool,
    pub is_varbit: bool,
    /// Offset in bits from the start of the header, with a varbit field of length 0.
    pub offset: u32,
    /// First slot, relative to the block. The first slot of a varbit field has its current length in bits, and
    /// the following slots have its bytes.
    pub slot: u16,
    pub slot_count: u16,
}

#[derive(Clone, Debug)]
pub(crate) struct HeaderType {
    pub name: String,
    pub fields: Vec<Field>,
    /// Length in bytes without the varbit field.
    pub bytes: u32,
    /// Maximum length in bytes including the varbit field. Unused in types without a varbit field.
    pub max_bytes: u32,
    /// Index of the varbit field.
    pub varbit_index: Option<usize>,
    /// Length of a header's block in slots.
    pub block_len: u16,
}

impl HeaderType {
    pub(crate) fn load_all(root: &JsonNode) -> Result<Vec<HeaderType>, LoadError> {
        let mut types = Vec::<HeaderType>::new();
        for node in root.get("header_types")?.items()? {
            let ty = HeaderType::load(&node)?;
            if types.iter().any(|known| known.name == ty.name) {
                return node.err(format_args!("duplicate header type {:?}", ty.name));
            }
            types.push(ty);
        }
        Ok(types)
    }

    fn load(node: &JsonNode) -> Result<HeaderType, LoadError> {
        let name = node.name()?;
        let (mut fields, mut offset, mut slot, mut varbit_index) =
            (Vec::<Field>::new(), 0u32, FIRST_FIELD_SLOT, None);
        for field in node.get("fields")?.items()? {
            let parts = field.items()?;
            let [name, bits, flags @ ..] = parts.as_slice() else {
                return field.err("expected [name, width]");
            };
            let flag = |i: usize| flags.get(i).map_or(Ok(false), |node: &JsonNode| node.bool());
            let is_varbit = bits.value.as_str() == Some("*");
            let bits = if is_varbit {
                let max = node.get("max_length")?.usize_at_most(MAX_HEADER_BYTES)?;
                if offset % 8 != 0 {
                    return field.err("a varbit field must begin at a byte boundary");
                }
                if varbit_index.replace(fields.len()).is_some() {
                    return field.err("a header can have only one varbit field");
                }
                max as u32 * 8
            } else {
                bits.usize_at_most(MAX_FIELD_BITS)? as u32
            };
            // At least 1, even for a field of width 0: code loads at least one slot of every number.
            let slot_count =
                if is_varbit { varbit_slot_count(bits) } else { bits.div_ceil(64).max(1) as u16 };
            let name = name.str()?.to_string();
            if fields.iter().any(|field| field.name == name) {
                return field.err(format_args!("duplicate field {name:?}"));
            }
            let signed = flag(0)?;
            if signed && bits < 2 {
                return field.err("a signed field needs at least 2 bits");
            }
            let saturating = flag(1)?;
            fields.push(Field { name, bits, signed, saturating, is_varbit, offset, slot, slot_count });
            if !is_varbit {
                offset += bits;
            }
            // Keeps `slot` in range. `SlotAllocator::alloc` checks whether all headers fit together.
            slot = match slot.checked_add(slot_count) {
                Some(slot)
                    if usize::from(slot) < MAX_PHV_SLOTS && offset as usize <= MAX_HEADER_BYTES * 8 =>
                {
                    slot
                }
                _ => {
                    return node.err(format_args!(
                        "the header exceeds {MAX_HEADER_BYTES} bytes or {MAX_PHV_SLOTS} slots"
                    ));
                }
            };
        }
        if offset % 8 != 0 {
            return node.err(format_args!("the header's length of {offset} bits is not a multiple of 8"));
        }
        let max_bytes =
            node.get_opt("max_length").map_or(Ok(0), |node| node.usize_at_most(MAX_HEADER_BYTES))? as u32;
        if let Some(index) = varbit_index {
            if max_bytes * 8 < offset {
                return node.err("max_length is less than the length of the fixed fields");
            }
            // The slots were allocated for `max_length` before the length of the fixed fields was known. They
            // are reduced to the actual maximum width, so that all varbit fields of the same width have the same
            // number of slots.
            let field = &mut fields[index];
            field.bits = max_bytes * 8 - offset;
            let unused = field.slot_count - varbit_slot_count(field.bits);
            field.slot_count -= unused;
            fields[index + 1..].iter_mut().for_each(|field| field.slot -= unused);
            slot -= unused;
        }
        Ok(HeaderType { name, fields, bytes: offset / 8, max_bytes, varbit_index, block_len: slot })
    }

    /// Returns the index of the field with the name at `node`.
    pub(crate) fn field_index(&self, node: &JsonNode) -> Result<usize, LoadError> {
        let name = node.str()?;
        let field = self.fields.iter().position(|field| field.name == name);
        field.ok_or_else(|| node.error(format_args!("header type {} has no field {name:?}", self.name)))
    }
}

/// Returns the number of slots of a varbit field of at most `bits` bits: one for its length, the others for its
/// bytes.
fn varbit_slot_count(bits: u32) -> u16 {
    1 + bits.div_ceil(64).max(1) as u16
}
