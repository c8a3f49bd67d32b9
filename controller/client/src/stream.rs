//! The StreamChannel of a switch: arbitration, packet-ins and packet-outs.

use super::ClientError;
use p4runtime::p4::v1::stream_error::Details;
use p4runtime::p4::v1::stream_message_request::Update as RequestUpdate;
use p4runtime::p4::v1::stream_message_response::Update as ResponseUpdate;
use p4runtime::p4::v1::{
    PacketIn, PacketOut, StreamError, StreamMessageRequest, StreamMessageResponse, Uint128,
};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tonic::Streaming;

/// Mastership of this controller after arbitration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mastership {
    Primary,
    Backup {
        /// Election id of the primary; 0 if there is none.
        primary: Uint128,
    },
}

/// A message that arrived on the stream.
#[derive(Clone, Debug, PartialEq)]
pub enum StreamEvent {
    /// The result of arbitration, or a change of it.
    Mastership(Mastership),
    Packet(PacketIn),
    /// The switch rejected a packet-out.
    PacketOutRejected,
    /// Another message, such as a digest.
    Other,
}

/// An open StreamChannel. The client stays primary until the stream is closed or another client bids a higher election
/// id.
pub struct Stream {
    requests: mpsc::Sender<StreamMessageRequest>,
    responses: Streaming<StreamMessageResponse>,
}

impl Stream {
    pub(super) fn new(
        requests: mpsc::Sender<StreamMessageRequest>,
        responses: Streaming<StreamMessageResponse>,
    ) -> Stream {
        Stream { requests, responses }
    }

    /// Waits for the next message.
    ///
    /// # Errors
    ///
    /// The server closed the stream, or the connection broke. No message follows an error.
    pub async fn next(&mut self) -> Result<StreamEvent, ClientError> {
        match self.responses.message().await {
            Ok(Some(message)) => Ok(event(message)),
            Ok(None) => Err(ClientError::Closed("end of stream".into())),
            Err(status) => Err(ClientError::call("StreamChannel", status)),
        }
    }

    /// Waits for the next result of arbitration; skips other messages.
    pub(super) async fn mastership(&mut self) -> Result<Mastership, ClientError> {
        loop {
            if let StreamEvent::Mastership(mastership) = self.next().await? {
                return Ok(mastership);
            }
        }
    }

    /// Closes the stream and waits, at most `limit`, until the switch has closed it too. Otherwise the switch could
    /// reject the next controller with the same election id. The stream stays open as long as a [`PacketSender`]
    /// exists.
    pub async fn close(self, limit: Duration) {
        let Stream { requests, mut responses } = self;
        drop(requests);
        let ended = async { while let Ok(Some(_)) = responses.message().await {} };
        // If the switch does not reply, dropping the connection ends the stream.
        let _ = timeout(limit, ended).await;
    }

    /// Returns a sender of packet-outs. The stream stays open as long as the sender exists.
    pub fn packet_sender(&self) -> PacketSender {
        PacketSender(self.requests.clone())
    }
}

/// Sends packet-outs on a stream.
#[derive(Clone)]
pub struct PacketSender(mpsc::Sender<StreamMessageRequest>);

impl PacketSender {
    /// Queues a packet-out. Returns `false` and drops it if the queue is full or the stream has ended.
    pub fn send(&self, packet: PacketOut) -> bool {
        self.0.try_send(StreamMessageRequest { update: Some(RequestUpdate::Packet(packet)) }).is_ok()
    }
}

/// Converts a message of the switch.
fn event(message: StreamMessageResponse) -> StreamEvent {
    match message.update {
        Some(ResponseUpdate::Arbitration(arbitration)) => {
            // P4Runtime: status OK, or no status, means primary.
            let is_primary = arbitration.status.is_none_or(|status| status.code == 0);
            let primary = arbitration.election_id.unwrap_or_default();
            StreamEvent::Mastership(if is_primary {
                Mastership::Primary
            } else {
                Mastership::Backup { primary }
            })
        }
        Some(ResponseUpdate::Packet(packet)) => StreamEvent::Packet(packet),
        Some(ResponseUpdate::Error(StreamError { details: Some(Details::PacketOut(_)), .. })) => {
            StreamEvent::PacketOutRejected
        }
        _ => StreamEvent::Other,
    }
}
