use crate::event::{Announcement, OpenError};
use crate::scheme::TelemetrySource;
use crate::wire::{Flags, LIST_ENTRY_LEN, LIST_HEADER_LEN, MAX_LIST_ENTRIES, max_announced};
use std::collections::VecDeque;
use weir_units::Time;

/// The services that a message requests beside the delivery of its bytes: telemetry, in DATA or by probes; credits;
/// and the announcement of its senders. Only messages with go-back-N request any.
#[derive(Debug)]
pub(super) struct PacketRequests {
    telemetry: TelemetrySource,
    /// First byte of the last packet that requested telemetry, if one per round trip does.
    telemetry_asked_at: Option<u64>,
    /// The last probe: its number, when it left, whether its reply came.
    probe: Option<(u32, Time, bool)>,
    /// State for packets that need credits.
    credits: Option<Credits>,
    /// Hosts that the first packets announce.
    list: Option<Box<SenderList>>,
}

/// The senders of an incast, and how its message's packets carry them.
#[derive(Debug)]
struct SenderList {
    incast: u32,
    /// The low bits of their addresses.
    senders: Box<[u16]>,
    /// Payload of the message's full packets.
    payload: u64,
}

impl SenderList {
    /// Returns the part that the packet at `seq` carries, of `payload` bytes.
    fn senders_in_packet(&self, seq: u64, payload: u32) -> &[u16] {
        let each =
            ((self.payload as usize).saturating_sub(LIST_HEADER_LEN) / LIST_ENTRY_LEN).min(MAX_LIST_ENTRIES);
        let packet = (seq / self.payload) as usize;
        // Since the message began, a policy may have changed the size of its packets.
        if !seq.is_multiple_of(self.payload) || packet >= self.senders.len().div_ceil(each.max(1)) {
            return &[];
        }
        let left = &self.senders[packet * each..];
        let part = &left[..each.min(left.len())];
        if LIST_HEADER_LEN + LIST_ENTRY_LEN * part.len() > payload as usize { &[] } else { part }
    }
}

/// Credits that were not used yet.
#[derive(Debug, Default)]
struct Credits {
    /// Their numbers.
    available: VecDeque<u32>,
    /// The newest.
    last: Option<u32>,
    /// None has been asked for, or what was asked for did not come.
    request_pending: bool,
}

/// Credits that may come out of order, or be lost in a row. Ours: half a millisecond of them at 100 Gbit/s, which is
/// how long one that is forged can make others seem old.
const CREDIT_REORDER_WINDOW: u32 = 4_096;
/// Credits a flow holds at most. Ours: several times what a switch lets pass at once.
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

    /// Adapts to a scheme that gathers telemetry on these packets.
    pub fn adapt(&mut self, telemetry: TelemetrySource) {
        if self.telemetry != telemetry {
            (self.telemetry, self.telemetry_asked_at) = (telemetry, None);
        }
    }

    /// Returns whether packets need credits.
    pub fn uses_credits(&self) -> bool {
        self.credits.is_some()
    }

    /// Returns whether a packet may leave: DATA, or a probe that asks for credits.
    pub fn allows_send(&self) -> bool {
        self.credits.as_ref().is_none_or(|credits| credits.request_pending || !credits.available.is_empty())
    }

    /// Takes a credit; `has_bytes` is true if the message has bytes to send. Returns whether the credit is of use: one
    /// that is a little older than the newest came before, and is not, nor is one that finds nothing to send. A number
    /// far off is a forger's, or all between were lost: it is worth a packet, and says nothing of the others.
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

    /// Takes out the credit for the next DATA packet.
    pub fn spend_credit(&mut self) -> Option<u32> {
        self.credits.as_mut()?.available.pop_front()
    }

    /// Asks for credits again after a timeout.
    pub fn time_out(&mut self) {
        if let Some(credits) = &mut self.credits {
            credits.request_pending = true;
            credits.last = None;
        }
    }

    /// Notes the senders that the first packets of a message of `size` bytes announce. Full packets have `payload` bytes.
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

    /// Returns the senders that the packet at `seq` announces.
    fn part(&self, seq: u64, payload: u32) -> &[u16] {
        self.list.as_ref().map_or(&[], |list| list.senders_in_packet(seq, payload))
    }

    /// Writes the part of the list of announced senders that the packet at `seq` carries behind its head. Returns its
    /// length in bytes, a part of the payload.
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

    /// Returns the flags of the DATA packet at `seq` with `payload` bytes, everything before `una` being acknowledged,
    /// and whether it asks for records of congested ports only.
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

    /// Returns whether the DATA packet at `seq` asks for telemetry. If one per round trip does: the first, the first
    /// after the last that asked was acknowledged, and that one again if it is repeated.
    fn wants_records(&self, una: u64, seq: u64) -> bool {
        match self.telemetry {
            TelemetrySource::Data | TelemetrySource::RateNotifications => true,
            TelemetrySource::DataOncePerRtt | TelemetrySource::DataOnCongestion => {
                self.telemetry_asked_at.is_none_or(|at| una > at || seq <= at)
            }
            TelemetrySource::None | TelemetrySource::Probes | TelemetrySource::Acks => false,
        }
    }

    /// Returns whether a probe is due: a base round trip after the last, once its reply has come or will not.
    pub fn is_probe_due(&self, now: Time, base_rtt: Time, rto: Time) -> bool {
        if let Some(credits) = &self.credits {
            return credits.request_pending && credits.available.is_empty();
        }
        let since = |at: Time| now.saturating_sub(at);
        self.telemetry == TelemetrySource::Probes
            && self.probe.is_none_or(|(_, at, replied)| since(at) >= if replied { base_rtt } else { rto })
    }

    /// Counts a probe as sent. Returns its number.
    pub fn start_probe(&mut self, now: Time) -> u32 {
        if let Some(credits) = &mut self.credits {
            credits.request_pending = false;
        }
        let number = self.probe.map_or(0, |(number, ..)| number.wrapping_add(1));
        self.probe = Some((number, now, false));
        number
    }

    /// Takes the reply to the last probe, once. Returns the number of probes that it acknowledges.
    pub fn take_reply(&mut self, number: u32) -> Option<u64> {
        let (last, _, replied) = self.probe.as_mut()?;
        if *last != number || *replied {
            return None;
        }
        *replied = true;
        Some(u64::from(number) + 1)
    }
}
