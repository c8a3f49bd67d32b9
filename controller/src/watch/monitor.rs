use super::control_channel::ControlChannel;
use super::{ControlLoss, LinkProbe};
use crate::topology::{Endpoint, LinkIx, Node, SwitchIx, Topology};
use std::collections::BTreeSet;
use std::mem::take;
use weir_units::Time;

#[cfg(test)]
mod tests;

/// Interval, in probe rounds, at which port states are requested for links on which no probe has ever arrived.
const UNSEEN_QUERY_ROUNDS: u64 = 20;

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
    /// Probes, each with the switch and the egress port.
    pub probes: Vec<(SwitchIx, u16, LinkProbe)>,
    /// Switches to which a request, such as a small `Read`, is sent after their probes, with the round number. Pass the
    /// number to [`LinkMonitor::on_echo`] when the switch replies.
    pub echoes: Vec<(SwitchIx, u64)>,
}

/// Detects failed links between switches. Sans-I/O: reads no clock and opens no socket.
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
    run: u64,
    /// Number of the current interval, from 1; 0 before the first.
    round: u64,
    next_tick: Time,
    /// Two per link between switches, in link order: from `a` to `b`, then from `b` to `a`.
    directions: Vec<DirectionState>,
    /// For each switch, the indices of the directions that start or end there.
    incident: Vec<Vec<usize>>,
    channels: Vec<ControlChannel>,
    down: BTreeSet<LinkIx>,
    /// Switches whose port states are needed.
    port_queries: Vec<SwitchIx>,
    /// Links that lost all probes but stay up.
    kept_links: BTreeSet<LinkIx>,
}

/// One direction of a link between switches.
struct DirectionState {
    link: LinkIx,
    /// True from end `a` to end `b` of the link.
    forward: bool,
    /// Sending switch and its egress port.
    from: (SwitchIx, u16),
    /// Receiving switch and its ingress port.
    to: (SwitchIx, u16),
    /// A probe has arrived since the last tick.
    probe_seen: bool,
    /// Round of the latest probe that arrived; 0 if none has.
    last_seen_round: u64,
    /// Loss is counted from this round on.
    loss_base_round: u64,
    /// Probes up to this round were sent before the echo in flight at the receiver; if they have not arrived when the
    /// receiver replies, they are lost.
    confirmed_round: u64,
    /// Number of consecutive intervals with a probe.
    good_streak: u32,
    is_up: bool,
    /// All links of a switch went silent at once: the decision waits for port states.
    is_suspect: bool,
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
    /// Creates a monitor with all links up. `run` is a random number that identifies this run's probes, `now` the
    /// time of the first tick.
    pub fn new(topology: &Topology, config: MonitorConfig, run: u64, now: Time) -> LinkMonitor {
        let mut directions = Vec::new();
        let mut incident = vec![Vec::new(); topology.switches.len()];
        for (index, link) in topology.links.iter().enumerate() {
            let ends = |end: Endpoint| match end.node {
                Node::Switch(ix) => Some((ix, end.port)),
                Node::Host(_) => None,
            };
            let (Some(a), Some(b)) = (ends(link.a), ends(link.b)) else { continue };
            for (forward, from, to) in [(true, a, b), (false, b, a)] {
                for end in [from, to] {
                    incident[switch_index(end.0)].push(directions.len());
                }
                directions.push(DirectionState {
                    link: LinkIx(index as u32),
                    forward,
                    from,
                    to,
                    probe_seen: false,
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
            run,
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

    pub fn down(&self) -> &BTreeSet<LinkIx> {
        &self.down
    }

    /// Returns whether a switch has replied in time for enough consecutive intervals that a failed link to another such
    /// switch would have been detected.
    pub fn has_settled(&self, at: SwitchIx) -> bool {
        let channel = &self.channels[switch_index(at)];
        channel.is_connected()
            && channel.timely_replies() > self.config.loss_threshold.max(self.config.recovery_threshold)
    }

    /// Returns whether a switch is connected and replies in time.
    pub fn is_responsive(&self, at: SwitchIx, now: Time) -> bool {
        self.channels[switch_index(at)].is_responsive(now, self.config.reply_timeout())
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
    pub fn on_connected(&mut self, at: SwitchIx) {
        self.channels[switch_index(at)].on_connected();
        self.restart_loss_counts(at);
    }

    /// Called when the control channel of a switch is lost, and after each failed attempt to reconnect.
    pub fn on_disconnected(&mut self, at: SwitchIx, loss: ControlLoss) {
        let is_dead = self.channels[switch_index(at)].on_loss(loss, self.config.loss_threshold);
        self.restart_loss_counts(at);
        if is_dead {
            for &index in &self.incident[switch_index(at)] {
                self.directions[index].set_down();
            }
            self.update_down();
        }
    }

    /// Called when a switch rejects the packet-out of a probe.
    pub fn on_packet_out_rejected(&mut self, at: SwitchIx) {
        for &index in &self.incident[switch_index(at)] {
            let direction = &mut self.directions[index];
            if direction.from.0 == at {
                direction.restart_loss_count(self.round);
            }
        }
    }

    /// Ends the current interval and starts the next. Returns the messages to send.
    pub fn tick(&mut self, now: Time) -> ProbeRound {
        let is_late = self.round > 0 && now > self.next_tick + self.config.interval;
        self.next_tick = if is_late { now } else { self.next_tick } + self.config.interval;
        for direction in &mut self.directions {
            if take(&mut direction.probe_seen) {
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
            if out.echoes.binary_search(&(direction.to.0, round)).is_ok() {
                direction.confirmed_round = self.channels[switch_index(direction.from.0)].accepted_round;
            }
            if can_send[switch_index(direction.from.0)]
                && self.channels[switch_index(direction.to.0)].is_connected()
            {
                let (link, forward) = (direction.link.0, direction.forward);
                let probe = LinkProbe { run: self.run, link, forward, sequence: round as u32 };
                out.probes.push((direction.from.0, direction.from.1, probe));
            }
        }
        out
    }

    /// Handles a packet-in: the switch that sent it, the ingress port of the probe, and the frame.
    pub fn on_packet_in(&mut self, at: SwitchIx, port: u16, frame: &[u8]) -> PacketInKind {
        let Some(probe) = LinkProbe::parse(frame) else { return PacketInKind::NotAProbe };
        if probe.run != self.run {
            return PacketInKind::Foreign;
        }
        // `directions` is sorted by link, forward before backward. Negating `forward` gives this order: false < true.
        let key = (LinkIx(probe.link), !probe.forward);
        let Ok(index) =
            self.directions.binary_search_by_key(&key, |direction| (direction.link, !direction.forward))
        else {
            return PacketInKind::WrongPort;
        };
        let direction = &mut self.directions[index];
        // The frame contains the low 32 bits of the round, so the difference wraps.
        let age = (self.round as u32).wrapping_sub(probe.sequence);
        let round = self.round.checked_sub(age.into()).filter(|&round| round > 0);
        let Some(round) = round.filter(|_| direction.to == (at, port)) else {
            return PacketInKind::WrongPort;
        };
        direction.probe_seen |= round > direction.last_seen_round;
        direction.last_seen_round = direction.last_seen_round.max(round);
        direction.loss_base_round = direction.loss_base_round.max(round);
        direction.is_suspect = false;
        self.channels[switch_index(direction.from.0)].has_sent_probe = true;
        self.channels[switch_index(direction.to.0)].has_returned_probe = true;
        PacketInKind::Probe
    }

    /// Handles a switch's reply to a request of [`ProbeRound::echoes`].
    pub fn on_echo(&mut self, at: SwitchIx, round: u64, now: Time) {
        match self.channels[switch_index(at)].on_echo_reply(round, now, self.config.reply_timeout()) {
            None => return,
            // A switch this slow may have dropped packet-ins.
            Some(false) => return self.restart_loss_counts(at),
            Some(true) => {}
        }
        let (mut lost, mut unseen) = (Vec::new(), Vec::new());
        for &index in &self.incident[switch_index(at)] {
            let direction = &mut self.directions[index];
            let (from, to) = (
                &self.channels[switch_index(direction.from.0)],
                &self.channels[switch_index(direction.to.0)],
            );
            let missing = direction.confirmed_round.saturating_sub(direction.loss_base_round);
            if direction.to.0 != at || missing == 0 {
                continue;
            }
            if direction.last_seen_round == 0 && !(from.has_sent_probe && to.has_returned_probe) {
                if direction.is_up && missing >= self.config.loss_threshold.into() {
                    unseen.extend([direction.from.0, direction.to.0]);
                }
                continue;
            }
            direction.good_streak = 0;
            if direction.is_up && !direction.is_suspect && missing >= self.config.loss_threshold.into() {
                lost.push(index);
            }
        }
        for index in lost {
            self.on_direction_lost(index);
        }
        for at in unseen {
            if self.channels[switch_index(at)].request_unseen_port_states(self.round, UNSEEN_QUERY_ROUNDS) {
                self.port_queries.push(at);
            }
        }
    }

    /// Handles the port states of a switch, `(port, is_up)`. `None` if they could not be read.
    pub fn on_port_states(&mut self, at: SwitchIx, ports: Option<Vec<(u16, bool)>>) {
        self.channels[switch_index(at)].on_port_states(ports);
        for index in self.incident[switch_index(at)].clone() {
            match self.is_down(index, at) {
                Some(true) => self.directions[index].set_down(),
                Some(false) => {
                    self.directions[index].restart_loss_count(self.round);
                    self.kept_links.insert(self.directions[index].link);
                }
                None => {}
            }
        }
        self.update_down();
    }

    /// Decides whether a direction is down after new port states of switch `at`. Returns `None` if they change nothing.
    fn is_down(&self, index: usize, at: SwitchIx) -> Option<bool> {
        let direction = &self.directions[index];
        let ends = [direction.from, direction.to];
        let state = |(switch, port): (SwitchIx, u16)| self.channels[switch_index(switch)].is_port_up(port);
        let is_silent = direction.last_seen_round + u64::from(self.config.loss_threshold) < self.round;
        if is_silent && ends.into_iter().any(|end| end.0 == at && state(end) == Some(false)) {
            return Some(true);
        }
        if !direction.is_suspect
            || ends.iter().any(|end| self.channels[switch_index(end.0)].is_waiting_for_ports())
        {
            return None;
        }
        // Check all ports: BMv2 stops forwarding on every port while one interface is down, which would explain the
        // silence.
        let are_up = |switch: SwitchIx| {
            let ends = self.incident[switch_index(switch)].iter().map(|&other| &self.directions[other]);
            ends.flat_map(|direction| [direction.from, direction.to])
                .all(|end| end.0 != switch || state(end) == Some(true))
        };
        let mut without_links =
            ends.into_iter().map(|end| end.0).filter(|&end| self.lost_all_links(end, direction)).peekable();
        let is_kept = without_links.peek().is_some()
            && without_links.all(are_up)
            && ends.into_iter().all(|end| state(end) == Some(true));
        Some(!is_kept)
    }

    /// Returns whether no link of a switch has passed a probe since the lost direction went silent.
    fn lost_all_links(&self, at: SwitchIx, lost: &DirectionState) -> bool {
        self.incident[switch_index(at)]
            .iter()
            .all(|&other| self.directions[other].last_seen_round <= lost.loss_base_round + 1)
    }

    /// Takes a direction down. If all links of one of its switches are lost, port states are requested first.
    fn on_direction_lost(&mut self, index: usize) {
        let direction = &self.directions[index];
        let ends = [direction.from.0, direction.to.0];
        if ends.into_iter().any(|at| self.lost_all_links(at, direction)) {
            self.directions[index].is_suspect = true;
            ends.into_iter().for_each(|at| self.request_port_states(at));
        } else {
            self.directions[index].set_down();
            self.update_down();
        }
    }

    fn request_port_states(&mut self, at: SwitchIx) {
        if self.channels[switch_index(at)].request_port_states() {
            self.port_queries.push(at);
        }
    }

    /// Requests port states of the neighbours of silent switches: only they can report whether the links are connected.
    fn query_neighbours_of_silent_switches(&mut self, now: Time) {
        let timeout = self.config.reply_timeout();
        if !self.round.is_multiple_of(self.config.loss_threshold.into()) {
            return;
        }
        let neighbours: BTreeSet<SwitchIx> = self
            .directions
            .iter()
            .filter(|direction| {
                direction.is_up && self.channels[switch_index(direction.to.0)].is_silent(now, timeout)
            })
            .map(|direction| direction.from.0)
            .filter(|&from| self.is_responsive(from, now))
            .collect();
        neighbours.into_iter().for_each(|at| self.request_port_states(at));
    }

    /// Restarts the loss count of all links of a switch.
    fn restart_loss_counts(&mut self, at: SwitchIx) {
        self.channels[switch_index(at)].reset_counters();
        for &index in &self.incident[switch_index(at)] {
            self.directions[index].restart_loss_count(self.round);
        }
    }

    fn update_down(&mut self) {
        self.down = self
            .directions
            .iter()
            .filter(|direction| !direction.is_up)
            .map(|direction| direction.link)
            .collect();
    }
}

fn switch_index(at: SwitchIx) -> usize {
    at.0 as usize
}
