//! What the faults of an experiment do to the frames of one link direction.
//!
//! The model is that of emulated links, [`LinkChannel`]. Here a frame has crossed the link already when it is decided
//! what becomes of it: rate and delay are applied by the transmitter, which belongs to another process, while the
//! channel and its random stream belong to the receiver's.

use weir_experiment::rng::RandomStream;
use weir_switch::link::{
    Delivery, FrameInFlight, LinkChange, LinkChannel, LinkDrop, LinkParameters, RandomBits as _,
};
use weir_switch::packet::{Packet, PacketPool};
use weir_units::Time;

/// The impairments of a wire.
pub struct Impairments {
    /// Number of reasons for which the wire is down (faults of the experiment, and changes by the user); 0 if it is up.
    down_count: u32,
    /// Time at which the wire last came up. Frames sent before that are dropped.
    last_up_at: Time,
    /// Without rate and delay.
    link: LinkParameters,
    /// With the frames that jitter or reordering delays.
    channel: LinkChannel<RandomStream>,
    /// Decides which refreshes of PFC pauses are lost. Refreshes take no time and are not counted, so that they may not
    /// change what happens to other frames either.
    refreshes: RandomStream,
}

impl Impairments {
    /// Creates a wire without impairments.
    pub(crate) fn new(random: RandomStream, refreshes: RandomStream) -> Impairments {
        Impairments {
            down_count: 0,
            last_up_at: Time::ZERO,
            link: LinkParameters::default(),
            channel: LinkChannel::new(random),
            refreshes,
        }
    }

    /// Sets the properties that `change` contains; they apply to frames that arrive from now on.
    pub(crate) fn impair(&mut self, change: &LinkChange) {
        self.link = change.apply(self.link);
    }

    pub(crate) fn is_down(&self) -> bool {
        self.down_count > 0
    }

    /// Adds a reason for which the wire is down.
    pub(crate) fn link_down(&mut self) {
        self.down_count += 1;
    }

    /// Removes one of the reasons for which the wire is down. If none is left, frames that were sent before `now` are
    /// dropped.
    pub(crate) fn link_up(&mut self, now: Time) {
        self.down_count = self.down_count.saturating_sub(1);
        if self.down_count == 0 {
            self.last_up_at = now;
            self.channel.restart_order();
        }
    }

    /// Decides whether a frame is dropped because the link is down, or has been down since the frame was sent.
    /// `arrival` is the frame's arrival time without impairments, `propagation_delay` that of the link.
    fn check_up(&self, arrival: Time, propagation_delay: Time) -> Result<(), LinkDrop> {
        // The last bit was sent one propagation delay before the arrival. If the link came up after that, the frame was
        // cut off.
        if self.is_down() || arrival < self.last_up_at + propagation_delay {
            return Err(LinkDrop::Down);
        }
        Ok(())
    }

    /// Decides whether a PFC frame that arrives at `now` is dropped. PFC frames are not delayed or corrupted.
    pub(crate) fn check_pfc(
        &mut self,
        now: Time,
        propagation_delay: Time,
        is_refresh: bool,
    ) -> Result<(), LinkDrop> {
        self.check_up(now, propagation_delay)?;
        match is_refresh {
            true if self.refreshes.bernoulli(self.link.loss) => Err(LinkDrop::Loss),
            true => Ok(()),
            false => self.channel.check_loss(&self.link),
        }
    }

    /// Decides what becomes of a frame that would arrive at `now` without impairments. If it arrives later, it must be
    /// [delayed](Self::delay).
    pub(crate) fn on_arrival(
        &mut self,
        now: Time,
        propagation_delay: Time,
        frame: &mut Packet,
        pool: &mut PacketPool,
    ) -> Result<Delivery, LinkDrop> {
        self.check_up(now, propagation_delay)?;
        self.channel.transmit(&self.link, now, frame, pool)
    }

    /// Stores a frame that would arrive at `now` until `arrival`, when [`Self::pop_delayed`] must be called.
    pub(crate) fn delay(&mut self, arrival: Time, now: Time, frame: Box<Packet>) {
        self.channel.schedule(FrameInFlight { arrival, sent_at: now, frame });
    }

    /// Removes the frame that has been delayed until `now`. It comes with the reason if it is dropped: the link is down
    /// now, or went down and came up again while the frame was delayed.
    pub(crate) fn pop_delayed(
        &mut self,
        now: Time,
        propagation_delay: Time,
    ) -> Option<(Box<Packet>, Result<(), LinkDrop>)> {
        let FrameInFlight { sent_at, frame, .. } = self.channel.pop_arrived(now)?;
        Some((frame, self.check_up(sent_at, propagation_delay)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_units::Ratio;

    #[test]
    fn refreshes_of_pauses_do_not_change_what_else_is_lost() {
        let half = LinkChange { loss: Ratio::new(0.5), ..LinkChange::default() };
        let losses = |refreshes: usize| {
            let stream = |name| RandomStream::new(1, name);
            let mut wire = Impairments::new(stream("wire 0"), stream("wire 0 pause refreshes"));
            wire.impair(&half);
            let mut lost_refreshes = 0;
            let others: Vec<bool> = (0..100)
                .map(|_| {
                    let refreshes = (0..refreshes).map(|_| wire.check_pfc(Time::ZERO, Time::ZERO, true));
                    lost_refreshes += refreshes.filter(Result::is_err).count();
                    wire.check_pfc(Time::ZERO, Time::ZERO, false).is_err()
                })
                .collect();
            (others, lost_refreshes)
        };
        let ((without, _), (with, lost_refreshes)) = (losses(0), losses(3));
        assert!(without == with && (100..200).contains(&lost_refreshes), "{lost_refreshes} of 300 refreshes");
    }
}
