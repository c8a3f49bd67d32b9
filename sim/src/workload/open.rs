//! Flows that start whatever became of those before.

use super::flow_file::FileFlow;
use super::sizes::Sizes;
use super::spec::{IncastRule, Pairs};
use super::{Arrival, Source};
use crate::rng::Stream;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use weir_controller::topology::HostIx;
use weir_units::Time;

/// A sender of a Poisson process.
struct Sender {
    host: HostIx,
    /// Mean distance of its flows, in seconds.
    gap: f64,
    stream: Stream,
}

impl Sender {
    fn gap(&mut self) -> Time {
        Time::from_secs_f64(self.gap * self.stream.exponential())
    }
}

/// Every sender starts flows at random times, to random receivers.
pub(super) struct Poisson {
    senders: Vec<Sender>,
    /// When each sender's next flow starts.
    next: BinaryHeap<Reverse<(Time, usize)>>,
    sizes: Arc<Sizes>,
    stop: Time,
    left: u64,
    pairs: Pairs,
}

impl Poisson {
    pub fn new(
        senders: impl Iterator<Item = (HostIx, f64, Stream)>,
        sizes: Arc<Sizes>,
        within: Range<Time>,
        count: u64,
        pairs: Pairs,
    ) -> Poisson {
        let mut senders: Vec<Sender> =
            senders.map(|(host, gap, stream)| Sender { host, gap, stream }).collect();
        let first =
            senders.iter_mut().enumerate().map(|(i, sender)| Reverse((within.start + sender.gap(), i)));
        Poisson { next: first.collect(), senders, sizes, stop: within.end, left: count, pairs }
    }
}

impl Source for Poisson {
    fn due(&self) -> Option<Time> {
        let Reverse((time, _)) = self.next.peek().filter(|_| self.left > 0)?;
        (*time < self.stop).then_some(*time)
    }

    fn take(&mut self) -> Option<Arrival> {
        let start = self.due()?;
        let Reverse((_, i)) = self.next.pop()?;
        self.left -= 1;
        let sender = &mut self.senders[i];
        let size = self.sizes.draw(&mut sender.stream);
        let to = self.pairs.peer(sender.host, &mut sender.stream);
        let gap = sender.gap();
        self.next.push(Reverse((start + gap, i)));
        Some(Arrival { from: sender.host, to, start, size, announces: Vec::new(), incast: false, tag: 0 })
    }
}

/// Incasts, one after the other; those of long jitter may overlap.
pub(super) struct Incasts {
    rule: IncastRule,
    stream: Stream,
    /// When the next incast begins.
    next: Option<Time>,
    /// Flows of those that have begun, by start.
    begun: VecDeque<Arrival>,
    left: u64,
}

impl Incasts {
    pub fn new(rule: IncastRule, mut stream: Stream) -> Incasts {
        let first = match rule.gap {
            super::spec::Gap::Fixed(_) => rule.within.start,
            gap @ super::spec::Gap::Mean(_) => rule.within.start + gap.draw(&mut stream),
        };
        let left = rule.count;
        let next = (left > 0 && first < rule.within.end).then_some(first);
        let mut incasts = Incasts { rule, stream, next, begun: VecDeque::new(), left };
        incasts.begin();
        incasts
    }

    /// Begins incasts as long as one may have a flow before the first that is there.
    fn begin(&mut self) {
        while let Some(at) = self.next.filter(|&at| self.begun.front().is_none_or(|flow| at <= flow.start)) {
            self.left -= 1;
            self.gather(at);
            let next = at.saturating_add(self.rule.gap.draw(&mut self.stream));
            self.next = (self.left > 0 && next < self.rule.within.end).then_some(next);
        }
    }

    /// The flows of one incast.
    fn gather(&mut self, at: Time) {
        let IncastRule { from, to, senders, interval, jitter, announce, .. } = &self.rule;
        let stream = &mut self.stream;
        let to = to[stream.below(to.len() as u64) as usize];
        // The beginning of a random order of those who may send.
        let mut others: Vec<HostIx> = from.iter().copied().filter(|&host| host != to).collect();
        for i in 0..*senders {
            let other = i + stream.below((others.len() - i) as u64) as usize;
            others.swap(i, other);
        }
        others.truncate(*senders);
        for (i, &from) in (0..).zip(&others) {
            let late =
                if *jitter == Time::ZERO { Time::ZERO } else { Time::from_ps(stream.below(jitter.as_ps())) };
            let announces = if *announce && i == 0 { others.clone() } else { Vec::new() };
            let size = self.rule.sizes.draw(stream);
            let start = at + *interval * i + late;
            self.begun.push_back(Arrival { from, to, start, size, announces, incast: true, tag: 0 });
        }
        self.begun.make_contiguous().sort_by_key(|flow| flow.start); // stable
    }
}

impl Source for Incasts {
    fn due(&self) -> Option<Time> {
        self.begun.front().map(|flow| flow.start)
    }

    fn take(&mut self) -> Option<Arrival> {
        let flow = self.begun.pop_front();
        self.begin();
        flow
    }
}

/// The flows of a file.
pub(super) struct Replay {
    flows: Arc<[FileFlow]>,
    stretch: u32,
    next: usize,
}

impl Replay {
    pub fn new(flows: Arc<[FileFlow]>, stretch: u32) -> Replay {
        Replay { flows, stretch, next: 0 }
    }
}

impl Source for Replay {
    fn due(&self) -> Option<Time> {
        self.flows.get(self.next).map(|flow| flow.start * u64::from(self.stretch))
    }

    fn take(&mut self) -> Option<Arrival> {
        let start = self.due()?;
        let FileFlow { from, to, incast, size, .. } = self.flows[self.next];
        self.next += 1;
        Some(Arrival { from, to, start, size, announces: Vec::new(), incast, tag: 0 })
    }
}
