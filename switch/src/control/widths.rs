//! The widths of fields that a P4Info states.

use super::error::ControlError;
use p4runtime::p4::config::v1::Register;
use p4runtime::p4::config::v1::p4_bitstring_like_type_spec::TypeSpec as Bits;
use p4runtime::p4::config::v1::p4_data_type_spec::TypeSpec;
use p4runtime::p4info::{Index, Object};

/// Checks that no field of the P4Info is wider than p4c supports. A client provides the P4Info, and values are
/// allocated at the width that it states.
pub(super) fn check_widths(index: &Index) -> Result<(), ControlError> {
    /// The limit of p4c in bits (ir/configuration.h, maximumWidthSupported).
    const MAX_WIDTH: i32 = 2048;
    let fields = index.tables.iter().flat_map(|table| &table.match_fields);
    let fields = fields.map(|field| (&field.name, field.bitwidth));
    let params = index.actions.iter().flat_map(|action| &action.params);
    let params = params.map(|param| (&param.name, param.bitwidth));
    let registers = index.registers.iter();
    let registers =
        registers.filter_map(|register| Some((&register.preamble().name, register_bits(register).ok()?)));
    let sets =
        index.value_sets.iter().flat_map(|set| &set.r#match).map(|field| (&field.name, field.bitwidth));
    match fields.chain(params).chain(registers).chain(sets).find(|(_, bits)| !(0..=MAX_WIDTH).contains(bits))
    {
        Some((name, bits)) => {
            Err(ControlError::invalid(format!("the P4Info gives {name} a width of {bits} bits")))
        }
        None => Ok(()),
    }
}

/// Returns the width of a register's cells. BMv2 supports only bit<W> and int<W>.
///
/// # Errors
///
/// The cells have another type.
pub(super) fn register_bits(register: &Register) -> Result<i32, ControlError> {
    let spec = register.type_spec.as_ref().and_then(|spec| spec.type_spec.as_ref());
    let bits = match spec {
        Some(TypeSpec::Bitstring(bits)) => match &bits.type_spec {
            Some(Bits::Bit(bit)) => Some(bit.bitwidth),
            Some(Bits::Int(int)) => Some(int.bitwidth),
            _ => None,
        },
        _ => None,
    };
    bits.ok_or_else(|| {
        ControlError::unimplemented(format!(
            "register {} does not hold bit strings",
            register.preamble().name
        ))
    })
}
