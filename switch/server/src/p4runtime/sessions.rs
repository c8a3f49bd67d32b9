//! The open streams: who is told what, through a queue with a bound for each.

use p4runtime::arbitration::{Arbitration, ArbitrationError, ArbitrationNotification, ClientId};
use p4runtime::p4::v1::stream_message_response::Update;
use p4runtime::p4::v1::{MasterArbitrationUpdate, StreamError, StreamMessageResponse};
use std::collections::BTreeMap;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};
use tonic::Status;

/// Capacity, in messages, of the queue to a client. Further messages are dropped and counted until the client reads.
pub const STREAM_QUEUE_LEN: usize = 1024;

/// Errors of the stream are sent while this much room is left: other messages matter more.
const MIN_CAPACITY_FOR_ERRORS: usize = STREAM_QUEUE_LEN / 2;
/// The most streams at once, of clients that bid and of those that do not. One more ends the oldest without a bid.
pub const MAX_STREAMS: usize = 64;

/// A message for a client.
pub type Outbound = Result<StreamMessageResponse, Status>;

/// One stream.
struct StreamClient {
    queue: mpsc::Sender<Outbound>,
    /// Ends the stream with this status.
    end: oneshot::Sender<Status>,
    /// True if it is known already that it loses messages.
    overflowed: bool,
}

/// All streams of a device.
pub struct Sessions {
    pub arbitration: Arbitration,
    clients: BTreeMap<ClientId, StreamClient>,
    next: ClientId,
    /// Set when the server stops: nobody comes in any more.
    closed: bool,
}

impl Sessions {
    pub fn new(device: u64) -> Sessions {
        Sessions { arbitration: Arbitration::new(device), clients: BTreeMap::new(), next: 1, closed: false }
    }

    /// Registers a new stream. Returns its number, and a receiver of the status with which it has to end.
    pub fn open(&mut self, queue: mpsc::Sender<Outbound>) -> (ClientId, oneshot::Receiver<Status>) {
        let (end, ended) = oneshot::channel();
        let client = self.next;
        self.next += 1;
        // The stream of a client that does not receive it has ended already.
        if self.closed {
            let _ = end.send(stopping());
            return (client, ended);
        }
        if self.clients.len() >= MAX_STREAMS {
            // There are fewer clients with a bid than streams, so one without a bid is there: the oldest.
            let without = self.clients.keys().find(|&&client| !self.arbitration.has_bid(client)).copied();
            if let Some(oldest) = without.and_then(|client| self.clients.remove(&client)) {
                let reason = format!("{MAX_STREAMS} streams are open already, and this one has not bid");
                let _ = oldest.end.send(Status::resource_exhausted(reason));
            }
        }
        self.clients.insert(client, StreamClient { queue, end, overflowed: false });
        (client, ended)
    }

    /// Removes a client whose stream has ended.
    pub fn close(&mut self, client: ClientId) {
        self.clients.remove(&client);
        let notices = self.arbitration.leave(client);
        self.send_arbitration(notices);
    }

    /// Takes a bid of a client and tells all clients the result.
    ///
    /// # Errors
    ///
    /// As [`Arbitration::bid`](p4runtime::arbitration::Arbitration::bid).
    pub fn bid(&mut self, client: ClientId, bid: &MasterArbitrationUpdate) -> Result<(), ArbitrationError> {
        let notices = self.arbitration.bid(client, bid)?;
        self.send_arbitration(notices);
        Ok(())
    }

    /// Sends notifications about the primary, which must reach every client: a client without room for them is
    /// disconnected.
    fn send_arbitration(&mut self, notices: Vec<ArbitrationNotification>) {
        let mut notices = std::collections::VecDeque::from(notices);
        while let Some(ArbitrationNotification { to, update }) = notices.pop_front() {
            let Some(client) = self.clients.get(&to) else { continue };
            let told = client.queue.try_send(Ok(message(Update::Arbitration(update))));
            if let Err(TrySendError::Full(_)) = told {
                tracing::warn!(client = to, "a P4Runtime client that reads nothing is cut off");
                if let Some(client) = self.clients.remove(&to) {
                    let _ = client.end.send(Status::resource_exhausted("the client reads too slowly"));
                }
                notices.extend(self.arbitration.leave(to));
            }
        }
    }

    /// Sends a message to one client. Returns `false` if it was lost.
    pub fn send(&mut self, to: ClientId, update: Update) -> bool {
        let Some(client) = self.clients.get_mut(&to) else { return false };
        let sent = client.queue.try_send(Ok(message(update))).is_ok();
        if !sent && !client.overflowed {
            tracing::warn!(client = to, "a P4Runtime client reads too slowly: messages to it are dropped");
        }
        client.overflowed |= !sent;
        sent
    }

    /// Reports an error in a message to the client that sent it, if its queue has room.
    pub fn send_error(&mut self, to: ClientId, error: StreamError) {
        if self.clients.get(&to).is_some_and(|client| client.queue.capacity() > MIN_CAPACITY_FOR_ERRORS) {
            self.send(to, Update::Error(error));
        }
    }

    /// Sends a message to the primary. Returns `false` if there is no primary or the message was lost.
    pub fn send_to_primary(&mut self, update: Update) -> bool {
        self.arbitration.primary().is_some_and(|primary| self.send(primary, update))
    }

    /// Ends all streams, and those that are opened yet.
    pub fn close_all(&mut self) {
        self.closed = true;
        for (client, it) in std::mem::take(&mut self.clients) {
            let _ = it.end.send(stopping());
            self.arbitration.leave(client);
        }
    }
}

fn message(update: Update) -> StreamMessageResponse {
    StreamMessageResponse { update: Some(update) }
}

fn stopping() -> Status {
    Status::unavailable("the switch is stopping")
}
