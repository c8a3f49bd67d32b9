//! Statistics of received data packets by class of flow size: ECN-marked packets, marks echoed to senders, and links
//! crossed. Every frame that reaches a host is parsed, so this is enabled only by `observe.packets`.

use super::events::{Arrival, Observer};
use std::collections::HashMap;
use std::net::Ipv4Addr;
use weir_controller::topology::Node;
use weir_experiment::classes::{class_of, ranges};
use weir_experiment::results::PacketClass;
use weir_host::wire::{Ecn, Flags, FrameView, INITIAL_TTL, PacketKind};
use weir_units::Bytes;

/// Counters of a size class.
#[derive(Clone, Copy, Debug, Default)]
struct ClassCounts {
    received: u64,
    marked: u64,
    echoed: u64,
    links: u64,
}

/// Counters of all size classes.
#[derive(Debug)]
pub struct RxStats {
    bounds: Vec<Bytes>,
    counts: Vec<ClassCounts>,
    /// Class by sender and message id. Finished messages stay: duplicates may arrive after the end of a message.
    classes: HashMap<(Ipv4Addr, u32), usize>,
}

impl RxStats {
    /// `bounds` are the upper bounds of all size classes but the last.
    pub fn new(bounds: &[Bytes]) -> RxStats {
        let counts = ranges(bounds).map(|_| ClassCounts::default()).collect();
        RxStats { bounds: bounds.to_vec(), counts, classes: HashMap::new() }
    }

    /// Registers a message, so that its frames are counted in the class of `size`.
    pub fn register_message(&mut self, sender: Ipv4Addr, message: u32, size: Bytes) {
        self.classes.insert((sender, message), class_of(size, &self.bounds));
    }

    /// Counts a frame that reaches a host. Frames of messages that are not [registered](Self::register_message) are
    /// ignored.
    fn on_frame(&mut self, bytes: &[u8], virtual_payload: u32) {
        let Ok(frame) = FrameView::new(bytes, virtual_payload) else { return };
        let sender = match frame.weir.kind() {
            PacketKind::Data => frame.ip.source(),
            PacketKind::Ack | PacketKind::Nack => frame.ip.destination(),
            _ => return,
        };
        let Some(&class) = self.classes.get(&(sender, frame.weir.message())) else { return };
        let count = &mut self.counts[class];
        if frame.weir.kind() != PacketKind::Data {
            count.echoed += u64::from(frame.weir.flags().has(Flags::ECN_ECHO));
            return;
        }
        count.received += 1;
        count.marked += u64::from(frame.ip.ecn() == Ecn::Ce);
        // Every switch decrements the TTL, and a path has one link more than switches.
        count.links += u64::from(INITIAL_TTL.saturating_sub(frame.ip.ttl())) + 1;
    }

    /// Returns the sums; all have the same classes. `None` if `all` is empty.
    pub(crate) fn merge<'o>(all: impl Iterator<Item = &'o RxStats>) -> Option<RxStats> {
        let empty = |first: &RxStats| RxStats::new(&first.bounds);
        all.fold(None, |sum: Option<RxStats>, more| {
            let mut sum = sum.unwrap_or_else(|| empty(more));
            for (count, more) in sum.counts.iter_mut().zip(&more.counts) {
                count.received += more.received;
                count.marked += more.marked;
                count.echoed += more.echoed;
                count.links += more.links;
            }
            Some(sum)
        })
    }

    /// Returns the statistics of all classes in ascending order of size.
    pub fn summarise(&self) -> Vec<PacketClass> {
        let classes = ranges(&self.bounds).zip(&self.counts);
        classes
            .map(|((over, upto), count)| {
                let per_packet = |sum: u64| (count.received > 0).then(|| sum as f64 / count.received as f64);
                PacketClass {
                    over_bytes: over.get(),
                    upto_bytes: upto.map(Bytes::get),
                    received: count.received,
                    marked: count.marked,
                    echoed: count.echoed,
                    marked_share: per_packet(count.marked),
                    echoed_share: per_packet(count.echoed),
                    mean_links: per_packet(count.links),
                }
            })
            .collect()
    }
}

impl Observer for RxStats {
    fn on_arrival(&mut self, Arrival { to, packet, .. }: &Arrival<'_>) {
        if let Node::Host(_) = to {
            self.on_frame(packet.bytes(), packet.virtual_len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_host::wire::{FrameRepr, HEADERS_LEN, WeirRepr};

    const SENDER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
    const RECEIVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
    const PAYLOAD: u32 = 1_000;

    /// Returns a frame from or to the sender with all its payload virtual.
    fn frame(kind: PacketKind, message: u32, ecn: Ecn, flags: Flags) -> Vec<u8> {
        let weir = WeirRepr { flags, message, ..WeirRepr::of(kind) };
        let (source, destination) = match kind {
            PacketKind::Data => (SENDER, RECEIVER),
            _ => (RECEIVER, SENDER),
        };
        let frame = FrameRepr {
            source_mac: [2; 6],
            destination_mac: [4; 6],
            source,
            destination,
            dscp: 0,
            ecn,
            entropy_port: 50_000,
            weir,
            payload_len: PAYLOAD,
        };
        let mut bytes = vec![0; HEADERS_LEN];
        frame.emit(&[], &mut bytes).expect("the buffer is large enough");
        bytes
    }

    #[test]
    fn packets_of_registered_messages_count_in_their_class() {
        let mut rx_stats = RxStats::new(&[Bytes::new(8_000)]);
        rx_stats.register_message(SENDER, 0, Bytes::new(8_000));
        rx_stats.register_message(SENDER, 1, Bytes::new(8_001));
        for (kind, message, ecn, flags) in [
            (PacketKind::Data, 0, Ecn::Ce, Flags::NONE),
            (PacketKind::Data, 0, Ecn::Ect0, Flags::NONE),
            (PacketKind::Data, 0, Ecn::Ect0, Flags::NONE),
            (PacketKind::Data, 0, Ecn::Ect0, Flags::ECN_ECHO), // On DATA the flag is ignored.
            (PacketKind::Data, 1, Ecn::Ce, Flags::NONE),
            (PacketKind::Data, 2, Ecn::Ce, Flags::NONE), // Not registered.
            (PacketKind::Ack, 0, Ecn::Ce, Flags::NONE),
            (PacketKind::Ack, 1, Ecn::NotEct, Flags::ECN_ECHO),
            (PacketKind::Cnp, 1, Ecn::NotEct, Flags::ECN_ECHO),
        ] {
            rx_stats.on_frame(&frame(kind, message, ecn, flags), PAYLOAD);
        }
        rx_stats.on_frame(&[0; 40], 0);
        let sum = RxStats::merge([&rx_stats].into_iter()).expect("one observer");
        let [short, long] = sum.summarise().try_into().expect("two classes");
        assert_eq!((short.received, short.marked, short.marked_share), (4, 1, Some(0.25)));
        assert_eq!((long.received, long.marked, long.marked_share), (1, 1, Some(1.0)));
        assert_eq!((short.echoed, long.echoed, long.echoed_share), (0, 1, Some(1.0)));
        assert_eq!((short.upto_bytes, long.over_bytes, long.upto_bytes), (Some(8_000), 8_000, None));
        // The initial TTL means one link, from host to host.
        assert_eq!(short.mean_links, Some(1.0));
        assert_eq!(RxStats::new(&[]).summarise()[0].mean_links, None);
    }
}
