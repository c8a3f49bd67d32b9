//! Controller headers: the encoding of packet-in and packet-out metadata in front of a frame. Does no I/O.

use p4runtime::p4::config::v1::ControllerPacketMetadata;
use p4runtime::p4::v1::{PacketIn, PacketMetadata, PacketOut};
use p4runtime::p4info::{Index, Object};
use p4runtime::value::{bit_length, canonical};
use weir_switch::control::ControlError;

/// Maximum width of a controller header in bits: more than any program needs; it rejects absurd P4Info files.
const MAX_BITS: u32 = 8 * 256;

/// The fields of a controller header, in order. Without fields, frames have no header.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ControllerHeader {
    fields: Vec<Field>,
    bytes: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Field {
    id: u32,
    name: String,
    bits: u32,
}

impl ControllerHeader {
    /// Returns the header `packet_in` or `packet_out` of a program; without fields if the program has none.
    ///
    /// # Errors
    ///
    /// A field has width 0 or a duplicate id, or the header is too wide.
    pub(super) fn from_p4info(index: &Index, name: &str) -> Result<ControllerHeader, ControlError> {
        let header = index.controller_headers.iter().find(|header| header.preamble().name == name);
        header.map_or(Ok(ControllerHeader::default()), ControllerHeader::new)
    }

    fn new(info: &ControllerPacketMetadata) -> Result<ControllerHeader, ControlError> {
        let header = &info.preamble().name;
        let (mut fields, mut bits) = (Vec::new(), 0u32);
        for field in &info.metadata {
            let width = u32::try_from(field.bitwidth).ok().filter(|width| (1..=MAX_BITS).contains(width));
            let reject =
                |what: &str| Err(ControlError::invalid(format!("{header}, field {}: {what}", field.name)));
            let Some(width) = width else {
                return reject(&format!("a width of {} bits is not supported", field.bitwidth));
            };
            bits += width;
            if bits > MAX_BITS {
                return reject(&format!("the header is wider than {MAX_BITS} bits"));
            }
            if fields.iter().any(|other: &Field| other.id == field.id) {
                return reject(&format!("id {} is taken already", field.id));
            }
            fields.push(Field { id: field.id, name: field.name.clone(), bits: width });
        }
        Ok(ControllerHeader { fields, bytes: bits.div_ceil(8) as usize })
    }

    /// Decodes a frame from the CPU port; `None` if it is shorter than the header.
    pub(super) fn packet_in(&self, frame: &[u8]) -> Option<PacketIn> {
        let (header, payload) = frame.split_at_checked(self.bytes)?;
        let mut offset = 0;
        let metadata = self.fields.iter().map(|field| {
            let value = canonical(&take_bits(header, offset, field.bits));
            offset += field.bits;
            PacketMetadata { metadata_id: field.id, value }
        });
        Some(PacketIn { metadata: metadata.collect(), payload: payload.to_vec() })
    }

    /// Encodes the frame to inject at the CPU port. As in BMv2, omitted fields are 0.
    ///
    /// # Errors
    ///
    /// A field is unknown, duplicate, or does not fit its width.
    pub(super) fn packet_out(&self, packet: &PacketOut) -> Result<Vec<u8>, ControlError> {
        let mut frame = vec![0; self.bytes];
        for (i, given) in packet.metadata.iter().enumerate() {
            let id = given.metadata_id;
            if packet.metadata[..i].iter().any(|other| other.metadata_id == id) {
                return Err(ControlError::invalid(format!("metadata {id} is given twice")));
            }
            let mut offset = 0;
            let known = self.fields.iter().find(|field| {
                let is_match = field.id == id;
                // The search stops at the match, so `offset` is that of the field.
                offset += if is_match { 0 } else { field.bits };
                is_match
            });
            let field =
                known.ok_or_else(|| ControlError::invalid(format!("packet_out has no metadata {id}")))?;
            if bit_length(&given.value) > field.bits {
                return Err(ControlError::invalid(format!(
                    "metadata {}: the value does not fit {} bits",
                    field.name, field.bits
                )));
            }
            put_bits(&mut frame, offset, field.bits, &given.value);
        }
        frame.extend_from_slice(&packet.payload);
        Ok(frame)
    }
}

/// Returns the bit with this index; bit 0 is the highest bit of the first byte.
fn bit(bytes: &[u8], index: u32) -> bool {
    bytes[index as usize / 8] >> (7 - index % 8) & 1 == 1
}

/// Returns `bits` bits of a header from a bit offset, right-aligned.
fn take_bits(header: &[u8], offset: u32, bits: u32) -> Vec<u8> {
    let mut value = vec![0; bits.div_ceil(8) as usize];
    let shift = value.len() as u32 * 8 - bits;
    for index in (0..bits).filter(|index| bit(header, offset + index)) {
        let to = shift + index;
        value[to as usize / 8] |= 1 << (7 - to % 8);
    }
    value
}

/// Writes the last `bits` bits of a value of any length into a zeroed header.
fn put_bits(header: &mut [u8], offset: u32, bits: u32, value: &[u8]) {
    let len = u32::try_from(value.len() * 8).unwrap_or(u32::MAX);
    for index in 0..bits.min(len) {
        if bit(value, len - 1 - index) {
            let to = offset + bits - 1 - index;
            header[to as usize / 8] |= 1 << (7 - to % 8);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn header(widths: &[i32]) -> Result<ControllerHeader, ControlError> {
        let fields = (1..)
            .zip(widths)
            .map(|(id, bits)| format!("metadata {{ id: {id} name: 'f{id}' bitwidth: {bits} }}"));
        let fields: String = fields.collect();
        let text =
            format!("controller_packet_metadata {{ preamble {{ id: 1 name: 'packet_out' }} {fields} }}");
        ControllerHeader::from_p4info(&Index::from_text(&text).unwrap(), "packet_out")
    }

    #[test]
    fn fields_are_packed_without_padding() {
        let header = header(&[9, 7, 16]).unwrap();
        let packet = header.packet_in(&[0xff, 0x81, 0, 5, 0xaa]).unwrap();
        let values: Vec<_> =
            packet.metadata.iter().map(|field| (field.metadata_id, field.value.as_slice())).collect();
        assert_eq!(values, [(1, &[1, 0xff][..]), (2, &[1]), (3, &[5])]);
        assert_eq!(packet.payload, [0xaa]);
        assert_eq!(header.packet_in(&[0; 3]), None);
    }

    #[test]
    fn invalid_metadata_is_rejected_and_omitted_fields_are_0() {
        let header = header(&[9, 7]).unwrap();
        let packet = |given: &[(u32, &[u8])]| {
            let one =
                |&(metadata_id, value): &(u32, &[u8])| PacketMetadata { metadata_id, value: value.to_vec() };
            header.packet_out(&PacketOut { payload: vec![7], metadata: given.iter().map(one).collect() })
        };
        assert_eq!(packet(&[]).unwrap(), [0, 0, 7]);
        assert_eq!(packet(&[(1, &[0, 0, 1, 0xfe]), (2, &[])]).unwrap(), [0xff, 0, 7]);
        for (given, expected) in [
            (&[(3, &[1][..])][..], "no metadata 3"),
            (&[(1, &[2, 0])], "f1: the value does not fit 9 bits"),
            (&[(1, &[1]), (1, &[1])], "metadata 1 is given twice"),
        ] {
            let error = packet(given).unwrap_err();
            assert!(error.message.contains(expected), "{error}");
        }
    }

    #[test]
    fn an_invalid_header_is_rejected() {
        for widths in [&[0][..], &[-8], &[i32::MAX], &[2040, 9]] {
            assert!(header(widths).is_err(), "{widths:?}");
        }
        assert_eq!(
            ControllerHeader::from_p4info(&Index::from_text("").unwrap(), "packet_in").unwrap().bytes,
            0
        );
    }

    proptest! {
        /// Metadata and payload that go out in front of a packet are read back from it.
        #[test]
        fn packet_out_and_packet_in_are_inverse(fields in prop::collection::vec((1u32..70, any::<u128>()), 0..9), payload: Vec<u8>) {
            let widths: Vec<i32> = fields.iter().map(|(bits, _)| *bits as i32).collect();
            let header = header(&widths).unwrap();
            let metadata: Vec<PacketMetadata> = (1..).zip(&fields).map(|(metadata_id, (bits, value))| {
                PacketMetadata { metadata_id, value: p4runtime::value::from_uint(value & ((1 << bits) - 1)) }
            }).collect();
            let packet = PacketOut { payload: payload.clone(), metadata: metadata.clone() };
            let back = header.packet_in(&header.packet_out(&packet).unwrap()).unwrap();
            prop_assert_eq!(back, PacketIn { payload, metadata });
        }
    }
}
