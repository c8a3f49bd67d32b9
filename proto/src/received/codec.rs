//! The codec of a gRPC server that does not decode requests.

use super::encoded::Received;
use prost::Message;
use prost::bytes::Buf;
use std::marker::PhantomData;
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder};
use tonic_prost::ProstEncoder;

/// Passes requests on as received, without copying, and encodes responses.
#[derive(Debug)]
pub struct ReceivedCodec<T, U>(PhantomData<fn() -> (T, U)>);

impl<T, U> Default for ReceivedCodec<T, U> {
    fn default() -> ReceivedCodec<T, U> {
        ReceivedCodec(PhantomData)
    }
}

impl<T: Message + 'static, M: 'static> Codec for ReceivedCodec<T, Received<M>> {
    type Encode = T;
    type Decode = Received<M>;
    type Encoder = ProstEncoder<T>;
    type Decoder = ReceivedDecoder<M>;

    fn encoder(&mut self) -> ProstEncoder<T> {
        ProstEncoder::default()
    }
    fn decoder(&mut self) -> ReceivedDecoder<M> {
        ReceivedDecoder(PhantomData)
    }
}

/// The decoding half of [`ReceivedCodec`].
#[derive(Debug)]
pub struct ReceivedDecoder<M>(PhantomData<fn() -> M>);

impl<M> Decoder for ReceivedDecoder<M> {
    type Item = Received<M>;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Received<M>>, Status> {
        Ok(Some(Received::new(buffer.copy_to_bytes(buffer.remaining()))))
    }
}
