//! Reads the fields of an encoded message without copying.

use prost::encoding::{WireType, decode_key, decode_varint};

/// The bytes are not an encoded message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Malformed(pub String);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value<'a> {
    /// A number of any type; the value is skipped.
    Number,
    /// A string, bytes, a message, or packed numbers.
    Bytes(&'a [u8]),
}

/// A field in its encoded form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Field<'a> {
    pub number: u32,
    pub value: Value<'a>,
    /// The whole field, including key and length.
    pub encoded: &'a [u8],
}

/// Reads the next field and advances `message`; `None` at the end.
///
/// # Errors
///
/// The bytes are not a field, or the field exceeds the message.
pub(super) fn next_field<'a>(message: &mut &'a [u8]) -> Result<Option<Field<'a>>, Malformed> {
    let start = *message;
    if start.is_empty() {
        return Ok(None);
    }
    let malformed = |error: prost::DecodeError| Malformed(error.to_string());
    let (number, wire_type) = decode_key(message).map_err(malformed)?;
    let value = match wire_type {
        WireType::Varint => decode_varint(message).map(|_| Value::Number).map_err(malformed)?,
        WireType::SixtyFourBit => split_off(message, 8).map(|_| Value::Number)?,
        WireType::ThirtyTwoBit => split_off(message, 4).map(|_| Value::Number)?,
        WireType::LengthDelimited => {
            let len = decode_varint(message).map_err(malformed)?;
            Value::Bytes(split_off(message, len)?)
        }
        WireType::StartGroup | WireType::EndGroup => {
            return Err(Malformed("groups are not supported".into()));
        }
    };
    Ok(Some(Field { number, value, encoded: &start[..start.len() - message.len()] }))
}

/// Splits `len` bytes off the front of the message.
fn split_off<'a>(message: &mut &'a [u8], len: u64) -> Result<&'a [u8], Malformed> {
    let split = usize::try_from(len).ok().and_then(|len| message.split_at_checked(len));
    let (front, rest) = split.ok_or_else(|| Malformed("a field exceeds its message".into()))?;
    *message = rest;
    Ok(front)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(mut message: &[u8]) -> Result<Vec<(u32, usize)>, Malformed> {
        let mut found = Vec::new();
        while let Some(field) = next_field(&mut message)? {
            found.push((field.number, field.encoded.len()));
        }
        Ok(found)
    }

    #[test]
    fn fields_are_read_in_order() {
        // A varint, 8 bytes, 4 bytes, and two bytes of text.
        let message = [8, 0x96, 1, 17, 1, 2, 3, 4, 5, 6, 7, 8, 29, 1, 2, 3, 4, 34, 2, b'a', b'b'];
        assert_eq!(numbers(&message), Ok(vec![(1, 3), (2, 9), (3, 5), (4, 4)]));
        let field = next_field(&mut &message[17..]).unwrap().unwrap();
        assert_eq!(field.value, Value::Bytes(b"ab"));
    }

    #[test]
    fn malformed_messages_are_rejected() {
        // A length beyond the message, a missing length, an unterminated varint, field 0, a group.
        for message in [&[34, 3, 1, 2][..], &[34], &[8, 0x80], &[0, 1], &[11], &[17, 1], &[0xff; 11]] {
            assert!(numbers(message).is_err(), "{message:?}");
        }
        let longest = [&[34][..], &[0xff; 9], &[1]].concat();
        assert!(numbers(&longest).is_err(), "a length of 2^64 - 1");
    }
}
