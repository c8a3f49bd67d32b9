//! Parses and formats values in the notation of the P4 tutorials.

use crate::topology::Mac;
use p4runtime::value;
use serde_json::Value;
use std::net::{Ipv4Addr, Ipv6Addr};

const IPV4_BITS: i32 = 32;
const MAC_BITS: i32 = 48;
const IPV6_BITS: i32 = 128;

/// Parses a number, an IPv4, IPv6 or MAC address, or a number as text into the canonical byte string of a field of
/// `bits` bits.
///
/// # Errors
///
/// The value is none of these, or does not fit in `bits` bits.
pub(super) fn read(json: &Value, bits: i32) -> Result<Vec<u8>, String> {
    let number = match json {
        // As in the tutorials, a list of one element stands for the element.
        Value::Array(list) if list.len() == 1 => return read(&list[0], bits),
        Value::Number(number) => {
            number.as_u64().map(u128::from).ok_or(format!("{number} is not a whole number"))?
        }
        Value::Bool(flag) => u128::from(*flag),
        Value::String(text) => from_text(text).ok_or_else(|| {
            format!("\"{text}\" is not a value; expected a number, 10.0.1.1, 08:00:00:00:01:11 or 0x1f")
        })?,
        other => return Err(format!("{other} is not a value")),
    };
    let needed = (u128::BITS - number.leading_zeros()) as i32;
    if needed > bits {
        return Err(format!("{json} does not fit in {bits} bits"));
    }
    Ok(value::from_uint(number))
}

/// Parses an address or a number; `None` if the text is neither.
fn from_text(text: &str) -> Option<u128> {
    if let Ok(ip) = text.parse::<Ipv4Addr>() {
        return Some(ip.to_bits().into());
    }
    if let Ok(Mac(bytes)) = text.parse() {
        return Some(bytes.iter().fold(0, |number, &byte| number << 8 | u128::from(byte)));
    }
    if let Ok(ip) = text.parse::<Ipv6Addr>() {
        return Some(ip.to_bits());
    }
    match text.strip_prefix("0x") {
        Some(digits) => u128::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Formats a value of 32, 48 or 128 bits as an address, all others as numbers.
pub(super) fn write(bytes: &[u8], bits: i32) -> Value {
    let number = bytes.iter().fold(0u128, |number, &byte| number << 8 | u128::from(byte));
    match bits {
        IPV4_BITS => Ipv4Addr::from_bits(number as u32).to_string().into(),
        MAC_BITS => {
            let [.., a, b, c, d, e, f] = number.to_be_bytes();
            Mac([a, b, c, d, e, f]).to_string().into()
        }
        IPV6_BITS => Ipv6Addr::from_bits(number).to_string().into(),
        _ => u64::try_from(number).map_or_else(|_| format!("{number:#x}").into(), Value::from),
    }
}
