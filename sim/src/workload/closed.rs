//! Flows that start when others have ended.

use super::sizes::Sizes;
use super::spec::{JobRule, Pairs};
use super::{Arrival, Ended, Source};
use crate::rng::Stream;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use weir_controller::topology::HostIx;
use weir_units::{Bytes, Time};

fn arrival(from: HostIx, to: HostIx, start: Time, size: Bytes, tag: u32) -> Arrival {
    Arrival { from, to, start, size, announces: Vec::new(), incast: false, tag }
}

/// Every host to every other: the n-th flow of a host goes to the n-th host after it, so that none receives from all.
pub(super) struct AllToAll {
    size: Bytes,
    hosts: Vec<HostIx>,
    /// Flows that each has begun.
    begun: Vec<usize>,
    ready: VecDeque<(Time, usize)>,
}

impl AllToAll {
    pub fn new(size: Bytes, start: Time, parallel: u32, hosts: Vec<HostIx>) -> AllToAll {
        let each = (parallel as usize).min(hosts.len() - 1);
        let ready = (0..each).flat_map(|_| 0..hosts.len()).map(|host| (start, host)).collect();
        AllToAll { size, begun: vec![0; hosts.len()], hosts, ready }
    }
}

impl Source for AllToAll {
    fn due(&self) -> Option<Time> {
        self.ready.front().map(|(time, _)| *time)
    }

    fn take(&mut self) -> Option<Arrival> {
        let (start, host) = self.ready.pop_front()?;
        self.begun[host] += 1;
        let to = self.hosts[(host + self.begun[host]) % self.hosts.len()];
        Some(arrival(self.hosts[host], to, start, self.size, host as u32))
    }

    fn finished(&mut self, flow: Ended, now: Time) {
        let host = flow.tag as usize;
        // One that is ready to begin counts as begun.
        let waiting = self.ready.iter().filter(|(_, other)| *other == host).count();
        if self.begun[host] + waiting < self.hosts.len() - 1 {
            self.ready.push_back((now, host));
        }
    }

    fn is_closed(&self) -> bool {
        true
    }
}

/// Every sender always has so many flows under way.
pub(super) struct BackToBack {
    sizes: Arc<Sizes>,
    stop: Time,
    left: u64,
    pairs: Pairs,
    streams: Vec<(HostIx, Stream)>,
    ready: VecDeque<(Time, usize)>,
}

impl BackToBack {
    pub fn new(
        streams: impl Iterator<Item = (HostIx, Stream)>,
        sizes: Arc<Sizes>,
        within: Range<Time>,
        count: u64,
        parallel: u32,
        pairs: Pairs,
    ) -> BackToBack {
        let streams: Vec<(HostIx, Stream)> = streams.collect();
        let ready = (0..parallel).flat_map(|_| 0..streams.len()).map(|i| (within.start, i)).collect();
        BackToBack { sizes, stop: within.end, left: count, pairs, streams, ready }
    }
}

impl Source for BackToBack {
    fn due(&self) -> Option<Time> {
        let (time, _) = self.ready.front().filter(|_| self.left > 0)?;
        (*time < self.stop).then_some(*time)
    }

    fn take(&mut self) -> Option<Arrival> {
        self.due()?;
        let (start, i) = self.ready.pop_front()?;
        self.left -= 1;
        let (from, stream) = &mut self.streams[i];
        let size = self.sizes.draw(stream);
        let to = self.pairs.peer(*from, stream);
        Some(arrival(*from, to, start, size, i as u32))
    }

    fn finished(&mut self, flow: Ended, now: Time) {
        self.ready.push_back((now, flow.tag as usize));
    }

    fn is_closed(&self) -> bool {
        true
    }
}

/// A job under way.
struct Job {
    client: HostIx,
    began: Time,
    answers_missing: usize,
}

/// Jobs of requests and answers.
pub(super) struct Jobs {
    rule: JobRule,
    stream: Stream,
    left: u64,
    /// By number; flows of job `n` have the tags `2n` for a request and `2n + 1` for an answer.
    running: BTreeMap<u32, Job>,
    ready: VecDeque<Arrival>,
    /// When the next may begin, one entry for each.
    free: VecDeque<Time>,
    begun: u32,
    times: Vec<Time>,
}

impl Jobs {
    pub fn new(rule: JobRule, stream: Stream) -> Jobs {
        let free = (0..rule.jobs).map(|_| rule.within.start).collect();
        let left = rule.count;
        let mut jobs = Jobs {
            rule,
            stream,
            left,
            running: BTreeMap::new(),
            ready: VecDeque::new(),
            free,
            begun: 0,
            times: Vec::new(),
        };
        jobs.begin();
        jobs
    }

    fn begin(&mut self) {
        while let Some(now) = self.free.pop_front() {
            if self.left == 0 || now >= self.rule.within.end {
                continue;
            }
            self.left -= 1;
            let mut hosts = self.rule.hosts.clone();
            for i in 0..=self.rule.servers {
                let other = i + self.stream.below((hosts.len() - i) as u64) as usize;
                hosts.swap(i, other);
            }
            let number = self.begun;
            self.begun = self.begun.wrapping_add(1) & (u32::MAX >> 1);
            for &server in &hosts[1..=self.rule.servers] {
                self.ready.push_back(arrival(hosts[0], server, now, self.rule.request, number << 1));
            }
            let job = Job { client: hosts[0], began: now, answers_missing: self.rule.servers };
            self.running.insert(number, job);
        }
    }
}

impl Source for Jobs {
    fn due(&self) -> Option<Time> {
        self.ready.front().map(|flow| flow.start)
    }

    fn take(&mut self) -> Option<Arrival> {
        self.ready.pop_front()
    }

    fn received(&mut self, flow: Ended, now: Time) {
        let number = flow.tag >> 1;
        let Some(job) = self.running.get_mut(&number) else { return };
        if flow.tag & 1 == 0 {
            self.ready.push_back(arrival(flow.to, job.client, now, self.rule.response, flow.tag | 1));
            return;
        }
        job.answers_missing -= 1;
        if job.answers_missing == 0 {
            self.times.push(now.saturating_sub(job.began));
            self.running.remove(&number);
            self.free.push_back(now);
            self.begin();
        }
    }

    fn is_closed(&self) -> bool {
        true
    }

    fn job_times(&self) -> &[Time] {
        &self.times
    }
}
