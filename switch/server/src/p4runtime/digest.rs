//! Digest messages for the controller: collected in lists, sent once, and repeated only if they were not acknowledged
//! in time (P4Runtime §9.6). Sans-IO.

use p4runtime::p4::config::v1::p4_data_type_spec::TypeSpec;
use p4runtime::p4::v1::digest_entry::Config;
use p4runtime::p4::v1::p4_data::Data;
use p4runtime::p4::v1::{DigestList, DigestListAck, P4Data, P4StructLike};
use p4runtime::p4info::{Index, Object};
use p4runtime::value::canonical;
use std::collections::{BTreeMap, BTreeSet};
use weir_switch::control::ControlError;
use weir_switch::pipeline::Digest;
use weir_units::Time;

/// Maximum length of a list, whatever the controller configures; keeps a list far below gRPC's limit of 4 MB.
const MAX_LIST_LEN: usize = 4096;
/// Maximum number of messages per digest that wait to be sent or acknowledged.
const MAX_OUTSTANDING: usize = 1 << 16;

/// The field values of a message.
type Message = Vec<Vec<u8>>;

/// The digests of a program.
#[derive(Clone, Debug, Default)]
pub struct Digests {
    by_id: BTreeMap<u32, DigestQueue>,
    /// Number of messages dropped because of [`MAX_OUTSTANDING`].
    pub lost: u64,
}

/// The state of one digest.
#[derive(Clone, Debug)]
struct DigestQueue {
    name: String,
    shape: DigestEncoding,
    /// `None`: the controller has not enabled the digest.
    config: Option<Config>,
    waiting: Vec<Message>,
    /// Arrival time of the oldest waiting message.
    oldest_at: Time,
    next_list: u64,
    /// Lists without an acknowledgement, by list id, with the time at which they were sent.
    unacknowledged: BTreeMap<u64, (Time, Vec<Message>)>,
    /// Messages that wait to be sent or acknowledged. A message in this set is not queued again (P4Runtime §9.6).
    outstanding: BTreeSet<Message>,
}

/// The encoding of a message, from its P4 type.
#[derive(Clone, Copy, Debug)]
enum DigestEncoding {
    Bits,
    Struct,
    Tuple,
}

impl Digests {
    /// Returns the digests of a program, all disabled until [`Self::configure`].
    pub fn of(index: &Index) -> Digests {
        let sender = |digest: &p4runtime::p4::config::v1::Digest| {
            let preamble = digest.preamble();
            let shape = match digest.type_spec.as_ref().and_then(|spec| spec.type_spec.as_ref()) {
                Some(TypeSpec::Struct(_) | TypeSpec::Header(_)) => DigestEncoding::Struct,
                Some(TypeSpec::Tuple(_)) => DigestEncoding::Tuple,
                _ => DigestEncoding::Bits,
            };
            let sender = DigestQueue {
                name: preamble.name.clone(),
                shape,
                config: None,
                waiting: Vec::new(),
                oldest_at: Time::ZERO,
                next_list: 1,
                unacknowledged: BTreeMap::new(),
                outstanding: BTreeSet::new(),
            };
            (preamble.id, sender)
        };
        Digests { by_id: index.digests.iter().map(sender).collect(), lost: 0 }
    }

    /// Enables the digests in `settings`, by id, and disables all others.
    pub fn configure(&mut self, settings: &BTreeMap<u32, Config>) {
        for (id, sender) in &mut self.by_id {
            sender.config = settings.get(id).copied();
            if sender.config.is_none() {
                sender.forget();
            }
        }
    }

    /// Returns whether any digest is enabled.
    pub fn any_enabled(&self) -> bool {
        self.by_id.values().any(|sender| sender.config.is_some())
    }

    /// Discards all messages and lists, for a new primary that has not received them.
    pub fn reset(&mut self) {
        self.by_id.values_mut().for_each(DigestQueue::forget);
    }

    /// Handles a message of the data plane. Returns its list if the list is due now.
    pub fn message(&mut self, now: Time, digest: Digest) -> Option<DigestList> {
        let found = self.by_id.iter_mut().find(|(_, sender)| sender.name == digest.list);
        let (&id, sender) = found.filter(|(_, sender)| sender.config.is_some())?;
        sender.expire(now);
        if sender.outstanding.contains(&digest.values) {
            return None;
        }
        if sender.outstanding.len() >= MAX_OUTSTANDING {
            self.lost += 1;
            return None;
        }
        if sender.waiting.is_empty() {
            sender.oldest_at = now;
        }
        sender.outstanding.insert(digest.values.clone());
        sender.waiting.push(digest.values);
        sender.is_due(now).then(|| sender.list(id, now))
    }

    /// Returns the lists that have waited for the configured time.
    pub fn due(&mut self, now: Time) -> Vec<DigestList> {
        let due = self.by_id.iter_mut().filter(|(_, sender)| sender.is_due(now));
        due.map(|(&id, sender)| sender.list(id, now)).collect()
    }

    /// Returns the time at which [`Self::due`] returns the next list.
    pub fn next_due(&self) -> Option<Time> {
        let waiting = self.by_id.values().filter(|sender| !sender.waiting.is_empty());
        waiting.filter_map(|sender| Some(sender.oldest_at.saturating_add(sender.most_wait()?))).min()
    }

    /// Handles an acknowledgement. An old or unknown list id has no effect.
    ///
    /// # Errors
    ///
    /// The program has no such digest.
    pub fn acknowledge(&mut self, ack: &DigestListAck) -> Result<(), ControlError> {
        let unknown = || ControlError::invalid(format!("there is no digest {:#010x}", ack.digest_id));
        let sender = self.by_id.get_mut(&ack.digest_id).ok_or_else(unknown)?;
        if let Some((_, messages)) = sender.unacknowledged.remove(&ack.list_id) {
            sender.release(&messages);
        }
        Ok(())
    }
}

impl DigestQueue {
    fn most_wait(&self) -> Option<Time> {
        self.config.map(|config| time(config.max_timeout_ns))
    }

    fn is_due(&self, now: Time) -> bool {
        let Some(config) = &self.config else { return false };
        let max = match usize::try_from(config.max_list_size) {
            Ok(max @ 1..) => max.min(MAX_LIST_LEN),
            _ => MAX_LIST_LEN,
        };
        let waited = now.saturating_sub(self.oldest_at) >= time(config.max_timeout_ns);
        !self.waiting.is_empty() && (waited || self.waiting.len() >= max)
    }

    fn list(&mut self, digest_id: u32, now: Time) -> DigestList {
        let messages = std::mem::take(&mut self.waiting);
        let list_id = self.next_list;
        self.next_list += 1;
        let data = messages.iter().map(|message| self.shape.data(message)).collect();
        if self.config.is_some_and(|config| config.ack_timeout_ns > 0) {
            self.unacknowledged.insert(list_id, (now, messages));
        } else {
            self.release(&messages);
        }
        DigestList { digest_id, list_id, data, timestamp: 0 }
    }

    /// Discards lists that were not acknowledged in time, so that their messages may be sent again.
    fn expire(&mut self, now: Time) {
        let Some(config) = &self.config else { return };
        let timeout = time(config.ack_timeout_ns);
        // List ids ascend with the time of sending.
        while let Some(oldest) = self.unacknowledged.first_entry()
            && now.saturating_sub(oldest.get().0) >= timeout
        {
            let (_, messages) = oldest.remove();
            self.release(&messages);
        }
    }

    /// Allows these messages to be sent again.
    fn release(&mut self, messages: &[Message]) {
        for message in messages {
            self.outstanding.remove(message);
        }
    }

    fn forget(&mut self) {
        self.waiting.clear();
        self.unacknowledged.clear();
        self.outstanding.clear();
    }
}

impl DigestEncoding {
    fn data(self, message: &Message) -> P4Data {
        let bits = |value: &Vec<u8>| Data::Bitstring(canonical(value));
        let members = || message.iter().map(|value| P4Data { data: Some(bits(value)) }).collect();
        let data = match (self, message.as_slice()) {
            (DigestEncoding::Bits, [value]) => bits(value),
            (DigestEncoding::Tuple, _) => Data::Tuple(P4StructLike { members: members() }),
            _ => Data::Struct(P4StructLike { members: members() }),
        };
        P4Data { data: Some(data) }
    }
}

/// Converts a non-negative time in ns from a protobuf message.
fn time(ns: i64) -> Time {
    Time::from_ns(u64::try_from(ns).unwrap_or(0).min(Time::MAX.as_ns()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: u32 = 0x1700_0001;

    fn digests(max_timeout: u64, max_list_size: i32, ack_timeout: u64) -> Digests {
        let text = format!(
            "digests {{ preamble {{ id: {ID} name: 'learn_t' }} type_spec {{ struct {{ name: 'l' }} }} }}"
        );
        let mut digests = Digests::of(&Index::from_text(&text).unwrap());
        let ns = |ms| Time::from_ms(ms).as_ns() as i64;
        let config =
            Config { max_timeout_ns: ns(max_timeout), max_list_size, ack_timeout_ns: ns(ack_timeout) };
        digests.configure(&BTreeMap::from([(ID, config)]));
        digests
    }

    fn message(value: u16) -> Digest {
        Digest { list: "learn_t".into(), values: vec![value.to_be_bytes().to_vec(), vec![0]] }
    }

    /// Returns the first values of a list's messages.
    fn firsts(list: &DigestList) -> Vec<u64> {
        let first = |data: &P4Data| match data.data.as_ref().unwrap() {
            Data::Struct(it) => match it.members[0].data.as_ref().unwrap() {
                Data::Bitstring(bits) => p4runtime::value::to_u64(bits).unwrap(),
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        };
        list.data.iter().map(first).collect()
    }

    #[test]
    fn by_default_each_message_is_a_list() {
        let mut digests = digests(0, 0, 0);
        let list = digests.message(Time::ZERO, message(5)).unwrap();
        assert_eq!((list.digest_id, list.list_id, firsts(&list)), (ID, 1, vec![5]));
        let again = digests.message(Time::ZERO, message(5)).unwrap();
        assert_eq!((again.list_id, firsts(&again)), (2, vec![5]));
        assert_eq!(digests.next_due(), None);
    }

    #[test]
    fn lists_are_sent_when_full_or_late_without_repeats() {
        let mut digests = digests(100, 3, 0);
        let at = Time::from_ms;
        assert_eq!(digests.message(at(10), message(1)), None);
        assert_eq!(digests.message(at(20), message(1)), None, "the same waits already");
        assert_eq!(digests.message(at(20), message(2)), None);
        assert_eq!(firsts(&digests.message(at(30), message(3)).unwrap()), [1, 2, 3]);
        assert_eq!(digests.message(at(40), message(1)), None);
        assert_eq!(digests.next_due(), Some(at(140)));
        assert!(digests.due(at(139)).is_empty());
        assert_eq!(firsts(&digests.due(at(140))[0]), [1]);
        assert!(digests.due(at(500)).is_empty());
    }

    #[test]
    fn messages_come_again_after_acknowledgement_or_timeout_only() {
        let mut digests = digests(0, 1, 100);
        let at = Time::from_ms;
        let list = digests.message(at(0), message(1)).unwrap();
        assert_eq!(digests.message(at(50), message(1)), None);
        let ack = |digest_id, list_id| DigestListAck { digest_id, list_id };
        digests.acknowledge(&ack(ID, 77)).unwrap();
        assert_eq!(digests.message(at(60), message(1)), None);
        digests.acknowledge(&ack(ID, list.list_id)).unwrap();
        assert!(digests.message(at(70), message(1)).is_some());
        assert_eq!(digests.message(at(169), message(1)), None);
        assert!(digests.message(at(170), message(1)).is_some(), "not acknowledged for 100 ms");
        assert!(digests.acknowledge(&ack(5, 1)).unwrap_err().message.contains("no digest 0x00000005"));
        digests.reset();
        assert!(digests.message(at(171), message(1)).is_some(), "another primary");
    }

    #[test]
    fn memory_has_a_bound() {
        let mut digests = digests(0, 1, 1_000_000);
        for n in 0..MAX_OUTSTANDING as u32 + 10 {
            let values = vec![n.to_be_bytes().to_vec()];
            digests.message(Time::ZERO, Digest { list: "learn_t".into(), values });
        }
        assert_eq!(digests.lost, 10);
        assert!(digests.message(Time::from_secs(2000), message(9)).is_some(), "timeouts make room");
    }

    #[test]
    fn packets_for_no_subscriber_are_not_delivered() {
        let mut digests = digests(100, 10, 0);
        digests.message(Time::ZERO, message(1));
        digests.configure(&BTreeMap::new());
        assert!(!digests.any_enabled());
        assert!(digests.due(Time::from_secs(1)).is_empty());
        assert_eq!(digests.message(Time::from_secs(1), message(2)), None);
    }
}
