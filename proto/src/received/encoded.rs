//! Messages that are still encoded.

use super::cost::{self, CostError, MessageLayout};
use super::error::DecodeError;
use super::wire::{Malformed, Value, next_field};
use prost::bytes::Bytes;
use prost::{Message, Name};
use std::marker::PhantomData;

/// A received message of type `M` that is still encoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received<M> {
    bytes: Bytes,
    message: PhantomData<fn() -> M>,
}

impl<M> Received<M> {
    /// Wraps the bytes of a message without checking them.
    pub fn new(bytes: Bytes) -> Received<M> {
        Received { bytes, message: PhantomData }
    }

    /// Returns the encoded size in bytes.
    pub fn encoded_len(&self) -> usize {
        self.bytes.len()
    }
}

impl<M: Message + Name + Default> Received<M> {
    /// Decodes the message. It may need `allowance` bytes of memory in addition to its encoded size.
    ///
    /// # Errors
    ///
    /// [`DecodeError::TooLarge`]: it needs more memory; nothing was allocated. [`DecodeError::Malformed`]: the bytes
    /// are not such a message.
    pub fn decode(&self, allowance: usize) -> Result<M, DecodeError> {
        check::<M>(&self.bytes, cost::layout(&M::full_name()), allowance)?;
        decode(self.bytes.clone())
    }

    /// Decodes the message without the elements of its repeated message field `number`, which the caller decodes one
    /// at a time. The rest may have at most `allowance` encoded bytes. The rest, and each element, may need
    /// `allowance` bytes of memory in addition to its encoded size.
    ///
    /// # Errors
    ///
    /// See [`Self::decode`]; [`DecodeError::TooMany`] if there are more than `max` elements.
    pub fn split<P: Message + Name + Default>(
        &self,
        number: u32,
        max: usize,
        allowance: usize,
    ) -> Result<(M, Parts<P>), DecodeError> {
        let (layout, part_layout) = (cost::layout(&M::full_name()), cost::layout(&P::full_name()));
        let (mut rest, mut count) = (Vec::new(), 0);
        let mut message = &self.bytes[..];
        while let Some(field) = next_field(&mut message).map_err(malformed::<M>)? {
            match field.value {
                Value::Bytes(part) if field.number == number => {
                    count += 1;
                    if count > max {
                        return Err(DecodeError::TooMany { element: P::NAME, max });
                    }
                    // Elements are decoded one at a time, so that each may use the whole allowance.
                    check::<P>(part, part_layout, allowance)?;
                }
                _ if rest.len() + field.encoded.len() > allowance => {
                    let bytes = self.bytes.len();
                    return Err(DecodeError::TooLarge { message: M::NAME, bytes, limit: allowance });
                }
                _ => rest.extend_from_slice(field.encoded),
            }
        }
        check::<M>(&rest, layout, allowance)?;
        let parts = Parts { bytes: self.bytes.clone(), number, remaining: count, part: PhantomData };
        Ok((decode(rest.into())?, parts))
    }
}

/// The elements of a repeated field, decoded on iteration.
#[derive(Clone, Debug)]
pub struct Parts<P> {
    /// The rest of the message, including other fields, which are skipped.
    bytes: Bytes,
    /// Number of the repeated field.
    number: u32,
    remaining: usize,
    part: PhantomData<fn() -> P>,
}

impl<P: Message + Name + Default> Parts<P> {
    fn next_encoded(&mut self) -> Option<Bytes> {
        let mut rest = &self.bytes[..];
        // Parsing cannot fail, since `split` has read the whole message.
        while let Ok(Some(field)) = next_field(&mut rest) {
            if let Value::Bytes(part) = field.value
                && field.number == self.number
            {
                let part = self.bytes.slice_ref(part);
                self.bytes = self.bytes.slice_ref(rest);
                self.remaining -= 1;
                return Some(part);
            }
        }
        None
    }

    /// Decodes up to `max` further elements, and stops when the decoded elements together need `memory` bytes or
    /// more. An element is [`DecodeError::Malformed`] if its bytes are not a message of type `P`.
    pub fn decode_some(&mut self, max: usize, memory: usize) -> Vec<Result<P, DecodeError>> {
        let layout = cost::layout(&P::full_name());
        let (mut decoded, mut used) = (Vec::with_capacity(max.min(self.remaining)), 0);
        while decoded.len() < max && used < memory {
            let Some(part) = self.next_encoded() else { break };
            used += layout.cost(&part, memory).unwrap_or(memory);
            decoded.push(decode(part));
        }
        decoded
    }
}

impl<P: Message + Name + Default> Iterator for Parts<P> {
    type Item = Result<P, DecodeError>;
    fn next(&mut self) -> Option<Result<P, DecodeError>> {
        self.next_encoded().map(decode)
    }
    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.remaining, Some(self.remaining))
    }
}

impl<P: Message + Name + Default> ExactSizeIterator for Parts<P> {}

/// A `ReadResponse` with encoded entities, which need about a tenth of the memory of decoded ones.
#[derive(Clone, PartialEq, Message)]
pub struct EncodedReadResponse {
    /// Encoded messages of type `Entity`.
    #[prost(bytes = "bytes", repeated, tag = "1")]
    pub entities: Vec<Bytes>,
}

fn malformed<M: Name>(Malformed(reason): Malformed) -> DecodeError {
    DecodeError::Malformed { message: M::NAME, reason }
}

fn check<M: Name>(bytes: &[u8], layout: &MessageLayout, allowance: usize) -> Result<(), DecodeError> {
    let limit = bytes.len().saturating_add(allowance);
    match layout.cost(bytes, limit) {
        Ok(_) => Ok(()),
        Err(CostError::OverLimit) => {
            Err(DecodeError::TooLarge { message: M::NAME, bytes: bytes.len(), limit })
        }
        Err(CostError::Malformed(reason)) => Err(malformed::<M>(reason)),
    }
}

fn decode<M: Message + Name + Default>(bytes: Bytes) -> Result<M, DecodeError> {
    M::decode(bytes).map_err(|error| DecodeError::Malformed { message: M::NAME, reason: error.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::p4::v1::{Entity, PacketOut, ReadResponse, Update, WriteRequest};

    const UPDATES: u32 = 4;

    fn received(updates: Vec<Update>) -> Received<WriteRequest> {
        let request = WriteRequest { device_id: 7, role: "r".into(), updates, ..Default::default() };
        Received::new(request.encode_to_vec().into())
    }

    fn update(kind: i32) -> Update {
        Update { r#type: kind, entity: None }
    }

    #[test]
    fn elements_are_decoded_in_order() {
        let updates: Vec<Update> = (0..10).map(update).collect();
        let received = received(updates.clone());
        let (request, mut parts) = received.split::<Update>(UPDATES, 10, 1 << 20).unwrap();
        assert_eq!((request.device_id, request.role.as_str(), request.updates), (7, "r", vec![]));
        let some: Result<Vec<Update>, DecodeError> = parts.decode_some(4, 1 << 20).into_iter().collect();
        assert_eq!((some.unwrap(), parts.len()), (updates[..4].to_vec(), 6));
        assert_eq!(parts.decode_some(4, 1).len(), 1, "no more than the memory allows");
        let rest: Result<Vec<Update>, DecodeError> = parts.collect();
        assert_eq!(rest.unwrap(), updates[5..]);
        assert_eq!(received.decode(1 << 20).unwrap().updates, updates);
    }

    #[test]
    fn requests_beyond_a_limit_are_rejected() {
        let many = received((0..11).map(update).collect());
        assert_eq!(
            many.split::<Update>(UPDATES, 10, 1 << 20).unwrap_err(),
            DecodeError::TooMany { element: "Update", max: 10 }
        );
        let status = tonic::Status::from(many.decode(1000).unwrap_err());
        assert_eq!(status.code(), tonic::Code::ResourceExhausted);
        // Metadata: `repeated PacketMetadata metadata = 2` of 2 bytes each.
        let packet = Received::<PacketOut>::new([0x12, 0].repeat(10_000).into());
        assert!(matches!(packet.decode(100_000), Err(DecodeError::TooLarge { bytes: 20_000, .. })));
        assert_eq!(packet.decode(10 << 20).unwrap().metadata.len(), 10_000);
    }

    #[test]
    fn the_size_of_other_fields_is_limited() {
        let request = WriteRequest { role: "r".repeat(5000), ..Default::default() };
        let received = Received::<WriteRequest>::new(request.encode_to_vec().into());
        assert!(received.split::<Update>(UPDATES, 10, 10_000).is_ok());
        assert!(matches!(received.split::<Update>(UPDATES, 10, 4000), Err(DecodeError::TooLarge { .. })));
    }

    #[test]
    fn encoded_entities_are_read_as_entities() {
        let entity = Entity { entity: Some(crate::p4::v1::entity::Entity::TableEntry(Default::default())) };
        let encoded = EncodedReadResponse { entities: vec![entity.encode_to_vec().into(); 2] };
        let read = ReadResponse::decode(encoded.encode_to_vec().as_slice()).unwrap();
        assert_eq!(read.entities, [entity.clone(), entity]);
    }

    #[test]
    fn malformed_requests_are_rejected() {
        let malformed = Received::<WriteRequest>::new(vec![0x22, 9, 0xff].into());
        for error in [
            malformed.decode(1 << 20).unwrap_err(),
            malformed.split::<Update>(UPDATES, 10, 1 << 20).unwrap_err(),
        ] {
            assert_eq!(tonic::Status::from(error).code(), tonic::Code::Internal);
        }
        // The length of the role is valid, but its bytes are not UTF-8.
        let role = Received::<WriteRequest>::new(vec![0x32, 1, 0xff].into());
        assert!(matches!(role.split::<Update>(UPDATES, 10, 1 << 20), Err(DecodeError::Malformed { .. })));
    }
}
