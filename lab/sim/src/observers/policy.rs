//! Counts POLICY packets, and keeps those that an attacker overhears.

use super::doubling_histogram::DoublingHistogram;
use super::events::{Arrival, Departure, Observer};
use crate::nodes::FrameSource;
use std::collections::VecDeque;
use weir_controller::topology::{HostIx, Node};
use weir_host::wire::{ETHERNET_LEN, POLICY_GROUP};
use weir_units::Time;

/// Number of POLICY frames that an attacker keeps for replay.
const MAX_OVERHEARD: usize = 64;

/// The POLICY packets of a process. Requested by the key `policy` of an experiment.
#[derive(Clone, Debug)]
pub struct PolicyPackets {
    /// Packets that arrived at a switch.
    pub hops: u64,
    /// Packets that hosts sent since the last policy was set.
    pub sent: DoublingHistogram,
    /// For each attacker, the last [`MAX_OVERHEARD`] frames that its host received, newest first.
    overheard: Vec<(HostIx, VecDeque<Vec<u8>>)>,
}

impl PolicyPackets {
    /// `imin` is the length of the first bin of `sent`.
    pub(crate) fn new(imin: Time) -> PolicyPackets {
        PolicyPackets { hops: 0, sent: DoublingHistogram::new(Time::ZERO, imin), overheard: Vec::new() }
    }

    /// Keeps the frames that the host receives from now on.
    pub(crate) fn overhear(&mut self, host: HostIx) {
        if self.overheard(host).is_none() {
            self.overheard.push((host, VecDeque::new()));
        }
    }

    /// Returns the frames that the host has received, newest first; `None` if they are not kept.
    pub(crate) fn overheard(&self, host: HostIx) -> Option<&VecDeque<Vec<u8>>> {
        self.overheard.iter().find_map(|(attacker, frames)| (*attacker == host).then_some(frames))
    }

    /// Returns the sums; `None` if POLICY packets are not observed.
    pub(crate) fn merge<'o>(all: impl Iterator<Item = &'o PolicyPackets>) -> Option<PolicyPackets> {
        all.cloned().reduce(|mut sum, more| {
            sum.hops += more.hops;
            sum.sent.merge(&more.sent);
            sum
        })
    }
}

impl Observer for PolicyPackets {
    fn on_arrival(&mut self, arrival: &Arrival<'_>) {
        let frame = arrival.packet.bytes();
        if !is_policy(frame) {
            return;
        }
        match arrival.to {
            Node::Switch(_) => self.hops += 1,
            Node::Host(host) => {
                if let Some((_, frames)) = self.overheard.iter_mut().find(|(attacker, _)| *attacker == host) {
                    frames.truncate(MAX_OVERHEARD - 1);
                    frames.push_front(frame.to_vec());
                }
            }
        }
    }

    fn on_departure(&mut self, departure: &Departure<'_>) {
        let is_from_host = matches!(departure.from, Node::Host(_)) && departure.source == FrameSource::Node;
        if is_from_host && is_policy(departure.packet.bytes()) {
            self.sent.count(departure.time);
        }
    }
}

/// Returns whether the frame's IPv4 destination is the policy group. Other fields may be corrupt.
fn is_policy(frame: &[u8]) -> bool {
    /// Offset of the destination in the IPv4 header: 16.
    const DESTINATION_OFFSET: usize = ETHERNET_LEN + 16;
    frame.get(DESTINATION_OFFSET..DESTINATION_OFFSET + 4) == Some(&POLICY_GROUP.octets())
}
