//! Loads calculations, BMv2's name for the input and algorithm of a hash or checksum.

use super::error::LoadError;
use super::json::JsonNode;
use super::layout::{HeaderId, Layout, SlotRef, VALID_SLOT};
use super::op::{ComputedSlot, Slot};

/// The hash algorithms of the JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Algorithm {
    Crc16,
    Crc16Custom,
    Crc32,
    Crc32Custom,
    CrcCcitt,
    /// The Internet checksum (RFC 1071).
    Csum16,
    Xor16,
    Identity,
    /// A counter: the number of earlier calls.
    RoundRobin,
}

impl Algorithm {
    pub(crate) fn load(node: &JsonNode) -> Result<Algorithm, LoadError> {
        Ok(match node.str()? {
            "crc16" => Algorithm::Crc16,
            "crc16_custom" => Algorithm::Crc16Custom,
            "crc32" => Algorithm::Crc32,
            "crc32_custom" => Algorithm::Crc32Custom,
            "crcCCITT" => Algorithm::CrcCcitt,
            "csum16" | "cksum16" => Algorithm::Csum16,
            "xor16" => Algorithm::Xor16,
            "identity" => Algorithm::Identity,
            "round_robin" => Algorithm::RoundRobin,
            other => return node.err(format_args!("hash algorithm {other:?} is not supported")),
        })
    }
}

/// A part of the input of a calculation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HashInput {
    /// A field, included only if the slot `valid` is 1. `None`: always included.
    Field { slot: Slot, bits: u32, valid: Option<Slot> },
    /// A varbit field: `slot` has its length in bits, the following slots its bytes.
    Varbit { slot: Slot, valid: Option<Slot> },
    /// A constant, least significant limb first.
    Const { limbs: Vec<u64>, bits: u32 },
    /// The frame after the parsed headers.
    Payload,
}

/// A calculation: the algorithm and input of a hash or checksum.
#[derive(Clone, Debug)]
pub(crate) struct Calculation {
    pub name: String,
    pub algorithm: Algorithm,
    pub inputs: Vec<HashInput>,
    /// The terms of an Internet checksum that can be summed without a buffer, grouped by header; `None` for
    /// other calculations.
    pub checksum_terms: Option<Vec<ChecksumTerms>>,
    /// The input as pairs of slot and number of bytes, if it consists of fields of 1 to 8 whole bytes that are always
    /// included; otherwise `None`. Machine code then reads the slots itself instead of calling the interpreter.
    pub byte_fields: Option<Vec<(Slot, u8)>>,
}

/// The terms that one header contributes to an Internet checksum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChecksumTerms {
    /// The header's validity slot; `None` if it is always valid.
    pub valid: Option<Slot>,
    /// Slot of each field, and the shift in bits that aligns it to the 16-bit words of the input.
    pub fields: Vec<(Slot, u8)>,
}

/// A checksum that is verified after the parser, updated before the deparser, or both.
#[derive(Clone, Debug)]
pub(crate) struct Checksum {
    pub name: String,
    /// Index of the calculation.
    pub calculation: u16,
    pub target: SlotRef,
    /// The validity slot of the target's header; the checksum is skipped while it is 0. `None` for metadata.
    pub valid: Option<Slot>,
    /// The checksum is skipped if this is 0. `None`: no condition.
    pub condition: Option<ComputedSlot>,
    pub is_verified: bool,
    pub is_updated: bool,
}

/// Maximum length of the input of [`Calculation::byte_fields`].
pub(crate) const MAX_HASH_BYTES: usize = 64;

impl Calculation {
    pub(crate) fn load(node: &JsonNode, layout: &Layout) -> Result<Calculation, LoadError> {
        let algorithm = Algorithm::load(&node.get("algo")?)?;
        let mut inputs = Vec::new();
        for input in node.get("input")?.items()? {
            load_input(&input, layout, &mut inputs)?;
        }
        // BMv2 hashes the payload once, after the other inputs, wherever the list names it.
        inputs.sort_by_key(|input| *input == HashInput::Payload);
        inputs.dedup_by(|a, b| *a == HashInput::Payload && *b == HashInput::Payload);
        Ok(Calculation::new(node.name()?, algorithm, inputs))
    }

    /// Loads the hash of an action selector: a calculation without a name.
    pub(crate) fn load_selector(node: &JsonNode, layout: &Layout) -> Result<Calculation, LoadError> {
        let mut inputs = Vec::new();
        for input in node.get("input")?.items()? {
            load_input(&input, layout, &mut inputs)?;
        }
        let algorithm = Algorithm::load(&node.get("algo")?)?;
        Ok(Calculation::new(String::new(), algorithm, inputs))
    }

    /// Returns the Internet checksum over all fields of a header except `target`, an index of a field.
    pub(crate) fn for_header(layout: &Layout, (id, target): (HeaderId, usize)) -> Calculation {
        let fields = 0..layout.header_type(id).fields.len();
        let inputs = fields.filter(|field| *field != target).map(|field| field_input(layout, id, field));
        Calculation::new(String::new(), Algorithm::Csum16, inputs.collect())
    }

    pub(crate) fn new(name: String, algorithm: Algorithm, inputs: Vec<HashInput>) -> Calculation {
        let checksum_terms = if algorithm == Algorithm::Csum16 { checksum_terms(&inputs) } else { None };
        let byte_fields = byte_fields(&inputs);
        Calculation { name, algorithm, inputs, checksum_terms, byte_fields }
    }

    /// Returns an upper bound of the input's length in 64-bit words. It is a cost, so the bounds of variable-length
    /// inputs are rough.
    pub(crate) fn max_words(&self) -> u32 {
        const MAX_PAYLOAD_BYTES: u32 = 1 << 16;
        const MAX_VARBIT_BYTES: u32 = 1 << 8;
        let words = |input: &HashInput| match input {
            HashInput::Field { bits, .. } | HashInput::Const { bits, .. } => bits.div_ceil(u64::BITS),
            HashInput::Varbit { .. } => MAX_VARBIT_BYTES / 8,
            HashInput::Payload => MAX_PAYLOAD_BYTES / 8,
        };
        self.inputs.iter().map(words).sum()
    }
}

fn load_input(node: &JsonNode, layout: &Layout, inputs: &mut Vec<HashInput>) -> Result<(), LoadError> {
    let kind = node.get("type")?;
    match kind.str()? {
        "field" => {
            let value = node.get("value")?;
            let [header, field] = value.tuple()?;
            let id = layout.header_id(&header)?;
            if field.str()? == "$valid$" {
                let slot_ref = layout.slot_ref(&value)?;
                inputs.push(HashInput::Field { slot: slot_ref.slot, bits: 1, valid: None });
                return Ok(());
            }
            inputs.push(field_input(layout, id, layout.field(&value)?.1));
        }
        "header" => {
            let id = layout.header_id(&node.get("value")?)?;
            inputs
                .extend((0..layout.header_type(id).fields.len()).map(|field| field_input(layout, id, field)));
        }
        "hexstr" => {
            const MAX_BITS: usize = 4096;
            let big = node.get("value")?.hex_int()?;
            let bits = node.get("bitwidth")?.usize_at_most(MAX_BITS)? as u32;
            inputs.push(HashInput::Const { limbs: big.twos_complement(bits.div_ceil(64) as usize), bits });
        }
        "payload" => inputs.push(HashInput::Payload),
        other => return kind.err(format_args!("an input of type {other:?} cannot be hashed")),
    }
    Ok(())
}

fn field_input(layout: &Layout, id: HeaderId, field: usize) -> HashInput {
    let header = layout.header(id);
    let valid = (!header.is_metadata).then_some(header.first_slot + VALID_SLOT);
    let slot = layout.slot((id, field));
    let field = layout.field_info((id, field));
    if field.is_varbit {
        HashInput::Varbit { slot, valid }
    } else {
        HashInput::Field { slot, bits: field.bits, valid }
    }
}

/// Returns the terms of an Internet checksum; `None` if a field is too wide, or if its alignment depends on which
/// headers are valid.
fn checksum_terms(inputs: &[HashInput]) -> Option<Vec<ChecksumTerms>> {
    const WORD_BITS: u32 = 16;
    /// Terms below 2^48 can be added 2^16 times in 64 bits, which is more than a calculation has fields.
    const MAX_TERM_BITS: u32 = 48;
    let (mut offset, mut terms) = (0u32, Vec::<ChecksumTerms>::new());
    for input in inputs {
        let HashInput::Field { slot, bits, valid } = input else { return None };
        let shift = (WORD_BITS - (offset + bits) % WORD_BITS) % WORD_BITS;
        if bits + shift > MAX_TERM_BITS {
            return None;
        }
        match terms.last_mut().filter(|last| last.valid == *valid) {
            Some(last) => last.fields.push((*slot, shift as u8)),
            // If an earlier header is left out, a header that begins within a word has another alignment.
            None if offset % WORD_BITS != 0 => return None,
            None => terms.push(ChecksumTerms { valid: *valid, fields: vec![(*slot, shift as u8)] }),
        }
        offset += bits;
    }
    Some(terms)
}

/// Returns the slot and number of bytes of each input, if all are always valid fields of 1 to 8 whole bytes, with
/// at most [`MAX_HASH_BYTES`] in total.
fn byte_fields(inputs: &[HashInput]) -> Option<Vec<(Slot, u8)>> {
    let (mut fields, mut total) = (Vec::new(), 0);
    for input in inputs {
        let HashInput::Field { slot, bits, valid: None } = input else { return None };
        if bits % 8 != 0 || !(8..=64).contains(bits) {
            return None;
        }
        total += *bits as usize / 8;
        fields.push((*slot, (bits / 8) as u8));
    }
    (total <= MAX_HASH_BYTES).then_some(fields)
}
