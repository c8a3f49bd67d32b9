use crate::event::{Announcement, OpenError};
use crate::scheme::TelemetrySource;
use crate::wire::{Flags, LIST_ENTRY_LEN, LIST_HEADER_LEN, MAX_LIST_ENTRIES, max_announced};
use std::collections::VecDeque;
use weir_units::Time;

/// Per-message state behind the request flags of its packets: when to request telemetry (in DATA or by PROBE), which
/// credits are unused, and which senders the first packets announce. Only used with go-back-N.
#[derive(Debug)]
pub(super) struct PacketRequests {
    telemetry: TelemetrySource,
    /// With telemetry once per round trip: offset of the last packet that requested telemetry.
    telemetry_asked_at: Option<u64>,
    /// The last probe: its number, the time when it was sent, and whether its reply has arrived.
    probe: Option<(u32, Time, bool)>,
    /// Credit state; `None` if the scheme uses no credits.
    credits: Option<Credits>,
    /// Senders that the first packets announce.
    list: Option<Box<SenderList>>,
}

/// The announced senders of an incast, and how they are distributed over the message's packets.
#[derive(Debug)]
struct SenderList {
    incast: u32,
    /// The low 16 bits of the senders' addresses.
    senders: Box<[u16]>,
    /// Payload bytes of a full packet when the message was opened.
    payload: u64,
}

impl SenderList {
    /// Returns the part of the list in the packet at offset `seq` with `payload` bytes; empty if that packet carries
    /// none.
    fn senders_in_packet(&self, seq: u64, payload: u32) -> &[u16] {
        let each =
            ((self.payload as usize).saturating_sub(LIST_HEADER_LEN) / LIST_ENTRY_LEN).min(MAX_LIST_ENTRIES);
        let packet = (seq / self.payload) as usize;
        // A policy may have changed the packet size since the message was opened. The list is then incomplete rather
        // than misaligned.
        if !seq.is_multiple_of(self.payload) || packet >= self.senders.len().div_ceil(each.max(1)) {
            return &[];
        }
        let rest = &self.senders[packet * each..];
        let part = &rest[..each.min(rest.len())];
        if LIST_HEADER_LEN + LIST_ENTRY_LEN * part.len() > payload as usize { &[] } else { part }
    }
}

/// Credits of one message.
#[derive(Debug, Default)]
struct Credits {
    /// Numbers of the unused credits, oldest first.
    available: VecDeque<u32>,
    /// The highest credit number accepted so far.
    last: Option<u32>,
    /// True until a PROBE that requests credits has been sent; true again after a timeout.
    request_pending: bool,
}

/// Distance in credit numbers up to which credits may be reordered or lost in a row. Weir's choice: half a
/// millisecond of credits at 100 Gbit/s, which also bounds how long one forged credit makes genuine ones look stale.
const CREDIT_REORDER_WINDOW: u32 = 4_096;
/// Upper bound of unused credits of a message. Weir's choice: several times the burst that a switch forwards.
const MAX_CREDITS: usize = 64;

impl PacketRequests {
    pub fn new(telemetry: TelemetrySource, credited: bool) -> PacketRequests {
        PacketRequests {
            telemetry,
            telemetry_asked_at: None,
            probe: None,
            credits: credited.then(|| Credits { request_pending: true, ..Credits::default() }),
            list: None,
        }
    }

    /// Applies a scheme change: telemetry is requested as the new scheme needs it.
    pub fn adapt(&mut self, telemetry: TelemetrySource) {
        if self.telemetry != telemetry {
            (self.telemetry, self.telemetry_asked_at) = (telemetry, None);
        }
    }

    /// Returns whether DATA packets need credits.
    pub fn uses_credits(&self) -> bool {
        self.credits.is_some()
    }

    /// Returns whether credits admit a packet: DATA, or a probe that requests credits.
    pub fn allows_send(&self) -> bool {
        self.credits.as_ref().is_none_or(|credits| credits.request_pending || !credits.available.is_empty())
    }

    /// Handles the credit `number`; `has_bytes` is true if the message has bytes to send. Returns whether the credit
    /// was stored. A credit slightly older than the newest is a duplicate or reordered and is refused, as is one for
    /// which nothing is to be sent. A number far off is forged, or all credits between were lost: it is stored, but
    /// does not become the reference for others.
    pub fn take_credit(&mut self, number: u32, has_bytes: bool) -> bool {
        let Some(credits) = &mut self.credits else { return false };
        let ahead = number.wrapping_sub(credits.last.unwrap_or(number.wrapping_sub(1))).cast_signed();
        if ahead.unsigned_abs() < CREDIT_REORDER_WINDOW {
            if ahead <= 0 {
                return false;
            }
            credits.last = Some(number);
        }
        let wanted = has_bytes && credits.available.len() < MAX_CREDITS;
        if wanted {
            credits.available.push_back(number);
        }
        wanted
    }

    /// Removes and returns the credit for the next DATA packet.
    pub fn spend_credit(&mut self) -> Option<u32> {
        self.credits.as_mut()?.available.pop_front()
    }

    /// After a timeout, requests credits again and accepts any credit number as the new reference.
    pub fn time_out(&mut self) {
        if let Some(credits) = &mut self.credits {
            credits.request_pending = true;
            credits.last = None;
        }
    }

    /// Stores the senders that the first packets of message `message` of `size` bytes announce. Full packets have
    /// `payload` bytes. Fails if the packets have no room for the list.
    pub fn announce(
        &mut self,
        announcement: &Announcement,
        message: u32,
        size: u64,
        payload: u32,
    ) -> Result<(), OpenError> {
        let (senders, payload) = (&announcement.senders, u64::from(payload));
        let max = max_announced(size, payload);
        if senders.len() as u64 > max {
            return Err(OpenError::TooManyAnnounced { message, count: senders.len(), max });
        }
        let senders: Box<[u16]> = senders.iter().map(|sender| u32::from(*sender) as u16).collect();
        let list = SenderList { incast: announcement.incast, senders, payload };
        self.list = (!list.senders.is_empty()).then(|| Box::new(list));
        Ok(())
    }

    fn part(&self, seq: u64, payload: u32) -> &[u16] {
        self.list.as_ref().map_or(&[], |list| list.senders_in_packet(seq, payload))
    }

    /// Writes the part of the announcement that the packet at `seq` carries to `out`, behind the headers. Returns its
    /// length in bytes, which is part of the payload.
    pub fn write_announcement(&self, seq: u64, payload: u32, out: &mut [u8]) -> usize {
        let Some(list) = self.list.as_ref() else { return 0 };
        let part = list.senders_in_packet(seq, payload);
        let len = LIST_HEADER_LEN + LIST_ENTRY_LEN * part.len();
        let Some(out) = out.get_mut(..len).filter(|_| !part.is_empty()) else { return 0 };
        let (head, places) = out.split_at_mut(LIST_HEADER_LEN);
        head[..2].copy_from_slice(&(part.len() as u16).to_be_bytes());
        head[2..].copy_from_slice(&list.incast.to_be_bytes());
        for (place, sender) in places.as_chunks_mut().0.iter_mut().zip(part) {
            *place = sender.to_be_bytes();
        }
        len
    }

    /// Returns the request flags of the DATA packet at `seq` with `payload` bytes, where `una` is the first
    /// unacknowledged byte, and whether it requests records of congested ports only.
    pub fn flags(&mut self, una: u64, seq: u64, payload: u32) -> (Flags, bool) {
        let mut flags = Flags::NONE;
        if !self.part(seq, payload).is_empty() {
            flags |= Flags::LOOKAHEAD;
        }
        if self.wants_records(una, seq) {
            flags |= Flags::TELEMETRY;
            self.telemetry_asked_at = Some(seq);
        } else if self.telemetry == TelemetrySource::DataOnCongestion {
            return (flags | Flags::TELEMETRY, true);
        }
        (flags, false)
    }

    /// Returns whether the DATA packet at `seq` requests full telemetry. With one request per round trip these are
    /// the first packet, the first one after the last request was acknowledged, and a retransmission of the last
    /// request.
    fn wants_records(&self, una: u64, seq: u64) -> bool {
        match self.telemetry {
            TelemetrySource::Data | TelemetrySource::RateNotifications => true,
            TelemetrySource::DataOncePerRtt | TelemetrySource::DataOnCongestion => {
                self.telemetry_asked_at.is_none_or(|at| una > at || seq <= at)
            }
            TelemetrySource::None | TelemetrySource::Probes | TelemetrySource::Acks => false,
        }
    }

    /// Returns whether a probe is due. For telemetry: one base RTT after the last probe if its reply has arrived,
    /// else after `rto`. For credits: if a request is pending and no credit is available.
    pub fn is_probe_due(&self, now: Time, base_rtt: Time, rto: Time) -> bool {
        if let Some(credits) = &self.credits {
            return credits.request_pending && credits.available.is_empty();
        }
        let since = |at: Time| now.saturating_sub(at);
        self.telemetry == TelemetrySource::Probes
            && self.probe.is_none_or(|(_, at, replied)| since(at) >= if replied { base_rtt } else { rto })
    }

    /// Records that a probe is sent at `now`, and returns its number.
    pub fn start_probe(&mut self, now: Time) -> u32 {
        if let Some(credits) = &mut self.credits {
            credits.request_pending = false;
        }
        let number = self.probe.map_or(0, |(number, ..)| number.wrapping_add(1));
        self.probe = Some((number, now, false));
        number
    }

    /// Handles the reply to probe `number`. Returns the number of probes acknowledged by it; `None` unless it is the
    /// first reply to the last probe.
    pub fn take_reply(&mut self, number: u32) -> Option<u64> {
        let (last, _, replied) = self.probe.as_mut()?;
        if *last != number || *replied {
            return None;
        }
        *replied = true;
        Some(u64::from(number) + 1)
    }
}
