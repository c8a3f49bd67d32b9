//! Header types: the widths of their fields, and where each one is in the header and in its block of slots.

use super::LoadError;
use super::json::JsonNode;

/// Slot of a block where its fields begin; before it are [`VALID_SLOT`](super::VALID) and [`FRAME_OFFSET_SLOT`](super::ORIGIN).
pub(crate) const FIRST_FIELD_SLOT: u16 = 2;
/// The header vector may have this many slots; operands are 16 bits and some are spent on numbering temporaries.
pub(crate) const MAX_PHV_SLOTS: usize = 0x4000;
/// Fields wider than this are refused: wide arithmetic has to end somewhere.
const MAX_FIELD_BITS: usize = 4096;
/// Headers longer than this are refused.
const MAX_HEADER_BYTES: usize = 2048;

/// A field of a header type.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    pub name: String,
    /// Width in bits; for a variable field its largest.
    pub bits: u32,
    pub signed: bool,
    pub saturating: bool,
    pub varbit: bool,
    /// Bits from the start of the header, variable field not counted.
    pub offset: u32,
    /// First slot, relative to the block. A variable field has its length in bits there and then its bytes.
    pub slot: u16,
    pub limbs: u16,
}

/// A header type.
#[derive(Clone, Debug)]
pub(crate) struct HeaderType {
    pub name: String,
    pub fields: Vec<Field>,
    /// Bytes on the wire, without its variable part.
    pub bytes: u32,
    /// Most bytes on the wire, or 0 for no limit.
    pub max_bytes: u32,
    pub varbit: Option<usize>,
    /// Slots of a block.
    pub slots: u16,
}

impl HeaderType {
    /// Loads all header types of a program.
    pub fn load_all(root: &JsonNode) -> Result<Vec<HeaderType>, LoadError> {
        let mut types = Vec::<HeaderType>::new();
        for at in root.get("header_types")?.items()? {
            let ty = HeaderType::load(&at)?;
            if types.iter().any(|known| known.name == ty.name) {
                return at.err(format_args!("there are two header types named {:?}", ty.name));
            }
            types.push(ty);
        }
        Ok(types)
    }

    fn load(at: &JsonNode) -> Result<HeaderType, LoadError> {
        let name = at.name()?;
        let (mut fields, mut offset, mut slot, mut varbit) =
            (Vec::<Field>::new(), 0u32, FIRST_FIELD_SLOT, None);
        for field in at.get("fields")?.items()? {
            let parts = field.items()?;
            let [name, bits, flags @ ..] = parts.as_slice() else {
                return field.err("expected [name, width]");
            };
            let flag = |i: usize| flags.get(i).map_or(Ok(false), |at: &JsonNode| at.bool());
            let is_varbit = bits.value.as_str() == Some("*");
            let bits = if is_varbit {
                let max = at.get("max_length")?.usize_at_most(MAX_HEADER_BYTES)?;
                if offset % 8 != 0 {
                    return field.err("a field of variable width must begin at a whole byte");
                }
                if varbit.replace(fields.len()).is_some() {
                    return field.err("a header can have one field of variable width only");
                }
                max as u32 * 8
            } else {
                bits.usize_at_most(MAX_FIELD_BITS)? as u32
            };
            let limbs = if is_varbit { varbit_limbs(bits) } else { bits.div_ceil(64).max(1) as u16 };
            let name = name.str()?.to_string();
            if fields.iter().any(|field| field.name == name) {
                return field.err(format_args!("the type has two fields named {name:?}"));
            }
            let signed = flag(0)?;
            if signed && bits < 2 {
                return field.err("a signed field needs at least 2 bits");
            }
            let saturating = flag(1)?;
            fields.push(Field { name, bits, signed, saturating, varbit: is_varbit, offset, slot, limbs });
            if !is_varbit {
                offset += bits;
            }
            slot = match slot.checked_add(limbs) {
                Some(slot)
                    if usize::from(slot) < MAX_PHV_SLOTS && offset as usize <= MAX_HEADER_BYTES * 8 =>
                {
                    slot
                }
                _ => return at.err("the header is too large"),
            };
        }
        if offset % 8 != 0 {
            return at.err(format_args!("{offset} bits are not whole bytes"));
        }
        let max_bytes =
            at.get_opt("max_length").map_or(Ok(0), |at| at.usize_at_most(MAX_HEADER_BYTES))? as u32;
        if let Some(index) = varbit {
            if max_bytes * 8 < offset {
                return at.err("max_length is shorter than the fixed part");
            }
            // Its slots follow from its own width, so that variables of its type have as many.
            let field = &mut fields[index];
            field.bits = max_bytes * 8 - offset;
            let unused = field.limbs - varbit_limbs(field.bits);
            field.limbs -= unused;
            fields[index + 1..].iter_mut().for_each(|field| field.slot -= unused);
            slot -= unused;
        }
        Ok(HeaderType { name, fields, bytes: offset / 8, max_bytes, varbit, slots: slot })
    }

    /// Returns the field that a string names.
    pub fn field(&self, at: &JsonNode) -> Result<usize, LoadError> {
        let name = at.str()?;
        let field = self.fields.iter().position(|field| field.name == name);
        field.ok_or_else(|| at.error(format_args!("header type {} has no field {name:?}", self.name)))
    }
}

/// Slots of a variable field of at most this many bits: its length comes first.
fn varbit_limbs(bits: u32) -> u16 {
    1 + bits.div_ceil(64).max(1) as u16
}
