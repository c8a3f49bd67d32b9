//! One StreamChannel: handles arbitration, packet-outs and acknowledgements. [`super::notifications`] sends the data
//! plane's messages.

use super::admission::CallGuard;
use super::device::{DECODE_ALLOWANCE, Device};
use super::sessions::Outbound;
use super::status::SPACE;
use super::sync::lock;
use p4runtime::arbitration::{ArbitrationError, ClientId};
use p4runtime::google::rpc::Code;
use p4runtime::p4::v1::stream_error::Details;
use p4runtime::p4::v1::stream_message_request::Update as Request;
use p4runtime::p4::v1::{
    DigestListAck, DigestListAckError, MasterArbitrationUpdate, PacketOut, PacketOutError, StreamError,
    StreamMessageRequest, StreamOtherError,
};
use p4runtime::received::Received;
use prost::Message;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tonic::{Status, Streaming};
use weir_switch::control::ControlError;
use weir_switch::driver::DataplaneError;

/// Time that the final status may wait for a client that reads slowly.
const FINAL_STATUS_TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum frame length of a packet-out; an IPv4 packet cannot be longer.
const MAX_FRAME_LEN: usize = 1 << 16;
/// Maximum size in bytes of a packet-out that an error repeats: a jumbo frame with its header.
const MAX_ECHOED_PACKET: usize = 9 << 10;
/// Number of attempts to pass a packet-out to a busy data plane, with a pause of `PACKET_OUT_RETRY_DELAY` before
/// each. The stream is not read meanwhile, which slows the client down.
const PACKET_OUT_RETRIES: u32 = 100;
const PACKET_OUT_RETRY_DELAY: Duration = Duration::from_millis(1);
/// Number of attempts to repeat a bid whose election id is in use, with a pause of `DUPLICATE_RETRY_DELAY` before each.
/// Many clients close their stream and at once open another with the same id. The end of the first may be handled after
/// the bid of the second, and clients such as the library of the p4 tutorials then wait forever.
const DUPLICATE_RETRIES: u32 = 200;
const DUPLICATE_RETRY_DELAY: Duration = Duration::from_millis(5);

/// Serves a stream until it ends.
pub(super) async fn serve(
    device: Arc<Device>,
    mut inbound: Streaming<Received<StreamMessageRequest>>,
    queue: mpsc::Sender<Outbound>,
    call: Option<Arc<CallGuard>>,
) {
    let (client, ended) = lock(&device.sessions).open(queue.clone());
    let status = run(&device, client, &mut inbound, ended, &queue, call.as_deref()).await;
    {
        let mut sessions = lock(&device.sessions);
        let previous = sessions.arbitration.primaries();
        sessions.close(client);
        device.on_primary_change(&sessions, &previous);
    }
    if let Some(status) = status {
        // If the client does not accept the status, dropping the queue ends its stream.
        let _ = queue.send_timeout(Err(status), FINAL_STATUS_TIMEOUT).await;
    }
}

/// Processes the messages of a stream. Returns the status with which it must end; `None` if the client ended it.
async fn run(
    device: &Device,
    client: ClientId,
    inbound: &mut Streaming<Received<StreamMessageRequest>>,
    mut ended: oneshot::Receiver<Status>,
    queue: &mpsc::Sender<Outbound>,
    call: Option<&CallGuard>,
) -> Option<Status> {
    loop {
        let message = tokio::select! {
            biased;
            status = &mut ended => return status.ok(),
            () = queue.closed() => return None,
            message = inbound.message() => message,
        };
        let Ok(Some(message)) = message else { return None };
        let message = match device.decode(message, |message| message.decode(DECODE_ALLOWANCE)).await {
            Ok(message) => message,
            Err(status) => return Some(status),
        };
        let outcome = match message.update {
            Some(Request::Arbitration(bid)) => {
                if let Err(error) = arbitrate(device, client, &bid).await {
                    return Some(error.into());
                }
                call.inspect(|call| call.mark_arbitrating());
                Ok(())
            }
            Some(Request::Packet(packet)) => packet_out(device, client, packet).await,
            Some(Request::DigestAck(ack)) => digest_ack(device, client, ack),
            Some(Request::Other(_)) => {
                let details = Details::Other(StreamOtherError::default());
                Err(error(Code::Unimplemented, "this stream message is not supported", details))
            }
            None => {
                let details = Details::Other(StreamOtherError::default());
                Err(error(Code::InvalidArgument, "the message is empty", details))
            }
        };
        if let Err(error) = outcome {
            lock(&device.sessions).send_error(client, error);
        }
    }
}

async fn arbitrate(
    device: &Device,
    client: ClientId,
    bid: &MasterArbitrationUpdate,
) -> Result<(), ArbitrationError> {
    let mut outcome = arbitrate_once(device, client, bid);
    for _ in 0..DUPLICATE_RETRIES {
        if !matches!(outcome, Err(ArbitrationError::Duplicate { .. })) {
            break;
        }
        tokio::time::sleep(DUPLICATE_RETRY_DELAY).await;
        outcome = arbitrate_once(device, client, bid);
    }
    outcome
}

fn arbitrate_once(
    device: &Device,
    client: ClientId,
    bid: &MasterArbitrationUpdate,
) -> Result<(), ArbitrationError> {
    let mut sessions = lock(&device.sessions);
    let previous = sessions.arbitration.primaries();
    let outcome = sessions.arbitrate(client, bid);
    device.on_primary_change(&sessions, &previous);
    outcome
}

async fn packet_out(device: &Device, client: ClientId, packet: PacketOut) -> Result<(), StreamError> {
    let frame = match frame(device, client, &packet) {
        Ok(frame) => frame,
        Err(failure) => {
            return Err(error(failure.code, failure.message, packet_out_details(packet)));
        }
    };
    let mut sent = device.dataplane.packet_out(frame.clone());
    for _ in 0..PACKET_OUT_RETRIES {
        if sent != Err(DataplaneError::Busy) {
            break;
        }
        tokio::time::sleep(PACKET_OUT_RETRY_DELAY).await;
        sent = device.dataplane.packet_out(frame.clone());
    }
    sent.map_err(|failure| {
        let code = match failure {
            DataplaneError::NoCpuPort => Code::FailedPrecondition,
            DataplaneError::Busy => Code::ResourceExhausted,
            _ => Code::Unavailable,
        };
        error(code, failure.to_string(), packet_out_details(packet))
    })
}

/// Returns error details with the packet-out. A large one is omitted, since errors are queued.
fn packet_out_details(packet: PacketOut) -> Details {
    let packet_out = Some(packet).filter(|packet| packet.encoded_len() <= MAX_ECHOED_PACKET);
    Details::PacketOut(PacketOutError { packet_out })
}

/// Checks a packet-out and encodes its frame.
fn frame(device: &Device, client: ClientId, packet: &PacketOut) -> Result<Vec<u8>, ControlError> {
    require_primary(device, client)?;
    let headers = lock(&device.headers).clone();
    let no_pipeline = || ControlError::new(Code::FailedPrecondition, "no forwarding pipeline config is set");
    let frame = headers.ok_or_else(no_pipeline)?.packet_out.packet_out(packet)?;
    if frame.len() > MAX_FRAME_LEN {
        let message = format!("a frame of {} bytes is longer than {MAX_FRAME_LEN}", frame.len());
        return Err(ControlError::new(Code::InvalidArgument, message));
    }
    Ok(frame)
}

fn digest_ack(device: &Device, client: ClientId, ack: DigestListAck) -> Result<(), StreamError> {
    let acknowledged = require_primary(device, client).and_then(|()| lock(&device.digests).acknowledge(&ack));
    acknowledged.map_err(|failure| {
        let details = Details::DigestListAck(DigestListAckError { digest_list_ack: Some(ack) });
        error(failure.code, failure.message, details)
    })
}

fn require_primary(device: &Device, client: ClientId) -> Result<(), ControlError> {
    match lock(&device.sessions).arbitration.is_primary(client) {
        true => Ok(()),
        false => Err(ControlError::new(Code::PermissionDenied, "Not primary")),
    }
}

/// Creates the message for a request of the stream that failed; the stream continues.
fn error(code: Code, message: impl Into<String>, details: Details) -> StreamError {
    StreamError {
        canonical_code: code.into(),
        message: message.into(),
        space: SPACE.into(),
        code: code.into(),
        details: Some(details),
    }
}
