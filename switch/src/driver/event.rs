//! Notifications from the data plane: digests, packet-ins and port state changes.

use crate::pipeline::Digest;

/// A notification from the data plane. Subscribers get it on the data-plane thread.
#[derive(Clone, Copy, Debug)]
pub enum DataplaneEvent<'a> {
    /// The program sent a packet to the CPU port.
    PacketIn {
        /// The frame as the deparser emitted it, controller header first.
        frame: &'a [u8],
    },
    /// The program sent a digest message.
    Digest(&'a Digest),
    /// A port went up or down.
    Port {
        port: u16,
        /// True if the port can send and receive.
        up: bool,
    },
}

/// The response of a subscriber to a notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// The subscriber accepted the notification.
    Accepted,
    /// The subscriber has no room for the notification, which is lost.
    Full,
    /// The subscriber does not handle this kind of notification.
    Ignored,
    /// The subscriber has ended; it is removed.
    Closed,
}

/// A subscriber. It is called on the data-plane thread, so it must not block: it copies what it needs into a
/// bounded channel and returns.
pub(super) type Subscriber = Box<dyn FnMut(DataplaneEvent<'_>) -> Delivery + Send>;

#[derive(Default)]
pub(super) struct Subscribers(Vec<Subscriber>);

impl Subscribers {
    pub(super) fn add(&mut self, subscriber: Subscriber) {
        self.0.push(subscriber);
    }

    /// Passes a notification to all subscribers. Returns whether at least one accepted it.
    pub(super) fn notify(&mut self, event: DataplaneEvent<'_>) -> bool {
        let mut accepted = false;
        self.0.retain_mut(|subscriber| {
            let delivery = subscriber(event);
            accepted |= delivery == Delivery::Accepted;
            delivery != Delivery::Closed
        });
        accepted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{TrySendError, sync_channel};

    #[test]
    fn a_full_subscriber_loses_events_and_a_closed_one_is_removed() {
        let (sender, receiver) = sync_channel(1);
        let mut all = Subscribers::default();
        all.add(Box::new(move |event| match event {
            DataplaneEvent::Port { port, .. } => match sender.try_send(port) {
                Ok(()) => Delivery::Accepted,
                Err(TrySendError::Full(_)) => Delivery::Full,
                Err(TrySendError::Disconnected(_)) => Delivery::Closed,
            },
            _ => Delivery::Ignored,
        }));
        let port = |port| DataplaneEvent::Port { port, up: true };
        assert!(all.notify(port(1)));
        assert!(!all.notify(port(2)));
        assert_eq!(receiver.try_recv(), Ok(1));
        assert!(!all.notify(DataplaneEvent::PacketIn { frame: &[] }));
        drop(receiver);
        assert!(!all.notify(port(3)));
        assert!(all.0.is_empty());
    }
}
