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
    /// number to [`LinkMonitor::answered`] when the switch replies.
    pub echoes: Vec<(SwitchIx, u64)>,
}

/// Detects failed links between switches. Sans-I/O: reads no clock and opens no socket.
///
/// Call [`tick`](Self::tick) at [`next_tick`](Self::next_tick) and send the messages that it returns. Report the
/// messages of each switch in the order in which it sent them: packet-ins to [`received`](Self::received), replies to
/// [`answered`](Self::answered). Time must not go backwards.
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
    contacts: Vec<ControlChannel>,
    down: BTreeSet<LinkIx>,
    questions: Vec<SwitchIx>,
    kept: BTreeSet<LinkIx>,
}

struct DirectionState {
    link: LinkIx,
    forward: bool,
    from: (SwitchIx, u16),
    to: (SwitchIx, u16),
    /// A probe has arrived since the last tick.
    probe_seen: bool,
    /// Round of the latest probe that arrived; 0 if none has.
    last_seen_round: u64,
    /// Loss is counted from this round on.
    loss_base_round: u64,
    /// Probes up to this round were sent before the echo in flight at the receiver. Those that have not arrived when
    /// the receiver replies are lost.
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
    fn forget(&mut self, round: u64) {
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
        let contacts = vec![ControlChannel::new(); topology.switches.len()];
        LinkMonitor {
            config,
            run,
            round: 0,
            next_tick: now,
            directions,
            incident,
            contacts,
            down: BTreeSet::new(),
            questions: Vec::new(),
            kept: BTreeSet::new(),
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
        let contact = &self.contacts[switch_index(at)];
        contact.is_connected()
            && contact.answers() > self.config.loss_threshold.max(self.config.recovery_threshold)
    }

    /// Returns whether a switch is connected and replies in time.
    pub fn is_answering(&self, at: SwitchIx, now: Time) -> bool {
        self.contacts[switch_index(at)].is_answering(now, self.config.reply_timeout())
    }

    /// Removes and returns the switches whose port states are needed. Report them to
    /// [`port_states`](Self::port_states).
    pub fn take_port_queries(&mut self) -> Vec<SwitchIx> {
        take(&mut self.questions)
    }

    /// Removes and returns the links that lost all probes but stay up, because the ports at both ends are up.
    pub fn take_kept_links(&mut self) -> BTreeSet<LinkIx> {
        take(&mut self.kept)
    }

    /// Called when a switch has accepted this controller as primary.
    pub fn connected(&mut self, at: SwitchIx) {
        self.contacts[switch_index(at)].connect();
        self.forget(at);
    }

    /// Called when the control channel of a switch is lost, and after each failed attempt to reconnect.
    pub fn disconnected(&mut self, at: SwitchIx, loss: ControlLoss) {
        let is_dead = self.contacts[switch_index(at)].on_loss(loss, self.config.loss_threshold);
        self.forget(at);
        if is_dead {
            for &index in &self.incident[switch_index(at)] {
                self.directions[index].set_down();
            }
            self.update_down();
        }
    }

    /// Called when a switch rejects the packet-out of a probe.
    pub fn refused(&mut self, at: SwitchIx) {
        for &index in &self.incident[switch_index(at)] {
            let it = &mut self.directions[index];
            if it.from.0 == at {
                it.forget(self.round);
            }
        }
    }

    /// Ends the current interval and starts the next. Returns the messages to send.
    pub fn tick(&mut self, now: Time) -> ProbeRound {
        let is_late = self.round > 0 && now > self.next_tick + self.config.interval;
        self.next_tick = if is_late { now } else { self.next_tick } + self.config.interval;
        for it in &mut self.directions {
            if take(&mut it.probe_seen) {
                it.good_streak = it.good_streak.saturating_add(1);
                it.is_up |= it.good_streak >= self.config.recovery_threshold;
            }
        }
        self.update_down();
        if is_late {
            // Switches may have dropped packet-ins while the controller did not read them.
            (0..self.contacts.len()).for_each(|index| self.forget(SwitchIx(index as u32)));
        }
        self.round += 1;
        self.ask_neighbours_of_silent_switches(now);
        let (round, patience) = (self.round, self.config.reply_timeout());
        // An unresponsive switch gets no further probes, so that none queue up in its connection.
        let can_send: Vec<bool> = self.contacts.iter().map(|it| it.is_answering(now, patience)).collect();
        let mut out = ProbeRound::default();
        for (index, contact) in self.contacts.iter_mut().enumerate() {
            if contact.start_echo(round, now) {
                out.echoes.push((SwitchIx(index as u32), round));
            }
        }
        for it in &mut self.directions {
            // Echoes were pushed in switch order, hence sorted by switch. The sender has replied to an echo that
            // followed the probes of round `accepted`, and the receiver's echo is sent only now. Both channels are
            // ordered, so a probe that has not arrived when the receiver replies is lost, however slow the control
            // plane is.
            if out.echoes.binary_search(&(it.to.0, round)).is_ok() {
                it.confirmed_round = self.contacts[switch_index(it.from.0)].accepted;
            }
            if can_send[switch_index(it.from.0)] && self.contacts[switch_index(it.to.0)].is_connected() {
                let (link, forward) = (it.link.0, it.forward);
                let probe = LinkProbe { run: self.run, link, forward, sequence: round as u32 };
                out.probes.push((it.from.0, it.from.1, probe));
            }
        }
        out
    }

    /// Handles a packet-in: the switch that sent it, the ingress port of the probe, and the frame.
    pub fn received(&mut self, at: SwitchIx, port: u16, frame: &[u8]) -> PacketInKind {
        let Some(probe) = LinkProbe::parse(frame) else { return PacketInKind::NotAProbe };
        if probe.run != self.run {
            return PacketInKind::Foreign;
        }
        // Sorted by link, forward before backward; negating `forward` gives this order, as false < true.
        let key = (LinkIx(probe.link), !probe.forward);
        let Ok(index) = self.directions.binary_search_by_key(&key, |it| (it.link, !it.forward)) else {
            return PacketInKind::WrongPort;
        };
        let it = &mut self.directions[index];
        // The frame contains the low 32 bits of the round, so the difference wraps.
        let age = (self.round as u32).wrapping_sub(probe.sequence);
        let round = self.round.checked_sub(age.into()).filter(|&round| round > 0);
        let Some(round) = round.filter(|_| it.to == (at, port)) else { return PacketInKind::WrongPort };
        it.probe_seen |= round > it.last_seen_round;
        it.last_seen_round = it.last_seen_round.max(round);
        it.loss_base_round = it.loss_base_round.max(round);
        it.is_suspect = false;
        self.contacts[switch_index(it.from.0)].has_sent_probe = true;
        self.contacts[switch_index(it.to.0)].has_returned_probe = true;
        PacketInKind::Probe
    }

    /// Handles a switch's reply to a request of [`ProbeRound::echoes`].
    pub fn answered(&mut self, at: SwitchIx, round: u64, now: Time) {
        match self.contacts[switch_index(at)].answer(round, now, self.config.reply_timeout()) {
            None => return,
            // A switch this slow may have dropped packet-ins.
            Some(false) => return self.forget(at),
            Some(true) => {}
        }
        let (mut lost, mut unheard) = (Vec::new(), Vec::new());
        for &index in &self.incident[switch_index(at)] {
            let it = &mut self.directions[index];
            let (from, to) = (&self.contacts[switch_index(it.from.0)], &self.contacts[switch_index(it.to.0)]);
            let silence = it.confirmed_round.saturating_sub(it.loss_base_round);
            if it.to.0 != at || silence == 0 {
                continue;
            }
            if it.last_seen_round == 0 && !(from.has_sent_probe && to.has_returned_probe) {
                if it.is_up && silence >= self.config.loss_threshold.into() {
                    unheard.extend([it.from.0, it.to.0]);
                }
                continue;
            }
            it.good_streak = 0;
            if it.is_up && !it.is_suspect && silence >= self.config.loss_threshold.into() {
                lost.push(index);
            }
        }
        for index in lost {
            self.lose(index);
        }
        for at in unheard {
            if self.contacts[switch_index(at)].ask_ports_for_unheard(self.round, UNSEEN_QUERY_ROUNDS) {
                self.questions.push(at);
            }
        }
    }

    /// Handles the port states of a switch, `(port, is_up)`. `None` if they could not be read.
    pub fn port_states(&mut self, at: SwitchIx, ports: Option<Vec<(u16, bool)>>) {
        self.contacts[switch_index(at)].take_ports(ports);
        for index in self.incident[switch_index(at)].clone() {
            match self.is_down(index, at) {
                Some(true) => self.directions[index].set_down(),
                Some(false) => {
                    self.directions[index].forget(self.round);
                    self.kept.insert(self.directions[index].link);
                }
                None => {}
            }
        }
        self.update_down();
    }

    /// Decides whether a direction is down after new port states of switch `at`. Returns `None` if they change nothing.
    fn is_down(&self, index: usize, at: SwitchIx) -> Option<bool> {
        let it = &self.directions[index];
        let ends = [it.from, it.to];
        let state = |(switch, port): (SwitchIx, u16)| self.contacts[switch_index(switch)].port(port);
        let is_silent = it.last_seen_round + u64::from(self.config.loss_threshold) < self.round;
        if is_silent && ends.into_iter().any(|end| end.0 == at && state(end) == Some(false)) {
            return Some(true);
        }
        if !it.is_suspect || ends.iter().any(|end| self.contacts[switch_index(end.0)].waits_for_ports()) {
            return None;
        }
        // Check all ports: BMv2 stops forwarding on every port while one interface is down, which would explain the
        // silence.
        let are_up = |switch: SwitchIx| {
            let ends = self.incident[switch_index(switch)].iter().map(|&other| &self.directions[other]);
            ends.flat_map(|it| [it.from, it.to]).all(|end| end.0 != switch || state(end) == Some(true))
        };
        let mut total =
            ends.into_iter().map(|end| end.0).filter(|&end| self.lost_all_links(end, it)).peekable();
        let is_kept = total.peek().is_some()
            && total.all(are_up)
            && ends.into_iter().all(|end| state(end) == Some(true));
        Some(!is_kept)
    }

    /// Returns whether all links of a switch went silent no later than the lost direction.
    fn lost_all_links(&self, at: SwitchIx, lost: &DirectionState) -> bool {
        self.incident[switch_index(at)]
            .iter()
            .all(|&other| self.directions[other].last_seen_round <= lost.loss_base_round + 1)
    }

    /// Takes a direction down. If all links of one of its switches are lost, port states are requested first.
    fn lose(&mut self, index: usize) {
        let it = &self.directions[index];
        let ends = [it.from.0, it.to.0];
        if ends.into_iter().any(|at| self.lost_all_links(at, it)) {
            self.directions[index].is_suspect = true;
            ends.into_iter().for_each(|at| self.ask_ports(at));
        } else {
            self.directions[index].set_down();
            self.update_down();
        }
    }

    fn ask_ports(&mut self, at: SwitchIx) {
        if self.contacts[switch_index(at)].request_port_states() {
            self.questions.push(at);
        }
    }

    /// Requests port states of the neighbours of silent switches: only they can report whether the links are connected.
    fn ask_neighbours_of_silent_switches(&mut self, now: Time) {
        let patience = self.config.reply_timeout();
        if !self.round.is_multiple_of(self.config.loss_threshold.into()) {
            return;
        }
        let neighbours: BTreeSet<SwitchIx> = self
            .directions
            .iter()
            .filter(|it| it.is_up && self.contacts[switch_index(it.to.0)].is_silent(now, patience))
            .map(|it| it.from.0)
            .filter(|&from| self.is_answering(from, now))
            .collect();
        neighbours.into_iter().for_each(|at| self.ask_ports(at));
    }

    /// Restarts the loss count of all links of a switch.
    fn forget(&mut self, at: SwitchIx) {
        self.contacts[switch_index(at)].reset_counters();
        for &index in &self.incident[switch_index(at)] {
            self.directions[index].forget(self.round);
        }
    }

    fn update_down(&mut self) {
        self.down = self.directions.iter().filter(|it| !it.is_up).map(|it| it.link).collect();
    }
}

fn switch_index(at: SwitchIx) -> usize {
    at.0 as usize
}
