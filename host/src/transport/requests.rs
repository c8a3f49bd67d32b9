use crate::event::OpenError;
use crate::scheme::TelemetryOn;
use crate::wire::{Flags, MAX_ANNOUNCED};
use std::collections::VecDeque;
use std::net::Ipv4Addr;
use weir_units::Time;

/// What a message asks for beside the delivery of its bytes: telemetry, by DATA or by probes, and credits; and the
/// senders that it announces. Only messages with go-back-N ask for anything.
#[derive(Debug)]
pub(super) struct Requests {
    telemetry: TelemetryOn,
    /// First byte of the last packet that requested telemetry, if one per round trip does.
    asked: Option<u64>,
    /// The last probe: its number, when it left, whether its reply came.
    probe: Option<(u32, Time, bool)>,
    /// State for packets that need credits.
    credits: Option<Credits>,
    /// Hosts that the first packet announces.
    announces: Box<[u16]>,
}

/// Credits that were not used yet.
#[derive(Debug, Default)]
struct Credits {
    /// Their numbers.
    held: VecDeque<u32>,
    /// The newest.
    last: Option<u32>,
    /// None has been asked for, or what was asked for did not come.
    ask: bool,
}

/// Credits that may come out of order, or be lost in a row. Ours: half a millisecond of them at 100 Gbit/s, which is
/// how long one that is forged can make others seem old.
const NEAR_CREDITS: u32 = 4_096;
/// Credits a flow holds at most. Ours: several times what a switch lets pass at once.
const MOST_CREDITS: usize = 64;

impl Requests {
    pub fn new(telemetry: TelemetryOn, credited: bool) -> Requests {
        Requests {
            telemetry,
            asked: None,
            probe: None,
            credits: credited.then(|| Credits { ask: true, ..Credits::default() }),
            announces: Box::default(),
        }
    }

    /// Adapts to a scheme that gathers telemetry on these packets.
    pub fn adapt(&mut self, telemetry: TelemetryOn) {
        if self.telemetry != telemetry {
            (self.telemetry, self.asked) = (telemetry, None);
        }
    }

    /// Returns whether packets need credits.
    pub fn is_credited(&self) -> bool {
        self.credits.is_some()
    }

    /// Returns whether a packet may leave: DATA, or a probe that asks for credits.
    pub fn let_send(&self) -> bool {
        self.credits.as_ref().is_none_or(|credits| credits.ask || !credits.held.is_empty())
    }

    /// Takes a credit; `has_bytes` is true if the message has bytes to send. Returns whether the credit is of use: one
    /// that is a little older than the newest came before, and is not, nor is one that finds nothing to send. A number
    /// far off is a forger's, or all between were lost: it is worth a packet, and says nothing of the others.
    pub fn take_credit(&mut self, number: u32, has_bytes: bool) -> bool {
        let Some(credits) = &mut self.credits else { return false };
        let ahead = number.wrapping_sub(credits.last.unwrap_or(number.wrapping_sub(1))).cast_signed();
        if ahead.unsigned_abs() < NEAR_CREDITS {
            if ahead <= 0 {
                return false;
            }
            credits.last = Some(number);
        }
        let wanted = has_bytes && credits.held.len() < MOST_CREDITS;
        if wanted {
            credits.held.push_back(number);
        }
        wanted
    }

    /// Takes out the credit for the next DATA packet.
    pub fn spend_credit(&mut self) -> Option<u32> {
        self.credits.as_mut()?.held.pop_front()
    }

    /// Asks for credits again after a timeout.
    pub fn time_out(&mut self) {
        if let Some(credits) = &mut self.credits {
            credits.ask = true;
            credits.last = None;
        }
    }

    /// Notes the senders that the first packet, of `payload` bytes, announces.
    pub fn announce(&mut self, senders: &[Ipv4Addr], message: u32, payload: usize) -> Result<(), OpenError> {
        let most = MAX_ANNOUNCED.min(payload.saturating_sub(2) / 2);
        if senders.len() > most {
            return Err(OpenError::TooManyAnnounced { message, count: senders.len(), most });
        }
        self.announces = senders.iter().map(|sender| u32::from(*sender) as u16).collect();
        Ok(())
    }

    /// Writes the list of announced senders, which comes behind the head of the first packet. Returns its length in
    /// bytes, a part of the payload.
    pub fn list(&self, out: &mut [u8]) -> usize {
        if self.announces.is_empty() {
            return 0;
        }
        let count = self.announces.len() as u16;
        let words = [count].into_iter().chain(self.announces.iter().copied());
        let (places, _) = out.as_chunks_mut::<2>();
        for (place, word) in places.iter_mut().zip(words) {
            *place = word.to_be_bytes();
        }
        2 * (1 + self.announces.len())
    }

    /// Returns the flags of the DATA packet at `seq`, with everything before `una` acknowledged.
    pub fn flags(&mut self, una: u64, seq: u64) -> Flags {
        let mut flags = Flags::NONE;
        if seq == 0 && !self.announces.is_empty() {
            flags |= Flags::LOOKAHEAD;
        }
        if self.wants_records(una, seq) {
            flags |= Flags::TELEMETRY;
            self.asked = Some(seq);
        }
        flags
    }

    /// Returns whether the DATA packet at `seq` asks for telemetry. If one per round trip does: the first, the first
    /// after the last that asked was acknowledged, and that one again if it is repeated.
    fn wants_records(&self, una: u64, seq: u64) -> bool {
        match self.telemetry {
            TelemetryOn::Data | TelemetryOn::Notices => true,
            TelemetryOn::DataOncePerRtt => self.asked.is_none_or(|at| una > at || seq <= at),
            TelemetryOn::Nothing | TelemetryOn::Probes | TelemetryOn::Acks => false,
        }
    }

    /// Returns whether a probe is due: a base round trip after the last, once its reply has come or will not.
    pub fn is_probe_due(&self, now: Time, base_rtt: Time, rto: Time) -> bool {
        if let Some(credits) = &self.credits {
            return credits.ask && credits.held.is_empty();
        }
        let since = |at: Time| now.saturating_sub(at);
        self.telemetry == TelemetryOn::Probes
            && self.probe.is_none_or(|(_, at, replied)| since(at) >= if replied { base_rtt } else { rto })
    }

    /// Counts a probe as sent. Returns its number.
    pub fn probe(&mut self, now: Time) -> u32 {
        if let Some(credits) = &mut self.credits {
            credits.ask = false;
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
