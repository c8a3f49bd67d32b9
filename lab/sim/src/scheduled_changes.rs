//! Applies the faults and policy changes of an experiment to the fabric, and collects statistics of the policies.

use crate::counts;
use crate::events::{Event, EventQueue};
use crate::fabric_builder::FabricBuilder;
use crate::fault::Impairments;
use crate::network::{Network, View};
use crate::nodes::UNCONNECTED;
use crate::observers::{HistogramBin, PolicyPackets};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use weir_controller::Routes;
use weir_controller::topology::{HostIx, LinkIx, SwitchIx};
use weir_experiment::backend::Error;
use weir_experiment::counts::Counts;
use weir_experiment::file::{Attack, AvoidedLinks, Change};
use weir_experiment::results::{PolicyInterval, PolicySetSummary, PolicySummary};
use weir_experiment::rng::RandomStream;
use weir_experiment::{Experiment, LinkChange};
use weir_host::PolicyEvent;
use weir_host::policy::{Policy, PolicyConfig, PolicyId, PolicyKey, PolicyNode, default_trickle};
use weir_host::wire::{FrameRepr, FrameView, HEADERS_LEN};
use weir_units::Time;

/// The faults and policy changes of one scheme's run, and their outcome so far.
pub(crate) struct ScheduledChanges<'e> {
    experiment: &'e Experiment,
    builder: FabricBuilder<'e>,
    /// Index of the next entry of `Experiment::changes`.
    next: usize,
    /// Counters that switches had when they restarted.
    pub pre_restart_counts: Counts,
    /// In the order in which they were set.
    sets: Vec<PolicySet>,
    refused: BTreeMap<String, u64>,
    lost: u64,
    expired: u64,
    /// Hop counts at the first sample after half of the duration.
    hops_at_half_time: Option<HopCounts>,
    /// Links that the user has taken down during the run, through the [`Observer`](weir_experiment::backend::Observer).
    observer_down: BTreeSet<LinkIx>,
    routing: Rerouting,
}

/// The routes in force.
struct Rerouting {
    avoided: AvoidedLinks,
    routes: Routes,
    /// Switches whose tables are empty after a restart.
    unfilled: BTreeSet<SwitchIx>,
}

/// Numbers of packets that arrived at switches; a packet counts once at each.
#[derive(Clone, Copy, Default)]
struct HopCounts {
    all: u64,
    policy: u64,
}

/// A policy that the experiment has set; `id` is `None` if the host rejected it.
struct PolicySet {
    id: Option<PolicyId>,
    at: Time,
    summary: PolicySetSummary,
}

impl<'e> ScheduledChanges<'e> {
    /// Schedules the first change in `events`, and prepares the wires and attackers that the changes affect.
    pub(crate) fn new(
        experiment: &'e Experiment,
        builder: FabricBuilder<'e>,
        network: &Network,
        events: &mut EventQueue,
    ) -> ScheduledChanges<'e> {
        if let Some(first) = experiment.changes.first() {
            events.push(first.at, Event::ScheduledChange, Time::ZERO);
        }
        let mut view = network.view();
        for scheduled in &experiment.changes {
            match &scheduled.change {
                Change::Impair(links, _) | Change::Down(links) | Change::Up(links) => {
                    for index in links.iter().flat_map(|&link| directions_of(link)) {
                        view.wire_mut(index).impairments = Some(Box::new(new_impairments(experiment, index)));
                    }
                }
                Change::Avoid(_)
                | Change::UseAgain(_)
                | Change::Attack(..)
                | Change::Restart(_)
                | Change::Refill(_)
                | Change::SetPolicy(_) => {}
            }
        }
        ScheduledChanges {
            experiment,
            builder,
            next: 0,
            pre_restart_counts: Counts::default(),
            sets: Vec::new(),
            refused: BTreeMap::new(),
            lost: 0,
            expired: 0,
            hops_at_half_time: None,
            observer_down: BTreeSet::new(),
            routing: Rerouting {
                avoided: AvoidedLinks::default(),
                routes: experiment.routes().clone(),
                unfilled: BTreeSet::new(),
            },
        }
    }

    /// Starts to observe POLICY packets, and arms the hosts' Trickle timers by polling each host once. No effect
    /// without `policy:`.
    pub(crate) fn start_policies(&self, network: &Network) {
        if let Some(imin) = self.imin() {
            for observers in network.view().observers_mut() {
                observers.policy = Some(Box::new(PolicyPackets::new(imin)));
            }
            for scheduled in &self.experiment.changes {
                if let Change::Attack(host, _) = scheduled.change {
                    network.with_observers_of(host, |observers| {
                        observers.policy.iter_mut().for_each(|packets| packets.overhear(host));
                    });
                }
            }
            for host in self.experiment.topology.host_ixs() {
                network.kick(Time::ZERO, host);
            }
        }
    }

    /// Applies all changes due at `now` and schedules the next one in `events`.
    pub(crate) fn apply_due(
        &mut self,
        now: Time,
        network: &Network,
        events: &mut EventQueue,
    ) -> Result<(), Error> {
        while let Some(scheduled) = self.experiment.changes.get(self.next) {
            if scheduled.at > now {
                events.push(scheduled.at, Event::ScheduledChange, now);
                break;
            }
            self.next += 1;
            match &scheduled.change {
                Change::Impair(links, change) => {
                    update_impairments(network, links, |impairments| impairments.impair(change));
                }
                Change::Down(links) => {
                    update_impairments(network, links, Impairments::link_down);
                }
                Change::Up(links) => {
                    let up = update_impairments(network, links, |impairments| impairments.link_up(now));
                    up.into_iter().for_each(|index| network.unpause(now, index));
                }
                change @ (Change::Avoid(_) | Change::UseAgain(_)) => self.reroute(network, change)?,
                Change::Restart(ix) => self.restart(now, network, *ix)?,
                Change::Refill(ix) => {
                    let mut view = network.view();
                    self.builder.install_tables(
                        *ix,
                        &mut view.switch_mut(*ix).switch,
                        &self.routing.routes,
                    )?;
                    self.routing.unfilled.remove(ix);
                }
                Change::SetPolicy(index) => self.set_policy(now, network, *index),
                Change::Attack(host, with) => self.attack(now, network, *host, *with),
            }
        }
        Ok(())
    }

    /// Returns whether no change is left that could resolve a deadlock: none is scheduled, and no link is kept down
    /// by the observer, which could bring it up again.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.next == self.experiment.changes.len() && self.observer_down.is_empty()
    }

    /// Takes a link down or up for the user, who asks through the observer. Independent of the experiment's faults: a
    /// link is up if neither keeps it down.
    pub(crate) fn change_link(
        &mut self,
        now: Time,
        network: &Network,
        LinkChange { link, is_up }: LinkChange,
    ) {
        let is_change =
            if is_up { self.observer_down.remove(&link) } else { self.observer_down.insert(link) };
        let link = link.0 as usize;
        if !is_change {
            return;
        }
        for index in directions_of(link) {
            let mut view = network.view();
            let impairments = &mut view.wire_mut(index).impairments;
            impairments.get_or_insert_with(|| Box::new(new_impairments(self.experiment, index)));
        }
        if is_up {
            let up = update_impairments(network, &[link], |impairments| impairments.link_up(now));
            up.into_iter().for_each(|index| network.unpause(now, index));
        } else {
            update_impairments(network, &[link], Impairments::link_down);
        }
    }

    /// Changes the routes of all switches at once. A switch that has restarted gets them when its tables are restored.
    fn reroute(&mut self, network: &Network, change: &Change) -> Result<(), Error> {
        let (topology, base) = (&self.experiment.topology, self.experiment.routes());
        let Rerouting { avoided, routes, unfilled } = &mut self.routing;
        avoided.apply(change);
        let method = self.experiment.spec.routing;
        let new = avoided.routes(topology, method, base, routes).map_err(Error::work)?;
        let filled = topology.switch_ixs().filter(|ix| !unfilled.contains(ix));
        self.builder.reroute((routes, &new), filled, network)?;
        *routes = new;
        Ok(())
    }

    /// Replaces a switch by one with the same program and empty tables.
    fn restart(&mut self, now: Time, network: &Network, ix: SwitchIx) -> Result<(), Error> {
        let new_switch = self.builder.empty_switch(ix)?;
        self.routing.unfilled.insert(ix);
        let mut view = network.view();
        let node = view.switch_mut(ix);
        counts::add_switch_counts(&mut self.pre_restart_counts, &node.switch);
        // The packets in the old switch are lost.
        let lost_packets: u64 =
            (0..node.directions.len() as u16).map(|port| u64::from(node.switch.queue_packets(port))).sum();
        node.switch = new_switch;
        // The restarted switch has lost the pauses that it sent and will never send a resume, so release its
        // neighbours.
        let outgoing: Vec<u32> = node.directions.iter().copied().filter(|&d| d != UNCONNECTED).collect();
        view.observers_of_switch(ix).basic.counters.add_drops("switch_restart", lost_packets);
        drop(view);
        for index in outgoing {
            network.unpause(now, reverse(index));
        }
        Ok(())
    }

    fn set_policy(&mut self, now: Time, network: &Network, index: usize) {
        let Some(set) = self.experiment.spec.policy.as_ref().and_then(|policy| policy.set.get(index)) else {
            return;
        };
        let topology = &self.experiment.topology;
        let Some(host) = topology.host_ixs().find(|&ix| topology.host(ix).name == set.via) else { return };
        let edits = set.edits();
        let change: Vec<_> = edits.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let result = network.with_host(host, |node| node.host.set_policy(now, &edits));
        self.sets.push(PolicySet {
            id: result.as_ref().ok().copied(),
            at: now,
            summary: PolicySetSummary {
                at_us: now.as_us_f64(),
                via: set.via.clone(),
                id: result.as_ref().map_or_else(|_| String::new(), ToString::to_string),
                change: change.join(" "),
                error: result.err().map(|error| error.to_string()),
                ..PolicySetSummary::default()
            },
        });
        for packets in network.view().observers_mut().filter_map(|observers| observers.policy.as_mut()) {
            packets.sent.restart(now);
        }
        network.kick(now, host);
    }

    /// Sends a frame of an attack from a host. Without an overheard POLICY frame there is nothing to send.
    fn attack(&mut self, now: Time, network: &Network, attacker: HostIx, attack: Attack) {
        let topology = &self.experiment.topology;
        let overheard = |select: fn(&VecDeque<Vec<u8>>) -> Option<&Vec<u8>>| {
            network.with_observers_of(attacker, |observers| {
                select(observers.policy.as_ref()?.overheard(attacker)?).cloned()
            })
        };
        let (newest, oldest) = (|| overheard(VecDeque::front), || overheard(VecDeque::back));
        let frame = match attack {
            Attack::Replayed => oldest(),
            Attack::Malformed => newest().and_then(|frame| truncate_payload(&frame)),
            Attack::Unicast => newest().and_then(|frame| {
                let victim = topology.hosts.iter().find(|host| host.ip != topology.host(attacker).ip)?;
                readdress(&frame, victim.ip, victim.mac)
            }),
            Attack::Forged => newest().and_then(|frame| self.forge(now, &frame, attacker)),
        };
        if let Some(frame) = frame {
            network.inject(now, attacker, frame);
        }
    }

    /// Returns a POLICY frame with a high version that is valid except for its signature, made with another key.
    fn forge(&self, now: Time, template: &[u8], attacker: HostIx) -> Option<Vec<u8>> {
        let key = PolicyKey::new(b"the attacker's own key").ok()?;
        let config = PolicyConfig {
            trickle: default_trickle(self.builder.base_rtt),
            start: now,
            ..PolicyConfig::new(key, 1, self.builder.base_rtt)
        };
        let mut node = PolicyNode::new(&config, self.experiment.topology.host(attacker).ip, usize::MAX);
        // Each call raises the version; a high one would win if the signature were not checked.
        for _ in 0..1_000 {
            node.set(now, Policy::of(&*self.builder.scheme.config)).ok()?;
        }
        let due = node.next_wakeup();
        node.wakeup(due);
        let mut payload = Vec::new();
        node.transmit(due, &mut payload);
        let mut repr = FrameRepr::parse(&FrameView::new(template, 0).ok()?);
        repr.source = self.experiment.topology.host(attacker).ip;
        rebuild(repr, &payload)
    }

    /// Counts a policy event that a host reported at `now`.
    pub(crate) fn on_policy_event(&mut self, now: Time, event: &PolicyEvent) {
        match *event {
            PolicyEvent::Activated { id } => {
                let hosts = self.experiment.topology.hosts.len() as u64;
                for set in self.sets.iter_mut().filter(|set| set.id == Some(id)) {
                    set.summary.hosts += 1;
                    if set.summary.hosts == hosts {
                        set.summary.all_after_us = Some((now - set.at).as_us_f64());
                    }
                }
            }
            PolicyEvent::Refused { reason, .. } => {
                *self.refused.entry(reason.name().to_owned()).or_default() += 1
            }
            PolicyEvent::Superseded { .. } => self.lost += 1,
            PolicyEvent::Expired { .. } => self.expired += 1,
            PolicyEvent::Received { .. } => {}
        }
    }

    /// Records the hop counts at the first sample after half of the duration.
    pub(crate) fn sample(&mut self, now: Time, network: &View<'_>) {
        let Some(policy) = network.policy_packets() else { return };
        if now * 2 >= self.experiment.spec.duration {
            let all = network.counters().packet_hops;
            self.hops_at_half_time.get_or_insert(HopCounts { all, policy: policy.hops });
        }
    }

    /// Returns the policy statistics up to `now`; `None` without `policy:`.
    pub(crate) fn summarise(&self, now: Time, network: &View<'_>) -> Option<PolicySummary> {
        let packets = network.policy_packets()?;
        let all_hops = network.counters().packet_hops;
        let spec = self.experiment.spec.policy.as_ref()?;
        let default = default_trickle(self.builder.base_rtt);
        let imin = self.imin()?;
        let early = self.hops_at_half_time.unwrap_or_default();
        let share = |part: u64, total: u64| if total == 0 { 0.0 } else { part as f64 / total as f64 };
        let in_imin = |set: &PolicySet| PolicySetSummary {
            all_after_imin: set.summary.all_after_us.map(|us| us / imin.as_us_f64()),
            ..set.summary.clone()
        };
        Some(PolicySummary {
            imin_us: imin.as_us_f64(),
            imax: spec.imax.unwrap_or(default.doublings),
            k: spec.k.unwrap_or(default.redundancy()),
            sets: self.sets.iter().map(in_imin).collect(),
            sent: sum_policy_stats(network, |stats| stats.sent),
            suppressed: sum_policy_stats(network, |stats| stats.suppressed),
            resets: sum_policy_stats(network, |stats| stats.resets),
            consistent: sum_policy_stats(network, |stats| stats.consistent),
            newer: sum_policy_stats(network, |stats| stats.newer),
            older: sum_policy_stats(network, |stats| stats.older),
            refused: self.refused.clone(),
            lost: self.lost,
            expired: self.expired,
            fabric_share: share(packets.hops, all_hops),
            fabric_share_late: share(packets.hops - early.policy, all_hops - early.all),
            intervals: self.intervals(now, &packets),
        })
    }

    /// Returns the POLICY packets sent since the last policy was set, by interval.
    fn intervals(&self, now: Time, packets: &PolicyPackets) -> Vec<PolicyInterval> {
        let hosts = self.experiment.topology.hosts.len().max(1) as f64;
        let interval = |bin: HistogramBin| PolicyInterval {
            from_us: bin.from.as_us_f64(),
            to_us: bin.to.as_us_f64(),
            messages: bin.count,
            per_host: bin.count as f64 / hosts,
        };
        packets.sent.bins_until(now).into_iter().map(interval).collect()
    }

    /// Returns Trickle's minimum interval; `None` without `policy:`.
    fn imin(&self) -> Option<Time> {
        let spec = self.experiment.spec.policy.as_ref()?;
        Some(spec.imin.unwrap_or_else(|| default_trickle(self.builder.base_rtt).imin))
    }
}

/// Creates the impairments of direction `index`, with its own random stream.
fn new_impairments(experiment: &Experiment, index: u32) -> Impairments {
    let stream = |name: String| RandomStream::new(experiment.spec.seed, &name);
    Impairments::new(stream(format!("wire {index}")), stream(format!("wire {index} pause refreshes")))
}

fn directions_of(link: usize) -> [u32; 2] {
    [2 * link as u32, 2 * link as u32 + 1]
}

/// Returns the opposite direction of the same link.
fn reverse(direction: u32) -> u32 {
    direction ^ 1
}

/// Applies `change` to both directions of each link, and returns the directions that are up afterwards.
fn update_impairments(network: &Network, links: &[usize], change: impl Fn(&mut Impairments)) -> Vec<u32> {
    let (mut up, mut view) = (Vec::new(), network.view());
    for index in links.iter().flat_map(|&link| directions_of(link)) {
        if let Some(impairments) = &mut view.wire_mut(index).impairments {
            change(impairments);
            if !impairments.is_down() {
                up.push(index);
            }
        }
    }
    up
}

fn sum_policy_stats(network: &View<'_>, field: impl Fn(&weir_host::policy::PolicyStats) -> u64) -> u64 {
    network.hosts().filter_map(|node| node.host.policy()).map(|view| field(view.node.stats())).sum()
}

/// Builds a frame with the headers of `repr` and the given payload.
fn rebuild(mut repr: FrameRepr, payload: &[u8]) -> Option<Vec<u8>> {
    repr.payload_len = payload.len() as u32;
    let mut frame = vec![0; HEADERS_LEN];
    repr.emit(&[], &mut frame)?;
    frame.extend(payload);
    Some(frame)
}

/// Returns the POLICY frame with the second half of its payload cut off.
fn truncate_payload(frame: &[u8]) -> Option<Vec<u8>> {
    let view = FrameView::new(frame, 0).ok()?;
    rebuild(FrameRepr::parse(&view), &view.payload()[..view.payload().len() / 2])
}

/// Returns the POLICY frame addressed to a single host instead of the policy group.
fn readdress(frame: &[u8], ip: std::net::Ipv4Addr, mac: weir_host::wire::MacAddr) -> Option<Vec<u8>> {
    let view = FrameView::new(frame, 0).ok()?;
    let repr = FrameRepr { destination: ip, destination_mac: mac, ..FrameRepr::parse(&view) };
    rebuild(repr, view.payload())
}
