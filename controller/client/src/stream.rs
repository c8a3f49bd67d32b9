//! A switch's stream: who may write, and packets for and from the CPU port.

use super::ClientError;
use p4runtime::p4::v1::stream_error::Details;
use p4runtime::p4::v1::stream_message_request::Update as Ask;
use p4runtime::p4::v1::stream_message_response::Update as Answer;
use p4runtime::p4::v1::{
    PacketIn, PacketOut, StreamError, StreamMessageRequest, StreamMessageResponse, Uint128,
};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tonic::Streaming;

/// The result of this controller's election, which decides whether it may write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mastership {
    /// Yes.
    Primary,
    /// Another one may.
    Backup {
        /// Its election id, 0 if there is none.
        primary: Uint128,
    },
}

/// A message of the stream, as far as it concerns a controller.
#[derive(Clone, Debug, PartialEq)]
pub enum StreamEvent {
    /// The election has a result.
    Standing(Mastership),
    /// A packet for the CPU port.
    Packet(PacketIn),
    /// A packet-out was refused.
    PacketRefused,
    /// Something else, such as digests.
    Other,
}

/// The stream. The switch holds its client for the primary as long as it lives.
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
            Ok(None) => Err(ClientError::Closed("it ended".into())),
            Err(status) => Err(ClientError::call("StreamChannel", status)),
        }
    }

    pub(super) async fn standing(&mut self) -> Result<Mastership, ClientError> {
        loop {
            if let StreamEvent::Standing(standing) = self.next().await? {
                return Ok(standing);
            }
        }
    }

    /// Closes the stream and waits, up to `limit`, until the switch has closed it too, so that it does not
    /// refuse the next controller with the same election id. The stream stays open as long as a
    /// [`PacketSender`] exists.
    pub async fn close(self, limit: Duration) {
        let Stream { requests: asks, responses: mut answers } = self;
        drop(asks);
        let ended = async { while let Ok(Some(_)) = answers.message().await {} };
        // A switch that does not answer keeps the stream no longer than its connection.
        let _ = timeout(limit, ended).await;
    }

    /// Returns a sender of packet-outs, which keeps the stream open as long as it exists.
    pub fn packets(&self) -> PacketSender {
        PacketSender(self.requests.clone())
    }
}

/// Sends packets out by a switch's ports.
#[derive(Clone)]
pub struct PacketSender(mpsc::Sender<StreamMessageRequest>);

impl PacketSender {
    /// Queues a packet-out. Returns `false`, and drops it, if the queue is full or the stream has ended.
    pub fn send(&self, packet: PacketOut) -> bool {
        self.0.try_send(StreamMessageRequest { update: Some(Ask::Packet(packet)) }).is_ok()
    }
}

fn event(message: StreamMessageResponse) -> StreamEvent {
    match message.update {
        Some(Answer::Arbitration(it)) => {
            let is_primary = it.status.is_none_or(|status| status.code == 0);
            let primary = it.election_id.unwrap_or_default();
            StreamEvent::Standing(if is_primary {
                Mastership::Primary
            } else {
                Mastership::Backup { primary }
            })
        }
        Some(Answer::Packet(packet)) => StreamEvent::Packet(packet),
        Some(Answer::Error(StreamError { details: Some(Details::PacketOut(_)), .. })) => {
            StreamEvent::PacketRefused
        }
        _ => StreamEvent::Other,
    }
}
