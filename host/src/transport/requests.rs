use crate::event::{Announcement, OpenError};
use crate::scheme::TelemetrySource;
use crate::wire::{Flags, LIST_ENTRY_LEN, LIST_HEADER_LEN, MAX_LIST_ENTRIES, max_announced};
use std::collections::VecDeque;
use std::net::Ipv4Addr;
use weir_units::Time;

/// What the packets of a message request or announce besides carrying data: when to request telemetry (in DATA or by
/// PROBE), which credits are unused, and which senders the first packets announce. Only used with go-back-N.
#[derive(Debug)]
pub(super) struct PacketRequests {
    telemetry: TelemetrySource,
    /// Offset of the last packet that requested records of all ports; `None` before the first. Only used with telemetry
    /// once per round trip.
    telemetry_request_seq: Option<u64>,
    /// The last probe; `None` before the first.
    probe: Option<Probe>,
    /// Credit state; `None` if the scheme uses no credits.
    credits: Option<Credits>,
    /// Senders that the first packets announce.
    sender_list: Option<Box<SenderList>>,
}

/// The requests of one DATA packet.
pub(super) struct RequestFlags {
    pub flags: Flags,
    /// True if the packet requests telemetry records of congested ports only.
    pub is_congested_only: bool,
}

/// A probe that was sent.
#[derive(Clone, Copy, Debug)]
struct Probe {
    number: u32,
    sent_at: Time,
    is_answered: bool,
}

/// The announced senders of an incast, and how they are distributed over the message's packets.
#[derive(Debug)]
struct SenderList {
    incast: u32,
    /// The low 16 bits of the senders' addresses.
    senders: Box<[u16]>,
    /// Payload bytes of a full packet when the message was opened.
    max_payload: u64,
}

impl SenderList {
    /// Returns the number of senders in a full packet; 1 for packets that are too small for any, whose messages have no list.
    fn max_per_packet(&self) -> usize {
        let room = (self.max_payload as usize).saturating_sub(LIST_HEADER_LEN);
        (room / LIST_ENTRY_LEN).clamp(1, MAX_LIST_ENTRIES)
    }

    /// Returns the part of the list in the packet at offset `seq` with `payload` bytes; empty if that packet carries
    /// none.
    fn senders_in_packet(&self, seq: u64, payload: u32) -> &[u16] {
        let per_packet = self.max_per_packet();
        let packet_index = (seq / self.max_payload) as usize;
        // A policy may have changed the packet size since the message was opened. The list is then incomplete rather
        // than misaligned.
        let packet_count = self.senders.len().div_ceil(per_packet);
        if !seq.is_multiple_of(self.max_payload) || packet_index >= packet_count {
            return &[];
        }
        let rest = &self.senders[packet_index * per_packet..];
        let senders = &rest[..per_packet.min(rest.len())];
        if LIST_HEADER_LEN + LIST_ENTRY_LEN * senders.len() > payload as usize { &[] } else { senders }
    }
}

/// Credits of one message.
#[derive(Debug, Default)]
struct Credits {
    /// Numbers of the unused credits, oldest first.
    available: VecDeque<u32>,
    /// The highest credit number accepted so far; `None` before the first credit and after a timeout.
    highest: Option<u32>,
    /// True if a PROBE that requests credits must be sent: at first, and again after a timeout.
    is_request_pending: bool,
}

/// Distance in credit numbers up to which credits may be reordered or lost in a row. Weir's choice: half a
/// millisecond of credits at 100 Gbit/s, which also bounds how long one forged credit makes genuine ones look stale.
const CREDIT_REORDER_WINDOW: u32 = 4_096;
/// Upper bound of unused credits of a message. Weir's choice: several times the burst that a switch forwards.
const MAX_CREDITS: usize = 64;

impl PacketRequests {
    pub(super) fn new(telemetry: TelemetrySource, uses_credits: bool) -> PacketRequests {
        PacketRequests {
            telemetry,
            telemetry_request_seq: None,
            probe: None,
            credits: uses_credits.then(|| Credits { is_request_pending: true, ..Credits::default() }),
            sender_list: None,
        }
    }

    /// Applies a scheme change: telemetry is requested as the new scheme needs it.
    pub(super) fn update_for_scheme(&mut self, telemetry: TelemetrySource) {
        if self.telemetry != telemetry {
            (self.telemetry, self.telemetry_request_seq) = (telemetry, None);
        }
    }

    /// Returns whether DATA packets need credits.
    pub(super) fn uses_credits(&self) -> bool {
        self.credits.is_some()
    }

    /// Returns whether credits admit a packet: DATA, or a probe that requests credits.
    pub(super) fn allows_send(&self) -> bool {
        self.credits
            .as_ref()
            .is_none_or(|credits| credits.is_request_pending || !credits.available.is_empty())
    }

    /// Handles the credit `number`; `has_bytes_to_send` is about the message. Returns whether the credit was stored.
    ///
    /// A credit slightly older than the newest is a duplicate or reordered, and is refused. So is a credit if the
    /// message has no bytes to send. A number far off is forged, or all credits between were lost: the credit is
    /// stored, but does not become the reference for others.
    pub(super) fn accept_credit(&mut self, number: u32, has_bytes_to_send: bool) -> bool {
        let Some(credits) = &mut self.credits else { return false };
        // Without a reference, any number counts as the next one.
        let ahead = number.wrapping_sub(credits.highest.unwrap_or(number.wrapping_sub(1))).cast_signed();
        if ahead.unsigned_abs() < CREDIT_REORDER_WINDOW {
            if ahead <= 0 {
                return false;
            }
            credits.highest = Some(number);
        }
        let is_stored = has_bytes_to_send && credits.available.len() < MAX_CREDITS;
        if is_stored {
            credits.available.push_back(number);
        }
        is_stored
    }

    /// Removes and returns the credit for the next DATA packet.
    pub(super) fn spend_credit(&mut self) -> Option<u32> {
        self.credits.as_mut()?.available.pop_front()
    }

    /// After a timeout, requests credits again and accepts any credit number as the new reference.
    pub(super) fn on_rto(&mut self) {
        if let Some(credits) = &mut self.credits {
            credits.is_request_pending = true;
            credits.highest = None;
        }
    }

    /// Stores the senders that the first packets of message `message` of `size` bytes announce. Full packets have
    /// `max_payload` bytes. Fails if the packets have no room for the list. If it takes several packets, the list begins at a
    /// place that depends on the position of this host, `own_addr`: the first packets of all messages then name all senders.
    pub(super) fn announce(
        &mut self,
        announcement: &Announcement,
        own_addr: Ipv4Addr,
        message: u32,
        size: u64,
        max_payload: u32,
    ) -> Result<(), OpenError> {
        let (senders, max_payload) = (&announcement.senders, u64::from(max_payload));
        let max = max_announced(size, max_payload);
        if senders.len() as u64 > max {
            return Err(OpenError::TooManyAnnounced { message, count: senders.len(), max });
        }
        let position = senders.iter().position(|&sender| sender == own_addr).unwrap_or(0);
        let senders: Box<[u16]> = senders.iter().map(|sender| u32::from(*sender) as u16).collect();
        let mut list = SenderList { incast: announcement.incast, senders, max_payload };
        let packets = list.senders.len().div_ceil(list.max_per_packet());
        list.senders.rotate_left(position % packets.max(1) * list.max_per_packet());
        self.sender_list = (!list.senders.is_empty()).then(|| Box::new(list));
        Ok(())
    }

    fn senders_in_packet(&self, seq: u64, payload: u32) -> &[u16] {
        self.sender_list.as_ref().map_or(&[], |list| list.senders_in_packet(seq, payload))
    }

    /// Writes the part of the announcement that the packet at `seq` carries to `out`: the start of the payload. Returns
    /// its length in bytes; 0 if the packet carries none.
    pub(super) fn write_announcement(&self, seq: u64, payload: u32, out: &mut [u8]) -> usize {
        let Some(list) = self.sender_list.as_ref() else { return 0 };
        let senders = list.senders_in_packet(seq, payload);
        let len = LIST_HEADER_LEN + LIST_ENTRY_LEN * senders.len();
        let Some(out) = out.get_mut(..len).filter(|_| !senders.is_empty()) else { return 0 };
        let (header, entries) = out.split_at_mut(LIST_HEADER_LEN);
        header[..2].copy_from_slice(&(senders.len() as u16).to_be_bytes());
        header[2..].copy_from_slice(&list.incast.to_be_bytes());
        for (entry, sender) in entries.as_chunks_mut().0.iter_mut().zip(senders) {
            *entry = sender.to_be_bytes();
        }
        len
    }

    /// Returns the request flags of the DATA packet at `seq` with `payload` bytes, and whether the packet requests
    /// records of congested ports only. `una` is the first unacknowledged byte.
    pub(super) fn flags(&mut self, una: u64, seq: u64, payload: u32) -> RequestFlags {
        let mut flags = Flags::NONE;
        if !self.senders_in_packet(seq, payload).is_empty() {
            flags |= Flags::LOOKAHEAD;
        }
        if self.requests_full_telemetry(una, seq) {
            flags |= Flags::TELEMETRY;
            self.telemetry_request_seq = Some(seq);
        } else if self.telemetry == TelemetrySource::DataOnCongestion {
            return RequestFlags { flags: flags | Flags::TELEMETRY, is_congested_only: true };
        }
        RequestFlags { flags, is_congested_only: false }
    }

    /// Returns whether the DATA packet at `seq` requests records of all ports. With one request per round trip, these
    /// packets do: the first one, the first one after the last request was acknowledged, and retransmissions of the
    /// last request.
    fn requests_full_telemetry(&self, una: u64, seq: u64) -> bool {
        match self.telemetry {
            TelemetrySource::Data | TelemetrySource::RateNotifications => true,
            TelemetrySource::DataOncePerRtt | TelemetrySource::DataOnCongestion => {
                self.telemetry_request_seq.is_none_or(|last_seq| una > last_seq || seq <= last_seq)
            }
            TelemetrySource::None | TelemetrySource::Probes | TelemetrySource::Acks => false,
        }
    }

    /// Returns whether a probe is due. For telemetry: one base RTT after the last probe if its reply has arrived,
    /// else after `probe_timeout`. For credits: if a request is pending and no credit is available.
    pub(super) fn is_probe_due(&self, now: Time, base_rtt: Time, probe_timeout: Time) -> bool {
        if let Some(credits) = &self.credits {
            return credits.is_request_pending && credits.available.is_empty();
        }
        self.telemetry == TelemetrySource::Probes
            && self.probe.is_none_or(|probe| {
                let interval = if probe.is_answered { base_rtt } else { probe_timeout };
                now.saturating_sub(probe.sent_at) >= interval
            })
    }

    /// Records that a probe is sent at `now`, and returns its number.
    pub(super) fn start_probe(&mut self, now: Time) -> u32 {
        if let Some(credits) = &mut self.credits {
            credits.is_request_pending = false;
        }
        let number = self.probe.map_or(0, |probe| probe.number.wrapping_add(1));
        self.probe = Some(Probe { number, sent_at: now, is_answered: false });
        number
    }

    /// Handles the reply to probe `number`. Returns how many probes it acknowledges, counted from probe 0; `None`
    /// unless it is the first reply to the last probe.
    pub(super) fn accept_probe_reply(&mut self, number: u32) -> Option<u64> {
        let probe = self.probe.as_mut()?;
        if probe.number != number || probe.is_answered {
            return None;
        }
        probe.is_answered = true;
        Some(u64::from(number) + 1)
    }
}
