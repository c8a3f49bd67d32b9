//! Detects failed links between switches from probes, the replies of switches, and port states.

use super::control_channel::ControlChannel;
use super::{ControlLoss, LinkProbe};
use crate::topology::{Endpoint, LinkIx, Node, SwitchIx, Topology};
use std::collections::BTreeSet;
use std::mem::take;
use weir_units::Time;

#[cfg(test)]
mod tests;

/// Interval, in probe rounds, at which port states are requested for links on which no probe has ever arrived. Weir's
/// choice: 2 s with the default interval, since each request reads all ports of a switch.
const UNSEEN_QUERY_ROUNDS: u64 = 20;

/// Parameters of link probing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MonitorConfig {
    /// Interval between probes of a link.
    pub interval: Time,
    /// Number of consecutive lost probes after which a link is down.
    pub loss_threshold: u32,
    /// Number of consecutive intervals with a probe after which a link is up again.
    pub recovery_threshold: u32,
}

impl MonitorConfig {
    /// Returns the time within which a switch must reply to an echo request. A later reply does not prove that a
    /// missing probe was lost.
    pub fn reply_timeout(&self) -> Time {
        self.interval * u64::from(self.loss_threshold)
    }
}

impl Default for MonitorConfig {
    /// With these values a cut link is detected within 400 ms.
    fn default() -> Self {
        MonitorConfig { interval: Time::from_ms(100), loss_threshold: 3, recovery_threshold: 3 }
    }
}

/// Classification of a packet-in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketInKind {
    /// A probe that arrived at the end of its link.
    Probe,
    /// A probe of this run that arrived at another port than the end of its link, or that was never sent: two cables
    /// are swapped, or recorded packets are replayed.
    WrongPort,
    /// A probe of another controller or of an earlier run.
    Foreign,
    NotAProbe,
}

/// Messages to send at the start of an interval, probes first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProbeRound {
    pub probes: Vec<OutgoingProbe>,
    /// Echo requests as (switch, round number): a request such as a small `Read`, which is sent after the probes of the
    /// switch. Pass the number to [`LinkMonitor::on_echo`] when the switch replies.
    pub echoes: Vec<(SwitchIx, u64)>,
}

/// A probe to send as a packet-out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutgoingProbe {
    pub switch: SwitchIx,
    pub egress_port: u16,
    pub probe: LinkProbe,
}

/// Detects failed links between switches, without I/O or a clock.
///
/// Call [`tick`](Self::tick) at [`next_tick`](Self::next_tick) and send the messages that it returns. Report the
/// messages of each switch in the order in which it sent them: packet-ins to [`on_packet_in`](Self::on_packet_in),
/// replies to [`on_echo`](Self::on_echo). Time must not go backwards.
///
/// An unresponsive control plane does not imply a failed link. A probe counts as lost only if
///
/// 1. the switch at the sending end replied to a request that followed the probe, so it has accepted the probe;
/// 2. the switch at the receiving end replied to a request that was sent after that, so it has returned every probe
///    that it had received by then; and
/// 3. this probe was not among them.
///
/// [`MonitorConfig::loss_threshold`] consecutive lost probes in either direction take a link down. The count restarts
/// when a control connection is replaced, a reply takes longer than [`MonitorConfig::reply_timeout`], a packet-out is
/// rejected, or `tick` is called late. If every link of a switch goes silent at once, port states decide
/// ([`take_port_queries`](Self::take_port_queries)): if all its ports and those at the other ends are up, the fault
/// is in the packet I/O of the switches, and the links stay up.
///
/// The links of an unreachable switch stay up, unless a neighbour reports its port as down, or
/// [`MonitorConfig::loss_threshold`] consecutive connections were refused ([`ControlLoss::ConnectionRefused`]), which
/// means that the switch's process has died.
///
/// A direction on which no probe has ever arrived counts only if its two switches have sent and returned probes on
/// other links; otherwise a switch without a CPU port would take all its links down. For the remaining links, port
/// states are requested every 20 rounds: if a port is down, so is its link.
pub struct LinkMonitor {
    config: MonitorConfig,
    run_id: u64,
    /// Number of the current interval, from 1; 0 before the first.
    round: u64,
    next_tick: Time,
    /// Two per link between switches, in link order: from `a` to `b`, then from `b` to `a`.
    directions: Vec<DirectionState>,
    /// For each switch, the indices of the directions that start or end there.
    incident: Vec<Vec<usize>>,
    channels: Vec<ControlChannel>,
    /// Links with a direction that is down.
    down: BTreeSet<LinkIx>,
    /// Switches whose port states are needed.
    port_queries: Vec<SwitchIx>,
    /// Links that lost all probes but stay up, not yet returned by `take_kept_links`.
    kept_links: BTreeSet<LinkIx>,
}

/// A port of a switch.
#[derive(Clone, Copy, PartialEq, Eq)]
struct SwitchPort {
    switch: SwitchIx,
    port: u16,
}

/// One direction of a link between switches.
struct DirectionState {
    link: LinkIx,
    /// True from end `a` to end `b` of the link.
    is_forward: bool,
    /// Egress port of the sending switch.
    from: SwitchPort,
    /// Ingress port of the receiving switch.
    to: SwitchPort,
    /// A probe has arrived since the last tick.
    has_seen_probe: bool,
    /// Round of the latest probe that arrived; 0 if none has.
    last_seen_round: u64,
    /// Probes up to this round do not count as lost.
    loss_base_round: u64,
    /// Probes up to this round were sent before the echo in flight at the receiver; if they have not arrived when the
    /// receiver replies, they are lost.
    confirmed_round: u64,
    /// Number of consecutive intervals in which a probe arrived.
    good_streak: u32,
    is_up: bool,
    /// All links of one of its switches went silent at once: port states, which have been requested, decide.
    is_suspect: bool,
}

/// The decision about a direction from port states.
enum Verdict {
    Down,
    /// All ports are up: the fault is in the packet I/O of a switch, and the link stays up.
    Keep,
}

impl DirectionState {
    fn set_down(&mut self) {
        (self.is_up, self.is_suspect, self.good_streak) = (false, false, 0);
    }
    /// Restarts the count of lost probes at `round`.
    fn restart_loss_count(&mut self, round: u64) {
        (self.loss_base_round, self.good_streak, self.is_suspect) = (round, 0, false);
    }
}

impl LinkMonitor {
    /// Creates a monitor with all links up. `run_id` is a random number in this run's probes, `now` the time of the
    /// first tick.
    pub fn new(topology: &Topology, config: MonitorConfig, run_id: u64, now: Time) -> LinkMonitor {
        let mut directions = Vec::new();
        let mut incident = vec![Vec::new(); topology.switches.len()];
        for (index, link) in topology.links.iter().enumerate() {
            let switch_port = |end: Endpoint| match end.node {
                Node::Switch(switch) => Some(SwitchPort { switch, port: end.port }),
                Node::Host(_) => None,
            };
            let (Some(a), Some(b)) = (switch_port(link.a), switch_port(link.b)) else { continue };
            for (is_forward, from, to) in [(true, a, b), (false, b, a)] {
                for end in [from, to] {
                    incident[switch_index(end.switch)].push(directions.len());
                }
                directions.push(DirectionState {
                    link: LinkIx(index as u32),
                    is_forward,
                    from,
                    to,
                    has_seen_probe: false,
                    last_seen_round: 0,
                    loss_base_round: 0,
                    confirmed_round: 0,
                    good_streak: 0,
                    is_up: true,
                    is_suspect: false,
                });
            }
        }
        let channels = vec![ControlChannel::new(); topology.switches.len()];
        LinkMonitor {
            config,
            run_id,
            round: 0,
            next_tick: now,
            directions,
            incident,
            channels,
            down: BTreeSet::new(),
            port_queries: Vec::new(),
            kept_links: BTreeSet::new(),
        }
    }

    /// Returns the time of the next call of [`tick`](Self::tick).
    pub fn next_tick(&self) -> Time {
        self.next_tick
    }

    /// Returns the links that are down.
    pub fn down(&self) -> &BTreeSet<LinkIx> {
        &self.down
    }

    /// Returns whether the state of a switch's links is known: it has replied in time for so many intervals that a
    /// failed link to another switch that has settled would have been detected.
    pub fn has_settled(&self, switch: SwitchIx) -> bool {
        let channel = &self.channels[switch_index(switch)];
        // More than the threshold: the first reply only starts the count of lost probes.
        channel.is_connected()
            && channel.timely_replies() > self.config.loss_threshold.max(self.config.recovery_threshold)
    }

    /// Returns whether a switch is connected and replies in time.
    pub fn is_responsive(&self, switch: SwitchIx, now: Time) -> bool {
        self.channels[switch_index(switch)].is_responsive(now, self.config.reply_timeout())
    }

    /// Removes and returns the switches whose port states are needed. Report them to
    /// [`on_port_states`](Self::on_port_states).
    pub fn take_port_queries(&mut self) -> Vec<SwitchIx> {
        take(&mut self.port_queries)
    }

    /// Removes and returns the links that lost all probes but stay up, because the ports at both ends are up.
    pub fn take_kept_links(&mut self) -> BTreeSet<LinkIx> {
        take(&mut self.kept_links)
    }

    /// Called when a switch has accepted this controller as primary.
    pub fn on_connected(&mut self, switch: SwitchIx) {
        self.channels[switch_index(switch)].on_connected();
        self.restart_loss_counts(switch);
    }

    /// Called when the control channel of a switch is lost, and after each failed attempt to reconnect.
    pub fn on_disconnected(&mut self, switch: SwitchIx, loss: ControlLoss) {
        let is_dead = self.channels[switch_index(switch)].on_loss(loss, self.config.loss_threshold);
        self.restart_loss_counts(switch);
        if is_dead {
            for &index in &self.incident[switch_index(switch)] {
                self.directions[index].set_down();
            }
            self.update_down();
        }
    }

    /// Called when a switch rejects the packet-out of a probe.
    pub fn on_packet_out_rejected(&mut self, switch: SwitchIx) {
        for &index in &self.incident[switch_index(switch)] {
            let direction = &mut self.directions[index];
            if direction.from.switch == switch {
                direction.restart_loss_count(self.round);
            }
        }
    }

    /// Ends the current interval and starts the next. Returns the messages to send.
    pub fn tick(&mut self, now: Time) -> ProbeRound {
        // A tick that is late by a whole interval: the controller itself was delayed.
        let is_late = self.round > 0 && now > self.next_tick + self.config.interval;
        self.next_tick = if is_late { now } else { self.next_tick } + self.config.interval;
        for direction in &mut self.directions {
            if take(&mut direction.has_seen_probe) {
                direction.good_streak = direction.good_streak.saturating_add(1);
                direction.is_up |= direction.good_streak >= self.config.recovery_threshold;
            }
        }
        self.update_down();
        if is_late {
            // Switches may have dropped packet-ins while the controller did not read them.
            (0..self.channels.len()).for_each(|index| self.restart_loss_counts(SwitchIx(index as u32)));
        }
        self.round += 1;
        self.query_neighbours_of_silent_switches(now);
        let (round, timeout) = (self.round, self.config.reply_timeout());
        // An unresponsive switch gets no further probes, so that none queue up in its connection.
        let can_send: Vec<bool> =
            self.channels.iter().map(|channel| channel.is_responsive(now, timeout)).collect();
        let mut out = ProbeRound::default();
        for (index, channel) in self.channels.iter_mut().enumerate() {
            if channel.start_echo(round, now) {
                out.echoes.push((SwitchIx(index as u32), round));
            }
        }
        for direction in &mut self.directions {
            // Echoes were pushed in switch order, hence sorted by switch. The sender has replied to an echo that
            // followed the probes of `accepted_round`, and the receiver's echo is sent only now. Both channels are
            // ordered, so a probe that has not arrived when the receiver replies is lost, however slow the control
            // plane is.
            if out.echoes.binary_search(&(direction.to.switch, round)).is_ok() {
                direction.confirmed_round = self.channels[switch_index(direction.from.switch)].accepted_round;
            }
            if can_send[switch_index(direction.from.switch)]
                && self.channels[switch_index(direction.to.switch)].is_connected()
            {
                let (link, is_forward) = (direction.link.0, direction.is_forward);
                let probe = LinkProbe { run_id: self.run_id, link, is_forward, sequence: round as u32 };
                let SwitchPort { switch, port: egress_port } = direction.from;
                out.probes.push(OutgoingProbe { switch, egress_port, probe });
            }
        }
        out
    }

    /// Handles a packet-in: the switch that sent it, the ingress port of the probe, and the frame.
    pub fn on_packet_in(&mut self, switch: SwitchIx, port: u16, frame: &[u8]) -> PacketInKind {
        let Some(probe) = LinkProbe::parse(frame) else { return PacketInKind::NotAProbe };
        if probe.run_id != self.run_id {
            return PacketInKind::Foreign;
        }
        // `directions` is sorted by link, forward before backward. Negating `is_forward` gives this order: false <
        // true.
        let key = (LinkIx(probe.link), !probe.is_forward);
        let Ok(index) =
            self.directions.binary_search_by_key(&key, |direction| (direction.link, !direction.is_forward))
        else {
            return PacketInKind::WrongPort;
        };
        let direction = &mut self.directions[index];
        // The frame contains the low 32 bits of the round, so the difference wraps.
        let age = (self.round as u32).wrapping_sub(probe.sequence);
        let round = self.round.checked_sub(age.into()).filter(|&round| round > 0);
        let Some(round) = round.filter(|_| direction.to == SwitchPort { switch, port }) else {
            return PacketInKind::WrongPort;
        };
        direction.has_seen_probe |= round > direction.last_seen_round;
        direction.last_seen_round = direction.last_seen_round.max(round);
        direction.loss_base_round = direction.loss_base_round.max(round);
        direction.is_suspect = false;
        self.channels[switch_index(direction.from.switch)].has_sent_probe = true;
        self.channels[switch_index(direction.to.switch)].has_returned_probe = true;
        PacketInKind::Probe
    }

    /// Handles a switch's reply to a request of [`ProbeRound::echoes`].
    pub fn on_echo(&mut self, switch: SwitchIx, round: u64, now: Time) {
        match self.channels[switch_index(switch)].on_echo_reply(round, now, self.config.reply_timeout()) {
            None => return,
            // A switch this slow may have dropped packet-ins.
            Some(false) => return self.restart_loss_counts(switch),
            Some(true) => {}
        }
        // Directions that have failed, and switches of directions on which no probe has ever arrived.
        let (mut lost, mut unseen) = (Vec::new(), Vec::new());
        for &index in &self.incident[switch_index(switch)] {
            let direction = &mut self.directions[index];
            let (from, to) = (direction.from.switch, direction.to.switch);
            let lost_probes = direction.confirmed_round.saturating_sub(direction.loss_base_round);
            if to != switch || lost_probes == 0 {
                continue;
            }
            let exceeds_threshold = lost_probes >= self.config.loss_threshold.into();
            let packet_io_works = self.channels[switch_index(from)].has_sent_probe
                && self.channels[switch_index(to)].has_returned_probe;
            if direction.last_seen_round == 0 && !packet_io_works {
                if direction.is_up && exceeds_threshold {
                    unseen.extend([from, to]);
                }
                continue;
            }
            direction.good_streak = 0;
            if direction.is_up && !direction.is_suspect && exceeds_threshold {
                lost.push(index);
            }
        }
        for index in lost {
            self.on_direction_lost(index);
        }
        for switch in unseen {
            let channel = &mut self.channels[switch_index(switch)];
            if channel.request_unseen_port_states(self.round, UNSEEN_QUERY_ROUNDS) {
                self.port_queries.push(switch);
            }
        }
    }

    /// Handles the port states of a switch, `(port, is_up)`. `None` if they could not be read.
    pub fn on_port_states(&mut self, switch: SwitchIx, ports: Option<Vec<(u16, bool)>>) {
        self.channels[switch_index(switch)].on_port_states(ports);
        for index in self.incident[switch_index(switch)].clone() {
            match self.verdict(index, switch) {
                Some(Verdict::Down) => self.directions[index].set_down(),
                Some(Verdict::Keep) => {
                    self.directions[index].restart_loss_count(self.round);
                    self.kept_links.insert(self.directions[index].link);
                }
                None => {}
            }
        }
        self.update_down();
    }

    /// Decides about a direction after new port states of switch `at`. Returns `None` if they change nothing.
    fn verdict(&self, index: usize, switch: SwitchIx) -> Option<Verdict> {
        let direction = &self.directions[index];
        let ends = [direction.from, direction.to];
        let is_up = |end: SwitchPort| self.channels[switch_index(end.switch)].is_port_up(end.port);
        let is_silent = direction.last_seen_round + u64::from(self.config.loss_threshold) < self.round;
        if is_silent && ends.into_iter().any(|end| end.switch == switch && is_up(end) == Some(false)) {
            return Some(Verdict::Down);
        }
        let is_waiting = |end: SwitchPort| self.channels[switch_index(end.switch)].is_waiting_for_ports();
        if !direction.is_suspect || ends.into_iter().any(is_waiting) {
            return None;
        }
        // Check all ports: BMv2 stops forwarding on every port while one interface is down, which would explain the
        // silence.
        let are_all_ports_up = |switch: SwitchIx| {
            let directions = self.incident[switch_index(switch)].iter().map(|&other| &self.directions[other]);
            directions
                .flat_map(|direction| [direction.from, direction.to])
                .all(|end| end.switch != switch || is_up(end) == Some(true))
        };
        let switches = ends.map(|end| end.switch);
        let mut silent_switches =
            switches.into_iter().filter(|&switch| self.lost_all_links(switch, direction)).peekable();
        let is_kept = silent_switches.peek().is_some()
            && silent_switches.all(are_all_ports_up)
            && ends.into_iter().all(|end| is_up(end) == Some(true));
        Some(if is_kept { Verdict::Keep } else { Verdict::Down })
    }

    /// Returns whether no link of a switch has passed a probe since the lost direction went silent, give or take one
    /// round.
    fn lost_all_links(&self, switch: SwitchIx, lost: &DirectionState) -> bool {
        self.incident[switch_index(switch)]
            .iter()
            .all(|&other| self.directions[other].last_seen_round <= lost.loss_base_round + 1)
    }

    /// Takes a direction down. If all links of one of its switches are lost, port states are requested first.
    fn on_direction_lost(&mut self, index: usize) {
        let direction = &self.directions[index];
        let switches = [direction.from.switch, direction.to.switch];
        if switches.into_iter().any(|switch| self.lost_all_links(switch, direction)) {
            self.directions[index].is_suspect = true;
            switches.into_iter().for_each(|switch| self.request_port_states(switch));
        } else {
            self.directions[index].set_down();
            self.update_down();
        }
    }

    fn request_port_states(&mut self, switch: SwitchIx) {
        if self.channels[switch_index(switch)].request_port_states() {
            self.port_queries.push(switch);
        }
    }

    /// Requests port states of the neighbours of silent switches: only they can report whether the links are connected.
    fn query_neighbours_of_silent_switches(&mut self, now: Time) {
        // Every few rounds: a neighbour is asked again, but not faster than losses are detected.
        let timeout = self.config.reply_timeout();
        if !self.round.is_multiple_of(self.config.loss_threshold.into()) {
            return;
        }
        let neighbours: BTreeSet<SwitchIx> = self
            .directions
            .iter()
            .filter(|direction| {
                direction.is_up && self.channels[switch_index(direction.to.switch)].is_silent(now, timeout)
            })
            .map(|direction| direction.from.switch)
            .filter(|&from| self.is_responsive(from, now))
            .collect();
        neighbours.into_iter().for_each(|switch| self.request_port_states(switch));
    }

    /// Restarts the loss count of all links of a switch.
    fn restart_loss_counts(&mut self, switch: SwitchIx) {
        self.channels[switch_index(switch)].reset_counters();
        for &index in &self.incident[switch_index(switch)] {
            self.directions[index].restart_loss_count(self.round);
        }
    }

    /// Recomputes the set of links that are down.
    fn update_down(&mut self) {
        self.down = self
            .directions
            .iter()
            .filter(|direction| !direction.is_up)
            .map(|direction| direction.link)
            .collect();
    }
}

fn switch_index(switch: SwitchIx) -> usize {
    switch.0 as usize
}
