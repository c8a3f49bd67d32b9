//! Compares [`ActiveSenders`] with a model that keeps no totals, on random histories.

use super::*;
use crate::telemetry::Telemetry;
use weir_units::Bytes;

const SOFT_STATE: Time = Time::from_us(800);
const ANNOUNCED_FOR: Time = Time::from_us(90);
/// Tenants are /24 networks in these tests: two of them, with three hosts each.
const TENANT_BITS: u32 = 24;
const HOSTS: [Ipv4Addr; 6] = [host(1, 1), host(1, 2), host(1, 3), host(2, 1), host(2, 2), host(2, 3)];

const fn host(tenant: u8, number: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, tenant, number)
}

/// One packet, as the receiver sees it.
#[derive(Clone, Debug)]
struct Packet {
    now: Time,
    source: Ipv4Addr,
    is_unfinished: bool,
    is_first: bool,
    completes_message: bool,
    is_marked: bool,
    announced: Vec<[u8; 2]>,
    incast: u32,
}

impl Packet {
    fn event(&self) -> DataEvent<'_> {
        DataEvent {
            now: self.now,
            source: self.source,
            payload: Bytes::new(1_000),
            frame: Bytes::new(1_066),
            is_marked: self.is_marked,
            slot: self.is_unfinished.then_some(0),
            is_first: self.is_first,
            completes_message: self.completes_message,
            active_flows: 1,
            announced: &self.announced,
            incast: self.incast,
            credit: 0,
            path_id: 0,
            telemetry: const { &Telemetry::EMPTY },
        }
    }
}

/// One sender of the model.
#[derive(Clone, Copy, Debug)]
struct ModelSender {
    host: Ipv4Addr,
    /// Unfinished messages; 0 for an announced sender.
    messages: u32,
    /// Time of the last packet, or of the announcement.
    last_seen: Time,
}

/// The paper's sections III-B to III-D, word for word and without totals: n is counted anew for each packet.
#[derive(Debug, Default)]
struct Model {
    senders: Vec<ModelSender>,
    /// Hosts named by an incast: time of the first announcement, number of the incast, host.
    named: Vec<(Time, u32, Ipv4Addr)>,
    swept_at: Time,
    marked_at: Time,
}

impl Model {
    fn index_of(&self, host: Ipv4Addr) -> Option<usize> {
        self.senders.iter().position(|sender| sender.host == host)
    }

    fn on_data(&mut self, packet: &Packet) -> u16 {
        let now = packet.now;
        if now - self.swept_at >= SOFT_STATE / SWEEPS_PER_SOFT_STATE {
            self.swept_at = now;
            self.senders.retain(|sender| sender.messages == 0 || now - sender.last_seen <= SOFT_STATE);
        }
        if packet.is_marked {
            self.marked_at = now;
        }
        let marked_at = self.marked_at;
        self.senders.retain(|sender| {
            let is_expected = now - sender.last_seen.max(marked_at) <= ANNOUNCED_FOR;
            sender.messages > 0 || is_expected && now - sender.last_seen <= SOFT_STATE
        });
        match self.index_of(packet.source) {
            Some(index) if self.senders[index].messages > 0 => {
                self.senders[index].last_seen = now;
                self.senders[index].messages += u32::from(packet.is_first);
            }
            announced if packet.is_unfinished => {
                announced.map(|index| self.senders.remove(index));
                self.senders.push(ModelSender { host: packet.source, messages: 1, last_seen: now });
            }
            _ => {}
        }
        let tenant = |host: Ipv4Addr| host.octets()[2];
        let own = packet.source.octets();
        let own = (!packet.announced.is_empty()).then_some([own[2], own[3]]);
        for (is_own, [high, low]) in own
            .map(|own| (true, own))
            .into_iter()
            .chain(packet.announced.iter().map(|&listed| (false, listed)))
        {
            let host = Ipv4Addr::new(10, 0, high, low);
            if tenant(host) != tenant(packet.source) {
                continue;
            }
            // The tenant is part of the host's address, so the key needs no tenant.
            self.named.retain(|(named_at, ..)| now - *named_at <= SOFT_STATE);
            let is_named =
                self.named.iter().any(|(_, incast, named)| (*incast, *named) == (packet.incast, host));
            if packet.incast != 0 && !is_named {
                self.named.push((now, packet.incast, host));
            }
            if !is_own && (packet.incast == 0 || !is_named) && self.index_of(host).is_none() {
                self.senders.push(ModelSender { host, messages: 0, last_seen: now });
            }
        }
        if packet.completes_message
            && let Some(index) = self.index_of(packet.source)
            && self.senders[index].messages > 0
        {
            self.senders[index].messages -= 1;
            if self.senders[index].messages == 0 {
                self.senders.remove(index);
            }
        }
        let counts =
            |sender: &&ModelSender| sender.messages > 0 || tenant(sender.host) == tenant(packet.source);
        (self.senders.iter().filter(counts).count() as u16).max(1)
    }
}

/// A linear congruential generator, which needs no dependency.
struct Rng(u64);

impl Rng {
    /// Returns a number from 0 to `n - 1`.
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }

    /// Returns a packet after a pause, which is mostly short, sometimes longer than the lifetime of an announcement or
    /// of the soft state.
    fn packet(&mut self, after: Time) -> Packet {
        let pause = match self.below(8) {
            0 => self.below(3) * SOFT_STATE.as_ps() / 2,
            1 | 2 => self.below(3) * ANNOUNCED_FOR.as_ps(),
            _ => self.below(20) * Time::from_us(1).as_ps(),
        };
        let is_unfinished = self.below(4) > 0;
        let is_first = is_unfinished && self.below(2) == 0;
        let list_len = if is_first && self.below(3) == 0 { self.below(4) } else { 0 };
        let list = (0..list_len).map(|_| HOSTS[self.below(6) as usize].octets());
        let announced = list.map(|[_, _, high, low]| [high, low]).collect();
        Packet {
            now: after + Time::from_ps(pause),
            source: HOSTS[self.below(6) as usize],
            is_unfinished,
            is_first,
            completes_message: is_unfinished && self.below(3) == 0,
            is_marked: self.below(3) == 0,
            announced,
            incast: self.below(3) as u32,
        }
    }
}

fn active_senders() -> ActiveSenders {
    ActiveSenders::new(SOFT_STATE, Some(TENANT_BITS), ANNOUNCED_FOR)
}

#[test]
fn a_million_random_histories_count_as_the_model_does() {
    let mut rng = Rng(1);
    for history in 0..1_000_000 {
        let (mut senders, mut model) = (active_senders(), Model::default());
        let mut packets: Vec<Packet> = Vec::with_capacity(12);
        for _ in 0..4 + rng.below(8) {
            let packet = rng.packet(packets.last().map_or(Time::from_ms(1), |packet| packet.now));
            let (counted, expected) = (senders.on_data(&packet.event()), model.on_data(&packet));
            packets.push(packet);
            assert_eq!(counted, expected, "history {history}: {packets:#?}");
        }
        let now = packets.last().map_or(Time::ZERO, |packet| packet.now) + SOFT_STATE * 2;
        let late = Packet {
            now,
            is_first: false,
            completes_message: false,
            is_marked: false,
            announced: Vec::new(),
            ..packets[0].clone()
        };
        assert_eq!(senders.on_data(&late.event()), 1, "history {history}, after a silence: {packets:#?}");
    }
}
