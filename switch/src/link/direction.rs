//! One direction of a link: decides when each frame arrives or whether it is lost, and has the frames in flight.

use super::LinkParameters;
use super::random::RandomBits;
use crate::drops::PacketCount;
use crate::packet::{Packet, PacketPool};
use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;
use std::collections::VecDeque;
use weir_units::{Bytes, Time};

/// The reason why a link lost a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkDrop {
    /// The link was down, or went down while the frame was in flight.
    Down,
    /// The queue before the transmitter was full.
    QueueFull,
    /// Random loss ([`LinkParameters::loss`]).
    Loss,
}

impl LinkDrop {
    /// All reasons, in the order of reports.
    pub const ALL: [LinkDrop; 3] = [LinkDrop::Down, LinkDrop::QueueFull, LinkDrop::Loss];

    /// Returns the name of the reason in reports.
    pub const fn name(self) -> &'static str {
        match self {
            LinkDrop::Down => "link_down",
            LinkDrop::QueueFull => "link_queue_full",
            LinkDrop::Loss => "link_loss",
        }
    }
}

/// The counters of one direction, in frames: `offered + duplicated = delivered + dropped + in flight`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkCounters {
    /// Frames that were sent on the link.
    pub offered: PacketCount,
    /// Frames that arrived at the far end.
    pub delivered: PacketCount,
    /// Copies that the link created.
    pub duplicated: u64,
    /// Frames that overtook others or were overtaken.
    pub reordered: u64,
    /// Frames in which a bit was inverted.
    pub corrupted: u64,
    dropped: [u64; LinkDrop::ALL.len()],
}

impl LinkCounters {
    pub fn dropped(&self, reason: LinkDrop) -> u64 {
        self.dropped[reason as usize]
    }

    pub fn total_dropped(&self) -> u64 {
        self.dropped.iter().sum()
    }
}

/// One direction of a link: a queue, a transmitter and a wire.
///
/// A frame waits until the transmitter is free, is serialised at the link's rate, and arrives when its last
/// bit does. When parameters change, frames in flight keep their time of arrival; when the link goes down,
/// they are lost.
///
/// A caller that has a queue and a transmitter of its own, as virtual time has, passes parameters without rate and
/// delay: the channel then adds loss, jitter, reordering, duplication and corruption.
#[derive(Debug)]
pub struct LinkChannel<R = Pcg64Mcg> {
    /// End of the last serialisation; in the past if the transmitter is idle.
    free_at: Time,
    /// The latest arrival among the frames that were not reordered: later frames do not arrive before it.
    latest_arrival: Time,
    /// Sorted by arrival; frames with equal arrivals in the order of sending.
    in_flight: VecDeque<FrameInFlight>,
    random: R,
    counters: LinkCounters,
}

/// A frame on a link.
#[derive(Debug)]
pub struct FrameInFlight {
    pub arrival: Time,
    pub sent_at: Time,
    pub frame: Box<Packet>,
}

/// When a frame arrives, and the second frame if it was duplicated.
pub struct Delivery {
    pub arrival: Time,
    pub copy: Option<Box<Packet>>,
}

impl LinkChannel {
    /// Returns the seed for the direction of link number `link` that leads away from `end` (0 or 1). Every direction
    /// has its own random stream, so that it does not depend on the traffic of others.
    pub fn seed(seed: u64, link: usize, end: usize) -> u64 {
        // Multiplication by the golden ratio of 64 bits spreads consecutive numbers over all bits of the seed.
        seed ^ (2 * link as u64 + end as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    /// Creates an idle direction with this seed.
    pub fn from_seed(seed: u64) -> LinkChannel {
        LinkChannel::new(Pcg64Mcg::seed_from_u64(seed))
    }
}

impl<R: RandomBits> LinkChannel<R> {
    /// Creates an idle direction that draws from `random`.
    pub fn new(random: R) -> LinkChannel<R> {
        LinkChannel {
            free_at: Time::ZERO,
            latest_arrival: Time::ZERO,
            in_flight: VecDeque::new(),
            random,
            counters: LinkCounters::default(),
        }
    }

    /// Sends a frame at `now`: schedules its arrival, or drops it.
    pub fn send(&mut self, link: &LinkParameters, now: Time, mut frame: Box<Packet>, pool: &mut PacketPool) {
        match self.transmit(link, now, &mut frame, pool) {
            Ok(Delivery { arrival, copy }) => {
                for frame in [Some(frame), copy].into_iter().flatten() {
                    self.schedule(FrameInFlight { arrival, sent_at: now, frame });
                }
            }
            Err(_) => pool.put(frame),
        }
    }

    /// Decides what becomes of a frame that is sent at `now`, which may invert a bit of it. The caller
    /// [schedules](Self::schedule) the frame and its copy, or delivers them if they arrive now.
    ///
    /// # Errors
    ///
    /// The link drops the frame for this reason.
    pub fn transmit(
        &mut self,
        link: &LinkParameters,
        now: Time,
        frame: &mut Packet,
        pool: &mut PacketPool,
    ) -> Result<Delivery, LinkDrop> {
        self.counters.offered.count(frame.len());
        let sent = self.serialize(link, now, frame.len());
        let sent = sent.and_then(|end| self.check_loss(link).map(|()| end));
        let end = sent.inspect_err(|&reason| self.counters.dropped[reason as usize] += 1)?;
        if self.random.bernoulli(link.corrupt) {
            self.counters.corrupted += 1;
            // Without effect in a virtual tail, and in a frame without bytes.
            frame.invert_bit(self.random.below(u64::from(frame.len()) * 8) as usize);
        }
        let copy = self.random.bernoulli(link.duplicate).then(|| {
            self.counters.duplicated += 1;
            let mut copy = pool.get();
            copy.copy_bytes_from(frame);
            copy
        });
        Ok(Delivery { arrival: self.arrival(link, end), copy })
    }

    /// Serialises a frame and returns when that ends.
    fn serialize(&mut self, link: &LinkParameters, now: Time, len: u32) -> Result<Time, LinkDrop> {
        if !link.up {
            return Err(LinkDrop::Down);
        }
        let Some(rate) = link.rate else {
            self.free_at = Time::ZERO;
            return Ok(now);
        };
        let len = Bytes::new(u64::from(len));
        let backlog = rate.bytes_in(self.free_at.saturating_sub(now));
        if backlog + len > link.queue {
            return Err(LinkDrop::QueueFull);
        }
        self.free_at = rate.end_of_tx(self.free_at, now, len);
        Ok(self.free_at)
    }

    /// Returns the arrival time of a frame whose serialisation ends at `sent`.
    fn arrival(&mut self, link: &LinkParameters, sent: Time) -> Time {
        if self.random.bernoulli(link.reorder) {
            self.counters.reordered += 1;
            return match link.reorder_by {
                Time::ZERO => sent,
                extra => sent + link.delay + extra,
            };
        }
        let jitter = match link.jitter {
            Time::ZERO => Time::ZERO,
            max => Time::from_ps(self.random.below(max.as_ps() + 1)),
        };
        self.latest_arrival = self.latest_arrival.max(sent + link.delay + jitter);
        self.latest_arrival
    }

    /// Decides whether the next frame is lost at random.
    ///
    /// # Errors
    ///
    /// It is lost.
    pub fn check_loss(&mut self, link: &LinkParameters) -> Result<(), LinkDrop> {
        if self.random.bernoulli(link.loss) { Err(LinkDrop::Loss) } else { Ok(()) }
    }

    /// Inserts a frame in flight, after those with the same arrival.
    pub fn schedule(&mut self, frame: FrameInFlight) {
        if self.in_flight.back().is_none_or(|last| last.arrival <= frame.arrival) {
            return self.in_flight.push_back(frame);
        }
        let index = self.in_flight.partition_point(|other| other.arrival <= frame.arrival);
        self.in_flight.insert(index, frame);
    }

    /// Removes the next frame that has arrived by `now`.
    pub fn pop_arrived(&mut self, now: Time) -> Option<FrameInFlight> {
        self.next_arrival().filter(|&arrival| arrival <= now)?;
        let frame = self.in_flight.pop_front()?;
        self.counters.delivered.count(frame.frame.len());
        Some(frame)
    }

    /// Returns the arrival time of the next frame.
    pub fn next_arrival(&self) -> Option<Time> {
        self.in_flight.front().map(|frame| frame.arrival)
    }

    /// Drops all frames in flight, because the link went down or its port was removed. They count as
    /// [`LinkDrop::Down`].
    pub fn drop_in_flight(&mut self, pool: &mut PacketPool) {
        self.counters.dropped[LinkDrop::Down as usize] += self.in_flight.len() as u64;
        while let Some(in_flight) = self.in_flight.pop_front() {
            pool.put(in_flight.frame);
        }
        self.free_at = Time::ZERO;
        self.restart_order();
    }

    /// Lets frames that are sent from now on arrive before those in flight, which the link has lost or will lose.
    pub fn restart_order(&mut self) {
        self.latest_arrival = Time::ZERO;
    }

    /// Returns the number of frames that are queued, in transmission or propagating.
    pub fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    pub fn counters(&self) -> &LinkCounters {
        &self.counters
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use weir_units::Bandwidth;
    use weir_units::Ratio;

    struct Bench {
        direction: LinkChannel,
        pool: PacketPool,
        link: LinkParameters,
    }

    impl Bench {
        fn new(link: &str) -> Bench {
            let change: crate::link::LinkChange = link.parse().unwrap();
            let link = change.apply(LinkParameters::default());
            Bench { direction: LinkChannel::from_seed(7), pool: PacketPool::new(), link }
        }

        /// Sends frames of these lengths; each byte of a frame is its index.
        fn send(&mut self, now: Time, lengths: &[usize]) {
            for (i, &len) in lengths.iter().enumerate() {
                let frame = Packet::from_bytes(&vec![i as u8; len]);
                self.direction.send(&self.link, now, frame, &mut self.pool);
            }
        }

        /// Removes the frames that have arrived: time of arrival in us, and first byte.
        fn arrivals(&mut self, now: Time) -> Vec<(u64, u8)> {
            let next = || {
                let frame = self.direction.pop_arrived(now)?;
                Some((frame.arrival.as_us(), frame.frame.bytes()[0]))
            };
            std::iter::from_fn(next).collect()
        }
    }

    #[test]
    fn frames_arrive_after_waiting_serialisation_and_delay() {
        let mut bench = Bench::new("rate=10Mbps,delay=15ms");
        bench.send(Time::from_ms(1), &[1250, 125]); // 1 ms and 0.1 ms on the wire
        assert_eq!(bench.direction.next_arrival(), Some(Time::from_ms(17)));
        assert!(bench.direction.pop_arrived(Time::from_us(16_999)).is_none());
        assert_eq!(bench.arrivals(Time::from_ms(20)), [(17_000, 0), (17_100, 1)]);
        // The transmitter was idle meanwhile, which does not make the next frame earlier.
        bench.send(Time::from_ms(30), &[1250]);
        assert_eq!(bench.arrivals(Time::MAX), [(46_000, 0)]);
    }

    #[test]
    fn frames_beyond_the_queue_are_dropped() {
        let mut bench = Bench::new("rate=10Mbps,queue=2500B");
        bench.send(Time::ZERO, &[1250, 1250, 1250]);
        assert_eq!(bench.arrivals(Time::MAX), [(1_000, 0), (2_000, 1)]);
        assert_eq!(bench.direction.counters().dropped(LinkDrop::QueueFull), 1);
    }

    #[test]
    fn a_changed_link_keeps_frames_in_flight_in_order() {
        let mut bench = Bench::new("delay=10ms");
        bench.send(Time::ZERO, &[100]);
        bench.link.delay = Time::from_ms(1);
        bench.send(Time::from_ms(2), &[200]);
        assert_eq!(
            bench.arrivals(Time::MAX).iter().map(|(arrival, _)| *arrival).collect::<Vec<_>>(),
            [10_000, 10_000]
        );
        bench.send(Time::from_ms(11), &[100]);
        assert_eq!(bench.arrivals(Time::MAX), [(12_000, 0)]);
    }

    #[test]
    fn a_link_that_goes_down_loses_frames_in_flight() {
        let mut bench = Bench::new("delay=10ms");
        bench.send(Time::ZERO, &[100, 100]);
        bench.link.up = false;
        bench.direction.drop_in_flight(&mut bench.pool);
        bench.send(Time::from_ms(1), &[100]);
        assert_eq!(bench.direction.counters().dropped(LinkDrop::Down), 3);
        bench.link.up = true;
        bench.send(Time::from_ms(2), &[100]);
        assert_eq!(bench.arrivals(Time::MAX), [(12_000, 0)]);
    }

    #[test]
    fn faults_are_as_frequent_as_their_probabilities() {
        let mut bench = Bench::new("loss=10%,duplicate=20%,corrupt=30%,reorder=5%,delay=1ms");
        for i in 0..10_000 {
            bench.send(Time::from_us(i), &[64]);
        }
        let frames: Vec<_> =
            std::iter::from_fn(|| bench.direction.pop_arrived(Time::MAX)).map(|frame| frame.frame).collect();
        let counters = bench.direction.counters();
        let share = |count: u64| count as f64 / 10_000.0;
        assert!((share(counters.dropped(LinkDrop::Loss)) - 0.1).abs() < 0.01, "{counters:?}");
        assert!((share(counters.duplicated) - 0.2 * 0.9).abs() < 0.02, "{counters:?}");
        assert!((share(counters.corrupted) - 0.3 * 0.9).abs() < 0.02, "{counters:?}");
        assert!((share(counters.reordered) - 0.05 * 0.9).abs() < 0.01, "{counters:?}");
        let inverted =
            frames.iter().map(|frame| frame.bytes().iter().map(|byte| byte.count_ones()).sum::<u32>());
        assert!(inverted.clone().all(|bits| bits <= 1), "at most one bit per frame");
        assert!(inverted.sum::<u32>() as u64 >= counters.corrupted, "a duplicate has the inverted bit too");
    }

    #[test]
    fn a_frame_that_overtakes_arrives_without_delay() {
        let mut bench = Bench::new("delay=10ms,jitter=1ms");
        bench.send(Time::ZERO, &[100]);
        bench.link.reorder = Ratio::ONE;
        bench.send(Time::from_ms(1), &[100, 100]);
        let arrivals = bench.arrivals(Time::MAX);
        assert_eq!(arrivals[..2], [(1_000, 0), (1_000, 1)]);
        assert!((10_000..=11_000).contains(&arrivals[2].0), "{arrivals:?}");
    }

    #[test]
    fn a_frame_that_others_overtake_does_not_hold_them_back() {
        let mut bench = Bench::new("delay=10ms,reorder=100%,reorder_by=2ms");
        bench.send(Time::ZERO, &[100]);
        bench.link.reorder = Ratio::default();
        bench.send(Time::from_ms(1), &[200]);
        assert_eq!(
            bench.arrivals(Time::MAX).iter().map(|(arrival, _)| *arrival).collect::<Vec<_>>(),
            [11_000, 12_000]
        );
    }

    #[test]
    fn equal_seeds_give_equal_arrivals() {
        let run = || {
            let mut bench = Bench::new("rate=10Mbps,delay=1ms,jitter=1ms,loss=10%,reorder=10%,duplicate=10%");
            (0..100).for_each(|i| bench.send(Time::from_us(i * 700), &[800]));
            bench.arrivals(Time::MAX)
        };
        assert_eq!(run(), run());
    }

    proptest! {
        /// Nothing is lost without a reason, arrives before it was sent, or faster than the link allows.
        #[test]
        fn counters_balance(
            frames in proptest::collection::vec((0u64..2_000, 60usize..1_500), 1..80),
            loss in 0.0..0.3f64, jitter in 0u64..3_000, mbps in 1u64..100, queue in 1_500u64..20_000,
        ) {
            let mut bench = Bench::new("delay=3ms");
            bench.link.loss = Ratio::new(loss).unwrap();
            bench.link.duplicate = Ratio::new(loss / 2.0).unwrap();
            bench.link.jitter = Time::from_us(jitter);
            bench.link.rate = Some(Bandwidth::from_mbps(mbps));
            bench.link.queue = Bytes::new(queue);
            let (mut now, mut bytes, mut last) = (Time::ZERO, 0, Time::ZERO);
            for &(gap, len) in &frames {
                now += Time::from_us(gap);
                bench.send(now, &[len]);
                bytes += len as u64;
            }
            let max = Bandwidth::from_mbps(mbps).tx_time(Bytes::new(bytes)) + now + Time::from_ms(7);
            while let Some(FrameInFlight { arrival, .. }) = bench.direction.pop_arrived(Time::MAX) {
                prop_assert!(arrival >= last && arrival <= max);
                last = arrival;
            }
            let counters = bench.direction.counters();
            prop_assert_eq!(counters.offered.packets, frames.len() as u64);
            prop_assert_eq!(
                counters.offered.packets + counters.duplicated,
                counters.delivered.packets + counters.total_dropped()
            );
        }
    }
}
