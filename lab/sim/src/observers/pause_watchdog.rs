//! The PFC watchdog: finds ports that were paused for too long without interruption.

use super::events::{Observer, PauseEvent};
use std::collections::BTreeMap;
use weir_controller::topology::{Endpoint, LinkIx, Node, Topology};
use weir_experiment::results::LongPause;
use weir_units::Time;

/// A class of the transmitter of a link direction.
type PausedClass = (u32, u8);

/// The pauses of the transmitters of a process.
pub struct PauseWatchdog {
    /// Length from which a pause is reported.
    pub(crate) threshold: Time,
    /// The pause of each class in force, or the last one if it has expired.
    pauses: BTreeMap<PausedClass, Pause>,
    long: BTreeMap<PausedClass, LongPauses>,
}

#[derive(Clone, Copy)]
struct Pause {
    since: Time,
    until: Time,
}

/// The long pauses of a class.
#[derive(Clone, Copy)]
struct LongPauses {
    count: u64,
    /// Start and length of the longest one.
    since: Time,
    length: Time,
}

impl Default for PauseWatchdog {
    fn default() -> PauseWatchdog {
        PauseWatchdog { threshold: Time::MAX, pauses: BTreeMap::new(), long: BTreeMap::new() }
    }
}

impl Observer for PauseWatchdog {
    fn on_pause(&mut self, &PauseEvent { time, direction, class, until }: &PauseEvent) {
        let key = (direction, class);
        match (self.pauses.get_mut(&key), until) {
            (Some(pause), Some(until)) if time <= pause.until => pause.until = until,
            (_, Some(until)) => {
                if let Some(pause) = self.pauses.insert(key, Pause { since: time, until }) {
                    record(&mut self.long, self.threshold, key, pause, time);
                }
            }
            (_, None) => {
                if let Some(pause) = self.pauses.remove(&key) {
                    record(&mut self.long, self.threshold, key, pause, time);
                }
            }
        }
    }
}

/// Adds a pause to `long` if it lasted for `threshold` by `now`.
fn record(
    long: &mut BTreeMap<PausedClass, LongPauses>,
    threshold: Time,
    key: PausedClass,
    pause: Pause,
    now: Time,
) {
    let length = pause.until.min(now) - pause.since;
    if length < threshold {
        return;
    }
    let entry = long.entry(key).or_insert(LongPauses { count: 0, since: pause.since, length });
    entry.count += 1;
    if length > entry.length {
        (entry.since, entry.length) = (pause.since, length);
    }
}

impl PauseWatchdog {
    /// Returns the long pauses of all processes until `now`, by link direction and class.
    pub(crate) fn merge<'o>(
        all: impl Iterator<Item = &'o PauseWatchdog>,
        topology: &Topology,
        now: Time,
    ) -> Vec<LongPause> {
        let mut long = BTreeMap::new();
        for watchdog in all {
            long.extend(&watchdog.long);
            for (&key, &pause) in &watchdog.pauses {
                record(&mut long, watchdog.threshold, key, pause, now);
            }
        }
        let record = |((direction, class), pauses): (PausedClass, LongPauses)| {
            let link = topology.link(LinkIx(direction / 2));
            let (from, to) = if direction % 2 == 0 { (link.a, link.b) } else { (link.b, link.a) };
            let name = |end: Endpoint| match end.node {
                Node::Switch(switch) => format!("{}:{}", topology.switch(switch).name, end.port),
                Node::Host(host) => topology.host(host).name.clone(),
            };
            LongPause {
                port: name(from),
                class,
                by: name(to),
                times: pauses.count,
                since_us: pauses.since.as_us_f64(),
                longest_us: pauses.length.as_us_f64(),
            }
        };
        long.into_iter().map(record).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_controller::topology::{TopologySpec, build};

    #[test]
    fn a_pause_lasts_from_its_first_frame_until_it_is_resumed_or_expires() {
        let spec: TopologySpec = serde_yaml::from_str("{kind: star, hosts: 2}").unwrap();
        let topology = build(&spec).unwrap();
        let us = Time::from_us;
        let mut watchdog = PauseWatchdog { threshold: us(10), ..PauseWatchdog::default() };
        let mut pause = |time, class, until: Option<u64>| {
            watchdog.on_pause(&PauseEvent { time: us(time), direction: 0, class, until: until.map(us) });
        };
        // Extended twice, then resumed: 12 us. A shorter one, a pause that expires after 11 us, and one in force.
        let class_3 = [(0, Some(5)), (4, Some(9)), (8, Some(13)), (12, None)].into_iter();
        let class_3 = class_3.chain([(20, Some(25)), (24, None), (30, Some(41)), (60, Some(65)), (62, None)]);
        class_3.chain([(70, Some(90))]).for_each(|(time, until)| pause(time, 3, until));
        [(0, Some(5)), (6, Some(11))].into_iter().for_each(|(time, until)| pause(time, 1, until));
        let at = |now| PauseWatchdog::merge([&watchdog].into_iter(), &topology, us(now));
        let expected = |times, since_us, longest_us| LongPause {
            port: "h1".into(),
            class: 3,
            by: "s1:1".into(),
            times,
            since_us,
            longest_us,
        };
        assert_eq!(at(75), [expected(2, 0.0, 12.0)]);
        assert_eq!(at(85), [expected(3, 70.0, 15.0)]);
        assert_eq!(at(200), [expected(3, 70.0, 20.0)]);
    }
}
