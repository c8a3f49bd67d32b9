//! The NIC model: delays and limits between the wire and the transport of a host. By default there are none.

use std::collections::VecDeque;
use weir_units::{Bandwidth, Bytes, Time};

/// Number of received frames that wait for the transport at most. Weir's choice: several milliseconds of full frames
/// at 100 Gbit/s, so that only a host that is overloaded for long drops any.
const RECEIVE_RING_LEN: usize = 65_536;

/// The NIC of a host. The default has no delay and no limit but its line rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NicConfig {
    /// Time between the decision to send a DATA packet, which its timestamp records, and its departure. Applies to
    /// feedback too.
    pub send_delay: Time,
    /// Time between the arrival of a frame, or the interrupt that reports it, and its handling.
    pub receive_delay: Time,
    /// Time that an ACK, NACK or other answer waits before it may leave.
    pub ack_delay: Time,
    /// Time that a congestion notification packet waits before it may leave.
    pub cnp_delay: Time,
    /// Interrupt coalescing: the first frame that arrives after an interrupt waits this long for others. 0: every frame
    /// causes an interrupt.
    pub coalesce_time: Time,
    /// The interrupt comes earlier once this many frames wait. `None`: no limit.
    pub coalesce_frames: Option<u32>,
    /// Frames per second that the NIC sends at most, and as many that it receives. `None`: no limit.
    pub packet_rate: Option<u64>,
}

impl NicConfig {
    /// Checks that the keys are possible and fit together.
    pub(crate) fn check(&self) -> Result<(), NicError> {
        if self.packet_rate == Some(0) {
            return Err(NicError::ZeroCount { key: "packet_rate" });
        }
        if self.coalesce_frames == Some(0) {
            return Err(NicError::ZeroCount { key: "coalesce_frames" });
        }
        if self.coalesce_frames.is_some() && self.coalesce_time == Time::ZERO {
            return Err(NicError::CoalesceWithoutTime);
        }
        Ok(())
    }

    /// Returns the shortest time between two frames in one direction.
    fn packet_gap(&self) -> Time {
        /// Picoseconds of a second.
        const PS: u64 = 1_000_000_000_000;
        self.packet_rate.map_or(Time::ZERO, |rate| Time::from_ps(PS.div_ceil(rate.max(1))))
    }

    fn limits_sending(&self) -> bool {
        self.send_delay > Time::ZERO || self.packet_rate.is_some()
    }

    fn limits_receiving(&self) -> bool {
        self.receive_delay > Time::ZERO || self.coalesce_time > Time::ZERO || self.packet_rate.is_some()
    }
}

/// The reason why a [`NicConfig`] is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NicError {
    /// A count is zero.
    #[error("{key}: must be at least 1; omit it for no limit")]
    ZeroCount {
        /// Name of the count in [`NicConfig`].
        key: &'static str,
    },
    /// `coalesce_frames` is set, but `coalesce_time` is not.
    #[error("coalesce_frames: requires coalesce_time, or fewer frames than that would wait for ever")]
    CoalesceWithoutTime,
}

impl NicError {
    /// Returns the name of the key in [`NicConfig`] to which the error refers.
    pub fn key(&self) -> &'static str {
        match self {
            NicError::ZeroCount { key } => key,
            NicError::CoalesceWithoutTime => "coalesce_frames",
        }
    }
}

/// A received frame that waits for the transport.
#[derive(Debug)]
pub(crate) struct ReceivedFrame {
    pub arrived_at: Time,
    pub bytes: Vec<u8>,
    pub virtual_payload: u32,
}

/// The receiving half of a NIC.
#[derive(Debug)]
pub(crate) struct ReceivePath {
    config: NicConfig,
    gap: Time,
    /// Frames that no interrupt has reported yet.
    unreported: VecDeque<ReceivedFrame>,
    /// Reported frames, with the time at which the transport may handle them.
    reported: VecDeque<(Time, ReceivedFrame)>,
    /// Earliest time of the next frame, because of `packet_rate`.
    next_at: Time,
}

impl ReceivePath {
    /// Creates the receiving half; `None` if the configuration does not affect reception.
    pub(crate) fn new(config: &NicConfig) -> Option<Box<ReceivePath>> {
        config.limits_receiving().then(|| {
            Box::new(ReceivePath {
                config: *config,
                gap: config.packet_gap(),
                unreported: VecDeque::new(),
                reported: VecDeque::new(),
                next_at: Time::ZERO,
            })
        })
    }

    /// Adds a frame that arrives at `now`. Returns false if the ring is full, and the frame is lost.
    pub(crate) fn push(&mut self, now: Time, frame: &[u8], virtual_payload: u32) -> bool {
        if self.unreported.len() + self.reported.len() >= RECEIVE_RING_LEN {
            return false;
        }
        self.unreported.push_back(ReceivedFrame { arrived_at: now, bytes: frame.to_vec(), virtual_payload });
        let is_full = self.config.coalesce_frames.is_some_and(|n| self.unreported.len() >= n as usize);
        if is_full || self.config.coalesce_time == Time::ZERO {
            self.report(now);
        }
        true
    }

    /// Interrupts at `now`.
    fn report(&mut self, now: Time) {
        let ready_at = now.saturating_add(self.config.receive_delay);
        for frame in self.unreported.drain(..) {
            let at = ready_at.max(self.next_at);
            self.next_at = at.saturating_add(self.gap);
            self.reported.push_back((at, frame));
        }
    }

    /// Returns the time of the pending interrupt.
    fn interrupt_at(&self) -> Option<Time> {
        let first = self.unreported.front()?;
        Some(first.arrived_at.saturating_add(self.config.coalesce_time))
    }

    /// Removes and returns the next frame that the transport may handle at `now`.
    pub(crate) fn pop(&mut self, now: Time) -> Option<ReceivedFrame> {
        if let Some(at) = self.interrupt_at().filter(|&at| at <= now) {
            self.report(at);
        }
        self.reported.front().filter(|(at, _)| *at <= now)?;
        self.reported.pop_front().map(|(_, frame)| frame)
    }

    /// Returns the time of the next interrupt or frame.
    pub(crate) fn next_wakeup(&self) -> Option<Time> {
        let reported = self.reported.front().map(|(at, _)| *at);
        Time::earliest(reported, self.interrupt_at())
    }
}

/// A frame on its way to the wire: its headers, and the values of [`Transmit::Frame`](crate::Transmit::Frame).
#[derive(Debug)]
pub(crate) struct DepartingFrame<F> {
    pub head: Vec<u8>,
    pub payload: u32,
    pub class: u8,
    pub flow: F,
}

/// The sending half of a NIC: takes frames from the transport at line rate, or at `packet_rate` if that is less, and
/// holds each of them for `send_delay`.
#[derive(Debug)]
pub(crate) struct SendPath<F> {
    delay: Time,
    gap: Time,
    line_rate: Bandwidth,
    /// Frames with the time at which they may leave.
    frames: VecDeque<(Time, DepartingFrame<F>)>,
    /// Bytes in `frames`.
    bytes: u64,
    /// Bytes in `frames` from which on the transport has to wait: while a class is paused, frames do not pile up here.
    max_bytes: u64,
    /// Earliest time to take the next frame.
    next_at: Time,
    /// Time at which to call again, as of the last call. `None`: the wire or the transport has to become ready first.
    wakeup_at: Option<Time>,
}

impl<F> SendPath<F> {
    /// Creates the sending half; `None` if the configuration does not affect sending.
    pub(crate) fn new(config: &NicConfig, line_rate: Bandwidth, mtu: Bytes) -> Option<Box<SendPath<F>>> {
        config.limits_sending().then(|| {
            Box::new(SendPath {
                delay: config.send_delay,
                gap: config.packet_gap(),
                line_rate,
                frames: VecDeque::new(),
                bytes: 0,
                max_bytes: line_rate.bytes_in(config.send_delay).get().saturating_add(mtu.get()),
                next_at: Time::ZERO,
                wakeup_at: None,
            })
        })
    }

    /// Returns whether the NIC takes another frame at `now`.
    pub(crate) fn takes(&self, now: Time) -> bool {
        self.next_at <= now && self.bytes < self.max_bytes
    }

    /// Takes a frame from the transport.
    pub(crate) fn push(&mut self, now: Time, frame: DepartingFrame<F>) {
        let len = frame.head.len() as u64 + u64::from(frame.payload);
        self.bytes += len;
        self.next_at = now.saturating_add(self.line_rate.tx_time(Bytes::new(len)).max(self.gap));
        self.frames.push_back((now.saturating_add(self.delay), frame));
    }

    /// Removes and returns the next frame that may leave at `now`: the oldest one of a class that `paused` does not
    /// have. The last call for this `now`.
    pub(crate) fn pop(&mut self, now: Time, paused: u8) -> Option<DepartingFrame<F>> {
        let ready = self.frames.iter().take_while(|(at, _)| *at <= now);
        let index =
            ready.zip(0..).find(|((_, frame), _)| paused & 1 << frame.class == 0).map(|(_, index)| index);
        let frame = index.and_then(|index| self.frames.remove(index)).map(|(_, frame)| frame);
        if let Some(frame) = &frame {
            self.bytes -= frame.head.len() as u64 + u64::from(frame.payload);
        }
        // A time that has passed waits for the wire or for the end of a pause, after which the driver calls anyway.
        let next_ready = self.frames.iter().map(|(at, _)| *at).find(|&at| at > now);
        let next_taken = Some(self.next_at).filter(|&at| at > now && self.bytes < self.max_bytes);
        self.wakeup_at = Time::earliest(next_ready, next_taken);
        frame
    }

    /// Forgets a wakeup that has come.
    pub(crate) fn on_wakeup(&mut self, now: Time) {
        self.wakeup_at.take_if(|at| *at <= now);
    }

    /// Returns the time at which to transmit again.
    pub(crate) fn next_wakeup(&self) -> Option<Time> {
        self.wakeup_at
    }
}
