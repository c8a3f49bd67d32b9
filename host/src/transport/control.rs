use crate::config::HostConfig;
use crate::stats::{DropReason, HostStats};
use crate::wire::{Ecn, Flags, FrameRepr, MAX_HOPS, MAX_RECORD_LEN, PacketKind, RecordFormat, WeirRepr};
use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::sync::Arc;

/// An ACK, NACK, CNP, reply to a probe, or credit that waits for the NIC.
#[derive(Clone, Debug)]
pub(crate) struct ControlFrame {
    pub kind: PacketKind,
    pub flags: Flags,
    /// Destination address.
    pub peer: Ipv4Addr,
    pub entropy_port: u16,
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
    /// Writes the frame to `out` and returns its length in bytes; `None` if `out` is too short.
    pub(crate) fn emit(&self, config: &HostConfig, out: &mut [u8]) -> Option<usize> {
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
            grant: self.grant,
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

/// A bounded FIFO of control frames.
#[derive(Debug)]
pub(crate) struct ControlQueue {
    frames: VecDeque<ControlFrame>,
    limit: usize,
}

impl ControlQueue {
    pub(crate) fn new(limit: u32) -> ControlQueue {
        ControlQueue { frames: VecDeque::new(), limit: limit as usize }
    }

    /// Appends a frame and counts it as sent. A full queue drops its oldest frame: a newer ACK of the same flow usually
    /// supersedes it, and otherwise the sender recovers by its retransmission timeout.
    pub(crate) fn push(&mut self, frame: ControlFrame, stats: &mut HostStats) {
        if self.frames.len() >= self.limit {
            self.frames.pop_front();
            stats.drops.count(DropReason::ControlQueueFull);
        }
        match frame.kind {
            PacketKind::Nack => stats.nacks_sent += 1,
            PacketKind::Cnp => stats.cnps_sent += 1,
            PacketKind::ProbeReply => stats.probe_replies_sent += 1,
            _ => stats.acks_sent += 1,
        }
        self.frames.push_back(frame);
    }

    /// Removes and returns the oldest frame.
    pub(crate) fn pop(&mut self) -> Option<ControlFrame> {
        self.frames.pop_front()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }
}
