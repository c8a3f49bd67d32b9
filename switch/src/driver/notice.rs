//! Notifications from the data plane: digests, packets for the controller, and ports that come up or go down.

use crate::pipeline::Digest;

/// News from the data plane.
#[derive(Clone, Copy, Debug)]
pub enum Notice<'a> {
    /// The program sent a packet to the CPU port.
    PacketIn {
        /// The whole frame as it left the deparser, controller header first.
        frame: &'a [u8],
    },
    /// The program has a message for its controller.
    Digest(&'a Digest),
    /// A port came up or went down.
    Port {
        /// Its number.
        port: u16,
        /// True if it can send and receive now.
        up: bool,
    },
}

/// A subscriber's answer to a notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// It has what it needs of it.
    Taken,
    /// It wanted it, and has no room.
    Full,
    /// It was not interested.
    Ignored,
    /// It wants no more notices.
    Gone,
}

/// The listener. Called on the data-plane thread, so it must not block: it copies what it needs into
/// a channel with bounds and returns.
pub(super) type Subscriber = Box<dyn FnMut(Notice<'_>) -> Delivery + Send>;

#[derive(Default)]
pub(super) struct Subscribers(Vec<Subscriber>);

impl Subscribers {
    pub fn add(&mut self, subscriber: Subscriber) {
        self.0.push(subscriber);
    }

    /// Tells everybody. `true` if somebody took it.
    pub fn tell(&mut self, notice: Notice<'_>) -> bool {
        let mut taken = false;
        self.0.retain_mut(|subscriber| {
            let delivery = subscriber(notice);
            taken |= delivery == Delivery::Taken;
            delivery != Delivery::Gone
        });
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{TrySendError, sync_channel};

    #[test]
    fn a_full_subscriber_loses_and_a_gone_one_is_forgotten() {
        let (sender, receiver) = sync_channel(1);
        let mut all = Subscribers::default();
        all.add(Box::new(move |notice| match notice {
            Notice::Port { port, .. } => match sender.try_send(port) {
                Ok(()) => Delivery::Taken,
                Err(TrySendError::Full(_)) => Delivery::Full,
                Err(TrySendError::Disconnected(_)) => Delivery::Gone,
            },
            _ => Delivery::Ignored,
        }));
        let port = |port| Notice::Port { port, up: true };
        assert!(all.tell(port(1)));
        assert!(!all.tell(port(2)));
        assert_eq!(receiver.try_recv(), Ok(1));
        assert!(!all.tell(Notice::PacketIn { frame: &[] }));
        drop(receiver);
        assert!(!all.tell(port(3)));
        assert!(all.0.is_empty());
    }
}
