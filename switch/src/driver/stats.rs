//! Counters of the driver: frames per port, and frames lost between the wire and the switch.
//!
//! [`crate::engine::SwitchCounters`] counts the packets that the switch itself drops.

use crate::drops::PacketCount;
use crate::engine::SwitchCounters;
use std::fmt;
use weir_units::Time;

/// Declares the reasons once: variant, name in reports, description.
macro_rules! io_drops {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal,)+) => {
        /// The reason why a frame was lost between the wire and the switch.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum IoDrop {
            $($(#[doc = $doc])+ $variant,)+
        }
        impl IoDrop {
            /// All reasons, in the order of reports.
            pub const ALL: &'static [IoDrop] = &[$(IoDrop::$variant,)+];
            pub const fn name(self) -> &'static str {
                match self { $(IoDrop::$variant => $name,)+ }
            }
        }
    };
}

io_drops! {
    /// Receiving: the ring was full, so the kernel dropped the frame. The load exceeds the switch's capacity.
    RingFull = "ring_full",
    /// Receiving: the frame is longer than a slot of the ring, which holds at least the interface's MTU.
    Oversize = "oversize",
    /// Receiving: a GSO packet, which would need segmentation. Disable segmentation offload at the sender.
    Segmented = "segmented",
    /// Receiving: no program is installed.
    NoProgram = "no_program",
    /// Sending: the program chose a port without an interface.
    NoInterface = "no_interface",
    /// Sending: the interface is gone, down or without carrier.
    PortDown = "port_down",
    /// Sending: the interface's own queue was full (ENOBUFS).
    SendQueueFull = "send_queue_full",
    /// Sending: the frame is longer than the interface's MTU (EMSGSIZE), or shorter than an Ethernet header (EINVAL).
    BadLength = "bad_length",
    /// Sending: another error of the kernel.
    SendError = "send_error",
    /// Packet-in: there is no subscriber, or its channel was full.
    PacketInLost = "packet_in_lost",
}

/// One count per [`IoDrop`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IoDrops([u64; IoDrop::ALL.len()]);

impl IoDrops {
    pub(super) fn add(&mut self, reason: IoDrop, frames: u64) {
        self.0[reason as usize] += frames;
    }
    /// Returns the number of frames lost for this reason.
    pub fn get(&self, reason: IoDrop) -> u64 {
        self.0[reason as usize]
    }
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }
    pub(super) fn add_all(&mut self, others: &IoDrops) {
        others.iter().for_each(|(reason, frames)| self.add(reason, frames));
    }
    /// Returns the frames that an interface could not receive.
    pub(super) fn receive_drops(&self) -> IoDrops {
        self.filter(&[IoDrop::RingFull, IoDrop::Oversize, IoDrop::Segmented])
    }
    /// Returns the frames that could not be sent.
    pub(super) fn send_drops(&self) -> IoDrops {
        self.filter(&[IoDrop::PortDown, IoDrop::SendQueueFull, IoDrop::BadLength, IoDrop::SendError])
    }
    fn filter(&self, reasons: &[IoDrop]) -> IoDrops {
        let mut selected = IoDrops::default();
        reasons.iter().for_each(|&reason| selected.add(reason, self.get(reason)));
        selected
    }
    /// Returns the reasons with a count above 0.
    pub fn iter(&self) -> impl Iterator<Item = (IoDrop, u64)> + '_ {
        IoDrop::ALL.iter().map(|&reason| (reason, self.get(reason))).filter(|&(_, frames)| frames > 0)
    }
}

/// The counters of a port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortCounters {
    /// Frames that the switch received.
    pub received: PacketCount,
    /// Frames that the kernel accepted, or that entered the link of the port.
    pub sent: PacketCount,
    /// Frames lost between the wire and the switch, in both directions.
    pub dropped: IoDrops,
    /// Number of times the interface disappeared or went down.
    pub link_down_events: u64,
    /// Frames that no longer fitted into the capture files.
    pub not_captured: u64,
}

/// The state of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortStatus {
    pub port: u16,
    /// The interface, or the name of the pcap files.
    pub interface: String,
    /// True if the port can send and receive.
    pub up: bool,
    pub counters: PortCounters,
    /// Packets in the port's queues.
    pub queued: u32,
}

/// All counters of a data plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataplaneStats {
    /// Time since the start.
    pub uptime: Time,
    /// Ports with an interface, sorted by number.
    pub ports: Vec<PortStatus>,
    /// Frames lost without such a port: sent to a port without an interface, or to the controller.
    pub portless_drops: IoDrops,
    /// Packets that a subscriber accepted for the controller.
    pub packet_in: u64,
    /// Packets that the controller injected.
    pub packet_out: u64,
    /// Digests that no subscriber accepted.
    pub digests_lost: u64,
    /// `None` while no program is installed.
    pub switch: Option<SwitchCounters>,
}

impl fmt::Display for DataplaneStats {
    /// Formats a short table.
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
            write_reasons(f, counters.dropped.iter().map(|(reason, frames)| (reason.name(), frames)))?;
        }
        write!(f, "controller: {} packets in, {} out; lost elsewhere:", self.packet_in, self.packet_out)?;
        write_reasons(f, self.portless_drops.iter().map(|(reason, frames)| (reason.name(), frames)))?;
        let Some(counters) = &self.switch else { return writeln!(f, "switch: no program") };
        let (received, copied, sent) = (counters.received, counters.copied, counters.sent);
        write!(
            f,
            "switch: {received} received, {copied} copied, {sent} sent, {} queued; dropped:",
            counters.queued
        )?;
        write_reasons(f, counters.dropped.iter().map(|(reason, tally)| (reason.name(), tally.packets)))
    }
}

/// Writes ` name count` for each reason, or a dash if there is none, and ends the line.
fn write_reasons(
    f: &mut fmt::Formatter<'_>,
    counts: impl Iterator<Item = (&'static str, u64)>,
) -> fmt::Result {
    let mut is_empty = true;
    for (name, count) in counts {
        write!(f, " {name} {count}")?;
        is_empty = false;
    }
    writeln!(f, "{}", if is_empty { " -" } else { "" })
}
