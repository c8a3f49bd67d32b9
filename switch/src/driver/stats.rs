//! The driver's counters: frames per port, and frames lost between the wire and the switch.
//!
//! [`crate::engine::SwitchCounters`] has the packets that the switch itself drops, by reason.

use crate::drops::PacketCount;
use crate::engine::SwitchCounters;
use std::fmt;
use weir_units::Time;

/// Declares the reasons once: variant, name in reports, meaning.
macro_rules! reasons {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal,)+) => {
        /// The reason for which a frame was lost between a wire and the switch.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum IoDrop {
            $($(#[doc = $doc])+ $variant,)+
        }
        impl IoDrop {
            /// Every reason, in the order of reports.
            pub const ALL: &'static [IoDrop] = &[$(IoDrop::$variant,)+];
            /// Returns the name of the reason in reports.
            pub const fn name(self) -> &'static str {
                match self { $(IoDrop::$variant => $name,)+ }
            }
        }
    };
}

reasons! {
    /// Received: the ring was full, the kernel dropped it. More comes than the switch can do.
    RingFull = "ring_full",
    /// Received: longer than the interface's MTU allows.
    Oversize = "oversize",
    /// Received: a train of segments (GSO), which is no frame. Turn segmentation offload off at the sender.
    Segmented = "segmented",
    /// Received: the switch has no program yet.
    NoProgram = "no_program",
    /// To send: the program chose a port without an interface.
    NoInterface = "no_interface",
    /// To send: the interface is gone, down or without carrier.
    PortDown = "port_down",
    /// To send: the interface's own queue was full (ENOBUFS).
    SendQueueFull = "send_queue_full",
    /// To send: longer than the interface's MTU allows (EMSGSIZE), or shorter than an Ethernet header (EINVAL).
    BadLength = "bad_length",
    /// To send: refused by the kernel for another reason.
    SendError = "send_error",
    /// To the controller: nobody listens, or the listener is too slow.
    PacketInLost = "packet_in_lost",
}

/// One count per [`IoDrop`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IoDrops([u64; IoDrop::ALL.len()]);

impl IoDrops {
    pub(super) fn add(&mut self, reason: IoDrop, frames: u64) {
        self.0[reason as usize] += frames;
    }
    /// Returns frames lost for this reason.
    pub fn of(&self, reason: IoDrop) -> u64 {
        self.0[reason as usize]
    }
    /// Returns frames lost for any reason.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }
    pub(super) fn add_all(&mut self, others: &IoDrops) {
        others.iter().for_each(|(reason, frames)| self.add(reason, frames));
    }
    /// Frames that an interface could not receive.
    pub(super) fn of_reception(&self) -> IoDrops {
        self.only(&[IoDrop::RingFull, IoDrop::Oversize, IoDrop::Segmented])
    }
    /// Frames that could not be sent.
    pub(super) fn of_sending(&self) -> IoDrops {
        self.only(&[IoDrop::PortDown, IoDrop::SendQueueFull, IoDrop::BadLength, IoDrop::SendError])
    }
    fn only(&self, reasons: &[IoDrop]) -> IoDrops {
        let mut some = IoDrops::default();
        reasons.iter().for_each(|&reason| some.add(reason, self.of(reason)));
        some
    }
    /// Returns the reasons that occurred, with their counts.
    pub fn iter(&self) -> impl Iterator<Item = (IoDrop, u64)> + '_ {
        IoDrop::ALL.iter().map(|&reason| (reason, self.of(reason))).filter(|&(_, frames)| frames > 0)
    }
}

/// The counters of a port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortCounters {
    /// Frames the switch took.
    pub received: PacketCount,
    /// Frames the kernel took, or that entered the link of the port.
    pub sent: PacketCount,
    /// Frames lost between the switch and the wire, in either direction.
    pub dropped: IoDrops,
    /// Number of times that the interface disappeared or went down.
    pub link_down_events: u64,
    /// Frames that no longer fitted the capture files.
    pub not_captured: u64,
}

/// A port and its interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortStatus {
    /// Its number.
    pub port: u16,
    /// The interface, or the name of the pcap files.
    pub interface: String,
    /// It can send and receive.
    pub up: bool,
    /// Its counters.
    pub counters: PortCounters,
    /// Packets that wait for it in the switch.
    pub queued: u32,
}

/// All the data plane has counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataplaneStats {
    /// Since the start.
    pub uptime: Time,
    /// The ports with an interface, by number.
    pub ports: Vec<PortStatus>,
    /// Frames lost that belong to no such port: for a port without interface, or for the controller.
    pub portless_drops: IoDrops,
    /// Packets that went to the controller.
    pub packet_in: u64,
    /// Packets that came from the controller.
    pub packet_out: u64,
    /// Digests nobody took.
    pub digests_lost: u64,
    /// The counters of the switch; `None` while it has no program.
    pub switch: Option<SwitchCounters>,
}

impl fmt::Display for DataplaneStats {
    /// A short table for people.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:>4} {:<16} {:>5} {:>12} {:>12}  lost",
            "port", "interface", "state", "received", "sent"
        )?;
        for port in &self.ports {
            let counters = &port.counters;
            let (received, sent) = (counters.received.packets, counters.sent.packets);
            let state = if port.up { "up" } else { "down" };
            write!(f, "{:>4} {:<16} {state:>5} {received:>12} {sent:>12} ", port.port, port.interface)?;
            reasons(f, counters.dropped.iter().map(|(reason, frames)| (reason.name(), frames)))?;
        }
        write!(f, "controller: {} packets in, {} out; lost elsewhere:", self.packet_in, self.packet_out)?;
        reasons(f, self.portless_drops.iter().map(|(reason, frames)| (reason.name(), frames)))?;
        let Some(counters) = &self.switch else { return writeln!(f, "switch: no program") };
        let (received, copied, sent) = (counters.received, counters.copied, counters.sent);
        write!(
            f,
            "switch: {received} received, {copied} copied, {sent} sent, {} queued; dropped:",
            counters.queued
        )?;
        reasons(f, counters.dropped.iter().map(|(reason, tally)| (reason.name(), tally.packets)))
    }
}

/// Writes `name count` for each, or a dash, and ends the row.
fn reasons(f: &mut fmt::Formatter<'_>, counts: impl Iterator<Item = (&'static str, u64)>) -> fmt::Result {
    let mut none = true;
    for (name, count) in counts {
        write!(f, " {name} {count}")?;
        none = false;
    }
    writeln!(f, "{}", if none { " -" } else { "" })
}
