//! Digest messages for the controller: collected in lists, sent once, and repeated only if they were not acknowledged
//! in time (P4Runtime §9.6). Does no I/O and reads no clock.

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
pub(super) struct Digests {
    by_id: BTreeMap<u32, DigestQueue>,
    /// Number of messages dropped because of [`MAX_OUTSTANDING`].
    pub dropped: u64,
}

/// The state of one digest.
#[derive(Clone, Debug)]
struct DigestQueue {
    name: String,
    encoding: DigestEncoding,
    /// `None`: the controller has not enabled the digest.
    config: Option<Config>,
    waiting: Vec<Message>,
    /// Arrival time of the oldest waiting message.
    oldest_at: Time,
    next_list_id: u64,
    /// Lists without an acknowledgement, by list id.
    unacknowledged: BTreeMap<u64, SentList>,
    /// Messages that wait to be sent or acknowledged. A message in this set is not queued again (P4Runtime §9.6).
    outstanding: BTreeSet<Message>,
}

/// A list that was sent and waits for its acknowledgement.
#[derive(Clone, Debug)]
struct SentList {
    sent_at: Time,
    messages: Vec<Message>,
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
    pub(super) fn from_p4info(index: &Index) -> Digests {
        let queue = |digest: &p4runtime::p4::config::v1::Digest| {
            let preamble = digest.preamble();
            let encoding = match digest.type_spec.as_ref().and_then(|spec| spec.type_spec.as_ref()) {
                Some(TypeSpec::Struct(_) | TypeSpec::Header(_)) => DigestEncoding::Struct,
                Some(TypeSpec::Tuple(_)) => DigestEncoding::Tuple,
                _ => DigestEncoding::Bits,
            };
            let queue = DigestQueue {
                name: preamble.name.clone(),
                encoding,
                config: None,
                waiting: Vec::new(),
                oldest_at: Time::ZERO,
                next_list_id: 1,
                unacknowledged: BTreeMap::new(),
                outstanding: BTreeSet::new(),
            };
            (preamble.id, queue)
        };
        Digests { by_id: index.digests.iter().map(queue).collect(), dropped: 0 }
    }

    /// Enables the digests in `settings`, by id, and disables all others.
    pub(super) fn configure(&mut self, settings: &BTreeMap<u32, Config>) {
        for (id, queue) in &mut self.by_id {
            queue.config = settings.get(id).copied();
            if queue.config.is_none() {
                queue.clear();
            }
        }
    }

    /// Returns whether any digest is enabled.
    pub(super) fn any_enabled(&self) -> bool {
        self.by_id.values().any(|queue| queue.config.is_some())
    }

    /// Discards all messages and lists, for a new primary that has not received them.
    pub(super) fn reset(&mut self) {
        self.by_id.values_mut().for_each(DigestQueue::clear);
    }

    /// Queues a message from the data plane. Returns the list with it if that list is due now.
    pub(super) fn push(&mut self, now: Time, digest: Digest) -> Option<DigestList> {
        // The data plane names digests; its ids are those of the program's JSON, not of the P4Info.
        let found = self.by_id.iter_mut().find(|(_, queue)| queue.name == digest.list);
        let (&id, queue) = found.filter(|(_, queue)| queue.config.is_some())?;
        queue.expire(now);
        if queue.outstanding.contains(&digest.values) {
            return None;
        }
        if queue.outstanding.len() >= MAX_OUTSTANDING {
            self.dropped += 1;
            return None;
        }
        if queue.waiting.is_empty() {
            queue.oldest_at = now;
        }
        queue.outstanding.insert(digest.values.clone());
        queue.waiting.push(digest.values);
        queue.is_due(now).then(|| queue.take_list(id, now))
    }

    /// Removes and returns the lists that have waited for the configured time.
    pub(super) fn take_due(&mut self, now: Time) -> Vec<DigestList> {
        let due = self.by_id.iter_mut().filter(|(_, queue)| queue.is_due(now));
        due.map(|(&id, queue)| queue.take_list(id, now)).collect()
    }

    /// Returns the time at which [`Self::take_due`] returns the next list; `None` if no message waits.
    pub(super) fn next_due(&self) -> Option<Time> {
        let waiting = self.by_id.values().filter(|queue| !queue.waiting.is_empty());
        waiting.filter_map(|queue| Some(queue.oldest_at.saturating_add(queue.max_wait()?))).min()
    }

    /// Handles an acknowledgement. An old or unknown list id has no effect.
    ///
    /// # Errors
    ///
    /// The program has no such digest.
    pub(super) fn acknowledge(&mut self, ack: &DigestListAck) -> Result<(), ControlError> {
        let unknown = || ControlError::invalid(format!("there is no digest {:#010x}", ack.digest_id));
        let queue = self.by_id.get_mut(&ack.digest_id).ok_or_else(unknown)?;
        if let Some(list) = queue.unacknowledged.remove(&ack.list_id) {
            queue.release(&list.messages);
        }
        Ok(())
    }
}

impl DigestQueue {
    fn max_wait(&self) -> Option<Time> {
        self.config.map(|config| time(config.max_timeout_ns))
    }

    fn is_due(&self, now: Time) -> bool {
        let Some(config) = &self.config else { return false };
        let max = match usize::try_from(config.max_list_size) {
            Ok(max @ 1..) => max.min(MAX_LIST_LEN),
            _ => MAX_LIST_LEN,
        };
        let has_waited = now.saturating_sub(self.oldest_at) >= time(config.max_timeout_ns);
        !self.waiting.is_empty() && (has_waited || self.waiting.len() >= max)
    }

    fn take_list(&mut self, digest_id: u32, now: Time) -> DigestList {
        let messages = std::mem::take(&mut self.waiting);
        let list_id = self.next_list_id;
        self.next_list_id += 1;
        let data = messages.iter().map(|message| self.encoding.data(message)).collect();
        if self.config.is_some_and(|config| config.ack_timeout_ns > 0) {
            self.unacknowledged.insert(list_id, SentList { sent_at: now, messages });
        } else {
            self.release(&messages);
        }
        // The sender sets the timestamp.
        DigestList { digest_id, list_id, data, timestamp: 0 }
    }

    /// Discards lists that were not acknowledged in time, so that their messages may be sent again.
    fn expire(&mut self, now: Time) {
        let Some(config) = &self.config else { return };
        let timeout = time(config.ack_timeout_ns);
        // List ids ascend with the time of sending.
        while let Some(oldest) = self.unacknowledged.first_entry()
            && now.saturating_sub(oldest.get().sent_at) >= timeout
        {
            let list = oldest.remove();
            self.release(&list.messages);
        }
    }

    /// Ends the suppression of these messages: equal ones may be sent again.
    fn release(&mut self, messages: &[Message]) {
        for message in messages {
            self.outstanding.remove(message);
        }
    }

    fn clear(&mut self) {
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
        let mut digests = Digests::from_p4info(&Index::from_text(&text).unwrap());
        let ns = |ms| Time::from_ms(ms).as_ns() as i64;
        let config =
            Config { max_timeout_ns: ns(max_timeout), max_list_size, ack_timeout_ns: ns(ack_timeout) };
        digests.configure(&BTreeMap::from([(ID, config)]));
        digests
    }

    fn message(value: u16) -> Digest {
        Digest { list: "learn_t".into(), list_id: 1, values: vec![value.to_be_bytes().to_vec(), vec![0]] }
    }

    /// Returns the first values of a list's messages.
    fn first_values(list: &DigestList) -> Vec<u64> {
        let first = |data: &P4Data| match data.data.as_ref().unwrap() {
            Data::Struct(fields) => match fields.members[0].data.as_ref().unwrap() {
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
        let list = digests.push(Time::ZERO, message(5)).unwrap();
        assert_eq!((list.digest_id, list.list_id, first_values(&list)), (ID, 1, vec![5]));
        let again = digests.push(Time::ZERO, message(5)).unwrap();
        assert_eq!((again.list_id, first_values(&again)), (2, vec![5]));
        assert_eq!(digests.next_due(), None);
    }

    #[test]
    fn lists_are_sent_when_full_or_late_without_repeats() {
        let mut digests = digests(100, 3, 0);
        let ms = Time::from_ms;
        assert_eq!(digests.push(ms(10), message(1)), None);
        assert_eq!(digests.push(ms(20), message(1)), None, "an equal message waits already");
        assert_eq!(digests.push(ms(20), message(2)), None);
        assert_eq!(first_values(&digests.push(ms(30), message(3)).unwrap()), [1, 2, 3]);
        assert_eq!(digests.push(ms(40), message(1)), None);
        assert_eq!(digests.next_due(), Some(ms(140)));
        assert!(digests.take_due(ms(139)).is_empty());
        assert_eq!(first_values(&digests.take_due(ms(140))[0]), [1]);
        assert!(digests.take_due(ms(500)).is_empty());
    }

    #[test]
    fn messages_repeat_only_after_acknowledgement_or_timeout() {
        let mut digests = digests(0, 1, 100);
        let ms = Time::from_ms;
        let list = digests.push(ms(0), message(1)).unwrap();
        assert_eq!(digests.push(ms(50), message(1)), None);
        let ack = |digest_id, list_id| DigestListAck { digest_id, list_id };
        digests.acknowledge(&ack(ID, 77)).unwrap();
        assert_eq!(digests.push(ms(60), message(1)), None);
        digests.acknowledge(&ack(ID, list.list_id)).unwrap();
        assert!(digests.push(ms(70), message(1)).is_some());
        assert_eq!(digests.push(ms(169), message(1)), None);
        assert!(digests.push(ms(170), message(1)).is_some(), "not acknowledged for 100 ms");
        assert!(digests.acknowledge(&ack(5, 1)).unwrap_err().message.contains("no digest 0x00000005"));
        digests.reset();
        assert!(digests.push(ms(171), message(1)).is_some(), "a new primary gets all messages");
    }

    #[test]
    fn the_number_of_outstanding_messages_is_bounded() {
        let mut digests = digests(0, 1, 1_000_000);
        for n in 0..MAX_OUTSTANDING as u32 + 10 {
            let values = vec![n.to_be_bytes().to_vec()];
            digests.push(Time::ZERO, Digest { list: "learn_t".into(), list_id: 1, values });
        }
        assert_eq!(digests.dropped, 10);
        assert!(digests.push(Time::from_secs(2000), message(9)).is_some(), "timeouts make room");
    }

    #[test]
    fn a_disabled_digest_drops_its_messages() {
        let mut digests = digests(100, 10, 0);
        digests.push(Time::ZERO, message(1));
        digests.configure(&BTreeMap::new());
        assert!(!digests.any_enabled());
        assert!(digests.take_due(Time::from_secs(1)).is_empty());
        assert_eq!(digests.push(Time::from_secs(1), message(2)), None);
    }
}
