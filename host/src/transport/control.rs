use crate::config::HostConfig;
use crate::nic::NicConfig;
use crate::stats::{DropReason, HostStats};
use crate::wire::{Ecn, Flags, FrameRepr, MAX_HOPS, MAX_RECORD_LEN, PacketKind, RecordFormat, WeirRepr};
use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::sync::Arc;
use weir_units::Time;

/// An ACK, NACK, CNP, reply to a probe, or credit that waits for the NIC.
#[derive(Clone, Debug)]
pub(crate) struct ControlFrame {
    pub kind: PacketKind,
    pub flags: Flags,
    /// Destination address.
    pub peer: Ipv4Addr,
    pub entropy_port: u16,
    /// Arrival of the packet that an ACK or NACK answers, if the scheme wants to know how long it waited here
    /// ([`Needs::reports_endpoint_delay`](crate::scheme::Needs)).
    pub arrived_at: Option<Time>,
    // The following are fields of the Weir header.
    pub message: u32,
    pub subflow: u8,
    pub seq: u32,
    pub timestamp: u32,
    pub concurrency: u16,
    pub grant: u32,
    pub records: RecordBuf,
}

/// An owned copy of telemetry records in wire format.
#[derive(Clone, Debug)]
pub(crate) struct RecordBuf {
    bytes: [u8; MAX_HOPS * MAX_RECORD_LEN],
    len: u8,
    format: RecordFormat,
    /// Records in a custom format, whose size is not bounded by [`MAX_RECORD_LEN`]; used in place of `bytes`.
    custom: Option<Arc<[u8]>>,
}

impl RecordBuf {
    /// No records.
    pub(crate) const NONE: RecordBuf =
        RecordBuf { bytes: [0; MAX_HOPS * MAX_RECORD_LEN], len: 0, format: RecordFormat::BASE, custom: None };

    /// Copies the records of a packet.
    pub(crate) fn copy(records: &[u8], format: RecordFormat) -> RecordBuf {
        let mut copy = RecordBuf { format, ..RecordBuf::NONE };
        if format.is_custom() {
            copy.custom = Some(records.into());
            return copy;
        }
        let len = records.len().min(copy.bytes.len());
        copy.bytes[..len].copy_from_slice(&records[..len]);
        copy.len = len as u8;
        copy
    }
    fn as_slice(&self) -> &[u8] {
        self.custom.as_deref().unwrap_or(&self.bytes[..usize::from(self.len)])
    }
}

impl ControlFrame {
    /// Writes the frame, which leaves at `now`, to `out` and returns its length in bytes; `None` if `out` is too short.
    pub(crate) fn emit(&self, now: Time, config: &HostConfig, out: &mut [u8]) -> Option<usize> {
        let waited = |arrived_at| u32::try_from(now.saturating_sub(arrived_at).as_ns()).unwrap_or(u32::MAX);
        let weir = WeirRepr {
            kind: self.kind,
            flags: self.flags,
            tokens: 0,
            subflow: self.subflow,
            format: self.records.format,
            concurrency: self.concurrency,
            int_hops: 0,
            path_id: 0,
            message: self.message,
            seq: self.seq,
            timestamp: self.timestamp,
            grant: self.arrived_at.map_or(self.grant, waited),
        };
        FrameRepr {
            source_mac: config.mac,
            destination_mac: config.gateway_mac,
            source: config.addr,
            destination: self.peer,
            dscp: 0,
            ecn: Ecn::NotEct,
            entropy_port: self.entropy_port,
            weir,
            payload_len: 0,
        }
        .emit(self.records.as_slice(), out)
    }
}

/// The control frames of a host that wait for the NIC or, if the host has a NIC model, for the delay of their kind.
#[derive(Debug)]
pub(crate) struct ControlQueue {
    /// Frames that may leave, oldest first.
    frames: VecDeque<ControlFrame>,
    /// Frames other than CNPs before the end of `ack_delay`.
    acks: DelayLine,
    /// CNPs before the end of `cnp_delay`.
    cnps: DelayLine,
    /// Maximum number of frames in all three.
    limit: usize,
}

/// Frames of equal delay.
#[derive(Debug)]
struct DelayLine {
    delay: Time,
    /// Frames with the end of their delay.
    frames: VecDeque<(Time, ControlFrame)>,
}

impl DelayLine {
    fn new(delay: Time) -> DelayLine {
        DelayLine { delay, frames: VecDeque::new() }
    }

    fn next_end(&self) -> Option<Time> {
        self.frames.front().map(|(end, _)| *end)
    }
}

impl ControlQueue {
    pub(crate) fn new(limit: u32, nic: &NicConfig) -> ControlQueue {
        ControlQueue {
            frames: VecDeque::new(),
            acks: DelayLine::new(nic.ack_delay),
            cnps: DelayLine::new(nic.cnp_delay),
            limit: limit as usize,
        }
    }

    /// Appends a frame and counts it as sent. A full queue drops its oldest frame: a newer ACK of the same flow usually
    /// supersedes it, and otherwise the sender recovers by its retransmission timeout.
    pub(crate) fn push(&mut self, now: Time, frame: ControlFrame, stats: &mut HostStats) {
        let len = self.frames.len() + self.acks.frames.len() + self.cnps.frames.len();
        if len >= self.limit {
            let is_dropped = self.frames.pop_front().is_some()
                || self.acks.frames.pop_front().is_some()
                || self.cnps.frames.pop_front().is_some();
            if is_dropped {
                stats.drops.count(DropReason::ControlQueueFull);
            }
        }
        match frame.kind {
            PacketKind::Nack => stats.nacks_sent += 1,
            PacketKind::Cnp => stats.cnps_sent += 1,
            PacketKind::ProbeReply => stats.probe_replies_sent += 1,
            _ => stats.acks_sent += 1,
        }
        let line = match frame.kind {
            PacketKind::Cnp => &mut self.cnps,
            _ => &mut self.acks,
        };
        if line.delay == Time::ZERO {
            self.frames.push_back(frame);
        } else {
            line.frames.push_back((now.saturating_add(line.delay), frame));
        }
    }

    /// Releases the frames whose delay has ended, in the order of these ends.
    pub(crate) fn release(&mut self, now: Time) {
        while let Some(end) = self.next_release().filter(|&end| end <= now) {
            let line = if self.acks.next_end() == Some(end) { &mut self.acks } else { &mut self.cnps };
            self.frames.extend(line.frames.pop_front().map(|(_, frame)| frame));
        }
    }

    /// Returns the time at which to call [`release`](Self::release) next; `None` if no frame is delayed.
    pub(crate) fn next_release(&self) -> Option<Time> {
        Time::earliest(self.acks.next_end(), self.cnps.next_end())
    }

    /// Removes and returns the oldest frame that may leave.
    pub(crate) fn pop(&mut self) -> Option<ControlFrame> {
        self.frames.pop_front()
    }

    /// Returns whether no frame may leave.
    pub(crate) fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }
}
