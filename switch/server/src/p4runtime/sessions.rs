//! The open streams (StreamChannel calls) of a device, each with a bounded queue of outgoing messages.

use p4runtime::arbitration::{Arbitration, ArbitrationError, ArbitrationNotification, ClientId};
use p4runtime::p4::v1::stream_message_response::Update;
use p4runtime::p4::v1::{MasterArbitrationUpdate, StreamError, StreamMessageResponse};
use std::collections::BTreeMap;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};
use tonic::Status;

/// Capacity of the queue to a client, in messages. When it is full, further messages are dropped and counted.
pub(super) const STREAM_QUEUE_LEN: usize = 1024;

/// Stream errors are sent only while more than this capacity is free: other messages are more important.
const MIN_CAPACITY_FOR_ERRORS: usize = STREAM_QUEUE_LEN / 2;
/// Maximum number of streams. A further one ends the oldest stream that takes no part in arbitration.
pub(super) const MAX_STREAMS: usize = 64;

/// A message to a client, or the final status of its stream.
pub(super) type Outbound = Result<StreamMessageResponse, Status>;

struct StreamClient {
    queue: mpsc::Sender<Outbound>,
    /// Ends the stream with this status.
    shutdown: oneshot::Sender<Status>,
    /// True if dropped messages have been logged.
    has_dropped: bool,
}

pub(super) struct Sessions {
    pub arbitration: Arbitration,
    clients: BTreeMap<ClientId, StreamClient>,
    next_id: ClientId,
    /// Set when the server stops: streams that open later end at once.
    is_closed: bool,
}

impl Sessions {
    pub(super) fn new(device: u64) -> Sessions {
        Sessions {
            arbitration: Arbitration::new(device),
            clients: BTreeMap::new(),
            next_id: 1,
            is_closed: false,
        }
    }

    /// Registers a new stream. Returns its id, and a receiver of the status with which it must end.
    pub(super) fn open(&mut self, queue: mpsc::Sender<Outbound>) -> (ClientId, oneshot::Receiver<Status>) {
        let (shutdown, ended) = oneshot::channel();
        let client = self.next_id;
        self.next_id += 1;
        // Sending fails only if the stream has ended.
        if self.is_closed {
            let _ = shutdown.send(stopping());
            return (client, ended);
        }
        if self.clients.len() >= MAX_STREAMS {
            // `MAX_CLIENTS` of arbitration is below `MAX_STREAMS`, so there is a stream without a bid.
            let without_bid = self.clients.keys().find(|&&client| !self.arbitration.has_bid(client)).copied();
            if let Some(oldest) = without_bid.and_then(|client| self.clients.remove(&client)) {
                let reason =
                    format!("too many streams ({MAX_STREAMS}); this one took no part in the arbitration");
                let _ = oldest.shutdown.send(Status::resource_exhausted(reason));
            }
        }
        self.clients.insert(client, StreamClient { queue, shutdown, has_dropped: false });
        (client, ended)
    }

    /// Removes a client whose stream has ended.
    pub(super) fn close(&mut self, client: ClientId) {
        self.clients.remove(&client);
        let notifications = self.arbitration.leave(client);
        self.send_arbitration(notifications);
    }

    /// Handles a bid and notifies the clients of the result.
    ///
    /// # Errors
    ///
    /// See [`Arbitration::bid`](p4runtime::arbitration::Arbitration::bid).
    pub(super) fn arbitrate(
        &mut self,
        client: ClientId,
        bid: &MasterArbitrationUpdate,
    ) -> Result<(), ArbitrationError> {
        let notifications = self.arbitration.bid(client, bid)?;
        self.send_arbitration(notifications);
        Ok(())
    }

    /// Sends arbitration notifications. They must reach every client, so a client whose queue is full is disconnected.
    fn send_arbitration(&mut self, notifications: Vec<ArbitrationNotification>) {
        let mut notifications = std::collections::VecDeque::from(notifications);
        while let Some(ArbitrationNotification { to, update }) = notifications.pop_front() {
            let Some(client) = self.clients.get(&to) else { continue };
            let sent = client.queue.try_send(Ok(message(Update::Arbitration(update))));
            if let Err(TrySendError::Full(_)) = sent {
                tracing::warn!(client = to, "disconnecting a P4Runtime client: its queue is full");
                if let Some(client) = self.clients.remove(&to) {
                    // Fails only if the stream has ended.
                    let _ = client.shutdown.send(Status::resource_exhausted("the client reads too slowly"));
                }
                notifications.extend(self.arbitration.leave(to));
            }
        }
    }

    /// Sends a message to a client. Returns `false` if it was dropped.
    pub(super) fn send(&mut self, to: ClientId, update: Update) -> bool {
        let Some(client) = self.clients.get_mut(&to) else { return false };
        let sent = client.queue.try_send(Ok(message(update))).is_ok();
        if !sent && !client.has_dropped {
            tracing::warn!(client = to, "P4Runtime client is too slow: dropping messages");
        }
        client.has_dropped |= !sent;
        sent
    }

    /// Reports a stream error to a client if its queue has enough room.
    pub(super) fn send_error(&mut self, to: ClientId, error: StreamError) {
        if self.clients.get(&to).is_some_and(|client| client.queue.capacity() > MIN_CAPACITY_FOR_ERRORS) {
            self.send(to, Update::Error(error));
        }
    }

    /// Sends a message to the primary of each role. Returns `false` if there is no primary or one of them did not get
    /// the message.
    pub(super) fn send_to_primaries(&mut self, update: Update) -> bool {
        let mut primaries = self.arbitration.primaries();
        let Some(last) = primaries.pop() else { return false };
        let mut all_sent = true;
        for primary in primaries {
            all_sent &= self.send(primary, update.clone());
        }
        self.send(last, update) && all_sent
    }

    /// Ends all streams, and all that are opened later.
    pub(super) fn close_all(&mut self) {
        self.is_closed = true;
        for (id, client) in std::mem::take(&mut self.clients) {
            // Fails only if the stream has ended.
            let _ = client.shutdown.send(stopping());
            self.arbitration.leave(id);
        }
    }
}

fn message(update: Update) -> StreamMessageResponse {
    StreamMessageResponse { update: Some(update) }
}

fn stopping() -> Status {
    Status::unavailable("the switch is stopping")
}
