//! Learning notifications: collects digests in buffers, encodes a full or late buffer, and suppresses samples until
//! they are acknowledged, as BMv2's learn engine does (learning.cpp). Does no I/O and reads no clock. A sample is the
//! content of a digest; a learn list is a digest of the program.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use weir_switch::pipeline::Digest;

/// Maximum number of samples in a buffer, whatever a client sets.
const MAX_BUFFER_SIZE: usize = 4096;
/// Maximum number of samples of a list that wait to be sent or acknowledged. BMv2 has no limit.
const MAX_OUTSTANDING: usize = 1 << 16;
/// Timeout of a buffer that is not full; BMv2's default.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(1);

/// The bytes of a sample: its fields, each of whole bytes.
type Sample = Vec<u8>;

/// The learn lists of a switch, by the id in the program's JSON.
#[derive(Debug, Default)]
pub(super) struct Learning {
    device_id: u64,
    lists: BTreeMap<i32, LearnList>,
}

#[derive(Debug)]
struct LearnList {
    /// Number of samples with which a buffer is sent.
    buffer_size: usize,
    /// Time after which a buffer that is not full is sent; zero: never.
    timeout: Duration,
    waiting: Vec<Sample>,
    /// Arrival time of the first waiting sample; `None` if there is none.
    waiting_since: Option<Instant>,
    next_buffer_id: u64,
    /// Sent buffers, by id; an acknowledged sample is `None`.
    sent: BTreeMap<u64, Vec<Option<Sample>>>,
    /// Samples that wait to be sent or acknowledged. An equal sample is not collected again.
    outstanding: BTreeSet<Sample>,
}

impl Default for LearnList {
    fn default() -> LearnList {
        LearnList {
            buffer_size: 1,
            timeout: DEFAULT_TIMEOUT,
            waiting: Vec::new(),
            waiting_since: None,
            next_buffer_id: 0,
            sent: BTreeMap::new(),
            outstanding: BTreeSet::new(),
        }
    }
}

impl Learning {
    pub(super) fn new(device_id: u64) -> Learning {
        Learning { device_id, lists: BTreeMap::new() }
    }

    fn list(&mut self, id: i32) -> &mut LearnList {
        self.lists.entry(id).or_default()
    }

    /// Collects a digest, unless an equal one is not acknowledged yet.
    pub(super) fn push(&mut self, now: Instant, digest: &Digest) {
        // BMv2's message has 32 bits for the id. p4c numbers lists from 1, so every id fits.
        let Ok(id) = i32::try_from(digest.list_id) else { return };
        let (list, sample) = (self.list(id), digest.values.concat());
        if list.outstanding.len() < MAX_OUTSTANDING && list.outstanding.insert(sample.clone()) {
            list.waiting.push(sample);
            list.waiting_since.get_or_insert(now);
        }
    }

    /// Removes and returns the notifications that are due: of buffers that are full or have reached their timeout.
    pub(super) fn take_due(&mut self, now: Instant) -> Vec<Vec<u8>> {
        let mut messages = Vec::new();
        for (&id, list) in &mut self.lists {
            while let Some(count) = list.due_samples(now) {
                messages.push(list.take_notification(self.device_id, id, count));
            }
        }
        messages
    }

    /// Returns the time at which [`Self::take_due`] returns the next notification.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.lists.values().filter_map(LearnList::deadline).min()
    }

    pub(super) fn set_buffer_size(&mut self, list: i32, samples: usize) {
        self.list(list).buffer_size = samples.clamp(1, MAX_BUFFER_SIZE);
    }

    pub(super) fn set_timeout(&mut self, list: i32, timeout: Duration) {
        self.list(list).timeout = timeout;
    }

    /// Acknowledges samples of a buffer, by their position. Unknown buffers and samples are ignored, as in BMv2.
    pub(super) fn acknowledge(&mut self, list: i32, buffer: u64, samples: impl IntoIterator<Item = usize>) {
        let list = self.list(list);
        let Some(sent) = list.sent.get_mut(&buffer) else { return };
        for sample in samples {
            if let Some(sample) = sent.get_mut(sample).and_then(Option::take) {
                list.outstanding.remove(&sample);
            }
        }
        if sent.iter().all(Option::is_none) {
            list.sent.remove(&buffer);
        }
    }

    /// Acknowledges all samples of a buffer.
    pub(super) fn acknowledge_buffer(&mut self, list: i32, buffer: u64) {
        self.acknowledge(list, buffer, 0..MAX_BUFFER_SIZE);
    }

    /// Discards all samples. The settings stay.
    pub(super) fn reset(&mut self) {
        for list in self.lists.values_mut() {
            list.waiting.clear();
            list.waiting_since = None;
            list.sent.clear();
            list.outstanding.clear();
        }
    }
}

impl LearnList {
    fn deadline(&self) -> Option<Instant> {
        (!self.timeout.is_zero()).then_some(self.waiting_since? + self.timeout)
    }

    /// Returns the number of samples to send now; `None` if no buffer is due.
    fn due_samples(&self, now: Instant) -> Option<usize> {
        match self.waiting.len() {
            0 => None,
            count if count >= self.buffer_size => Some(self.buffer_size),
            count => self.deadline().is_some_and(|deadline| deadline <= now).then_some(count),
        }
    }

    /// Removes the first `count` waiting samples and returns the notification with them: BMv2's `msg_hdr_t` in the
    /// machine's byte order, then the samples.
    fn take_notification(&mut self, device_id: u64, id: i32, count: usize) -> Vec<u8> {
        let samples: Vec<Sample> = self.waiting.drain(..count).collect();
        self.waiting_since = self.waiting_since.filter(|_| !self.waiting.is_empty());
        let (context, buffer_id) = (0i32, self.next_buffer_id);
        self.next_buffer_id += 1;
        let mut message = b"LEA|".to_vec();
        message.extend(device_id.to_ne_bytes());
        message.extend(context.to_ne_bytes());
        message.extend(id.to_ne_bytes());
        message.extend(buffer_id.to_ne_bytes());
        message.extend((samples.len() as u32).to_ne_bytes());
        message.extend(samples.iter().flatten());
        self.sent.insert(buffer_id, samples.into_iter().map(Some).collect());
        message
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(value: u8) -> Digest {
        Digest { list: "learn_t".into(), list_id: 7, values: vec![vec![10, value], vec![1]] }
    }

    /// Returns buffer id and first values of the samples of each notification.
    fn summary(messages: &[Vec<u8>]) -> Vec<(u64, Vec<u8>)> {
        let summarize = |message: &Vec<u8>| {
            let (header, samples) = message.split_at(32);
            assert_eq!(header[..4], *b"LEA|");
            assert_eq!(header[4..12], 5u64.to_ne_bytes(), "device id");
            assert_eq!(header[12..20], [0i32.to_ne_bytes(), 7i32.to_ne_bytes()].concat(), "context, list");
            assert_eq!(header[28..], (samples.len() as u32 / 3).to_ne_bytes());
            let buffer = u64::from_ne_bytes(header[20..28].try_into().unwrap());
            (buffer, samples.chunks(3).map(|sample| sample[1]).collect())
        };
        messages.iter().map(summarize).collect()
    }

    #[test]
    fn each_sample_is_sent_once_until_it_is_acknowledged() {
        let (now, mut learning) = (Instant::now(), Learning::new(5));
        for value in [1, 2, 1] {
            learning.push(now, &digest(value));
        }
        assert_eq!(summary(&learning.take_due(now)), [(0, vec![1]), (1, vec![2])]);
        learning.push(now, &digest(1));
        assert!(learning.take_due(now).is_empty());
        learning.acknowledge(7, 1, [0]);
        learning.acknowledge(7, 1, [0, 99]);
        learning.acknowledge_buffer(8, 0);
        learning.push(now, &digest(1));
        learning.push(now, &digest(2));
        assert_eq!(summary(&learning.take_due(now)), [(2, vec![2])]);
        learning.acknowledge_buffer(7, 0);
        learning.push(now, &digest(1));
        assert_eq!(summary(&learning.take_due(now)), [(3, vec![1])]);
        learning.reset();
        learning.push(now, &digest(2));
        assert_eq!(summary(&learning.take_due(now)), [(4, vec![2])]);
    }

    #[test]
    fn a_buffer_is_sent_when_it_is_full_or_late() {
        let (start, mut learning) = (Instant::now(), Learning::new(5));
        learning.set_buffer_size(7, 3);
        (1..=4).for_each(|value| learning.push(start, &digest(value)));
        assert_eq!(summary(&learning.take_due(start)), [(0, vec![1, 2, 3])]);
        assert_eq!(learning.next_due(), Some(start + DEFAULT_TIMEOUT));
        assert_eq!(summary(&learning.take_due(start + DEFAULT_TIMEOUT)), [(1, vec![4])]);
        assert_eq!(learning.next_due(), None);
        learning.set_timeout(7, Duration::ZERO);
        learning.push(start, &digest(5));
        assert_eq!(learning.next_due(), None);
        learning.set_buffer_size(7, 0);
        assert_eq!(summary(&learning.take_due(start)), [(2, vec![5])], "0 counts as 1");
    }

    #[test]
    fn the_number_of_outstanding_samples_is_bounded() {
        let (now, mut learning) = (Instant::now(), Learning::new(5));
        for value in 0..MAX_OUTSTANDING as u32 + 10 {
            let digest = Digest { values: vec![value.to_be_bytes().to_vec()], ..digest(0) };
            learning.push(now, &digest);
        }
        assert_eq!(learning.take_due(now).len(), MAX_OUTSTANDING);
    }
}
