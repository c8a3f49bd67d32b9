//! The Trickle algorithm (RFC 6206): schedules the transmissions of a state that all nodes should share. It defines
//! no messages and sends nothing itself.
//!
//! A node transmits at a random time in the second half of an interval, unless it has received `k` consistent
//! messages in that interval. Intervals double while all nodes agree and shrink to Imin as soon as a node detects a
//! difference. The protocol that owns the timer defines the messages and what "consistent" means, and calls
//! [`on_consistent`](Trickle::on_consistent) and [`reset`](Trickle::reset).
//!
//! The six rules of §4.2 are marked in the code. A reset never transmits at once: a node that has detected a
//! difference waits for its random time like all others, otherwise all would answer at the same time.

use rand::{Rng, RngExt};
use std::num::NonZeroU32;
use weir_units::Time;

/// Lower bound of Imin. Weir's choice: it keeps the range `[I/2, I)`, from which the transmission time is drawn,
/// non-empty.
pub const MIN_IMIN: Time = Time::from_ns(1);
/// Upper bound of the doublings: more exceed the range of [`Time`] for every Imin.
pub const MAX_DOUBLINGS: u32 = 63;

/// The parameters (RFC 6206 §4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrickleConfig {
    /// Imin: the shortest interval.
    pub imin: Time,
    /// Imax, as the number of times that Imin doubles.
    pub doublings: u32,
    /// k: the number of consistent messages that make an own transmission redundant. `None` (infinity) always
    /// transmits, which section 6.5 advises against.
    pub k: Option<NonZeroU32>,
}

impl TrickleConfig {
    /// Creates a configuration with k as a number; 0 means infinity (RFC 6206 section 6.5).
    ///
    /// # Errors
    ///
    /// See [`check`](Self::check).
    pub fn new(imin: Time, doublings: u32, k: u32) -> Result<TrickleConfig, TrickleError> {
        let config = TrickleConfig { imin, doublings, k: NonZeroU32::new(k) };
        config.check()?;
        Ok(config)
    }

    /// Checks that the parameters are within the supported range.
    ///
    /// # Errors
    ///
    /// `imin` is below [`MIN_IMIN`], or `doublings` above [`MAX_DOUBLINGS`].
    pub fn check(&self) -> Result<(), TrickleError> {
        if self.imin < MIN_IMIN {
            return Err(TrickleError::Imin { imin: self.imin });
        }
        if self.doublings > MAX_DOUBLINGS {
            return Err(TrickleError::Doublings { doublings: self.doublings });
        }
        Ok(())
    }

    /// Checks that Imin leaves time for k packets with the transmission time `packet_time`. RFC 6206 section 6.6
    /// requires two to three times that; otherwise intervals end before k packets can have been received.
    ///
    /// # Errors
    ///
    /// Imin is shorter than the transmission time of 2k such packets.
    pub fn check_link_time(&self, packet_time: Time) -> Result<(), TrickleError> {
        // `max(1)`: even with k infinite (0) there is time for one packet.
        let packets = 2 * u64::from(self.redundancy().max(1));
        let min = Time::from_ps(packet_time.as_ps().saturating_mul(packets));
        if self.imin < min {
            return Err(TrickleError::IminTooShortForK { imin: self.imin, k: self.redundancy(), min });
        }
        Ok(())
    }

    /// Returns the longest interval, Imax.
    pub fn imax(&self) -> Time {
        let ps = u128::from(self.imin.as_ps()) << self.doublings.min(MAX_DOUBLINGS);
        Time::from_ps(u64::try_from(ps).unwrap_or(u64::MAX))
    }

    /// Returns k as a number; 0 means infinity.
    pub fn redundancy(&self) -> u32 {
        self.k.map_or(0, NonZeroU32::get)
    }
}

/// The reason why Trickle parameters are invalid.
#[allow(missing_docs)] // the fields are named in the message
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TrickleError {
    /// Imin is below the minimum.
    #[error("{imin} is below the minimum of {MIN_IMIN}; use a few times the worst latency of the network")]
    Imin { imin: Time },
    /// Imin is too short for k.
    #[error(
        "{imin} is shorter than {min}, twice the time that k = {k} policies of full size take on this host's link"
    )]
    IminTooShortForK {
        imin: Time,
        k: u32,
        /// The shortest Imin for this k.
        min: Time,
    },
    /// Imax is too long.
    #[error("{doublings} doublings exceed the maximum of {MAX_DOUBLINGS}")]
    Doublings { doublings: u32 },
}

impl TrickleError {
    /// Returns the name of the parameter to which the error refers.
    pub fn key(&self) -> &'static str {
        match self {
            TrickleError::Imin { .. } | TrickleError::IminTooShortForK { .. } => "imin",
            TrickleError::Doublings { .. } => "imax",
        }
    }
}

/// An event of a Trickle timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrickleEvent {
    /// Rule 4: fewer than k consistent messages were received in this interval, so transmit now.
    Transmit,
    /// Rule 4: k consistent messages were received in this interval, so transmit nothing.
    Suppressed,
    /// Rule 5: a new interval of this length has started.
    Interval(Time),
}

/// A Trickle timer. Times never decrease from one call to the next.
#[derive(Clone, Copy, Debug)]
pub struct Trickle {
    config: TrickleConfig,
    /// I: length of the present interval.
    interval: Time,
    /// t, as a time; `None` after its event.
    transmit_at: Option<Time>,
    /// Time at which the interval ends.
    interval_end: Time,
    /// c: consistent messages received in the present interval.
    counter: u32,
}

impl Trickle {
    /// Rule 1: starts a timer with an interval of length `first`, clamped to the range from Imin to Imax.
    pub fn start(config: TrickleConfig, first: Time, now: Time, rng: &mut impl Rng) -> Trickle {
        let mut timer =
            Trickle { config, interval: config.imin, transmit_at: None, interval_end: now, counter: 0 };
        timer.begin_interval(now, first.max(config.imin).min(config.imax()), rng);
        timer
    }

    /// Changes the parameters, starts an interval of the new Imin and returns true. No effect if they are unchanged.
    pub fn configure(&mut self, config: TrickleConfig, now: Time, rng: &mut impl Rng) -> bool {
        let is_changed = config != self.config;
        if is_changed {
            self.config = config;
            self.begin_interval(now, config.imin, rng);
        }
        is_changed
    }

    /// Rule 2: starts an interval, sets c to 0 and t to a random time in `[I/2, I)`.
    fn begin_interval(&mut self, now: Time, interval: Time, rng: &mut impl Rng) {
        let length = interval.as_ps();
        // The range is not empty, because no interval is shorter than `MIN_IMIN`.
        let offset = Time::from_ps(rng.random_range(length.div_ceil(2)..length));
        self.interval = interval;
        self.transmit_at = Some(now.saturating_add(offset));
        self.interval_end = now.saturating_add(interval);
        self.counter = 0;
    }

    /// Rule 3: counts a consistent message from another node.
    pub fn on_consistent(&mut self) {
        self.counter = self.counter.saturating_add(1);
    }

    /// Rule 6: to be called for an inconsistent message or an external event. Starts an interval of Imin and returns
    /// true, unless the present interval is that short already: in that case nothing changes, so that inconsistent
    /// nodes cannot postpone the transmission for ever.
    pub fn reset(&mut self, now: Time, rng: &mut impl Rng) -> bool {
        let is_above_imin = self.interval > self.config.imin;
        if is_above_imin {
            self.begin_interval(now, self.config.imin, rng);
        }
        is_above_imin
    }

    /// Returns the next event that is due at `now`; `None` if there is none. Call until it returns `None`.
    pub fn poll(&mut self, now: Time, rng: &mut impl Rng) -> Option<TrickleEvent> {
        if self.transmit_at.take_if(|at| *at <= now).is_some() {
            return Some(if self.is_redundant() { TrickleEvent::Suppressed } else { TrickleEvent::Transmit });
        }
        if self.interval_end > now {
            return None;
        }
        // Rule 5: the interval has ended, so double it up to Imax.
        let doubled = Time::from_ps(self.interval.as_ps().saturating_mul(2)).min(self.config.imax());
        // If the caller is late by a whole interval, for example after a suspend, the missed intervals are skipped.
        let from = if self.interval_end.saturating_add(doubled) > now { self.interval_end } else { now };
        self.begin_interval(from, doubled, rng);
        Some(TrickleEvent::Interval(doubled))
    }

    /// Returns the time of the next event of [`poll`](Self::poll).
    pub fn next_event(&self) -> Time {
        self.transmit_at.unwrap_or(self.interval_end)
    }

    /// Returns the end of the present interval, before which a due packet must be sent.
    pub fn interval_end(&self) -> Time {
        self.interval_end
    }

    /// Returns whether k consistent messages were received in this interval.
    pub fn is_redundant(&self) -> bool {
        self.config.k.is_some_and(|k| self.counter >= k.get())
    }

    /// Returns I, the length of the present interval.
    pub fn interval(&self) -> Time {
        self.interval
    }

    /// Returns c, the number of consistent messages received in the present interval.
    pub fn counter(&self) -> u32 {
        self.counter
    }

    /// Returns the parameters.
    pub fn config(&self) -> &TrickleConfig {
        &self.config
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rand::SeedableRng;
    use rand_pcg::Pcg64Mcg;

    const IMIN: Time = Time::from_ms(100);

    fn config(doublings: u32, k: u32) -> TrickleConfig {
        TrickleConfig::new(IMIN, doublings, k).unwrap()
    }

    fn rng(seed: u64) -> Pcg64Mcg {
        Pcg64Mcg::seed_from_u64(seed)
    }

    /// RFC 6206 §4.1: Imin of 100 ms doubled 16 times is 6553.6 s.
    #[test]
    fn imax_is_doublings() {
        assert_eq!(config(16, 1).imax(), Time::from_ms(6_553_600));
        assert_eq!(config(0, 1).imax(), IMIN);
        // An Imax beyond the range of Time saturates.
        assert_eq!(config(63, 1).imax(), Time::MAX);
        assert!(TrickleConfig::new(Time::ZERO, 1, 1).is_err());
        assert!(TrickleConfig::new(IMIN, 64, 1).is_err());
        assert_eq!(config(1, 0).k, None);
    }

    #[test]
    fn starts_anywhere_between_imin_and_imax() {
        let start = |first| Trickle::start(config(3, 1), first, Time::ZERO, &mut rng(1)).interval();
        assert_eq!(start(Time::ZERO), IMIN);
        assert_eq!(start(Time::from_ms(250)), Time::from_ms(250));
        assert_eq!(start(Time::from_secs(9)), Time::from_ms(800));
    }

    #[test]
    fn intervals_double_up_to_imax_and_stay() {
        let mut rng = rng(2);
        let mut timer = Trickle::start(config(3, 1), IMIN, Time::ZERO, &mut rng);
        let mut lengths = Vec::new();
        while lengths.len() < 6 {
            let now = timer.next_event();
            if let Some(TrickleEvent::Interval(length)) = timer.poll(now, &mut rng) {
                lengths.push(length.as_ps() / IMIN.as_ps());
            }
        }
        assert_eq!(lengths, [2, 4, 8, 8, 8, 8]);
    }

    /// In an interval of Imin a reset changes neither c nor t nor the end of the interval.
    #[test]
    fn resets_only_above_imin() {
        let mut rng = rng(3);
        let mut timer = Trickle::start(config(3, 1), IMIN, Time::ZERO, &mut rng);
        timer.on_consistent();
        let (due, interval_end) = (timer.next_event(), timer.interval_end);
        assert!(!timer.reset(Time::from_ms(10), &mut rng));
        assert_eq!((timer.counter(), timer.next_event(), timer.interval_end), (1, due, interval_end));
        assert_eq!(timer.poll(due, &mut rng), Some(TrickleEvent::Suppressed));
        assert_eq!(timer.poll(interval_end, &mut rng), Some(TrickleEvent::Interval(IMIN * 2)));
        timer.on_consistent();
        let now = interval_end + Time::from_ms(7);
        assert!(timer.reset(now, &mut rng));
        assert_eq!((timer.interval(), timer.counter(), timer.interval_end), (IMIN, 0, now + IMIN));
        // A reset does not transmit at once.
        assert_eq!(timer.poll(now, &mut rng), None);
        assert!(timer.next_event() >= now + IMIN / 2);
        // If Imax equals Imin, a reset never changes anything.
        let mut flat = Trickle::start(config(0, 1), IMIN, Time::ZERO, &mut rng);
        assert_eq!(flat.poll(flat.next_event(), &mut rng), Some(TrickleEvent::Transmit));
        assert_eq!(flat.poll(IMIN, &mut rng), Some(TrickleEvent::Interval(IMIN)));
        assert!(!flat.reset(IMIN, &mut rng));
    }

    #[test]
    fn k_consistent_messages_suppress_and_k_of_0_never_does() {
        for (k, counter, event) in [
            (1, 0, TrickleEvent::Transmit),
            (1, 1, TrickleEvent::Suppressed),
            (3, 2, TrickleEvent::Transmit),
            (3, 3, TrickleEvent::Suppressed),
            (0, 1_000, TrickleEvent::Transmit),
        ] {
            let mut rng = rng(4);
            let mut timer = Trickle::start(config(3, k), IMIN, Time::ZERO, &mut rng);
            (0..counter).for_each(|_| timer.on_consistent());
            assert_eq!(timer.poll(timer.next_event(), &mut rng), Some(event), "k {k}, c {counter}");
        }
    }

    /// c also counts messages received after t, and every interval starts with c = 0.
    #[test]
    fn messages_received_after_t_do_not_count_in_the_next_interval() {
        let mut rng = rng(5);
        let mut timer = Trickle::start(config(3, 1), IMIN, Time::ZERO, &mut rng);
        assert_eq!(timer.poll(timer.next_event(), &mut rng), Some(TrickleEvent::Transmit));
        timer.on_consistent();
        assert_eq!(timer.poll(IMIN, &mut rng), Some(TrickleEvent::Interval(IMIN * 2)));
        assert_eq!(timer.counter(), 0);
        assert_eq!(timer.poll(timer.next_event(), &mut rng), Some(TrickleEvent::Transmit));
    }

    /// After a suspend of many intervals, one event per kind is due, not one per missed interval.
    #[test]
    fn a_late_caller_continues_from_now() {
        let mut rng = rng(6);
        let mut timer = Trickle::start(config(3, 1), IMIN, Time::ZERO, &mut rng);
        let late = Time::from_secs(1_000_000);
        let events: Vec<_> = std::iter::from_fn(|| timer.poll(late, &mut rng)).collect();
        assert_eq!(events, [TrickleEvent::Transmit, TrickleEvent::Interval(IMIN * 2)]);
        assert!(timer.next_event() >= late + IMIN);
        // If the caller is late by less than an interval, intervals are not shifted.
        let mut timer = Trickle::start(config(3, 1), IMIN, Time::ZERO, &mut rng);
        while timer.poll(IMIN + Time::from_ms(1), &mut rng).is_some() {}
        assert_eq!(timer.interval_end, IMIN * 3);
    }

    proptest! {
        /// For any sequence of messages: I stays within [Imin, Imax], t within [I/2, I) of its interval, there is at
        /// most one transmission in an interval, and none when k consistent messages were received in it.
        #[test]
        fn the_rules_hold(
            seed: u64,
            imin_ps in 1_000u64..1_000_000_000,
            doublings in 0u32..10,
            k in 0u32..4,
            steps in prop::collection::vec((0u64..3_000_000_000, 0u8..3), 1..200),
        ) {
            let config = TrickleConfig::new(Time::from_ps(imin_ps), doublings, k).unwrap();
            let mut rng = rng(seed);
            let mut timer = Trickle::start(config, config.imin, Time::ZERO, &mut rng);
            let (mut interval_start, mut counter, mut sent) = (Time::ZERO, 0u32, false);
            let mut now = Time::ZERO;
            for (wait, event) in steps {
                let until = now + Time::from_ps(wait);
                // Poll on time: a late poll would shift the intervals.
                while timer.next_event() <= until {
                    now = timer.next_event();
                    match timer.poll(now, &mut rng).unwrap() {
                        TrickleEvent::Interval(length) => {
                            prop_assert_eq!(length, timer.interval());
                            (interval_start, counter, sent) = (now, 0, false);
                        }
                        event => {
                            let since = now - interval_start;
                            prop_assert!(!sent);
                            sent = true;
                            prop_assert!(since * 2 >= timer.interval() && since < timer.interval());
                            prop_assert_eq!(event == TrickleEvent::Suppressed, k > 0 && counter >= k);
                        }
                    }
                }
                now = until;
                match event {
                    0 => {}
                    1 => { timer.on_consistent(); counter += 1; }
                    _ => {
                        let interval_before = timer.interval();
                        let was_reset = timer.reset(now, &mut rng);
                        prop_assert_eq!(was_reset, interval_before > config.imin);
                        if was_reset { (interval_start, counter, sent) = (now, 0, false); }
                    }
                }
                prop_assert!(timer.interval() >= config.imin && timer.interval() <= config.imax());
            }
        }
    }
}
