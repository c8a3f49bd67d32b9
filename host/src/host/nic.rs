//! The path of frames through the NIC model.

use super::Host;
use crate::event::Transmit;
use crate::nic::DepartingFrame;
use crate::stats::DropReason;
use crate::transport::FrameTimes;
use weir_units::Time;

impl Host {
    /// Receives a frame at the NIC. The transport handles it now if nothing delays it.
    pub(super) fn receive_through_nic(&mut self, now: Time, frame: &[u8], virtual_payload: u32) {
        let Some(path) = &mut self.receive_path else { return };
        if !path.push(now, frame, virtual_payload) {
            self.stats.drops.count(DropReason::ReceiveRingFull);
        }
        self.handle_received(now);
    }

    /// Passes the frames that are due to the transport.
    fn handle_received(&mut self, now: Time) {
        while let Some(frame) = self.receive_path.as_mut().and_then(|path| path.pop(now)) {
            let times = FrameTimes { arrived_at: frame.arrived_at, now };
            self.handle(times, &frame.bytes, frame.virtual_payload);
        }
    }

    /// Moves frames from the transport to the NIC, and returns the one that may leave now. Policies are not delayed.
    pub(super) fn transmit_through_nic(&mut self, now: Time, paused: u8, head: &mut [u8]) -> Transmit {
        let Some(mut path) = self.send_path.take() else { return Transmit::Nothing };
        let mut policy = None;
        while path.takes(now) {
            match self.next_frame(now, paused, head) {
                Transmit::Frame { head_len, payload, class, flow } => {
                    let head = head.get(..head_len).unwrap_or_default().to_vec();
                    path.push(now, DepartingFrame { head, payload, class, flow });
                }
                Transmit::Policy { class } => {
                    policy = Some(Transmit::Policy { class });
                    break;
                }
                Transmit::Nothing => break,
            }
        }
        let frame = if policy.is_none() { path.pop(now, paused) } else { None };
        self.send_path = Some(path);
        match (policy, frame) {
            (Some(policy), _) => policy,
            (None, Some(DepartingFrame { head: written, payload, class, flow })) => {
                // Fits: a head has at most MAX_HEADER_LEN bytes, and `transmit` has checked that the buffer has them.
                let head_len = written.len();
                head[..head_len].copy_from_slice(&written);
                Transmit::Frame { head_len, payload, class, flow }
            }
            (None, None) => Transmit::Nothing,
        }
    }

    pub(super) fn next_nic_wakeup(&self) -> Option<Time> {
        let received = self.receive_path.as_ref().and_then(|path| path.next_wakeup());
        let sent = self.send_path.as_ref().and_then(|path| path.next_wakeup());
        Time::earliest(Time::earliest(received, sent), self.control.next_release())
    }

    pub(super) fn wakeup_nic(&mut self, now: Time) {
        if let Some(path) = &mut self.send_path {
            path.on_wakeup(now);
        }
        self.handle_received(now);
        self.control.release(now);
    }
}
