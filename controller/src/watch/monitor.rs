use super::Probe;
use crate::topology::{Endpoint, LinkIx, Node, SwitchIx, Topology};
use std::collections::BTreeSet;
use weir_units::Time;

/// How links are probed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MonitorConfig {
    /// From one probe of a link to the next.
    pub interval: Time,
    /// After so many intervals in a row without a probe a link is down.
    pub lost: u32,
    /// After so many in a row with one it is up again.
    pub good: u32,
}

impl Default for MonitorConfig {
    /// A cut is seen within 400 ms.
    fn default() -> Self {
        MonitorConfig { interval: Time::from_ms(100), lost: 3, good: 3 }
    }
}

/// What a packet-in was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// A probe that came where it should.
    Probe,
    /// A probe of this run that came by a port where its link does not end: two cables are swapped, or somebody plays
    /// back what he saw.
    Astray,
    /// A probe of another controller, or of an earlier run.
    Foreign,
    /// Something else.
    Garbage,
}

/// Which links between switches are up.
///
/// Call [`tick`](Self::tick) at [`next_tick`](Self::next_tick) and send the probes that it returns; give
/// [`received`](Self::received) every packet-in before the tick that comes after it. Time must not go backwards.
///
/// A link is down if in either direction nothing was heard for [`MonitorConfig::lost`] intervals. A direction of which
/// nothing was ever heard counts only if its two switches have shown on other links that they send and return probes:
/// a switch without a CPU port is not taken for a fabric of broken cables.
pub struct LinkMonitor {
    config: MonitorConfig,
    run: u64,
    sequence: u32,
    next_tick: Time,
    /// Two for each link between switches: from `a` to `b`, then back.
    directions: Vec<Direction>,
    /// By switch: what it has shown.
    shown: Vec<Shown>,
    down: BTreeSet<LinkIx>,
}

struct Direction {
    link: LinkIx,
    forward: bool,
    from: (SwitchIx, u16),
    to: (SwitchIx, u16),
    /// Since the last tick.
    heard: bool,
    ever_heard: bool,
    /// Intervals in a row with or without a probe.
    streak: u32,
    silence: u32,
    is_up: bool,
}

#[derive(Clone, Copy, Default)]
struct Shown {
    sends: bool,
    returns: bool,
}

impl LinkMonitor {
    /// All links are taken to be up. `run` is a random number, `now` the time of the first tick.
    pub fn new(topology: &Topology, config: MonitorConfig, run: u64, now: Time) -> LinkMonitor {
        let mut directions = Vec::new();
        for (index, link) in topology.links.iter().enumerate() {
            let ends = |end: Endpoint| match end.node {
                Node::Switch(ix) => Some((ix, end.port)),
                Node::Host(_) => None,
            };
            let (Some(a), Some(b)) = (ends(link.a), ends(link.b)) else { continue };
            for (forward, from, to) in [(true, a, b), (false, b, a)] {
                directions.push(Direction {
                    link: LinkIx(index as u32),
                    forward,
                    from,
                    to,
                    heard: false,
                    ever_heard: false,
                    streak: 0,
                    silence: 0,
                    is_up: true,
                });
            }
        }
        let shown = vec![Shown::default(); topology.switches.len()];
        LinkMonitor { config, run, sequence: 0, next_tick: now, directions, shown, down: BTreeSet::new() }
    }

    /// When to call [`tick`](Self::tick).
    pub fn next_tick(&self) -> Time {
        self.next_tick
    }

    /// Links that are down.
    pub fn down(&self) -> &BTreeSet<LinkIx> {
        &self.down
    }

    /// Whether probes were heard that say something of the links: so many ticks have passed that a dead link would be
    /// known.
    pub fn has_settled(&self) -> bool {
        self.sequence > self.config.lost.max(self.config.good) + 1
    }

    /// Ends an interval and begins the next: draws the conclusions and returns the probes to send, each with the switch
    /// and the port it leaves by.
    pub fn tick(&mut self, now: Time) -> Vec<(SwitchIx, u16, Probe)> {
        // Who comes late has not had the time to listen: silence says nothing then.
        let is_late = now > self.next_tick + self.config.interval;
        if self.sequence > 0 {
            self.conclude(is_late);
        }
        self.next_tick = if is_late { now } else { self.next_tick } + self.config.interval;
        self.sequence = self.sequence.wrapping_add(1);
        let probe = |it: &Direction| {
            let probe =
                Probe { run: self.run, link: it.link.0, forward: it.forward, sequence: self.sequence };
            (it.from.0, it.from.1, probe)
        };
        self.directions.iter().map(probe).collect()
    }

    /// Takes a packet-in: who handed it in, by which port it had come, the frame.
    pub fn received(&mut self, at: SwitchIx, port: u16, frame: &[u8]) -> Received {
        let Some(probe) = Probe::parse(frame) else { return Received::Garbage };
        if probe.run != self.run {
            return Received::Foreign;
        }
        // Directions are in the order of their links.
        let key = (LinkIx(probe.link), !probe.forward);
        let Ok(place) = self.directions.binary_search_by_key(&key, |it| (it.link, !it.forward)) else {
            return Received::Astray;
        };
        let it = &mut self.directions[place];
        if it.to != (at, port) {
            return Received::Astray;
        }
        (it.heard, it.ever_heard) = (true, true);
        self.shown[it.from.0.0 as usize].sends = true;
        self.shown[it.to.0.0 as usize].returns = true;
        Received::Probe
    }

    fn conclude(&mut self, is_late: bool) {
        for it in &mut self.directions {
            let (from, to) = (self.shown[it.from.0.0 as usize], self.shown[it.to.0.0 as usize]);
            if std::mem::take(&mut it.heard) {
                (it.streak, it.silence) = (it.streak.saturating_add(1), 0);
                it.is_up |= it.streak >= self.config.good;
            } else if !is_late && (it.ever_heard || (from.sends && to.returns)) {
                (it.streak, it.silence) = (0, it.silence.saturating_add(1));
                it.is_up &= it.silence < self.config.lost;
            }
        }
        self.down = self.directions.iter().filter(|it| !it.is_up).map(|it| it.link).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::build;

    const RUN: u64 = 7;

    /// Two leaves, two spines, and which links carry what.
    struct Bench {
        monitor: LinkMonitor,
        topology: Topology,
        now: Time,
        cut: BTreeSet<(LinkIx, bool)>,
        /// Switches that return nothing.
        mute: BTreeSet<SwitchIx>,
    }

    impl Bench {
        fn new() -> Bench {
            let spec = "{kind: leaf-spine, leaves: 2, spines: 2, hosts_per_leaf: 1}";
            let topology = build(&serde_yaml::from_str(spec).unwrap()).unwrap();
            let monitor = LinkMonitor::new(&topology, MonitorConfig::default(), RUN, Time::ZERO);
            Bench { monitor, topology, now: Time::ZERO, cut: BTreeSet::new(), mute: BTreeSet::new() }
        }
        fn link(&self, a: &str, b: &str) -> LinkIx {
            let name = |end: Endpoint| self.topology.node_name(end.node);
            let links = &self.topology.links;
            LinkIx(links.iter().position(|link| (name(link.a), name(link.b)) == (a, b)).unwrap() as u32)
        }
        fn tick(&mut self) {
            for (_, _, probe) in self.monitor.tick(self.now) {
                let link = self.topology.link(LinkIx(probe.link));
                let end = if probe.forward { link.b } else { link.a };
                let Node::Switch(at) = end.node else { panic!("a probe to a host") };
                if !self.cut.contains(&(LinkIx(probe.link), probe.forward)) && !self.mute.contains(&at) {
                    assert_eq!(self.monitor.received(at, end.port, &probe.frame()), Received::Probe);
                }
            }
            self.now = self.monitor.next_tick();
        }
        fn ticks_until(&mut self, done: impl Fn(&LinkMonitor) -> bool) -> u32 {
            (1..100)
                .find(|_| {
                    self.tick();
                    done(&self.monitor)
                })
                .expect("it happens")
        }
    }

    #[test]
    fn a_cut_is_seen_after_three_silent_intervals_and_its_end_after_three_good_ones() {
        let mut bench = Bench::new();
        (0..5).for_each(|_| bench.tick());
        assert!(bench.monitor.down().is_empty() && bench.monitor.has_settled());
        let cut = bench.link("s1", "s3");
        // One direction is enough.
        bench.cut.insert((cut, false));
        // The tick after the cut still ends an interval in which the link was heard.
        assert_eq!(bench.ticks_until(|it| !it.down().is_empty()), 4);
        assert_eq!(bench.monitor.down(), &BTreeSet::from([cut]));
        bench.cut.clear();
        assert_eq!(bench.ticks_until(|it| it.down().is_empty()), 4);
    }

    #[test]
    fn a_link_that_was_dead_from_the_start_is_found_when_its_switches_are_known_to_answer() {
        let mut bench = Bench::new();
        let cut = bench.link("s1", "s4");
        bench.cut.extend([(cut, true), (cut, false)]);
        let ticks = bench.ticks_until(LinkMonitor::has_settled);
        assert_eq!(bench.monitor.down(), &BTreeSet::from([cut]), "after {ticks} ticks");
    }

    #[test]
    fn switches_that_never_return_a_probe_have_no_broken_cables() {
        let mut bench = Bench::new();
        bench.mute.extend(bench.topology.switch_ixs());
        (0..20).for_each(|_| bench.tick());
        assert!(bench.monitor.down().is_empty());
    }

    #[test]
    fn a_controller_that_slept_draws_no_conclusions() {
        let mut bench = Bench::new();
        (0..5).for_each(|_| bench.tick());
        for _ in 0..10 {
            bench.now += Time::from_secs(5);
            bench.monitor.tick(bench.now);
        }
        assert!(bench.monitor.down().is_empty());
        // And when it is awake again, it does.
        bench.cut.extend(
            (0..bench.topology.links.len() as u32).flat_map(|n| [(LinkIx(n), true), (LinkIx(n), false)]),
        );
        bench.now = bench.monitor.next_tick();
        assert_eq!(bench.ticks_until(|it| it.down().len() == 4), 3);
    }

    #[test]
    fn what_is_not_a_probe_of_this_run_from_its_own_link_says_nothing() {
        let mut bench = Bench::new();
        (0..5).for_each(|_| bench.tick());
        let (link, (s1, s2)) = (bench.link("s1", "s3"), (SwitchIx(0), SwitchIx(1)));
        let port = bench.topology.link(link).a.port;
        bench.cut.insert((link, false));
        let probe = Probe { run: RUN, link: link.0, forward: false, sequence: 9 };
        for _ in 0..6 {
            let other_run = Probe { run: RUN + 1, ..probe };
            assert_eq!(bench.monitor.received(s1, port, &other_run.frame()), Received::Foreign);
            assert_eq!(bench.monitor.received(s1, port + 1, &probe.frame()), Received::Astray);
            assert_eq!(bench.monitor.received(s2, port, &probe.frame()), Received::Astray);
            let no_link = Probe { link: 1_000_000, ..probe };
            assert_eq!(bench.monitor.received(s1, port, &no_link.frame()), Received::Astray);
            assert_eq!(bench.monitor.received(s1, port, b"garbage"), Received::Garbage);
            bench.tick();
        }
        assert_eq!(bench.monitor.down(), &BTreeSet::from([link]));
    }
}
